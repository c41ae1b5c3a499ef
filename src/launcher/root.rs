//! What real root gets besides. Without capabilities its user id still owns the system's files, so that writing
//! `/proc/sys/kernel/core_pattern` or a file in /etc would be code run by root outside.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::control::{Failure, Layer};
use super::mountinfo::{self, Mount};
use super::mounts::{bind, c_string, descriptor_path, failed, hold, made, tmpfs};
use super::namespace;
use super::plan::Plan;

/// Trees that stay writable besides the working directory: private ones, and /tmp.
pub(super) const WRITABLE: [&str; 4] = ["/tmp", "/run", "/dev", "/var/run"];

const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Replaces /dev by a private directory with the usual nodes and an empty directory for terminals.
pub(super) fn private_devices() -> Result<(), Failure> {
    let dev = Path::new("/dev");
    let mut nodes = Vec::new();
    for name in NODES {
        nodes.extend(hold(&dev.join(name))?.map(|held| (name, held)));
    }
    tmpfs(dev, "mode=755")?;
    for (name, held) in nodes {
        let node = dev.join(name);
        made(&node, std::fs::write(&node, ""))?;
        bind(&held, &node)?;
    }
    let terminals = dev.join("pts");
    made(&terminals, std::fs::create_dir(&terminals))?;
    tmpfs(&dev.join("shm"), "mode=1777")?;
    let links = [("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0")];
    for (name, target) in links.into_iter().chain([("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")]) {
        let link = dev.join(name);
        made(&link, symlink(target, &link))?;
    }
    Ok(())
}

/// The trees that root may write besides the sandbox's own.
pub(super) fn own(plan: &Plan) -> [&Path; 2] {
    [Path::new(&plan.directory), Path::new("/tmp")]
}

/// Every mount there is now.
pub(super) fn mounts() -> Result<Vec<Mount>, Failure> {
    let table = std::fs::read("/proc/self/mountinfo").map_err(|error| failed("reading", "/proc".as_ref(), &error))?;
    Ok(mountinfo::parse(&table))
}

/// Makes every mount nosuid, nodev and read-only but for the working directory, /tmp and what is private.
///
/// `pins` are directories in these trees that are mounts of their own, to be written like the tree.
pub(super) fn limit_writes(plan: &Plan, pins: &[PathBuf]) -> Result<(), Failure> {
    let own = own(plan);
    for path in own {
        if let Some(held) = hold(path)? {
            if *path == *plan.directory {
                check_is_where_it_started(path, &held)?;
            }
            // A mount of its own, so that it can stay writable when the one around it does not. Onto what is held: by now
            // the path may lead elsewhere.
            bind(&held, &descriptor_path(&held))?;
        }
    }
    for mount in mounts()? {
        let mut set = libc::MOUNT_ATTR_NOSUID;
        if !mount.point.starts_with("/dev") {
            set |= libc::MOUNT_ATTR_NODEV;
        }
        if !is_writable(&mount, &own, pins) {
            set |= libc::MOUNT_ATTR_RDONLY;
        }
        let path = &mount.point;
        match namespace::mount_flags(&c_string(path)?, set, 0, false) {
            // Hidden below another mount, or out of root's reach (FUSE): out of the command's, too.
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::EINVAL) => {}
            Err(errno) => return Err(failed("limiting", path, &errno.into())),
        }
    }
    Ok(())
}

/// Another sandbox may have put a link or another directory in the place of a directory on the way to the working directory,
/// after the launcher had looked at the path. Pid 1 still stands where the launcher did.
fn check_is_where_it_started(path: &Path, held: &OwnedFd) -> Result<(), Failure> {
    let identity = |path: &Path| {
        let metadata = std::fs::metadata(path).map_err(|error| failed("looking at", path, &error))?;
        Ok((metadata.dev(), metadata.ino()))
    };
    if identity(Path::new("."))? == identity(&descriptor_path(held))? {
        return Ok(());
    }
    let text = format!(
        "{} is not the directory that the run was started in; start again when nothing moves it",
        path.display()
    );
    Err(Failure::text(Layer::Mounts, text))
}

/// Only what is one of the writable trees itself, or the sandbox's own. A mount below such a tree shows files of the system
/// that lie elsewhere; what is bound back below /run is the host's.
fn is_writable(mount: &Mount, own: &[&Path], pins: &[PathBuf]) -> bool {
    let private =
        mount.point.starts_with("/dev") || ["/run", "/var/run"].map(Path::new).contains(&mount.point.as_path());
    let opened = own.contains(&mount.point.as_path()) || pins.contains(&mount.point);
    private || opened && !mount.is_of_the_kernel()
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! mounts {
        ($($test:ident: $kind:literal on $point:literal => $writable:literal;)*) => {
            $(#[test]
            fn $test() {
                let line = format!("22 1 8:1 / {} rw - {} x rw\n", $point, $kind);
                let mounts = mountinfo::parse(line.as_bytes());
                assert_eq!(is_writable(&mounts[0], &[Path::new("/work"), Path::new("/tmp")], &["/work/pin".into()]), $writable);
            })*
        };
    }

    mounts! {
        the_working_directory_is_writable: "ext4" on "/work" => true;
        tmp_is_writable: "tmpfs" on "/tmp" => true;
        the_private_run_is_writable: "tmpfs" on "/run" => true;
        the_private_terminals_are_writable: "devpts" on "/dev/pts" => true;
        a_pin_is_writable: "ext4" on "/work/pin" => true;
        the_root_is_not: "ext4" on "/" => false;
        a_mount_below_the_working_directory_is_not: "ext4" on "/work/etc" => false;
        a_mount_below_tmp_is_not: "ext4" on "/tmp/etc" => false;
        what_is_bound_back_is_not: "tmpfs" on "/run/user/0/project" => false;
        proc_as_working_directory_is_not: "proc" on "/work" => false;
        sysfs_below_it_is_not: "sysfs" on "/work/sys" => false;
    }
}
