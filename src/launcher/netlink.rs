//! Netlink messages by hand: a fixed handful of requests needs no library, and no process besides.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendmsg, socket};

/// `NLMSG_ERROR`, which is also the acknowledgement when its code is 0.
const ERROR: u16 = 2;
const HEADER: usize = 16;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// `NLM_F_CREATE | NLM_F_EXCL`.
pub(super) const CREATE: u16 = 0x600;
/// `NLM_F_CREATE | NLM_F_APPEND`.
pub(super) const APPEND: u16 = 0xc00;
/// Marks an attribute that holds attributes.
const NESTED: u16 = 0x8000;

/// Attributes, or the body of a message, in the making.
#[derive(Debug, Default, Clone)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    /// Starts with the fixed part of a message.
    pub(super) fn after(fixed: &[u8]) -> Self {
        Self(fixed.to_vec())
    }

    /// Adds one attribute, padded to four bytes.
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + 4).expect("attributes here are short constants");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a null-terminated string.
    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        self.with(kind, &[value.as_bytes(), b"\0"].concat())
    }

    /// Adds a number in network order, as nf_tables wants them all.
    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_be_bytes())
    }

    /// Adds attributes within an attribute.
    pub(super) fn nest(self, kind: u16, inner: Attributes) -> Self {
        self.with(kind | NESTED, &inner.0)
    }
}

/// Requests that are sent in one go and each acknowledged.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    sequence: u32,
    acknowledged: Vec<(u32, &'static str)>,
}

impl Batch {
    /// Adds a request; `what` names it in an error.
    pub(super) fn request(&mut self, kind: u16, flags: u16, body: Attributes, what: &'static str) {
        self.message(kind, REQUEST | ACKNOWLEDGE | flags, &body);
        self.acknowledged.push((self.sequence, what));
    }

    /// Adds a message that is not acknowledged: the borders of an nf_tables transaction.
    pub(super) fn border(&mut self, kind: u16, body: Attributes) {
        self.message(kind, REQUEST, &body);
    }

    fn message(&mut self, kind: u16, flags: u16, body: &Attributes) {
        self.sequence += 1;
        let length = u32::try_from(HEADER + body.0.len()).expect("messages here are short constants");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&self.sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&0_u32.to_ne_bytes());
        self.bytes.extend_from_slice(&body.0);
    }

    /// Sends everything and waits until each request is acknowledged.
    ///
    /// # Errors
    ///
    /// The first refusal, with the name of its request.
    pub(super) fn run(self, protocol: SockProtocol) -> Result<(), (&'static str, Errno)> {
        let failed = |errno| ("netlink", errno);
        let kind = SockType::Raw;
        let socket = socket(AddressFamily::Netlink, kind, SockFlag::SOCK_CLOEXEC, protocol).map_err(failed)?;
        let kernel = NetlinkAddr::new(0, 0);
        sendmsg(socket.as_raw_fd(), &[IoSlice::new(&self.bytes)], &[], MsgFlags::empty(), Some(&kernel))
            .map_err(failed)?;
        self.await_answers(&socket)
    }

    fn await_answers(mut self, socket: &OwnedFd) -> Result<(), (&'static str, Errno)> {
        let mut buffer = vec![0; 32 * 1024];
        while !self.acknowledged.is_empty() {
            // Netlink answers before sendmsg returns; when nothing is there, nothing will come.
            let length = match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => length,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(("netlink answer", errno)),
            };
            let mut rest = &buffer[..length];
            while let Some(answer) = Answer::parse(&mut rest) {
                let asked = self.acknowledged.iter().position(|(sequence, _)| *sequence == answer.sequence);
                let what = asked.map_or("transaction", |place| self.acknowledged[place].1);
                if answer.code != 0 {
                    return Err((what, Errno::from_raw(-answer.code)));
                }
                if let Some(place) = asked {
                    self.acknowledged.remove(place);
                }
            }
        }
        Ok(())
    }
}

/// One `NLMSG_ERROR`.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    sequence: u32,
    code: i32,
}

impl Answer {
    /// Takes the next answer off `rest`; messages of other kinds are skipped.
    fn parse(rest: &mut &[u8]) -> Option<Self> {
        loop {
            let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
            let message = rest.get(..length).filter(|message| message.len() >= HEADER)?;
            *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            let kind = u16::from_ne_bytes(*message[4..].first_chunk()?);
            if kind == ERROR {
                let sequence = u32::from_ne_bytes(*message[8..].first_chunk()?);
                let code = i32::from_ne_bytes(*message[HEADER..].first_chunk()?);
                return Some(Self { sequence, code });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let inner = Attributes::default().text(1, "ab");
        let Attributes(bytes) = Attributes::after(&[9, 9, 9, 9]).nest(2, inner);
        let expected: Vec<u8> = [
            &[9, 9, 9, 9][..],
            &12_u16.to_ne_bytes(),
            &0x8002_u16.to_ne_bytes(),
            &7_u16.to_ne_bytes(),
            &1_u16.to_ne_bytes(),
            b"ab\0\0",
        ]
        .concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn answers_are_read_until_they_end() {
        let mut batch = Batch::default();
        batch.border(ERROR, Attributes::after(&(-17_i32).to_ne_bytes()));
        batch.border(77, Attributes::default());
        batch.border(ERROR, Attributes::after(&0_i32.to_ne_bytes()));
        let mut rest = &batch.bytes[..];
        assert_eq!(Answer::parse(&mut rest), Some(Answer { sequence: 1, code: -17 }));
        assert_eq!(Answer::parse(&mut rest), Some(Answer { sequence: 3, code: 0 }));
        assert_eq!(Answer::parse(&mut rest), None);
    }

    #[test]
    fn a_cut_answer_ends_the_reading() {
        let mut rest: &[u8] = &[200, 0, 0, 0, 2, 0];
        assert_eq!(Answer::parse(&mut rest), None);
    }
}
