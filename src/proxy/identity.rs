//! The authority that was authorised is the authority that is asked for.

use std::sync::Arc;

use http::header::HOST;
use http::{Method, Request, Version};

use crate::types::{Authority, Scheme};

use super::capture::guard::{FAULT, FAULTS};
use super::refusal::Refusal;
use super::{Connection, headers};

/// The connection as this request sees it. Plain HTTP to an address has its name in `Host` alone, so there each request is
/// judged for the name that it gives, at the port that was dialled.
pub fn of_request<B>(connection: &Arc<Connection>, request: &Request<B>) -> Arc<Connection> {
    let plain = connection.destination.scheme == Scheme::Http && connection.capture.by_address(&connection.destination);
    let named = request.headers().get(HOST).filter(|_| plain).and_then(|host| host.to_str().ok());
    match named.and_then(|host| Authority::parse(host, 80).ok()) {
        Some(asked) => {
            let mut destination = connection.destination.clone();
            destination.authority.host = asked.host;
            Arc::new(connection.to(destination))
        }
        None => Arc::clone(connection),
    }
}

/// Compares SNI, `Host` or `:authority`, and an absolute request target with what the connection is for. Asked for every
/// request. A port that is left out is the scheme's own.
///
/// # Errors
/// [`Refusal::Misdirected`] when they differ, [`Refusal::Malformed`] when there is not exactly one authority.
pub fn agree<B>(connection: &Connection, request: &Request<B>) -> Result<(), Refusal> {
    refuse_methods(request)?;
    refuse_forms(request)?;
    let authorized = &connection.destination.authority;
    let misdirected = |asked: &str| Refusal::Misdirected { asked: cut(asked), authorized: authorized.clone() };
    if let Some(sni) = &connection.mismatched_sni {
        return Err(misdirected(sni));
    }
    let port = if connection.destination.scheme == Scheme::Http { 80 } else { 443 };
    let check = |asked: &str| {
        // Most often it is spelt as the proxy spells it, which needs no parsing.
        if connection.host_value == asked {
            return Ok(());
        }
        match Authority::parse(asked, port) {
            Ok(parsed) if parsed == *authorized => Ok(()),
            Ok(_) => Err(misdirected(asked)),
            Err(error) => Err(Refusal::Malformed(format!("its host is no host: {error}"))),
        }
    };
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => return Err(malformed("it has two Host headers")),
        (Some(value), None) => Some(value.to_str().map_err(|_| malformed("its Host is not text"))?),
        (None, _) => None,
    };
    if let Some(scheme) = request.uri().scheme_str()
        && scheme != connection.destination.scheme.as_str()
    {
        return Err(misdirected(&format!("{scheme}://{}", request.uri().authority().map_or("", |a| a.as_str()))));
    }
    match (request.uri().authority(), host) {
        (None, None) => Err(malformed("it has no Host")),
        (Some(target), host) => {
            check(target.as_str())?;
            // HTTP/1.1 demands Host beside an absolute target, too (RFC 9112 section 3.2).
            match host {
                Some(host) => check(host),
                None if request.version() == Version::HTTP_2 => Ok(()),
                None => Err(malformed("it has no Host")),
            }
        }
        (None, Some(host)) => check(host),
    }
}

/// Compares the `Host` of a CONNECT, which clients need not send, with its target.
///
/// # Errors
/// As [`agree`].
pub fn agree_connect<B>(connection: &Connection, request: &Request<B>) -> Result<(), Refusal> {
    let authorized = &connection.destination.authority;
    for host in request.headers().get_all(HOST) {
        let asked = host.to_str().map_err(|_| malformed("its Host is not text"))?;
        if !Authority::parse(asked, authorized.port).is_ok_and(|parsed| parsed == *authorized) {
            return Err(Refusal::Misdirected { asked: cut(asked), authorized: authorized.clone() });
        }
    }
    Ok(())
}

/// CONNECT has no place inside a connection, and TRACE would show what the proxy puts in.
fn refuse_methods<B>(request: &Request<B>) -> Result<(), Refusal> {
    match *request.method() {
        Method::CONNECT => Err(malformed("CONNECT inside a connection")),
        // By any spelling: a server that folds case, or knows TRACK, would show it all the same.
        ref method if ["TRACE", "TRACK"].iter().any(|echo| method.as_str().eq_ignore_ascii_case(echo)) => {
            Err(malformed("TRACE would show what the proxy adds to a request"))
        }
        // "*" is the server as a whole, which only OPTIONS may ask for (RFC 9110 section 7.1).
        Method::OPTIONS => Ok(()),
        _ if request.uri().path() == "*" => Err(malformed("its target is *")),
        _ => fault(request).map_or(Ok(()), Err),
    }
}

/// A target of host and port is CONNECT's alone (RFC 9112 section 3.2.3). A server that takes an underscore for a hyphen, as
/// CGI does, would read a second length or encoding out of a field that frames nothing here.
fn refuse_forms<B>(request: &Request<B>) -> Result<(), Refusal> {
    if request.uri().scheme().is_none() && request.uri().authority().is_some() {
        return Err(malformed("its target is neither a path nor a URL"));
    }
    match headers::FRAMING_LOOK_ALIKES.iter().find(|name| request.headers().contains_key(**name)) {
        Some(name) => Err(Refusal::Malformed(format!("it has a header {name}"))),
        None => Ok(()),
    }
}

/// What the guard found, where the request stands for a malformed head.
pub fn fault<B>(request: &Request<B>) -> Option<Refusal> {
    let found = request.method().as_str() == FAULT;
    found.then(|| {
        let said = request.uri().path().trim_start_matches('/');
        let known = FAULTS.iter().find(|fault| **fault == said).unwrap_or(&"its head");
        Refusal::Malformed(known.replace('-', " "))
    })
}

fn malformed(what: &str) -> Refusal {
    Refusal::Malformed(what.to_owned())
}

fn cut(text: &str) -> String {
    text.chars().take(256).collect()
}
