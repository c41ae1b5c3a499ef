//! The policy files, read again while the command runs: when one has changed, and on SIGHUP.
//!
//! A file steers a run that has begun only where the sandbox cannot have written it. Inside, the files that the run began
//! with are read-only, whatever name leads to them. That ends when somebody outside moves such a file away or puts another in
//! its place: from then on the run is steered by what it knows, for good.

use std::cell::Cell;
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::launcher::{self, Links, OpenedFile, Purpose, open_file};
use crate::policy::{self, Compiled, FilePolicy, Mistakes, NamedText, PolicyOptions, SecretSpec, UpstreamProxy};
use crate::sandboxes::Sandbox;

use super::super::policy_options::{read_policy, unreadable};
use super::say;

/// How often files are looked at. A change counts when it has stood still that long, so that half a file is not read.
const LOOK: Duration = Duration::from_millis(500);

/// What a policy was made from.
pub struct Origin {
    /// The texts, in their order, presets last.
    pub texts: Vec<NamedText>,
    /// The files of the first of them, as they were given. They stay open: the number of an open file goes to no other one.
    pub files: Vec<(PathBuf, File)>,
    /// The options that add to them.
    pub options: PolicyOptions,
    /// Everything is permitted, to learn what is used.
    pub learn: bool,
}

impl Origin {
    /// The policy of these texts.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn compile(&self, texts: &[NamedText]) -> Result<Compiled, Mistakes> {
        let compiled = policy::load(texts, &self.options)?;
        let policy = if self.learn { compiled.policy.learning() } else { compiled.policy };
        Ok(Compiled { policy, ..compiled })
    }
}

/// Reads policy files again.
pub struct Reload {
    origin: Origin,
    fixed: Fixed,
    sandbox: Arc<Sandbox>,
    files: Vec<Watched>,
    quiet: bool,
}

/// What is used at the start only: secrets are read once, the way to the upstream and the limits on files are made once.
#[derive(PartialEq)]
pub struct Fixed {
    secrets: Vec<SecretSpec>,
    upstream_proxy: Option<UpstreamProxy>,
    files: FilePolicy,
}

struct Watched {
    path: PathBuf,
    /// The file that the run began with.
    kept: File,
    began: Stamp,
    seen: Option<Stamp>,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The thread that looks after the files.
pub struct Watcher {
    hangups: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watcher {
    /// Has the files read now.
    pub fn hangup(&self) {
        // Where the thread is gone, nothing is read again.
        let _ = self.hangups.send(());
    }

    /// Ends it.
    pub fn end(self) {
        drop(self.hangups);
        // It has said what there was to say.
        let _ = self.thread.join();
    }
}

impl Reload {
    /// None where there is no file that could be read again. To be called when this process has become the sandbox's user.
    pub fn new(origin: Origin, fixed: Fixed, sandbox: Arc<Sandbox>, quiet: bool) -> Option<Self> {
        let mut files = Vec::new();
        for (path, file) in &origin.files {
            match kept(path, file) {
                Ok(began) => {
                    let Ok(kept) = file.try_clone() else { continue };
                    files.push(Watched { path: path.clone(), kept, began, seen: Some(began) });
                }
                Err(why) if !quiet => {
                    say(&format!("{} is not read again while the command runs: {why}", path.display()))
                }
                Err(_) => {}
            }
        }
        let all = files.len() == origin.files.len() && !files.is_empty();
        all.then_some(Self { origin, fixed, sandbox, files, quiet })
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(mut self) -> std::io::Result<Watcher> {
        let (hangups, received) = channel();
        let moves = Moves::of(&self.files)?;
        let thread =
            std::thread::Builder::new().name("policy".into()).spawn(move || self.look_after(&received, moves))?;
        Ok(Watcher { hangups, thread })
    }

    fn look_after(&mut self, hangups: &Receiver<()>, moves: Moves) {
        let mut last = self.stamps();
        loop {
            // Also while nobody asks, so that what was moved away and back counts as moved.
            self.files.iter().for_each(|file| drop(moves.seen(&file.kept)));
            let asked = match hangups.recv_timeout(LOOK) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let now = self.stamps();
            let changed = self.files.iter().zip(&now).any(|(file, stamp)| file.seen != *stamp);
            if asked || changed && now == last {
                self.files.iter_mut().zip(&now).for_each(|(file, stamp)| file.seen = *stamp);
                match self.read_again(asked, &moves) {
                    Ok(Some(said)) => self.tell(&said),
                    Ok(None) => {}
                    Err(error) => self.tell(&format!("the policy stays as it was: {error:#}")),
                }
            }
            last = now;
        }
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        let stamp = |file: &Watched| file.path.metadata().ok().as_ref().map(Stamp::of);
        self.files.iter().map(stamp).collect()
    }

    /// What came of it, for a person; none where nothing has changed and nobody asked.
    fn read_again(&mut self, asked: bool, moves: &Moves) -> Result<Option<String>> {
        let mut texts = self.origin.texts.clone();
        for (file, text) in self.files.iter().zip(&mut texts) {
            *text = file.read(moves)?;
        }
        if texts == self.origin.texts {
            return Ok(asked.then(|| "the policy files have not changed".to_owned()));
        }
        let compiled = self.origin.compile(&texts)?;
        ensure!(
            Fixed::of(&compiled) == self.fixed,
            "secrets, files and the upstream proxy are read at the start only; start again to change them"
        );
        let warnings = compiled.warnings;
        if self.sandbox.change(compiled.policy).is_err() {
            bail!("bindings are read at the start only; start again to change them");
        }
        self.origin.texts = texts;
        warnings.iter().for_each(|warning| self.tell(&warning.to_string()));
        Ok(Some("the policy has changed, and what it forbids was closed".to_owned()))
    }

    fn tell(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }
}

impl Fixed {
    /// What of a policy cannot change while a run goes on.
    pub fn of(compiled: &Compiled) -> Self {
        let Compiled { secrets, upstream_proxy, files, .. } = compiled;
        Self { secrets: secrets.clone(), upstream_proxy: upstream_proxy.clone(), files: files.clone() }
    }
}

impl Watched {
    fn read(&self, moves: &Moves) -> Result<NamedText> {
        let context = || unreadable(&self.path);
        ensure!(!moves.seen(&self.kept)?, moved(&self.path));
        let OpenedFile { file, .. } = open_file(&self.path, Purpose::ReadFile, Links::All).with_context(context)?;
        let before = file.metadata().with_context(context)?;
        ensure!(Stamp::of(&before).place == self.began.place && before.is_file(), moved(&self.path));
        let text = read_policy(file.try_clone().with_context(context)?, &self.path)?;
        let after = file.metadata().with_context(context)?;
        ensure!(Stamp::of(&before) == Stamp::of(&after), "{} was written while it was read", self.path.display());
        // Whatever happened meanwhile is told by now.
        ensure!(!moves.seen(&self.kept)?, moved(&self.path));
        Ok(text)
    }
}

fn moved(path: &Path) -> String {
    format!(
        "{} was moved or replaced, so that the sandbox could have written what is there now; start again (and write changes \
         into the file itself: many editors replace it)",
        path.display()
    )
}

/// Tells whether a file has been moved, unlinked or given another name since it was opened.
struct Moves {
    events: Inotify,
    seen: Cell<bool>,
}

impl Moves {
    fn of(files: &[Watched]) -> nix::Result<Self> {
        let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        for file in files {
            let path = format!("/proc/self/fd/{}", file.kept.as_raw_fd());
            events.add_watch(path.as_str(), AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DELETE_SELF)?;
        }
        Ok(Self { events, seen: Cell::new(false) })
    }

    /// Once is for good: what came back may have been written meanwhile.
    fn seen(&self, kept: &File) -> std::io::Result<bool> {
        let told = match self.events.read_events() {
            Ok(events) => !events.is_empty(),
            Err(Errno::EAGAIN) => false,
            Err(errno) => return Err(errno.into()),
        };
        let now = self.seen.get() || told || kept.metadata()?.nlink() != 1;
        self.seen.set(now);
        Ok(now)
    }
}

/// Why a file cannot be read again, whatever comes.
fn kept(path: &Path, file: &File) -> Result<Stamp, &'static str> {
    let Ok(metadata) = file.metadata() else { return Err("it cannot be looked at") };
    if !metadata.is_file() {
        Err("it is no regular file")
    } else if metadata.nlink() != 1 {
        Err("it has other names, by which the sandbox could write it")
    } else if !launcher::can_keep_unchanged() {
        Err("this kernel cannot make it read-only inside; Linux 5.12 can")
    } else if File::open(path).is_err() {
        Err("the sandbox's user cannot read it")
    } else {
        Ok(Stamp::of(&metadata))
    }
}
