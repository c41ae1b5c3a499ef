//! Homes: whose there are, and what lies in them, told by one look into each instead of one at each name.

use std::collections::HashSet;
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

/// One home, and the names in it. They are compared without case, as there are file systems that do.
pub(super) struct Home<'a> {
    pub(super) path: &'a Path,
    /// `None` where it cannot be told.
    names: Option<HashSet<Vec<u8>>>,
}

impl<'a> Home<'a> {
    /// Looks into a directory. `None` when nothing in it begins as a store of credentials does.
    pub(super) fn with_stores(path: &'a Path, begins: &dyn Fn(&[u8]) -> bool) -> Option<Self> {
        let names = names_in(path);
        let holds = names.as_ref().is_none_or(|names| names.iter().any(|name| begins(name)));
        holds.then_some(Self { path, names })
    }

    /// A home of which nothing is known.
    #[cfg(test)]
    pub(super) fn unseen(path: &'a Path) -> Self {
        Self { path, names: None }
    }

    /// `false` only when the first name of `below` is certainly not there.
    pub(super) fn may_hold(&self, below: &str) -> bool {
        let first = below.split('/').next().unwrap_or_default().to_ascii_lowercase();
        self.names.as_ref().is_none_or(|names| names.contains(first.as_bytes()))
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
        std::fs::create_dir_all(base.join(".Config")).unwrap();
        std::fs::create_dir_all(base.join("many")).unwrap();
        (0..=NAMES).for_each(|number| std::fs::write(base.join(format!("many/{number}")), "").unwrap());
        let hidden = |name: &[u8]| name.starts_with(b".");
        let home = Home::with_stores(&base, &hidden).unwrap();
        let answers = [".config/gh", ".config", ".cargo/x", ".CONFIG/x"].map(|below| home.may_hold(below));
        let (many, absent) = (base.join("many"), base.join("absent"));
        let large = Home::with_stores(&many, &hidden).is_some_and(|home| home.may_hold(".x"));
        let none = Home::with_stores(&absent, &hidden).is_none();
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!((answers, large, none), ([true, true, false, true], true, true));
    }
}
