//! What steers a run is out of the command's reach: policy, secrets and audit are used by descriptor, and where their names
//! cannot be hidden the run does not start.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::cases;
use crate::internet::internet;
use crate::rig;
use crate::sandbox::{Output, Run, need, refuses};

cases![
    nothing_done_to_paths_changes_the_run,
    directories_are_renamed_while_it_runs,
    a_secret_file_where_the_command_writes_is_refused,
    a_secret_file_beside_what_is_needed_is_refused,
    a_secret_file_of_two_names_is_refused,
    a_secret_file_that_others_may_use_is_refused,
    a_secret_file_that_is_no_file_is_refused,
    a_link_to_a_secret_leads_to_its_directory,
    the_directory_of_a_secret_is_hidden_whole,
    the_key_of_a_secrets_command_is_hidden,
    whatever_a_secrets_command_names_is_hidden,
    what_a_secrets_command_names_must_have_one_name,
    secrets_that_cannot_be_had_stop_the_start,
    what_this_version_cannot_honour_is_named,
    broken_policies_stop_the_start,
];

fn write(path: &Path, text: &str) -> String {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

const POLICY: &str = r#"
[network]
mode = "allow"
hosts = ["HOST"]
[[header_bindings]]
kind = "header_binding"
host = "HOST"
header = "X-Api-Key"
secret_name = "KEY"
[secrets.KEY]
file = "FILE"
"#;

fn canary(host: &str) -> String {
    format!("canary-of-{host}")
}

/// A run steered by three files, each in a directory of its own, and the audit as the launcher has it, whatever its name.
fn steered(host: &str) -> (Run, [PathBuf; 3], File) {
    let run = Run::bare();
    let paths = ["policy/policy.toml", "secret/key", "audit/audit.jsonl"].map(|path| run.outside().join(path));
    let secret = write(&paths[1], &canary(host));
    write(&paths[0], &POLICY.replace("HOST", host).replace("FILE", &secret));
    write(&paths[2], "");
    let root = internet().pki.root_file().display().to_string();
    let run = run.arg("--upstream-ca").arg(&root).arg("--nameserver").arg(rig::DNS);
    let run = run.arg("--policy").arg(&paths[0].display().to_string());
    let run = run.arg("--audit").arg(&paths[2].display().to_string());
    let audit = File::open(&paths[2]).unwrap();
    (run, paths, audit)
}

/// The run went as if the command had done nothing: one request with the secret, one refusal, both on record, and neither
/// the secret nor a row was seen inside.
#[track_caller]
fn assert_unmoved(host: &str, output: &Output, mut audit: File) {
    output.expect_code(0).expect_stdout("status 200").expect_stdout("host_not_listed");
    for shown in [&canary(host), "\"verdict\"", "REVEALED"] {
        assert!(!output.stdout.contains(shown), "{shown} was seen inside\n{output:#?}");
    }
    let seen = internet().web.requests(host);
    assert_eq!(seen.iter().map(|seen| seen.header("x-api-key")).collect::<Vec<_>>(), [[canary(host)]]);
    let mut rows = String::new();
    audit.read_to_string(&mut rows).unwrap();
    let rows: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{rows:#?}");
    assert!(rows[0].to_string().contains(host) && rows[1].to_string().contains("steering.evil.test"), "{rows:#?}");
}

const ASK: &str = "curl -sSf https://HOST/status/200; curl -sS -i https://steering.evil.test/";

fn nothing_done_to_paths_changes_the_run() {
    need("curl", "curl");
    let (host, open) = ("paths.steering.allowed.test", "[network]\\nmode = \"all\"\\n");
    let (run, [policy, secret, audit], rows) = steered(host);
    let [policy, secret, audit] = [policy, secret, audit].map(|path| path.display().to_string());
    let script = format!(
        "exec 2>&1
        for path in '{policy}' '{secret}' '{audit}'; do
            cat \"$path\"; ln \"$path\" ./link && cat ./link; cp \"$path\" ./copy && cat ./copy; ln -s \"$path\" ./soft && cat ./soft
            printf '{open}' > \"$path\"; printf '{open}' >> \"$path\"; truncate -s 0 \"$path\"; rm -f ./link ./copy ./soft
            [ \"$path\" = '{policy}' ] && continue
            chmod 777 \"$path\"; rm -f \"$path\"; mv \"$path\" ./moved && echo REVEALED; mv ./copy \"$path\"
        done
        ls -la '{secret}' \"$(dirname '{secret}')\"; find {} -name key -exec cat {{}} + 2>/dev/null
        cat /proc/1/fd/* /proc/self/fd/[3-9]* 2>/dev/null; {}",
        rig::base().display(),
        ASK.replace("HOST", host)
    );
    let output = run.script(&script).run();
    assert_unmoved(host, &output, rows);
    assert_eq!(fs::read_to_string(secret).unwrap(), canary(host));
}

/// Another directory in the place of each does not lead the launcher elsewhere.
fn directories_are_renamed_while_it_runs() {
    let host = "renamed.steering.allowed.test";
    let (run, paths, rows) = steered(host);
    let outside = run.outside().display().to_string();
    let directories = paths.each_ref().map(|path| path.parent().unwrap().display().to_string()).join(" ");
    let script = format!(
        "exec 2>&1
        for directory in {directories} {outside}; do
            mv $directory $directory-away; mkdir -p $directory
            echo canary-of-another > $directory/key; echo '\"REVEALED\"' > $directory/audit.jsonl
            cat $directory-away/* $directory-away/*/*
        done; cd /; {}",
        ASK.replace("HOST", host).replace("https://HOST", &format!("https://{host}"))
    );
    let output = run.script(&script).run();
    // What the command wrote itself into directories of its own is no row.
    let own = output.stdout.replace("REVEALED", "");
    assert_unmoved(host, &Output { stdout: own, ..output }, rows);
    assert!(internet().web.requests_with("canary-of-another").is_empty());
    let _ = fs::remove_dir_all(format!("{outside}-away"));
}

/// With a binding that wants the secret of this file.
fn with_secret(run: Run, path: &Path) -> Run {
    let run = run.allow("allowed.test").bind("allowed.test Authorization: Bearer {KEY}");
    run.arg("--secret").arg(&format!("KEY=file:{}", path.display()))
}

fn a_secret_file_where_the_command_writes_is_refused() {
    let run = Run::new();
    let path = run.work().join("secrets/key");
    write(&path, "canary");
    refuses(with_secret(run, &path), &["secret KEY", "which the command may write", "move it elsewhere"]);
    let directory = PathBuf::from(format!("/tmp/sandbox-proxy-it-{}", std::process::id()));
    write(&directory.join("key"), "canary");
    refuses(with_secret(Run::new(), &directory.join("key")), &["secret KEY", "/tmp, which the command may write"]);
    fs::remove_dir_all(directory).unwrap();
}

/// Its directory would be masked, and is needed: the home, or one that holds the home and the working directory.
fn a_secret_file_beside_what_is_needed_is_refused() {
    for beside in ["home/key", "key"] {
        let run = Run::new();
        let path = run.outside().join(beside);
        write(&path, "canary");
        refuses(with_secret(run, &path), &["secret KEY", "cannot be masked", "a directory of its own"]);
    }
}

fn a_secret_file_of_two_names_is_refused() {
    let run = Run::new();
    let path = run.outside().join("secrets/key");
    write(&path, "canary");
    fs::hard_link(&path, run.work().join("link")).unwrap();
    refuses(with_secret(run, &path), &["secret KEY", "2 hard links"]);
}

fn a_secret_file_that_others_may_use_is_refused() {
    for mode in [0o640, 0o604, 0o620, 0o602, 0o660, 0o644, 0o610] {
        let run = Run::new();
        let path = run.outside().join("secrets/key");
        write(&path, "canary");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        refuses(with_secret(run, &path), &["secret KEY", &format!("{mode:04o}"), "chmod 600"]);
    }
}

fn a_secret_file_that_is_no_file_is_refused() {
    let run = Run::new();
    let directory = run.outside().join("secrets");
    fs::create_dir(&directory).unwrap();
    nix::unistd::mkfifo(&directory.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    refuses(with_secret(run, &directory.join("fifo")), &["secret KEY", "not a regular file"]);
    refuses(with_secret(Run::new(), Path::new("/dev/null")), &["secret KEY", "not a regular file"]);
    refuses(with_secret(Run::new(), &directory), &["secret KEY", "not a regular file"]);
    refuses(with_secret(Run::new(), &directory.join("absent")), &["secret KEY", "absent"]);
    let long = directory.join("long");
    write(&long, &"x".repeat(70_000));
    refuses(with_secret(Run::new(), &long), &["secret KEY", "65536"]);
}

/// The link itself may lie anywhere: it is followed once, before the command exists, and its target is what is hidden.
fn a_link_to_a_secret_leads_to_its_directory() {
    let host = "link.steering.allowed.test";
    let run = Run::new();
    let path = run.outside().join("secrets/key");
    write(&path, "canary-behind-link");
    let link = run.work().join("key");
    symlink(&path, &link).unwrap();
    let run = run.allow(host).bind(&format!("{host} X-Api-Key: {{KEY}}"));
    let run = run.arg("--secret").arg(&format!("KEY=file:{}", link.display()));
    let script = format!(
        "exec 2>&1; cat key; echo canary-of-another > other; ln -sf other key; curl -sSf https://{host}/echo >/dev/null"
    );
    let output = run.script(&script).run();
    output.expect_code(0);
    assert!(!output.stdout.contains("canary-behind-link"), "{output:#?}");
    assert_eq!(internet().web.requests(host)[0].header("x-api-key"), ["canary-behind-link"]);
}

/// So that a secret that its owner writes anew, under the same or another name, is as hidden as the old one.
fn the_directory_of_a_secret_is_hidden_whole() {
    let host = "whole.steering.allowed.test";
    let run = Run::new();
    let path = run.outside().join("secrets/key");
    write(&path, "canary-of-whole");
    write(&run.outside().join("secrets/deep/other"), "canary-of-whole-other");
    let directory = run.outside().join("secrets").display().to_string();
    let output =
        with_secret(run.allow(host), &path).script(&format!("exec 2>&1; ls -A {directory}; cat {directory}/*")).run();
    assert!(!output.stdout.contains("canary") && !output.stdout.contains("deep"), "{output:#?}");
    output.expect_stdout(&directory);
}

fn the_key_of_a_secrets_command_is_hidden() {
    let host = "command.steering.allowed.test";
    let run = Run::new();
    let path = write(&run.outside().join("secrets/source"), "canary-of-command");
    let run = run.allow(host).bind(&format!("{host} X-Api-Key: {{KEY}}"));
    let run = run.arg("--secret").arg(&format!("KEY=command:cat {path}"));
    let output = run.script(&format!("cat {path}; curl -sSf https://{host}/echo | grep -c 'x-api-key'")).run();
    output.expect_stdout("1\n");
    assert_eq!(internet().web.requests(host)[0].header("x-api-key"), ["canary-of-command"]);
    assert!(!output.stdout.contains("canary"), "{output:#?}");
}

/// Behind a `=` too, as a directory, and by a link.
fn whatever_a_secrets_command_names_is_hidden() {
    for (name, argument) in [("split", "if=DIR/key"), ("directory", "DIR"), ("link", "--key=DIR-link")] {
        let (host, canary) = (format!("{name}.command.allowed.test"), format!("canary-of-{name}"));
        let run = Run::new();
        let directory = run.outside().join("secrets");
        let path = write(&directory.join("key"), &canary);
        symlink(&path, run.outside().join("secrets-link")).unwrap();
        let argument = argument.replace("DIR", &directory.display().to_string());
        let run = run.allow(&host).bind(&format!("{host} X-Api-Key: {{KEY}}"));
        let run = run.arg("--secret").arg(&format!("KEY=command:sh -c 'printf {canary}' {argument}"));
        let output = run.script(&format!("cat {path}; curl -sSf -o echo https://{host}/echo")).run();
        output.expect_code(0);
        assert!(!output.stdout.contains("canary") && !output.stderr.contains("canary"), "{name}: {output:#?}");
        assert_eq!(internet().web.requests(&host)[0].header("x-api-key"), [canary], "{name}");
    }
}

/// The other name would show what the first one hides.
fn what_a_secrets_command_names_must_have_one_name() {
    for argument in ["PATH", "if=PATH"] {
        let run = Run::new().allow("allowed.test").bind("allowed.test Authorization: Bearer {KEY}");
        let path = write(&run.outside().join("secrets/key"), "canary");
        fs::hard_link(&path, run.work().join("other")).unwrap();
        let command = format!("KEY=command:echo {}", argument.replace("PATH", &path));
        refuses(run.arg("--secret").arg(&command), &["secret KEY", &path, "2 hard links"]);
    }
}

fn secrets_that_cannot_be_had_stop_the_start() {
    let run = || Run::new().allow("allowed.test").bind("allowed.test Authorization: Bearer {KEY}");
    let json = |text: &str| format!("command:printf '%s' '{text}'");
    for (source, says) in [
        ("env:NOT_SET", "NOT_SET is not set"),
        ("command:false", "false failed"),
        ("command:/nowhere/program", "cannot run /nowhere/program"),
        ("command:true", "empty"),
        ("command:sh -c 'kill -9 $$'", "sh failed"),
        (&json(r#"{"value": "canary", "expires_at": "2001-01-01T00:00:00Z"}"#), "expired at 2001-01-01"),
        (&json(r#"{"value": "canary", "expires_at": "tomorrow"}"#), "RFC 3339"),
        (&json(r#"{"token": "canary"}"#), "value"),
        (&json(r#"{"value": "canary"#), "value"),
        ("command:printf 'canary\\r\\nX-Evil: 1'", "KEY"),
        ("command:head -c 70000 /dev/zero", "65536"),
        ("store:name", "not supported by this version"),
        ("vault:name", "vault"),
        ("nothing", "names no source"),
    ] {
        let marker = run().arg("--secret").arg(&format!("KEY={source}"));
        let shown = marker.work().join("ran");
        let output = marker.script("touch ran").run();
        output.expect_code(125).expect_stderr("KEY").expect_stderr(says);
        assert!(
            !shown.exists() && !output.stderr.contains("canary") || source.starts_with("vault"),
            "{source}: {output:#?}"
        );
    }
}

fn what_this_version_cannot_honour_is_named() {
    let run = |text: &str| {
        let run = Run::new();
        let path = write(&run.outside().join("policy.toml"), text);
        run.arg("--policy").arg(&path)
    };
    let kind = "workspace_header_bindings";
    refuses(
        run(&format!("[[header_bindings]]\nkind = \"{kind}\"\n")),
        &["policy.toml", "1", kind, "the service alone"],
    );
    for option in ["--preset", "--files", "--upstream-proxy", "--max-memory-mb"] {
        refuses(Run::new().arg(option).arg("all"), &[option]);
    }
}

fn broken_policies_stop_the_start() {
    let secret = "[secrets.KEY]\nenv = \"KEY\"\n";
    let binding =
        "[[header_bindings]]\nkind = \"header_binding\"\nhost = \"a.test\"\nheader = \"X\"\nsecret_name = \"KEY\"\n";
    let table: Vec<(String, &str)> = vec![
        ("[network]\nmode = \"allow\"\n".into(), "needs at least one host"),
        ("[network]\nmode = \"allow\"\nhosts = []\n".into(), "hosts"),
        ("[network]\nmode = \"all\"\nhosts = [\"a.test\"]\n".into(), "hosts"),
        ("[network]\nhosts = [\"*.a.test\"]\nmode = \"allow\"\n".into(), "*.a.test"),
        ("[network]\nmode = \"allow\"\nhosts = [\"localhost\"]\n".into(), "localhost"),
        ("[network]\nmode = \"allow\"\nhosts = [7]\n".into(), "hosts"),
        ("[network]\nmode = 1\n".into(), "mode"),
        ("network = \"all\"\n".into(), "network"),
        ("[network]\nmode = \"none\"\nmode = \"all\"\n".into(), "TOML"),
        ("[egress]\nmode = \"custom\"\n".into(), "needs at least one CIDR"),
        ("[egress]\nmode = \"custom\"\nallow_cidrs = [\"10.0.0.0/33\"]\n".into(), "10.0.0.0/33"),
        ("[egress]\nmode = \"block_all\"\nallow_cidrs = [\"10.0.0.0/8\"]\n".into(), "allow_cidrs"),
        ("[egress]\nblock_private_ips = \"no\"\n".into(), "block_private_ips"),
        ("[egress]\nblock_private = false\n".into(), "block_private_ips"),
        (binding.into(), "not declared"),
        (format!("{binding}{binding}path_prefix = \"/v1/\"\n{secret}"), "would set the header"),
        (format!("{}{secret}", binding.replace("\"X\"", "\"Host\"")), "cannot be bound"),
        (format!("{}{secret}", binding.replace("host = \"a.test\"\n", "")), "host"),
        (format!("{binding}path_prefix = \"v1\"\n{secret}"), "begins with"),
        (format!("{binding}prefix = \"a\\nb\"\n{secret}"), "control character"),
        (format!("{binding}colour = \"red\"\n{secret}"), "colour"),
        (format!("{secret}file = \"/x\"\n"), "KEY"),
        ("[secrets.KEY]\n".into(), "KEY"),
        ("\u{feff}[network\n".into(), "policy.toml"),
    ];
    for (text, says) in table {
        let run = Run::new().env("KEY", "value");
        let path = write(&run.outside().join("policy.toml"), &text);
        let marker = run.work().join("ran");
        let output = run.arg("--policy").arg(&path).script("touch ran").run();
        let good = output.code == 125 && output.stderr.contains(says) && output.stderr.contains("policy.toml:");
        assert!(good && !marker.exists(), "{text}\nshould say {says}\n{output:#?}");
    }
    let run = Run::new();
    let path = run.outside().join("binary.toml");
    fs::write(&path, b"\xff\xfe[network]").unwrap();
    refuses(run.arg("--policy").arg(&path.display().to_string()), &["binary.toml", "not UTF-8"]);
    refuses(Run::new().arg("--policy").arg("/dev/zero"), &["/dev/zero", "longer than 1 MiB"]);
    refuses(Run::new().arg("--policy").arg("."), &["cannot read the policy file"]);
}
