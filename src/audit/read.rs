//! Rows read back, for `policy replay`: what a policy could have decided of each.

use std::io::{self, BufRead, Read};
use std::net::SocketAddr;

use serde::Deserialize;

use crate::policy::{Before, Recorded};
use crate::types::{Authority, Destination, Host, HostError, Scheme};

use super::TEXT_MAX;

/// The longest row that is read, in bytes: every text at its longest, each character of it escaped, fits.
const ROW_MAX: u64 = 256 * 1024;

/// A row of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedRow {
    /// A policy decided it.
    Decided(Box<Recorded>),
    /// No policy was asked about it, as it was malformed, say.
    Undecided,
}

/// Why a line is no row of an audit.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
    /// Over 256 KiB.
    #[error("it is longer than 256 KiB")]
    Length,
    /// No JSON object with the fields of a row. A line that was cut off is none either.
    #[error("{0}")]
    Json(serde_json::Error),
    /// An authority that is none.
    #[error("its authority is none: {0}")]
    Authority(HostError),
}

/// The rows of a record, one after the other: no more than one of them is in memory.
pub struct Rows<R> {
    input: R,
    line: Vec<u8>,
}

impl<R: BufRead> Rows<R> {
    /// The rows of `input`.
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new() }
    }
}

impl<R: BufRead> Iterator for Rows<R> {
    type Item = Result<RecordedRow, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line.clear();
        let read = self.input.by_ref().take(ROW_MAX + 1).read_until(b'\n', &mut self.line);
        match read {
            Err(error) => Some(Err(RowError::Io(error))),
            Ok(0) => None,
            Ok(length) if length as u64 > ROW_MAX => Some(Err(RowError::Length)),
            Ok(_) => Some(parse(&self.line)),
        }
    }
}

/// What is read of a row; it has more.
#[derive(Deserialize)]
struct Row {
    #[serde(rename = "time")]
    _time: String,
    #[serde(rename = "sandbox")]
    _sandbox: Option<String>,
    #[serde(rename = "capture")]
    _capture: String,
    scheme: RowScheme,
    method: Option<String>,
    authority: Option<String>,
    path: Option<String>,
    verdict: Verdict,
    code: Option<String>,
    rule: Option<String>,
    upstream: Option<SocketAddr>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RowScheme {
    Https,
    Http,
    Tcp,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Permit,
    Deny,
}

fn parse(line: &[u8]) -> Result<RecordedRow, RowError> {
    let row: Row = serde_json::from_slice(line).map_err(RowError::Json)?;
    let Some(authority) = &row.authority else { return Ok(RecordedRow::Undecided) };
    let authority = Authority::parse(authority, 443).map_err(RowError::Authority)?;
    let Some(before) = before(&row) else { return Ok(RecordedRow::Undecided) };
    let upstream = row.upstream.map(|address| address.ip());
    let dialled = match (&authority.host, &before) {
        (Host::Ip(ip), _) => Some(*ip),
        (Host::Name(_), Before::Permitted { by_egress: true }) => upstream,
        (Host::Name(_), Before::Permitted { by_egress: false } | Before::Denied(_)) => None,
    };
    let scheme = match row.scheme {
        RowScheme::Https => Scheme::Https,
        RowScheme::Http => Scheme::Http,
        RowScheme::Tcp => Scheme::Tcp,
    };
    // A cut is made at the border of a character, and a character that is not shown is replaced.
    let whole = |path: &String| path.len() < TEXT_MAX - 3 && !path.contains(char::REPLACEMENT_CHARACTER);
    let path_is_cut = row.path.as_ref().is_some_and(|path| !whole(path));
    let path = row.path.filter(whole);
    let destination = Destination { authority, scheme, dialled };
    let recorded = Recorded { destination, method: row.method, path, path_is_cut, upstream, before };
    Ok(RecordedRow::Decided(Box::new(recorded)))
}

/// What the policy said; none where it was not asked. What failed behind the policy was permitted.
fn before(row: &Row) -> Option<Before> {
    let by_egress = row.rule.as_ref().is_some_and(|rule| rule.starts_with("egress "));
    match (row.verdict, row.code.as_deref()) {
        (Verdict::Permit, _) => Some(Before::Permitted { by_egress }),
        (Verdict::Deny, Some("malformed_request" | "misdirected" | "audit_unavailable") | None) => None,
        (Verdict::Deny, Some(code)) if code.starts_with("upstream_") || code == "credential_unavailable" => {
            row.rule.is_some().then_some(Before::Permitted { by_egress })
        }
        (Verdict::Deny, Some(code)) => Some(Before::Denied(code.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditEvent;
    use crate::policy::Grant;
    use crate::types::SandboxId;

    fn event(authority: &str) -> AuditEvent {
        let authority = Authority::parse(authority, 443).unwrap();
        let destination = Destination { authority, scheme: Scheme::Https, dialled: None };
        AuditEvent::new(Some(SandboxId::from_bits(1)), "connect", Some(&destination))
    }

    fn read(event: &AuditEvent) -> RecordedRow {
        let line = serde_json::to_vec(event).unwrap();
        let mut rows = Rows::new(&line[..]);
        let row = rows.next().unwrap().unwrap();
        assert!(rows.next().is_none());
        row
    }

    fn recorded(event: &AuditEvent) -> Recorded {
        match read(event) {
            RecordedRow::Decided(recorded) => *recorded,
            RecordedRow::Undecided => panic!("a policy decided {event:?}"),
        }
    }

    /// What the writer writes is read as what it was.
    #[test]
    fn a_row_is_read_back() {
        let mut row = event("a.test:8443");
        row.method = Some(http::Method::POST);
        row.path = Some("/v1/x?key=v".parse().unwrap());
        row.upstream = Some("11.22.33.9:8443".parse().unwrap());
        row.rule = Some(Grant::Egress { entry: "11.22.33.0/24".to_owned() });
        let ip = "11.22.33.9".parse().ok();
        let authority = Authority::parse("a.test:8443", 443).unwrap();
        let want = Recorded {
            destination: Destination { authority, scheme: Scheme::Https, dialled: ip },
            method: Some("POST".to_owned()),
            path: Some("/v1/x".to_owned()),
            path_is_cut: false,
            upstream: ip,
            before: Before::Permitted { by_egress: true },
        };
        assert_eq!(recorded(&row), want);
        row.rule = Some(Grant::NetworkAll);
        row.deny("upstream_unreachable", "no".to_owned(), None);
        let failed = recorded(&row);
        assert_eq!((failed.before, failed.destination.dialled), (Before::Permitted { by_egress: false }, None));
        row.deny("address_blocked", "no".to_owned(), None);
        assert_eq!(recorded(&row).before, Before::Denied("address_blocked".to_owned()));
        assert_eq!(recorded(&event("10.0.0.1")).destination.dialled, "10.0.0.1".parse().ok());
    }

    #[test]
    fn a_path_that_was_cut_is_known_as_such() {
        let mut row = event("a.test");
        row.path = Some(format!("/{}", "x".repeat(3000)).parse().unwrap());
        let cut = recorded(&row);
        assert_eq!((cut.path, cut.path_is_cut), (None, true));
    }

    #[test]
    fn what_no_policy_decided_is_told_apart() {
        for code in ["malformed_request", "misdirected", "audit_unavailable"] {
            let mut row = event("a.test");
            row.deny(code, "no".to_owned(), None);
            assert_eq!(read(&row), RecordedRow::Undecided, "{code}");
        }
        let without = AuditEvent::new(Some(SandboxId::from_bits(1)), "connect", None);
        assert_eq!(read(&without), RecordedRow::Undecided);
    }

    #[test]
    fn what_is_no_row_is_an_error() {
        let error = |line: &str| Rows::new(line.as_bytes()).next().unwrap().unwrap_err().to_string();
        assert!(error("\n").contains("EOF"), "{}", error("\n"));
        assert!(error("{}\n").contains("missing field `time`"), "{}", error("{}\n"));
        assert!(error("no\n").contains("expected ident"), "{}", error("no\n"));
        let row = String::from_utf8(serde_json::to_vec(&event("a.test")).unwrap()).unwrap();
        assert!(error(&row[..row.len() - 1]).contains("EOF"));
        assert!(error(&row.replace("\"permit\"", "\"allow\"")).contains("unknown variant `allow`"));
        assert!(error(&row.replace("a.test", "a b")).starts_with("its authority is none: ' '"));
        assert_eq!(error(&" ".repeat(300 * 1024)), "it is longer than 256 KiB");
    }
}
