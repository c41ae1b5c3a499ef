//! A secret's file: opened once, read by descriptor, and replaced whole.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use zeroize::Zeroizing;

use super::source::{MAX_RAW, SourceError};

/// A file with a secret, opened and checked by [`check_secret_file`] before anything untrusted ran.
#[derive(Debug)]
pub struct SecretFile {
    path: PathBuf,
    file: Mutex<Arc<File>>,
}

impl SecretFile {
    /// The open file; `path` is where it is, links resolved.
    pub fn new(path: PathBuf, file: File) -> Self {
        Self { path, file: Mutex::new(Arc::new(file)) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it. Checked again, since a name may have been added after it was opened.
    pub(super) fn read(&self, uid: u32) -> Result<Zeroizing<Vec<u8>>, SourceError> {
        let file = self.held();
        let length = check_file(&self.path, &file, uid)?;
        let mut raw = Zeroizing::new(vec![0; length]);
        file.read_exact_at(&mut raw, 0).map_err(|error| self.failed(error))?;
        Ok(raw)
    }

    /// Whether what stands at the path by now is the open file.
    ///
    /// # Errors
    /// [`SourceError::FileReplaced`].
    pub(super) fn check_in_place(&self) -> Result<(), SourceError> {
        let directory = self.directory().map_err(|error| self.failed(error))?;
        self.is_in_place(&directory, &self.held())
    }

    /// Puts a new file with this value and mode 0600 in its place, which is the open one from here on. After a crash there is the
    /// old one or the new one, whole.
    ///
    /// # Errors
    /// [`SourceError`]; then the old one is there and open. What somebody else has put there is left alone.
    pub(super) fn replace(&self, value: &[u8]) -> Result<(), SourceError> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.directory().map_err(|error| self.failed(error))?;
        self.is_in_place(&directory, &held)?;
        let name = self.path.file_name().unwrap_or_default();
        // No name that a run before, or another one now, has left.
        let mut number = [0; 8];
        aws_lc_rs::rand::fill(&mut number).map_err(|_| self.failed(io::Error::other("no random bytes")))?;
        let temporary = format!(".{}.new-{:016x}", name.to_string_lossy(), u64::from_ne_bytes(number));
        let new = create(&directory, &temporary).map_err(|error| self.failed(error))?;
        let put = || -> io::Result<()> {
            (&new).write_all(value)?;
            (&new).write_all(b"\n")?;
            new.sync_all()?;
            renameat(&directory, temporary.as_str(), &directory, name)?;
            Ok(())
        };
        if let Err(error) = put() {
            // What cannot be removed lies where the sandbox does not look, like the file itself.
            let _ = unlinkat(&directory, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
            return Err(self.failed(error));
        }
        // The new one is in its place, whether the disk knows already or not.
        if let Err(error) = nix::unistd::fsync(&directory) {
            tracing::warn!("{} may be lost if this machine stops now: {error}", self.path.display());
        }
        *held = Arc::new(new);
        Ok(())
    }

    fn held(&self) -> Arc<File> {
        // Nothing panics while it is locked.
        Arc::clone(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn directory(&self) -> io::Result<OwnedFd> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        Ok(open(parent, OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?)
    }

    fn is_in_place(&self, directory: &OwnedFd, held: &File) -> Result<(), SourceError> {
        let metadata = held.metadata().map_err(|error| self.failed(error))?;
        let name = self.path.file_name().unwrap_or_default();
        match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(there) if (there.st_dev, there.st_ino) == (metadata.dev(), metadata.ino()) => Ok(()),
            Ok(_) | Err(_) => Err(SourceError::FileReplaced(self.path.clone())),
        }
    }

    fn failed(&self, error: io::Error) -> SourceError {
        SourceError::File { path: self.path.clone(), error }
    }
}

fn create(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
    // Whatever the umask takes away.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Checks an open file that is to hold a secret. `path` is where it is, for messages; `uid` is who has to own it, unless root
/// does.
///
/// # Errors
/// [`SourceError`] when it is not a regular file with one name that only its owner may use, or is too long.
pub fn check_secret_file(path: &Path, file: &File, uid: u32) -> Result<(), SourceError> {
    check_file(path, file, uid).map(drop)
}

/// The length, if the file may hold a secret.
fn check_file(path: &Path, file: &File, uid: u32) -> Result<usize, SourceError> {
    let metadata = file.metadata().map_err(|error| SourceError::File { path: path.to_owned(), error })?;
    let path = || path.to_owned();
    if !metadata.is_file() {
        return Err(SourceError::FileKind(path()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(SourceError::FileMode { path: path(), mode: metadata.mode() & 0o7777 });
    }
    if metadata.uid() != uid && metadata.uid() != 0 {
        return Err(SourceError::FileOwner { path: path(), owner: metadata.uid() });
    }
    if metadata.nlink() != 1 {
        return Err(SourceError::FileLinks { path: path(), links: metadata.nlink() });
    }
    match usize::try_from(metadata.len()) {
        Ok(length) if length <= MAX_RAW => Ok(length),
        Ok(_) | Err(_) => Err(SourceError::TooLong(path().display().to_string())),
    }
}
