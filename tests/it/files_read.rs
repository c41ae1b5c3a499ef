//! `[files]`: what a policy hides and shows, and the sockets of the host.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::cases;
use crate::files::limited;
use crate::sandbox::{Run, refuses};
use crate::surroundings::Bound;

cases![
    what_is_denied_is_hidden_and_what_is_allowed_in_it_is_shown,
    a_hidden_home_with_the_working_directory_in_it,
    files_that_appear_later_stay_hidden,
    credential_stores_stay_hidden,
    the_same_files_elsewhere_are_hidden,
    what_cannot_be_hidden_is_refused,
    sockets_are_hidden_unless_the_policy_shows_them,
    sockets_in_private_directories_are_given_back,
    sockets_of_credential_stores_stay_hidden,
    links_show_no_other_socket,
];

fn write(path: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    path.to_owned()
}

/// Every file of the run's own that can be read, as its name and its text.
const LOOK: &str = "find . -type f ! -name audit.jsonl ! -name policy.toml | sort | while read file; do echo \"$file=$(cat $file)\"; done";

fn what_is_denied_is_hidden_and_what_is_allowed_in_it_is_shown() {
    let run = limited(
        "deny_read = [\"../a\", \"../a/b/c\", \"../file\", \"../shown\", \"../a/x\"]
        allow_read = [\"../a/b\", \"../a/b/c/d\", \"../shown\", \"../a/one\", \"../a/x/y/z\"]",
    );
    let outside = run.outside().to_owned();
    for name in
        ["a/one", "a/two", "a/b/three", "a/b/c/four", "a/b/c/d/five", "file", "shown", "a/x/y/z", "a/x/y/w", "open"]
    {
        write(&outside.join(name), name.rsplit('/').next().unwrap());
    }
    let script = format!(
        "cd ..; {LOOK}; exec 2>/dev/null; cat a/two a/b/c/four file a/x/y/w /proc/self/cwd/a/two a/b/../two a/b/c/../../two
        ln a/two link; ln -s a/two soft; cat link soft; cp -r a copy; cat copy/two; mv a moved; cat moved/two; echo x > a/new; true"
    );
    let output = run.script(&script).run();
    let expected =
        "./a/b/c/d/five=five\n./a/b/three=three\n./a/one=one\n./a/x/y/z=z\n./file=\n./open=open\n./shown=shown\n";
    assert_eq!(output.expect_code(0).stdout, expected, "{output:#?}");
    assert_eq!(fs::read_to_string(outside.join("a/two")).unwrap(), "two");
}

/// As GitLab and srt settings have it.
fn a_hidden_home_with_the_working_directory_in_it() {
    let run = limited("deny_read = [\"~\"]\nallow_write = [\"~/project\"]\nallow_read = [\"~/tools\"]");
    let home = run.home();
    for name in ["project/own", "tools/tool", "letter", ".config/x/y"] {
        write(&home.join(name), name);
    }
    let script = format!("cd ~; {LOOK}; cd project; echo changed > own; touch ../new ../tools/new 2>&1 | wc -l");
    let run = run.script(&script);
    let output = run.to_command().current_dir(home.join("project")).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(shown, "./project/own=project/own\n./tools/tool=tools/tool\n2\n", "{output:?}");
    assert_eq!(fs::read_to_string(home.join("project/own")).unwrap(), "changed\n");
    // Where it starts must be seen.
    let run = limited("deny_read = [\"..\"]");
    refuses(run, &["the working directory", "is masked"]);
}

fn files_that_appear_later_stay_hidden() {
    let run = limited("deny_read = [\"../closed\"]\nallow_read = [\"../closed/shown\"]\nallow_write = [\".\"]");
    let (outside, work) = (run.outside().to_owned(), run.work());
    write(&outside.join("closed/shown/first"), "first");
    let look = "cat ../closed/late ../closed/shown/late ../closed/shown/first 2>/dev/null; ls ../closed";
    let running = run.script(&format!("echo ready; while [ ! -e go ]; do sleep 0.02; done; {look}")).start();
    running.wait_for("ready");
    write(&outside.join("closed/late"), "HIDDEN");
    write(&outside.join("closed/shown/late"), "shown");
    fs::write(work.join("go"), "").unwrap();
    let output = running.wait();
    assert_eq!(output.expect_code(0).stdout, "ready\nshownfirstshown\n", "{output:#?}");
}

fn credential_stores_stay_hidden() {
    for lines in [
        "allow_read = [\"~\", \"~/.ssh\", \"/\"]\ndeny_read = [\"/srv\"]",
        "deny_read = [\"~\"]\nallow_read = [\"~/.ssh\", \"~/.config\"]",
    ] {
        let run = limited(lines);
        write(&run.home().join(".ssh/id"), "canary");
        write(&run.home().join(".config/gh/hosts.yml"), "canary");
        write(&run.home().join(".config/other"), "other");
        let output = run.script("cat ~/.ssh/id ~/.config/gh/hosts.yml; cat ~/.config/other").run();
        assert_eq!(output.stdout, "other", "{lines} {output:#?}");
    }
}

fn the_same_files_elsewhere_are_hidden() {
    let run = limited("deny_read = [\"../a\", \"../one\"]");
    let outside = run.outside().to_owned();
    write(&outside.join("a/b/two"), "two");
    write(&outside.join("one"), "one");
    let _binds = [
        Bound::new(&outside.join("a"), outside.join("alias")),
        Bound::new(&outside.join("a/b"), outside.join("part")),
        Bound::new(&outside.join("a"), run.work().join("inside")),
    ];
    let output = run.script(&format!("cd ..; {LOOK}; cat alias/b/two part/two work/inside/b/two; true")).run();
    assert!(!output.stdout.contains("two=") && output.stdout.starts_with("./one=\n"), "{output:#?}");
    assert!(!output.stdout.contains("\ntwo"), "{output:#?}");
}

fn what_cannot_be_hidden_is_refused() {
    for path in ["/", "/proc", "/proc/self", "/dev", "/run", "/proc/sys"] {
        refuses(limited(&format!("deny_read = [\"{path}\"]")), &["files: deny_read", "of its own"]);
    }
    let run = limited("deny_read = [\"../one\"]");
    write(&run.outside().join("one"), "one");
    fs::hard_link(run.outside().join("one"), run.outside().join("two")).unwrap();
    refuses(run, &["files: deny_read", "one has 2 names"]);
    // A link is followed, and cannot be changed for the next run.
    let run = limited("deny_read = [\"~/link\"]");
    let (outside, home) = (run.outside().to_owned(), run.home());
    write(&outside.join("real/file"), "canary");
    symlink(outside.join("real"), home.join("link")).unwrap();
    let output =
        run.script(&format!("cat ~/link/file {}/real/file; rm ~/link; ln -s x ~/link; true", outside.display())).run();
    assert!(!output.stdout.contains("canary"), "{output:#?}");
    assert_eq!(fs::read_link(home.join("link")).unwrap(), outside.join("real"));
}

/// What comes of connecting to each of these.
fn connects(run: Run, paths: &[&Path]) -> (Vec<bool>, String) {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let code = format!(
        "import socket
for path in {names:?}:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print('connected')
    except OSError as error:
        print(error)"
    );
    let output = run.python(&code).run();
    output.expect_code(0);
    (output.stdout.lines().map(|line| line == "connected").collect(), output.stderr)
}

fn sockets_are_hidden_unless_the_policy_shows_them() {
    for (sockets, expected, says) in [
        ("", [false, false, false], ""),
        ("unix_sockets = [\"../one.sock\"]", [true, false, false], "the socket ./../one.sock is shown"),
        ("unix_sockets = [\"../dir\"]", [false, false, true], "the socket ./../dir is shown"),
        ("unix_sockets = \"all\"", [true, true, true], "every socket of the host is shown"),
    ] {
        for limits in ["disabled = true", "allow_write = [\".\"]"] {
            let run = limited(&format!("{limits}\n{sockets}"));
            let paths = ["one.sock", "two.sock", "dir/three.sock"].map(|name| run.outside().join(name));
            fs::create_dir(run.outside().join("dir")).unwrap();
            let _listeners = paths.each_ref().map(|path| UnixListener::bind(path).unwrap());
            let (connected, said) = connects(run, &paths.each_ref().map(PathBuf::as_path));
            assert_eq!(
                (connected.as_slice(), said.contains(says)),
                (expected.as_slice(), true),
                "{limits} {sockets} {said}"
            );
        }
    }
}

/// /run is the sandbox's own; what the policy shows is bound back into it.
fn sockets_in_private_directories_are_given_back() {
    let name = format!("sandbox-proxy-it-{}.sock", std::process::id());
    // Only root may write in /run, and only it has a /tmp of its own without asking.
    let is_root = nix::unistd::geteuid().is_root();
    let directory = if is_root { "/run" } else { "/tmp" };
    let path = PathBuf::from(directory).join(name);
    let _listener = UnixListener::bind(&path).unwrap();
    let run = |sockets: &str| limited(&format!("disabled = true\n{sockets}")).arg("--private-tmp");
    let shown = format!("unix_sockets = [\"{}\"]", path.display());
    let answers = ["", &shown, "unix_sockets = \"all\""].map(|sockets| connects(run(sockets), &[&path]).0);
    fs::remove_file(&path).unwrap();
    assert_eq!(answers, [[false], [true], [true]]);
}

fn sockets_of_credential_stores_stay_hidden() {
    let agent = |run: &Run| {
        let path = run.outside().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        (path, listener)
    };
    let run = limited("disabled = true\nunix_sockets = \"all\"");
    let (path, _listener) = agent(&run);
    let run = run.env("SSH_AUTH_SOCK", &path.display().to_string());
    assert_eq!(connects(run, &[&path]).0, [false]);
    let run = limited("disabled = true\nunix_sockets = [\"../agent.sock\"]");
    let (path, _listener) = agent(&run);
    refuses(run.env("SSH_AUTH_SOCK", &path.display().to_string()), &["unix_sockets", "agent.sock", "stay hidden"]);
}

fn links_show_no_other_socket() {
    let run = limited("disabled = true\nunix_sockets = [\"mine.sock\"]");
    let path = run.outside().join("other.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    symlink(&path, run.work().join("mine.sock")).unwrap();
    refuses(run, &["files: unix_sockets", "mine.sock is a link where an earlier run"]);
}
