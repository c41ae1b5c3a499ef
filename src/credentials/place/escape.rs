//! Percent-encoding, and the names that servers take for the same.

use zeroize::Zeroizing;

/// How often a server may decode a name: once by the book, once more by the framework, once more by mistake.
const DECODED: usize = 3;

/// The unreserved characters (RFC 3986 section 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Percent-encodes every byte that is not unreserved: a spelling that responses are searched for as well. It never grows, which
/// would leave copies behind.
pub(super) fn encode(value: &[u8]) -> Zeroizing<Vec<u8>> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = Zeroizing::new(Vec::with_capacity(3 * value.len()));
    for &byte in value {
        if is_unreserved(byte) {
            encoded.push(byte);
        } else {
            encoded.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
    encoded
}

/// Every escape, `%uXXXX` of IIS and ASP included, as what it stands for; what is none stays.
pub(super) fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let (byte, length) = match (first, tail) {
            (b'%', [b'u' | b'U', digits @ ..]) => match number(digits, 4).map(u8::try_from) {
                Some(Ok(byte)) => (byte, 6),
                Some(Err(_)) | None => (b'%', 1),
            },
            (b'%', digits) => number(digits, 2).map_or((b'%', 1), |number| (number as u8, 3)),
            (byte, _) => (*byte, 1),
        };
        decoded.push(byte);
        rest = &rest[length..];
    }
    decoded
}

fn number(digits: &[u8], count: usize) -> Option<u32> {
    let digits = digits.get(..count)?;
    digits.iter().try_fold(0, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)?))
}

/// Whether a name that a client sent in a query or a cookie is `ours` to some server: decoded once or oftener, with `+` for a
/// space, in other capitals, as an array (`name[]`), with what PHP makes `_` or cuts off ("Variables From External Sources").
pub(super) fn is_name(sent: &[u8], ours: &str) -> bool {
    let mut name = sent.to_vec();
    for _ in 0..DECODED {
        name.iter_mut().filter(|byte| **byte == b'+').for_each(|byte| *byte = b' ');
        name = decode(&name);
    }
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = name[..end].trim_ascii();
    let base = name.iter().position(|byte| *byte == b'[').unwrap_or(name.len());
    let fold = |byte: &u8| match byte {
        b'.' | b' ' | b'+' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    let is_ours = |name: &[u8]| name.iter().map(fold).eq(ours.as_bytes().iter().map(fold));
    let unclosed = || name.iter().map(|byte| if *byte == b'[' { b'_' } else { *byte }).collect::<Vec<_>>();
    is_ours(name) || is_ours(&name[..base]) || (base < name.len() && is_ours(&unclosed()))
}
