//! The ways in which servers write a value.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// Below this many characters, base64 and hexadecimal digits are not looked for: they would be found by chance.
const LEAST: usize = 8;

type Text = Zeroizing<Vec<u8>>;

/// Adds the spellings of a value that are not there yet: itself; percent-encoded; as JSON and HTML write it; in hexadecimal
/// digits; and what is always the same of its base64, whatever stands before and behind it. Of that, up to four bits of the
/// value at either end depend on its neighbours, and are not looked for.
pub fn add(value: &[u8], all: &mut Vec<Text>) {
    let mut texts = Texts { all, scratch: Zeroizing::new(Vec::with_capacity(6 * value.len())) };
    texts.add(value);
    for capitals in [true, false] {
        for plain in PLAIN {
            texts.spell(value, |byte, out| percent(byte, plain, capitals, out));
        }
        for slash in [false, true] {
            for markup in MARKUP {
                texts.json(value, &Json { capitals, slash, markup, ascii: false });
                texts.json(value, &Json { capitals, slash, markup, ascii: true });
            }
        }
        if 2 * value.len() >= LEAST {
            texts.spell(value, |byte, out| digits(byte, capitals, out));
        }
    }
    for quotes in QUOTES {
        texts.spell(value, |byte, out| html(byte, quotes, out));
    }
    for before in 0..3 {
        texts.base64(value, before, &STANDARD_NO_PAD);
        texts.base64(value, before, &URL_SAFE_NO_PAD);
    }
}

/// What stands for itself beside letters and digits: RFC 3986, encodeURIComponent, forms, paths, encodeURI, nothing. The last one
/// writes letters and digits as numbers, too.
const PLAIN: [&[u8]; 6] = [b"-_.~", b"-_.!~*'()", b"*-._+", b"-_.~/", b"-_.!~*'();/?:@&=+$,#", b""];
/// What JSON for web pages writes as numbers: nothing, Go's choice, Gson's.
const MARKUP: [&[u8]; 3] = [b"", b"<>&", b"<>&='"];
/// How HTML writes `"` and `'`.
const QUOTES: [[&[u8]; 2]; 7] = [
    [b"\"", b"'"],
    [b"&quot;", b"'"],
    [b"&quot;", b"&#39;"],
    [b"&quot;", b"&#x27;"],
    [b"&quot;", b"&#039;"],
    [b"&quot;", b"&apos;"],
    [b"&#34;", b"&#39;"],
];

struct Json {
    capitals: bool,
    slash: bool,
    markup: &'static [u8],
    ascii: bool,
}

struct Texts<'a> {
    all: &'a mut Vec<Text>,
    /// Long enough for the longest spelling, so that it never grows and leaves a copy behind.
    scratch: Text,
}

impl Texts<'_> {
    fn add(&mut self, text: &[u8]) {
        if !text.is_empty() && !self.all.iter().any(|known| known[..] == *text) {
            self.all.push(Zeroizing::new(text.to_vec()));
        }
    }

    fn add_scratch(&mut self) {
        let scratch = std::mem::take(&mut self.scratch);
        self.add(&scratch);
        self.scratch = scratch;
        self.scratch.clear();
    }

    fn spell(&mut self, value: &[u8], write: impl Fn(u8, &mut Vec<u8>)) {
        value.iter().for_each(|byte| write(*byte, &mut self.scratch));
        self.add_scratch();
    }

    /// RFC 8259 section 7. What is no UTF-8 has no such spelling.
    fn json(&mut self, value: &[u8], style: &Json) {
        let Ok(text) = std::str::from_utf8(value) else { return };
        let out = &mut *self.scratch;
        for character in text.chars() {
            match character {
                '"' | '\\' => out.extend([b'\\', character as u8]),
                '\t' => out.extend(b"\\t"),
                '/' if style.slash => out.extend(b"\\/"),
                ascii if ascii.is_ascii() && !style.markup.contains(&(ascii as u8)) => out.push(ascii as u8),
                wide if !wide.is_ascii() && !style.ascii => {
                    out.extend(wide.encode_utf8(&mut [0; 4]).as_bytes());
                }
                other => {
                    for unit in other.encode_utf16(&mut [0; 2]) {
                        out.extend(b"\\u");
                        unit.to_be_bytes().iter().for_each(|byte| digits(*byte, style.capitals, out));
                    }
                }
            }
        }
        self.add_scratch();
    }

    /// The characters that stand for bits of the value alone, `before` bytes (modulo 3) behind the beginning of the text.
    fn base64(&mut self, value: &[u8], before: usize, engine: &impl Engine) {
        let whole = before + value.len();
        let mut padded = Zeroizing::new(vec![0; before]);
        padded.reserve_exact(value.len());
        padded.extend_from_slice(value);
        let mut encoded = Zeroizing::new(vec![0; whole.div_ceil(3) * 4]);
        let (from, to) = ((before * 8).div_ceil(6), whole * 8 / 6);
        if to >= from + LEAST && engine.encode_slice(&padded, &mut encoded).is_ok() {
            self.add(&encoded[from..to]);
        }
    }
}

fn percent(byte: u8, plain: &[u8], capitals: bool, out: &mut Vec<u8>) {
    let letter = byte.is_ascii_alphanumeric() && !plain.is_empty();
    match byte {
        // Forms write a space as a plus, and a plus as a number.
        b' ' if plain == PLAIN[2] => out.push(b'+'),
        b'+' if plain == PLAIN[2] => number(byte, capitals, out),
        _ if letter || plain.contains(&byte) => out.push(byte),
        _ => number(byte, capitals, out),
    }
}

fn number(byte: u8, capitals: bool, out: &mut Vec<u8>) {
    out.push(b'%');
    digits(byte, capitals, out);
}

fn digits(byte: u8, capitals: bool, out: &mut Vec<u8>) {
    let alphabet = if capitals { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    out.extend([alphabet[usize::from(byte >> 4)], alphabet[usize::from(byte & 15)]]);
}

fn html(byte: u8, [double, single]: [&[u8]; 2], out: &mut Vec<u8>) {
    match byte {
        b'&' => out.extend(b"&amp;"),
        b'<' => out.extend(b"&lt;"),
        b'>' => out.extend(b"&gt;"),
        b'"' => out.extend(double),
        b'\'' => out.extend(single),
        _ => out.push(byte),
    }
}
