//! What must hold before a run starts: where it may work, and which files it may be steered by.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::streams;

/// Why a run is refused.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A directory of the system, when real root runs the command.
    #[error(
        "as root the working directory {} would be writable inside, and it {relation} {}; change to a directory of your \
         own, or start with sudo from your own account",
        directory.display(),
        system.display()
    )]
    SystemDirectory {
        /// The working directory.
        directory: PathBuf,
        /// "is", "lies in" or "holds".
        relation: &'static str,
        /// The system's directory.
        system: PathBuf,
    },
    /// A directory that is replaced by a private one.
    #[error("the working directory {} is private inside, hence empty; change to another", .0.display())]
    PrivateDirectory(PathBuf),
    /// A directory that is masked.
    #[error("the working directory {} lies in {}, which is masked; change to another", directory.display(), mask.display())]
    MaskedDirectory {
        /// The working directory.
        directory: PathBuf,
        /// The mask.
        mask: PathBuf,
    },
    /// Not an ordinary file, so nothing about it can be held.
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// A second name of the file could lie where no mask is.
    #[error("{} has {links} names (hard links), so masking this one does not hide it; copy it and use the copy", path.display())]
    Linked {
        /// The file.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// The name was changed after it was opened.
    #[error("{} is no longer the file that was opened; start again when nothing else changes it", .0.display())]
    Replaced(PathBuf),
    /// The command could write where the file lies.
    #[error(
        "{} lies below {}, which the command may write; move it elsewhere, such as into a directory of its own below \
         ~/.config",
        path.display(),
        writable.display()
    )]
    Writable {
        /// The file.
        path: PathBuf,
        /// What the command may write.
        writable: PathBuf,
    },
    /// The file's directory is needed inside.
    #[error(
        "{} lies in {}, which cannot be masked as a whole since it holds {}; move the file into a directory of its own",
        path.display(),
        directory.display(),
        needed.display()
    )]
    Shared {
        /// The file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
        /// What else the directory holds.
        needed: PathBuf,
    },
    /// A standard stream that would be a way out, or around the masks.
    #[error(
        "{stream} is {kind}, by which the command could get out of the sandbox; put `cat |` in front (or `| cat` behind), or redirect it to a file"
    )]
    Stream {
        /// "standard input", "standard output" or "standard error".
        stream: &'static str,
        /// What it is.
        kind: &'static str,
    },
    /// The command could write its own record.
    #[error("{} is {stream} of the command too, which could write into it; use another file", path.display())]
    AuditIsStream {
        /// The file.
        path: PathBuf,
        /// "standard input", "standard output" or "standard error".
        stream: &'static str,
    },
    /// The system's answer.
    #[error("cannot look at {}: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

/// Checks the working directory, which must be resolved (`canonicalize`).
///
/// # Errors
///
/// For real root any that is `/`, or is, holds or lies in a directory of the system; for all, one that is private or
/// masked inside.
pub fn working_directory(
    directory: &Path,
    real_root: bool,
    private: &[PathBuf],
    masks: &[PathBuf],
) -> Result<(), CheckError> {
    const SYSTEM: [&str; 8] = ["/", "/proc", "/sys", "/dev", "/etc", "/usr", "/boot", "/run"];
    if real_root {
        for system in SYSTEM.map(Path::new) {
            let relation = if directory == system {
                "is"
            } else if directory.starts_with(system) && system != Path::new("/") {
                "lies in"
            } else if system.starts_with(directory) {
                "holds"
            } else {
                continue;
            };
            return Err(CheckError::SystemDirectory { directory: directory.into(), relation, system: system.into() });
        }
    }
    if private.iter().any(|private| private.starts_with(directory)) && directory != Path::new("/") {
        return Err(CheckError::PrivateDirectory(directory.into()));
    }
    match masks.iter().find(|mask| directory.starts_with(mask)) {
        Some(mask) => Err(CheckError::MaskedDirectory { directory: directory.into(), mask: mask.clone() }),
        None => Ok(()),
    }
}

/// What the command may write and what it needs to see, all resolved.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// Trees that the command may write whatever its profile: the working directory, /tmp.
    pub writable: Vec<PathBuf>,
    /// Directories that must stay visible: home, working directory, those of `PATH`.
    pub needed: Vec<PathBuf>,
}

/// Checks a secret's file, opened from `path`, and answers with the directory to mask.
///
/// The whole directory, so that a file which its owner renames over the old one is hidden as well.
///
/// # Errors
///
/// Whatever would let the command reach the file by another way, or change what is read.
pub fn guard_secret(path: &Path, file: &File, bounds: &Bounds) -> Result<PathBuf, CheckError> {
    let path = opened_as(path, file)?;
    if let Some(writable) = bounds.writable.iter().find(|tree| path.starts_with(tree)) {
        return Err(CheckError::Writable { path, writable: writable.clone() });
    }
    let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
    let system = ["/etc", "/usr", "/bin", "/lib", "/proc", "/dev", "/sys", "/run", "/tmp", "/var", "/opt", "/home"];
    let system = system.map(PathBuf::from);
    match bounds.needed.iter().chain(&system).find(|needed| needed.starts_with(&directory)) {
        Some(needed) => Err(CheckError::Shared { path, directory, needed: needed.clone() }),
        None => Ok(directory),
    }
}

/// Checks the audit file, opened from `path`, and answers with the file to mask. It may lie where the command writes:
/// a mount point can be neither written nor renamed nor linked inside.
///
/// # Errors
///
/// A file of several names, or none that can be masked, or one that is a standard stream of the command.
pub fn guard_audit(path: &Path, file: &File) -> Result<PathBuf, CheckError> {
    let resolved = opened_as(path, file)?;
    match streams::that_is(file) {
        Some(stream) => Err(CheckError::AuditIsStream { path: resolved, stream }),
        None => Ok(resolved),
    }
}

/// The resolved path of a regular file with one name, which is still the one that was opened.
fn opened_as(path: &Path, file: &File) -> Result<PathBuf, CheckError> {
    let unreadable = |source| CheckError::Unreadable { path: path.into(), source };
    let resolved = path.canonicalize().map_err(unreadable)?;
    let held = file.metadata().map_err(unreadable)?;
    let named = resolved.metadata().map_err(unreadable)?;
    if (held.dev(), held.ino()) != (named.dev(), named.ino()) {
        return Err(CheckError::Replaced(path.into()));
    }
    if !held.is_file() {
        return Err(CheckError::NotRegular(path.into()));
    }
    if held.nlink() != 1 {
        return Err(CheckError::Linked { path: path.into(), links: held.nlink() });
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! directories {
        ($($test:ident: $directory:literal, root $root:literal => $expected:pat,)*) => {
            $(#[test]
            fn $test() {
                let private = ["/run".into(), "/run/user/1".into()];
                let masks = ["/home/u/.ssh".into()];
                let answer = working_directory(Path::new($directory), $root, &private, &masks);
                assert!(matches!(answer, $expected), "{answer:?}");
            })*
        };
    }

    directories! {
        root_may_work_in_a_project: "/srv/project", root true => Ok(()),
        root_may_work_in_its_home: "/root", root true => Ok(()),
        root_may_not_work_in_the_root: "/", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_in_etc: "/etc", root true => Err(CheckError::SystemDirectory { relation: "is", .. }),
        root_may_not_work_below_usr: "/usr/local/src", root true => Err(CheckError::SystemDirectory { relation: "lies in", .. }),
        root_may_work_beside_usr: "/usrlocal", root true => Ok(()),
        a_user_may_work_below_usr: "/usr/local/src", root false => Ok(()),
        a_user_may_work_in_the_root: "/", root false => Ok(()),
        nobody_works_in_run: "/run", root false => Err(CheckError::PrivateDirectory(_)),
        nobody_works_in_the_runtime_directory: "/run/user/1", root false => Err(CheckError::PrivateDirectory(_)),
        nobody_works_in_what_holds_it: "/run/user", root false => Err(CheckError::PrivateDirectory(_)),
        below_it_is_bound_back: "/run/user/1/project", root false => Ok(()),
        nobody_works_in_a_mask: "/home/u/.ssh/keys", root false => Err(CheckError::MaskedDirectory { .. }),
    }

    fn secret(name: &str) -> (PathBuf, PathBuf, File) {
        let directory = std::env::temp_dir().join(format!("checks-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let directory = directory.canonicalize().unwrap();
        let path = directory.join("key");
        std::fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        (directory, path, file)
    }

    #[test]
    fn a_secret_alone_in_its_directory_is_masked_with_it() {
        let (directory, path, file) = secret("alone");
        assert_eq!(guard_secret(&path, &file, &Bounds::default()).unwrap(), directory);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_secret_with_two_names_is_refused() {
        let (directory, path, file) = secret("linked");
        std::fs::hard_link(&path, directory.join("other")).unwrap();
        let refused = guard_secret(&path, &file, &Bounds::default());
        assert!(matches!(refused, Err(CheckError::Linked { links: 2, .. })), "{refused:?}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_secret_where_the_command_writes_is_refused() {
        let (directory, path, file) = secret("writable");
        let bounds = Bounds { writable: vec![directory.clone()], needed: Vec::new() };
        assert!(matches!(guard_secret(&path, &file, &bounds), Err(CheckError::Writable { .. })));
        assert_eq!(guard_audit(&path, &file).unwrap(), path);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_secret_beside_what_the_command_needs_is_refused() {
        let (directory, path, file) = secret("shared");
        let bounds = Bounds { writable: Vec::new(), needed: vec![directory.join("project")] };
        assert!(matches!(guard_secret(&path, &file, &bounds), Err(CheckError::Shared { .. })));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_put_in_place_of_the_opened_one_is_noticed() {
        let (directory, path, file) = secret("replaced");
        std::fs::write(directory.join("new"), "y").unwrap();
        std::fs::rename(directory.join("new"), &path).unwrap();
        assert!(matches!(guard_secret(&path, &file, &Bounds::default()), Err(CheckError::Replaced(_))));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
