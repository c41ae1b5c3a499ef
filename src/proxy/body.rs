//! Bodies on their way through: counted, never buffered.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use crate::audit::{Row, Traffic};
use crate::sandboxes::InForce;

use super::brake::{Brake, Unwanted};
use super::headers;
use super::held::{Held, HeldError};
use super::pool::Lease;
use super::scrub::{BodyFilter, Unscrubbable};
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
    inner: Held,
    /// What it goes through, where it may hold a secret.
    filter: Option<BodyFilter>,
    lease: Option<Lease>,
    row: Row,
    /// Held until the body has ended.
    _ticket: Option<Ticket>,
}

/// What goes to the upstream: the sandbox's request body, counted.
pub struct RequestBody {
    inner: Held,
    traffic: Arc<Traffic>,
    trailers: Option<TrailerFilter>,
    brake: Option<Brake>,
}

/// Takes out of a request's trailers what the proxy sets itself, and what belongs into a head or to one hop.
pub struct TrailerFilter {
    /// Whose injector knows the headers.
    pub in_force: Arc<InForce>,
    /// The bindings that apply.
    pub bindings: Vec<usize>,
}

/// Why a response body ends early.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The upstream's side broke off.
    #[error(transparent)]
    Broken(#[from] HeldError),
    /// It cannot be searched for the secret that it may hold.
    #[error(transparent)]
    Unscrubbable(#[from] Unscrubbable),
}

/// Why a request body ends early.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The sandbox's side broke off.
    #[error(transparent)]
    Broken(#[from] HeldError),
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
    pub fn relayed(inner: Held, filter: Option<BodyFilter>, lease: Lease, row: Row, ticket: Option<Ticket>) -> Self {
        let mut relayed = Relayed { inner, filter, lease: Some(lease), row, _ticket: ticket };
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

impl Relayed {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        loop {
            if let Some(filter) = &mut self.filter {
                match filter.next_frame() {
                    Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                    Ok(None) if filter.is_done() => return Poll::Ready(None),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a response breaks off");
                        return Poll::Ready(Some(Err(error.into())));
                    }
                }
            }
            let frame = ready!(self.poll_upstream(cx));
            let Some(filter) = &mut self.filter else {
                return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
            };
            match frame.transpose()?.map(Frame::into_data) {
                Some(Ok(data)) => filter.feed(data),
                Some(Err(frame)) => filter.end(frame.into_trailers().ok()),
                None => filter.end(None),
            }
        }
    }

    /// The next frame as it comes, counted.
    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HeldError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.row.event().bytes_down += data.len() as u64;
        }
        match &frame {
            None => self.finish(),
            Some(Ok(_)) if self.inner.is_end_stream() => self.finish(),
            Some(Ok(_) | Err(_)) => {}
        }
        Poll::Ready(frame)
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        match self.get_mut() {
            Self::Full(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Relayed(relayed) => relayed.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(body) => body.is_end_stream(),
            Self::Relayed(relayed) => {
                let holds = relayed.filter.as_ref().is_some_and(|filter| !filter.is_empty());
                relayed.inner.is_end_stream() && !holds
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => body.size_hint(),
            Self::Relayed(relayed) => {
                let rest = relayed.inner.size_hint();
                relayed.filter.as_ref().map_or(rest, |filter| filter.size_hint(&rest))
            }
        }
    }
}

impl RequestBody {
    /// The sandbox's body as it comes.
    pub fn new(inner: Held, traffic: Arc<Traffic>, trailers: TrailerFilter) -> Self {
        if inner.is_end_stream() {
            traffic.up_done.store(true, Ordering::Relaxed);
        }
        Self { inner, traffic, trailers: Some(trailers), brake: None }
    }

    /// No body, for a request that is sent once more.
    pub fn none(traffic: Arc<Traffic>) -> Self {
        Self { inner: Held::from(Bytes::new()), traffic, trailers: None, brake: None }
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
        let mut frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        let ended = frame.is_none() || this.inner.is_end_stream();
        if let Some(Ok(frame)) = &mut frame {
            let len = frame.data_ref().map_or(0, Bytes::len) as u64;
            this.traffic.up.fetch_add(len, Ordering::Relaxed);
            if let (Some(fields), Some(filter)) = (frame.trailers_mut(), &this.trailers) {
                headers::clean_trailers(fields);
                filter.in_force.injector.strip(&filter.bindings, fields);
            }
        }
        if ended {
            this.traffic.up_done.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
