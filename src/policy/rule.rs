//! One rule: which requests it is for, and what it says about them.

use std::sync::Arc;

use crate::types::Scheme;

use super::glob::PathGlob;
use super::mistake::Place;
use super::pattern::HostPattern;

/// A rule of `network.rules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(super) place: Place,
    pub(super) action: Action,
    pub(super) host: HostPattern,
    pub(super) schemes: Schemes,
    pub(super) ports: Ports,
    /// None is every method.
    pub(super) methods: Option<Vec<String>>,
    /// None is every path, and `*`, which is none.
    pub(super) paths: Option<Vec<PathGlob>>,
    pub(super) reason: Option<Arc<str>>,
    /// Its host is an address that may be dialled on its ports although it is blocked.
    pub(super) opens_address: bool,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The request may pass, unless another rule denies it.
    Allow,
    /// The request may not pass, whatever permits it.
    Deny,
}

/// The schemes of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schemes {
    /// `any`, and what a deny rule without `scheme` is for.
    Any,
    /// This one.
    Only(Scheme),
}

impl Action {
    /// The action as rules spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// The ports of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// `all`, and what a deny rule without `ports` is for.
    All,
    /// These, sorted; never none.
    Of(Vec<u16>),
}

/// What of a rule is not so for a request to one of its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    Scheme,
    Port,
    Path,
    Method,
}

/// How a rule stands to a request to one of its hosts, as `policy explain` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleState {
    /// It applies.
    Applies,
    /// It is for another scheme.
    OtherScheme,
    /// It is for other ports.
    OtherPort,
    /// It is for other paths.
    OtherPath,
    /// It looks at the path, which can be read in two ways.
    AmbiguousPath,
    /// It is for other methods.
    OtherMethod,
}

/// A request to a host of a rule, as rules look at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) scheme: Scheme,
    pub(super) port: u16,
    pub(super) method: &'a str,
    /// None for what is no path, and where no rule looks at it.
    pub(super) segments: Option<&'a [&'a str]>,
}

/// Why a text is none for a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RuleError {
    #[error("it is no method; write one such as GET or POST")]
    Method,
    #[error(
        "CONNECT asks for a connection, which the rules for its host judge; name the methods that are used inside it"
    )]
    Connect,
    #[error("TRACE is refused everywhere, so no rule is asked about it; take it out")]
    Trace,
    #[error("the reason is longer than 200 characters; shorten it")]
    ReasonLength,
    #[error("the reason holds a character that is not shown; write plain text")]
    ReasonCharacter,
}

impl Rule {
    /// Where it was written.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What it says.
    pub fn action(&self) -> Action {
        self.action
    }

    /// The hosts it is for.
    pub fn host(&self) -> &HostPattern {
        &self.host
    }

    /// What it tells the one whose request it refuses.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Whether it looks at a destination only, not at requests.
    pub(super) fn is_whole(&self) -> bool {
        self.methods.is_none() && self.paths.is_none()
    }

    /// Whether it permits something by this scheme.
    pub(super) fn opens(&self, scheme: Scheme) -> bool {
        self.action == Action::Allow && self.schemes.contains(scheme)
    }

    /// Whether it denies whatever is asked for by this scheme.
    pub(super) fn closes(&self, scheme: Scheme) -> bool {
        self.action == Action::Deny && self.is_whole() && self.schemes.contains(scheme)
    }

    /// The first thing about it that is not so for a request to one of its hosts; none when it applies. Servers differ in
    /// whether `get` is GET, so a deny rule takes it for that, and an allow rule does not.
    pub(super) fn miss(&self, asked: &Asked<'_>) -> Option<Miss> {
        let same = |method: &String| match self.action {
            Action::Allow => method == asked.method,
            Action::Deny => method.eq_ignore_ascii_case(asked.method),
        };
        let leads = |glob: &PathGlob| asked.segments.is_some_and(|segments| glob.matches(segments));
        if !self.schemes.contains(asked.scheme) {
            Some(Miss::Scheme)
        } else if !self.ports.contains(asked.port) {
            Some(Miss::Port)
        } else if self.paths.as_ref().is_some_and(|globs| !globs.iter().any(leads)) {
            Some(Miss::Path)
        } else if self.methods.as_ref().is_some_and(|methods| !methods.iter().any(same)) {
            Some(Miss::Method)
        } else {
            None
        }
    }

    /// Whether it looks at https requests, some of which are for `other`'s hosts and ports.
    pub(super) fn looks_into(&self, other: &Self) -> bool {
        !self.is_whole()
            && self.schemes.contains(Scheme::Https)
            && (self.host.covers(&other.host) || other.host.covers(&self.host))
            && self.ports.meet(&other.ports)
    }

    /// Whether every request that `other` is for is one that this is for, too. It may say no where several of its parts
    /// together would cover one of `other`'s.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let same = |one: &String, two: &String| match self.action {
            Action::Allow => one == two,
            Action::Deny => one.eq_ignore_ascii_case(two),
        };
        let opens = self.action == Action::Deny || self.opens_address || !other.opens_address;
        opens
            && self.host.covers(&other.host)
            && self.schemes.covers(other.schemes)
            && self.ports.covers(&other.ports)
            && covers_all(self.methods.as_deref(), other.methods.as_deref(), same)
            && covers_all(self.paths.as_deref(), other.paths.as_deref(), PathGlob::covers)
    }
}

/// None is everything.
fn covers_all<T>(mine: Option<&[T]>, others: Option<&[T]>, covers: impl Fn(&T, &T) -> bool) -> bool {
    match (mine, others) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(mine), Some(others)) => others.iter().all(|other| mine.iter().any(|one| covers(one, other))),
    }
}

impl Schemes {
    pub(super) fn contains(self, scheme: Scheme) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == scheme,
        }
    }

    /// Each of them.
    pub(super) fn each(self) -> impl Iterator<Item = Scheme> {
        [Scheme::Https, Scheme::Http, Scheme::Tcp].into_iter().filter(move |scheme| self.contains(*scheme))
    }

    pub(super) fn covers(self, other: Self) -> bool {
        self == Self::Any || self == other
    }
}

impl Ports {
    pub(super) fn contains(&self, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Of(ports) => ports.contains(&port),
        }
    }

    /// All there are; none for every port.
    pub(super) fn listed(&self) -> Option<&[u16]> {
        match self {
            Self::All => None,
            Self::Of(ports) => Some(ports),
        }
    }

    fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => true,
            (Self::Of(ports), Self::Of(others)) => ports.iter().any(|port| others.contains(port)),
        }
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        covers_all(self.listed(), other.listed(), u16::eq)
    }
}

/// A method as RFC 9110 section 9.1 has it: a token, compared as it is written.
pub(super) fn check_method(text: &str) -> Result<(), RuleError> {
    match text.to_ascii_uppercase().as_str() {
        "CONNECT" => Err(RuleError::Connect),
        "TRACE" => Err(RuleError::Trace),
        _ => http::Method::from_bytes(text.as_bytes()).map(drop).map_err(|_| RuleError::Method),
    }
}

/// At most 200 characters, none of which would end a line, steer a terminal or turn the direction of the text.
pub(super) fn check_reason(text: &str) -> Result<(), RuleError> {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    if text.chars().any(hidden) {
        Err(RuleError::ReasonCharacter)
    } else if text.chars().count() > 200 {
        Err(RuleError::ReasonLength)
    } else {
        Ok(())
    }
}
