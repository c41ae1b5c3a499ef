//! Holds a request body back: before the upstream has agreed to it, and once it has answered without it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Sleep;

/// How long a body waits for the upstream's `100 Continue` before it goes on all the same (RFC 9110 section 10.1.1).
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// What the response's side tells the body's.
#[derive(Clone)]
pub struct Brake(Arc<Mutex<State>>);

struct State {
    signal: Signal,
    patience: Option<Pin<Box<Sleep>>>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// `Expect: 100-continue`: not yet.
    Wait,
    /// On.
    Go,
    /// A final answer is on its way: nothing more goes. The body must not fail yet, since its failure ends the connection
    /// that the answer comes on.
    Stop,
    /// That answer has ended.
    Over,
}

/// The upstream answered instead of taking the body.
#[derive(Debug, thiserror::Error)]
#[error("the upstream did not want the body")]
pub struct Unwanted;

impl Brake {
    /// A brake that is off; on until the upstream agrees, or a second has passed, where `expect` is set.
    pub fn new(expect: bool) -> Self {
        let signal = if expect { Signal::Wait } else { Signal::Go };
        let patience = expect.then(|| Box::pin(tokio::time::sleep(CONTINUE_WAIT)));
        Self(Arc::new(Mutex::new(State { signal, patience, waker: None })))
    }

    /// The upstream has said 100.
    pub fn release(&self) {
        self.change(|signal| signal == Signal::Wait, Signal::Go);
    }

    /// The upstream has given its final answer. One that comes before the 100 takes its place; an error ends an upload
    /// that is under way (RFC 9112 section 9.5); any other answer may be one half of a talk.
    pub fn answered(&self, status: http::StatusCode) {
        let error = status.is_client_error() || status.is_server_error();
        self.change(|signal| signal == Signal::Wait || (signal == Signal::Go && error), Signal::Stop);
    }

    /// The answer has ended.
    pub fn over(&self) {
        self.change(|signal| signal == Signal::Stop, Signal::Over);
    }

    /// Ready when the body may go on.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<(), Unwanted>> {
        let mut state = self.lock();
        if let Some(patience) = &mut state.patience
            && patience.as_mut().poll(cx).is_ready()
        {
            state.patience = None;
            state.signal = if state.signal == Signal::Wait { Signal::Go } else { state.signal };
        }
        match state.signal {
            Signal::Go => Poll::Ready(Ok(())),
            Signal::Over => Poll::Ready(Err(Unwanted)),
            Signal::Wait | Signal::Stop => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn change(&self, from: impl FnOnce(Signal) -> bool, to: Signal) {
        let mut state = self.lock();
        if from(state.signal) {
            state.signal = to;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }

    /// Nothing here panics half-way, so a poisoned lock still holds a good state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Brake").field(&self.lock().signal).finish()
    }
}
