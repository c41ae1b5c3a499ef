//! `[files]`: names that a command must not write, make, move or replace, in a tree that it may write.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::cases;
use crate::files::{limited, nothing_open, state, with_files, write};
use crate::sandbox::{Run, need};

cases![
    deny_beats_allow_whatever_is_done_to_names,
    a_closed_directory_above_what_is_denied,
    names_that_do_not_exist_are_kept_from_being_made,
    links_that_lead_away_are_kept,
    what_programs_outside_obey_is_kept,
    git_config_by_choice,
    repositories_below_and_elsewhere,
    sandboxes_share_placeholders,
];

fn deny_beats_allow_whatever_is_done_to_names() {
    let run = limited("allow_write = [\".\"]\ndeny_write = [\"file\", \"a/b/kept\", \"tree\", \"link\", \"~/x\"]");
    let kept = [
        write(&run.work().join("file"), "kept"),
        write(&run.work().join("a/b/kept"), "kept"),
        write(&run.work().join("tree/deep/file"), "kept"),
        write(&run.work().join("target/file"), "kept"),
    ];
    symlink("target/file", run.work().join("link")).unwrap();
    let (before, work) = (kept.each_ref().map(|path| state(path)), run.work());
    let code = "for path in ['file', 'a/b/kept', 'tree', 'tree/deep', 'tree/deep/file', 'tree/new', 'target/file', 'a/../file']:
    every_way(path, 'spare')
for path in ['a', 'a/b', 'target', 'link']:
    put('spare')
    attempt('rename ' + path, lambda: os.rename(path, 'moved'))
    attempt('exchange ' + path, lambda: renameat2('spare', path, 2))
    attempt('replace ' + path, lambda: os.rename('spare', path))
    attempt('rmdir ' + path, lambda: os.rmdir(path))
    attempt('unlink ' + path, lambda: os.unlink(path))
put('link') if False else None";
    nothing_open(run, code);
    let after = kept.each_ref().map(|path| state(path));
    assert_eq!(after, before);
    assert_eq!(fs::read_link(work.join("link")).unwrap(), Path::new("target/file"));
    // No seams: names move and are linked everywhere in the tree as if nothing were denied there.
    let run = limited("allow_write = [\".\"]\ndeny_write = [\"a/b/kept\"]").file("a/b/kept", "kept").file("a/one", "1");
    let code = "os.rename('a/one', 'two'); os.rename('two', 'a/b/three'); os.link('a/b/three', 'a/four'); os.rename('a/four', 'five')
os.mkdir('dir'); os.rename('dir', 'a/b/dir'); os.rename('a/b/dir', 'dir')";
    run.python(&format!("import os\n{code}")).run().expect_code(0);
}

/// The owner of a directory can make it writable again.
fn a_closed_directory_above_what_is_denied() {
    let run = limited("allow_write = [\".\"]\ndeny_write = [\"closed/sub/kept\"]").file("closed/sub/kept", "kept");
    let work = run.work();
    fs::set_permissions(work.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let script = "exec 2>&1; chmod 755 closed; mv closed/sub closed/moved && echo MOVED; mkdir -p closed/sub; echo x > closed/sub/kept; true";
    let output = run.script(script).run();
    assert!(!output.stdout.contains("MOVED"), "{output:#?}");
    assert_eq!(fs::read_to_string(work.join("closed/sub/kept")).unwrap(), "kept");
}

fn names_that_do_not_exist_are_kept_from_being_made() {
    let run = limited("allow_write = [\".\"]\ndeny_write = [\"absent\", \"sub/absent/deep\", \"dangling\"]")
        .file("sub/x", "");
    symlink("to/nothing", run.work().join("dangling")).unwrap();
    let work = run.work();
    let code = "for path in ['absent', 'sub/absent/deep', 'sub/absent/deep/er', 'dangling', 'to/nothing']:
    put('spare')
    attempt('write ' + path, lambda: put(path))
    attempt('create in ' + path, lambda: put(path + '/new'))
    attempt('replace ' + path, lambda: os.rename('spare', path))
    attempt('remove ' + path, lambda: os.rmdir(path))
    attempt('move ' + path, lambda: os.rename(path, 'moved'))
    attempt('mkdir ' + path, lambda: os.mkdir(path))
    attempt('symlink ' + path, lambda: os.symlink('spare', path))
for path in ['sub/absent', 'to']:
    attempt('move ' + path, lambda: os.rename(path, 'moved'))
    attempt('remove ' + path, lambda: os.rmdir(path))";
    nothing_open(run, code);
    let left: Vec<bool> = ["absent", "sub/absent", "to"].map(|name| work.join(name).exists()).to_vec();
    assert_eq!(left, [false; 3], "placeholders go with the run");
    // Where nothing may be written anyway, nothing need be made.
    let run = limited("allow_write = [\"out\"]\ndeny_write = [\"absent\"]").file("out/x", "");
    run.script("ls -A").run().expect_stdout("out\n");
}

/// What they lead to may not be written anyway, but another name could take theirs.
fn links_that_lead_away_are_kept() {
    let run = limited("allow_write = [\".\"]\ndeny_write = [\"link\", \"way/to/file\"]");
    let (work, outside) = (run.work(), run.outside().to_owned());
    write(&outside.join("settings/tasks.json"), "kept");
    write(&outside.join("repository/HEAD"), "ref: refs/heads/main");
    let links = [
        ("link", "../settings"),
        ("way", "../absent"),
        (".vscode", "../settings"),
        (".mcp.json", "../settings/tasks.json"),
        (".idea", "../nowhere"),
        (".git", "../repository"),
    ];
    for (name, target) in links {
        symlink(target, work.join(name)).unwrap();
    }
    let code = "for path in ['link', 'way', '.vscode', '.mcp.json', '.idea', '.git']:
    put('spare')
    attempt('remove ' + path, lambda: os.unlink(path))
    attempt('move ' + path, lambda: os.rename(path, 'moved'))
    attempt('replace ' + path, lambda: os.rename('spare', path))
    attempt('exchange ' + path, lambda: renameat2('spare', path, 2))
    attempt('mkdir ' + path, lambda: os.mkdir(path))
    attempt('write in ' + path, lambda: put(path + '/new'))
    attempt('write ' + path, lambda: put(path))";
    nothing_open(run, code);
    for (name, target) in links {
        assert_eq!(fs::read_link(work.join(name)).unwrap(), Path::new(target), "{name}");
    }
    assert_eq!(fs::read_to_string(outside.join("settings/tasks.json")).unwrap(), "kept");
}

/// The shell of git; the person's own settings do not count.
pub fn git(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("/usr/bin/git");
    command.args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "protocol.file.allow=always",
    ]);
    let output = command.args(arguments).current_dir(directory).env("HOME", "/nonexistent").output().unwrap();
    assert!(output.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
}

fn what_programs_outside_obey_is_kept() {
    need("git", "git");
    let run = limited("allow_write = [\".\"]").file(".vscode/settings.json", "{}").file("sub/.mcp.json", "{}");
    let run = run.file("sub/deep/.idea/x", "x").file("own", "x");
    let work = run.work();
    git(&work, &["init", "-q"]);
    let config = fs::read_to_string(work.join(".git/config")).unwrap();
    let code = "
for path in ['.git/hooks/pre-commit', '.git/config', '.git/commondir', '.vscode/settings.json', '.vscode/tasks.json', 'sub/.mcp.json', 'sub/deep/.idea/x',
             '.bashrc', '.bash_profile', '.profile', '.zshrc', '.zprofile', '.gitconfig', '.gitmodules', '.ripgreprc', '.mcp.json', '.idea',
             '.idea/x', '.claude/commands', '.claude/commands/x.md', '.claude/agents/x.md']:
    put('spare')
    attempt('write ' + path, lambda: put(path))
    attempt('replace ' + path, lambda: os.rename('spare', path))
    attempt('mkdir ' + path, lambda: os.makedirs(path))
for path in ['.git', '.git/hooks', '.vscode', 'sub/deep/.idea', 'sub/deep', 'sub', '.claude', '.claude/commands', '.bashrc']:
    attempt('move ' + path, lambda: os.rename(path, 'moved'))
    attempt('remove ' + path, lambda: os.rmdir(path))";
    nothing_open(run, code);
    assert_eq!(fs::read_to_string(work.join(".git/config")).unwrap(), config);
    assert!(!work.join(".git/commondir").exists());
    let mut names: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".git", ".vscode", "own", "spare", "sub"]);
    // Git itself goes on, and sees nothing of what stands in the way.
    let run = with_files(Run::new(), "allow_write = [\".\"]").file("own", "x");
    git(&run.work(), &["init", "-q"]);
    let script = "set -e; export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
        git status --porcelain; git add -A; git commit -qm one; git checkout -qb other; echo y > own; git commit -qam two
        git stash list; git gc -q; git rebase -q HEAD~1; git stash -q; git ls-files; mkdir .claude/new; echo x > .claude/settings.json";
    let output = run.script(script).run();
    output.expect_code(0);
    assert_eq!(output.stdout, "?? own\nown\n", "{output:#?}");
    assert!(!output.stderr.contains("warning") && !output.stderr.contains("fatal"), "{output:#?}");
}

fn git_config_by_choice() {
    need("git", "git");
    let run = limited("allow_write = [\".\"]\nallow_git_config = true");
    let work = run.work();
    git(&work, &["init", "-q"]);
    let output = run.script("git config test.key value; echo x > .git/hooks/pre-commit").run();
    output.expect_stderr("pre-commit");
    assert!(fs::read_to_string(work.join(".git/config")).unwrap().contains("value"));
    assert!(!work.join(".git/hooks/pre-commit").exists());
}

/// Below the working directory; and where the `.git` of a worktree leads to.
fn repositories_below_and_elsewhere() {
    need("git", "git");
    let run = limited("allow_write = [\".\", \"../main\"]").file("a/b/file", "");
    let (work, main) = (run.work(), run.outside().join("main"));
    git(&work.join("a/b"), &["init", "-q"]);
    fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
    git(&main, &["worktree", "add", "-q", "../work/tree"]);
    let main = main.display().to_string();
    let code = format!(
        "for path in ['a/b/.git/hooks/x', 'a/b/.git/config', 'tree/.git', '{main}/.git/hooks/x', '{main}/.git/config', '{main}/.git/worktrees/tree/commondir']:
    put('spare')
    attempt('write ' + path, lambda: put(path))
    attempt('replace ' + path, lambda: os.rename('spare', path))
    attempt('remove ' + path, lambda: os.unlink(path))
attempt('move', lambda: os.rename('tree/.git', 'moved'))
put('tree/file'); put('{main}/file')"
    );
    nothing_open(run, &code);
}

/// One that ends does not open what another relies on; the last one leaves nothing.
fn sandboxes_share_placeholders() {
    let first = limited("allow_write = [\".\"]\ndeny_write = [\"absent/deep\"]");
    let work = first.work();
    let wait = "echo ready; while [ ! -e go ]; do sleep 0.02; done; exec 2>&1; echo x > .bashrc; mkdir .bashrc; mkdir .idea/x; echo x > absent/deep";
    let running = first.script(wait).start();
    running.wait_for("ready");
    let second = limited("allow_write = [\".\"]\ndeny_write = [\"absent/deep\"]").script("echo x > .bashrc");
    let output = second.to_command().current_dir(&work).output().unwrap();
    assert!(work.join(".bashrc").is_dir(), "{output:?}");
    fs::write(work.join("go"), "").unwrap();
    let output = running.wait();
    // Each of the four attempts ends in an error.
    assert_eq!(output.stdout.lines().count(), 5, "{output:#?}");
    let mut names: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["go"]);
    // One that was killed leaves its own behind, and the next takes them over.
    let run = limited("allow_write = [\".\"]");
    let work = run.work();
    let running = run.script("echo ready; sleep 60").start();
    running.wait_for("ready");
    nix::sys::signal::kill(running.pid(), nix::sys::signal::Signal::SIGKILL).unwrap();
    running.wait();
    assert!(work.join(".bashrc").is_dir());
    let next = limited("allow_write = [\".\"]").script("echo x > .bashrc || echo denied");
    let output = next.to_command().current_dir(&work).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "denied\n");
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
}
