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
         own, such as one in /srv or your home, or start with sudo from your own account",
        directory.display(),
        system.display()
    )]
    SystemDirectory {
        /// The working directory.
        directory: PathBuf,
        /// "is", "lies in" or "holds the home".
        relation: &'static str,
        /// The system's directory, or another user's home.
        system: PathBuf,
    },
    /// The same of another tree that the policy lets it write.
    #[error(
        "as root {} would be writable inside, and it {relation} {}; take it out of allow_write, or start with sudo from \
         your own account",
        tree.display(),
        system.display()
    )]
    SystemTree {
        /// The tree.
        tree: PathBuf,
        /// "is", "lies in" or "holds the home".
        relation: &'static str,
        /// The system's directory, or another user's home.
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
        "{} lies below {}, which the command may write; move it elsewhere, such as into ~/.config/sandbox-proxy, which \
         every sandbox hides",
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

/// Where real root must not work: the top-level directories of the Filesystem Hierarchy Standard 3.0 that belong to the system, and
/// those that distributions have added. What root runs or reads by itself lies in them, so that writing there is code run as root.
/// `lib` and `lib*` stand for `lib64` and its kind.
const SYSTEM: [&str; 17] = [
    "bin",
    "boot",
    "dev",
    "efi",
    "etc",
    "gnu",
    "lost+found",
    "nix",
    "opt",
    "ostree",
    "proc",
    "run",
    "sbin",
    "snap",
    "sys",
    "sysroot",
    "usr",
];

/// The parts of /var that are for people's own files; all else there is state of the system, such as tables of cron and scripts of
/// packages.
const PEOPLES: [&str; 3] = ["/var/tmp", "/var/www", "/var/local"];

/// Checks the working directory, which must be resolved.
///
/// `homes` are the homes of all users where real root runs the command and may write where it starts, else nothing: whoever
/// may write a directory above a home may put another in its place.
///
/// # Errors
///
/// For real root any that is `/`, lies in a directory of the system, or holds somebody's home; for all, one that is private
/// or masked inside.
pub fn working_directory(
    directory: &Path,
    homes: Option<&[PathBuf]>,
    private: &[PathBuf],
    masks: &[PathBuf],
) -> Result<(), CheckError> {
    if let Some((relation, system)) = homes.and_then(|homes| of_the_system(directory, homes)) {
        return Err(CheckError::SystemDirectory { directory: directory.into(), relation, system });
    }
    if private.iter().any(|private| private.starts_with(directory)) && directory != Path::new("/") {
        return Err(CheckError::PrivateDirectory(directory.into()));
    }
    match masks.iter().find(|mask| directory.starts_with(mask)) {
        Some(mask) => Err(CheckError::MaskedDirectory { directory: directory.into(), mask: mask.clone() }),
        None => Ok(()),
    }
}

/// How a directory belongs to what is not root's own affair.
pub(super) fn of_the_system(directory: &Path, homes: &[PathBuf]) -> Option<(&'static str, PathBuf)> {
    let mut ancestors = directory.ancestors();
    // The last but one is the top-level directory.
    let Some(top) = ancestors.by_ref().filter(|ancestor| ancestor.parent().is_some()).last() else {
        return Some(("is", directory.into()));
    };
    let name = top.file_name().unwrap_or_default().to_string_lossy();
    let of_system = SYSTEM.contains(&name.as_ref())
        || name.starts_with("lib")
        || name == "var" && !PEOPLES.iter().any(|place| directory.starts_with(place));
    if of_system {
        return Some((if directory == top { "is" } else { "lies in" }, top.into()));
    }
    let held = homes.iter().find(|home| home.starts_with(directory) && *home != directory)?;
    Some(("holds the home", held.clone()))
}

/// What the command may write and what it needs to see, all resolved.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// Trees that the command may write: the working directory and /tmp, or what the policy says.
    pub writable: Vec<PathBuf>,
    /// Directories that must stay visible: home, working directory, those of `PATH`.
    pub needed: Vec<PathBuf>,
}

/// The directory to mask for a secret's file, whose path is that of [`opened_as`].
///
/// The whole directory, so that a file which its owner renames over the old one is hidden as well.
///
/// # Errors
///
/// Whatever would let the command reach the file by another way, or change what is read.
pub fn guard_secret(path: &Path, bounds: &Bounds) -> Result<PathBuf, CheckError> {
    let path = path.to_owned();
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

/// The resolved path of a regular file with one name, which is still the one that was opened. To be asked by whoever could open it:
/// what only root can reach cannot be resolved any more by the user that the command runs as.
///
/// # Errors
///
/// What is no regular file, has several names, or was replaced.
pub fn opened_as(path: &Path, file: &File) -> Result<PathBuf, CheckError> {
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
                let homes = ["/root", "/home/u", "/srv/git", "/usr/sbin"].map(PathBuf::from);
                let homes = $root.then_some(homes.as_slice());
                let answer = working_directory(Path::new($directory), homes, &private, &masks);
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
        root_may_work_in_a_directory_of_its_own_at_the_top: "/app", root true => Ok(()),
        root_may_work_in_a_users_home: "/home/u/project", root true => Ok(()),
        root_may_work_where_files_outlive_a_boot: "/var/tmp/x", root true => Ok(()),
        root_may_work_on_a_web_site: "/var/www/site", root true => Ok(()),
        root_may_not_work_in_var: "/var", root true => Err(CheckError::SystemDirectory { relation: "is", .. }),
        root_may_not_work_among_tables_of_cron: "/var/spool/cron/crontabs", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_among_packages: "/var/lib/dpkg/info", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_beside_var_tmp: "/var/tmpfiles", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_in_bin: "/bin", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_in_sbin: "/sbin", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_below_lib: "/lib/modules", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_in_lib64: "/lib64", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_below_opt: "/opt/tool/bin", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_in_proc: "/proc/sys/kernel", root true => Err(CheckError::SystemDirectory { .. }),
        root_may_not_work_above_homes: "/home", root true => Err(CheckError::SystemDirectory { relation: "holds the home", .. }),
        root_may_not_work_above_a_home_elsewhere: "/srv", root true => Err(CheckError::SystemDirectory { relation: "holds the home", .. }),
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
        assert_eq!(guard_secret(&opened_as(&path, &file).unwrap(), &Bounds::default()).unwrap(), directory);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_secret_with_two_names_is_refused() {
        let (directory, path, file) = secret("linked");
        std::fs::hard_link(&path, directory.join("other")).unwrap();
        let refused = opened_as(&path, &file);
        assert!(matches!(refused, Err(CheckError::Linked { links: 2, .. })), "{refused:?}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_secret_where_the_command_writes_is_refused() {
        let (directory, path, file) = secret("writable");
        let bounds = Bounds { writable: vec![directory.clone()], needed: Vec::new() };
        assert!(matches!(guard_secret(&path, &bounds), Err(CheckError::Writable { .. })));
        assert_eq!(guard_audit(&path, &file).unwrap(), path);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_secret_beside_what_the_command_needs_is_refused() {
        let (directory, path, _file) = secret("shared");
        let bounds = Bounds { writable: Vec::new(), needed: vec![directory.join("project")] };
        assert!(matches!(guard_secret(&path, &bounds), Err(CheckError::Shared { .. })));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_put_in_place_of_the_opened_one_is_noticed() {
        let (directory, path, file) = secret("replaced");
        std::fs::write(directory.join("new"), "y").unwrap();
        std::fs::rename(directory.join("new"), &path).unwrap();
        assert!(matches!(opened_as(&path, &file), Err(CheckError::Replaced(_))));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
