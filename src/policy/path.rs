//! The canonical form of a path, in which rules and bindings look at it, and what makes a path ambiguous.

use std::borrow::Cow;

/// The path in the one spelling in which prefixes are compared: escapes of unreserved characters are decoded and other
/// escapes are in capitals (RFC 3986 section 6.2.2), and bytes that a path may not hold raw are escaped.
///
/// Repeated slashes stay as they are. They are not ambiguous for a plain prefix that holds none itself: whether a server
/// merges them or not, the path begins with the prefix in both readings or in neither that matters, as merging takes
/// away only slashes behind the prefix.
///
/// # Errors
/// What is ambiguous: servers differ in what such a path means (dot segments, encoded dots, slashes and backslashes, `;`
/// parameters, double encoding, NUL and other control characters, overlong UTF-8), and characters that a server which
/// normalises text (NFKC, or a code page's "best fit") makes one of these out of.
pub(super) fn canonical(path: &str) -> Result<Cow<'_, str>, &'static str> {
    if path == "*" {
        return Ok(Cow::Borrowed(path));
    }
    if !path.is_empty() && !path.starts_with('/') {
        return Err("it does not begin with a slash");
    }
    let canonical = if path.is_empty() {
        Cow::Borrowed("/")
    } else if path.bytes().all(|byte| PLAIN[usize::from(byte)]) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(respell(path.as_bytes())?)
    };
    if canonical.contains("/.") && canonical.split('/').any(|segment| matches!(before_mark(segment), "." | "..")) {
        return Err("a dot segment");
    }
    Ok(canonical)
}

/// What a server that decodes a path, and then reads it once more, takes for the end of the segment: the text before an
/// escaped `#` or `?`.
fn before_mark(segment: &str) -> &str {
    let end = [segment.find("%23"), segment.find("%3F")].into_iter().flatten().min();
    &segment[..end.unwrap_or(segment.len())]
}

/// The path as the segments of rules are compared with it: the canonical form with every escape decoded, which no longer
/// can add or take away a slash. Here a repeated slash is ambiguous, too: a server that merges slashes sees other segments
/// than one that does not. So is an encoded `#` or `?`, at which a server that reads a path twice ends it.
///
/// # Errors
/// What is ambiguous: all that [`canonical`] names, repeated slashes, and an encoded `#` or `?`.
pub(super) fn decoded(path: &str) -> Result<Cow<'_, str>, &'static str> {
    let canonical = canonical(path)?;
    if canonical.contains("//") {
        return Err("a repeated slash");
    }
    if canonical.contains("%23") || canonical.contains("%3F") {
        return Err("an encoded `#` or `?`");
    }
    Ok(if canonical.contains('%') { Cow::Owned(decode(&canonical)) } else { canonical })
}

/// The segments of a [`decoded`] path. A slash at the end makes none, so the root has none; the target `*` of OPTIONS is no
/// path and has no segments.
pub(super) fn segments(decoded: &str) -> Option<Vec<&str>> {
    let inside = decoded.strip_prefix('/')?;
    let inside = inside.strip_suffix('/').unwrap_or(inside);
    Some(if inside.is_empty() { Vec::new() } else { inside.split('/').collect() })
}

/// Every escape of a canonical path, or of a part of one, as what it stands for.
pub(super) fn decode(canonical: &str) -> String {
    let mut bytes = Vec::with_capacity(canonical.len());
    let mut rest = canonical.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = if *first == b'%' { unescape(tail) } else { None };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A decoded segment as it is written in a path.
pub(super) fn encode(segment: &str) -> String {
    let mut text = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if PLAIN[usize::from(byte)] { text.push(char::from(byte)) } else { text.push_str(&format!("%{byte:02X}")) }
    }
    text
}

fn respell(path: &[u8]) -> Result<String, &'static str> {
    let mut text = String::with_capacity(path.len() + 16);
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let (byte, escaped) = match first {
            b'%' => (unescape(tail).ok_or("a percent sign without two hexadecimal digits")?, true),
            _ => (*first, false),
        };
        rest = if escaped { &tail[2..] } else { tail };
        refuse_byte(byte, escaped)?;
        decoded.push(byte);
        if is_unreserved(byte) || (!escaped && PLAIN[usize::from(byte)]) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    let decoded = std::str::from_utf8(&decoded).map_err(|_| "bytes that are not UTF-8")?;
    decoded.chars().filter(|c| !c.is_ascii()).try_for_each(refuse_look_alike)?;
    if has_double_encoding(text.as_bytes()) {
        return Err("double encoding");
    }
    Ok(text)
}

fn refuse_byte(byte: u8, escaped: bool) -> Result<(), &'static str> {
    match byte {
        0 => Err("a NUL character"),
        0x01..=0x1f | 0x7f => Err("a control character"),
        b'\\' => Err("a backslash"),
        b';' => Err("a `;` parameter"),
        b'.' if escaped => Err("an encoded dot"),
        b'/' if escaped => Err("an encoded slash"),
        b'?' | b'#' if !escaped => Err("a query or fragment inside the path"),
        _ => Ok(()),
    }
}

/// Every character that Unicode's NFKC turns into text with a slash, a backslash, a `;` or a `%`, or into one or two dots,
/// and those that Windows code pages fit to a slash, a backslash or a `%`. Three dots are no dot segment, and a dot behind a digit or
/// letter makes none, so these pass.
fn refuse_look_alike(c: char) -> Result<(), &'static str> {
    match c {
        '\u{2024}' | '\u{2025}' | '\u{fe30}' | '\u{fe52}' | '\u{ff0e}' => Err("a character that may be read as a dot"),
        '\u{2044}' | '\u{2100}' | '\u{2101}' | '\u{2105}' | '\u{2106}' | '\u{2215}' | '\u{ff0f}' => {
            Err("a character that may be read as a slash")
        }
        // The signs of yen and won stand where Japanese and Korean code pages have the backslash.
        '\u{a5}' | '\u{20a9}' | '\u{2216}' | '\u{fe68}' | '\u{ff3c}' => {
            Err("a character that may be read as a backslash")
        }
        '\u{37e}' | '\u{fe14}' | '\u{fe54}' | '\u{ff1b}' => Err("a character that may be read as a `;`"),
        '\u{66a}' | '\u{fe6a}' | '\u{ff05}' => Err("a character that may be read as a percent sign"),
        _ => Ok(()),
    }
}

fn unescape(tail: &[u8]) -> Option<u8> {
    let digit = |i: usize| tail.get(i).and_then(|&b| char::from(b).to_digit(16));
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// `%25` and two digits decode to an escape, which a second decoder would decode again.
fn has_double_encoding(canonical: &[u8]) -> bool {
    canonical.windows(5).any(|w| w.starts_with(b"%25") && w[3].is_ascii_hexdigit() && w[4].is_ascii_hexdigit())
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What a path holds as it is: `pchar` of RFC 3986 and the slash, without the `;` and the escapes. A table, as every
/// byte of every path of a bound host is looked up in it.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = is_unreserved(byte as u8)
            || matches!(
                byte as u8,
                b'/' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'=' | b':' | b'@'
            );
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! paths {
        ($($name:ident: $path:expr => $want:expr;)*) => { $(
            #[test]
            fn $name() {
                assert_eq!(canonical($path), $want.map(Cow::Borrowed));
            }
        )* };
    }

    paths! {
        plain: "/v1/chat" => Ok("/v1/chat");
        empty_is_the_root: "" => Ok("/");
        asterisk: "*" => Ok("*");
        unreserved_is_decoded: "/%76%31/%7Ea" => Ok("/v1/~a");
        other_escapes_are_capitals: "/a%2b%20b" => Ok("/a%2B%20b");
        raw_bytes_are_escaped: "/a b|\u{fc}" => Ok("/a%20b%7C%C3%BC");
        repeated_slashes_stay: "/v1//x" => Ok("/v1//x");
        dots_inside_a_segment: "/a..b/.c/d./..." => Ok("/a..b/.c/d./...");
        a_percent_sign: "/100%25/x" => Ok("/100%25/x");
        one_dot: "/a/./b" => Err("a dot segment");
        two_dots: "/v1/../admin" => Err("a dot segment");
        two_dots_at_the_end: "/v1/.." => Err("a dot segment");
        encoded_dots: "/v1/%2e%2E/admin" => Err("an encoded dot");
        half_encoded_dots: "/v1/.%2e/admin" => Err("an encoded dot");
        dots_before_an_encoded_fragment: "/v1/..%23x" => Err("a dot segment");
        dots_before_an_encoded_query: "/v1/..%3fx/y" => Err("a dot segment");
        a_dot_before_both: "/v1/.%3F%23" => Err("a dot segment");
        encoded_marks_elsewhere: "/tags/c%23/a..%3fb" => Ok("/tags/c%23/a..%3Fb");
        encoded_slash: "/v1%2fadmin" => Err("an encoded slash");
        encoded_backslash: "/v1/..%5cadmin" => Err("a backslash");
        backslash: "/v1\\..\\admin" => Err("a backslash");
        parameter: "/v1/..;/admin" => Err("a `;` parameter");
        encoded_parameter: "/v1/..%3b/admin" => Err("a `;` parameter");
        double_encoding: "/v1/%252e%252e/admin" => Err("double encoding");
        double_encoding_in_parts: "/v1/%25%32e/admin" => Err("double encoding");
        encoded_nul: "/v1/x%00.png" => Err("a NUL character");
        nul: "/v1/x\0" => Err("a NUL character");
        encoded_line_break: "/v1/x%0d%0aHost:y" => Err("a control character");
        delete: "/v1/\u{7f}" => Err("a control character");
        overlong_dot: "/v1/%c0%ae%c0%ae/admin" => Err("bytes that are not UTF-8");
        half_an_escape: "/v1/%2" => Err("a percent sign without two hexadecimal digits");
        iis_escape: "/v1/%u002e/" => Err("a percent sign without two hexadecimal digits");
        full_width_dots: "/v1/\u{ff0e}\u{ff0e}/admin" => Err("a character that may be read as a dot");
        encoded_full_width_dots: "/v1/%EF%BC%8E%ef%bc%8e/admin" => Err("a character that may be read as a dot");
        half_full_width_dots: "/v1/.%EF%BC%8E/admin" => Err("a character that may be read as a dot");
        one_dot_leader: "/v1/%E2%80%A4%E2%80%A4/admin" => Err("a character that may be read as a dot");
        two_dot_leader: "/v1/%E2%80%A5/admin" => Err("a character that may be read as a dot");
        full_width_slash: "/v1/..%EF%BC%8Fadmin" => Err("a character that may be read as a slash");
        division_slash: "/v1/..\u{2215}admin" => Err("a character that may be read as a slash");
        fraction_slash: "/v1/..%E2%81%84admin" => Err("a character that may be read as a slash");
        care_of: "/v1/%E2%84%85" => Err("a character that may be read as a slash");
        full_width_backslash: "/v1/..%EF%BC%BCadmin" => Err("a character that may be read as a backslash");
        yen: "/v1/..%C2%A5admin" => Err("a character that may be read as a backslash");
        greek_question_mark: "/v1/..%CD%BE/admin" => Err("a character that may be read as a `;`");
        full_width_percent: "/v1/%EF%BC%852e%EF%BC%852e/admin" => Err("a character that may be read as a percent sign");
        ellipsis: "/v1/more\u{2026}" => Ok("/v1/more%E2%80%A6");
        numbered: "/v1/%E2%92%88" => Ok("/v1/%E2%92%88");
        ideographic_full_stop: "/v1/%E3%80%82" => Ok("/v1/%E3%80%82");
        fragment: "/v1/#/../admin" => Err("a query or fragment inside the path");
        no_slash: "v1/x" => Err("it does not begin with a slash");
    }

    #[test]
    fn rules_see_segments() {
        let see = |path| decoded(path).map(|text| segments(&text).map(|parts| parts.join("|")));
        for (path, want) in [
            ("/", ""),
            ("", ""),
            ("/a/b", "a|b"),
            ("/a/b/", "a|b"),
            ("/%61/b%2Bc", "a|b+c"),
            ("/a%40b/%25", "a@b|%"),
            ("/caf\u{e9}", "caf\u{e9}"),
            ("/caf%C3%A9", "caf\u{e9}"),
            ("/%2A", "*"),
        ] {
            assert_eq!(see(path), Ok(Some(want.to_owned())), "{path}");
        }
        assert_eq!(see("*"), Ok(None));
        for path in ["//", "//a", "/a//b", "/a//"] {
            assert_eq!(see(path), Err("a repeated slash"), "{path}");
        }
        for path in ["/admin%3fx", "/admin%23"] {
            assert_eq!(see(path), Err("an encoded `#` or `?`"), "{path}");
        }
        assert_eq!(see("/a/../b"), Err("a dot segment"));
    }

    /// Whatever is taken has one canonical form, and no reading of it leaves the place it seems to name.
    #[test]
    fn canonical_is_final_and_free_of_traversal() {
        const PIECES: [&str; 14] =
            ["/", "//", "a", ".", "..", "%2e", "%2F", "%25", "2e", "%41", "\\", ";", "\u{fc}", "%c3%bc"];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut taken = 0;
        for _ in 0..20_000 {
            let mut path = "/".to_owned();
            for _ in 0..6 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                path.push_str(PIECES[(state >> 33) as usize % PIECES.len()]);
            }
            let Ok(text) = canonical(&path) else { continue };
            taken += 1;
            assert_eq!(canonical(&text).as_deref(), Ok(&*text), "{path}");
            let once = decode(&text);
            let twice = decode(&once);
            for reading in [&once, &twice] {
                let climbs = reading.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."));
                assert!(!climbs && reading.matches('/').count() == path.matches('/').count(), "{path} {reading}");
            }
        }
        assert!(taken > 500, "{taken}");
    }
}
