//! One row for every request, tunnel or refused connection: a bounded queue, one writer thread, JSON lines.
//!
//! The writer gathers rows for a few milliseconds, so that a request does not pay for waking it.
//!
//! A row's place in the queue is taken *before* a request goes on ([`Audit::open`]), and the row is written when the
//! [`Row`] is dropped, so nothing passes unrecorded, whatever ends it. At the bound, requests wait, then are refused. Room on
//! the disk is made ahead ([`AuditFile`]), so that a full one is noticed while what is under way can still be written.

mod file;
mod read;

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use http::Method;
use http::uri::PathAndQuery;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::mpsc;

pub use file::{AuditFile, Sink};
pub use read::{RecordedRow, RowError, Rows};

use crate::policy::Grant;
use crate::policy::learn::Learned;
use crate::types::{Authority, Destination, SandboxId, Scheme};

/// Rows that may be open or waiting to be written. Each is under 1 KiB but for its path.
const QUEUE: usize = 16 * 1024;
/// How long a request waits for a place before it is refused.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the writer gathers rows before it looks for more. At 20,000 requests a second that is 400 rows.
const GATHER: Duration = Duration::from_millis(20);
/// The longest text that a row takes over from the sandbox, in bytes.
const TEXT_MAX: usize = 2048;
/// The longest reason in the summary, in characters.
const REASON_MAX: usize = 300;
/// Different refusals that the summary remembers; further ones are counted only.
const SUMMARY_MAX: usize = 64;

/// What a row says. It is put into words by the writer, so that a request does not wait for that. Times are milliseconds;
/// `path` has no query; a secret's value never gets here.
#[derive(Clone, Debug, Serialize)]
pub struct AuditEvent {
    /// When the request came, RFC 3339 in UTC.
    #[serde(serialize_with = "rfc3339")]
    pub time: SystemTime,
    /// The sandbox's id; none where nobody could tell whose it was.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "cut_if_any")]
    pub sandbox: Option<SandboxId>,
    /// How the connection entered: `transparent`, `connect`, `absolute`.
    pub capture: &'static str,
    /// `https`, `http` or `tcp`.
    #[serde(serialize_with = "displayed")]
    pub scheme: Scheme,
    /// The HTTP version towards the sandbox.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub protocol: &'static str,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "cut_if_any")]
    pub method: Option<Method>,
    /// Host and port as judged; none where the request names none.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "cut_if_any")]
    pub authority: Option<Authority>,
    /// The path; its query is left out.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "path_only")]
    pub path: Option<PathAndQuery>,
    /// `permit` or `deny`.
    pub verdict: &'static str,
    /// The code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The reason of a refusal, for the operator: it may name an address.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "cut_if_any")]
    pub reason: Option<String>,
    /// What permitted it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "cut_if_any")]
    pub rule: Option<Grant>,
    /// The secrets, by name, that were put in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<String>,
    /// The address that was dialled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<SocketAddr>,
    /// The status that the sandbox got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of the request body that went on.
    pub bytes_up: u64,
    /// Bytes of the response body that came back.
    pub bytes_down: u64,
    /// Until the response head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_ms: Option<f64>,
    /// Until the end.
    pub total_ms: f64,
    /// The option of `run` that would permit it, for the summary.
    #[serde(skip)]
    pub cure: Option<String>,
}

impl AuditEvent {
    /// A row of which nothing more is known yet. Without a destination it is about a request to the explicit proxy.
    pub fn new(sandbox: Option<SandboxId>, capture: &'static str, destination: Option<&Destination>) -> Self {
        Self {
            time: SystemTime::now(),
            sandbox,
            capture,
            scheme: destination.map_or(Scheme::Http, |destination| destination.scheme),
            protocol: "",
            method: None,
            authority: destination.map(|destination| destination.authority.clone()),
            path: None,
            verdict: "permit",
            code: None,
            reason: None,
            rule: None,
            bindings: Vec::new(),
            upstream: None,
            status: None,
            bytes_up: 0,
            bytes_down: 0,
            head_ms: None,
            total_ms: 0.0,
            cure: None,
        }
    }

    /// Turns it into a refusal.
    pub fn deny(&mut self, code: &'static str, reason: String, cure: Option<String>) {
        self.verdict = "deny";
        self.code = Some(code);
        self.reason = Some(reason);
        self.cure = cure;
    }
}

/// The queue was full for five seconds, or the file can no longer be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the audit cannot take another row")]
pub struct AuditUnavailable;

/// Hands out rows.
#[derive(Clone)]
pub struct Audit {
    queue: mpsc::Sender<Box<AuditEvent>>,
    broken: Arc<AtomicBool>,
}

/// Counts of one row that the two directions of a request add to while it runs.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes of the request body.
    pub up: AtomicU64,
    /// The request body has gone on to its end.
    pub up_done: AtomicBool,
}

/// An open row. It is written when it is dropped.
pub struct Row {
    /// The counts of the request's direction.
    pub traffic: Arc<Traffic>,
    began: Instant,
    open: Option<(Box<AuditEvent>, mpsc::OwnedPermit<Box<AuditEvent>>)>,
}

/// The end of the audit: what was refused, and whether rows were lost.
#[derive(Debug, Default)]
pub struct Summary {
    /// Each different refusal, with how often it happened, in the order of its first time.
    pub refused: Vec<(Refused, u64)>,
    /// Refusals beyond the 64 different ones that are remembered.
    pub more: u64,
    /// What was used, where that is to be learned.
    pub learned: Option<Learned>,
    /// The error that ended the writing, if one did.
    pub error: Option<std::io::Error>,
}

/// A refusal as the summary tells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refused {
    /// The reason.
    pub reason: String,
    /// The option that would permit it.
    pub cure: Option<String>,
}

/// The thread that writes.
pub struct Writer {
    thread: JoinHandle<Summary>,
    /// Dropped to end the gathering.
    gather: std::sync::mpsc::Sender<()>,
}

/// Starts the writer. `sink` is the file of `--audit`, opened before the sandbox existed; `learn` has the summary say what
/// was used.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(sink: Option<Box<dyn Sink>>, learn: bool) -> std::io::Result<(Audit, Writer)> {
    let (queue, rows) = mpsc::channel(QUEUE);
    let (gather, ended) = std::sync::mpsc::channel();
    let broken = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&broken);
    let name = std::thread::Builder::new().name("audit".into());
    let summary = Summary { learned: learn.then(Learned::default), ..Summary::default() };
    let thread = name.spawn(move || write_rows(rows, sink, summary, (&flag, &ended)))?;
    Ok((Audit { queue, broken }, Writer { thread, gather }))
}

impl Writer {
    /// Waits until every row is written. Every [`Audit`] and every [`Row`] must be gone, or will be.
    pub fn finish(self) -> Summary {
        drop(self.gather);
        let lost = |_| Summary { error: Some(std::io::Error::other("the writer has panicked")), ..Summary::default() };
        self.thread.join().unwrap_or_else(lost)
    }
}

impl Audit {
    /// Takes a place for a row.
    ///
    /// # Errors
    /// [`AuditUnavailable`] when there is none within five seconds or the file cannot be written: the request must not
    /// go on.
    pub async fn open(&self, event: AuditEvent) -> Result<Row, AuditUnavailable> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(AuditUnavailable);
        }
        let place = match self.queue.clone().try_reserve_owned() {
            Ok(place) => place,
            Err(_) => match tokio::time::timeout(PATIENCE, self.queue.clone().reserve_owned()).await {
                Ok(Ok(place)) => place,
                Ok(Err(_)) | Err(_) => return Err(AuditUnavailable),
            },
        };
        Ok(Row { traffic: Arc::default(), began: Instant::now(), open: Some((Box::new(event), place)) })
    }
}

impl Row {
    /// What will be written.
    pub fn event(&mut self) -> &mut AuditEvent {
        &mut self.open.as_mut().expect("a row is open until it is dropped").0
    }

    /// Notes that the response head went out.
    pub fn head(&mut self, status: u16) {
        let elapsed = self.elapsed_ms();
        let event = self.event();
        event.status = Some(status);
        event.head_ms = Some(elapsed);
    }

    fn elapsed_ms(&self) -> f64 {
        (self.began.elapsed().as_micros() as f64) / 1000.0
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        let total_ms = self.elapsed_ms();
        if let Some((mut event, place)) = self.open.take() {
            event.total_ms = total_ms;
            event.bytes_up = self.traffic.up.load(Ordering::Relaxed);
            place.send(event);
        }
    }
}

fn rfc3339<S: Serializer>(time: &SystemTime, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&OffsetDateTime::from(*time).format(&Rfc3339).unwrap_or_default())
}

fn displayed<T: fmt::Display, S: Serializer>(value: &T, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(value)
}

fn cut_if_any<T: fmt::Display, S: Serializer>(value: &Option<T>, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&cut(&value.as_ref().map(T::to_string).unwrap_or_default()))
}

fn path_only<S: Serializer>(value: &Option<PathAndQuery>, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&cut(value.as_ref().map_or("", PathAndQuery::path)))
}

/// Text of the sandbox's, cut to 2 KiB at a character border. JSON escapes most control characters; DEL and the ones from
/// U+0080 on, which steer a terminal too, are replaced.
fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let shown = |c: char| if c >= '\u{7f}' && c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text[..end].chars().map(shown).collect()
}

fn write_rows(
    mut rows: mpsc::Receiver<Box<AuditEvent>>,
    sink: Option<Box<dyn Sink>>,
    mut summary: Summary,
    (broken, ended): (&AtomicBool, &std::sync::mpsc::Receiver<()>),
) -> Summary {
    let mut counts: HashMap<Refused, usize> = HashMap::new();
    let mut sink = sink.map(|file| std::io::BufWriter::with_capacity(64 * 1024, file));
    let mut batch = Vec::with_capacity(256);
    let give_up = |error, summary: &mut Summary| {
        broken.store(true, Ordering::Relaxed);
        summary.error.get_or_insert(error);
    };
    while rows.blocking_recv_many(&mut batch, 256) > 0 {
        for event in batch.drain(..) {
            summary.note(&event, &mut counts);
            if let Some(Err(error)) = sink.as_mut().map(|sink| write_row(sink, &event)) {
                give_up(error, &mut summary);
                sink = None;
            }
        }
        if let (true, Some(Err(error))) = (rows.is_empty(), sink.as_mut().map(Write::flush)) {
            give_up(error, &mut summary);
            sink = None;
        }
        // Rows that are under way are still written: the room that is left is for them.
        if let Some(Err(error)) = sink.as_mut().map(|sink| sink.get_mut().make_room()) {
            give_up(error, &mut summary);
        }
        if rows.is_empty() {
            // Comes back at once when the end has begun.
            let _ = ended.recv_timeout(GATHER);
        }
    }
    summary
}

fn write_row(sink: &mut impl Write, event: &AuditEvent) -> std::io::Result<()> {
    serde_json::to_writer(&mut *sink, event)?;
    sink.write_all(b"\n")
}

impl Summary {
    fn note(&mut self, event: &AuditEvent, counts: &mut HashMap<Refused, usize>) {
        if let (Some(learned), Some(authority), "permit") = (&mut self.learned, &event.authority, event.verdict) {
            let path = event.path.as_ref().map_or("", PathAndQuery::path);
            let request = event.method.as_ref().map(|method| (method.as_str(), path));
            learned.note(authority, event.scheme, request);
        }
        let Some(reason) = &event.reason else { return };
        let refused = Refused { reason: reason.chars().take(REASON_MAX).collect(), cure: event.cure.clone() };
        match counts.get(&refused) {
            Some(&at) => self.refused[at].1 += 1,
            None if self.refused.len() < SUMMARY_MAX => {
                counts.insert(refused.clone(), self.refused.len());
                self.refused.push((refused, 1));
            }
            None => self.more += 1,
        }
    }
}

#[cfg(test)]
mod tests;
