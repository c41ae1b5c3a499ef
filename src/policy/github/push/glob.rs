//! Which refs a push rule is for.

use super::refs;

/// A pattern of refs: `*` stands for any characters but `/`, `**` for any characters, `/` included; both for none, too. All
/// else stands for itself, capitals and all. So `agent/*` is `agent/a` and not `agent/a/b`, and `agent/**` is both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefGlob {
    text: Box<str>,
    parts: Box<[Part]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    /// `*`.
    Within,
    /// `**`.
    Across,
}

/// The longest pattern, in bytes.
const LENGTH_MAX: usize = 256;

impl RefGlob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > LENGTH_MAX {
            return Err("a pattern has 1 to 256 bytes");
        }
        if text.contains("***") {
            return Err("`*` and `**` are all the wildcards there are");
        }
        refs::check_name(&text.replace('*', "x"))
            .map_err(|_| "no ref has such a name; wildcards are `*` and `**` only")?;
        let mut bytes = text.bytes().peekable();
        let mut parts = Vec::new();
        while let Some(byte) = bytes.next() {
            parts.push(match byte {
                b'*' if bytes.next_if_eq(&b'*').is_some() => Part::Across,
                b'*' => Part::Within,
                byte => Part::Byte(byte),
            });
        }
        Ok(Self { text: text.into(), parts: parts.into() })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is for this name. It takes time proportional to both lengths at worst.
    pub fn matches(&self, name: &str) -> bool {
        // Which parts may come next; a wildcard may always be passed over, so the part behind it may, too.
        let mut live = vec![false; self.parts.len() + 1];
        self.enter(&mut live, 0);
        for byte in name.bytes() {
            let mut next = vec![false; live.len()];
            for (at, part) in self.parts.iter().enumerate().filter(|(at, _)| live[*at]) {
                match *part {
                    Part::Byte(own) if own == byte => self.enter(&mut next, at + 1),
                    Part::Within if byte != b'/' => self.enter(&mut next, at),
                    Part::Across => self.enter(&mut next, at),
                    Part::Byte(_) | Part::Within => {}
                }
            }
            live = next;
        }
        live[self.parts.len()]
    }

    fn enter(&self, live: &mut [bool], mut at: usize) {
        live[at] = true;
        while matches!(self.parts.get(at), Some(Part::Within | Part::Across)) {
            at += 1;
            live[at] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_what_they_say() {
        let cases = [
            ("main", "main", true),
            ("main", "main2", false),
            ("main", "Main", false),
            ("agent/*", "agent/a", true),
            ("agent/*", "agent/a/b", false),
            ("agent/*", "agent", false),
            ("agent/**", "agent/a", true),
            ("agent/**", "agent/a/b", true),
            ("agent/**", "agent", false),
            ("agent/**", "agents/a", false),
            ("agent/**", "x/agent/a", false),
            ("*", "main", true),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("release-*", "release-", true),
            ("*-x-*", "a-x-x-b", true),
            ("*-x", "a-x-y", false),
            ("**/fix", "a/b/fix", true),
            ("**/fix", "fix", false),
            ("a*b*c", "aXbXbXc", true),
            ("a**b/*", "a/x/b/c", true),
        ];
        for (glob, name, matches) in cases {
            assert_eq!(RefGlob::parse(glob).unwrap().matches(name), matches, "{glob} {name}");
        }
    }

    #[test]
    fn a_glob_that_looks_costly_is_not() {
        let glob = RefGlob::parse(&"*a".repeat(100)).unwrap();
        assert!(!glob.matches(&format!("{}b", "a".repeat(1000))));
    }

    #[test]
    fn what_is_no_glob_is_refused() {
        for text in ["", "a?", "[ab]", "a b", "/main", "main/", "a//b", "***", "\\*", &"a".repeat(257)] {
            assert!(RefGlob::parse(text).is_err(), "{text}");
        }
    }
}
