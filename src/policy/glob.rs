//! Which paths a rule is for.

use std::fmt;

use super::path;

/// A path of whole segments. `*` stands for one segment, `**` for any number of them, none included; everything else
/// stands for itself, capitals and all. So `/v1/**` is `/v1`, `/v1/a` and `/v1/a/b`, and not `/v1x`; `/*/x` is `/a/x` and
/// neither `/x` nor `/a/b/x`. A slash at the end makes no difference, in the glob or in the path; the query is not looked
/// at; escapes are compared as what they stand for, so a segment that is a star is written `%2A`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathGlob {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    One,
    Any,
    Is(Box<str>),
}

/// Why a text is no [`PathGlob`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// It does not begin with a slash.
    #[error("a path begins with `/`; write it so, such as /v1/**")]
    Start,
    /// `/v1/a*`.
    #[error("`*` and `**` stand for whole segments; write /v1/* or /v1/**, or a star that is meant as itself as %2A")]
    Inside,
    /// No request's path could be compared with it.
    #[error("the path is ambiguous: {0}; write it plainly, such as /v1/**")]
    Ambiguous(&'static str),
    /// Over 1024 bytes.
    #[error("the path is longer than 1024 bytes; shorten it with `*` or `**`")]
    Length,
}

/// The longest glob, in bytes.
const LENGTH_MAX: usize = 1024;

impl PathGlob {
    /// Parses a glob.
    ///
    /// # Errors
    /// [`GlobError`] says what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        if !text.starts_with('/') {
            return Err(GlobError::Start);
        }
        if text.len() > LENGTH_MAX {
            return Err(GlobError::Length);
        }
        path::decoded(text).map_err(GlobError::Ambiguous)?;
        let canonical = path::canonical(text).map_err(GlobError::Ambiguous)?;
        let mut parts = Vec::new();
        for segment in path::segments(&canonical).unwrap_or_default() {
            match segment {
                "*" => parts.push(Part::One),
                "**" if parts.last() == Some(&Part::Any) => {}
                "**" => parts.push(Part::Any),
                _ if segment.contains('*') => return Err(GlobError::Inside),
                _ => parts.push(Part::Is(path::decode(segment).into())),
            }
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is every path, `/**`.
    pub(super) fn is_every(&self) -> bool {
        self.parts == [Part::Any]
    }

    /// Whether it is for a path of these segments.
    pub(super) fn matches(&self, segments: &[&str]) -> bool {
        glob(&self.parts, segments, |part, segment| match part {
            Part::One | Part::Any => true,
            Part::Is(text) => **text == **segment,
        })
    }

    /// Whether every path of `other` is one of this. It may say no where that would take more than one look to tell.
    pub(super) fn covers(&self, other: &Self) -> bool {
        glob(&self.parts, &other.parts, |part, other| match part {
            Part::Any => true,
            Part::One => *other != Part::Any,
            Part::Is(_) => part == other,
        })
    }
}

impl PathGlob {
    /// Whether some path could be one of both. It may say yes where none is.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        let (mut one, mut two) = (self.parts.as_slice(), other.parts.as_slice());
        loop {
            match (one, two) {
                ([Part::Any, ..], _) | (_, [Part::Any, ..]) => return true,
                ([], []) => return true,
                ([], [_, ..]) | ([_, ..], []) => return false,
                ([Part::Is(a), ..], [Part::Is(b), ..]) if a != b => return false,
                ([_, rest @ ..], [_, other @ ..]) => (one, two) = (rest, other),
            }
        }
    }

    /// A path that it is for, with these segments for `**` and `*`; an empty one is none.
    pub(super) fn example(&self, any: &str, one: &str) -> String {
        let segment = |part: &Part| match part {
            Part::Any => any.to_owned(),
            Part::One => one.to_owned(),
            Part::Is(text) => path::encode(text),
        };
        let segments = self.parts.iter().map(segment).filter(|segment| !segment.is_empty());
        format!("/{}", segments.collect::<Vec<_>>().join("/"))
    }
}

/// `Any` takes as few symbols as it can; when it later turns out that it took too few, the last one takes one more. That
/// is enough, since whatever an earlier one could take more, the last one can take instead.
fn glob<T>(parts: &[Part], symbols: &[T], takes: impl Fn(&Part, &T) -> bool) -> bool {
    let (mut part, mut symbol) = (0, 0);
    let mut last_any = None;
    while symbol < symbols.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                last_any = Some((part, symbol));
                part += 1;
            }
            Some(other) if takes(other, &symbols[symbol]) => {
                part += 1;
                symbol += 1;
            }
            Some(_) | None => {
                let Some((any, from)) = last_any else { return false };
                last_any = Some((any, from + 1));
                part = any + 1;
                symbol = from + 1;
            }
        }
    }
    parts[part..].iter().all(|part| *part == Part::Any)
}

impl fmt::Display for PathGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(glob: &str, path: &str) -> bool {
        let decoded = path::decoded(path).unwrap();
        path::segments(&decoded).is_some_and(|segments| PathGlob::parse(glob).unwrap().matches(&segments))
    }

    macro_rules! globs {
        ($($name:ident: $glob:expr, $path:expr => $want:expr;)*) => { $(
            #[test]
            fn $name() {
                assert_eq!(matches($glob, $path), $want);
            }
        )* };
    }

    globs! {
        plain: "/v1/models", "/v1/models" => true;
        plain_other: "/v1/models", "/v1/model" => false;
        plain_longer: "/v1", "/v1/models" => false;
        plain_shorter: "/v1/models", "/v1" => false;
        plain_begins_alike: "/v1", "/v1x" => false;
        plain_capitals: "/v1", "/V1" => false;
        root: "/", "/" => true;
        root_of_nothing: "/", "" => true;
        root_is_not_everything: "/", "/a" => false;
        slash_at_the_end_of_the_path: "/v1", "/v1/" => true;
        slash_at_the_end_of_the_glob: "/v1/", "/v1" => true;
        star: "/v1/*", "/v1/a" => true;
        star_needs_a_segment: "/v1/*", "/v1" => false;
        star_needs_more_than_a_slash: "/v1/*", "/v1/" => false;
        star_is_one_segment: "/v1/*", "/v1/a/b" => false;
        star_in_the_middle: "/*/x", "/a/x" => true;
        star_in_the_middle_is_one: "/*/x", "/a/b/x" => false;
        star_in_the_middle_is_not_none: "/*/x", "/x" => false;
        two_stars: "/*/*", "/a/b" => true;
        two_stars_one_segment: "/*/*", "/a" => false;
        stars_at_the_end: "/v1/**", "/v1/a/b/c" => true;
        stars_at_the_end_one: "/v1/**", "/v1/a" => true;
        stars_at_the_end_none: "/v1/**", "/v1" => true;
        stars_at_the_end_slash: "/v1/**", "/v1/" => true;
        stars_at_the_end_begins_alike: "/v1/**", "/v1x/a" => false;
        stars_at_the_end_other: "/v1/**", "/v2/a" => false;
        stars_in_the_middle: "/a/**/z", "/a/b/c/z" => true;
        stars_in_the_middle_none: "/a/**/z", "/a/z" => true;
        stars_in_the_middle_other: "/a/**/z", "/a/b/c" => false;
        stars_in_the_middle_longer: "/a/**/z", "/a/z/b" => false;
        stars_take_the_last: "/a/**/z", "/a/z/b/z" => true;
        stars_at_the_beginning: "/**/z", "/a/b/z" => true;
        stars_at_the_beginning_none: "/**/z", "/z" => true;
        stars_twice: "/**/b/**/d", "/a/b/c/d" => true;
        stars_twice_in_order: "/**/d/**/b", "/a/b/c/d" => false;
        stars_twice_overlapping: "/**/a/b/**/a/c", "/a/b/a/b/a/c" => true;
        stars_and_star: "/**/*", "/a" => true;
        stars_and_star_need_one: "/**/*", "/" => false;
        stars_and_star_at_the_end: "/a/**/*", "/a" => false;
        stars_side_by_side: "/**/**", "/" => true;
        everything: "/**", "/a/b" => true;
        everything_root: "/**", "/" => true;
        asterisk_is_no_path: "/a/**", "*" => false;
        escape_of_a_letter: "/v1", "/%76%31" => true;
        escape_in_the_glob: "/%76%31", "/v1" => true;
        escape_of_a_plus: "/a+b", "/a%2Bb" => true;
        escape_in_lower_case: "/a%2bb", "/a%2Bb" => true;
        escape_of_a_space: "/a b", "/a%20b" => true;
        escape_of_a_comma: "/a%2Cb", "/a%2cb" => true;
        escape_of_a_percent_sign: "/100%25", "/100%25" => true;
        umlaut: "/\u{fc}", "/%C3%BC" => true;
        escaped_star_is_itself: "/%2A", "/*" => true;
        escaped_star_is_no_wildcard: "/%2A", "/a" => false;
        escaped_stars_are_no_wildcard: "/%2A%2A", "/a/b" => false;
        dots_inside: "/a..b/.c", "/a..b/.c" => true;
    }

    macro_rules! refused {
        ($($name:ident: $glob:expr => $want:expr;)*) => { $(
            #[test]
            fn $name() {
                assert_eq!(PathGlob::parse($glob).map(|glob| glob.text), Err($want));
            }
        )* };
    }

    refused! {
        no_slash: "v1/**" => GlobError::Start;
        only_stars: "**" => GlobError::Start;
        url: "https://a.test/v1" => GlobError::Start;
        star_behind_a_letter: "/v1/a*" => GlobError::Inside;
        star_before_a_letter: "/*.json" => GlobError::Inside;
        three_stars: "/***" => GlobError::Inside;
        stars_inside: "/a**b" => GlobError::Inside;
        dot_segments: "/v1/../**" => GlobError::Ambiguous("a dot segment");
        encoded_dots: "/v1/%2e%2e" => GlobError::Ambiguous("an encoded dot");
        encoded_slash: "/v1%2Fx" => GlobError::Ambiguous("an encoded slash");
        backslash: "/v1\\x" => GlobError::Ambiguous("a backslash");
        parameter: "/v1;x" => GlobError::Ambiguous("a `;` parameter");
        query: "/v1?x=*" => GlobError::Ambiguous("a query or fragment inside the path");
        repeated_slash: "/v1//x" => GlobError::Ambiguous("a repeated slash");
        repeated_slash_at_the_end: "/v1//" => GlobError::Ambiguous("a repeated slash");
        double_encoding: "/%2541" => GlobError::Ambiguous("double encoding");
        control: "/a\nb" => GlobError::Ambiguous("a control character");
        half_an_escape: "/a%2" => GlobError::Ambiguous("a percent sign without two hexadecimal digits");
    }

    #[test]
    fn a_glob_has_a_bound() {
        assert!(PathGlob::parse(&format!("/{}", "a".repeat(1023))).is_ok());
        assert_eq!(PathGlob::parse(&format!("/{}", "a".repeat(1024))), Err(GlobError::Length));
    }

    #[test]
    fn covering() {
        let covers = |one, two| PathGlob::parse(one).unwrap().covers(&PathGlob::parse(two).unwrap());
        for (one, two, want) in [
            ("/v1", "/v1/", true),
            ("/v1/**", "/v1", true),
            ("/v1/**", "/v1/*/x", true),
            ("/v1/**", "/v1/**/x", true),
            ("/v1/**", "/v2", false),
            ("/v1/*", "/v1/a", true),
            ("/v1/*", "/v1/**", false),
            ("/v1/a", "/v1/*", false),
            ("/**", "/a/**/b", true),
            ("/**/b", "/a/**/b", true),
            ("/**/b", "/a/**", false),
            ("/a/**", "/**", false),
        ] {
            assert_eq!(covers(one, two), want, "{one} {two}");
        }
    }

    #[test]
    fn what_cannot_meet() {
        let meet = |one, two| PathGlob::parse(one).unwrap().may_meet(&PathGlob::parse(two).unwrap());
        for (one, two, want) in [
            ("/v1", "/v2", false),
            ("/v1", "/v1/*", false),
            ("/*/a", "/v1/b", false),
            ("/*/a", "/v1/*", true),
            ("/v1/**", "/v2/**", false),
            ("/v1/**", "/v1", true),
        ] {
            assert_eq!((meet(one, two), meet(two, one)), (want, want), "{one} {two}");
        }
    }

    /// What is said to cover, covers; and the walk agrees with a search that tries everything.
    #[test]
    fn random_globs_agree_with_a_search() {
        fn search(parts: &[Part], segments: &[&str]) -> bool {
            match (parts, segments) {
                ([], []) => true,
                ([Part::Any, rest @ ..], _) => {
                    search(rest, segments) || (!segments.is_empty() && search(parts, &segments[1..]))
                }
                ([Part::One, rest @ ..], [_, more @ ..]) => search(rest, more),
                ([Part::Is(text), rest @ ..], [first, more @ ..]) => **text == **first && search(rest, more),
                (_, _) => false,
            }
        }
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let (mut matched, mut covered, mut met) = (0, 0, 0);
        for _ in 0..20_000 {
            let mut text = |pieces: &[&'static str]| {
                (0..below(6)).fold(String::new(), |text, _| text + "/" + pieces[below(pieces.len())])
            };
            let globs = [text(&["a", "b", "*", "**"]), text(&["a", "b", "*", "**"])];
            let [one, two] = globs.map(|text| PathGlob::parse(&format!("{text}/")).unwrap());
            let path = text(&["a", "b"]) + "/";
            let segments = path::segments(&path).unwrap();
            assert_eq!(one.matches(&segments), search(&one.parts, &segments), "{one} {path}");
            matched += usize::from(one.matches(&segments));
            if one.covers(&two) && two.matches(&segments) {
                covered += 1;
                assert!(one.matches(&segments), "{one} {two} {path}");
            }
            if one.matches(&segments) && two.matches(&segments) {
                met += 1;
                assert!(one.may_meet(&two) && two.may_meet(&one), "{one} {two} {path}");
            }
            for any in ["", "b"] {
                let example = one.example(any, "a");
                assert!(one.matches(&path::segments(&example).unwrap()), "{one} {example}");
            }
        }
        assert!(matched > 1_000 && covered > 300 && met > 300, "{matched} {covered} {met}");
    }
}
