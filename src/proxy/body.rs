//! Bodies on their way through: counted, never buffered.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::Sleep;

use crate::audit::{Row, Traffic};
use crate::sandboxes::Sandbox;

use super::headers;
use super::pool::Lease;

/// How long a body waits for the upstream's `100 Continue` before it goes on all the same (RFC 9110 section 10.1.1).
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

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
}

/// What goes to the upstream: the sandbox's request body, counted.
pub struct RequestBody {
    inner: Option<Incoming>,
    traffic: Arc<Traffic>,
    trailers: Option<TrailerFilter>,
    gate: Option<Gate>,
}

/// Takes out of a request's trailers what the proxy sets itself, and what belongs to one hop.
pub struct TrailerFilter {
    /// Whose injector knows the headers.
    pub sandbox: Arc<Sandbox>,
    /// The bindings that apply.
    pub bindings: Vec<usize>,
}

/// Holds a body back until the upstream wants it.
enum Gate {
    /// Nothing heard yet.
    Asked { verdict: oneshot::Receiver<Expected>, patience: Pin<Box<Sleep>> },
    /// A final answer is on its way instead; the body fails when that has ended.
    Declined { answered: oneshot::Receiver<()> },
}

/// What the upstream says to `Expect: 100-continue`.
enum Expected {
    /// 100.
    Send,
    /// A final answer: the body never goes. It must not fail before that answer has ended, since its failure ends the
    /// connection that the answer comes on.
    Withhold(oneshot::Receiver<()>),
}

/// The other end of a gate. Dropped, the body fails if it is still held back.
#[derive(Clone)]
pub struct GateKeeper(Arc<Mutex<Option<oneshot::Sender<Expected>>>>);

/// Why a request body ends early.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The sandbox's side broke off.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// The upstream answered instead of asking for it.
    #[error("the upstream did not want the body")]
    Unwanted,
}

impl ProxyBody {
    /// A body made here.
    pub fn full(bytes: Bytes) -> Self {
        Self::Full(Full::new(bytes))
    }

    /// An upstream's body.
    pub fn relayed(inner: Incoming, lease: Lease, row: Row) -> Self {
        let mut relayed = Relayed { inner, lease: Some(lease), row };
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
        Self { inner: Some(inner), traffic, trailers: Some(trailers), gate: None }
    }

    /// No body, for a request that is sent once more.
    pub fn none(traffic: Arc<Traffic>) -> Self {
        Self { inner: None, traffic, trailers: None, gate: None }
    }

    /// Holds the body back until the keeper opens the gate, or a second has passed.
    pub fn gated(mut self) -> (Self, GateKeeper) {
        let (sender, verdict) = oneshot::channel();
        self.gate = Some(Gate::Asked { verdict, patience: Box::pin(tokio::time::sleep(CONTINUE_WAIT)) });
        (self, GateKeeper(Arc::new(Mutex::new(Some(sender)))))
    }
}

impl Gate {
    /// Ready when the body may go, or never will.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        loop {
            match self {
                Self::Asked { verdict, patience } => match Pin::new(verdict).poll(cx) {
                    Poll::Ready(Ok(Expected::Send)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Ok(Expected::Withhold(answered))) => *self = Self::Declined { answered },
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(BodyError::Unwanted)),
                    Poll::Pending => return patience.as_mut().poll(cx).map(Ok),
                },
                Self::Declined { answered } => {
                    return Pin::new(answered).poll(cx).map(|_| Err(BodyError::Unwanted));
                }
            }
        }
    }
}

impl GateKeeper {
    /// The upstream has said 100.
    pub fn open(&self) {
        self.decide(Expected::Send);
    }

    /// The upstream has given its final answer, which lasts as long as what this returns.
    pub fn decline(&self) -> oneshot::Sender<()> {
        let (answering, answered) = oneshot::channel();
        self.decide(Expected::Withhold(answered));
        answering
    }

    /// A gate is opened or shut once: a body that has begun to go is not called back.
    fn decide(&self, verdict: Expected) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The body is gone when the request is: nobody needs to be told.
            let _ = sender.send(verdict);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(gate) = &mut this.gate {
            if let Err(unwanted) = ready!(gate.poll(cx)) {
                return Poll::Ready(Some(Err(unwanted)));
            }
            this.gate = None;
        }
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        let mut frame = ready!(Pin::new(&mut *inner).poll_frame(cx));
        let ended = frame.is_none() || inner.is_end_stream();
        if let Some(Ok(frame)) = &mut frame {
            let len = frame.data_ref().map_or(0, Bytes::len) as u64;
            this.traffic.up.fetch_add(len, Ordering::Relaxed);
            if let (Some(fields), Some(filter)) = (frame.trailers_mut(), &this.trailers) {
                headers::strip_hop_by_hop(fields);
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
