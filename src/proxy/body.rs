//! Bodies on their way through: counted, never buffered.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::audit::{Row, Traffic};
use crate::sandboxes::Sandbox;

use super::brake::{Brake, Unwanted};
use super::headers;
use super::pool::Lease;
use super::underway::Ticket;

/// What goes back to the sandbox.
pub enum ProxyBody {
    /// Made here.
    Full(Full<Bytes>),
    /// From upstream. Boxed, since it is much larger than the other.
    Relayed(Box<Relayed>),
}

/// An upstream's response body. At its end the connection goes back to the pool and the row is written; a body that is
/// dropped before takes its connection with it.
pub struct Relayed {
    inner: Incoming,
    lease: Option<Lease>,
    row: Row,
    /// Held until the body has ended.
    _ticket: Option<Ticket>,
}

/// What goes to the upstream: the sandbox's request body, counted.
pub struct RequestBody {
    inner: Option<Incoming>,
    traffic: Arc<Traffic>,
    trailers: Option<TrailerFilter>,
    brake: Option<Brake>,
}

/// Takes out of a request's trailers what the proxy sets itself, and what belongs into a head or to one hop.
pub struct TrailerFilter {
    /// Whose injector knows the headers.
    pub sandbox: Arc<Sandbox>,
    /// The bindings that apply.
    pub bindings: Vec<usize>,
}

/// Why a request body ends early.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The sandbox's side broke off.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// Nobody waits for it any more.
    #[error(transparent)]
    Unwanted(#[from] Unwanted),
}

impl ProxyBody {
    /// No body at all.
    pub fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// A body made here.
    pub fn full(bytes: Bytes) -> Self {
        Self::Full(Full::new(bytes))
    }

    /// An upstream's body.
    pub fn relayed(inner: Incoming, lease: Lease, row: Row, ticket: Option<Ticket>) -> Self {
        let mut relayed = Relayed { inner, lease: Some(lease), row, _ticket: ticket };
        if relayed.inner.is_end_stream() {
            relayed.finish();
        }
        Self::Relayed(Box::new(relayed))
    }
}

impl Relayed {
    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back(self.row.traffic.up_done.load(Ordering::Relaxed));
        }
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Full(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Relayed(relayed) => {
                let frame = ready!(Pin::new(&mut relayed.inner).poll_frame(cx));
                if let Some(Ok(frame)) = &frame
                    && let Some(data) = frame.data_ref()
                {
                    relayed.row.event().bytes_down += data.len() as u64;
                }
                match &frame {
                    None => relayed.finish(),
                    Some(Ok(_)) if relayed.inner.is_end_stream() => relayed.finish(),
                    Some(Ok(_) | Err(_)) => {}
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(body) => body.is_end_stream(),
            Self::Relayed(relayed) => relayed.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => body.size_hint(),
            Self::Relayed(relayed) => relayed.inner.size_hint(),
        }
    }
}

impl RequestBody {
    /// The sandbox's body as it comes.
    pub fn new(inner: Incoming, traffic: Arc<Traffic>, trailers: TrailerFilter) -> Self {
        if inner.is_end_stream() {
            traffic.up_done.store(true, Ordering::Relaxed);
        }
        Self { inner: Some(inner), traffic, trailers: Some(trailers), brake: None }
    }

    /// No body, for a request that is sent once more.
    pub fn none(traffic: Arc<Traffic>) -> Self {
        Self { inner: None, traffic, trailers: None, brake: None }
    }

    /// Puts a brake on it, where there is anything to hold back; `expect` is for `Expect: 100-continue`.
    pub fn braked(&mut self, expect: bool) -> Option<Brake> {
        self.brake = (!self.is_end_stream()).then(|| Brake::new(expect));
        self.brake.clone()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(brake) = &this.brake
            && let Err(unwanted) = ready!(brake.poll(cx))
        {
            return Poll::Ready(Some(Err(unwanted.into())));
        }
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        let mut frame = ready!(Pin::new(&mut *inner).poll_frame(cx));
        let ended = frame.is_none() || inner.is_end_stream();
        if let Some(Ok(frame)) = &mut frame {
            let len = frame.data_ref().map_or(0, Bytes::len) as u64;
            this.traffic.up.fetch_add(len, Ordering::Relaxed);
            if let (Some(fields), Some(filter)) = (frame.trailers_mut(), &this.trailers) {
                headers::clean_trailers(fields);
                filter.sandbox.injector.strip(&filter.bindings, fields);
            }
        }
        if ended {
            this.traffic.up_done.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
