//! Bodies of which something has to be known before they go on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::types::Authority;

use super::refusal::Refusal;

/// The most that is held of one body to be signed, in bytes. Clients of services that take more (S3) say in a header what they have
/// signed, so that nothing of theirs is held.
pub const HELD_MAX: usize = 1024 * 1024;

/// A body of which the beginning has been read already.
#[derive(Debug)]
pub struct Held {
    beginning: Bytes,
    rest: Option<Rest>,
    /// Whether it is read on where it is dropped before its end.
    drains: bool,
    /// Its share of what may be held, until it has gone on.
    _room: Option<OwnedSemaphorePermit>,
}

/// Where the rest of a body comes from.
#[derive(Debug)]
enum Rest {
    Peer(Incoming),
    /// A file without a name, with how much of it has been passed on.
    Kept(Arc<File>, u64),
}

/// How long a peer may be silent where all of a body has to be read, and while git packs what it pushes.
const IDLE: Duration = Duration::from_secs(60);
const PACKING: Duration = Duration::from_secs(300);
/// How long what nobody wants is read on.
const DRAINING: Duration = Duration::from_secs(5);
/// How much of a file is passed on at a time, in bytes.
const PIECE: usize = 64 * 1024;

/// Why a body ends early.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// The peer broke off.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// What was kept of it cannot be read.
    #[error(transparent)]
    Lost(#[from] io::Error),
    /// The peer is silent where somebody has to read on.
    #[error("nothing of it came for {} seconds", IDLE.as_secs())]
    Stalled,
}

impl From<Incoming> for Held {
    fn from(rest: Incoming) -> Self {
        Self::new(Bytes::new(), Some(Rest::Peer(rest)), false)
    }
}

impl From<Bytes> for Held {
    fn from(beginning: Bytes) -> Self {
        Self::new(beginning, None, false)
    }
}

/// The stream of an upload over HTTP/2 that is answered early would be reset, which clients take for an error, however whole the answer
/// is (curl 7.88: 92). So the upload is read on for a while.
impl Drop for Held {
    fn drop(&mut self) {
        if let (true, Some(Rest::Peer(mut rest)), Ok(runtime)) = (self.drains, self.rest.take(), Handle::try_current())
            && !rest.is_end_stream()
        {
            runtime.spawn(timeout(DRAINING, async move {
                let mut left = HELD_MAX;
                while let Some(Ok(frame)) = rest.frame().await
                    && let Some(less) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len))
                {
                    left = less;
                }
            }));
        }
    }
}

impl Held {
    fn new(beginning: Bytes, rest: Option<Rest>, drains: bool) -> Self {
        Self { beginning, rest, drains, _room: None }
    }

    /// The body of a request of the sandbox.
    pub fn upload(request: Request<Incoming>) -> Request<Self> {
        let drains = request.version() == Version::HTTP_2;
        request.map(|body| Self::new(Bytes::new(), Some(Rest::Peer(body)), drains))
    }

    /// Reads on, until there are so many bytes or the body has ended; more are kept where they came in one piece.
    ///
    /// # Errors
    /// The peer breaks off, or is silent for a minute.
    pub async fn read(&mut self, bytes: usize) -> Result<&Bytes, HeldError> {
        let mut read = Vec::new();
        while self.beginning.len() + read.len() < bytes
            && let Some(Rest::Peer(rest)) = &mut self.rest
        {
            match next(rest, IDLE).await.transpose()?.map(Frame::into_data) {
                Some(Ok(data)) if self.beginning.is_empty() && read.is_empty() => self.beginning = data,
                Some(Ok(data)) => {
                    read.extend_from_slice(if read.is_empty() { &self.beginning } else { &[] });
                    self.beginning = Bytes::new();
                    read.extend_from_slice(&data);
                }
                // Trailers of a body that somebody reads are for nobody.
                Some(Err(_)) => {}
                None => self.rest = None,
            }
        }
        if !read.is_empty() {
            self.beginning = read.into();
        }
        Ok(&self.beginning)
    }

    /// Reads on to twice as much as somebody has seen of it. However small its frames are, it is copied some twenty times at most.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn read_more(&mut self, seen: usize) -> Result<&Bytes, HeldError> {
        self.read((2 * seen).max(seen + 1)).await
    }

    /// All of it, where its hash has to be known before it goes on.
    ///
    /// # Errors
    /// [`Refusal::TooLongToSign`] over [`HELD_MAX`] bytes, [`Refusal::Malformed`] where it breaks off.
    pub async fn hold(&mut self, host: &Authority) -> Result<&Bytes, Refusal> {
        self.read(HELD_MAX + 1).await.map_err(|_| Refusal::Malformed("its body breaks off".to_owned()))?;
        if self.beginning.len() > HELD_MAX || !self.is_whole() {
            return Err(Refusal::TooLongToSign { authority: host.clone() });
        }
        Ok(&self.beginning)
    }

    /// What has been read and not been passed on.
    pub fn beginning(&self) -> &Bytes {
        &self.beginning
    }

    /// Whether all of it has been read.
    pub fn is_whole(&self) -> bool {
        match &self.rest {
            None => true,
            Some(Rest::Peer(rest)) => rest.is_end_stream(),
            Some(Rest::Kept(..)) => false,
        }
    }

    /// Reads all of it and throws it away; gives up after so many bytes.
    pub async fn drain(&mut self, most: u64) {
        self.beginning = Bytes::new();
        let mut left = most;
        while let Some(Rest::Peer(rest)) = &mut self.rest
            && let Some(Ok(frame)) = next(rest, IDLE).await
        {
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            let Some(less) = left.checked_sub(length) else { break };
            left = less;
        }
        self.rest = None;
    }

    /// Reads what stands behind so many bytes into a file without a name, from which it goes on. None where it is longer than `most` or
    /// cannot be kept: it is lost then.
    pub async fn keep_rest(&mut self, from: usize, most: u64) -> Option<Arc<File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600);
        let mut file = options.open(std::env::temp_dir()).ok()?;
        let first = self.beginning.split_off(from.min(self.beginning.len()));
        let mut length = first.len() as u64;
        file.write_all(&first).ok()?;
        while let Some(Rest::Peer(rest)) = &mut self.rest {
            let Some(frame) = next(rest, PACKING).await else { break };
            let Ok(data) = frame.ok()?.into_data() else { continue };
            length += data.len() as u64;
            if length > most {
                return None;
            }
            file.write_all(&data).ok()?;
        }
        let file = Arc::new(file);
        self.rest = Some(Rest::Kept(Arc::clone(&file), 0));
        Some(file)
    }

    /// Gives back, when it is gone, what it takes of the room for what is held.
    pub fn takes(&mut self, room: OwnedSemaphorePermit) {
        self._room = Some(room);
    }

    /// Puts something else in place of what has been read.
    pub fn replace(&mut self, beginning: Bytes) {
        self.beginning = beginning;
    }
}

/// The next frame, where one comes in time.
async fn next(rest: &mut Incoming, patience: Duration) -> Option<Result<Frame<Bytes>, HeldError>> {
    match timeout(patience, rest.frame()).await {
        Ok(frame) => frame.map(|frame| frame.map_err(Into::into)),
        Err(_) => Some(Err(HeldError::Stalled)),
    }
}

impl Body for Held {
    type Data = Bytes;
    type Error = HeldError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HeldError>>> {
        let this = self.get_mut();
        if !this.beginning.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.beginning)))));
        }
        match &mut this.rest {
            Some(Rest::Peer(rest)) => Pin::new(rest).poll_frame(cx).map_err(Into::into),
            // What was written a moment ago is in memory.
            Some(Rest::Kept(file, at)) => {
                let mut piece = vec![0; PIECE];
                let length = file.read_at(&mut piece, *at)?;
                if length == 0 {
                    this.rest = None;
                    return Poll::Ready(None);
                }
                *at += length as u64;
                piece.truncate(length);
                Poll::Ready(Some(Ok(Frame::data(piece.into()))))
            }
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.beginning.is_empty() && self.is_whole()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = match &self.rest {
            None => SizeHint::with_exact(0),
            Some(Rest::Peer(rest)) => rest.size_hint(),
            Some(Rest::Kept(file, at)) => {
                file.metadata().map_or_else(|_| SizeHint::default(), |found| SizeHint::with_exact(found.len() - at))
            }
        };
        let held = self.beginning.len() as u64;
        match rest.exact() {
            Some(rest) => SizeHint::with_exact(rest + held),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn held(length: usize) -> Result<usize, &'static str> {
        let host = Authority::parse("a.test", 443).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut body = Held::from(Bytes::from(vec![b'x'; length]));
        runtime.block_on(body.hold(&host)).map(Bytes::len).map_err(|refusal| refusal.code())
    }

    #[test]
    fn a_body_is_held_up_to_its_bound() {
        assert_eq!(held(0), Ok(0));
        assert_eq!(held(HELD_MAX), Ok(HELD_MAX));
        assert_eq!(held(HELD_MAX + 1), Err("body_too_long_to_sign"));
    }

    /// The body of a request, of which the peer says this much and no more.
    async fn incoming(head: &str) -> (Held, tokio::io::DuplexStream) {
        let (mut client, server) = tokio::io::duplex(4096);
        client.write_all(head.as_bytes()).await.unwrap();
        let (gives, takes) = tokio::sync::oneshot::channel();
        let gives = std::sync::Mutex::new(Some(gives));
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let _ = gives.lock().unwrap().take().unwrap().send(Held::upload(request));
                std::future::pending::<Result<hyper::Response<Held>, std::convert::Infallible>>()
            });
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service).await
        });
        (takes.await.unwrap().into_body(), client)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_not_waited_for_without_end() {
        let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc";
        let (mut body, _client) = incoming(head).await;
        assert_eq!(body.read(3).await.unwrap(), "abc");
        assert!(matches!(body.read(4).await, Err(HeldError::Stalled)));
        let (mut body, _client) = incoming(head).await;
        assert!(body.keep_rest(0, 100).await.is_none());
    }
}
