use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::credentials::check_secret_file;

const VALUE: &str = "canary-5f2a";

/// 2027-01-15T08:00:00Z.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn read_as(source: &Source, uid: u32) -> Result<String, SourceError> {
    read_secret("K", source, &context(uid)).map(|issued| String::from_utf8(issued.secret.expose().to_vec()).unwrap())
}

fn context(uid: u32) -> SourceContext {
    let read_env = |name: &str| (name == "SET").then(|| OsString::from(VALUE));
    SourceContext { read_env, uid, now: Arc::new(now) }
}

fn read(source: &Source) -> Result<String, SourceError> {
    read_as(source, me())
}

fn me() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The text of the error, having made sure that no form of it holds the value.
fn refused<T>(result: Result<T, SourceError>) -> String {
    let Err(error) = result else { panic!("it was read") };
    let (text, debug) = (error.to_string(), format!("{error:?}"));
    assert!(!text.contains("canary") && !debug.contains("canary"), "{text} {debug}");
    text
}

fn shell(script: &str) -> Source {
    Source::Command(CommandSource::new(["sh", "-c", script].map(str::to_owned).to_vec()))
}

fn sh(script: &str) -> Result<String, SourceError> {
    read(&shell(script))
}

#[test]
fn from_the_environment() {
    assert_eq!(read(&Source::Env("SET".into())).unwrap(), VALUE);
    assert_eq!(refused(read(&Source::Env("UNSET".into()))), "the environment variable UNSET is not set");
}

/// Opens a file, links followed, as the launcher would, and checks it.
fn open_secret_file(path: &Path, uid: u32) -> Result<(PathBuf, File), SourceError> {
    let failed = |error| SourceError::File { path: path.to_owned(), error };
    let real = path.canonicalize().map_err(failed)?;
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&real).map_err(failed)?;
    check_secret_file(&real, &file, uid)?;
    Ok((real, file))
}

/// A directory of its own for one test; removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("sandbox-proxy-source-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir.canonicalize().unwrap())
    }

    fn file(&self, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.0.join("key");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn from_a_file_by_descriptor() {
    let dir = Dir::new("read");
    let path = dir.file(format!("{VALUE}\n"), 0o600);
    symlink(&path, dir.0.join("link")).unwrap();
    let (real, file) = open_secret_file(&dir.0.join("link"), me()).unwrap();
    assert_eq!(real, path, "links are resolved");
    fs::rename(&path, dir.0.join("away")).unwrap();
    fs::write(&path, "another").unwrap();
    let source = Source::File(SecretFile::new(real, file));
    assert_eq!(read(&source).unwrap(), VALUE, "what stands at the path by now does not matter");
    assert_eq!(read(&source).unwrap(), VALUE, "it can be read again");
}

macro_rules! modes {
    ($($test:ident: $mode:literal;)*) => { $(
        #[test]
        fn $test() {
            let dir = Dir::new(stringify!($test));
            let path = dir.file(VALUE, $mode);
            let want = format!(
                "{0} can be used by others than its owner (mode {1:04o}); run: chmod 600 {0}", path.display(), $mode
            );
            assert_eq!(refused(open_secret_file(&path, me())), want);
        }
    )* };
}

modes! {
    a_file_that_the_group_can_read_is_refused: 0o640;
    a_file_that_the_world_can_read_is_refused: 0o604;
    a_file_that_the_group_can_write_is_refused: 0o620;
}

#[test]
fn a_file_with_another_name_is_refused_even_if_it_came_later() {
    let dir = Dir::new("links");
    let path = dir.file(VALUE, 0o600);
    let (real, file) = open_secret_file(&path, me()).unwrap();
    fs::hard_link(&path, dir.0.join("other")).unwrap();
    assert!(refused(open_secret_file(&path, me())).contains("has 2 hard links"));
    assert!(refused(read(&Source::File(SecretFile::new(real, file)))).contains("has 2 hard links"));
}

#[test]
fn a_file_of_somebody_else_is_refused() {
    let dir = Dir::new("owner");
    let path = dir.file(VALUE, 0o600);
    let stranger = if me() == 0 {
        chown(&path, Some(12_345), None).unwrap();
        12_346
    } else {
        me() + 1
    };
    assert!(refused(open_secret_file(&path, stranger)).contains("not to you or root"));
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let dir = Dir::new("kind");
    let fifo = dir.0.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert!(refused(open_secret_file(&fifo, me())).contains("is not a regular file"));
    assert!(refused(open_secret_file(&dir.0, me())).contains("is not a regular file"));
    assert!(refused(open_secret_file(Path::new("/dev/null"), me())).contains("is not a regular file"));
    assert!(refused(open_secret_file(&dir.0.join("gone"), me())).contains("No such file"));
}

#[test]
fn a_file_has_a_longest_length() {
    let dir = Dir::new("length");
    let path = dir.file(vec![b'a'; MAX_RAW + 1], 0o600);
    assert!(refused(open_secret_file(&path, me())).contains("more than 65536 bytes"));
    let path = dir.file([&[b'a'; Secret::MAX_LEN][..], b"\r\n"].concat(), 0o600);
    let (path, file) = open_secret_file(&path, me()).unwrap();
    assert_eq!(read(&Source::File(SecretFile::new(path, file))).unwrap().len(), Secret::MAX_LEN);
}

macro_rules! commands {
    ($($test:ident: $script:expr => $want:expr;)*) => { $(
        #[test]
        fn $test() {
            assert_eq!(sh($script).unwrap(), $want);
        }
    )* };
}

commands! {
    from_a_command: "echo canary-5f2a" => VALUE;
    from_a_command_without_a_newline: "printf canary-5f2a" => VALUE;
    from_a_command_as_json: r#"echo '{"value": "canary-5f2a"}'"# => VALUE;
    json_escapes_are_undone: r#"echo ' {"value": "canary\u002d5f2a", "expires_at": null}'"# => VALUE;
    json_that_expires_later: r#"echo '{"value": "canary-5f2a", "expires_at": "2027-01-15T09:00:01+01:00"}'"# => VALUE;
    a_command_gets_no_input: "cat; echo canary-5f2a" => VALUE;
    a_helper_left_behind_does_not_hold_it_up: "sleep 20 & echo canary-5f2a" => VALUE;
}

macro_rules! failures {
    ($($test:ident: $script:expr => $want:expr;)*) => { $(
        #[test]
        fn $test() {
            assert_eq!(refused(sh($script)), $want);
        }
    )* };
}

failures! {
    a_command_that_fails_shows_its_status_alone: "echo canary; exit 3" => "sh failed (exit status: 3)";
    a_command_that_is_killed_shows_the_signal: "echo canary; kill -9 $$" => "sh failed (signal: 9 (SIGKILL))";
    a_command_that_prints_nothing: "true" => "the value is empty";
    a_command_that_prints_two_lines: "echo canary; echo canary" =>
        "the value holds a control character (a line break, NUL or DEL): a header cannot carry it";
    a_command_that_prints_too_much: "yes canary" => "sh gives more than 65536 bytes";
    json_that_expires_now: r#"echo '{"value": "canary", "expires_at": "2027-01-15T08:00:00Z"}'"# =>
        "the output of sh holds a value that expired at 2027-01-15T08:00:00Z";
    json_that_expires_in_milliseconds: r#"echo '{"value": "canary", "expires_at": 1800000000000}'"# =>
        "the output of sh says that its value expires at 9999-12-31T23:59:59Z, more than 10 years ahead";
    json_of_another_shape: r#"echo '{"value": ["canary"]}'"# => not_json();
    json_with_another_key: r#"echo '{"value": "canary", "canary": 1}'"# => not_json();
    json_that_is_cut: r#"echo '{"value": "canary'"# => not_json();
    json_with_another_time: r#"echo '{"value": "canary", "expires_at": "canary"}'"# => not_json();
}

fn not_json() -> &'static str {
    "the output of sh is not {\"value\": …, \"expires_at\": …} (the time as in RFC 3339 or in seconds since 1970, or left out)"
}

#[test]
fn a_program_that_is_not_there_is_named_without_its_arguments() {
    let argv = ["/nonexistent/program", "canary"].map(str::to_owned).to_vec();
    let text = refused(read(&Source::Command(CommandSource::new(argv))));
    assert_eq!(
        text,
        "cannot run /nonexistent/program: there is no such program, or not the one that its first line names; install it, or name another"
    );
    assert_eq!(
        refused(read(&Source::Command(CommandSource::new(Vec::new())))),
        "the command is empty; it needs a program and its arguments"
    );
}

/// Whether it waits with its output open or closed, it and what it started are gone afterwards.
#[test]
fn a_command_that_takes_too_long_is_killed_with_its_group() {
    let dir = Dir::new("timeout");
    for script in ["sleep 300 & echo $! > pid; wait", "exec >/dev/null; sleep 300 & echo $! > pid; wait"] {
        let script = format!("cd {}; {script}", dir.0.display());
        let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let text = refused(command::output(&argv, Duration::from_millis(700)));
        assert_eq!(text, "sh gave no answer within 0 s and was killed");
        let pid: i32 = fs::read_to_string(dir.0.join("pid")).unwrap().trim().parse().unwrap();
        let dead = || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        // The signal is sent; that an orphan dies of it and is collected takes a moment.
        let patience = std::time::Instant::now() + Duration::from_secs(5);
        while !dead() {
            assert!(std::time::Instant::now() < patience, "{pid} goes on");
            std::thread::yield_now();
        }
    }
}

#[tokio::test]
async fn an_issuer_reads_its_source_each_time() {
    let dir = Dir::new("issuer");
    let script = format!("echo x >> {0}/count; wc -l < {0}/count", dir.0.display());
    let issuer = SourceIssuer::new("K", Arc::new(shell(&script)), context(me()));
    for want in ["1", "2"] {
        let issued = issuer.issue().await.unwrap();
        assert_eq!((issued.secret.name(), issued.secret.expose()), ("K", want.as_bytes()));
        assert_eq!(issued.expires_at, None);
    }
}

#[test]
fn a_time_to_live_ends_what_has_no_expiry() {
    let with_ttl = |script: &str| {
        let Source::Command(command) = shell(script) else { unreachable!() };
        let source = Source::Command(CommandSource { ttl: Some(Duration::from_secs(60)), ..command });
        read_secret("K", &source, &context(me())).unwrap().expires_at
    };
    let ends = Some(now() + Duration::from_secs(60));
    assert_eq!(with_ttl("echo canary"), ends);
    assert_eq!(with_ttl(r#"echo '{"value": "canary"}'"#), ends);
    assert_eq!(with_ttl(r#"echo '{"value": "canary", "expires_at": 1800000060.5}'"#), ends);
    assert_eq!(
        with_ttl(r#"echo '{"value": "canary", "expires_at": 1800000059}'"#),
        ends.map(|at| at - Duration::from_secs(1))
    );
}

#[test]
fn a_command_has_its_own_timeout() {
    let Source::Command(command) = shell("sleep 300") else { unreachable!() };
    let source = Source::Command(CommandSource { timeout: Duration::from_secs(1), ..command });
    assert_eq!(refused(read(&source)), "sh gave no answer within 1 s and was killed");
}
