//! Opening the files that steer a run: policy, secrets, authorities, the audit.
//!
//! An earlier sandbox of the same user may have left a symbolic link on the way. Followed by root, who opens files for a user
//! under sudo, it would lead to files that the user has no right to; followed to the audit, it would have rows written
//! somewhere else. So a path is walked step by step: every name is opened without following, by the descriptor of the
//! directory that was reached, and a link that is not to be trusted ends the walk. What was checked is what is opened.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

/// The most links that the kernel follows on one path (path_resolution(7)).
const LINKS: usize = 40;

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy)]
pub enum Links<'a> {
    /// Every one: it is opened with the rights of the user who could open what the link leads to anyway.
    All,
    /// Those that do not lie below these trees, which a sandbox can write. They must be resolved.
    Outside(&'a [PathBuf]),
    /// Those that only root could have made: no directory on the way to them can be written by anybody else. For root that
    /// opens files for a user.
    OfRoot,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be read. A pipe waits for its writer.
    Read,
    /// To be read, and it is to be a regular file, so there is nothing to wait for.
    ReadFile,
    /// To have lines appended. It is made where it is missing, for its owner alone.
    Append,
}

/// A file, and the way to it.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file.
    pub file: File,
    /// Where it is, links followed.
    pub path: PathBuf,
    /// The links that were followed, each by the resolved path of its directory and its own name.
    pub links: Vec<PathBuf>,
}

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A link that a sandbox could have made.
    #[error("{} is a link where an earlier run could have made it; name the file itself", .0.display())]
    Planted(PathBuf),
    /// A link that somebody else than root could have made, and root is asked to follow it.
    #[error(
        "{} is a link where not only root could have made it, so root does not follow it for you; name the file itself, \
         or start without sudo",
        .0.display()
    )]
    NotOfRoot(PathBuf),
    /// The system's answer.
    #[error("{}", .0)]
    Failed(#[from] io::Error),
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno.into())
    }
}

/// Opens a file by a path that is absolute or counted from the working directory. It does not become anybody's terminal,
/// and is closed on exec.
///
/// # Errors
///
/// [`OpenError`] for a link that `links` does not permit, and the system's refusals.
pub fn open_file(path: &Path, purpose: Purpose, links: Links<'_>) -> Result<OpenedFile, OpenError> {
    let mut walk = Walk::begin(path, links)?;
    let mut rest: VecDeque<OsString> = names(path).collect();
    loop {
        let Some(name) = rest.pop_front() else { return walk.finish(OsStr::new("."), purpose) };
        let opened = if rest.is_empty() { walk.last(&name, purpose)? } else { walk.step(&name)? };
        match opened {
            Step::Done(opened) => return Ok(opened),
            Step::Entered => {}
            Step::Link(target) => {
                if target.is_absolute() {
                    walk.restart()?;
                }
                names(&target).rev().for_each(|name| rest.push_front(name));
            }
        }
    }
}

/// The names of a path, `..` too, from left to right.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.collect::<Vec<_>>().into_iter()
}

/// What came of one name.
enum Step {
    Entered,
    Link(PathBuf),
    Done(OpenedFile),
}

/// A directory that was reached.
struct Walk<'a> {
    links: Links<'a>,
    at: OwnedFd,
    path: PathBuf,
    /// Somebody else than root may have put here what stands here.
    is_shared: bool,
    followed: Vec<PathBuf>,
}

const DIRECTORY: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

impl<'a> Walk<'a> {
    /// Where a path begins. Root goes down to the working directory from above, since it counts who can write up there.
    fn begin(path: &Path, links: Links<'a>) -> Result<Self, OpenError> {
        let at_root = Self {
            links,
            at: open("/", DIRECTORY, Mode::empty())?,
            path: "/".into(),
            is_shared: false,
            followed: Vec::new(),
        };
        if path.is_absolute() {
            return Ok(at_root);
        }
        let directory = std::env::current_dir()?;
        match links {
            Links::All | Links::Outside(_) => {
                Ok(Self { at: open(".", DIRECTORY, Mode::empty())?, path: directory, ..at_root })
            }
            Links::OfRoot => {
                let mut walk = at_root;
                for name in names(&directory) {
                    match walk.step(&name)? {
                        Step::Entered => {}
                        // It was moved since the kernel named it.
                        Step::Link(_) | Step::Done(_) => return Err(Errno::ENOENT.into()),
                    }
                }
                Ok(walk)
            }
        }
    }

    fn restart(&mut self) -> Result<(), OpenError> {
        self.at = open("/", DIRECTORY, Mode::empty())?;
        self.path = "/".into();
        Ok(())
    }

    /// Goes on by a name that is not the last.
    fn step(&mut self, name: &OsStr) -> Result<Step, OpenError> {
        match openat(&self.at, name, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(next) => {
                self.enter(next, name)?;
                Ok(Step::Entered)
            }
            Err(Errno::ENOTDIR | Errno::ELOOP) => self.follow(name, None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn enter(&mut self, next: OwnedFd, name: &OsStr) -> Result<(), OpenError> {
        self.is_shared |= can_be_written_by_others(&fstat(&self.at)?) || can_be_written_by_others(&fstat(&next)?);
        self.at = next;
        if name == ".." {
            self.path.pop();
        } else {
            self.path.push(name);
        }
        Ok(())
    }

    /// Opens the last name, or answers with where the link there leads.
    fn last(&mut self, name: &OsStr, purpose: Purpose) -> Result<Step, OpenError> {
        match openat(&self.at, name, flags(purpose) | OFlag::O_NOFOLLOW, OWNER_ALONE) {
            Ok(file) => Ok(Step::Done(self.opened(file, name))),
            Err(Errno::ELOOP) => self.follow(name, Some(purpose)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens what was reached, be it a directory, of which the caller says that it is one.
    fn finish(mut self, name: &OsStr, purpose: Purpose) -> Result<OpenedFile, OpenError> {
        let file = openat(&self.at, name, flags(purpose), OWNER_ALONE)?;
        Ok(self.opened(file, name))
    }

    fn opened(&mut self, file: OwnedFd, name: &OsStr) -> OpenedFile {
        let path = match name.as_encoded_bytes() {
            b"." => self.path.clone(),
            b".." => self.path.parent().unwrap_or(&self.path).to_owned(),
            _ => self.path.join(name),
        };
        OpenedFile { file: file.into(), path, links: std::mem::take(&mut self.followed) }
    }

    /// Reads the link of this name, if it may be followed. `purpose` is that of the last name.
    fn follow(&mut self, name: &OsStr, purpose: Option<Purpose>) -> Result<Step, OpenError> {
        let held = openat(&self.at, name, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?;
        if SFlag::from_bits_truncate(fstat(&held)?.st_mode) & SFlag::S_IFMT != SFlag::S_IFLNK {
            return Err(Errno::ENOTDIR.into());
        }
        let link = self.path.join(name);
        self.is_shared |= can_be_written_by_others(&fstat(&self.at)?);
        match self.links {
            Links::All => {}
            Links::Outside(trees) if trees.iter().any(|tree| link.starts_with(tree)) => {
                return Err(OpenError::Planted(link));
            }
            Links::OfRoot if self.is_shared => return Err(OpenError::NotOfRoot(link)),
            Links::Outside(_) | Links::OfRoot => {}
        }
        if self.followed.len() == LINKS {
            return Err(Errno::ELOOP.into());
        }
        if self.is_in_proc()? {
            return self.follow_by_kernel(name, purpose);
        }
        self.followed.push(link);
        Ok(Step::Link(readlinkat(&held, "")?.into()))
    }

    /// Whether the link is one of a process, such as that of a descriptor: its text is only a description.
    fn is_in_proc(&self) -> Result<bool, OpenError> {
        Ok(fstatfs(&self.at)?.filesystem_type() == PROC_SUPER_MAGIC && self.path != Path::new("/proc"))
    }

    fn follow_by_kernel(&mut self, name: &OsStr, purpose: Option<Purpose>) -> Result<Step, OpenError> {
        if let Some(purpose) = purpose {
            let file = openat(&self.at, name, flags(purpose), OWNER_ALONE)?;
            return Ok(Step::Done(self.opened(file, name)));
        }
        let next = openat(&self.at, name, DIRECTORY, Mode::empty())?;
        self.path = readlinkat(&self.at, name)?.into();
        self.at = next;
        // Nothing is known of the directories above.
        self.is_shared = true;
        Ok(Step::Entered)
    }
}

const OWNER_ALONE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

fn flags(purpose: Purpose) -> OFlag {
    let always = OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    always
        | match purpose {
            Purpose::Read => OFlag::O_RDONLY,
            Purpose::ReadFile => OFlag::O_RDONLY | OFlag::O_NONBLOCK,
            // Not blocking, since opening a FIFO would wait for a reader.
            Purpose::Append => OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_NONBLOCK,
        }
}

/// By others than root. An access control list shows in the bits of the group.
fn can_be_written_by_others(directory: &FileStat) -> bool {
    directory.st_uid != 0 || directory.st_mode & 0o022 != 0
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A directory that goes with the test; `/tmp` above it can be written by everybody.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("open-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("real/deep")).unwrap();
            std::fs::write(path.join("real/deep/file"), "content").unwrap();
            Self(path.canonicalize().unwrap())
        }

        fn open(&self, path: &str, links: Links<'_>) -> Result<(String, PathBuf, Vec<PathBuf>), OpenError> {
            let mut opened = open_file(&self.0.join(path), Purpose::Read, links)?;
            let mut text = String::new();
            opened.file.read_to_string(&mut text)?;
            Ok((text, opened.path, opened.links))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let place = Place::new("followed");
        symlink("real/../real/deep", place.0.join("relative")).unwrap();
        symlink(place.0.join("relative/./file"), place.0.join("absolute")).unwrap();
        let (text, path, links) = place.open("absolute", Links::All).unwrap();
        assert_eq!((text.as_str(), path), ("content", place.0.join("real/deep/file")));
        assert_eq!(links, [place.0.join("absolute"), place.0.join("relative")]);
    }

    #[test]
    fn a_loop_ends() {
        let place = Place::new("loop");
        symlink("loop", place.0.join("loop")).unwrap();
        let error = place.open("loop", Links::All).unwrap_err();
        assert!(matches!(&error, OpenError::Failed(error) if error.raw_os_error() == Some(libc::ELOOP)), "{error}");
    }

    #[test]
    fn root_follows_no_link_below_a_directory_of_others() {
        let place = Place::new("root");
        symlink("real/deep/file", place.0.join("last")).unwrap();
        symlink("real", place.0.join("inner")).unwrap();
        for path in ["last", "inner/deep/file", "real/../last", "real/deep/../../inner/deep/file"] {
            let refused = place.open(path, Links::OfRoot);
            assert!(matches!(&refused, Err(OpenError::NotOfRoot(_))), "{path}: {refused:?}");
        }
        assert_eq!(place.open("real/deep/file", Links::OfRoot).unwrap().0, "content");
    }

    /// Of the system's own links, wherever the system has one; a descriptor of one's own is one, too.
    #[test]
    fn root_follows_what_root_has_made() {
        for path in ["/proc/self/status", "/proc/mounts"] {
            assert!(!open_file(Path::new(path), Purpose::Read, Links::OfRoot).unwrap().links.is_empty(), "{path}");
        }
        let place = Place::new("descriptor");
        let held = File::open(place.0.join("real/deep/file")).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
        let opened = open_file(Path::new(&path), Purpose::Read, Links::OfRoot);
        // The directory of descriptors belongs to whoever runs the test.
        assert_eq!(opened.is_ok(), nix::unistd::geteuid().is_root(), "{opened:?}");
        assert!(open_file(Path::new(&path), Purpose::Read, Links::All).is_ok());
    }

    #[test]
    fn a_link_below_a_tree_is_refused_however_it_is_reached() {
        let place = Place::new("tree");
        let tree = [place.0.join("real")];
        symlink("deep", place.0.join("real/planted")).unwrap();
        symlink("real/planted", place.0.join("own")).unwrap();
        symlink("real/deep", place.0.join("fine")).unwrap();
        for path in ["real/planted/file", "own/file", "fine/../planted/file"] {
            let refused = place.open(path, Links::Outside(&tree));
            assert!(
                matches!(&refused, Err(OpenError::Planted(link)) if *link == tree[0].join("planted")),
                "{refused:?}"
            );
        }
        assert_eq!(place.open("fine/file", Links::Outside(&tree)).unwrap().0, "content");
    }

    #[test]
    fn a_file_to_append_to_is_made_for_its_owner_and_not_behind_a_link() {
        let place = Place::new("append");
        symlink(place.0.join("absent"), place.0.join("real/link")).unwrap();
        let tree = [place.0.join("real")];
        let append = |path: &str| open_file(&place.0.join(path), Purpose::Append, Links::Outside(&tree));
        let made = append("real/deep/../new").unwrap();
        assert_eq!(made.file.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(made.path, tree[0].join("new"));
        assert!(matches!(append("real/link"), Err(OpenError::Planted(_))));
        assert!(!place.0.join("absent").exists());
    }

    #[test]
    fn a_directory_is_opened_and_told_apart_by_the_caller() {
        let place = Place::new("directory");
        for path in ["real/", "real/deep/..", "real/."] {
            let opened = open_file(&place.0.join(path), Purpose::Read, Links::All).unwrap();
            assert!(opened.file.metadata().unwrap().is_dir() && opened.path == place.0.join("real"), "{path}");
        }
    }
}
