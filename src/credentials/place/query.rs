//! A parameter of the query.

use http::Uri;

use super::escape::{encode, is_name};
use super::target::{joined, set};

/// Takes out every parameter of this name, also where an old server sees one behind a `;`, each with the separator before it. The
/// rest stays byte for byte.
pub(super) fn strip(uri: &mut Uri, name: &str) -> Result<(), String> {
    let Some(query) = uri.query() else { return Ok(()) };
    let kept = without(query, name);
    if kept.len() == query.len() {
        return Ok(());
    }
    let mark = if kept.is_empty() { "" } else { "?" };
    let target = joined(&[uri.path().as_bytes(), mark.as_bytes(), kept.as_bytes()]);
    set(uri, target)
}

fn without(query: &str, name: &str) -> String {
    let mut kept = String::with_capacity(query.len());
    let (mut from, mut none_yet) = (0, true);
    for end in query.match_indices(['&', ';']).map(|(at, _)| at).chain([query.len()]) {
        // With the separator before it, if there is one.
        let piece = &query[from..end];
        let pair = if from > 0 { &piece[1..] } else { piece };
        if !is_name(pair.split('=').next().unwrap_or_default().as_bytes(), name) {
            kept.push_str(if none_yet { pair } else { piece });
            none_yet = false;
        }
        from = end;
    }
    kept
}

/// Adds the parameter behind the others.
pub(super) fn append(uri: &mut Uri, name: &str, value: &[u8]) -> Result<(), String> {
    let (name, value) = (encode(name.as_bytes()), encode(value));
    let path = uri.path().as_bytes();
    let target = match uri.query() {
        Some(query) if !query.is_empty() => joined(&[path, b"?", query.as_bytes(), b"&", &name, b"=", &value]),
        Some(_) | None => joined(&[path, b"?", &name, b"=", &value]),
    };
    set(uri, target)
}
