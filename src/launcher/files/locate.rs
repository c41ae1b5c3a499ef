//! Where a path leads, as far as it exists.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::geteuid;

/// The most links that the kernel follows on one path (path_resolution(7)).
const LINKS: usize = 40;

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Something, links resolved.
    There(PathBuf),
    /// Nothing yet: in the directory `reached` there is no such name.
    Missing {
        /// Resolved.
        reached: PathBuf,
        /// Not empty, with no `..` in it.
        rest: PathBuf,
    },
    /// Nothing, and the command cannot put anything there: below a file, or in a directory that is closed to the user.
    Nowhere,
}

/// Follows an absolute path, and tells the links on the way, each by the resolved path of its directory and its own name.
pub(super) fn locate(path: &Path) -> io::Result<(Found, Vec<PathBuf>)> {
    let mut links = Vec::new();
    let mut reached = PathBuf::from("/");
    let mut rest = names(path);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            reached.pop();
            continue;
        }
        let next = reached.join(&name);
        let metadata = match next.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                rest.push_front(name);
                return missing(reached, &rest).map(|found| (found, links));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_own(&reached)? => {
                return Ok((Found::Nowhere, links));
            }
            Err(error) => return Err(error),
        };
        if metadata.is_symlink() {
            if links.len() == LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            let target = std::fs::read_link(&next)?;
            if target.is_absolute() {
                reached = PathBuf::from("/");
            }
            names(&target).into_iter().rev().for_each(|name| rest.push_front(name));
            links.push(next);
        } else if metadata.is_dir() || rest.is_empty() {
            reached = next;
        } else {
            return Ok((Found::Nowhere, links));
        }
    }
    Ok((Found::There(reached), links))
}

fn missing(reached: PathBuf, rest: &VecDeque<OsString>) -> io::Result<Found> {
    if rest.iter().any(|name| name == "..") {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it has `..` behind a directory that does not exist"));
    }
    Ok(Found::Missing { reached, rest: rest.iter().collect() })
}

/// Its owner could open it again.
fn is_own(directory: &Path) -> io::Result<bool> {
    Ok(directory.metadata()?.uid() == geteuid().as_raw())
}

fn names(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_followed_as_far_as_it_exists() {
        let base = std::env::temp_dir().canonicalize().unwrap().join(format!("locate-{}", std::process::id()));
        std::fs::create_dir_all(base.join("real/deep")).unwrap();
        std::fs::write(base.join("real/file"), "").unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("real/absent/x", base.join("dangling")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let there = |path: &str| Found::There(base.join(path));
        let absent = |rest: &str| Found::Missing { reached: base.join("real"), rest: rest.into() };
        let found = |path: &str| locate(&base.join(path)).ok();
        let link = |name: &str| vec![base.join(name)];
        let answers = [
            found("real/deep"),
            found("link/file"),
            found("link/deep/../file"),
            found("link/absent"),
            found("dangling"),
            found("real/file/x"),
            found("loop"),
            found("real/absent/../x"),
        ];
        let expected = [
            Some((there("real/deep"), vec![])),
            Some((there("real/file"), link("link"))),
            Some((there("real/file"), link("link"))),
            Some((absent("absent"), link("link"))),
            Some((absent("absent/x"), link("dangling"))),
            Some((Found::Nowhere, vec![])),
            None,
            None,
        ];
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!(answers, expected);
    }
}
