//! What stands where the command must not make anything.
//!
//! A mount needs a name to be mounted on, and no layer of the kernel denies one name in a directory that may be written. So
//! the name is taken while the command runs, by an empty directory, which neither git nor a build takes notice of, and given
//! back at the end. A directory, since one is removed only while it is empty: nothing of anybody's can be lost. Where git would
//! stumble over a directory it is a file, and removed only if it says what it was made to say.
//!
//! Runs in one directory share them: each locks what it relies on, and the last one removes it. What a run that was killed
//! has left is known by its sticky bit, and taken over by the next.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

/// The sticky bit, by which a placeholder is known: nobody gives it to a directory that others cannot write, and to a file it
/// means nothing. It is there from the first moment on, whatever the umask.
const MARK: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// What takes a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandIn {
    /// An empty directory.
    Directory,
    /// An empty file.
    Nothing,
    /// A file of a line with a dot.
    Here,
}

impl StandIn {
    fn make(self, path: &Path) -> io::Result<()> {
        let text = match self {
            Self::Directory => return DirBuilder::new().mode(MARK | 0o755).create(path),
            Self::Nothing => "",
            Self::Here => HERE,
        };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MARK | 0o644).open(path)?;
        file.write_all(text.as_bytes())
    }
}

const HERE: &str = ".\n";

/// How often a lock is tried for, 10 ms apart: another run holds it alone only for the moment of removing it.
const TRIES: usize = 50;

/// The placeholders that a run relies on. Dropping it removes those that no other run does.
#[derive(Debug, Default)]
pub struct Placeholders(Vec<Held>);

#[derive(Debug)]
struct Held {
    path: PathBuf,
    /// Shared with the other runs. `None` only while it is being given up.
    lock: Option<Flock<File>>,
}

impl Placeholders {
    /// Takes a name that does not exist, and each that is missing on the way to it.
    pub(super) fn make(&mut self, path: &Path, stand_in: StandIn) -> io::Result<()> {
        let above: Vec<&Path> = path.ancestors().skip(1).take_while(|name| !name.exists()).collect();
        above.into_iter().rev().try_for_each(|name| self.take(name, StandIn::Directory))?;
        self.take(path, stand_in)
    }

    /// Relies on a name that exists, if it is a placeholder of another run's, and on those above it.
    pub(super) fn share(&mut self, path: &Path) -> io::Result<()> {
        let marked: Vec<&Path> = path.ancestors().take_while(|name| is_placeholder(name)).collect();
        // They are there; one that goes just now was the last of its run's.
        marked.into_iter().rev().try_for_each(|name| self.take(name, StandIn::Directory))
    }

    fn take(&mut self, path: &Path, stand_in: StandIn) -> io::Result<()> {
        if self.0.iter().any(|held| held.path == path) {
            return Ok(());
        }
        for _ in 0..TRIES {
            match stand_in.make(path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            if let Some(lock) = locked(path)? {
                self.0.push(Held { path: path.to_owned(), lock: Some(lock) });
                return Ok(());
            }
            sleep(Duration::from_millis(10));
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process has locked it"))
    }
}

/// `None` when it is locked, or gone by now.
fn locked(path: &Path) -> io::Result<Option<Flock<File>>> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Ok(lock) = Flock::lock(file, FlockArg::LockSharedNonblock) else { return Ok(None) };
    let held = lock.metadata()?;
    let is_named = path.symlink_metadata().is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()));
    Ok(is_named.then_some(lock))
}

fn is_placeholder(path: &Path) -> bool {
    let marked = |data: Metadata| {
        let mode = data.mode() & (MARK | WRITABLE_BY_OTHERS);
        (data.is_dir() || data.is_file()) && mode == MARK && data.uid() == geteuid().as_raw()
    };
    path.symlink_metadata().is_ok_and(marked)
}

impl Drop for Placeholders {
    /// The inner ones first.
    fn drop(&mut self) {
        for held in self.0.iter_mut().rev() {
            let Some(lock) = held.lock.take() else { continue };
            // Converted in place: whoever else relies on it holds a lock of its own.
            if lock.relock(FlockArg::LockExclusiveNonblock).is_ok() {
                // What somebody has put something into stays.
                let _ = remove(&held.path, &lock);
            }
        }
    }
}

fn remove(path: &Path, held: &File) -> io::Result<()> {
    if held.metadata()?.is_dir() {
        return std::fs::remove_dir(path);
    }
    let mut text = [0; 4];
    let length = held.read_at(&mut text, 0)?;
    let is_own = is_placeholder(path) && ["", HERE].iter().any(|own| own.as_bytes() == &text[..length]);
    if is_own { std::fs::remove_file(path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_removes_what_the_runs_share() {
        let base = std::env::temp_dir().join(format!("placeholders-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let (inner, outer) = (base.join("a/b"), base.join("a"));
        let (mut first, mut second) = (Placeholders::default(), Placeholders::default());
        first.make(&inner, StandIn::Here).unwrap();
        second.share(&inner).unwrap();
        drop(first);
        let after_first = inner.exists();
        drop(second);
        let after_second = outer.exists();
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!((after_first, after_second), (true, false));
    }

    #[test]
    fn what_somebody_has_used_stays() {
        let base = std::env::temp_dir().join(format!("placeholders-used-{}", std::process::id()));
        std::fs::create_dir_all(base.join("own")).unwrap();
        let mut placeholders = Placeholders::default();
        placeholders.make(&base.join("used"), StandIn::Directory).unwrap();
        placeholders.make(&base.join("changed"), StandIn::Nothing).unwrap();
        std::fs::write(base.join("changed"), "text").unwrap();
        placeholders.share(&base.join("own")).unwrap();
        std::fs::write(base.join("used/file"), "").unwrap();
        drop(placeholders);
        let left = ["used/file", "changed", "own"].map(|name| base.join(name).exists());
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!(left, [true; 3]);
    }
}
