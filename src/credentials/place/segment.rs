//! A segment of the path that is a placeholder.

use http::Uri;
use zeroize::Zeroizing;

use super::super::placeholder::Placeholder;
use super::escape::{decode, encode};
use super::target::{joined, set};

/// Whether a value makes a segment that stays one.
///
/// # Errors
/// It would be a dot segment, which clients and servers take out of a path. The text never holds the value.
pub(super) fn check(prefix: &str, value: &[u8], suffix: &str) -> Result<(), String> {
    match joined(&[prefix.as_bytes(), value, suffix.as_bytes()]).as_slice() {
        b"." | b".." => Err("it would be a dot segment of the path, which leads elsewhere".to_owned()),
        _ => Ok(()),
    }
}

/// Whether a segment of the path is a placeholder, with these texts around it.
pub(super) fn has<'a>(
    path: &str,
    prefix: &str,
    suffix: &str,
    stand_ins: impl Iterator<Item = &'a Placeholder> + Clone,
) -> bool {
    path.split('/').any(|segment| is_marker(segment, (prefix, suffix), stand_ins.clone()))
}

/// Puts the value in place of every placeholder that is a segment of the path.
pub(super) fn swap<'a>(
    uri: &mut Uri,
    (prefix, suffix): (&str, &str),
    value: &[u8],
    stand_ins: impl Iterator<Item = &'a Placeholder> + Clone,
) -> Result<(), String> {
    let value = encode(value);
    let ours: Zeroizing<Vec<u8>> = joined(&[prefix.as_bytes(), &value, suffix.as_bytes()]);
    let mut pieces = Vec::<&[u8]>::new();
    for (index, segment) in uri.path().split('/').enumerate() {
        if index > 0 {
            pieces.push(b"/");
        }
        let is_marker = is_marker(segment, (prefix, suffix), stand_ins.clone());
        pieces.push(if is_marker { &ours } else { segment.as_bytes() });
    }
    if let Some(query) = uri.query() {
        pieces.extend([b"?", query.as_bytes()]);
    }
    let target = joined(&pieces);
    set(uri, target)
}

fn is_marker<'a>(
    segment: &str,
    (prefix, suffix): (&str, &str),
    mut stand_ins: impl Iterator<Item = &'a Placeholder>,
) -> bool {
    let decoded = decode(segment.as_bytes());
    let inside = decoded.strip_prefix(prefix.as_bytes()).and_then(|rest| rest.strip_suffix(suffix.as_bytes()));
    inside.is_some_and(|text| stand_ins.any(|known| known.is(text)))
}
