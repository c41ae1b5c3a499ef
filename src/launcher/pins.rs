//! Directories that the command must not move away, and files that it must not change.
//!
//! Renaming a directory above the audit file, and putting another in its place, would have whoever reads the audit by its
//! path read a forgery. Renaming one above a credential store would show the store to the *next* run, which looks for it in
//! its old place; so would another link in the place of one that leads to the store. A mount point can be neither renamed nor
//! replaced, in no mount that shows it, and a symbolic link that is bound onto itself still leads where it did. A policy that the
//! command could write would steer the next run.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access, geteuid};

use super::control::Failure;
use super::mounts::{bind, c_string, descriptor_path, failed, hold, hold_itself};
use super::plan::Plan;
use super::{limits, namespace};

/// The most links that the kernel follows on one path (path_resolution(7)).
const LINKS: usize = 40;

/// What the calling user could rename of the directories above `paths`, and of `links` and the directories above them: whatever lies
/// in a directory that is writable, or the user's own, who could make it so. Each once, the outer ones first. All must be resolved but for the links themselves.
pub fn pins<'a>(paths: impl Iterator<Item = &'a Path>, links: &'a [PathBuf]) -> Vec<PathBuf> {
    let above = paths.flat_map(|path| path.ancestors().skip(1));
    let names: BTreeSet<&Path> = above.chain(links.iter().flat_map(|link| link.ancestors())).collect();
    let mut asked: HashMap<&Path, bool> = HashMap::new();
    let mut writable = |parent| *asked.entry(parent).or_insert_with(|| may_change(parent));
    names.into_iter().filter(|name| name.parent().is_some_and(&mut writable)).map(Path::to_owned).collect()
}

fn may_change(directory: &Path) -> bool {
    let is_own = || directory.metadata().is_ok_and(|data| data.uid() == geteuid().as_raw());
    access(directory, AccessFlags::W_OK).is_ok() || is_own()
}

/// The symbolic links that are followed on the way from `path`, which is absolute, to `resolved`; each by the resolved path of
/// its directory and its own name.
pub fn links(path: &Path, resolved: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if path == resolved {
        return found;
    }
    let mut reached = PathBuf::from("/");
    let mut rest: Vec<OsString> = path.iter().rev().map(OsString::from).collect();
    while let Some(name) = rest.pop() {
        match name.as_bytes() {
            b"/" => reached = PathBuf::from("/"),
            b"." => {}
            b".." => drop(reached.pop()),
            _ => {
                let next = reached.join(&name);
                match std::fs::read_link(&next) {
                    Ok(target) if found.len() < LINKS => {
                        rest.extend(target.iter().rev().map(OsString::from));
                        found.push(next);
                    }
                    Ok(_) | Err(_) => reached = next,
                }
            }
        }
    }
    found
}

/// Binds every pin onto itself. Where writes are limited, only those in a tree that stays open: all else is read-only.
pub(super) fn set_up(plan: &Plan) -> Result<(), Failure> {
    let own = limits::own(plan);
    let mut pins: Vec<&Path> = plan.pins.iter().map(Path::new).collect();
    pins.retain(|pin| !limits::is_limited(plan) || own.iter().any(|tree| pin.starts_with(tree) && pin != tree));
    // Outermost first, since a bind covers what was bound below it; each once.
    pins.sort();
    pins.dedup();
    for pin in &pins {
        if let Some(held) = hold_itself(pin)? {
            bind(&held, &descriptor_path(&held))?;
        }
    }
    Ok(())
}

/// Binds every file that is to stay as it is onto itself, read-only.
pub(super) fn keep_all_unchanged(plan: &Plan) -> Result<(), Failure> {
    plan.unchanged.iter().map(Path::new).try_for_each(keep_unchanged)
}

/// Whether this kernel (5.12 or later) can make a single file read-only inside, so that it may be read again while a command runs.
pub fn can_keep_unchanged() -> bool {
    // Changes nothing, and is refused for want of a right where it is known at all.
    namespace::mount_flags(c"/", 0, 0, false) != Err(Errno::ENOSYS)
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
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_can_be_renamed_is_pinned_outermost_first() {
        let base = std::env::temp_dir().canonicalize().unwrap().join(format!("pins-{}", std::process::id()));
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        let paths = [base.join("a/b/audit"), base.join("a/b/other")];
        let found = pins(paths.iter().map(PathBuf::as_path), &[base.join("a/link")]);
        std::fs::remove_dir_all(&base).unwrap();
        let above: Vec<&PathBuf> = found.iter().filter(|pin| pin.starts_with(&base)).collect();
        assert_eq!(above, [&base, &base.join("a"), &base.join("a/b"), &base.join("a/link")]);
    }

    #[test]
    fn links_are_found_on_the_way() {
        let base = std::env::temp_dir().canonicalize().unwrap().join(format!("links-{}", std::process::id()));
        std::fs::create_dir_all(base.join("dotfiles/aws")).unwrap();
        symlink("dotfiles/../dotfiles", base.join("first")).unwrap();
        symlink(base.join("first/./aws"), base.join(".aws")).unwrap();
        symlink(".loop", base.join(".loop")).unwrap();
        let resolved = base.join("dotfiles/aws");
        let answers = [".aws", "dotfiles/aws"].map(|path| links(&base.join(path), &resolved));
        let endless = links(&base.join(".loop"), &resolved).len();
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!((answers, endless), ([vec![base.join(".aws"), base.join("first")], vec![]], LINKS));
    }

    #[test]
    fn the_root_has_no_name_to_change() {
        assert!(!pins(std::iter::once(Path::new("/x/y")), &[]).contains(&PathBuf::from("/")));
    }
}
