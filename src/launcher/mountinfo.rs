//! `/proc/self/mountinfo`, read once and asked many times (proc_pid_mountinfo(5)).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line: one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// The device, as `major:minor`: the same for every mount of one file system.
    device: Vec<u8>,
    /// What of the file system is shown.
    root: PathBuf,
    /// Where it is shown.
    pub(super) point: PathBuf,
    /// The type of the file system, such as `ext4`.
    pub(super) kind: OsString,
}

/// Every mount, in the kernel's order. A line that is cut short is left out.
pub(super) fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    // Behind the sixth there may be any number of tags, ended by a hyphen; the type follows.
    let hyphen = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
    let text = |field: &[u8]| OsString::from_vec(unescaped(field));
    Some(Mount {
        device: fields.get(2)?.to_vec(),
        root: text(fields.get(3)?).into(),
        point: text(fields.get(4)?).into(),
        kind: text(fields.get(hyphen + 1)?),
    })
}

/// The masks, and every other place where another mount shows the same files: a bind mount of a home, say, would show the
/// keys in it a second time. Other file systems over the same files (the lower directories of an overlay) are not found.
pub fn everywhere(masks: Vec<PathBuf>, mountinfo: &[u8]) -> Vec<PathBuf> {
    all_places(masks, &parse(mountinfo))
}

/// The same, with the mounts read already.
pub(super) fn all_places(masks: Vec<PathBuf>, mounts: &[Mount]) -> Vec<PathBuf> {
    let topmost: HashMap<&Path, &Mount> = mounts.iter().map(|mount| (mount.point.as_path(), mount)).collect();
    let holding = |path: &Path| path.ancestors().find_map(|ancestor| topmost.get(ancestor).copied());
    let mut found = Vec::new();
    for mask in &masks {
        let Some(own) = holding(mask) else { continue };
        let Some(inside) = joined(&own.root, mask, &own.point) else { continue };
        let others = mounts.iter().filter(|other| !std::ptr::eq(*other, own) && other.device == own.device);
        // What is hidden below another mount shows nothing, and its path is some other file's.
        found.extend(others.filter_map(|other| {
            other.shows(&inside).filter(|place| holding(place).is_some_and(|holder| std::ptr::eq(holder, other)))
        }));
    }
    found.extend(masks);
    found.sort();
    found.dedup();
    found
}

impl Mount {
    /// Where this mount shows a path of its file system, or what lies below that path.
    fn shows(&self, inside: &Path) -> Option<PathBuf> {
        let below = || self.root.starts_with(inside).then(|| self.point.clone());
        joined(&self.point, inside, &self.root).or_else(below)
    }

    /// Whether its files are the kernel's own: a write there changes the machine, wherever it is mounted.
    pub(super) fn is_of_the_kernel(&self) -> bool {
        const KINDS: [&str; 14] = [
            "proc",
            "sysfs",
            "devtmpfs",
            "devpts",
            "cgroup",
            "cgroup2",
            "debugfs",
            "tracefs",
            "securityfs",
            "bpf",
            "configfs",
            "efivarfs",
            "pstore",
            "binfmt_misc",
        ];
        KINDS.map(OsStr::new).contains(&self.kind.as_os_str())
    }
}

/// `base` with the rest of `path` behind `prefix`.
fn joined(base: &Path, path: &Path, prefix: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(prefix).ok()?;
    Some(if rest.as_os_str().is_empty() { base.to_owned() } else { base.join(rest) })
}

/// The kernel writes blanks, line breaks and backslashes as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_unescaped() {
        let mounts =
            parse(b"22 1 8:1 / / rw - ext4 x rw\n23 22 0:1 /r /a\\040b\\134c rw shared:1 master:2 - tmpfs t rw\n22 1");
        let points: Vec<&Path> = mounts.iter().map(|mount| mount.point.as_path()).collect();
        assert_eq!(points, [Path::new("/"), Path::new("/a b\\c")]);
        assert_eq!((mounts[1].root.as_path(), mounts[1].kind.to_str()), (Path::new("/r"), Some("tmpfs")));
    }

    macro_rules! masks {
        ($($test:ident: $mask:literal in [$($mount:literal),*] => $expected:expr;)*) => {
            $(#[test]
            fn $test() {
                let lines: String = [$($mount),*].map(|mount: &str| format!("1 1 {mount} rw - ext4 x rw\n")).concat();
                let expected: Vec<PathBuf> = $expected.iter().map(PathBuf::from).collect();
                assert_eq!(everywhere(vec![$mask.into()], lines.as_bytes()), expected);
            })*
        };
    }

    masks! {
        alone: "/home/u/.ssh" in ["8:1 / /"] => ["/home/u/.ssh"];
        an_ancestor_is_bound: "/home/u/.ssh" in ["8:1 / /", "8:1 /home /mnt"] => ["/home/u/.ssh", "/mnt/u/.ssh"];
        it_is_bound_itself: "/home/u/.ssh" in ["8:1 / /", "8:1 /home/u/.ssh /mnt"] => ["/home/u/.ssh", "/mnt"];
        a_part_of_it_is_bound: "/home/u/.ssh" in ["8:1 / /", "8:1 /home/u/.ssh/id /mnt/id"] => ["/home/u/.ssh", "/mnt/id"];
        it_is_seen_through_a_bind: "/mnt/u/.ssh" in ["8:1 / /", "8:1 /home /mnt"] => ["/home/u/.ssh", "/mnt/u/.ssh"];
        another_device: "/home/u/.ssh" in ["8:1 / /", "8:2 / /mnt"] => ["/home/u/.ssh"];
        another_part: "/home/u/.ssh" in ["8:1 / /", "8:1 /srv /mnt"] => ["/home/u/.ssh"];
        a_name_that_begins_alike: "/home/u/.ssh" in ["8:1 / /", "8:1 /home/u/.ssh2 /mnt"] => ["/home/u/.ssh"];
        subvolumes: "/home/u/.ssh" in ["0:5 /@ /", "0:5 /@home /home", "0:5 / /mnt"] =>
            ["/home/u/.ssh", "/mnt/@home/u/.ssh"];
        the_last_mount_on_a_point_counts: "/m/k" in ["8:1 / /", "8:2 / /m", "8:1 /x /m"] => ["/m/k", "/x/k"];
        hidden_below_another_mount: "/home/u/.ssh" in ["8:1 / /", "8:1 /home /mnt", "8:2 / /mnt/u"] => ["/home/u/.ssh"];
    }
}
