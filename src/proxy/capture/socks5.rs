//! SOCKS5 (RFC 1928) for clients that want it, on the explicit proxy's port: CONNECT with a name or an address, and with a user and
//! a token (RFC 1929) where many sandboxes share the port. What a destination may speak is told afterwards, as with every other
//! connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use crate::dns::ResolveError;
use crate::policy::{Denial, Entry};
use crate::types::{Authority, Destination, Host, PROXY_USER, Scheme};

use super::explicit::Whose;
use super::port::NotAdmitted;
use super::{Capture, Slot};
use crate::audit::AuditEvent;
use crate::proxy::refusal::Refusal;
use crate::proxy::relay::{self, Failure};
use crate::proxy::{Connection, Worker, intercept};

/// What a SOCKS5 client sends first. No HTTP method begins with it.
pub const VERSION: u8 = 5;
/// For the greeting and for the request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest greeting or request, with room for what a hasty client sends behind it.
const LONGEST: usize = 1024;

/// Replies (RFC 1928 section 6).
const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const COMMAND: u8 = 7;
const ADDRESS_TYPE: u8 = 8;

/// Why a message is no message that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Socks5Error {
    /// Another version of the protocol.
    #[error("it is not SOCKS version 5")]
    Version,
    /// No method that is served.
    #[error("the SOCKS client offers no method of authentication that is served here")]
    Methods,
    /// No user and password (RFC 1929).
    #[error("what the SOCKS client sends is no user and password")]
    Login,
    /// BIND or UDP ASSOCIATE.
    #[error("the SOCKS command is not CONNECT")]
    Command,
    /// Neither IPv4, IPv6 nor a name.
    #[error("the SOCKS address is of an unknown type")]
    AddressType,
    /// A name or port that is none.
    #[error("the SOCKS destination is no host and port")]
    Destination,
}

impl From<Socks5Error> for Refusal {
    fn from(error: Socks5Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl Socks5Error {
    /// What the client is answered; a greeting is answered in its own way.
    fn reply(self) -> Option<u8> {
        match self {
            Self::Version | Self::Methods | Self::Login => None,
            Self::Command => Some(COMMAND),
            Self::AddressType => Some(ADDRESS_TYPE),
            Self::Destination => Some(FAILED),
        }
    }
}

/// How a client says who it is (RFC 1928 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    None = 0,
    /// By a user and a password.
    Password = 2,
}

/// Reads a greeting that has to offer a method: how long it is; none while it is not whole.
///
/// # Errors
/// [`Socks5Error`].
pub fn greeting(bytes: &[u8], method: Method) -> Result<Option<usize>, Socks5Error> {
    let [version, count, methods @ ..] = bytes else {
        return if bytes.first().is_none_or(|version| *version == VERSION) {
            Ok(None)
        } else {
            Err(Socks5Error::Version)
        };
    };
    if *version != VERSION {
        return Err(Socks5Error::Version);
    }
    match methods.get(..usize::from(*count)) {
        None => Ok(None),
        Some(methods) if methods.contains(&(method as u8)) => Ok(Some(2 + methods.len())),
        Some(_) => Err(Socks5Error::Methods),
    }
}

/// A user and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// The user.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
}

/// Reads a user and a password (RFC 1929), and how long they are; none while they are not whole.
///
/// # Errors
/// [`Socks5Error::Login`].
pub fn login(bytes: &[u8]) -> Result<Option<(Login<'_>, usize)>, Socks5Error> {
    match bytes {
        [] => Ok(None),
        [1, rest @ ..] => {
            let Some((user, rest)) = counted(rest) else { return Ok(None) };
            let Some((password, rest)) = counted(rest) else { return Ok(None) };
            Ok(Some((Login { user, password }, bytes.len() - rest.len())))
        }
        _ => Err(Socks5Error::Login),
    }
}

/// A text behind its length, and what stands behind it.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

/// Reads a request: where to, and how long it is; none while it is not whole.
///
/// # Errors
/// [`Socks5Error`].
pub fn request(bytes: &[u8]) -> Result<Option<(Authority, usize)>, Socks5Error> {
    let [version, command, _, kind, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION {
        return Err(Socks5Error::Version);
    }
    if *command != 1 {
        return Err(Socks5Error::Command);
    }
    let (address, port) = match kind {
        1 => rest.split_at_checked(4),
        4 => rest.split_at_checked(16),
        3 => rest.split_first().and_then(|(len, rest)| rest.split_at_checked(usize::from(*len))),
        _ => return Err(Socks5Error::AddressType),
    }
    .unzip();
    let (Some(address), Some([high, low, behind @ ..])) = (address, port) else { return Ok(None) };
    let host = if *kind == 3 {
        let name = std::str::from_utf8(address).map_err(|_| Socks5Error::Destination)?;
        Host::parse(name).map_err(|_| Socks5Error::Destination)?
    } else if let Ok(v4) = <[u8; 4]>::try_from(address) {
        Host::from_ip(IpAddr::V4(Ipv4Addr::from(v4)))
    } else {
        let v6 = <[u8; 16]>::try_from(address).map_err(|_| Socks5Error::Destination)?;
        Host::from_ip(IpAddr::V6(Ipv6Addr::from(v6)))
    };
    let port = u16::from_be_bytes([*high, *low]);
    if port == 0 {
        return Err(Socks5Error::Destination);
    }
    Ok(Some((Authority::new(host, port), bytes.len() - behind.len())))
}

/// Serves one connection whose first byte is [`VERSION`].
pub async fn serve(whose: Whose, mut io: TcpStream, slot: Slot) {
    let mut seen = BytesMut::with_capacity(LONGEST);
    let asked = tokio::time::timeout(PATIENCE, async {
        let Some(worker) = identify(&whose, &mut io, &mut seen).await.map_err(|refusal| (None, refusal))? else {
            return Ok(None);
        };
        match ask(&mut io, &mut seen).await {
            Ok(authority) => Ok(authority.map(|authority| (worker, authority))),
            Err(error) => {
                if let Some(code) = error.reply() {
                    reply(&mut io, code).await;
                }
                Err((Some(worker), error.into()))
            }
        }
    });
    match asked.await {
        Ok(Ok(Some((worker, authority)))) => go(worker, (authority, seen.freeze()), io, slot).await,
        Ok(Err((worker, refusal))) => {
            let sandbox = worker.map(|worker| worker.sandbox.id.clone());
            let mut event = AuditEvent::new(sandbox, Capture::Socks5.as_str(), None);
            event.scheme = Scheme::Tcp;
            event.deny(refusal.code(), refusal.for_operator(), refusal.cure());
            // Where no row can be had, nothing went on either.
            drop(whose.audit().open(event).await);
        }
        // It ended, or took too long, before it asked for anything.
        Ok(Ok(None)) | Err(_) => {}
    }
}

/// The greeting with its answer, and whose it is. None when the client ends on the way; what it sent behind stays in `seen`.
async fn identify(whose: &Whose, io: &mut TcpStream, seen: &mut BytesMut) -> Result<Option<Arc<Worker>>, Refusal> {
    let method = match whose {
        Whose::One(_) => Method::None,
        Whose::Named(_) => Method::Password,
    };
    let greeted = loop {
        match greeting(seen, method) {
            Ok(Some(len)) => break len,
            Ok(None) if more(io, seen).await => {}
            Ok(None) => return Ok(None),
            Err(error) => {
                // No acceptable method (RFC 1928 section 3).
                let _ = io.write_all(&[VERSION, 0xff]).await;
                return Err(error.into());
            }
        }
    };
    seen.advance(greeted);
    if io.write_all(&[VERSION, method as u8]).await.is_err() {
        return Ok(None);
    }
    let port = match whose {
        Whose::One(worker) => return Ok(Some(Arc::clone(worker))),
        Whose::Named(port) => port,
    };
    let (token, len) = loop {
        let read = login(seen)?.map(|(Login { user, password }, len)| {
            let token = (user == PROXY_USER.as_bytes()).then(|| std::str::from_utf8(password).ok()).flatten();
            (token.map(|token| Zeroizing::new(token.to_owned())), len)
        });
        match read {
            Some(read) => break read,
            None if more(io, seen).await => {}
            None => return Ok(None),
        }
    };
    seen.advance(len);
    let admitted = match &token {
        Some(token) => port.of_token(token).await,
        None => Err(NotAdmitted::Missing.into()),
    };
    // Any status but 0 is a refusal (RFC 1929 section 2).
    let answered = io.write_all(&[1, u8::from(admitted.is_err())]).await;
    admitted.map(|worker| answered.is_ok().then_some(worker))
}

/// The request. None when the client ends on the way.
async fn ask(io: &mut TcpStream, seen: &mut BytesMut) -> Result<Option<Authority>, Socks5Error> {
    loop {
        match request(seen)? {
            Some((authority, len)) => {
                seen.advance(len);
                return Ok(Some(authority));
            }
            None if more(io, seen).await => {}
            None => return Ok(None),
        }
    }
}

async fn more(io: &mut TcpStream, seen: &mut BytesMut) -> bool {
    seen.len() < LONGEST && matches!(io.read_buf(seen).await, Ok(1..))
}

async fn go(worker: Arc<Worker>, (authority, early): (Authority, Bytes), mut io: TcpStream, slot: Slot) {
    let dialled = match authority.host {
        Host::Ip(ip) => Some(ip),
        Host::Name(_) => None,
    };
    let destination = Destination { authority, scheme: Scheme::Https, dialled };
    let connection = Connection::new(worker, slot, Capture::Socks5, destination);
    match entry(&connection) {
        Err(refusal) => refuse(&connection, &refusal, &mut io).await,
        // Whether it can be reached is known before it is answered.
        Ok(Entry::Relay(grant)) => {
            let connection = connection.speaking(Scheme::Tcp);
            match relay::dial(&connection, grant).await {
                Ok(joint) if reply(&mut io, SUCCEEDED).await => relay::join(&connection, joint, early, io).await,
                Ok(_) => {}
                Err(Failure::Refused(refusal)) => refuse(&connection, &refusal, &mut io).await,
                Err(Failure::Failed(refusal)) => {
                    reply(&mut io, code(&refusal)).await;
                }
            }
        }
        Ok(Entry::Look { .. }) => {
            if reply(&mut io, SUCCEEDED).await {
                intercept::serve(connection, early, io).await;
            }
        }
    }
}

async fn refuse(connection: &Connection, refusal: &Refusal, io: &mut TcpStream) {
    let mut event = connection.event();
    event.deny(refusal.code(), refusal.for_operator(), refusal.cure());
    // Where no row can be had, nothing went on either.
    drop(connection.worker.audit.open(event).await);
    reply(io, code(refusal)).await;
}

/// An address may be that of a name which the client has resolved, and which TLS or HTTP will say: where it is not blocked,
/// the refusal is left to that.
fn entry(connection: &Connection) -> Result<Entry, Refusal> {
    let Connection { worker, destination, .. } = connection;
    let policy = &*worker.sandbox.policy();
    match (policy.entry(destination), destination.dialled) {
        (Err(Denial::NotListed { .. }), Some(ip)) => {
            worker.resolver.check(policy, &destination.authority, destination.scheme, &[ip])?;
            Ok(Entry::Look { other: None })
        }
        (entry, _) => Ok(entry?),
    }
}

/// Whether the client took it. The address that was bound is nobody's business.
async fn reply(io: &mut TcpStream, code: u8) -> bool {
    io.write_all(&[VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await.is_ok()
}

fn code(refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::Denied(_) => NOT_ALLOWED,
        Refusal::Unresolved(ResolveError::Denied(_)) => NOT_ALLOWED,
        Refusal::Unresolved(_) => HOST_UNREACHABLE,
        Refusal::Unreachable { .. } => REFUSED,
        Refusal::Malformed(_)
        | Refusal::Misdirected { .. }
        | Refusal::Unverified { .. }
        | Refusal::BadAnswer { .. }
        | Refusal::NoCredential(_)
        | Refusal::Unscrubbable { .. }
        | Refusal::OutOfScope { .. }
        | Refusal::TooLongToSign { .. }
        | Refusal::NotAdmitted(_)
        | Refusal::Unrecorded(_) => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(bytes: &[u8]) -> Result<Option<String>, Socks5Error> {
        let read = request(bytes)?;
        Ok(read.map(|(authority, len)| format!("{}:{} {len}", authority.host, authority.port)))
    }

    #[test]
    fn logins() {
        let whole = [&[1, 3][..], b"abc", &[4], b"a.b:", b"x"].concat();
        assert_eq!(login(&whole), Ok(Some((Login { user: b"abc", password: b"a.b:" }, 10))));
        (0..10).for_each(|len| assert_eq!(login(&whole[..len]), Ok(None), "{len}"));
        assert_eq!(login(&[1, 0, 0]), Ok(Some((Login { user: b"", password: b"" }, 3))));
        assert_eq!(login(&[5, 0, 0]), Err(Socks5Error::Login));
    }

    #[test]
    fn greetings() {
        assert_eq!(greeting(&[5, 2, 0, 2], Method::Password), Ok(Some(4)));
        assert_eq!(greeting(&[5, 1, 0], Method::Password), Err(Socks5Error::Methods));
        for (bytes, want) in [
            (&[5, 1, 0][..], Ok(Some(3))),
            (&[5, 3, 2, 1, 0, 5], Ok(Some(5))),
            (&[5, 2, 0], Ok(None)),
            (&[5], Ok(None)),
            (&[], Ok(None)),
            (&[5, 1, 2], Err(Socks5Error::Methods)),
            (&[5, 0], Err(Socks5Error::Methods)),
            (&[4, 1, 0, 80], Err(Socks5Error::Version)),
            (&[4], Err(Socks5Error::Version)),
        ] {
            assert_eq!(greeting(bytes, Method::None), want, "{bytes:?}");
        }
    }

    #[test]
    fn requests() {
        let name = |name: &[u8]| [&[5, 1, 0, 3, name.len() as u8][..], name, &[1, 187]].concat();
        let v6 = |last: u8| [&[5, 1, 0, 4][..], &[0; 10], &[0xff, 0xff, 9, 9, 9, last], &[0, 22]].concat();
        let text = |want: &str| Ok(Some(want.to_owned()));
        assert_eq!(asked(&[5, 1, 0, 1, 9, 9, 9, 9, 0, 80, 7]), text("9.9.9.9:80 10"));
        assert_eq!(asked(&v6(1)), text("9.9.9.1:22 22"), "IPv4 inside IPv6 is IPv4");
        assert_eq!(asked(&name(b"API.Example.com.")), text("api.example.com:443 23"));
        assert_eq!(asked(&name(b"0x7f.1")), text("127.0.0.1:443 13"), "an address by name is that address");
        for bad in [&b"a\0b"[..], b"a b", b"", b"\xff\xfe", b"https://a.test", b"a.test/x", b"u@a.test", b"a:1"] {
            assert_eq!(asked(&name(bad)), Err(Socks5Error::Destination), "{bad:?}");
        }
        assert_eq!(asked(&[5, 1, 0, 1, 9, 9, 9, 9, 0, 0]), Err(Socks5Error::Destination));
        assert_eq!(asked(&[5, 2, 0, 1, 9, 9, 9, 9, 0, 80]), Err(Socks5Error::Command));
        assert_eq!(asked(&[5, 3, 0, 1]), Err(Socks5Error::Command));
        assert_eq!(asked(&[5, 1, 0, 2, 1]), Err(Socks5Error::AddressType));
        assert_eq!(asked(&[4, 1, 0, 80]), Err(Socks5Error::Version));
        let whole = name(b"a.test");
        (0..whole.len()).for_each(|len| assert_eq!(asked(&whole[..len]), Ok(None), "{len}"));
    }
}
