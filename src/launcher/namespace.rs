//! The system calls that no safe wrapper offers. The only file of the package where `unsafe` is allowed.
//!
//! Every function here is a thin, total wrapper: it takes plain values, hands the kernel memory that lives for the whole
//! call, and turns the answer into a `Result`. What the calls are for is told where they are used.
#![allow(unsafe_code, reason = "clone3, capset and environ have no safe wrapper; kept together here")]

use std::ffi::{CStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;

use nix::errno::Errno;
use nix::sys::signal::{SigAction, Signal, sigaction};
use nix::unistd::Pid;

/// The namespaces that a sandbox is born in. The network comes after them, by [`enter_empty_network`].
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Makes a child in namespaces of its own; it becomes pid 1 there. `None` is the child.
///
/// Must be called while this process has one thread: the child has a copy of the heap, and of the locks in it.
///
/// # Errors
///
/// The kernel's. A container's filter answers `clone3` with ENOSYS so that callers fall back; the older call then
/// tells the true reason.
pub(super) fn clone_into_namespaces() -> Result<Option<Pid>, Errno> {
    clone(NAMESPACES)
}

/// Leaves this process's network for a new one that holds nothing but a `lo` that is down. The kernel takes a millisecond to
/// make it, in which the launcher goes on.
///
/// # Errors
///
/// The kernel's.
pub(super) fn enter_empty_network() -> Result<(), Errno> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
}

/// Makes a child as fork(2) does, but for the handlers that libraries have registered for it: there is one thread, so no
/// lock needs to be looked after. `None` is the child.
///
/// # Errors
///
/// The kernel's.
pub(super) fn fork() -> Result<Option<Pid>, Errno> {
    clone(0)
}

fn clone(namespaces: libc::c_int) -> Result<Option<Pid>, Errno> {
    // SAFETY: clone_args is plain integers, for which all zeroes are valid.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(namespaces.cast_unsigned());
    arguments.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    // SAFETY: the structure outlives the call and its size is given; without CLONE_VM the child runs on a copy of this
    // stack, as after fork.
    let mut answer = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>()) };
    if answer == -1 && Errno::last() == Errno::ENOSYS {
        let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
        // SAFETY: a null stack means a copy of this one; the id and TLS pointers are unused without their flags, so
        // their order, which differs between architectures, does not matter.
        answer = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    }
    match i32::try_from(answer).map_err(|_| Errno::EOVERFLOW)? {
        -1 => Err(Errno::last()),
        0 => Ok(None),
        child => Ok(Some(Pid::from_raw(child))),
    }
}

/// Overwrites with zeroes every string of the environment that this process was started with, and forgets them.
///
/// Only for pid 1 straight after its birth: no thread may be reading the environment.
pub(super) fn wipe_environment() {
    // SAFETY: single-threaded; `environ` is a null-terminated array of pointers to writable, null-terminated strings on
    // the initial stack. Each is written up to its terminator. Volatile, so that the writes are not dropped as dead.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let mut byte = *entry;
            while *byte != 0 {
                byte.write_volatile(0);
                byte = byte.add(1);
            }
            entry.write(std::ptr::null_mut());
            entry = entry.add(1);
        }
    }
}

/// The names of all environment variables. Values are not copied: `std::env::vars_os` would put every secret on the
/// heap, which pid 1 inherits.
pub fn variable_names() -> Vec<OsString> {
    let mut names = Vec::new();
    // SAFETY: nothing in this package writes the environment (clippy.toml bans it), so the array and its null-terminated
    // strings stay as they are while they are read.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let bytes = CStr::from_ptr(*entry).to_bytes();
            if let Some(end) = bytes.iter().position(|byte| *byte == b'=') {
                names.push(OsString::from_vec(bytes[..end].to_vec()));
            }
            entry = entry.add(1);
        }
    }
    names
}

unsafe extern "C" {
    static mut environ: *mut *mut libc::c_char;
}

/// Takes ownership of a descriptor that the kernel has just put into this process.
pub(super) fn adopt(descriptor: RawFd) -> OwnedFd {
    // SAFETY: called only with descriptors straight out of an SCM_RIGHTS message, which nobody else owns.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Closes, or marks close-on-exec, every descriptor from `first` to `last`.
pub(super) fn close_range(first: RawFd, last: RawFd, on_exec_only: bool) -> Result<(), Errno> {
    let (first, last) = (first.cast_unsigned(), last.cast_unsigned());
    let flags = if on_exec_only { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: closes descriptors only; the callers own none of those in the range that they use afterwards.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// Changes the flags of the mount at `path`, and of those below it when `recursive`. A link is not followed: one can be a mount.
///
/// # Errors
///
/// The kernel's; ENOSYS before Linux 5.12.
pub(super) fn mount_flags(path: &CStr, set: u64, clear: u64, recursive: bool) -> Result<(), Errno> {
    // The layout of `struct mount_attr`, version 0: set, clear, propagation, user namespace.
    let attributes: [u64; 4] = [set, clear, 0, 0];
    let flags = libc::AT_SYMLINK_NOFOLLOW | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is null-terminated, the attributes are as long as said; both outlive the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    Errno::result(answer).map(drop)
}

/// A copy, attached nowhere, of the mount that a descriptor leads into, from there downwards, with all mounts in it.
///
/// # Errors
///
/// The kernel's; ENOSYS before Linux 5.2.
pub(super) fn copy_mount(place: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    let flags = flags | (libc::AT_EMPTY_PATH | libc::AT_RECURSIVE).cast_unsigned();
    // SAFETY: the empty path is null-terminated, and outlives the call.
    let answer = unsafe { libc::syscall(libc::SYS_open_tree, place.as_raw_fd(), c"".as_ptr(), flags) };
    let descriptor = RawFd::try_from(Errno::result(answer)?).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: the kernel has just made it, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Attaches such a copy onto a place.
///
/// # Errors
///
/// The kernel's.
pub(super) fn attach_mount(copy: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<(), Errno> {
    let (copy, place) = (copy.as_raw_fd(), place.as_raw_fd());
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    let empty = c"".as_ptr();
    // SAFETY: both paths are the same null-terminated one, which outlives the call.
    Errno::result(unsafe { libc::syscall(libc::SYS_move_mount, copy, empty, place, empty, flags) }).map(drop)
}

/// `prctl(2)` with integer arguments.
pub(super) fn prctl(option: libc::c_int, second: libc::c_ulong, third: libc::c_ulong) -> Result<(), Errno> {
    let zero: libc::c_ulong = 0;
    // SAFETY: used with the options of confine.rs alone, none of which takes a pointer.
    Errno::result(unsafe { libc::prctl(option, second, third, zero, zero) }).map(drop)
}

/// Gives up all capabilities: effective, permitted and inheritable.
pub(super) fn clear_capabilities() -> Result<(), Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    let sets = [0_u32; 6];
    // SAFETY: version 3 reads a header of two words and two sets of three words; both outlive the call.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) }).map(drop)
}

/// `kill(2)` with any signal number, real-time ones too.
pub(super) fn kill(process: Pid, signal: i32) -> Result<(), Errno> {
    // SAFETY: takes integers only.
    Errno::result(unsafe { libc::kill(process.as_raw(), signal) }).map(drop)
}

/// The Landlock interface that the kernel offers; 0 where it has none or it is switched off.
pub(super) fn landlock_version() -> i32 {
    const CREATE_RULESET_VERSION: libc::c_ulong = 1;
    // SAFETY: with this flag the call takes no structure and answers with a number.
    let answer = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, CREATE_RULESET_VERSION)
    };
    i32::try_from(answer).unwrap_or(0).max(0)
}

/// `sigaction(2)` for the default and the ignoring handler. Answers with the action before.
pub(super) fn set_handler(signal: Signal, action: &SigAction) -> Result<SigAction, Errno> {
    // SAFETY: the callers install SIG_DFL or SIG_IGN only, so no code of ours ever runs as a handler.
    unsafe { sigaction(signal, action) }
}

/// The next child that ended (with WUNTRACED in `flags`, or stopped): its id and the wait status. `None` when there is none now.
pub(super) fn reap(child: Option<Pid>, flags: libc::c_int) -> Result<Option<(Pid, i32)>, Errno> {
    let mut status = 0;
    // SAFETY: the status outlives the call.
    let answer = unsafe { libc::waitpid(child.map_or(-1, Pid::as_raw), &raw mut status, flags) };
    match Errno::result(answer)? {
        0 => Ok(None),
        pid => Ok(Some((Pid::from_raw(pid), status))),
    }
}

/// Ends this process at once, without what a copied runtime would do at its end.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: never returns, touches no memory.
    unsafe { libc::_exit(code) }
}
