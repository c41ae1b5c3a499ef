//! A cookie of the `Cookie` header, which is one line here.

use bytes::Bytes;
use http::header::{COOKIE, HeaderMap, HeaderValue};

use super::escape::is_name;
use super::target::joined;

/// Whether a value is one that a cookie can carry.
///
/// # Errors
/// It is none (RFC 6265 section 4.1.1). The text never holds the value.
pub(super) fn check(value: &[u8]) -> Result<(), String> {
    let inside = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value);
    let is_octet = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e);
    if inside.iter().all(is_octet) {
        return Ok(());
    }
    Err("it holds what no cookie can carry: white space, `,`, `;`, `\\`, a quote, or what is not ASCII".to_owned())
}

/// Takes out every cookie of this name, also where some server sees one behind a comma or white space. The others stay.
pub(super) fn strip(headers: &mut HeaderMap, name: &str) -> Result<(), String> {
    let lines: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    for line in lines {
        let kept = without(line.as_bytes(), name);
        if kept.len() == line.len() {
            headers.append(COOKIE, line);
        } else if !kept.is_empty() {
            append(headers, joined(&[&kept]), line.is_sensitive())?;
        }
    }
    Ok(())
}

/// Puts the cookie before the others, since of two that a server takes for the same the first counts for most.
pub(super) fn put(headers: &mut HeaderMap, name: &str, value: &[u8]) -> Result<(), String> {
    let others: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    let mut pieces: Vec<&[u8]> = vec![name.as_bytes(), b"=", value];
    for other in &others {
        pieces.extend([&b"; "[..], other.as_bytes()]);
    }
    append(headers, joined(&pieces), true)
}

fn append(headers: &mut HeaderMap, line: zeroize::Zeroizing<Vec<u8>>, sensitive: bool) -> Result<(), String> {
    let mut value = HeaderValue::from_maybe_shared(Bytes::from_owner(line))
        .map_err(|_| "with the other cookies, it is no legal header value".to_owned())?;
    value.set_sensitive(sensitive);
    headers.append(COOKIE, value);
    Ok(())
}

/// A line without the cookies of a name. `a=1 name=2` is two cookies to some servers, so what stands behind such white space
/// goes as well.
fn without(line: &[u8], name: &str) -> Vec<u8> {
    let mut kept = Vec::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b';' | b',')).unwrap_or(rest.len());
        let crumb = &rest[..end];
        if !is_name(crumb.split(|byte| *byte == b'=').next().unwrap_or_default(), name) {
            kept.extend_from_slice(&crumb[..hidden(crumb, name).unwrap_or(crumb.len())]);
            kept.extend(rest.get(end));
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    if kept.len() == line.len() {
        return kept;
    }
    let ends = |byte: &u8| matches!(byte, b';' | b',' | b' ' | b'\t');
    let first = kept.iter().position(|byte| !ends(byte)).unwrap_or(kept.len());
    let last = kept.iter().rposition(|byte| !ends(byte)).map_or(first, |last| last + 1);
    kept[first..last].to_vec()
}

/// Where in a crumb another cookie of the name begins, behind white space.
fn hidden(crumb: &[u8], name: &str) -> Option<usize> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = crumb.iter().position(|byte| !is_blank(byte))?;
    (start + 1..crumb.len()).filter(|&at| is_blank(&crumb[at - 1]) && !is_blank(&crumb[at])).find_map(|at| {
        let word = crumb[at..].split(|byte| matches!(byte, b' ' | b'\t' | b'=')).next().unwrap_or_default();
        is_name(word, name).then_some(at - 1)
    })
}
