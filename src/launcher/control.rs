//! What the launcher and pid 1 say to each other, over a socket pair that dies with either.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::namespace;
use super::plan::Plan;

/// The longest message. A plan, which may be longer, travels in a memory file.
const MESSAGE_LIMIT: usize = 16 * 1024;

/// The most descriptors in one message: the kernel's own bound (SCM_MAX_FD).
pub(super) const DESCRIPTOR_LIMIT: usize = 253;

/// What the launcher asks of pid 1.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The identity maps are written.
    Mapped,
    /// The plan is in the memory file that comes with this message, in its first so many bytes.
    Configure(u64),
    /// The proxy accepts: start the command.
    Release,
    /// Pass this signal to the command.
    Signal(i32),
}

/// What pid 1 tells the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The network stands; the listeners come with this message, in this order.
    Listening(ListenerCounts),
    /// The mounts stand.
    Ready,
    /// The command runs.
    Started,
    /// Nothing runs, and nothing will.
    Failed(Failure),
    /// The command stopped by this signal (job control).
    Stopped(i32),
    /// The command ended with this code.
    Exited(u8),
    /// The command was ended by this signal.
    Killed(i32),
}

/// How the descriptors of [`Report::Listening`] are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListenerCounts {
    pub(super) mode: CaptureMode,
    pub(super) tcp: usize,
    pub(super) dns_tcp: usize,
    pub(super) dns_udp: usize,
    pub(super) explicit: usize,
}

/// How a TCP connection to any address comes to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CaptureMode {
    /// Every port; the accepted socket's local address is the destination.
    Tproxy,
    /// Every port; the destination is `SO_ORIGINAL_DST`.
    Redirect,
    /// The policy's ports alone; the accepted socket's local address is the destination.
    Ports,
}

/// A part of the set-up, as errors and `doctor` name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layer {
    /// The invoking user's identity.
    Identity,
    /// The namespaces themselves.
    Namespaces,
    /// The user and group maps.
    IdentityMap,
    /// The conversation between launcher and pid 1.
    Control,
    /// The fresh /proc.
    Proc,
    /// `lo`, its addresses and routes.
    Loopback,
    /// The listeners.
    Listeners,
    /// Every mount but /proc.
    Mounts,
    /// Capabilities, securebits, no_new_privs.
    Privileges,
    /// Landlock.
    Landlock,
    /// The system call filters.
    Seccomp,
    /// The steps of the command's process before it becomes its program.
    Start,
    /// The command itself: there is no such program, or it cannot be run.
    Command,
}

/// Why pid 1 or the command's process gave up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) layer: Layer,
    /// What was being done, with the object it was done to.
    pub(super) detail: String,
    /// The system's error number; 0 where the reason is in `detail`.
    pub(super) errno: i32,
}

impl Failure {
    pub(super) fn new(layer: Layer, detail: impl Into<String>, errno: Errno) -> Self {
        Self { layer, detail: detail.into(), errno: errno as i32 }
    }

    pub(super) fn text(layer: Layer, detail: impl Into<String>) -> Self {
        Self { layer, detail: detail.into(), errno: 0 }
    }

    pub(super) fn io(layer: Layer, detail: impl Into<String>, error: &std::io::Error) -> Self {
        Self { layer, detail: detail.into(), errno: error.raw_os_error().unwrap_or(Errno::EIO as i32) }
    }
}

/// One end of the conversation.
#[derive(Debug)]
pub(super) struct Control(OwnedFd);

impl Control {
    /// Both ends; messages keep their borders, and closing one end is an end of file at the other.
    pub(super) fn pair() -> Result<(Self, Self), Errno> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Self(ours), Self(theirs)))
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Sends a message, with descriptors.
    pub(super) fn send<T: Serialize>(&self, message: &T, descriptors: &[RawFd]) -> Result<(), Errno> {
        let bytes = serde_json::to_vec(message).map_err(|_| Errno::EINVAL)?;
        let rights = [ControlMessage::ScmRights(descriptors)];
        let rights = if descriptors.is_empty() { &[] } else { &rights[..] };
        loop {
            match sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(&bytes)], rights, MsgFlags::MSG_NOSIGNAL, None) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The next message, or `None` at the end of the conversation. Waits.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
        let mut bytes = vec![0; MESSAGE_LIMIT];
        let mut rights = nix::cmsg_space!([RawFd; DESCRIPTOR_LIMIT]);
        let mut descriptors = Vec::new();
        let length = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut rights), MsgFlags::MSG_CMSG_CLOEXEC) {
                Ok(message) => {
                    for part in message.cmsgs()? {
                        if let ControlMessageOwned::ScmRights(fresh) = part {
                            descriptors.extend(fresh.into_iter().map(namespace::adopt));
                        }
                    }
                    break message.bytes;
                }
                // The other end went with an order unread, which is told first. What it had said is still to come.
                Err(Errno::EINTR | Errno::ECONNRESET) => {}
                Err(errno) => return Err(errno),
            }
        };
        if length == 0 {
            return Ok(None);
        }
        let message = serde_json::from_slice(&bytes[..length]).map_err(|_| Errno::EBADMSG)?;
        Ok(Some((message, descriptors)))
    }
}

/// Writes a plan into a memory file: its JSON, then the placed files' bytes one after the other. Answers with the length of
/// the JSON, too.
pub(super) fn write_plan(plan: &Plan) -> std::io::Result<(OwnedFd, u64)> {
    let mut file = File::from(memfd_create(c"plan", MFdFlags::MFD_CLOEXEC)?);
    let json = serde_json::to_vec(plan)?;
    file.write_all(&json)?;
    for placed in &plan.placed {
        file.write_all(&placed.content)?;
    }
    file.rewind()?;
    Ok((file.into(), json.len() as u64))
}

/// Reads what [`write_plan`] wrote, but for the contents: the kernel copies those from the memory file, which is left where
/// they begin.
pub(super) fn read_plan(memory: OwnedFd, length: u64) -> std::io::Result<(Plan, File)> {
    let memory = File::from(memory);
    let mut json = Vec::new();
    (&memory).take(length).read_to_end(&mut json)?;
    Ok((serde_json::from_slice(&json)?, memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_one_who_did_not_listen_are_heard() {
        let (ours, theirs) = Control::pair().unwrap();
        theirs.send(&Report::Failed(Failure::text(Layer::Proc, "why")), &[]).unwrap();
        ours.send(&Order::Mapped, &[]).unwrap();
        drop(theirs);
        let (heard, _) = ours.receive::<Report>().unwrap().expect("it had said why");
        assert!(matches!(heard, Report::Failed(Failure { layer: Layer::Proc, .. })), "{heard:?}");
        assert!(ours.receive::<Report>().unwrap().is_none());
    }
}
