//! Terminals of the sandbox's own, beside the one that the command was started on. Those of the user's other shells would
//! give their keyboards.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access, ttyname};

use super::control::Failure;
use super::mountinfo::{self, Mount};
use super::mounts::{bind, failed, hold, made};

const TERMINALS: &str = "/dev/pts";

/// The highest number for which the command's terminal keeps its name: every terminal below must be made for a moment.
const NAMED_TERMINALS: usize = 255;

/// The terminals that the standard streams are, by the names they have outside.
pub(super) struct Own(Vec<(PathBuf, OwnedFd)>);

impl Own {
    /// To be called before anything covers /dev.
    pub(super) fn find() -> Result<Self, Failure> {
        let names = [ttyname(std::io::stdin()), ttyname(std::io::stdout()), ttyname(std::io::stderr())];
        let mut names: Vec<PathBuf> = names.into_iter().flatten().collect();
        names.sort();
        names.dedup();
        let mut held = Vec::new();
        for name in names {
            held.extend(hold(&name)?.map(|descriptor| (name, descriptor)));
        }
        Ok(Self(held))
    }

    fn has(&self, path: &Path) -> bool {
        self.0.iter().any(|(name, _)| name == path)
    }
}

/// What the sandbox's terminals leave to be done and to be kept.
pub(super) struct SetUp {
    /// Terminals of others, to be masked.
    pub(super) others: Vec<PathBuf>,
    /// Must stay open as long as the sandbox lives: with them goes the name of the command's terminal.
    pub(super) kept: Vec<OwnedFd>,
}

/// Mounts a terminal file system of the sandbox's own and gives the command's terminals their names in it, so that
/// ttyname(3) finds them. `private_devices` says that /dev itself is the sandbox's own, with nothing in it but what was
/// put there.
pub(super) fn set_up(own: &Own, private_devices: bool, mounts: &[Mount]) -> Result<SetUp, Failure> {
    let directory = Path::new(TERMINALS);
    let mut kept = Vec::new();
    if directory.is_dir() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        mount(Some("devpts"), directory, Some("devpts"), flags, Some("newinstance,ptmxmode=0666,mode=620"))
            .map_err(|errno| failed("mounting", directory, &errno.into()))?;
        replace_ptmx()?;
    }
    for (name, held) in &own.0 {
        match name.strip_prefix(directory) {
            Ok(number) => match reserve(number.to_str().and_then(|number| number.parse().ok()))? {
                Some(master) => {
                    kept.push(master);
                    bind(held, name)?;
                }
                None => bind_anew(held, Path::new("/dev/console"), private_devices)?,
            },
            Err(_) if private_devices => bind_anew(held, name, true)?,
            Err(_) => {}
        }
    }
    Ok(SetUp { others: others(own, private_devices, mounts), kept })
}

/// A link into the directory leads to the new one by itself.
fn replace_ptmx() -> Result<(), Failure> {
    let multiplexer = Path::new("/dev/ptmx");
    let is_node = multiplexer.symlink_metadata().is_ok_and(|data| !data.is_symlink());
    match hold(&Path::new(TERMINALS).join("ptmx"))? {
        Some(held) if is_node => bind(&held, multiplexer),
        Some(_) | None => Ok(()),
    }
}

/// Makes terminals until the one with this number is there, and answers with its other end. A name can be had in no other
/// way.
fn reserve(number: Option<usize>) -> Result<Option<OwnedFd>, Failure> {
    let Some(number) = number.filter(|number| *number <= NAMED_TERMINALS) else { return Ok(None) };
    let multiplexer = Path::new(TERMINALS).join("ptmx");
    let wanted = Path::new(TERMINALS).join(number.to_string());
    let mut below = Vec::new();
    for _ in 0..=number {
        let master = open(&multiplexer, OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(|errno| failed("making a terminal with", &multiplexer, &errno.into()))?;
        if wanted.exists() {
            return Ok(Some(master));
        }
        below.push(master);
    }
    Ok(None)
}

/// Where /dev is the host's, nothing can be made in it: what is not there stays without a name.
fn bind_anew(held: &OwnedFd, node: &Path, private_devices: bool) -> Result<(), Failure> {
    if private_devices && !node.exists() {
        made(node, std::fs::write(node, ""))?;
    }
    if node.exists() { bind(held, node) } else { Ok(()) }
}

/// Virtual consoles that the user may open, wherever they are shown, and other file systems of terminals.
fn others(own: &Own, private_devices: bool, mounts: &[Mount]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten().filter(|_| !private_devices);
    let consoles = entries.filter(|entry| is_console(entry.file_name().as_bytes())).map(|entry| entry.path());
    let may_open =
        |path: &PathBuf| [AccessFlags::R_OK, AccessFlags::W_OK].into_iter().any(|way| access(path, way).is_ok());
    let consoles = mountinfo::all_places(consoles.filter(may_open).collect(), mounts);
    let elsewhere = mounts.iter().filter(|mount| mount.kind == "devpts").map(|mount| mount.point.clone());
    let elsewhere = elsewhere.filter(|point| !point.starts_with(TERMINALS) && point != Path::new("/dev/ptmx"));
    let is_own_console = |path: &Path| own.has(path) || path == Path::new("/dev/console") && private_devices;
    consoles.into_iter().chain(elsewhere).filter(|path| !is_own_console(path)).collect()
}

/// `console`, `tty0`, `tty63`; not `tty`, which is whatever terminal the caller has, nor a serial line such as `ttyS0`.
fn is_console(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"tty").filter(|number| !number.is_empty());
    name == b"console" || number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consoles_are_known_by_name() {
        let names: [&[u8]; 6] = [b"console", b"tty", b"tty0", b"tty63", b"ttyS0", b"tty0x"];
        assert_eq!(names.map(is_console), [true, false, true, true, false, false]);
    }
}
