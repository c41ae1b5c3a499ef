//! The words of a GraphQL request. Names and signs, of which there are many, are told apart here; everything else, numbers and strings above
//! all, by `apollo-parser`'s lexer.
//!
//! Where the lexers of this world differ, the text is refused: block strings, a lone carriage return, control characters, a byte order mark.
//! So GitHub's reading is the one that was checked.

use apollo_parser::{Lexer, TokenKind};

use super::super::denial::{Code, OutOfScope};

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
}

/// The words of a text, without what stands between them.
pub(super) struct Words<'a> {
    text: &'a str,
    at: usize,
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
        Ok(Self { text, at: 0 })
    }

    /// The next word; none at the end.
    pub fn next(&mut self) -> Result<Option<Word<'a>>, OutOfScope> {
        let bytes = self.text.as_bytes();
        loop {
            while bytes.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',')) {
                self.at += 1;
            }
            let Some(&first) = bytes.get(self.at) else { return Ok(None) };
            if first.is_ascii_alphabetic() || first == b'_' {
                let name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                let length = bytes[self.at..].iter().take_while(name).count();
                return Ok(Some(self.word(TokenKind::Name, length)));
            }
            if let Some(kind) = sign(first) {
                return Ok(Some(self.word(kind, 1)));
            }
            if let Some(word) = self.lexed()? {
                return Ok(Some(word));
            }
        }
    }

    fn word(&mut self, kind: TokenKind, length: usize) -> Word<'a> {
        let text = &self.text[self.at..self.at + length];
        self.at += length;
        Word { kind, text }
    }

    /// What the lexer makes of the next characters; none for what stands between words.
    fn lexed(&mut self) -> Result<Option<Word<'a>>, OutOfScope> {
        let token = match Lexer::new(&self.text[self.at..]).next() {
            Some(Ok(token)) if !token.data().is_empty() => token,
            Some(Err(error)) => {
                return Err(malformed(format!("the query cannot be read: {}", quoted(error.message()))));
            }
            Some(Ok(_)) | None => return Err(malformed("the query cannot be read")),
        };
        let word = self.word(token.kind(), token.data().len());
        if word.kind == TokenKind::Whitespace && !word.text.is_ascii() {
            return Err(malformed("the query has a byte order mark"));
        }
        let between = matches!(word.kind, TokenKind::Whitespace | TokenKind::Comment | TokenKind::Comma);
        Ok(if between { None } else { Some(word) })
    }
}

/// The signs of one character that a request may have.
fn sign(byte: u8) -> Option<TokenKind> {
    Some(match byte {
        b'{' => TokenKind::LCurly,
        b'}' => TokenKind::RCurly,
        b'(' => TokenKind::LParen,
        b')' => TokenKind::RParen,
        b'[' => TokenKind::LBracket,
        b']' => TokenKind::RBracket,
        b':' => TokenKind::Colon,
        b'$' => TokenKind::Dollar,
        b'!' => TokenKind::Bang,
        b'=' => TokenKind::Eq,
        b'@' => TokenKind::At,
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The words as the lexer alone tells them apart; none where it cannot.
    fn alone(text: &str) -> Option<Vec<Word<'_>>> {
        let mut words = Vec::new();
        for token in Lexer::new(text) {
            let token = token.ok()?;
            let kind = token.kind();
            if kind == TokenKind::Whitespace && !token.data().is_ascii() {
                return None;
            }
            if !matches!(kind, TokenKind::Whitespace | TokenKind::Comment | TokenKind::Comma | TokenKind::Eof) {
                words.push(Word { kind, text: token.data() });
            }
        }
        Some(words)
    }

    fn here(text: &str) -> Option<Vec<Word<'_>>> {
        let (mut words, mut all) = (Words { text, at: 0 }, Vec::new());
        while let Some(word) = words.next().ok()? {
            all.push(word);
        }
        Some(all)
    }

    /// All texts of up to five of these pieces: what is told apart here is what the lexer tells apart.
    #[test]
    fn words_are_those_of_the_lexer() {
        let pieces = [
            "a", "_B", "9", "0", "-", ".5", "e1", "...", ".", "$", "{", "}", ":", "@", "!", "=", "|", "&", "\"", "\\",
            "\"x\"", "\"\"\"", "\\u0041", "\\u{41}", "#", "\n", "\r\n", " ", ",", "\u{feff}", "é",
        ];
        let (mut state, mut read) = (1u64, 0);
        for round in 0..60_000 {
            let mut text = String::new();
            for _ in 0..=round % 5 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text += pieces[usize::try_from(state >> 33).unwrap() % pieces.len()];
            }
            let expected = alone(&text);
            assert_eq!(here(&text), expected, "{text:?}");
            read += usize::from(expected.is_some());
        }
        assert!(read > 10_000, "{read}");
    }
}
