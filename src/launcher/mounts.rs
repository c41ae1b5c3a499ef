//! The file system of a sandbox: a fresh /proc, private directories, files of ours, masks.
//!
//! The order matters. /proc comes first, since everything after it names descriptors through it. What the private
//! directories are to give back is opened before they cover it. Pins come before the covers of trees that stay open, under which
//! they are to lie, and both before masks, which they would cover. Masks come last, so that they cover what was given back.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;

use super::control::{Failure, Layer};
use super::mountinfo::Mount;
use super::plan::{PRIVATE_DIRECTORY, Plan};
use super::terminals::{self, Own};
use super::{hiding, limits, namespace, overrides, pins, private, root};

/// Where the empty file, the empty directory and the files of ours are made. Inside /run, which is private by then.
pub(super) const STAGE: &str = "/run/sandbox-proxy";

/// Replaces /proc by that of the new process namespace. Without it the command would see the host's processes.
pub(super) fn fresh_proc() -> Result<(), Failure> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|errno| Failure::new(Layer::Mounts, "making the mounts private", errno))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, none)
        .map_err(|errno| Failure::new(Layer::Proc, "mounting a fresh /proc", errno))
}

/// Does all the rest. Every failure is final: a mount that is missing hides nothing. What it answers with must be kept as
/// long as the sandbox lives.
///
/// `contents` holds those of the placed files, one after the other, from where it stands.
pub(super) fn set_up(plan: &Plan, contents: &File) -> Result<Vec<OwnedFd>, Failure> {
    let before = limits::mounts()?;
    private::set_up(plan)?;
    let stage = Path::new(STAGE);
    tmpfs(stage, "mode=755")?;
    let directory = stage.join("empty-directory");
    let file = stage.join("empty-file");
    made(&directory, std::fs::create_dir(&directory))?;
    made(&file, std::fs::write(&file, ""))?;
    let hidden = hiding::prepare(plan, stage)?;
    let overlays = overrides::prepare(plan, contents, stage)?;
    seal(stage)?;
    for overlay in overlays {
        overlay.mount()?;
    }
    let own_terminals = Own::find()?;
    if plan.real_root {
        root::private_devices()?;
    }
    let terminals = terminals::set_up(&own_terminals, plan.real_root, &before)?;
    let covers = limits::covers(plan)?;
    pins::set_up(plan)?;
    covers.place()?;
    pins::keep_all_unchanged(plan)?;
    limits::deny(plan)?;
    hidden.hide(&directory, &file)?;
    let masks = plan.masks.iter().map(PathBuf::from).chain(terminals.others).chain(other_procs(&before));
    for mask in masks {
        hide(&mask, &directory, &file)?;
    }
    seal_sys()?;
    limits::limit_writes(plan)?;
    enter(plan)?;
    Ok(terminals.kept)
}

/// An empty file system of our own on a directory.
pub(super) fn tmpfs(directory: &Path, options: &str) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| failed("creating", directory, &error))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), directory, Some("tmpfs"), flags, Some(options))
        .map_err(|errno| failed("mounting a private directory on", directory, &errno.into()))
}

/// A place in the file system as it is now, whatever will be mounted over it. `None` when it does not exist.
pub(super) fn hold(path: &Path) -> Result<Option<OwnedFd>, Failure> {
    hold_with(path, OFlag::empty())
}

/// The same of a symbolic link, not of what it leads to.
pub(super) fn hold_itself(path: &Path) -> Result<Option<OwnedFd>, Failure> {
    hold_with(path, OFlag::O_NOFOLLOW)
}

fn hold_with(path: &Path, flags: OFlag) -> Result<Option<OwnedFd>, Failure> {
    match open(path, OFlag::O_PATH | OFlag::O_CLOEXEC | flags, Mode::empty()) {
        Ok(held) => Ok(Some(held)),
        // What pid 1 with its capabilities cannot reach, the command cannot reach either.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP | Errno::ENXIO) => Ok(None),
        Err(errno) => Err(failed("opening", path, &errno.into())),
    }
}

/// Binds what is held, with all that is mounted below it, onto a path.
pub(super) fn bind(held: &OwnedFd, target: &Path) -> Result<(), Failure> {
    let none: Option<&str> = None;
    mount(Some(&descriptor_path(held)), target, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
        .map_err(|errno| failed("binding", target, &errno.into()))
}

/// The name of a descriptor in /proc: free of blanks, colons and whatever else a mount option would trip over.
pub(super) fn descriptor_path(held: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

pub(super) fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(Layer::Mounts, format!("{doing} {}", path.display()), error)
}

pub(super) fn made(path: &Path, result: std::io::Result<()>) -> Result<(), Failure> {
    result.map_err(|error| failed("writing", path, &error))
}

pub(super) fn c_string(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Failure::text(Layer::Mounts, format!("{} holds a null byte", path.display())))
}

/// Makes the whole stage read-only: every bind and overlay of it is so at one stroke.
fn seal(stage: &Path) -> Result<(), Failure> {
    let none: Option<&str> = None;
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(none, stage, none, flags, none).map_err(|errno| failed("sealing", stage, &errno.into()))
}

/// Where the host's processes are shown besides /proc, such as in the tree of a chroot: command lines hold secrets.
fn other_procs(mounts: &[Mount]) -> impl Iterator<Item = PathBuf> {
    let others = mounts.iter().filter(|mount| mount.kind == "proc" && !mount.point.starts_with("/proc"));
    others.map(|mount| mount.point.clone())
}

/// Makes /sys read-only: a user may own control groups in it, and by them freeze or kill what runs outside.
fn seal_sys() -> Result<(), Failure> {
    match namespace::mount_flags(c"/sys", libc::MOUNT_ATTR_RDONLY, 0, true) {
        // None there, or a kernel before 5.12, on which real root is refused anyway.
        Ok(()) | Err(Errno::ENOENT | Errno::EINVAL | Errno::ENOSYS) => Ok(()),
        Err(errno) => Err(Failure::new(Layer::Mounts, "making /sys read-only", errno)),
    }
}

/// Covers a path with emptiness. A path that is gone needs none.
pub(super) fn hide(path: &Path, directory: &Path, file: &Path) -> Result<(), Failure> {
    let Some(held) = hold(path)? else { return Ok(()) };
    let metadata = std::fs::metadata(descriptor_path(&held)).map_err(|error| failed("looking at", path, &error))?;
    let empty = if metadata.is_dir() { directory } else { file };
    let none: Option<&str> = None;
    // Onto the descriptor, not the path: what was looked at is what is covered.
    mount(Some(empty), &descriptor_path(&held), none, MsFlags::MS_BIND, none)
        .map_err(|errno| failed("masking", path, &errno.into()))
}

/// Goes to the working directory anew, so that the command stands in these mounts, and names the host.
fn enter(plan: &Plan) -> Result<(), Failure> {
    let directory = Path::new(&plan.directory);
    std::env::set_current_dir(directory).map_err(|error| failed("entering", directory, &error))?;
    nix::unistd::sethostname(OsStr::new(&plan.host_name))
        .map_err(|errno| Failure::new(Layer::Mounts, "setting the host name", errno))
}

/// Whether a path lies in the directory of files of ours.
pub(super) fn is_private_file(path: &Path) -> bool {
    path.starts_with(PRIVATE_DIRECTORY)
}
