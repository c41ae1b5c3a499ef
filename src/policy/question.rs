//! What a policy can be asked, as people write it: `GET https://api.example.com/v1`, `tcp://db.example.com:5432`,
//! `dns:example.com`.

use std::fmt;

use crate::types::{Authority, Destination, Host, HostError, HostName, RequestFacts, Scheme};

use super::github::OutOfScope;
use super::github::credential::choose;
use super::github::route::Route;
use super::mistake::quoted;
use super::rule::{Action, Rule};
use super::verdict::{Denial, Grant, Permit};
use super::{Entry, Policy};

/// One question to a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A request over https or http.
    Request {
        /// Where it goes.
        destination: Destination,
        /// Its method.
        method: String,
        /// Its path as it is written, without query and fragment.
        path: String,
        /// Its query, where it is known whether it has one.
        query: Option<String>,
    },
    /// A connection of which nobody reads what it carries.
    Connection(Destination),
    /// A look-up of a name.
    LookUp(HostName),
}

/// Why a text asks nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// No token (RFC 9110 section 9.1).
    #[error("{} is not a method; write one such as GET or POST", quoted(.0))]
    Method(String),
    /// A URL alone.
    #[error("{} is a URL, and a request has a method, too; write it before the URL, such as GET https://HOST/PATH", quoted(.0))]
    NoMethod(String),
    /// `GET tcp://…`, `GET dns:…`.
    #[error("{0} has no method; leave it out")]
    NeedlessMethod(&'static str),
    /// A URL that cannot be used.
    #[error("{} is not a usable URL: {error}", quoted(.url))]
    Url {
        /// The whole.
        url: String,
        /// What is wrong with it.
        error: UrlError,
    },
    /// `dns:1.2.3.4`.
    #[error("{} names nothing that could be looked up: {error}", quoted(.text))]
    Name {
        /// The whole.
        text: String,
        /// What is wrong with the name.
        error: HostError,
    },
}

/// Why a text is no URL that could be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// `api.example.com`.
    #[error("it has no scheme; write https://HOST/PATH, tcp://HOST:PORT or dns:NAME")]
    NoScheme,
    /// `ftp://…`.
    #[error("the scheme {} is not https, http or tcp; write one of these", quoted(.0))]
    Scheme(String),
    /// `https://user@…`.
    #[error("it holds a user name; leave that out")]
    User,
    /// `tcp://host`.
    #[error("a tcp URL needs a port; write tcp://HOST:PORT")]
    NoPort,
    /// `tcp://host:1/x`.
    #[error("a tcp URL has nothing behind the port; write tcp://HOST:PORT")]
    TcpPath,
    /// `https://a b/`.
    #[error("{0}")]
    Host(HostError),
}

impl Question {
    /// Parses `METHOD URL`, `tcp://HOST:PORT` or `dns:NAME`.
    ///
    /// # Errors
    /// [`QuestionError`] says what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, QuestionError> {
        match text.trim().split_once(char::is_whitespace) {
            Some((method, subject)) => Self::of(Some(method), subject.trim_start()),
            None => Self::of(None, text.trim()),
        }
    }

    /// The same of two texts.
    ///
    /// # Errors
    /// [`QuestionError`] says what is wrong and what would be right.
    pub fn of(method: Option<&str>, subject: &str) -> Result<Self, QuestionError> {
        if let Some(method) = method.filter(|method| http::Method::from_bytes(method.as_bytes()).is_err()) {
            return Err(QuestionError::Method(method.to_owned()));
        }
        if let Some(name) = subject.strip_prefix("dns:") {
            let name = HostName::parse(name);
            let name = name.map_err(|error| QuestionError::Name { text: subject.to_owned(), error })?;
            return match method {
                None => Ok(Self::LookUp(name)),
                Some(_) => Err(QuestionError::NeedlessMethod("dns:NAME")),
            };
        }
        let url = parse_url(subject).map_err(|error| QuestionError::Url { url: subject.to_owned(), error });
        let (destination, path, query) = url?;
        match (destination.scheme, method) {
            (Scheme::Tcp, None) => Ok(Self::Connection(destination)),
            (Scheme::Tcp, Some(_)) => Err(QuestionError::NeedlessMethod("tcp://HOST:PORT")),
            (Scheme::Https | Scheme::Http, None) => Err(QuestionError::NoMethod(subject.to_owned())),
            (Scheme::Https | Scheme::Http, Some(method)) => {
                Ok(Self::Request { destination, method: method.to_owned(), path, query: Some(query) })
            }
        }
    }

    /// The answer, from the functions that enforce. A literal address is checked as well; those of a name are checked when
    /// it is looked up.
    ///
    /// # Errors
    /// The [`Denial`] that decided.
    pub fn ask(&self, policy: &Policy) -> Result<Permit, Denial> {
        let (permit, destination) = match self {
            Self::Request { destination, method, path, .. } => {
                let mut permit = request(policy, &RequestFacts { destination, method, path })?;
                if let (Some(route), Some((_, binding))) = (self.on_github(policy), policy.github(destination)) {
                    let refused = |denial| Denial::OutOfScope { authority: destination.authority.clone(), denial };
                    let route = route.map_err(refused)?;
                    let owner = binding.credential().owner_of(route.names()).map_err(refused)?;
                    let ours = choose(policy.bindings(), &permit.bindings, route.credential, owner);
                    permit.bindings.retain(|&at| !policy.bindings()[at].is_for_github() || Some(at) == ours);
                }
                (permit, destination)
            }
            Self::Connection(destination) => (without_bindings(connection(policy, destination)?), destination),
            Self::LookUp(name) => return look_up(policy, name).map(without_bindings),
        };
        let Destination { authority, scheme, .. } = destination;
        match &authority.host {
            Host::Ip(ip) => policy.check_addresses(authority, *scheme, &[*ip], &[]).map(|_| permit),
            Host::Name(_) => Ok(permit),
        }
    }

    /// What the GitHub binding for the request says to its head, where there is one.
    pub fn on_github(&self, policy: &Policy) -> Option<Result<Route, OutOfScope>> {
        let Self::Request { destination, method, path, query: Some(query) } = self else { return None };
        let (_, binding) = policy.github(destination)?;
        let mark = if query.is_empty() { "" } else { "?" };
        Some(binding.explain(&destination.authority.host.to_string(), method, &format!("{path}{mark}{query}")))
    }

    /// Whether what is permitted is passed on unread, so that neither methods nor paths nor bindings matter to it.
    pub fn passes_unread(&self, policy: &Policy) -> bool {
        match self {
            Self::Request { destination, .. } => policy.passes_unread(destination).is_some(),
            Self::Connection(_) => true,
            Self::LookUp(_) => false,
        }
    }
}

pub(super) fn without_bindings(grant: Grant) -> Permit {
    Permit { grant, bindings: Vec::new() }
}

pub(super) fn request(policy: &Policy, facts: &RequestFacts<'_>) -> Result<Permit, Denial> {
    match policy.passes_unread(facts.destination) {
        Some(grant) => Ok(without_bindings(grant)),
        None => policy.request(facts),
    }
}

/// What may be reached over tcp is passed on only where nothing has to look inside.
pub(super) fn connection(policy: &Policy, destination: &Destination) -> Result<Grant, Denial> {
    let unread = match policy.entry(destination) {
        Ok(Entry::Relay(grant) | Entry::Look { other: Some(grant) }) => return Ok(grant),
        Ok(Entry::Look { other: None }) | Err(_) => policy.destination(destination).map(drop),
    };
    unread?;
    let by = |scheme: &Scheme| policy.destination(&Destination { scheme: *scheme, ..destination.clone() }).is_ok();
    let authority = destination.authority.clone();
    Err(match [Scheme::Https, Scheme::Http].into_iter().find(by) {
        Some(permitted) => Denial::SchemeNotPermitted { authority, scheme: destination.scheme, permitted },
        None => Denial::NotListed { authority, mode_is_fixed: true },
    })
}

/// What a name is looked up for: the first port and scheme by which it may be reached. Else what closes every port of it, or
/// those that something permits; else that nothing does.
fn look_up(policy: &Policy, name: &HostName) -> Result<Grant, Denial> {
    let host = Host::Name(name.clone());
    let reach = |port: u16, scheme: Scheme| {
        policy.destination(&Destination { authority: Authority::new(host.clone(), port), scheme, dialled: None })
    };
    let ports = permitted_ports(policy, &host);
    let ways = ports.iter().flat_map(|port| SCHEMES.map(|scheme| reach(*port, scheme)));
    if policy.may_resolve(name) {
        // Only mode all has ports beyond these.
        return Ok(ways.filter_map(Result::ok).next().unwrap_or(Grant::NetworkAll));
    }
    let closed = |denial: &Denial| matches!(denial, Denial::RuleDenied { .. });
    let closing = ways.filter_map(Result::err).find(closed);
    closing.map_or_else(|| reach(443, Scheme::Https), Err)
}

/// Whether something that an allow rule is for may be reached of a host.
pub(super) fn reaches_by(policy: &Policy, rule: &Rule, host: &Host) -> bool {
    let ports = rule.ports.listed().map_or_else(|| permitted_ports(policy, host), <[u16]>::to_vec);
    let reach = |port, scheme| {
        let authority = Authority::new(host.clone(), port);
        policy.destination(&Destination { authority, scheme, dialled: None }).is_ok()
    };
    ports.into_iter().any(|port| SCHEMES.iter().any(|scheme| reach(port, *scheme)))
}

pub(super) const SCHEMES: [Scheme; 3] = [Scheme::Https, Scheme::Http, Scheme::Tcp];

/// The ports of a host that the policy permits something on, or would without its deny rules; and one that nothing names.
fn permitted_ports(policy: &Policy, host: &Host) -> Vec<u16> {
    let listed = policy.network().entries().into_iter().filter(|entry| entry.host == *host).map(|entry| entry.port);
    let listed_by = |rule: &'_ Rule| rule.ports.listed().unwrap_or_default().to_vec();
    let of_rules = |action| policy.rules().of_host(host).filter(move |rule| rule.action == action).flat_map(listed_by);
    let mut ports: Vec<u16> = listed.chain(of_rules(Action::Allow)).collect();
    let denied: Vec<u16> = of_rules(Action::Deny).collect();
    ports.extend((1..=u16::MAX).find(|port| !ports.contains(port) && !denied.contains(port)));
    ports
}

/// As it is written, in canonical spelling; the path as it was given.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { destination: Destination { authority, scheme, .. }, method, path, .. } => {
                let port = Some(authority.port).filter(|port| Some(*port) != default_port(*scheme));
                let port = port.map_or_else(String::new, |port| format!(":{port}"));
                write!(f, "{method} {scheme}://{}{port}{}", authority.host, path.escape_debug())
            }
            Self::Connection(destination) => {
                write!(f, "{}://{}:{}", destination.scheme, destination.authority.host, destination.authority.port)
            }
            Self::LookUp(name) => write!(f, "dns:{name}"),
        }
    }
}

fn default_port(scheme: Scheme) -> Option<u16> {
    match scheme {
        Scheme::Https => Some(443),
        Scheme::Http => Some(80),
        Scheme::Tcp => None,
    }
}

/// Where a URL leads, its path as it is written, and its query; a fragment is left out.
fn parse_url(url: &str) -> Result<(Destination, String, String), UrlError> {
    let (scheme, rest) = url.split_once("://").ok_or(UrlError::NoScheme)?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        "tcp" => Scheme::Tcp,
        _ => return Err(UrlError::Scheme(scheme.to_owned())),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    if host.contains('@') {
        return Err(UrlError::User);
    }
    let authority = match default_port(scheme) {
        Some(port) => Authority::parse(host, port),
        // With two defaults that differ, a port that is missing shows itself.
        None if Authority::parse(host, 1) != Authority::parse(host, 2) => return Err(UrlError::NoPort),
        None => Authority::parse(host, 1),
    };
    let authority = authority.map_err(UrlError::Host)?;
    if scheme == Scheme::Tcp && !matches!(target, "" | "/") {
        return Err(UrlError::TcpPath);
    }
    let path = &target[..target.find(['?', '#']).unwrap_or(target.len())];
    let path = if path.is_empty() { "/" } else { path };
    // As the proxy has it: who asks for an address has dialled it.
    let dialled = match authority.host {
        Host::Ip(ip) => Some(ip),
        Host::Name(_) => None,
    };
    let whole = &target[..target.find('#').unwrap_or(target.len())];
    let query = whole.split_once('?').map_or("", |(_, query)| query);
    Ok((Destination { authority, scheme, dialled }, path.to_owned(), query.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        Question::parse(text).map_or_else(|error| format!("error: {error}"), |question| question.to_string())
    }

    macro_rules! questions {
        ($($name:ident: $text:expr => $want:expr;)*) => { $(
            #[test]
            fn $name() {
                assert_eq!(read($text), $want);
            }
        )* };
    }

    questions! {
        a_request: "GET https://API.Example.com/v1?x#y" => "GET https://api.example.com/v1";
        a_request_with_its_own_port: "GET https://a.test:443" => "GET https://a.test/";
        a_request_with_another_port: " POST  HTTPS://a.test:80/x " => "POST https://a.test:80/x";
        plain_http: "GET http://a.test" => "GET http://a.test/";
        plain_http_on_443: "GET http://a.test:443/" => "GET http://a.test:443/";
        an_ipv6_address: "GET https://[2606:4700::1]:8443/x" => "GET https://[2606:4700::1]:8443/x";
        a_connection: "tcp://db.test:5432" => "tcp://db.test:5432";
        a_connection_to_443: "tcp://db.test:443/" => "tcp://db.test:443";
        a_look_up: "dns:Example.COM." => "dns:example.com";
        a_line_in_a_path: "GET https://a.test/\u{1b}[2J" => "GET https://a.test/\\u{1b}[2J";
        no_method: "https://a.test/" => "error: \"https://a.test/\" is a URL, and a request has a method, too; \
                                         write it before the URL, such as GET https://HOST/PATH";
        a_method_for_a_connection: "GET tcp://a.test:1" => "error: tcp://HOST:PORT has no method; leave it out";
        a_method_for_a_look_up: "GET dns:a.test" => "error: dns:NAME has no method; leave it out";
        no_token: "G@T https://a.test/" => "error: \"G@T\" is not a method; write one such as GET or POST";
        a_tcp_path: "tcp://a.test:1/x" => "error: \"tcp://a.test:1/x\" is not a usable URL: \
                                           a tcp URL has nothing behind the port; write tcp://HOST:PORT";
        a_look_up_of_an_address: "dns:127.1" => "error: \"dns:127.1\" names nothing that could be looked up: \
                                                 the host looks like an IPv4 address and is none";
        a_look_up_with_a_port: "dns:a.test:53" => "error: \"dns:a.test:53\" names nothing that could be looked up: \
                                                   ':' is not allowed in a host name";
        nothing: "" => "error: \"\" is not a usable URL: it has no scheme; write https://HOST/PATH, tcp://HOST:PORT or dns:NAME";
    }
}
