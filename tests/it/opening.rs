//! Links on the way to the files that steer a run: an earlier sandbox may have made them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::cases;
use crate::internet::internet;
use crate::rig;
use crate::sandbox::{Run, refuses};

cases![
    by_sudo_no_link_of_a_users_is_followed,
    by_sudo_no_inner_link_is_followed,
    by_sudo_links_of_roots_are_followed,
    an_own_link_to_where_an_earlier_run_made_one,
    an_own_link_to_a_place_inside,
];

const USER: u32 = 2000;

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn by_sudo(run: Run) -> Run {
    run.env("SUDO_UID", &USER.to_string()).env("SUDO_GID", &USER.to_string())
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Each option that names a file, with this file.
fn with_each(path: &str) -> Vec<Run> {
    let secret = |run: Run| {
        let run = run.allow("allowed.test").bind("allowed.test X-Api-Key: {KEY}");
        run.arg("--secret").arg(&format!("KEY=file:{path}"))
    };
    let option = |name: &str| by_sudo(Run::bare()).arg(name).arg(path);
    vec![option("--policy"), option("--upstream-ca"), option("--audit"), secret(by_sudo(Run::bare()))]
}

/// The file is one that only root can reach; the user, or a sandbox of the user's, has made a link to it.
fn by_sudo_no_link_of_a_users_is_followed() {
    if !is_root() {
        return;
    }
    let place = Run::bare();
    let target = place.outside().join("closed/file");
    write(&target, "precious");
    fs::set_permissions(target.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    let mine = place.outside().join("mine");
    fs::create_dir(&mine).unwrap();
    symlink(&target, mine.join("file")).unwrap();
    symlink(target.parent().unwrap(), mine.join("directory")).unwrap();
    chown(&mine, Some(USER), Some(USER)).unwrap();
    for way in ["file", "directory/file", "../mine/directory/file", "directory/absent"] {
        for run in with_each(&mine.join(way).display().to_string()) {
            refuses(run, &["is a link where not only root could have made it", "name the file itself"]);
        }
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(!target.with_file_name("absent").exists(), "a file was made behind the link");
}

/// What root has made can be moved by whoever may write the directory above it.
fn by_sudo_no_inner_link_is_followed() {
    if !is_root() {
        return;
    }
    let place = Run::bare();
    let target = place.outside().join("closed/file");
    write(&target, "precious");
    let mine = place.outside().join("mine");
    fs::create_dir_all(mine.join("of-root")).unwrap();
    symlink(&target, mine.join("of-root/file")).unwrap();
    for (owner, mode) in [(USER, 0o755), (0, 0o777), (0, 0o775)] {
        chown(&mine, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&mine, fs::Permissions::from_mode(mode)).unwrap();
        for run in with_each(&mine.join("of-root/file").display().to_string()) {
            refuses(run, &["is a link where not only root could have made it"]);
        }
    }
}

/// In a place that nobody else can write, a link is root's own word; the system is full of them.
fn by_sudo_links_of_roots_are_followed() {
    if !is_root() {
        return;
    }
    let host = "roots.opening.allowed.test";
    let place = PathBuf::from(format!("/srv/sandbox-proxy-it-{}", std::process::id()));
    write(&place.join("real/policy.toml"), "[network]\nmode = \"allow\"\nhosts = [\"roots.opening.allowed.test\"]\n");
    write(&place.join("real/keys/key"), "canary-of-roots");
    write(&place.join("real/ca.pem"), &fs::read_to_string(internet().pki.root_file()).unwrap());
    fs::create_dir(place.join("real/audit")).unwrap();
    symlink("real", place.join("link")).unwrap();
    let file = |name: &str| place.join("link").join(name).display().to_string();
    let run = by_sudo(Run::bare()).arg("--nameserver").arg(rig::DNS);
    let run = run.arg("--policy").arg(&file("policy.toml")).arg("--upstream-ca").arg(&file("ca.pem"));
    let run = run.arg("--audit").arg(&file("audit/audit.jsonl"));
    let run =
        run.bind(&format!("{host} X-Api-Key: {{KEY}}")).arg("--secret").arg(&format!("KEY=file:{}", file("keys/key")));
    let output = run.script(&format!("curl -sSf https://{host}/status/200")).run();
    let rows = fs::read_to_string(place.join("real/audit/audit.jsonl")).unwrap_or_default();
    fs::remove_dir_all(&place).unwrap();
    output.expect_code(0).expect_stdout("status 200");
    assert_eq!(internet().web.requests(host)[0].header("x-api-key"), ["canary-of-roots"]);
    assert_eq!(rows.lines().count(), 1, "{rows}");
}

/// The own link is trusted; the one that it leads to is not.
fn an_own_link_to_where_an_earlier_run_made_one() {
    for way in ["mine/audit.jsonl", "mine-too/audit.jsonl", "mine.jsonl"] {
        let run = Run::bare();
        let target = run.outside().join("target");
        fs::create_dir(&target).unwrap();
        symlink(&target, run.work().join("logs")).unwrap();
        symlink(target.join("audit.jsonl"), run.work().join("audit.jsonl")).unwrap();
        symlink(run.work().join("logs"), run.outside().join("mine")).unwrap();
        symlink("mine", run.outside().join("mine-too")).unwrap();
        symlink("work/audit.jsonl", run.outside().join("mine.jsonl")).unwrap();
        let path = run.outside().join(way).display().to_string();
        refuses(run.arg("--audit").arg(&path), &["--audit", "is a link where an earlier run", "name the file itself"]);
        assert!(!target.join("audit.jsonl").exists(), "{way}: a file was made behind the link");
    }
}

fn an_own_link_to_a_place_inside() {
    for way in ["mine/audit.jsonl", "mine.jsonl"] {
        let run = Run::bare();
        let logs = run.work().join("logs");
        fs::create_dir(&logs).unwrap();
        symlink(&logs, run.outside().join("mine")).unwrap();
        symlink("work/logs/audit.jsonl", run.outside().join("mine.jsonl")).unwrap();
        let path = run.outside().join(way).display().to_string();
        let output =
            run.arg("--audit").arg(&path).script("cat logs/audit.jsonl; curl -sS https://own.evil.test/").run();
        output.expect_code(0).expect_stdout("host_not_listed");
        assert!(!output.stdout.contains("verdict"), "{output:#?}");
        assert_eq!(fs::read_to_string(logs.join("audit.jsonl")).unwrap().lines().count(), 1, "{way}");
    }
}
