//! What real root gets besides. Without capabilities its user id still owns the system's files, so that writing
//! `/proc/sys/kernel/core_pattern` or a file in /etc would be code run by root outside.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::unistd::ttyname;

use super::control::Failure;
use super::mounts::{bind, c_string, failed, hold, made, tmpfs};
use super::namespace;

/// Trees that stay writable besides the working directory: private ones, and /tmp.
pub(super) const WRITABLE: [&str; 4] = ["/tmp", "/run", "/dev", "/var/run"];

const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Replaces /dev by a private directory with the usual nodes. Terminals are its own: the host's would give the keyboard
/// of root's other shells.
pub(super) fn private_devices() -> Result<(), Failure> {
    let dev = Path::new("/dev");
    let mut nodes = Vec::new();
    for name in NODES {
        nodes.extend(hold(&dev.join(name))?.map(|held| (name, held)));
    }
    nodes.extend(terminal()?.map(|held| ("console", held)));
    tmpfs(dev, "mode=755")?;
    for (name, held) in nodes {
        let node = dev.join(name);
        made(&node, std::fs::write(&node, ""))?;
        bind(&held, &node)?;
    }
    let terminals = dev.join("pts");
    made(&terminals, std::fs::create_dir(&terminals))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("devpts"), &terminals, Some("devpts"), flags, Some("newinstance,ptmxmode=0666,mode=620"))
        .map_err(|errno| failed("mounting", &terminals, &errno.into()))?;
    tmpfs(&dev.join("shm"), "mode=1777")?;
    let links = [("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0")];
    for (name, target) in links.into_iter().chain([("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")]) {
        let link = dev.join(name);
        made(&link, symlink(target, &link))?;
    }
    Ok(())
}

/// The terminal of the command, which gets a name in the private /dev so that programs that ask for one find it.
fn terminal() -> Result<Option<OwnedFd>, Failure> {
    let named =
        ttyname(std::io::stdin()).or_else(|_| ttyname(std::io::stdout())).or_else(|_| ttyname(std::io::stderr()));
    named.map_or(Ok(None), |path| hold(&path))
}

/// Makes every mount nosuid, nodev and read-only but for the working directory, /tmp and what is private.
pub(super) fn limit_writes(directory: &Path) -> Result<(), Failure> {
    let own = [directory, Path::new("/tmp")];
    for path in own {
        // A mount of its own, so that it can stay writable when the one around it does not.
        if let Some(held) = hold(path)? {
            bind(&held, path)?;
        }
    }
    let table = std::fs::read("/proc/self/mountinfo").map_err(|error| failed("reading", "/proc".as_ref(), &error))?;
    for path in mount_points(&table) {
        let writable = own.iter().any(|tree| path.starts_with(tree)) || is_private(&path);
        let devices = path.starts_with("/dev");
        let mut set = libc::MOUNT_ATTR_NOSUID;
        if !devices {
            set |= libc::MOUNT_ATTR_NODEV;
        }
        if !writable {
            set |= libc::MOUNT_ATTR_RDONLY;
        }
        match namespace::mount_flags(&c_string(&path)?, set, 0, false) {
            // Hidden below another mount, or out of root's reach (FUSE): out of the command's, too.
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::EINVAL) => {}
            Err(errno) => return Err(failed("limiting", &path, &errno.into())),
        }
    }
    Ok(())
}

/// Mounts of the sandbox's own. What is bound back below /run is the host's, and is not among them.
fn is_private(mount_point: &Path) -> bool {
    mount_point.starts_with("/dev") || ["/run", "/var/run"].map(Path::new).contains(&mount_point)
}

/// The mount points of `/proc/self/mountinfo`: the fifth field of each line.
fn mount_points(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let fields = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    fields.map(|field| PathBuf::from(OsString::from_vec(unescaped(field)))).collect()
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
    fn mount_points_are_unescaped() {
        let table = b"22 1 8:1 / / rw - ext4 x rw\n23 22 0:1 / /a\\040b\\134c rw shared:1 - tmpfs t rw\n";
        assert_eq!(mount_points(table), [PathBuf::from("/"), PathBuf::from("/a b\\c")]);
    }
}
