//! Directories that the command must not move away. Renaming a directory above the audit file, and putting another in its
//! place, would have whoever reads the audit by its path read a forgery. A mount point cannot be renamed.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::control::Failure;
use super::mountinfo::Mount;
use super::mounts::{bind, hold};
use super::plan::Plan;
use super::root;

/// The directories above `path` that the calling user could rename: those whose own directory is writable. Outermost first.
/// `path` must be resolved.
pub fn pins(path: &Path) -> Vec<PathBuf> {
    let movable =
        |directory: &&Path| directory.parent().is_some_and(|parent| access(parent, AccessFlags::W_OK).is_ok());
    let mut found: Vec<PathBuf> = path.ancestors().skip(1).filter(movable).map(Path::to_owned).collect();
    found.reverse();
    found
}

/// Binds every pin onto itself. Of real root's only those in a tree that stays writable: all else is read-only.
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
    // What lies in a mount below the working directory is no part of it, and a pin must not open it.
    let foreign = |pin: &Path| {
        before.iter().any(|mount| {
            pin.starts_with(&mount.point)
                && own.iter().any(|tree| mount.point.starts_with(tree) && mount.point != *tree)
        })
    };
    Ok(pins.into_iter().filter(|pin| !foreign(pin)).map(Path::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_renamed_is_pinned_outermost_first() {
        let base = std::env::temp_dir().canonicalize().unwrap().join(format!("pins-{}", std::process::id()));
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        let found = pins(&base.join("a/b/audit"));
        std::fs::remove_dir_all(&base).unwrap();
        let above: Vec<&PathBuf> = found.iter().filter(|pin| pin.starts_with(&base)).collect();
        assert_eq!(above, [&base, &base.join("a"), &base.join("a/b")]);
    }

    #[test]
    fn the_root_has_no_name_to_change() {
        assert!(!pins(Path::new("/x/y")).contains(&PathBuf::from("/")));
    }
}
