//! From the policy's words about files to the paths of this machine: what may be written, what may not though it lies there,
//! what is hidden and what is shown in it. Decided outside, before the command exists; `limits.rs`, `hiding.rs` and
//! `confine.rs` enforce it.

mod locate;
mod placeholders;
mod protected;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::policy::files::{FileLimits, FilePath};

use super::checks::{CheckError, of_the_system};
use super::mountinfo::{self, all_places};
use super::plan::{FilePlan, PRIVATE_DIRECTORY, Tree};
use super::streams;
use locate::{Found, locate};

pub use placeholders::Placeholders;
use placeholders::StandIn;

/// Why the policy's limits on files cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A link that an earlier run could have made would widen what is permitted.
    #[error("{key}: {} is a link where an earlier run could have made it; name what it leads to", link.display())]
    Planted {
        /// The list of the policy.
        key: &'static str,
        /// The link.
        link: PathBuf,
    },
    /// `~` would stand for everything there is.
    #[error("{key}: {path}: the home is /, so `~` would stand for everything; set HOME, or write the whole path")]
    NoHome {
        /// The list of the policy.
        key: &'static str,
        /// As it was written.
        path: FilePath,
    },
    /// Another name of a file would show or change what this one does not.
    #[error("{key}: {} has {links} names (hard links), and the others are not denied; copy it over itself", path.display())]
    Linked {
        /// The list of the policy.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// What a sandbox itself is made of.
    #[error("deny_read: {} is, or holds, what every sandbox has of its own; name what lies in it instead", .0.display())]
    Unhideable(PathBuf),
    /// A path that does not exist, below one that may be written, and that cannot be kept from being made.
    #[error(
        "deny_write: {} does not exist, and cannot be kept from being made: {source}; make it yourself, or take the \
         directory out of allow_write",
        path.display()
    )]
    Unplaced {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is too much to look through for files that programs outside obey.
    #[error(
        "{} holds more than {most} entries within {depth} levels, too many to look through for files that programs outside \
         obey (such as .git/hooks); start in a smaller directory, or name less in allow_write",
        directory.display()
    )]
    TooLarge {
        /// Where the command starts.
        directory: PathBuf,
        /// The bound on entries.
        most: usize,
        /// The bound on levels.
        depth: usize,
    },
    /// The command could open it again, by its descriptor, and past the mounts.
    #[error("{stream} is {}, which the policy denies; put `cat |` in front (or `| cat` behind)", path.display())]
    Stream {
        /// "standard input", "standard output" or "standard error".
        stream: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The system's answer.
    #[error("{key}: cannot look at {}: {source}", path.display())]
    Unreadable {
        /// The list of the policy.
        key: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Root is not to write there.
    #[error(transparent)]
    System(#[from] CheckError),
}

/// What a run stands among.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// What `~` stands for.
    pub home: &'a Path,
    /// The working directory, resolved.
    pub directory: &'a Path,
    /// The homes of all users where real root runs the command, else nothing.
    pub homes: Option<&'a [PathBuf]>,
    /// Directories of the sandbox's own, which can always be written.
    pub private: &'a [PathBuf],
    /// The text of `/proc/self/mountinfo`.
    pub mounts: &'a [u8],
}

/// The limits on files, as they are on this machine.
#[derive(Debug)]
pub struct FileRules {
    /// For pid 1.
    pub plan: FilePlan,
    /// The symbolic links by which denied paths are found.
    pub links: Vec<PathBuf>,
    /// What is permitted and does not exist.
    pub absent: Vec<FilePath>,
    /// Must be kept until the command has ended.
    pub placeholders: Placeholders,
}

impl FileRules {
    /// Looks the policy's paths up. Directories that are to keep a name from being made are made here.
    ///
    /// # Errors
    ///
    /// [`FilesError`]: what would leave a denied path open, with the cure.
    pub fn new(limits: &FileLimits, around: Around<'_>) -> Result<Self, FilesError> {
        let mut work = Work { around, links: Vec::new(), absent: Vec::new(), placeholders: Placeholders::default() };
        let mut writable = work.permitted("allow_write", &limits.allow_write)?;
        let mut shown = work.permitted("allow_read", &limits.allow_read)?;
        work.refuse_planted("allow_write", &writable, &writable)?;
        work.refuse_planted("allow_read", &shown, &writable)?;
        work.leave_out_private(&mut writable);
        shown.retain(|(path, _)| !around.private.contains(path));
        let unwritable = work.unwritable(limits, &writable)?;
        let masked = work.masked(limits)?;
        let mounts = mountinfo::parse(around.mounts);
        let unwritable = all_places(unwritable, &mounts);
        let mut masked = all_places(masked, &mounts);
        masked.retain(|mask| !shown.iter().any(|(path, _)| path == mask));
        writable.retain(|(path, _)| !unwritable.iter().any(|denied| path.starts_with(denied)));
        for (tree, _) in &writable {
            work.refuse_system(tree)?;
        }
        // What may be written is to be seen, too, but for what is hidden just there.
        shown.extend(writable.iter().filter(|(path, _)| !masked.contains(path)).cloned());
        shown.retain(|(path, _)| masked.iter().any(|mask| path.starts_with(mask)));
        let plan = FilePlan {
            writable: trees(outermost(writable), "allow_write")?,
            unwritable: unwritable.into_iter().map(PathBuf::into_os_string).collect(),
            masked: masked.into_iter().map(PathBuf::into_os_string).collect(),
            shown: trees(shown, "allow_read")?,
        };
        refuse_streams(&plan)?;
        Ok(Self { plan, links: work.links, absent: work.absent, placeholders: work.placeholders })
    }
}

/// The sockets, and directories of sockets, that a policy shows, and what of its list does not exist.
///
/// # Errors
///
/// [`FilesError::Planted`] for a link that could lead to another socket by now.
pub fn sockets_shown(
    list: &[FilePath],
    around: Around<'_>,
    plan: Option<&FilePlan>,
) -> Result<(Vec<PathBuf>, Vec<FilePath>), FilesError> {
    let mut work = Work { around, links: Vec::new(), absent: Vec::new(), placeholders: Placeholders::default() };
    let writable: Vec<Place> =
        plan.iter().flat_map(|plan| plan.writable()).map(|tree| (tree.to_owned(), Vec::new())).collect();
    let places = work.permitted("unix_sockets", list)?;
    work.refuse_planted("unix_sockets", &places, &writable)?;
    Ok((places.into_iter().map(|(path, _)| path).collect(), work.absent))
}

/// A path that exists, and the links that led to it.
type Place = (PathBuf, Vec<PathBuf>);

struct Work<'a> {
    around: Around<'a>,
    links: Vec<PathBuf>,
    absent: Vec<FilePath>,
    placeholders: Placeholders,
}

impl Work<'_> {
    fn resolve(&self, path: &FilePath) -> PathBuf {
        path.resolve(self.around.home, self.around.directory)
    }

    /// What of a list of permissions exists.
    fn permitted(&mut self, key: &'static str, list: &[FilePath]) -> Result<Vec<Place>, FilesError> {
        let mut places = Vec::new();
        for path in list {
            if path.is_of_home() && self.around.home.parent().is_none() {
                return Err(FilesError::NoHome { key, path: path.clone() });
            }
            match looked_up(key, &self.resolve(path))? {
                (Found::There(found), links) => places.push((found, links)),
                (Found::Missing { .. } | Found::Nowhere, _) => self.absent.push(path.clone()),
            }
        }
        Ok(places)
    }

    /// What the sandbox has of its own is written anyway, and is another directory than the host's. Where the command starts is
    /// given back in it.
    fn leave_out_private(&self, writable: &mut Vec<Place>) {
        let Around { directory, private, .. } = self.around;
        let (own, mut rest): (Vec<Place>, Vec<Place>) =
            writable.drain(..).partition(|(tree, _)| private.contains(tree));
        if own.iter().any(|(tree, _)| directory.starts_with(tree) && directory != tree) {
            rest.push((directory.to_owned(), Vec::new()));
        }
        *writable = rest;
    }

    /// An earlier run may have written below what is permitted now, where it started, and in /tmp.
    fn refuse_planted(&self, key: &'static str, places: &[Place], writable: &[Place]) -> Result<(), FilesError> {
        let trees = writable.iter().map(|(tree, _)| tree.as_path()).chain([self.around.directory, Path::new("/tmp")]);
        let trees: Vec<&Path> = trees.collect();
        let is_planted = |link: &&PathBuf| trees.iter().any(|tree| link.starts_with(tree) && link != tree);
        match places.iter().flat_map(|(_, links)| links).find(is_planted) {
            Some(link) => Err(FilesError::Planted { key, link: link.clone() }),
            None => Ok(()),
        }
    }

    /// What may not be written though it lies where it may, or holds what may. The rest is denied anyway.
    fn unwritable(&mut self, limits: &FileLimits, writable: &[Place]) -> Result<Vec<PathBuf>, FilesError> {
        let trees: Vec<&Path> = writable.iter().map(|(tree, _)| tree.as_path()).collect();
        let written = limits.deny_write.iter().map(|path| (self.resolve(path), StandIn::Directory)).collect::<Vec<_>>();
        let protected = protected::paths(&self.around, &trees, limits.allow_git_config)?;
        let mut denied = Vec::new();
        for (path, stand_in) in written.into_iter().chain(protected) {
            let (found, links) = looked_up("deny_write", &path)?;
            // Wherever they lead: another name in the place of a link would be a new file there.
            self.links.extend(links);
            let (place, is_there) = match found {
                Found::There(place) => (place, true),
                Found::Missing { reached, rest } => (reached.join(rest), false),
                Found::Nowhere => continue,
            };
            let holds = trees.iter().any(|tree| tree.starts_with(&place));
            if !holds && !trees.iter().any(|tree| place.starts_with(tree)) {
                continue;
            }
            let kept = if is_there {
                refuse_other_names("deny_write", &place)?;
                self.placeholders.share(&place)
            } else {
                self.placeholders.make(&place, stand_in)
            };
            match kept {
                Ok(()) => denied.push(place),
                // Nor can the command.
                Err(source) if is_closed(&source, &place) => {}
                Err(source) => return Err(FilesError::Unplaced { path: place, source }),
            }
        }
        Ok(denied)
    }

    fn masked(&mut self, limits: &FileLimits) -> Result<Vec<PathBuf>, FilesError> {
        let own = [PRIVATE_DIRECTORY, "/proc", "/dev"].map(Path::new);
        let mut masked = Vec::new();
        for path in &limits.deny_read {
            let (found, links) = looked_up("deny_read", &self.resolve(path))?;
            self.links.extend(links);
            let Found::There(place) = found else { continue };
            if own.iter().any(|own| own.starts_with(&place)) || place.starts_with("/proc") {
                return Err(FilesError::Unhideable(place));
            }
            refuse_other_names("deny_read", &place)?;
            masked.push(place);
        }
        Ok(masked)
    }

    fn refuse_system(&self, tree: &Path) -> Result<(), FilesError> {
        match self.around.homes.and_then(|homes| of_the_system(tree, homes)) {
            Some((relation, system)) => Err(CheckError::SystemTree { tree: tree.to_owned(), relation, system }.into()),
            None => Ok(()),
        }
    }
}

fn looked_up(key: &'static str, path: &Path) -> Result<(Found, Vec<PathBuf>), FilesError> {
    locate(path).map_err(|source| FilesError::Unreadable { key, path: path.to_owned(), source })
}

/// Whether nothing can be made at a path because its directory is closed to the user, who does not own it.
fn is_closed(error: &io::Error, path: &Path) -> bool {
    let nearest = path.ancestors().skip(1).find_map(|above| above.metadata().ok());
    let is_own = nearest.is_none_or(|above| above.uid() == geteuid().as_raw());
    error.kind() == io::ErrorKind::ReadOnlyFilesystem || error.kind() == io::ErrorKind::PermissionDenied && !is_own
}

/// A file that is denied by its name must have no other one.
fn refuse_other_names(key: &'static str, path: &Path) -> Result<(), FilesError> {
    let unreadable = |source| FilesError::Unreadable { key, path: path.to_owned(), source };
    let metadata = path.symlink_metadata().map_err(unreadable)?;
    if metadata.is_file() && metadata.nlink() != 1 {
        return Err(FilesError::Linked { key, path: path.to_owned(), links: metadata.nlink() });
    }
    Ok(())
}

/// Without what lies in another one.
fn outermost(mut places: Vec<Place>) -> Vec<Place> {
    places.sort();
    let mut kept: Vec<Place> = Vec::new();
    for place in places {
        if !kept.iter().any(|(outer, _)| place.0.starts_with(outer)) {
            kept.push(place);
        }
    }
    kept
}

fn trees(places: Vec<Place>, key: &'static str) -> Result<Vec<Tree>, FilesError> {
    let mut paths: Vec<PathBuf> = places.into_iter().map(|(path, _)| path).collect();
    paths.sort();
    paths.dedup();
    let tree = |path: PathBuf| Tree::new(&path).map_err(|source| FilesError::Unreadable { key, path, source });
    paths.into_iter().map(tree).collect()
}

/// A descriptor of a file leads to it past every mount that was made since.
fn refuse_streams(plan: &FilePlan) -> Result<(), FilesError> {
    for (stream, path) in streams::files() {
        let denied = plan.unwritable.iter().any(|denied| path.starts_with(denied));
        if denied || plan.hides(&path) {
            return Err(FilesError::Stream { stream, path });
        }
    }
    Ok(())
}
