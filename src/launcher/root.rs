//! What real root gets besides. Without capabilities its user id still owns the system's files, so that writing
//! `/proc/sys/kernel/core_pattern` or a file in /etc would be code run by root outside.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::control::Failure;
use super::mounts::{bind, hold, made, tmpfs};

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
