//! The standard streams, which the command inherits as they are: what it could use to leave is refused.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{FileStat, SFlag, fstat, major, minor};
use socket2::{Domain, SockRef, Type};

use super::checks::CheckError;

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Checks descriptors 0, 1 and 2. A socket would stay in the network namespace it was made in, and could be connected anew
/// from inside; a directory would show what the masks cover; a device may be anything at all.
///
/// # Errors
///
/// [`CheckError::Stream`] for whatever is neither a file, a pipe, a terminal, one of /dev/null, zero, full, random and
/// urandom, nor a connected stream socket of the Unix family, such as Node.js gives its children.
pub fn check_standard_streams() -> Result<(), CheckError> {
    standard(|stream, descriptor| match objection(descriptor) {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(CheckError::Stream { stream, kind }),
        Err(source) => Err(CheckError::Unreadable { path: PathBuf::from(stream), source }),
    })
}

/// The name of the standard stream that is this very file.
pub(super) fn that_is(file: &File) -> Option<&'static str> {
    let held = file.metadata().ok()?;
    let same = |stream, descriptor: BorrowedFd<'_>| match fstat(descriptor) {
        Ok(data) if (data.st_dev, data.st_ino) == (held.dev(), held.ino()) => Err(stream),
        Ok(_) | Err(_) => Ok(()),
    };
    standard(same).err()
}

/// The standard streams that are regular files, each with where the file is now.
pub(super) fn files() -> Vec<(&'static str, PathBuf)> {
    let found = std::cell::RefCell::new(Vec::new());
    let look = |stream, descriptor: BorrowedFd<'_>| {
        let is_file = fstat(descriptor).is_ok_and(|data| data.st_mode & libc::S_IFMT == libc::S_IFREG);
        let path = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        found.borrow_mut().extend(path.ok().filter(|_| is_file).map(|path| (stream, path)));
        Ok::<(), std::convert::Infallible>(())
    };
    match standard(look) {
        Ok(()) => found.into_inner(),
    }
}

/// The standard streams that are regular files open for writing: what /dev/stdout leads to can be opened again.
pub(super) fn written() -> Vec<OwnedFd> {
    let found = std::cell::RefCell::new(Vec::new());
    let look = |_, descriptor: BorrowedFd<'_>| {
        let is_file = fstat(descriptor).is_ok_and(|data| data.st_mode & libc::S_IFMT == libc::S_IFREG);
        let access = fcntl(descriptor, FcntlArg::F_GETFL).unwrap_or(0) & libc::O_ACCMODE;
        if is_file && access != libc::O_RDONLY {
            found.borrow_mut().extend(descriptor.try_clone_to_owned());
        }
        Ok::<(), std::convert::Infallible>(())
    };
    match standard(look) {
        Ok(()) => found.into_inner(),
    }
}

/// Goes through the three until one fails.
fn standard<E>(look: impl Fn(&'static str, BorrowedFd<'_>) -> Result<(), E>) -> Result<(), E> {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let descriptors = [input.as_fd(), output.as_fd(), errors.as_fd()];
    NAMES.into_iter().zip(descriptors).try_for_each(|(name, descriptor)| look(name, descriptor))
}

/// What the descriptor is, when that cannot be let in.
fn objection(descriptor: BorrowedFd<'_>) -> std::io::Result<Option<&'static str>> {
    let flags = OFlag::from_bits_retain(fcntl(descriptor, FcntlArg::F_GETFL)?);
    if flags.contains(OFlag::O_PATH) {
        return Ok(Some("a place in the file system that is not open (O_PATH)"));
    }
    let data = fstat(descriptor)?;
    let kind = SFlag::from_bits_truncate(data.st_mode) & SFlag::S_IFMT;
    Ok(match kind {
        SFlag::S_IFREG | SFlag::S_IFIFO => None,
        SFlag::S_IFDIR => Some("a directory"),
        SFlag::S_IFBLK => Some("a block device"),
        SFlag::S_IFCHR => (!is_harmless_device(descriptor, &data)).then_some("a device that is no terminal"),
        SFlag::S_IFSOCK => {
            (!is_connected_pair(descriptor)).then_some("a socket of the network, or one that is not connected")
        }
        _ => Some("neither a file, a pipe nor a terminal"),
    })
}

/// A terminal, or null, zero, full, random, urandom: their numbers are fixed (Linux, Documentation/admin-guide/devices.txt).
fn is_harmless_device(descriptor: BorrowedFd<'_>, data: &FileStat) -> bool {
    const MEMORY: u64 = 1;
    // A pseudo-terminal whose other end is gone answers no question, so its number counts.
    const PSEUDO_TERMINALS: std::ops::RangeInclusive<u64> = 136..=143;
    let plain = major(data.st_rdev) == MEMORY && [3, 5, 7, 8, 9].contains(&minor(data.st_rdev));
    plain || PSEUDO_TERMINALS.contains(&major(data.st_rdev)) || nix::unistd::isatty(descriptor).unwrap_or(false)
}

/// A connected Unix stream cannot be connected again, so it leads where it led before.
fn is_connected_pair(descriptor: BorrowedFd<'_>) -> bool {
    let socket = SockRef::from(&descriptor);
    socket.domain().is_ok_and(|domain| domain == Domain::UNIX)
        && socket.r#type().is_ok_and(|kind| kind == Type::STREAM)
        && socket.is_listener().is_ok_and(|listens| !listens)
        && socket.peer_addr().is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    fn open(path: &str) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    fn unconnected(domain: Domain) -> OwnedFd {
        socket2::Socket::new(domain, Type::STREAM, None).unwrap().into()
    }

    fn place() -> OwnedFd {
        File::options().read(true).custom_flags(libc::O_PATH).open("/etc/passwd").unwrap().into()
    }

    fn signals() -> OwnedFd {
        let signals = nix::sys::signalfd::SignalFd::new(&nix::sys::signal::SigSet::empty()).unwrap();
        signals.as_fd().try_clone_to_owned().unwrap()
    }

    macro_rules! streams {
        ($($test:ident: $descriptor:expr => $passes:literal;)*) => {
            $(#[test]
            fn $test() {
                let descriptor: OwnedFd = $descriptor;
                let objection = objection(descriptor.as_fd()).unwrap();
                assert_eq!(objection.is_none(), $passes, "{objection:?}");
            })*
        };
    }

    streams! {
        a_file_passes: open("/etc/passwd") => true;
        a_pipe_passes: std::io::pipe().unwrap().0.into() => true;
        the_null_device_passes: open("/dev/null") => true;
        the_keyboard_end_passes: nix::pty::openpty(None, None).unwrap().master => true;
        a_hung_up_terminal_passes: nix::pty::openpty(None, None).unwrap().slave => true;
        a_connected_unix_stream_passes: UnixStream::pair().unwrap().0.into() => true;
        a_unix_datagram_does_not: UnixDatagram::pair().unwrap().0.into() => false;
        an_unconnected_unix_stream_does_not: unconnected(Domain::UNIX) => false;
        a_tcp_socket_does_not: unconnected(Domain::IPV4) => false;
        a_tcp_listener_does_not: TcpListener::bind("127.0.0.1:0").unwrap().into() => false;
        a_udp_socket_does_not: UdpSocket::bind("127.0.0.1:0").unwrap().into() => false;
        a_directory_does_not: open("/") => false;
        a_place_does_not: place() => false;
        what_is_no_file_does_not: signals() => false;
    }
}
