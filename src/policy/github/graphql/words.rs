//! The words of a GraphQL request, told apart by `apollo-parser`'s lexer.
//!
//! Where the lexers of this world differ, the text is refused: block strings, a lone carriage return, control characters, a byte order mark.
//! So GitHub's reading is the one that was checked.

use apollo_parser::{Lexer, Token, TokenKind};

use super::super::denial::{Code, OutOfScope};

/// The words of a text, without what stands between them.
pub(super) struct Words<'a> {
    lexer: Lexer<'a>,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a str) -> Result<Self, OutOfScope> {
        let mut before = 0;
        for byte in text.bytes() {
            let legal = !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n' | b'\r');
            if !legal || (before == b'\r' && byte != b'\n') {
                return Err(malformed("the query has a control character or a lone carriage return"));
            }
            before = byte;
        }
        Ok(Self { lexer: Lexer::new(text) })
    }

    /// The next word; none at the end.
    pub fn next(&mut self) -> Result<Option<Token<'a>>, OutOfScope> {
        loop {
            let token = match self.lexer.next() {
                Some(Ok(token)) => token,
                Some(Err(error)) => {
                    return Err(malformed(format!("the query cannot be read: {}", quoted(error.message()))));
                }
                None => return Ok(None),
            };
            let kind = token.kind();
            if kind == TokenKind::Eof {
                return Ok(None);
            }
            if kind == TokenKind::Whitespace && !token.data().is_ascii() {
                return Err(malformed("the query has a byte order mark"));
            }
            if !matches!(kind, TokenKind::Whitespace | TokenKind::Comment | TokenKind::Comma) {
                return Ok(Some(token));
            }
        }
    }
}

/// The inside of a string, where every parser reads it in the same way.
pub(super) fn string(literal: &str) -> Result<&str, OutOfScope> {
    let inner = literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let plain = inner
        .filter(|inner| !literal.starts_with("\"\"\"") && !inner.contains(['\n', '\r']) && !inner.contains("\\u{"));
    plain.ok_or_else(|| malformed("block strings and `\\u{…}` are not served in a query; give the text as a variable"))
}

pub(super) fn malformed(message: impl Into<String>) -> OutOfScope {
    OutOfScope::new(Code::Malformed, message)
}

/// A word of the document for a message: one line, not too long.
pub(super) fn quoted(word: &str) -> String {
    word.chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect()
}
