//! Starts the product, only through its command line.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::internet::internet;
use crate::rig;

/// The program under test: `IT_PROGRAM` where the tests run as a user who cannot read the build directory.
pub fn program() -> String {
    std::env::var("IT_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_sandbox-proxy").to_owned())
}

/// The distribution's own clients, not those of a version manager of whoever runs the tests.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Longer than any case needs; a run that takes it hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One `sandbox-proxy run`, with a working directory, a home and an audit file of its own.
pub struct Run {
    before: Vec<String>,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    command: Vec<String>,
    stdin: Vec<u8>,
    directory: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub struct Output {
    /// The exit code; of a launcher that a signal ended, 128 and the signal.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// The rows of the audit file.
    pub audit: Vec<Value>,
}

impl Run {
    /// With the tests' root, name server and an audit file; with nothing allowed.
    pub fn new() -> Self {
        let root = internet().pki.root_file().display().to_string();
        let run = Self::bare();
        let audit = run.audit_file().display().to_string();
        run.arg("--upstream-ca").arg(&root).arg("--nameserver").arg(rig::DNS).arg("--audit").arg(&audit)
    }

    /// With no option at all.
    pub fn bare() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let directory = rig::base().join(format!("run-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        for part in ["work", "home"] {
            fs::create_dir_all(directory.join(part)).unwrap();
        }
        Self { before: vec![], options: vec![], environment: vec![], command: vec![], stdin: vec![], directory }
    }

    /// An option of `run`.
    pub fn arg(mut self, argument: &str) -> Self {
        self.options.push(argument.to_owned());
        self
    }

    pub fn allow(self, host: &str) -> Self {
        self.arg("--allow").arg(host)
    }

    pub fn bind(self, binding: &str) -> Self {
        self.arg("--bind").arg(binding)
    }

    /// A secret that the launcher finds in its environment under the same name.
    pub fn secret_env(self, name: &str, value: &str) -> Self {
        self.env(name, value).arg("--secret").arg(&format!("{name}=env:{name}"))
    }

    /// A variable of the launcher.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What the launcher reads.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Writes a file into the working directory.
    pub fn file(self, name: &str, text: &str) -> Self {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn command(mut self, words: &[&str]) -> Self {
        self.command = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// One more word of the command.
    pub fn word(mut self, word: &str) -> Self {
        self.command.push(word.to_owned());
        self
    }

    /// Has these words start the program under test.
    pub fn behind(mut self, words: &[&str]) -> Self {
        self.before = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// A shell script as the command.
    pub fn script(self, text: &str) -> Self {
        self.command(&["sh", "-c", text])
    }

    /// A Python program as the command.
    pub fn python(self, text: &str) -> Self {
        self.command(&["/usr/bin/python3", "-c", text])
    }

    /// A Python program that may `from wire import *` (`inside/wire.py`).
    pub fn wire(self, text: &str) -> Self {
        self.file("wire.py", include_str!("inside/wire.py")).python(&format!("from wire import *\n{text}\ndone()"))
    }

    /// Where the command starts.
    pub fn work(&self) -> PathBuf {
        self.directory.join("work")
    }

    /// The home of the user who starts it.
    pub fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    pub fn audit_file(&self) -> PathBuf {
        self.directory.join("audit.jsonl")
    }

    /// A directory beside the working directory and the home: for what the sandbox should not know.
    pub fn outside(&self) -> &Path {
        &self.directory
    }

    /// Runs it to its end.
    pub fn run(self) -> Output {
        self.start().wait()
    }

    /// Starts it, with its standard streams piped.
    pub fn start(self) -> Running {
        let mut command = self.to_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program under test starts");
        let stdin = child.stdin.take().unwrap();
        let (stdout, stderr) = (Text::read(child.stdout.take().unwrap()), Text::read(child.stderr.take().unwrap()));
        let running = Running { child, stdin: Some(stdin), stdout, stderr, audit: self.audit_file() };
        running.feed(self.stdin)
    }

    /// The command line, to be started in some other way; the streams are inherited.
    pub fn to_command(&self) -> Command {
        let mut words = self.before.iter().cloned().chain([program()]);
        let mut command = Command::new(words.next().expect("the program at least"));
        command
            .args(words)
            .arg("run")
            .args(&self.options)
            .arg("--")
            .args(&self.command)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .env("HOME", self.home())
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Run {
    /// As `to_command`, typed into a shell behind `prefix`.
    pub fn to_shell(&self, shell: &[&str], prefix: &str) -> Command {
        let direct = self.to_command();
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(format!("{prefix}{}", self.to_line())).current_dir(self.work()).env_clear();
        command.envs(direct.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
        command
    }

    /// The command line as one would type it.
    pub fn to_line(&self) -> String {
        let direct = self.to_command();
        let words = std::iter::once(direct.get_program()).chain(direct.get_args());
        let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// A run that has not ended yet.
pub struct Running {
    child: Child,
    stdin: Option<std::process::ChildStdin>,
    stdout: Text,
    stderr: Text,
    audit: PathBuf,
}

/// What a stream has said so far.
struct Text {
    so_far: Arc<(Mutex<Vec<u8>>, Condvar)>,
    reader: JoinHandle<()>,
}

impl Running {
    /// The launcher's process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Waits until its standard output has this text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let (bytes, more) = &*self.stdout.so_far;
        let waits = |bytes: &mut Vec<u8>| memchr::memmem::find(bytes, text.as_bytes()).is_none();
        let (_bytes, late) = more.wait_timeout_while(bytes.lock().unwrap(), TIMEOUT, waits).unwrap();
        assert!(!late.timed_out(), "no {text:?} on standard output within a minute");
    }

    /// The launcher's resident memory in MB: now, and the most there has been.
    pub fn memory(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    /// Waits for the end; a run that takes a minute is killed and fails.
    pub fn wait(self) -> Output {
        let pid = self.pid();
        drop(self.stdin);
        let mut child = self.child;
        let (sent, ended) = mpsc::channel();
        thread::spawn(move || sent.send(child.wait()));
        let status = ended.recv_timeout(TIMEOUT);
        if status.is_err() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let (stdout, stderr) = (self.stdout.whole(), self.stderr.whole());
        let Ok(status) = status else {
            panic!("the run took a minute and was killed\nstdout: {stdout}\nstderr: {stderr}");
        };
        Output { code: code(status.unwrap()), stdout, stderr, audit: rows(&self.audit) }
    }

    /// Writes to its standard input, then ends it, on a thread of its own.
    fn feed(mut self, bytes: Vec<u8>) -> Self {
        if let Some(mut stdin) = self.stdin.take() {
            // A command that does not read its input is no failure.
            thread::spawn(move || drop(stdin.write_all(&bytes)));
        }
        self
    }
}

impl Output {
    /// Panics with everything there is to see unless the code is this.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "the exit code\n{self:#?}");
        self
    }

    /// Panics unless standard output has this text.
    #[track_caller]
    pub fn expect_stdout(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text), "no {text:?} on standard output\n{self:#?}");
        self
    }

    /// Panics unless standard error has this text.
    #[track_caller]
    pub fn expect_stderr(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "no {text:?} on standard error\n{self:#?}");
        self
    }
}

/// Must stop with 125 before the command starts, with each of these texts.
#[track_caller]
pub fn refuses(run: Run, says: &[&str]) {
    let marker = run.work().join("ran");
    let output = run.script("touch ran").run();
    output.expect_code(125);
    says.iter().for_each(|text| {
        output.expect_stderr(text);
    });
    assert!(!marker.exists() && output.audit.is_empty(), "the command ran\n{output:#?}");
}

/// The exit code as a shell would say it.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// Panics, naming the package, when a program that a case needs is not there: a missing tool is never a skip.
pub fn need(program: &str, package: &str) {
    let found = PATH.split(':').any(|directory| Path::new(directory).join(program).exists());
    assert!(found, "{program} is missing: apt-get install {package}");
}

impl Text {
    fn read(mut stream: impl Read + Send + 'static) -> Self {
        let so_far = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let read = so_far.clone();
        let reader = thread::spawn(move || {
            let mut piece = vec![0; 65_536];
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                read.0.lock().unwrap().extend(&piece[..length]);
                read.1.notify_all();
            }
        });
        Self { so_far, reader }
    }

    fn whole(self) -> String {
        self.reader.join().unwrap();
        String::from_utf8_lossy(&self.so_far.0.lock().unwrap()).into_owned()
    }
}

fn rows(audit: &Path) -> Vec<Value> {
    let text = fs::read_to_string(audit).unwrap_or_default();
    text.lines().map(|row| serde_json::from_str(row).expect("a row of the audit is JSON")).collect()
}
