//! Changing the path and query of a request.

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use zeroize::Zeroizing;

/// Sets path and query; they are wiped when the last of the requests that carry them is gone.
///
/// # Errors
/// It cannot be a target (more than 65,534 bytes). The text never holds the value.
pub(super) fn set(uri: &mut Uri, target: Zeroizing<Vec<u8>>) -> Result<(), String> {
    let target = PathAndQuery::from_maybe_shared(Bytes::from_owner(target))
        .map_err(|_| "the request's target would be longer than 65534 bytes with it".to_owned())?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target);
    *uri = Uri::from_parts(parts).map_err(|_| "the request has no target that could carry it".to_owned())?;
    Ok(())
}

/// Puts pieces together. They are counted first: growing would leave copies behind.
pub(super) fn joined(pieces: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let mut whole = Zeroizing::new(Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum()));
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    whole
}
