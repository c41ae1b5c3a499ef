//! Values that must not be seen.

use std::fmt;

use zeroize::Zeroizing;

/// A secret's value with its name. It is wiped on drop, has no `Display`, and `Debug` prints the name alone.
#[derive(Clone)]
pub struct Secret {
    name: String,
    value: Zeroizing<Vec<u8>>,
}

/// Why bytes cannot be a secret. The text never holds the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing is left after the final newline is taken off.
    #[error("the value is empty")]
    Empty,
    /// More than [`Secret::MAX_LEN`] bytes.
    #[error("the value is longer than 65536 bytes")]
    TooLong,
    /// A byte that may not stand in a header value (RFC 9110 section 5.5).
    #[error("the value holds a control character (a line break, NUL or DEL): a header cannot carry it")]
    Control,
    /// White space at an end, which header parsers take off.
    #[error("the value begins or ends with white space: a header cannot carry it")]
    Padding,
}

impl Secret {
    /// The longest value, in bytes (the seed's secret store has the same bound).
    pub const MAX_LEN: usize = 64 * 1024;

    /// A value as its source gave it. One final newline (LF or CRLF) is taken off, since editors add it; anything else
    /// that a header value cannot carry is an error, but for the line breaks of a PEM text (RFC 7468), which goes into none.
    ///
    /// # Errors
    /// [`SecretError`] says what is wrong and never what the value is.
    pub fn new(name: impl Into<String>, raw: Zeroizing<Vec<u8>>) -> Result<Self, SecretError> {
        let mut value = raw;
        if value.last() == Some(&b'\n') {
            value.pop();
            if value.last() == Some(&b'\r') {
                value.pop();
            }
        }
        if value.is_empty() {
            return Err(SecretError::Empty);
        }
        if value.len() > Self::MAX_LEN {
            return Err(SecretError::TooLong);
        }
        let is_pem = value.starts_with(b"-----BEGIN ");
        let is_break = |byte| is_pem && matches!(byte, b'\n' | b'\r');
        if value.iter().any(|&b| (b < 0x20 && b != b'\t' && !is_break(b)) || b == 0x7f) {
            return Err(SecretError::Control);
        }
        let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
        if blank(value.first()) || blank(value.last()) {
            return Err(SecretError::Padding);
        }
        Ok(Self { name: name.into(), value })
    }

    /// The name, which may be shown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value, for the one place that puts it on the wire.
    pub fn expose(&self) -> &[u8] {
        &self.value
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(raw: &[u8]) -> Result<Vec<u8>, SecretError> {
        Secret::new("K", Zeroizing::new(raw.to_vec())).map(|s| s.expose().to_vec())
    }

    #[test]
    fn one_final_newline_is_taken_off() {
        assert_eq!(secret(b"abc\n"), Ok(b"abc".to_vec()));
        assert_eq!(secret(b"abc\r\n"), Ok(b"abc".to_vec()));
        assert_eq!(
            secret(b"-----BEGIN X-----\na\n-----END X-----\n"),
            Ok(b"-----BEGIN X-----\na\n-----END X-----".to_vec())
        );
        assert_eq!(secret("gr\u{fc}n".as_bytes()), Ok("gr\u{fc}n".as_bytes().to_vec()));
        assert_eq!(secret(b"abc\n\n"), Err(SecretError::Control));
    }

    #[test]
    fn what_a_header_cannot_carry_is_refused() {
        assert_eq!(secret(b""), Err(SecretError::Empty));
        assert_eq!(secret(b"\n"), Err(SecretError::Empty));
        assert_eq!(secret(b"abc\r\nX-Evil: 1"), Err(SecretError::Control));
        assert_eq!(secret(b"abc\0"), Err(SecretError::Control));
        assert_eq!(secret(b"-----BEGIN X-----\n\0\n-----END X-----"), Err(SecretError::Control));
        assert_eq!(secret(b" abc"), Err(SecretError::Padding));
        assert_eq!(secret(&vec![b'a'; Secret::MAX_LEN + 1]), Err(SecretError::TooLong));
    }

    #[test]
    fn debug_shows_the_name_only() {
        let s = Secret::new("K", Zeroizing::new(b"canary".to_vec())).map(|s| format!("{s:?}"));
        assert_eq!(s, Ok("Secret(K)".to_owned()));
    }
}
