//! A check of each HTTP/1 head in front of hyper, for what hyper accepts and a proxy must not: Content-Length beside
//! Transfer-Encoding, any Transfer-Encoding but one final `chunked`, bare CR or LF, line folding, a second Host, white
//! space before a colon, a head over 64 KiB (RFC 9112 sections 2.2, 5.1, 5.2, 6.1, 6.3). What hyper refuses by itself, the
//! guard refuses before it: hyper's own 400 has neither a reason for the client nor a row in the audit.
//!
//! The guard follows the framing so as to know where a head begins. hyper parses and judges every byte all the same, so
//! a disagreement of the two could cost a check, never a decision. A fault reaches hyper as a request of its own whose
//! method is [`FAULT`], so that the answer comes in its turn; nothing after it is read.
//!
//! At the end of a connection the guard lingers (RFC 9112 section 9.6): a client that still sends the body of a request
//! that was answered early would be reset, and lose the answer, if its bytes met a closed socket. They are read and
//! thrown away, up to [`LINGER_BYTES`], for at most [`LINGER`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::io::poll_read_buf;

/// The largest head, in bytes. hyper's own bound is set to the same.
pub const HEAD_MAX: usize = 64 * 1024;
/// The most header lines of one head.
pub const HEADERS_MAX: usize = 256;
/// The method of the request that stands for a malformed head. A client that sends it gets the same 400.
pub const FAULT: &str = "X-MALFORMED";
/// What can be wrong with a head. The sandbox may write anything behind [`FAULT`]; only these words are repeated.
pub const FAULTS: [&str; 19] = [
    "bare-line-break",
    "content-length",
    "content-length-twice",
    "content-length-with-transfer-encoding",
    "control-character-in-header",
    "folded-header",
    "head-too-large",
    "header-name",
    "header-without-colon",
    "header-without-name",
    "host-twice",
    "line-too-long",
    "method",
    "request-line",
    "space-before-colon",
    "target",
    "too-many-headers",
    "transfer-encoding",
    "version",
];
/// The longest chunk-size or trailer line.
const LINE_MAX: usize = 16 * 1024;
const READ: usize = 16 * 1024;
/// How long a client gets to take note of the end.
const LINGER: Duration = Duration::from_secs(3);
/// How much of what it sends meanwhile is read.
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// Lets the handler say that what follows is no longer HTTP.
#[derive(Clone, Debug, Default)]
pub struct RawSwitch(Arc<AtomicBool>);

impl RawSwitch {
    /// From here on bytes pass unchecked: a 101 that was asked for, or a CONNECT, has been answered.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream whose HTTP/1 heads are checked.
#[derive(Debug)]
pub struct Guard<T> {
    io: T,
    raw: RawSwitch,
    framing: Framing,
    pending: BytesMut,
    checked: usize,
    eof: bool,
    farewell: Option<Farewell>,
}

/// The end of a connection, from the moment its last byte has been sent.
#[derive(Debug)]
struct Farewell {
    patience: Pin<Box<Sleep>>,
    left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Head,
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    Trailers,
    /// Behind CONNECT: the bytes are a tunnel's or nobody's, and wait until the switch says which.
    Held,
    Dead,
}

impl<T> Guard<T> {
    /// Guards `io`; the switch ends the guarding.
    pub fn new(io: T, raw: RawSwitch) -> Self {
        Self { io, raw, framing: Framing::Head, pending: BytesMut::new(), checked: 0, eof: false, farewell: None }
    }

    /// The stream, and what was read from it and not yet handed on.
    pub fn into_parts(self) -> (T, BytesMut) {
        (self.io, self.pending)
    }

    /// Moves `checked` over everything in `pending` that may be handed on.
    fn check(&mut self) {
        while self.checked < self.pending.len() && self.framing != Framing::Dead {
            if self.raw.is_set() {
                self.checked = self.pending.len();
                return;
            }
            match self.step(&self.pending[self.checked..]) {
                Ok(Some((used, next))) => {
                    self.checked += used;
                    self.framing = next;
                }
                Ok(None) => return,
                Err(fault) => self.fail(fault),
            }
        }
    }

    fn step(&self, bytes: &[u8]) -> Result<Option<(usize, Framing)>, &'static str> {
        match self.framing {
            Framing::Head => head(bytes),
            Framing::Length(left) => Ok(Some(body(bytes, left, Framing::Head, Framing::Length))),
            Framing::ChunkSize => chunk_size(bytes),
            Framing::ChunkData(left) => Ok(Some(body(bytes, left, Framing::ChunkSize, Framing::ChunkData))),
            Framing::Trailers => trailer(bytes),
            Framing::Held | Framing::Dead => Ok(None),
        }
    }

    fn fail(&mut self, fault: &'static str) {
        self.pending.truncate(self.checked);
        // In the middle of a body there is no request to stand in for: the stream just ends there.
        if self.framing == Framing::Head {
            let request = format!("{FAULT} /{fault} HTTP/1.1\r\nHost: malformed.invalid\r\nConnection: close\r\n\r\n");
            self.pending.extend_from_slice(request.as_bytes());
            self.checked = self.pending.len();
        }
        self.framing = Framing::Dead;
    }
}

fn body(bytes: &[u8], left: u64, done: Framing, more: fn(u64) -> Framing) -> (usize, Framing) {
    let used = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    match left - used as u64 {
        0 => (used, done),
        rest => (used, more(rest)),
    }
}

fn head(bytes: &[u8]) -> Result<Option<(usize, Framing)>, &'static str> {
    // Empty lines before a request line are allowed (RFC 9112 section 2.2) and belong to no head.
    if bytes.starts_with(b"\r\n") {
        return Ok(Some((2, Framing::Head)));
    }
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
        check_lines(bytes)?;
        return if bytes.len() > HEAD_MAX { Err("head-too-large") } else { Ok(None) };
    };
    if end + 4 > HEAD_MAX {
        return Err("head-too-large");
    }
    check_lines(&bytes[..end + 2])?;
    frame_of(&bytes[..end]).map(|framing| Some((end + 4, framing)))
}

/// CR and LF stand together or not at all. A CR at the very end may still get its LF.
fn check_lines(text: &[u8]) -> Result<(), &'static str> {
    for at in memchr::memchr2_iter(b'\r', b'\n', text) {
        let fine = match text[at] {
            b'\r' => text.get(at + 1).is_none_or(|&next| next == b'\n'),
            _ => at > 0 && text[at - 1] == b'\r',
        };
        if !fine {
            return Err("bare-line-break");
        }
    }
    Ok(())
}

fn frame_of(text: &[u8]) -> Result<Framing, &'static str> {
    let mut lines = text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let request_line = lines.next().unwrap_or_default();
    let old = check_request_line(request_line)?;
    let (mut length, mut chunked, mut hosts) = (None, false, 0);
    for (count, line) in lines.enumerate() {
        if count >= HEADERS_MAX {
            return Err("too-many-headers");
        }
        let (name, value) = field(line)?;
        if name.eq_ignore_ascii_case(b"host") {
            hosts += 1;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let fresh =
                std::str::from_utf8(value).ok().filter(|v| !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit()));
            let fresh = fresh.and_then(|v| v.parse::<u64>().ok()).ok_or("content-length")?;
            if length.replace(fresh).is_some() {
                return Err("content-length-twice");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            // HTTP/1.0 knows none (RFC 9112 section 6.1).
            if chunked || old || !value.eq_ignore_ascii_case(b"chunked") {
                return Err("transfer-encoding");
            }
            chunked = true;
        }
    }
    if hosts > 1 {
        return Err("host-twice");
    }
    match (length, chunked) {
        (Some(_), true) => Err("content-length-with-transfer-encoding"),
        // CONNECT has no content (RFC 9110 section 9.3.6): what follows it is the tunnel's.
        (Some(1..), false) if request_line.starts_with(b"CONNECT ") => Err("content-length"),
        (None, true) if request_line.starts_with(b"CONNECT ") => Err("transfer-encoding"),
        _ if request_line.starts_with(b"CONNECT ") => Ok(Framing::Held),
        (_, true) => Ok(Framing::ChunkSize),
        (Some(length), false) if length > 0 => Ok(Framing::Length(length)),
        (Some(_) | None, false) => Ok(Framing::Head),
    }
}

/// A header or trailer line: a name that is a token, a colon right behind it, a value without control characters.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Err("folded-header");
    }
    let colon = memchr::memchr(b':', line).ok_or("header-without-colon")?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    match name.last() {
        None => return Err("header-without-name"),
        Some(b' ' | b'\t') => return Err("space-before-colon"),
        Some(_) if !name.iter().all(|&b| is_token(b)) => return Err("header-name"),
        Some(_) => {}
    }
    if value.iter().any(|&b| b.is_ascii_control() && b != b'\t') {
        return Err("control-character-in-header");
    }
    Ok((name, value))
}

/// Spaces and tabs alone (RFC 9110 section 5.6.3): what else counts as white space elsewhere is a fault here.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Three words with one space between each: a method, a target that `http` can read, a version. Gives whether that is 1.0.
fn check_request_line(line: &[u8]) -> Result<bool, &'static str> {
    let mut words = line.split(|&b| b == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("request-line");
    };
    if method.is_empty() || !method.iter().all(|&b| is_token(b)) {
        return Err("method");
    }
    let plain = |b: &u8| b.is_ascii_alphanumeric() || memchr::memchr(*b, b"/?&=%.-_~:@+,;!$'()*").is_some();
    let plain_path = target.starts_with(b"/") && target.iter().all(plain);
    // A target has no fragment (RFC 9112 section 3.2), and `http` would let any byte stand in one.
    if !plain_path && (memchr::memchr(b'#', target).is_some() || http::Uri::try_from(target).is_err()) {
        return Err("target");
    }
    match version {
        b"HTTP/1.1" => Ok(false),
        b"HTTP/1.0" => Ok(true),
        _ => Err("version"),
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || memchr::memchr(b, b"!#$%&'*+-.^_`|~").is_some()
}

fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, &'static str> {
    match memchr::memchr(b'\n', bytes) {
        Some(at) if at > 0 && bytes[at - 1] == b'\r' => Ok(Some((&bytes[..at - 1], at + 1))),
        Some(_) => Err("bare-line-break"),
        None if bytes.len() > LINE_MAX => Err("line-too-long"),
        None => Ok(None),
    }
}

fn chunk_size(bytes: &[u8]) -> Result<Option<(usize, Framing)>, &'static str> {
    let Some((text, used)) = line(bytes)? else { return Ok(None) };
    // An extension is made of tokens and quoted strings (RFC 9112 section 7.1.1).
    if text.iter().any(|&b| b.is_ascii_control() && b != b'\t') {
        return Err("chunk-size");
    }
    let digits = text.split(|&b| b == b';').next().unwrap_or_default();
    let size = std::str::from_utf8(digits).ok().filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_hexdigit()));
    let size = size.and_then(|d| u64::from_str_radix(d, 16).ok()).ok_or("chunk-size")?;
    // A chunk's data is followed by CRLF.
    Ok(Some((used, if size == 0 { Framing::Trailers } else { Framing::ChunkData(size.saturating_add(2)) })))
}

fn trailer(bytes: &[u8]) -> Result<Option<(usize, Framing)>, &'static str> {
    let Some((text, used)) = line(bytes)? else { return Ok(None) };
    if text.is_empty() {
        return Ok(Some((used, Framing::Head)));
    }
    field(text)?;
    Ok(Some((used, Framing::Trailers)))
}

impl<T: AsyncRead + Unpin> AsyncRead for Guard<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            this.check();
            if this.checked > 0 {
                let used = this.checked.min(buf.remaining());
                buf.put_slice(&this.pending[..used]);
                this.pending.advance(used);
                this.checked -= used;
                return Poll::Ready(Ok(()));
            }
            if this.framing == Framing::Dead || this.eof {
                // An unfinished head at the end of the stream goes on, so that hyper sees a cut-off request as one.
                let rest = if this.eof { this.pending.len().min(buf.remaining()) } else { 0 };
                buf.put_slice(&this.pending[..rest]);
                this.pending.advance(rest);
                return Poll::Ready(Ok(()));
            }
            // A long body, or raw bytes, with nothing waiting: straight into the reader's buffer.
            if this.pending.is_empty() && (this.raw.is_set() || this.in_long_body(buf.remaining())) {
                let before = buf.filled().len();
                ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
                this.count_body((buf.filled().len() - before) as u64);
                return Poll::Ready(Ok(()));
            }
            if this.framing == Framing::Held && !this.pending.is_empty() {
                // The handler's answer wakes the reader, and nothing more is taken in until then.
                return Poll::Pending;
            }
            this.pending.reserve(READ);
            this.eof = ready!(poll_read_buf(Pin::new(&mut this.io), cx, &mut this.pending))? == 0;
        }
    }
}

impl<T> Guard<T> {
    fn in_long_body(&self, room: usize) -> bool {
        matches!(self.framing, Framing::Length(left) | Framing::ChunkData(left) if left > room as u64)
    }

    fn count_body(&mut self, read: u64) {
        if let Framing::Length(left) | Framing::ChunkData(left) = &mut self.framing {
            *left = left.saturating_sub(read);
        }
    }
}

impl<T: AsyncRead + Unpin> Guard<T> {
    /// Ready when the client has ended its side too, or has had its chance.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.pending.clear();
        self.pending.reserve(READ);
        let Some(farewell) = &mut self.farewell else { return Poll::Ready(()) };
        while !self.eof && farewell.left > 0 {
            if farewell.patience.as_mut().poll(cx).is_ready() {
                break;
            }
            match ready!(poll_read_buf(Pin::new(&mut self.io), cx, &mut self.pending)) {
                Ok(0) | Err(_) => self.eof = true,
                Ok(read) => farewell.left = farewell.left.saturating_sub(read),
            }
            self.pending.clear();
        }
        Poll::Ready(())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.farewell.is_none() {
            ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
            // The end of a tunnel is its own protocol's affair.
            let left = if this.raw.is_set() { 0 } else { LINGER_BYTES };
            this.farewell = Some(Farewell { patience: Box::pin(tokio::time::sleep(LINGER)), left });
        }
        this.poll_linger(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests;
