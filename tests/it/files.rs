//! `[files]`: what a policy lets a command write. What is denied is tried in every way there is, and looked for outside.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::cases;
use crate::files_names::git;
use crate::internet::internet;
use crate::sandbox::{Run, code, need, refuses};
use crate::surroundings::Bound;

cases![
    nothing_but_what_is_allowed_is_written,
    as_gitlab_writes_it,
    tools_work_in_what_is_allowed,
    mounts_and_binds_of_the_same_files,
    what_steers_the_run_stays_as_it_is,
    streams_are_what_they_were,
    a_policy_that_says_nothing_limits_nothing,
    what_cannot_be_kept_is_refused,
    a_missing_layer_stops_the_start,
    a_secret_where_the_policy_lets_write_is_refused,
    root_writes_nowhere_in_the_system,
    bad_files_are_mistakes,
];

/// A run under `[files]` with these lines.
pub fn limited(lines: &str) -> Run {
    with_files(Run::new(), lines)
}

pub fn with_files(run: Run, lines: &str) -> Run {
    let path = run.outside().join("policy/policy.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("[files]\n{lines}\n")).unwrap();
    run.arg("--policy").arg(&path.display().to_string())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

pub fn write(path: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    path.to_owned()
}

/// `attempt(what, call)` says whether a call worked; `every_way(path)` tries all that changes, moves or replaces a file.
pub const ATTEMPTS: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, work):
    try:
        work()
        print(what, "OPEN")
    except OSError as error:
        print(what, "refused", error.errno)
def renameat2(a, b, flags):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), flags) < 0:
        raise OSError(ctypes.get_errno(), "renameat2")
def put(path, mode="w"):
    with open(path, mode) as file:
        file.write("changed")
# The spare is where the command may write.
def every_way(path, spare):
    put(spare)
    attempt(f"write {path}", lambda: put(path))
    attempt(f"append {path}", lambda: put(path, "a"))
    attempt(f"update {path}", lambda: put(path, "r+"))
    attempt(f"create in {path}", lambda: put(path + "/new"))
    attempt(f"truncate {path}", lambda: os.truncate(path, 0))
    attempt(f"chmod {path}", lambda: os.chmod(path, 0o777))
    attempt(f"utime {path}", lambda: os.utime(path, (1, 1)))
    attempt(f"xattr {path}", lambda: os.setxattr(path, "user.x", b"x"))
    attempt(f"rename {path}", lambda: os.rename(path, spare + "-moved"))
    attempt(f"replace {path}", lambda: os.rename(spare, path))
    attempt(f"exchange {path}", lambda: renameat2(spare, path, 2))
    attempt(f"exchange with {path}", lambda: renameat2(path, spare, 2))
    attempt(f"unlink {path}", lambda: os.unlink(path))
    attempt(f"rmdir {path}", lambda: os.rmdir(path))
    attempt(f"mkdir {path}", lambda: os.mkdir(path))
    attempt(f"symlink {path}", lambda: os.symlink("/etc/passwd", path))
    attempt(f"mkfifo {path}", lambda: os.mkfifo(path))
    attempt(f"hard link onto {path}", lambda: os.link(spare, path))
    def through(name):
        put(name)
    def by_link():
        os.link(path, spare + "-link")
        through(spare + "-link")
    attempt(f"by hard link {path}", by_link)
    def by_symlink():
        try: os.unlink(spare + "-soft")
        except OSError: pass
        os.symlink(os.path.abspath(path), spare + "-soft")
        through(spare + "-soft")
    attempt(f"by symlink {path}", by_symlink)
    for way in ["/proc/self/root", "/proc/self/cwd/../../../../../../../../.."]:
        attempt(f"by {way} {path}", lambda: put(way + os.path.abspath(path)))
    def by_descriptor():
        held = os.open(path, os.O_RDONLY)
        os.close(os.open(f"/proc/self/fd/{held}", os.O_WRONLY))
    if os.path.isfile(path):
        attempt(f"by descriptor {path}", by_descriptor)
"#;

#[track_caller]
pub fn nothing_open(run: Run, code: &str) -> String {
    let output = run.python(&format!("{ATTEMPTS}{code}\nprint('end')")).run();
    output.expect_code(0).expect_stdout("end\n");
    assert!(!output.stdout.contains("OPEN"), "{output:#?}");
    output.stdout
}

/// What there is of a file for others to see.
pub fn state(path: &Path) -> (Option<String>, u32, u64, i64) {
    let data = path.symlink_metadata().unwrap();
    (fs::read_to_string(path).ok(), data.mode(), data.nlink(), data.mtime())
}

fn nothing_but_what_is_allowed_is_written() {
    let run = limited("allow_write = [\"out\"]");
    let kept = [
        write(&run.work().join("file"), "kept"),
        write(&run.work().join("sub/file"), "kept"),
        write(&run.home().join(".bashrc"), "kept"),
        write(&run.outside().join("beside/file"), "kept"),
        write(Path::new(&format!("/var/tmp/sandbox-proxy-it-files-{}", std::process::id())), "kept"),
    ];
    fs::create_dir(run.work().join("out")).unwrap();
    symlink("../file", run.work().join("out/link")).unwrap();
    let (before, work) = (kept.each_ref().map(|path| state(path)), run.work());
    let paths = kept.each_ref().map(|path| path.display().to_string());
    let code = format!(
        "for path in {paths:?}:
    every_way(path, 'out/spare')
    every_way(os.path.dirname(path) + '/new', 'out/spare')
for path in ['out/../file', 'out/../sub/../file', './new', '.', 'sub', '..', '/var/tmp/new', '/usr/new', '/home/new']:
    every_way(path, 'out/spare')
for path in ['out/link', '/etc/new', '/srv/new']:
    attempt('write ' + path, lambda: put(path))
attempt('tmp', lambda: put('/tmp/new-{id}') if {limited} else os.unlink('/none'))
for path in ['/proc/sys/kernel/core_pattern', '/sys/kernel/uevent_helper', '/dev/kmsg', '/dev/kvm', '/dev/fuse', '/dev/net/tun']:
    attempt(path, lambda: os.close(os.open(path, os.O_WRONLY)))",
        id = std::process::id(),
        limited = if is_root() { "False" } else { "True" },
    );
    nothing_open(run, &code);
    let after = kept.each_ref().map(|path| state(path));
    fs::remove_file(&kept[4]).unwrap();
    assert_eq!(after, before);
    let mut names: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "out", "sub"]);
    // What stays: the allowed tree, what is the sandbox's own, the usual nodes, the own /proc.
    let run = limited("allow_write = [\"out\"]").file("out/file", "x");
    let script = "set -e; echo y > out/file; mkdir -p out/a/b; mv out/a/b out/c; ln out/file out/c/link; rm out/file; chmod 600 out/c/link
        for node in /dev/null /dev/zero /dev/full /dev/random /dev/urandom; do : > $node; done
        echo x > /run/new; echo x > /dev/shm/new; echo 500 > /proc/self/oom_score_adj || true
        python3 -c 'import pty; pty.spawn([\"true\"])' > /dev/null; cat out/c/link";
    let work = run.work();
    run.script(script).run().expect_code(0).expect_stdout("y\n");
    assert_eq!(fs::read_to_string(work.join("out/c/link")).unwrap(), "y\n");
}

/// Landlock's rules on moving files between directories, and read-only mounts, get in nobody's way.
fn tools_work_in_what_is_allowed() {
    for program in ["git:git", "npm:npm", "cc:build-essential", "make:make"] {
        let (program, package) = program.split_once(':').unwrap();
        need(program, package);
    }
    let toolchain = std::env::var("IT_TOOLCHAIN").unwrap_or_else(|_| env!("CARGO").replace("/bin/cargo", ""));
    let run = limited("allow_write = [\".\"]").arg("--private-tmp");
    let run = run.file("crate/Cargo.toml", "[package]\nname = \"own\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let run = run.file("crate/src/main.rs", "fn main() { println!(\"built\") }\n").file("crate/src/lib.rs", "");
    let run = run
        .file("pkg/package.json", "{\"name\": \"pkg\", \"version\": \"1.0.0\"}")
        .file("app/package.json", "{\"name\": \"app\"}");
    let run = run
        .file("py/pyproject.toml", "[project]\nname = \"own\"\nversion = \"1\"\n")
        .file("c/Makefile", "own: own.c\n\tcc -o $@ $<\n");
    let run = run.file("c/own.c", "int main(void) { return 0; }\n").file("wheel.py", WHEEL);
    git(&run.work(), &["init", "-q", "repo"]);
    git(&run.work().join("repo"), &["commit", "-q", "--allow-empty", "-m", "one"]);
    let script = format!(
        "set -e; export CARGO_HOME=$PWD/cargo npm_config_cache=$PWD/npm
        (cd crate && PATH={toolchain}/bin:$PATH cargo run -q --offline && PATH={toolchain}/bin:$PATH cargo build -q --offline --release)
        make -s -C c && c/own
        git clone -q repo clone && (cd clone && git worktree add -q ../tree && git repack -qad && git fetch -q)
        (cd app && npm install --silent --no-audit --no-fund ../pkg) && ls app/node_modules
        python3 wheel.py && pip3 install -q --no-index --no-deps --target site own-1-py3-none-any.whl && ls site
        sqlite=$(python3 -c 'import sqlite3; c = sqlite3.connect(\"own.db\"); c.execute(\"create table t(x)\"); c.commit(); print(\"sqlite\")')
        echo $sqlite; tar cf own.tar crate/src && mkdir x && tar xf own.tar -C x && mv x/crate y && cp -a y z && sed -i s/main/main/ z/src/main.rs"
    );
    let output = run.script(&script).run();
    output
        .expect_code(0)
        .expect_stdout("built\n")
        .expect_stdout("pkg\n")
        .expect_stdout("own.py\n")
        .expect_stdout("sqlite\n");
}

/// Writes a wheel of one module, which needs nothing to be built.
const WHEEL: &str = r#"
import zipfile
with zipfile.ZipFile("own-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("own.py", "")
    wheel.writestr("own-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    wheel.writestr("own-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("own-1.dist-info/RECORD", "own.py,,\nown-1.dist-info/METADATA,,\nown-1.dist-info/WHEEL,,\nown-1.dist-info/RECORD,,\n")
"#;

/// The same files under other names, shown by other mounts.
fn mounts_and_binds_of_the_same_files() {
    let run = limited("allow_write = [\".\"]\ndeny_write = [\"kept\"]").file("kept/file", "kept").file("open/file", "");
    let elsewhere = run.outside().join("elsewhere");
    write(&elsewhere.join("file"), "kept");
    let (work, outside) = (run.work(), run.outside().to_owned());
    let _binds = [
        Bound::new(&work.join("kept"), work.join("alias")),
        Bound::new(&work, outside.join("whole")),
        Bound::new(&elsewhere, work.join("bound")),
    ];
    let outside = outside.display();
    let code = format!(
        "for path in ['alias/file', '{outside}/whole/kept/file', '{outside}/whole/open/file', '{outside}/elsewhere/file']:
    every_way(path, 'spare')
attempt('bound', lambda: put('bound/file') if {root} else os.unlink('/none'))",
        root = if is_root() { "True" } else { "False" }
    );
    nothing_open(run, &code);
    assert_eq!(fs::read_to_string(work.join("kept/file")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(elsewhere.join("file")).unwrap(), "kept");
}

/// With /tmp the host's and with one of the sandbox's own; started in it, too.
fn as_gitlab_writes_it() {
    let lines = "allow_write = [\"./\", \"/tmp\"]\ndeny_write = [\"/var/tmp/.gitlab-sandbox\", \"/tmp/kept\"]\ndeny_read = [\"~/.ssh\"]\nallow_git_config = true";
    let place = PathBuf::from(format!("/tmp/sandbox-proxy-it-files-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    let script =
        "set -e; echo x > file; t=$(mktemp); echo y > $t; cat $t; rm $t; rm file; ! touch /var/tmp/x-$$; ! touch ../x";
    let mut answers = Vec::new();
    for options in [&[][..], &["--private-tmp"]] {
        let run = options.iter().fold(limited(lines), |run, option| run.arg(option)).script(script);
        answers.push(run.to_command().output().unwrap());
        let script = "echo x > file; cat file; ls -A";
        let run = options.iter().fold(limited(lines), |run, option| run.arg(option)).script(script);
        answers.push(run.to_command().current_dir(&place).output().unwrap());
    }
    let left = fs::read_to_string(place.join("file"));
    fs::remove_dir_all(&place).unwrap();
    let told: Vec<String> = answers.iter().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).collect();
    assert!(answers.iter().all(|output| output.status.success()), "{answers:?}");
    assert!(
        told[0] == "y\n" && told[2] == "y\n" && told[1].starts_with("x\n") && told[3].starts_with("x\n"),
        "{told:?}"
    );
    assert_eq!(left.unwrap(), "x\n");
}

fn what_steers_the_run_stays_as_it_is() {
    let host = "steers.files.allowed.test";
    let policy = "[network]\nmode = \"none\"\n[files]\nallow_write = [\".\"]\n";
    let run = Run::bare().file("conf/policy.toml", policy).arg("--policy").arg("conf/policy.toml");
    let root = internet().pki.root_file().display().to_string();
    let run =
        run.arg("--upstream-ca").arg(&root).arg("--nameserver").arg(crate::rig::DNS).arg("--audit").arg("audit.jsonl");
    let (work, home) = (run.work(), run.home());
    write(&home.join(".ssh/id"), "canary-of-steers");
    let code = format!(
        "every_way('conf/policy.toml', 'spare')
for path in ['audit.jsonl', '{home}/.ssh/id', '{home}/.ssh']:
    attempt('write ' + path, lambda: put(path))
    attempt('replace ' + path, lambda: os.rename('spare', path))
attempt('move', lambda: os.rename('conf', 'moved'))
os.system('cat audit.jsonl {home}/.ssh/id; curl -sS https://{host}/')",
        home = home.display()
    );
    let told = nothing_open(run, &code);
    assert!(told.contains("host_not_listed") && !told.contains("canary"), "{told}");
    assert_eq!(fs::read_to_string(work.join("conf/policy.toml")).unwrap(), policy);
    assert_eq!(fs::read_to_string(work.join("audit.jsonl")).unwrap().lines().count(), 1);
}

/// A file that the person has put there is the command's by that; one that is denied is refused.
fn streams_are_what_they_were() {
    let run = limited("allow_write = [\".\"]\ndeny_write = [\"kept\"]").file("kept", "kept");
    let (work, log) = (run.work(), run.outside().join("log"));
    let run = run.script("echo one; echo two > /dev/stdout; echo three >&2; echo four >> /dev/fd/1");
    let status = run.to_command().stdout(File::create(&log).unwrap()).status().unwrap();
    let said = fs::read_to_string(&log).unwrap();
    assert!(code(status) == 0 && said.contains("four"), "{said}");
    // The descriptor is one of a mount outside, where nothing is read-only: this is Landlock's to refuse.
    let letter = write(&run.home().join("letter"), "kept");
    let run = run.script(
        "exec 2>&1; for way in /proc/self/fd/0 /dev/stdin; do echo changed > $way; echo changed >> $way; done; cat",
    );
    let output = run.to_command().stdin(File::open(&letter).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.matches("ermission denied").count() == 4 && said.ends_with("kept"), "{said}");
    assert_eq!(fs::read_to_string(&letter).unwrap(), "kept");
    let output = run.to_command().stdin(File::open(work.join("kept")).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(code(output.status) == 125 && said.contains("standard input is") && said.contains("cat |"), "{said}");
}

fn a_policy_that_says_nothing_limits_nothing() {
    for lines in ["[network]\nmode = \"none\"\n", "[files]\ndisabled = true\n"] {
        let run = Run::new().file("policy.toml", lines).arg("--policy").arg("policy.toml");
        let (work, home) = (run.work(), run.home());
        run.script("echo x > .bashrc; echo x > ~/file; echo x > file; true").run();
        assert_eq!([work.join(".bashrc").exists(), work.join("file").exists()], [true; 2], "{lines}");
        assert_eq!(home.join("file").exists(), !is_root());
    }
    let run = limited("deny_write = [\"x\"]");
    let work = run.work();
    run.script("touch file").run().expect_code(1).expect_stderr("disabled = true");
    assert!(!work.join("file").exists());
}

fn what_cannot_be_kept_is_refused() {
    let run = limited("allow_write = [\".\"]\ndeny_write = [\"kept\"]").file("kept", "kept");
    fs::hard_link(run.work().join("kept"), run.work().join("other")).unwrap();
    refuses(run, &["files: deny_write", "kept has 2 names", "copy it"]);
    for (lines, key) in [
        ("allow_write = [\"build\"]", "allow_write"),
        ("allow_write = [\".\", \"~/mine/build\"]", "allow_write"),
        ("deny_read = [\"~\"]\nallow_read = [\"build\"]", "allow_read"),
    ] {
        let run = limited(lines);
        let (work, home) = (run.work(), run.home());
        symlink(&home, work.join("build")).unwrap();
        symlink(&work, home.join("mine")).unwrap();
        refuses(run, &[&format!("files: {key}"), "is a link where an earlier run", "name what it leads to"]);
    }
    // A person's own link is followed.
    let run = limited("allow_write = [\"~/mine\"]");
    let real = run.outside().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, run.home().join("mine")).unwrap();
    run.script("touch ~/mine/file").run().expect_code(0);
    assert!(real.join("file").exists());
    // What does not exist opens nothing, and is said.
    let run = limited("allow_write = [\"absent\"]");
    run.script("mkdir absent").run().expect_code(1).expect_stderr("./absent does not exist");
    // A home that is none stands for everything.
    let run = limited("allow_write = [\"~/x\"]").env("HOME", "/");
    refuses(run, &["files: allow_write: ~/x", "the home is /"]);
    // A directory of the own that cannot be written just now.
    if !is_root() {
        let run = limited("allow_write = [\".\"]\ndeny_write = [\"closed/absent\"]");
        let closed = run.work().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
        refuses(run, &["files: deny_write", "closed/absent does not exist", "Permission denied"]);
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// Each system call as on a kernel that does not have it (`inside/without.py`).
fn a_missing_layer_stops_the_start() {
    // landlock_create_ruleset, mount_setattr, open_tree
    for (call, says) in [(444, "Landlock"), (442, "file system"), (428, "file system")] {
        let without = ["/usr/bin/python3", "-c", include_str!("inside/without.py"), &call.to_string()];
        refuses(limited("allow_write = [\".\"]").behind(&without), &[says]);
        let code = Run::new().behind(&without).script("true").run().code;
        assert_eq!(code, if is_root() { 125 } else { 0 }, "without [files] a user needs none of them: {call}");
    }
    let without = ["/usr/bin/python3", "-c", include_str!("inside/without.py"), "444"];
    refuses(limited("allow_write = [\".\"]").behind(&without), &["Linux 6.2", "hint: ", "disabled = true"]);
}

fn a_secret_where_the_policy_lets_write_is_refused() {
    let run = limited("allow_write = [\"../other\"]");
    let path = write(&run.outside().join("other/keys/key"), "canary");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let run = run.allow("allowed.test").bind("allowed.test X-Api-Key: {KEY}");
    let run = run.arg("--secret").arg(&format!("KEY=file:{}", path.display()));
    refuses(run, &["secret KEY", "which the command may write"]);
}

fn root_writes_nowhere_in_the_system() {
    for tree in ["/", "/etc", "/usr/local", "/home", "/var/lib", "/dev", "/proc", "/boot"] {
        if is_root() && Path::new(tree).exists() {
            refuses(limited(&format!("allow_write = [\"{tree}\"]")), &["as root", "allow_write"]);
        }
    }
    // Everything that is the user's, for a user.
    if !is_root() {
        let run = limited("allow_write = [\"/\"]\ndeny_write = [\"kept\"]").file("kept", "kept");
        let (work, home) = (run.work(), run.home());
        run.script("echo x > ~/file; echo x > file; echo x > kept; mv kept other").run().expect_code(1);
        assert!(work.join("file").exists() && home.join("file").exists());
        assert_eq!(fs::read_to_string(work.join("kept")).unwrap(), "kept");
    }
}

fn bad_files_are_mistakes() {
    for (lines, says) in [
        ("allow_writes = [\".\"]", "unknown key \"files.allow_writes\""),
        ("allow_write = []", "`files.allow_write` is empty"),
        ("allow_write = \".\"", "`files.allow_write` cannot be of type"),
        ("allow_write = [\"*.log\"]", "a path is no pattern"),
        ("allow_write = [\"~other/x\"]", "own home alone"),
        ("disabled = \"yes\"", "true or false"),
        ("disabled = true\ndeny_read = [\"~\"]", "has no effect beside disabled = true"),
        ("unix_sockets = \"some\"", "is not a value of `files.unix_sockets`"),
    ] {
        refuses(limited(lines), &["policy.toml:", says]);
    }
}
