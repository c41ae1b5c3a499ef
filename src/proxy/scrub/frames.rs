//! Messages of a WebSocket, so that none of them waits for the next one: a message's end ends what may be found in it.
//!
//! Only there: that a body is cut into messages, as gRPC's is, stands in a header which the sandbox may have chosen, and so would the
//! borders be, at which a value could be cut in two.
//!
//! Heads of frames pass as they are, and what they say of lengths stays true, since masking changes none.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::credentials::Watch;
use crate::credentials::scrub::Stream;

/// The longest payload of a control frame (RFC 6455 section 5.5).
const CONTROL_MAX: usize = 125;
/// As much as may wait, in bytes, behind a piece of a message that is held back.
const WAITING_MAX: usize = 64 * 1024;

/// How messages are told in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// They are not.
    None,
    /// As a WebSocket's server sends them: a message may stand in several frames.
    WebSocket,
}

/// Why a stream cannot be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Frames that a server may not send (RFC 6455 section 5), or that nobody asked for.
    #[error("it sends frames that a WebSocket's server may not send")]
    Frame,
    /// Too many control frames inside one message.
    #[error("it sends too many control frames inside a message")]
    Waiting,
}

/// Masks what comes in pieces.
pub struct Masker {
    stream: Stream,
    values: Arc<Watch>,
    framing: Framing,
    at: At,
    /// Heads and control frames, and behind how many bytes of messages they stand.
    waiting: VecDeque<(u64, Vec<u8>)>,
    given: u64,
    taken: u64,
}

/// Where in a frame.
enum At {
    Head(Vec<u8>),
    Payload { left: u64, ends: bool },
    Control { whole: usize, frame: Vec<u8> },
}

/// What a head says.
enum Head {
    Incomplete,
    Message { length: u64, ends: bool },
    Control { length: usize },
}

impl Masker {
    /// At the beginning of a stream.
    pub fn new(values: Arc<Watch>, framing: Framing) -> Self {
        let (stream, at) = (Stream::new(Arc::clone(&values)), At::Head(Vec::new()));
        Self { stream, values, framing, at, waiting: VecDeque::new(), given: 0, taken: 0 }
    }

    /// Takes the next piece, and gives what is ready.
    ///
    /// # Errors
    /// [`Unreadable`]; the stream is to end there.
    pub fn push(&mut self, piece: Bytes) -> Result<Bytes, Unreadable> {
        if self.framing == Framing::None {
            return Ok(self.stream.push(piece));
        }
        let (mut rest, mut out) = (piece, Vec::new());
        while !rest.is_empty() {
            match &mut self.at {
                At::Head(head) => {
                    head.push(rest[0]);
                    rest = rest.slice(1..);
                    self.behind_head(&mut out)?;
                }
                At::Control { whole, frame } => {
                    let some = rest.split_to((*whole - frame.len()).min(rest.len()));
                    frame.extend_from_slice(&some);
                    self.behind_control(&mut out)?;
                }
                At::Payload { left, .. } => {
                    let some = rest.split_to(usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len()));
                    *left -= some.len() as u64;
                    self.given += some.len() as u64;
                    let ready = self.stream.push(some);
                    self.give(&ready, &mut out);
                    self.behind_payload(&mut out);
                }
            }
        }
        Ok(out.into())
    }

    /// The end: what was held back.
    pub fn finish(&mut self) -> Bytes {
        let mut out = Vec::new();
        let ready = self.stream.finish();
        if self.framing == Framing::None {
            return ready;
        }
        self.give(&ready, &mut out);
        // A frame that is cut off.
        if let At::Head(rest) | At::Control { frame: rest, .. } = &mut self.at {
            self.values.current().mask_in_place(rest);
            out.append(rest);
        }
        out.into()
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.stream.held()
    }

    fn behind_head(&mut self, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let At::Head(head) = &mut self.at else { return Ok(()) };
        let read = match self.framing {
            Framing::None => return Ok(()),
            Framing::WebSocket => websocket(head)?,
        };
        match read {
            Head::Incomplete => Ok(()),
            Head::Control { length } => {
                let frame = std::mem::take(head);
                self.at = At::Control { whole: frame.len() + length, frame };
                self.behind_control(out)
            }
            Head::Message { length, ends } => {
                let head = std::mem::take(head);
                self.at = At::Payload { left: length, ends };
                self.verbatim(head, out)?;
                self.behind_payload(out);
                Ok(())
            }
        }
    }

    fn behind_control(&mut self, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        match &mut self.at {
            At::Control { whole, frame } if frame.len() == *whole => {
                // Its head is two bytes long, and no part of the payload.
                self.values.current().mask_in_place(&mut frame[2..]);
                let frame = std::mem::take(frame);
                self.at = At::Head(Vec::new());
                self.verbatim(frame, out)
            }
            At::Control { .. } | At::Head(_) | At::Payload { .. } => Ok(()),
        }
    }

    fn behind_payload(&mut self, out: &mut Vec<u8>) {
        if let At::Payload { left: 0, ends } = self.at {
            if ends {
                let ready = self.stream.finish();
                self.give(&ready, out);
            }
            self.at = At::Head(Vec::new());
        }
    }

    /// What passes as it is, in its turn.
    fn verbatim(&mut self, bytes: Vec<u8>, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        self.waiting.push_back((self.given, bytes));
        self.give(&[], out);
        let waiting: usize = self.waiting.iter().map(|(_, bytes)| bytes.len()).sum();
        if waiting > WAITING_MAX { Err(Unreadable::Waiting) } else { Ok(()) }
    }

    /// Gives bytes of messages, and between them what waits for its turn there.
    fn give(&mut self, mut ready: &[u8], out: &mut Vec<u8>) {
        while let Some((turn, _)) = self.waiting.front()
            && let Ok(before) = usize::try_from(*turn - self.taken)
            && before <= ready.len()
        {
            out.extend_from_slice(&ready[..before]);
            ready = &ready[before..];
            self.taken += before as u64;
            out.extend(self.waiting.pop_front().map(|(_, bytes)| bytes).unwrap_or_default());
        }
        out.extend_from_slice(ready);
        self.taken += ready.len() as u64;
    }
}

/// RFC 6455 section 5.2. No extension was agreed on, so that the reserved bits are none, and a server does not mask.
fn websocket(head: &[u8]) -> Result<Head, Unreadable> {
    let (last, opcode) = (head[0] & 0x80 != 0, head[0] & 0x0f);
    if head[0] & 0x70 != 0 || !matches!(opcode, 0..=2 | 8..=10) {
        return Err(Unreadable::Frame);
    }
    let Some(second) = head.get(1) else { return Ok(Head::Incomplete) };
    if second & 0x80 != 0 {
        return Err(Unreadable::Frame);
    }
    if opcode >= 8 {
        let length = usize::from(*second);
        return if last && length <= CONTROL_MAX { Ok(Head::Control { length }) } else { Err(Unreadable::Frame) };
    }
    let length = match (second, &head[2..]) {
        (0..=125, _) => u64::from(*second),
        (126, &[a, b]) => u64::from(u16::from_be_bytes([a, b])),
        (127, long) if long.len() == 8 => u64::from_be_bytes(<[u8; 8]>::try_from(long).map_err(|_| Unreadable::Frame)?),
        _ => return Ok(Head::Incomplete),
    };
    if length > i64::MAX as u64 { Err(Unreadable::Frame) } else { Ok(Head::Message { length, ends: last }) }
}

#[cfg(test)]
mod tests;
