//! Directories that the command must not move away, and files that it must not change.
//!
//! Renaming a directory above the audit file, and putting another in its place, would have whoever reads the audit by its
//! path read a forgery. Renaming one above a credential store would show the store to the *next* run, which looks for it in
//! its old place. A mount point can be neither renamed nor replaced, in no mount that shows it. A policy that the command
//! could write would steer the next run.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use super::control::Failure;
use super::mountinfo::Mount;
use super::mounts::{bind, c_string, failed, hold};
use super::namespace;
use super::plan::Plan;
use super::root;

/// The directories above `paths` that the calling user could rename: those whose own directory is writable. Each once, the
/// outer ones first. The paths must be resolved.
pub fn pins<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let above: BTreeSet<&Path> = paths.flat_map(|path| path.ancestors().skip(1)).collect();
    let mut asked: HashMap<&Path, bool> = HashMap::new();
    let mut writable = |parent| *asked.entry(parent).or_insert_with(|| access(parent, AccessFlags::W_OK).is_ok());
    above.into_iter().filter(|directory| directory.parent().is_some_and(&mut writable)).map(Path::to_owned).collect()
}

/// Binds every pin onto itself, and every file that is to stay as it is, read-only. Of real root's pins only those in a tree
/// that stays writable: all else is read-only.
///
/// `before` are the mounts of the host. Answers with the pins that may be written.
pub(super) fn set_up(plan: &Plan, before: &[Mount]) -> Result<Vec<PathBuf>, Failure> {
    let own = root::own(plan);
    let mut pins: Vec<&Path> = plan.pins.iter().map(Path::new).collect();
    pins.retain(|pin| !plan.real_root || own.iter().any(|tree| pin.starts_with(tree) && pin != tree));
    // Outermost first, since a bind covers what was bound below it; each once.
    pins.sort();
    pins.dedup();
    for pin in &pins {
        if let Some(held) = hold(pin)? {
            bind(&held, pin)?;
        }
    }
    plan.unchanged.iter().map(Path::new).try_for_each(keep_unchanged)?;
    // What lies in a mount below the working directory is no part of it, and a pin must not open it.
    let foreign = |pin: &Path| {
        before.iter().any(|mount| {
            pin.starts_with(&mount.point)
                && own.iter().any(|tree| mount.point.starts_with(tree) && mount.point != *tree)
        })
    };
    Ok(pins.into_iter().filter(|pin| !foreign(pin)).map(Path::to_owned).collect())
}

fn keep_unchanged(file: &Path) -> Result<(), Failure> {
    let Some(held) = hold(file)? else { return Ok(()) };
    bind(&held, file)?;
    match namespace::mount_flags(&c_string(file)?, libc::MOUNT_ATTR_RDONLY, 0, false) {
        // A kernel before 5.12: it can be written, but not replaced.
        Ok(()) | Err(Errno::ENOSYS) => Ok(()),
        Err(errno) => Err(failed("making read-only", file, &errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_renamed_is_pinned_outermost_first() {
        let base = std::env::temp_dir().canonicalize().unwrap().join(format!("pins-{}", std::process::id()));
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        let paths = [base.join("a/b/audit"), base.join("a/b/other")];
        let found = pins(paths.iter().map(PathBuf::as_path));
        std::fs::remove_dir_all(&base).unwrap();
        let above: Vec<&PathBuf> = found.iter().filter(|pin| pin.starts_with(&base)).collect();
        assert_eq!(above, [&base, &base.join("a"), &base.join("a/b")]);
    }

    #[test]
    fn the_root_has_no_name_to_change() {
        assert!(!pins(std::iter::once(Path::new("/x/y"))).contains(&PathBuf::from("/")));
    }
}
