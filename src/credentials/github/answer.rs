//! Calls of GitHub's REST API, and what all of its answers have in common.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use memchr::memmem;
use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

use crate::types::Authority;

use super::super::fetch::{Answer, Call};
use super::super::issue::IssueError;
use super::super::issuers::meaning;
use super::GitHubError;

const VERSION: HeaderName = HeaderName::from_static("x-github-api-version");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// How long to wait where a limit names no time.
const PAUSE: Duration = Duration::from_secs(60);
/// The longest wait that is believed: the limits are by the hour.
const LONGEST: Duration = Duration::from_secs(3600);
/// How far a clock may be off to be corrected, in seconds.
const OFF_MAX: i64 = 24 * 60 * 60;

/// The call as the API wants it: it refuses whoever does not name itself.
pub(super) fn documented(mut call: Call) -> Call {
    call.headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
    call.headers.insert(VERSION, HeaderValue::from_static("2022-11-28"));
    call.headers.insert(USER_AGENT, HeaderValue::from_static("sandbox-proxy"));
    if !call.body.is_empty() {
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    call
}

/// Why an answer is no success, where that is the same for all calls. `subject` is what was asked for.
pub(super) fn failed(answer: &Answer, from: Authority, subject: &str, now: SystemTime) -> IssueError {
    let status = answer.status.as_u16();
    let says = |text: &str| memmem::find(&answer.body, text.as_bytes()).is_some();
    let error = match status {
        300..=399 => GitHubError::Moved(subject.to_owned()),
        403 | 429 => match wait(answer, now) {
            Some(wait) => GitHubError::Limited(wait),
            None if says("suspended") => GitHubError::Suspended,
            None => return IssueError::Status { from, status, means: meaning(answer.status) },
        },
        _ => return IssueError::Status { from, status, means: meaning(answer.status) },
    };
    IssueError::GitHub { from, error }
}

/// How long a limit holds, where there is one.
fn wait(answer: &Answer, now: SystemTime) -> Option<Duration> {
    let header = |name: HeaderName| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let until = |at: SystemTime| at.duration_since(now).unwrap_or_default();
    let after = header(RETRY_AFTER).and_then(|text| match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => date(text).map(until),
    });
    let reset = || header(RESET)?.parse().ok().map(Duration::from_secs);
    let spent =
        || header(REMAINING).filter(|left| *left == "0").map(|_| reset().map(|at| until(SystemTime::UNIX_EPOCH + at)));
    let named = || memmem::find(&answer.body, b"rate limit").is_some().then_some(None);
    let unsaid = || (answer.status.as_u16() == 429).then_some(None);
    let told = after.map(Some).or_else(spent).or_else(named).or_else(unsaid)?;
    Some(told.unwrap_or(PAUSE).clamp(Duration::from_secs(1), LONGEST))
}

/// How many seconds the clock of whoever answered is ahead of ours; `None` where that is not said, or more than a day.
pub(super) fn ahead(headers: &HeaderMap, now: SystemTime) -> Option<i64> {
    let theirs = date(headers.get(DATE)?.to_str().ok()?)?;
    let ahead = (OffsetDateTime::from(theirs) - OffsetDateTime::from(now)).whole_seconds();
    (ahead.abs() <= OFF_MAX).then_some(ahead)
}

/// The time that is so many seconds ahead, or behind.
pub(super) fn shifted(time: SystemTime, ahead: i64) -> SystemTime {
    let by = Duration::from_secs(ahead.unsigned_abs());
    if ahead < 0 { time - by } else { time + by }
}

/// A time as the API writes it.
pub(super) fn time(text: &str) -> Option<SystemTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok().map(SystemTime::from)
}

/// A date as a header has it (RFC 9110 section 5.6.7).
fn date(text: &str) -> Option<SystemTime> {
    OffsetDateTime::parse(text, &Rfc2822).ok().map(SystemTime::from)
}

/// What is asked for: never nothing, which would mean all that the App may do.
pub(super) fn wanted(permissions: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut wanted = permissions.clone();
    wanted.entry("metadata".to_owned()).or_insert_with(|| "read".to_owned());
    wanted
}

/// Whether nothing is granted beyond what was wanted.
pub(super) fn within(granted: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    let rank = |level: &str| ["read", "write", "admin"].iter().position(|known| *known == level);
    granted.iter().all(|(name, level)| {
        let most = wanted.get(name).and_then(|most| rank(most));
        rank(level).is_some_and(|level| most.is_some_and(|most| level <= most))
    })
}

/// `contents:write issues:read`.
pub(super) fn listed(permissions: &BTreeMap<String, String>) -> String {
    permissions.iter().map(|(name, level)| format!("{name}:{level}")).collect::<Vec<_>>().join(" ")
}
