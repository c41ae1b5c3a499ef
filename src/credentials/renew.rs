//! Keeping a credential valid while the code runs: one mechanism for everything that ends before the sandbox does.
//!
//! A [`Keeper`] asks its issuer ahead of the end, once however many requests wait for it, and keeps the old value in use until
//! it really ends. Time comes from a [`Clock`], so that
//! tests move it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::types::Secret;

use super::issue::{IssueError, Issuer};
use super::source::Clock;

/// How long before its end a credential is renewed; of a shorter life than four times that, a quarter of it.
const MARGIN: Duration = Duration::from_secs(300);
/// The least time between two renewals, whatever the issuer says.
const LEAST: Duration = Duration::from_millis(250);
/// The first and the longest pause after an attempt that failed.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a request without a valid credential waits for an attempt that runs.
const PATIENCE: Duration = Duration::from_secs(10);
/// How far apart renewals are that refusals of the upstream cause: one that refuses everything must not make us ask for ever.
const BETWEEN_FORCED: Duration = Duration::from_secs(60);
/// The longest sleep without a look at the clock, which goes on while the machine is suspended and timers do not.
const NAP: Duration = Duration::from_secs(15);
/// Values before the one in use that are remembered, since an upstream may still send them back. One that is forgotten is masked no
/// more, so refusals, which the sandbox can cause, have no more values issued than are remembered.
const FORMER: usize = 128;

/// A value that was issued.
#[derive(Debug)]
pub struct Live {
    /// The value.
    pub secret: Secret,
    /// From when on it is of no use; `None` where it does not end.
    pub expires_at: Option<SystemTime>,
    /// How many values there were before it.
    pub generation: u64,
}

impl Live {
    fn is_valid(&self, now: SystemTime) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// Why there is no valid value. For the operator; a value is never in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Keeps one credential.
pub struct Keeper {
    name: String,
    issuer: Box<dyn Issuer>,
    clock: Clock,
    longest: Option<Duration>,
    state: Mutex<State>,
    /// Tells the renewing task that something has changed.
    wake: Notify,
    /// Changes with every attempt that ends.
    ended: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    live: Option<Arc<Live>>,
    former: Vec<Arc<Live>>,
    generations: u64,
    /// An attempt runs, or the renewing task has been told to make one.
    is_asking: bool,
    /// The upstream refused the value.
    is_forced: bool,
    last_forced: Option<SystemTime>,
    /// When it is to be renewed. `None`: not by the clock.
    due: Option<SystemTime>,
    /// Before this the issuer is not to be asked, by its own word.
    not_before: Option<SystemTime>,
    failures: u32,
    failure: Option<String>,
}

impl Keeper {
    /// A keeper without a value yet. The secret is called `name`.
    pub fn new(name: &str, issuer: Box<dyn Issuer>, clock: Clock) -> Self {
        let (state, wake, ended) = (Mutex::default(), Notify::new(), watch::Sender::new(()));
        Self { name: name.to_owned(), issuer, clock, longest: None, state, wake, ended }
    }

    /// The same, with a bound on how long one value is used, whatever its issuer says.
    pub fn with_longest(self, longest: Option<Duration>) -> Self {
        Self { longest, ..self }
    }

    /// The name of the secret.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gets the first value.
    ///
    /// # Errors
    /// The issuer's.
    pub async fn start(&self) -> Result<(), IssueError> {
        self.lock().is_asking = true;
        self.attempt().await
    }

    /// The value that is valid now. Waits only where there is none and an attempt to get one runs, up to 10 seconds.
    ///
    /// # Errors
    /// [`Unavailable`] with the issuer's last reason.
    pub async fn value(&self) -> Result<Arc<Live>, Unavailable> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let mut ended = self.ended.subscribe();
        if self.is_worth_waiting() {
            // Whether it has ended or took too long, the state says what there is.
            let _ = timeout(PATIENCE, ended.changed()).await;
        }
        // Also where an attempt ended just before it could be waited for.
        self.current().ok_or_else(|| self.unavailable())
    }

    /// An upstream has refused this value. It is renewed once for that, no more than once a minute, and not once 128 values have been
    /// in use; until then it stays in use.
    pub fn refused(&self, live: &Live) {
        let now = (self.clock)();
        let mut state = self.lock();
        let is_current = state.live.as_ref().is_some_and(|current| current.generation == live.generation);
        let is_too_soon = state.last_forced.is_some_and(|last| now < last + BETWEEN_FORCED)
            || state.not_before.is_some_and(|time| now < time);
        if is_current && !state.is_asking && !is_too_soon && state.former.len() < FORMER {
            state.last_forced = Some(now);
            state.is_forced = true;
            drop(state);
            self.wake.notify_one();
        }
    }

    /// The same, for one who can ask again: waits for the renewal, up to 10 seconds. Whether another value is in use then.
    pub async fn renewed(&self, live: &Live) -> bool {
        let mut ended = self.ended.subscribe();
        self.refused(live);
        let is_under_way = {
            let state = self.lock();
            state.is_asking || state.is_forced
        };
        if is_under_way {
            // Whether it has ended or took too long, the state says what there is.
            let _ = timeout(PATIENCE, ended.changed()).await;
        }
        self.current().is_some_and(|current| current.generation != live.generation)
    }

    /// Every value that the upstream may send back: the one in use, and the 128 before it.
    pub fn seen(&self) -> Vec<Arc<Live>> {
        let state = self.lock();
        state.live.iter().chain(&state.former).cloned().collect()
    }

    /// Renews it in time, for ever. One task runs this.
    pub async fn keep(&self) {
        loop {
            match self.until_due() {
                Some(Duration::ZERO) => {
                    self.lock().is_asking = true;
                    if let Err(error) = self.attempt().await {
                        tracing::warn!("secret {}: {error}", self.name);
                    }
                }
                Some(left) => {
                    // Whichever comes first; then the clock is asked again.
                    let _ = timeout(left.min(NAP), self.wake.notified()).await;
                }
                None => self.wake.notified().await,
            }
        }
    }

    fn current(&self) -> Option<Arc<Live>> {
        let now = (self.clock)();
        self.lock().live.clone().filter(|live| live.is_valid(now))
    }

    /// Whether an attempt runs or begins now: not after one that failed, until its pause is over.
    fn is_worth_waiting(&self) -> bool {
        let now = (self.clock)();
        let state = self.lock();
        let is_due = state.due.is_some_and(|due| due <= now);
        let worth = state.is_asking || is_due;
        drop(state);
        if worth {
            self.wake.notify_one();
        }
        worth
    }

    fn unavailable(&self) -> Unavailable {
        let failure = self.lock().failure.clone();
        Unavailable(failure.unwrap_or_else(|| "its renewal takes too long".to_owned()))
    }

    fn until_due(&self) -> Option<Duration> {
        let now = (self.clock)();
        let state = self.lock();
        if state.is_forced {
            return Some(Duration::ZERO);
        }
        state.due.map(|due| due.duration_since(now).unwrap_or_default())
    }

    /// Asks the issuer once.
    async fn attempt(&self) -> Result<(), IssueError> {
        let issued = self.issuer.issue().await;
        let now = (self.clock)();
        let mut state = self.lock();
        (state.is_asking, state.is_forced) = (false, false);
        let result = match issued {
            Ok(issued) => {
                state.failures = 0;
                (state.failure, state.not_before) = (None, None);
                let bound = self.longest.map(|longest| now + longest);
                let expires_at = issued.expires_at.into_iter().chain(bound).min();
                let life = expires_at.map(|end| end.duration_since(now).unwrap_or_default());
                state.due = life.map(|life| now + life.saturating_sub(margin(life)).max(LEAST));
                state.take(issued.secret, expires_at);
                Ok(())
            }
            Err(error) => {
                let wait = error.wait();
                state.not_before = wait.map(|wait| now + wait);
                let pause = pause(state.failures, state.live.as_deref(), now).max(wait.unwrap_or_default());
                state.failures += 1;
                state.failure = Some(error.to_string());
                // What does not end is renewed only when an upstream refuses it.
                let ends = state.live.as_ref().is_none_or(|live| live.expires_at.is_some());
                state.due = ends.then_some(now + pause);
                Err(error)
            }
        };
        drop(state);
        self.ended.send_replace(());
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// An issuer may give the same value once more, perhaps with a later end: that is no other generation, and nothing to remember
    /// beside it.
    fn take(&mut self, secret: Secret, expires_at: Option<SystemTime>) {
        if let Some(live) = self.live.as_ref().filter(|live| live.secret.expose() == secret.expose()) {
            self.live = Some(Arc::new(Live { secret, expires_at, generation: live.generation }));
            return;
        }
        let live = Arc::new(Live { secret, expires_at, generation: self.generations });
        self.generations += 1;
        if let Some(before) = self.live.replace(live) {
            self.former.insert(0, before);
            self.former.truncate(FORMER);
        }
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Keeper").field(&self.name).finish()
    }
}

/// How long before the end of a life of this length it is renewed. Up to a tenth earlier, so that many proxies do not ask at once.
fn margin(life: Duration) -> Duration {
    let margin = MARGIN.min(life / 4);
    margin + margin.mul_f64(random_part() / 10.0)
}

/// How long to wait after an attempt that failed: doubled each time, with up to a half less at random, and never so long that
/// nothing is tried while the value lives.
fn pause(failures: u32, live: Option<&Live>, now: SystemTime) -> Duration {
    let doubled = PAUSE.saturating_mul(2_u32.saturating_pow(failures.min(16))).min(LONGEST_PAUSE);
    let left = live.and_then(|live| live.expires_at).and_then(|end| end.duration_since(now).ok());
    let bounded = left.map_or(doubled, |left| doubled.min((left / 4).max(Duration::from_millis(50))));
    bounded.mul_f64(1.0 - random_part() / 2.0)
}

/// From 0 to 1.
fn random_part() -> f64 {
    let mut byte = [0];
    // Without randomness there is no jitter, and nothing else changes.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    f64::from(byte[0]) / 255.0
}

#[cfg(test)]
mod tests;
