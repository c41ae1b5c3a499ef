//! Homes: whose there are, and what lies in them, told by one look into each directory instead of one at each name.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most names of one directory that are kept; of a larger one each name is asked for.
const NAMES: usize = 1024;

/// Every home that /etc/passwd names, and every directory in /home: root can read the credentials in all of them.
pub fn all_homes() -> Vec<PathBuf> {
    let passwd = std::fs::read("/etc/passwd").unwrap_or_default();
    let entries = std::fs::read_dir("/home").into_iter().flatten().flatten();
    let mut homes: Vec<PathBuf> = named_homes(&passwd).chain(entries.map(|entry| entry.path())).collect();
    homes.sort();
    homes.dedup();
    homes
}

/// The homes in the text of /etc/passwd (passwd(5)), but for those that services without a home share.
fn named_homes(passwd: &[u8]) -> impl Iterator<Item = PathBuf> {
    const NO_HOMES: [&str; 6] = ["/bin", "/sbin", "/usr", "/dev", "/proc", "/run"];
    let homes = passwd.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b':').nth(5));
    let homes = homes.map(|home| Path::new(OsStr::from_bytes(home)));
    homes
        .filter(|home| home.parent().is_some() && home.is_absolute() && !NO_HOMES.iter().any(|no| home.starts_with(no)))
        .map(Path::to_owned)
}

/// What lies in homes. Names are compared without case, as there are file systems that do.
pub(super) struct Listing<'a> {
    homes: &'a [&'a Path],
    /// `None` where it cannot be told.
    seen: HashMap<PathBuf, Option<HashSet<Vec<u8>>>>,
}

impl<'a> Listing<'a> {
    pub(super) fn of(homes: &'a [&'a Path]) -> Self {
        Self { homes, seen: HashMap::new() }
    }

    /// The homes that hold any name with which a credential store could begin.
    pub(super) fn with_stores(&mut self, begins: &dyn Fn(&[u8]) -> bool) -> Vec<&'a Path> {
        let homes = self.homes.iter().copied();
        homes
            .filter(|home| self.names(home).as_ref().is_none_or(|names| names.iter().any(|name| begins(name))))
            .collect()
    }

    /// `false` only when a path below a home is certainly not there.
    pub(super) fn may_hold(&mut self, path: &Path) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return true };
        if !self.homes.iter().any(|home| parent.starts_with(home)) {
            return true;
        }
        if !self.homes.contains(&parent) && !self.may_hold(parent) {
            return false;
        }
        let name = name.as_bytes().to_ascii_lowercase();
        name.ends_with(b"*") || self.names(parent).as_ref().is_none_or(|names| names.contains(&name))
    }

    fn names(&mut self, directory: &Path) -> &Option<HashSet<Vec<u8>>> {
        self.seen.entry(directory.to_owned()).or_insert_with(|| names_in(directory))
    }
}

fn names_in(directory: &Path) -> Option<HashSet<Vec<u8>>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if [NotFound, NotADirectory].contains(&error.kind()) => return Some(HashSet::new()),
        Err(_) => return None,
    };
    let mut names = HashSet::new();
    for entry in entries {
        if names.len() == NAMES {
            return None;
        }
        names.insert(entry.ok()?.file_name().as_bytes().to_ascii_lowercase());
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_read_from_passwd() {
        let passwd = b"root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/usr/sbin:/x\nu:x:9:9:U:/home/u:/x\n\nbad:x\nn:x:8:8::/:/x\nr:::::rel:";
        assert_eq!(named_homes(passwd).collect::<Vec<_>>(), [Path::new("/root"), Path::new("/home/u")]);
    }

    #[test]
    fn only_what_is_certainly_absent_is() {
        let base = std::env::temp_dir().join(format!("homes-{}", std::process::id()));
        std::fs::create_dir_all(base.join(".config/GH")).unwrap();
        std::fs::create_dir_all(base.join("many")).unwrap();
        (0..=NAMES).for_each(|number| std::fs::write(base.join(format!("many/{number}")), "").unwrap());
        let homes = [base.as_path()];
        let mut listing = Listing::of(&homes);
        let answers = [".config/gh", ".config/glab", ".cargo/a/b", "many/x", ".config/x*", ".aws/x*"]
            .map(|path| listing.may_hold(&base.join(path)));
        let elsewhere = listing.may_hold(Path::new("/nowhere/x"));
        let kept = [b'.', b'_'].map(|first| listing.with_stores(&|name| name[0] == first).len());
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!((answers, elsewhere, kept), ([true, false, false, true, true, false], true, [1, 0]));
    }
}
