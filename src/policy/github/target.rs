//! The target of a request, taken apart without a second reading of it: what can be read in two ways is refused
//! (github-scope.md, section 0.2).

use std::borrow::Cow;

use super::denial::{Code, OutOfScope};
use super::known::Known;
use super::name::RepoName;
use super::route::Subject;

/// The longest target, in bytes.
pub const MAX_TARGET: usize = 16 * 1024;

/// The most segments of a path.
pub const MAX_SEGMENTS: usize = 64;

/// A target in origin form, without anything ambiguous. Nothing in it is decoded.
pub(super) struct Target<'a> {
    segments: [&'a str; MAX_SEGMENTS],
    count: usize,
    /// Whether the path ended in a slash that made no segment.
    pub slash: bool,
    /// What stands after the question mark.
    pub query: Query<'a>,
    /// One bit for each segment that escapes a character which nobody has to escape.
    odd: u64,
}

/// What stands after the question mark of a target.
#[derive(Clone, Copy)]
pub(super) struct Query<'a>(pub &'a str);

pub(super) fn malformed(message: impl Into<String>) -> OutOfScope {
    OutOfScope::new(Code::Malformed, message)
}

impl<'a> Target<'a> {
    /// Reads a target as the request line has it.
    ///
    /// # Errors
    /// [`Code::Malformed`], for all that section 0.2 names.
    pub fn parse(target: &'a str) -> Result<Self, OutOfScope> {
        Self::legal(target)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let inside = path.strip_prefix('/').ok_or_else(|| malformed("the target is no path"))?;
        let mut parsed = Self { segments: [""; MAX_SEGMENTS], count: 0, slash: false, query: Query(query), odd: 0 };
        if !inside.is_empty() {
            parsed.slash = inside.ends_with('/');
            for segment in inside.strip_suffix('/').unwrap_or(inside).split('/') {
                parsed.push(segment)?;
            }
        }
        parsed.query.refuse_credentials()?;
        Ok(parsed)
    }

    /// Refuses bytes and escapes that no target may have, and one that is too long.
    pub fn legal(target: &str) -> Result<(), OutOfScope> {
        if target.len() > MAX_TARGET {
            return Err(malformed(format!("the URL is longer than {MAX_TARGET} bytes")));
        }
        legal(target)
    }

    fn push(&mut self, segment: &'a str) -> Result<(), OutOfScope> {
        if segment.is_empty() {
            return Err(malformed("the path has an empty segment"));
        }
        if self.count == MAX_SEGMENTS {
            return Err(malformed(format!("the path has more than {MAX_SEGMENTS} segments")));
        }
        if segment.starts_with(['.', ';']) || segment.contains('%') {
            self.odd |= u64::from(inspect(segment)?) << self.count;
        }
        self.segments[self.count] = segment;
        self.count += 1;
        Ok(())
    }

    /// The parts between the slashes, as they were written.
    pub fn segments(&self) -> &[&'a str] {
        &self.segments[..self.count]
    }

    /// Refuses a path in which a segment from `first` on is not in its plainest spelling: fixed words of the tables could hide in it.
    pub fn plain_from(&self, first: usize) -> Result<(), OutOfScope> {
        match self.odd.checked_shr(u32::try_from(first).unwrap_or(u32::MAX)) {
            None | Some(0) => Ok(()),
            Some(_) => Err(malformed("the path escapes characters that need no escape")),
        }
    }
}

/// Bytes and escapes that no target may have.
fn legal(text: &str) -> Result<(), OutOfScope> {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            0..=0x20 | 0x7f.. => return Err(malformed("the URL has a byte that has to be escaped")),
            b'#' | b'\\' => return Err(malformed("the URL has a `#` or a backslash")),
            b'%' => {
                let escaped = bytes.get(at + 1..at + 3).and_then(unescape);
                match escaped {
                    None => return Err(malformed("the URL has a `%` without two digits")),
                    Some(0 | b'\n' | b'\r') => return Err(malformed("the URL escapes NUL or a line break")),
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses what is or becomes a dot segment, and a segment that is escaped twice. Says whether it escapes what needs none.
fn inspect(segment: &str) -> Result<bool, OutOfScope> {
    let decoded = decode(segment);
    let decoded = String::from_utf8_lossy(&decoded);
    if decoded.contains('\\') {
        return Err(malformed("the path has a backslash"));
    }
    for part in decoded.split('/') {
        let end = part.find([';', '?', '#']).unwrap_or(part.len());
        if matches!(&part[..end], "." | "..") {
            return Err(malformed("the path has a dot segment"));
        }
        // To a server that takes parameters out of paths it is empty.
        if part.starts_with(';') {
            return Err(malformed("a segment of the path begins with a semicolon"));
        }
    }
    let again = |at: usize| decoded.as_bytes().get(at + 1..at + 3).and_then(unescape).is_some();
    if decoded.match_indices('%').any(|(at, _)| again(at)) {
        return Err(malformed("the path is escaped twice"));
    }
    let needless = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let escapes = segment.match_indices('%').filter_map(|(at, _)| segment.as_bytes().get(at + 1..at + 3));
    Ok(escapes.filter_map(unescape).any(needless))
}

fn unescape(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    match digits {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

fn decode(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = if *first == b'%' { tail.get(..2).and_then(unescape) } else { None };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    Cow::Owned(bytes)
}

/// A segment, or several of them, as the text that it stands for.
pub(super) fn text(segment: &str) -> Result<String, OutOfScope> {
    String::from_utf8(decode(segment).into_owned()).map_err(|_| malformed("the path is not UTF-8"))
}

/// The repository that two segments of a path name.
pub(super) fn repo_name(owner: &str, name: &str) -> Result<RepoName, OutOfScope> {
    decoded_repo_name(&text(owner)?, &text(name)?)
}

/// The repository of this owner and name.
pub(super) fn decoded_repo_name(owner: &str, name: &str) -> Result<RepoName, OutOfScope> {
    let name = RepoName::new(owner, name).map_err(|error| malformed(error.to_string()))?;
    // Whether GitHub takes such an end away depends on the host.
    if name.name().ends_with(".git") {
        return Err(malformed("write the repository without `.git`"));
    }
    Ok(name)
}

/// Whether a repository is the binding's.
pub(super) fn member(name: RepoName, known: &dyn Known, all: bool) -> Result<Subject, OutOfScope> {
    let record = known.repository(&name).record(&name, all)?;
    Ok(record.map_or(Subject::Name(name), Subject::Pinned))
}

/// A number in the one spelling that it has.
pub(super) fn number(segment: &str) -> Option<u64> {
    let plain = !segment.starts_with('0') && segment.bytes().all(|byte| byte.is_ascii_digit());
    if plain { segment.parse().ok() } else { None }
}

impl<'a> Query<'a> {
    /// The parameters, neither part decoded. A server may end one at a semicolon, too.
    fn names(self) -> impl Iterator<Item = Cow<'a, str>> {
        self.0.split(['&', ';']).map(|pair| base(pair.split('=').next().unwrap_or_default()))
    }

    /// Refuses parameters that are credentials, or change the method.
    fn refuse_credentials(self) -> Result<(), OutOfScope> {
        if self.0.is_empty() {
            return Ok(());
        }
        for name in self.names() {
            if let Some(name) = CLOSED.iter().find(|closed| name.eq_ignore_ascii_case(closed)) {
                return Err(malformed(format!("the query has `{name}`")));
            }
        }
        Ok(())
    }

    /// Whether it has a parameter of this name, in any spelling.
    pub fn has(self, name: &str) -> bool {
        self.names().any(|found| found.eq_ignore_ascii_case(name))
    }

    /// The value of a parameter on which a check depends.
    ///
    /// # Errors
    /// [`Code::Malformed`] where it is there twice, in an odd spelling, or is not text.
    pub fn only(self, name: &str) -> Result<Option<String>, OutOfScope> {
        if self.0.contains(';') {
            return Err(malformed("the query has a `;` that is not escaped"));
        }
        if self.names().filter(|found| found.eq_ignore_ascii_case(name)).count() > 1 {
            return Err(malformed(format!("the query has `{name}` more than once")));
        }
        if !self.has(name) {
            return Ok(None);
        }
        let exact = self.0.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let raw = exact.ok_or_else(|| malformed(format!("the query has `{name}` in an odd spelling")))?;
        let bytes = decode(&raw.replace('+', " ")).into_owned();
        String::from_utf8(bytes).map(Some).map_err(|_| malformed("the query is not UTF-8"))
    }
}

/// Whether a body that a server may read as a form has a field which changes the method.
pub(super) fn overrides_method(form: &str) -> bool {
    Query(form).names().any(|name| name.eq_ignore_ascii_case("_method"))
}

/// The name of a parameter as Rack makes it: decoded, without what is in brackets, without spaces in front.
fn base(raw: &str) -> Cow<'_, str> {
    let spaced = raw.contains(['%', '+', '[', ']', ' ', '\t', '\n', '\r']);
    if !spaced {
        return Cow::Borrowed(raw);
    }
    let decoded = String::from_utf8_lossy(&decode(&raw.replace('+', " "))).into_owned();
    let start = decoded.trim_start_matches(['[', ']', ' ', '\t', '\n', '\r']);
    Cow::Owned(start.split(['[', ']', '\0']).next().unwrap_or_default().trim_end().to_owned())
}

const CLOSED: [&str; 4] = ["access_token", "client_id", "client_secret", "_method"];
