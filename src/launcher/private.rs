//! Directories of the sandbox's own: /run, $XDG_RUNTIME_DIR, /dev/shm, /dev/mqueue, /tmp by choice. They hide the sockets and the files
//! through which programs of one user talk to each other.

use std::ffi::OsString;
use std::fs::create_dir_all;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use super::control::{Failure, Layer};
use super::mounts::{bind, descriptor_path, failed, hold, made, tmpfs};
use super::plan::Plan;

/// The directories that become private, for [`super::checks::working_directory`] and for the mounts alike. `runtime` is
/// `$XDG_RUNTIME_DIR`.
pub fn private_directories(runtime: Option<&Path>, private_tmp: bool) -> Vec<PathBuf> {
    let mut directories = vec![PathBuf::from("/run")];
    // A link to /run on most systems, a directory of its own on a few.
    directories.extend(real_directory("/var/run"));
    directories.extend(real_directory("/dev/shm"));
    directories.extend(real_directory("/dev/mqueue"));
    if private_tmp {
        directories.push(PathBuf::from("/tmp"));
    }
    directories.extend(runtime.and_then(|path| path.canonicalize().ok()).filter(|path| may_be_private(path)));
    directories
}

/// Whether `$XDG_RUNTIME_DIR` is a directory of its own kind, and not by some mistake one that holds the system.
fn may_be_private(runtime: &Path) -> bool {
    let system = ["/dev", "/etc", "/proc", "/sys", "/tmp", "/usr", "/var"].map(Path::new);
    runtime.is_dir() && !system.iter().any(|needed| needed.starts_with(runtime))
}

fn real_directory(path: &str) -> Option<PathBuf> {
    Path::new(path).symlink_metadata().is_ok_and(|data| data.is_dir()).then(|| path.into())
}

/// Covers the private directories and gives back in them what the plan keeps.
pub(super) fn set_up(plan: &Plan) -> Result<(), Failure> {
    let runtime = plan.runtime_directory.as_ref().map(Path::new);
    let directories = private_directories(runtime, plan.private_tmp);
    let mut steps = Vec::new();
    for kept in &plan.kept {
        plan_return(kept, &directories, &mut steps)?;
    }
    for directory in &directories {
        let inside = directories.iter().any(|other| other != directory && directory.starts_with(other));
        if inside {
            // Below another private directory, so it is private already; it must only exist.
            made(directory, create_dir_all(directory))?;
        } else {
            tmpfs(directory, if shared_kind(directory) { "mode=1777" } else { "mode=755" })?;
        }
        if runtime.is_some_and(|runtime| runtime.canonicalize().is_ok_and(|runtime| runtime == *directory)) {
            made(directory, std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)))?;
        }
    }
    make_lock_directory()?;
    steps.into_iter().try_for_each(Step::take)
}

/// Directories in which everybody may create files.
fn shared_kind(directory: &Path) -> bool {
    ["/tmp", "/dev/shm", "/dev/mqueue"].map(Path::new).contains(&directory)
}

/// /var/lock points here, and some programs insist on it.
fn make_lock_directory() -> Result<(), Failure> {
    let lock = Path::new("/run/lock");
    made(lock, std::fs::create_dir(lock))?;
    made(lock, std::fs::set_permissions(lock, PermissionsExt::from_mode(0o1777)))
}

/// One step on the way to a directory that is given back.
enum Step {
    Directory(PathBuf),
    Link(PathBuf, PathBuf),
    Bind(PathBuf, OwnedFd),
}

impl Step {
    fn take(self) -> Result<(), Failure> {
        match self {
            Self::Directory(path) => made(&path, create_dir_all(&path)),
            Self::Link(path, target) => match symlink(target, &path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    Err(failed("linking", &path, &error))
                }
                Ok(()) | Err(_) => Ok(()),
            },
            Self::Bind(path, held) => {
                let is_directory = std::fs::metadata(descriptor_path(&held)).is_ok_and(|data| data.is_dir());
                made(&path, if is_directory { create_dir_all(&path) } else { std::fs::write(&path, "") })?;
                bind(&held, &path)
            }
        }
    }
}

/// Follows a path as the kernel would, component by component, and notes what of it lies in a private directory: links
/// are made anew, the last directory is bound.
fn plan_return(kept: &OsString, private: &[PathBuf], steps: &mut Vec<Step>) -> Result<(), Failure> {
    const LINK_LIMIT: usize = 40;
    let hidden = |path: &Path| private.iter().any(|directory| path.starts_with(directory) && path != directory);
    let mut links = 0;
    let mut reached = PathBuf::from("/");
    let mut rest: Vec<OsString> = components(Path::new(kept)).rev().collect();
    while let Some(name) = rest.pop() {
        if name == ".." {
            reached.pop();
            continue;
        }
        let next = reached.join(&name);
        let Ok(metadata) = next.symlink_metadata() else { return Ok(()) };
        if !metadata.is_symlink() {
            reached = next;
            if hidden(&reached) && !rest.is_empty() {
                steps.push(Step::Directory(reached.clone()));
            }
            continue;
        }
        links += 1;
        if links > LINK_LIMIT {
            return Ok(());
        }
        let target = std::fs::read_link(&next).map_err(|error| failed("reading the link", &next, &error))?;
        if target.is_absolute() {
            reached = PathBuf::from("/");
        }
        rest.extend(components(&target).rev());
        if hidden(&next) {
            steps.push(Step::Link(next, target));
        }
    }
    if private.contains(&reached) {
        let text = format!(
            "{} is private inside, hence cannot be kept; take it out of PATH, or out of unix_sockets",
            reached.display()
        );
        return Err(Failure::text(Layer::Mounts, text));
    }
    let is_kind = |data: std::fs::Metadata| data.is_dir() || data.file_type().is_socket();
    if hidden(&reached)
        && reached.metadata().is_ok_and(is_kind)
        && let Some(held) = hold(&reached)?
    {
        steps.push(Step::Bind(reached, held));
    }
    Ok(())
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_kept_directory_is_rebuilt() {
        let root = std::env::temp_dir().join(format!("private-{}", std::process::id()));
        let private = root.join("run");
        create_dir_all(private.join("store/v1/bin")).unwrap();
        symlink("store/v1", private.join("current")).unwrap();
        let root = root.canonicalize().unwrap();
        let private = root.join("run");
        let mut steps = Vec::new();
        let kept = private.join("current/bin").into_os_string();
        plan_return(&kept, std::slice::from_ref(&private), &mut steps).unwrap();
        let told: Vec<String> = steps
            .iter()
            .map(|step| match step {
                Step::Directory(path) => format!("directory {}", path.strip_prefix(&private).unwrap().display()),
                Step::Link(path, to) => {
                    format!("link {} {}", path.strip_prefix(&private).unwrap().display(), to.display())
                }
                Step::Bind(path, _) => format!("bind {}", path.strip_prefix(&private).unwrap().display()),
            })
            .collect();
        assert_eq!(told, ["link current store/v1", "directory store", "directory store/v1", "bind store/v1/bin"]);
        std::fs::remove_dir_all(root).unwrap();
    }
}
