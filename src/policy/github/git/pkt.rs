//! pkt-lines: four hexadecimal digits that count themselves and what follows (gitprotocol-common).

/// The longest pkt-line, its four digits included, in bytes.
pub const LINE_MAX: usize = 65520;

/// The digits in front.
pub(super) const HEAD: usize = 4;

/// One pkt-line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// `0000`, the end of a section.
    Flush,
    /// What a line says, its line feed included where it has one. It is never empty.
    Line(&'a [u8]),
}

/// Why bytes are no pkt-line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PktError {
    /// The first four bytes are no hexadecimal number.
    #[error("a pkt-line does not begin with four hexadecimal digits")]
    Digits,
    /// `0001` and `0002` are of protocol version 2, `0003` is nothing; readers do not agree whether `0004` is a flush.
    #[error("a pkt-line of length {0}, which has no meaning here")]
    Short(usize),
    /// Over [`LINE_MAX`].
    #[error("a pkt-line of {0} bytes; the longest is {LINE_MAX}")]
    Long(usize),
}

/// The pkt-line that `bytes` begin with and its whole length, or none while it is not whole.
///
/// # Errors
/// [`PktError`], as soon as the first four bytes show it.
pub fn first(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, PktError> {
    let mut length = 0;
    for &byte in bytes.iter().take(HEAD) {
        let digit = char::from(byte).to_digit(16).ok_or(PktError::Digits)?;
        length = length * 16 + digit as usize;
    }
    if bytes.len() < HEAD {
        return Ok(None);
    }
    match length {
        0 => Ok(Some((Frame::Flush, HEAD))),
        1..=HEAD => Err(PktError::Short(length)),
        _ if length > LINE_MAX => Err(PktError::Long(length)),
        _ => Ok(bytes.get(HEAD..length).map(|line| (Frame::Line(line), length))),
    }
}

/// Adds a line of these parts. What is over [`LINE_MAX`] is cut off: a reader would take a longer one for something else.
pub fn line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>().min(LINE_MAX - HEAD);
    out.extend_from_slice(format!("{:04x}", length + HEAD).as_bytes());
    let end = out.len() + length;
    for part in parts {
        out.extend_from_slice(&part[..part.len().min(end - out.len())]);
    }
}

/// Adds a flush.
pub fn flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let mut out = Vec::new();
        line(&mut out, &[b"unpack", b" ok\n"]);
        flush(&mut out);
        assert_eq!(out, b"000eunpack ok\n0000");
        assert_eq!(first(&out), Ok(Some((Frame::Line(b"unpack ok\n"), 14))));
        assert_eq!(first(&out[14..]), Ok(Some((Frame::Flush, 4))));
        for end in 0..14 {
            assert_eq!(first(&out[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let cases: [(&[u8], PktError); 9] = [
            (b"0001", PktError::Short(1)),
            (b"0002", PktError::Short(2)),
            (b"0003", PktError::Short(3)),
            (b"0004", PktError::Short(4)),
            (b"fff1", PktError::Long(65521)),
            (b"ffff", PktError::Long(65535)),
            (b"+123", PktError::Digits),
            (b"00x", PktError::Digits),
            (b"PACK", PktError::Digits),
        ];
        for (bytes, error) in cases {
            assert_eq!(first(bytes), Err(error), "{bytes:?}");
        }
        assert_eq!(first(b"FFF0"), Ok(None), "the longest, in capitals");
    }

    #[test]
    fn no_line_is_too_long() {
        let mut out = Vec::new();
        line(&mut out, &[&[b'a'; 40000], &[b'b'; 40000]]);
        assert_eq!((out.len(), &out[..4]), (LINE_MAX, b"fff0".as_slice()));
    }
}
