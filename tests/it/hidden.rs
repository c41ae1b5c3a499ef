//! What stays hidden whatever is done to names: by the command, by another sandbox of the same user, before the next run. And what real
//! root, and root by sudo, have besides.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use crate::cases;
use crate::internet::internet;
use crate::sandbox::{Output, Run, Running, code};
use crate::surroundings::Bound;

cases![
    a_store_cannot_be_moved_for_the_next_run,
    links_cannot_be_changed_for_the_next_run,
    another_sandbox_cannot_uncover_a_store,
    the_place_for_secrets_is_hidden_from_every_sandbox,
    credentials_of_every_user_are_hidden_from_root,
    what_steers_a_run_cannot_be_changed_for_the_next,
    moving_what_is_above_the_working_directory,
    a_working_directory_that_was_replaced,
    root_does_not_work_where_the_system_is,
    a_tmp_of_its_own,
    by_sudo_root_opens_what_the_user_cannot,
    an_audit_on_a_full_disk_does_not_start,
    an_audit_on_a_disk_that_fills_up,
];

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn write(path: &Path, text: &str) -> String {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

/// The words of a script that goes on when the test says so with [`go`].
const WAIT: &str = "echo ready; while [ ! -e go ]; do sleep 0.02; done";

fn go(run: Running, work: &Path) -> Output {
    fs::write(work.join("go"), "").unwrap();
    run.wait()
}

fn a_store_cannot_be_moved_for_the_next_run() {
    let first = Run::new();
    let home = first.home();
    for store in [".config/gh/hosts.yml", ".local/share/keyrings/k", ".cache/huggingface/token", ".ssh/id"] {
        write(&home.join(store), "canary-of-moved");
    }
    let moves = "cd \"$HOME\"; for name in .config .local/share .local .cache/huggingface .cache .ssh ../home; do
            mkdir -p ../aside; mv $name ../aside/; mv -T $name visible; mkdir -p $name
        done; rm -rf .config .local .cache; true";
    let next = Run::new().env("HOME", &home.display().to_string());
    let outside = first.outside().display().to_string();
    first.script(moves).run().expect_code(0);
    let output = next.script(&format!("cd {outside}; find . -type f -exec cat {{}} + ; true")).run();
    assert!(!output.stdout.contains("canary"), "{output:#?}");
    let kept = fs::read_to_string(home.join(".config/gh/hosts.yml"));
    assert_eq!(kept.unwrap(), "canary-of-moved");
}

/// A store that a link leads to is looked for through the link, and so is a policy.
fn links_cannot_be_changed_for_the_next_run() {
    let host = "links.hidden.allowed.test";
    let first = Run::new();
    let (home, work) = (first.home(), first.work());
    write(&home.join("dotfiles/aws/credentials"), "canary-of-links");
    write(&home.join("dotfiles/config/gh/hosts.yml"), "canary-of-links");
    write(&home.join("dotfiles/policy.toml"), "[network]\nmode = \"none\"\n");
    symlink("dotfiles/aws", home.join(".aws")).unwrap();
    symlink(home.join("dotfiles/config"), home.join(".config")).unwrap();
    symlink(home.join("dotfiles/policy.toml"), work.join("policy.toml")).unwrap();
    let with_policy = |run: Run| run.arg("--policy").arg(&work.join("policy.toml").display().to_string());
    let changes = "cd \"$HOME\"; for link in .aws .config \"$OLDPWD/policy.toml\"; do
            mv $link moved; rm -f $link; ln -sfn decoy $link; mv -T decoy $link
        done; mkdir -p decoy/gh; cp -r decoy .aws; echo '[network]\nmode = \"all\"' > \"$OLDPWD/policy.toml\"; mv dotfiles other; ls .config";
    with_policy(first).script(changes).run().expect_code(0).expect_stdout("gh\n");
    let next = with_policy(Run::new().env("HOME", &home.display().to_string()));
    let look = format!("cd \"$HOME\"; find . -type f ! -name policy.toml -exec cat {{}} + ; curl -sS https://{host}/");
    let output = next.script(&look).run();
    output.expect_code(0).expect_stdout("host_not_listed");
    assert!(!output.stdout.contains("canary"), "{output:#?}");
}

/// Mounts belong to a mount namespace, names to everybody: what happens to a mask when another sandbox changes names?
fn another_sandbox_cannot_uncover_a_store() {
    let first = Run::new();
    let (home, work) = (first.home(), first.work());
    for store in [".config/gh/hosts.yml", ".ssh/id", ".netrc", "deep/er/place"] {
        write(&home.join(store), "canary-of-uncovered");
    }
    let secret = write(&first.outside().join("keys/deep/key"), "canary-of-uncovered-secret");
    let outside = first.outside().display().to_string();
    let read = format!("{WAIT}; cd {outside}; find . -type f ! -name audit.jsonl -exec cat {{}} + ; true");
    let first = first.allow("allowed.test").bind("allowed.test X-Api-Key: {KEY}");
    let running = first.arg("--secret").arg(&format!("KEY=file:{secret}")).script(&read).start();
    running.wait_for("ready");
    // The other one masks the same stores, but knows nothing of the secret; the rest is up to names.
    let attack = format!(
        "import ctypes, glob, os
libc = ctypes.CDLL(None, use_errno=True)
def try_all(*calls):
    for call in calls:
        try: call()
        except OSError: pass
home, keys = '{home}', '{outside}/keys'
os.makedirs('decoy', exist_ok=True)
for path in [home + '/.config/gh', home + '/.ssh', home + '/.netrc', home + '/.config', home]:
    try_all(lambda: os.rmdir(path), lambda: os.unlink(path), lambda: os.rename(path, path + '-away'))
    libc.renameat2(-100, path.encode(), -100, b'decoy', 2)
    libc.renameat2(-100, b'decoy', -100, path.encode(), 2)
for process in glob.glob('/proc/[0-9]*'):
    for store in ['.ssh/id', '.config/gh/hosts.yml', '.netrc']:
        try_all(lambda: print(open(process + '/root' + home + '/' + store).read()))
for name in ['.ssh/id', '.config/gh/hosts.yml', '.netrc', '.ssh-away/id', '.config-away/gh/hosts.yml']:
    try_all(lambda: print(open(home + '/' + name).read()))
os.system('mv {outside}/keys/deep {outside}/keys/moved; mv {outside}/keys {outside}/moved-keys; mkdir -p {outside}/keys/deep')",
        home = home.display()
    );
    let other = Run::new().env("HOME", &home.display().to_string()).python(&attack).run();
    other.expect_code(0);
    assert!(!other.stdout.contains("canary"), "{other:#?}");
    let output = go(running, &work);
    output.expect_code(0);
    let shown = output.stdout.replace("canary-of-uncovered", "!");
    assert_eq!(shown.matches('!').count(), 1, "all but the plain file is hidden: {output:#?}");
}

fn the_place_for_secrets_is_hidden_from_every_sandbox() {
    let first = Run::new();
    let key = write(&first.home().join(".config/sandbox-proxy/key"), "canary-of-place");
    let other = Run::new().env("HOME", &first.home().display().to_string());
    let host = "place.hidden.allowed.test";
    let first =
        first.allow(host).bind(&format!("{host} X-Api-Key: {{KEY}}")).arg("--secret").arg(&format!("KEY=file:{key}"));
    let output = first.script(&format!("cat {key}; curl -sSf https://{host}/status/200")).run();
    output.expect_code(0);
    assert!(!output.stdout.contains("canary"), "{output:#?}");
    assert_eq!(internet().web.requests(host)[0].header("x-api-key"), ["canary-of-place"]);
    let output = other.script(&format!("cat {key} && echo OPEN; true")).run();
    output.expect_code(0).expect_stderr("No such file");
    assert_eq!(output.stdout, "", "{output:#?}");
}

/// Root can read in every home, so every home's stores are masked.
fn credentials_of_every_user_are_hidden_from_root() {
    if !is_root() {
        return;
    }
    let run = Run::new();
    let homes = run.outside().join("homes");
    write(&homes.join("someone/.ssh/id"), "canary-of-someone");
    write(&homes.join("someone/.config/gh/hosts.yml"), "canary-of-someone");
    write(&homes.join("someone/plain"), "plain");
    let _bound = Bound::new(&homes, "/home".into());
    let output = run.script("cat /home/someone/.ssh/id /home/someone/.config/gh/hosts.yml /home/someone/plain").run();
    assert_eq!(output.stdout, "plain", "{output:#?}");
}

/// BL-035: a policy that the command could write would be another one in the next run.
fn what_steers_a_run_cannot_be_changed_for_the_next() {
    let host = "steers.hidden.allowed.test";
    let none = "[network]\nmode = \"none\"\n";
    let run = Run::new().file("conf/policy.toml", none);
    let ca = fs::read_to_string(internet().pki.root_file()).unwrap();
    let run =
        run.file("conf/ca.pem", &ca).arg("--policy").arg("conf/policy.toml").arg("--upstream-ca").arg("conf/ca.pem");
    let work = run.work();
    let script = format!(
        "exec 2>&1; for file in conf/policy.toml conf/ca.pem; do
            echo changed > $file; echo changed >> $file; truncate -s 0 $file; chmod 777 $file; rm -f $file; mv $file other
            echo changed > new; mv -f new $file; ln -f new $file; sed -i s/none/all/ $file
        done; mv conf other-conf; rm -rf conf; mkdir -p conf
        curl -sS https://{host}/"
    );
    run.script(&script).run().expect_stdout("host_not_listed");
    assert_eq!(fs::read_to_string(work.join("conf/policy.toml")).unwrap(), none);
    assert_eq!(fs::read_to_string(work.join("conf/ca.pem")).unwrap(), ca);
}

/// Nothing follows the path: neither masks nor the record nor the command's own place.
fn moving_what_is_above_the_working_directory() {
    let host = "above.hidden.allowed.test";
    let run = Run::new().allow(host).file("deep/er/own", "own");
    let (deep, top) = (run.work().join("deep/er"), run.work());
    write(&run.home().join(".ssh/id"), "canary-of-above");
    let home = run.home().display().to_string();
    let script = format!(
        "exec 2>&1; mv ../../deep ../../away; mkdir -p ../../deep/er; echo other > ../../deep/er/own
        cat own; echo x > written; cat {home}/.ssh/id; curl -sSf https://{host}/status/200"
    );
    let output = run.script(&script).to_command().current_dir(&deep).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(code(output.status) == 0 && shown.contains("status 200") && !shown.contains("canary"), "{shown}");
    // Real root cannot even move it: all above is read-only.
    let place = if is_root() { top.join("deep/er") } else { top.join("away/er") };
    assert!(shown.starts_with("own") || is_root() && shown.contains("Read-only file system"), "{shown}");
    assert_eq!(fs::read_to_string(place.join("written")).unwrap(), "x\n");
}

/// Another sandbox of root's, whose working directory lies higher up, may put something else in the place of one that was
/// looked at already. That must not become writable.
fn a_working_directory_that_was_replaced() {
    let run = Run::new().file("go-first", "");
    let other = run.outside().join("other");
    fs::create_dir(&other).unwrap();
    let work = run.work();
    let mut command = run.script("touch touched").to_shell(&["sh", "-c"], "read word; exec ");
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The shell has started in the directory that is covered now.
    while fs::read_link(format!("/proc/{}/cwd", child.id())).unwrap() != work {
        std::thread::yield_now();
    }
    let _bound = Bound::new(&other, work);
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if is_root() {
        assert_eq!((code(output.status), other.join("touched").exists()), (125, false), "{said}");
        assert!(said.contains("is not the directory that the run was started in"), "{said}");
    }
}

fn root_does_not_work_where_the_system_is() {
    for place in ["/var", "/var/lib", "/opt", "/usr/bin", "/etc", "/sys", "/proc", "/"] {
        let output = Run::new().script("true").to_command().current_dir(place).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(output.status), if is_root() { 125 } else { 0 }, "{place}: {said}");
        assert!(!is_root() || said.contains("the working directory"), "{place}: {said}");
    }
}

/// Other services keep directories and sockets in the host's; root could use them all.
fn a_tmp_of_its_own() {
    let name = format!("sandbox-proxy-it-{}", std::process::id());
    let place = PathBuf::from("/tmp").join(&name);
    fs::create_dir_all(place.join("service/tmp/deep")).unwrap();
    fs::create_dir_all(place.join("work/own")).unwrap();
    fs::write(place.join("service/tmp/state"), "state").unwrap();
    let listener = UnixListener::bind(place.join("service/tmp/deep/socket")).unwrap();
    let run = || if is_root() { Run::new() } else { Run::new().arg("--private-tmp") };
    let attempt = format!(
        "import os, socket
try:
    socket.socket(socket.AF_UNIX).connect('/tmp/{name}/service/tmp/deep/socket')
    print('OPEN')
except OSError as error:
    print(error)
print(os.listdir('/tmp'))
open('/tmp/{name}', 'w').write('x')
print('written')"
    );
    let output = run().python(&attempt).run();
    output.expect_code(0).expect_stdout("No such file").expect_stdout("[]\nwritten");
    // A working directory in it is given back.
    let mut command = run().script("cat own/file; echo y > own/new; ls ..").to_command();
    fs::write(place.join("work/own/file"), "own\n").unwrap();
    let output = command.current_dir(place.join("work")).output().unwrap();
    let told =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    let written = fs::read_to_string(place.join("work/own/new"));
    listener.set_nonblocking(true).unwrap();
    let came = listener.accept().is_ok();
    fs::remove_dir_all(&place).unwrap();
    assert_eq!((told.0.as_str(), written.ok().as_deref(), came), ("own\nwork\n", Some("y\n"), false), "{}", told.1);
}

/// The launcher opens them while it is still root, and becomes the user then; the command finds nothing of them.
fn by_sudo_root_opens_what_the_user_cannot() {
    if !is_root() {
        return;
    }
    for (case, owner) in [("roots", 0), ("users", 2000)] {
        let host = format!("{case}.sudo.hidden.allowed.test");
        let run = Run::bare().env("SUDO_UID", "2000").env("SUDO_GID", "2000").allow(&host);
        let place = run.outside().join("closed/place");
        let canary = format!("canary-of-sudo-{case}");
        let key = write(&place.join("keys/key"), &canary);
        chown(&key, Some(owner), Some(owner)).unwrap();
        let policy = write(&place.join("policy.toml"), "[egress]\nmode = \"block_all\"\n");
        let root = write(&place.join("root.pem"), &fs::read_to_string(internet().pki.root_file()).unwrap());
        let audit = place.join("audit.jsonl");
        fs::set_permissions(place.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
        let shown = audit.display().to_string();
        let run = run.arg("--policy").arg(&policy).arg("--upstream-ca").arg(&root).arg("--audit").arg(&shown);
        let run = run.arg("--nameserver").arg(crate::rig::DNS).bind(&format!("{host} X-Api-Key: {{KEY}}"));
        let run = run.arg("--secret").arg(&format!("KEY=file:{key}"));
        let output =
            run.script(&format!("id -u; cat {key} {policy} {shown}; curl -sSf https://{host}/status/200")).run();
        output.expect_code(0).expect_stdout("2000\n").expect_stdout("status 200");
        assert!(!output.stdout.contains("canary") && !output.stdout.contains("verdict"), "{output:#?}");
        assert_eq!(output.stderr.matches("Permission denied").count(), 3, "{output:#?}");
        assert_eq!(internet().web.requests(&host)[0].header("x-api-key"), [canary]);
        assert_eq!(fs::read_to_string(&audit).unwrap().lines().count(), 1);
    }
}

/// A file system of this size, with an audit file of the run on it.
fn with_small_disk(run: Run, size: &str) -> (Run, PathBuf, Bound) {
    let disk = run.outside().join("disk");
    fs::create_dir(&disk).unwrap();
    let bound = Bound::new(&disk, disk.clone());
    mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), Some(format!("size={size}").as_str())).unwrap();
    let audit = disk.join("audit.jsonl");
    let run = run.arg("--upstream-ca").arg(&internet().pki.root_file().display().to_string());
    (run.arg("--nameserver").arg(crate::rig::DNS).arg("--audit").arg(&audit.display().to_string()), audit, bound)
}

fn an_audit_on_a_full_disk_does_not_start() {
    let (run, _, _disk) = with_small_disk(Run::bare(), "1m");
    let ran = run.work().join("ran");
    run.script("touch ran").run().expect_code(125).expect_stderr("--audit").expect_stderr("No space left");
    assert!(!ran.exists());
}

/// Every request that is answered has its row, and when there is no room for more rows there are no more answers.
fn an_audit_on_a_disk_that_fills_up() {
    let host = "fills.hidden.allowed.test";
    let (run, audit, _disk) = with_small_disk(Run::bare().allow(host), "8m");
    let (work, path) = (run.work(), "x".repeat(1900));
    let asks = format!("{WAIT}; curl -s -o /dev/null -w '%{{http_code}}\\n' 'https://{host}/{path}[1-1500]'");
    let running = run.script(&asks).start();
    running.wait_for("ready");
    // What the run has not taken yet.
    let mut filler = fs::File::create(audit.with_file_name("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    let output = go(running, &work);
    output.expect_code(125).expect_stderr("--audit").expect_stderr("No space left");
    let served = output.stdout.lines().filter(|line| !["ready", "503"].contains(line)).count();
    let rows: Vec<serde_json::Value> =
        fs::read_to_string(&audit).unwrap().lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert!(served > 100 && output.stdout.ends_with("503\n"), "{served} {output:#?}");
    assert_eq!((rows.len(), internet().web.requests(host).len()), (served, served));
}
