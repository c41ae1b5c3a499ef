//! A terminal for a command: what a person at a keyboard would see and type.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::sandbox::need;

/// How long a person would wait for the next output.
const PATIENCE: Duration = Duration::from_secs(20);

/// A pseudo-terminal of 24 by 80, the controlling terminal of its command.
pub struct Terminal {
    keyboard: File,
    line: OwnedFd,
    screen: Arc<Screen>,
    read: usize,
    child: Option<Child>,
}

#[derive(Default)]
struct Screen {
    text: Mutex<(Vec<u8>, bool)>,
    grown: Condvar,
}

impl Terminal {
    /// Starts the command with the terminal as its standard streams, in a session of its own.
    pub fn start(command: &Command) -> Self {
        need("setsid", "util-linux");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let stream = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear().env("TERM", "dumb");
        session.envs(command.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
        if let Some(directory) = command.get_current_dir() {
            session.current_dir(directory);
        }
        let child = session.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let screen = Arc::new(Screen::default());
        let master = File::from(pty.master);
        let (shown, source) = (screen.clone(), master.try_clone().unwrap());
        std::thread::spawn(move || shown.follow(source));
        Self { keyboard: master, line: pty.slave, screen, read: 0, child: Some(child) }
    }

    /// Types this.
    pub fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this stands behind what was waited for last.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let found = self.screen.wait_for(text, self.read);
        self.read = found.unwrap_or_else(|screen| panic!("no {text:?} on the screen:\n{}", &screen[self.read..]));
    }

    /// The command's process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.as_ref().expect("it runs").id() as i32)
    }

    /// Its name outside.
    pub fn name(&self) -> String {
        nix::unistd::ttyname(&self.line).unwrap().display().to_string()
    }

    /// Changes the size of the window.
    pub fn resize(&self, rows: u16, columns: u16) {
        let sizes = [rows.to_string(), columns.to_string()];
        let line = Stdio::from(self.line.try_clone().unwrap());
        let done = Command::new("stty").args(["rows", &sizes[0], "cols", &sizes[1]]).stdin(line).status();
        assert!(done.expect("stty is missing: apt-get install coreutils").success());
    }

    /// Waits for the command's end; one that does not come is a failure.
    #[track_caller]
    pub fn wait(mut self) -> ExitStatus {
        let (mut child, (sent, ended)) = (self.child.take().expect("it is waited for once"), mpsc::channel());
        let pid = Pid::from_raw(child.id() as i32);
        std::thread::spawn(move || sent.send(child.wait()));
        let status = ended.recv_timeout(PATIENCE);
        if status.is_err() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let screen = String::from_utf8_lossy(&self.screen.text.lock().unwrap().0).into_owned();
        status.unwrap_or_else(|_| panic!("the command does not end; on the screen:\n{screen}")).unwrap()
    }
}

impl Drop for Terminal {
    /// A case that fails leaves nothing running.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Screen {
    fn follow(&self, mut source: File) {
        let mut buffer = [0; 4096];
        loop {
            let length = source.read(&mut buffer).unwrap_or_default();
            let mut text = self.text.lock().unwrap();
            text.0.extend(&buffer[..length]);
            text.1 = length == 0;
            self.grown.notify_all();
            if text.1 {
                return;
            }
        }
    }

    /// Where the text ends, or the whole screen when it does not come.
    fn wait_for(&self, wanted: &str, from: usize) -> Result<usize, String> {
        let text = self.text.lock().unwrap();
        let missing = |text: &mut (Vec<u8>, bool)| !text.1 && find(&text.0, wanted, from).is_none();
        let (text, _) = self.grown.wait_timeout_while(text, PATIENCE, missing).unwrap();
        find(&text.0, wanted, from).ok_or_else(|| String::from_utf8_lossy(&text.0).into_owned())
    }
}

fn find(text: &[u8], wanted: &str, from: usize) -> Option<usize> {
    let position = text[from..].windows(wanted.len()).position(|part| part == wanted.as_bytes())?;
    Some(from + position + wanted.len())
}
