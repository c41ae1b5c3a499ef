//! The qualifiers of a search, in REST's `q` and in GraphQL's `query` (github-scope.md, section 3.5).

use std::iter::Peekable;
use std::str::Chars;

use super::denial::{Code, OutOfScope};
use super::known::Known;
use super::name::RepoName;
use super::route::Shown;
use super::target::{malformed, member};

/// The longest search, in bytes.
pub const MAX_SEARCH: usize = 4096;

/// Qualifiers that reach for more than repositories which are named one by one.
const WIDENING: [&str; 10] = [
    "org",
    "user",
    "owner",
    "enterprise",
    "saved",
    "project",
    "team",
    "team-review-requested",
    "repository",
    "network",
];

/// Whether a search finds things of the binding's repositories only. The classic and the advanced grammar both have to read it so; what
/// they could read differently is refused. Where the binding is for all repositories, a search may be about any. Gives the repositories that
/// it names, where not all are allowed.
///
/// # Errors
/// [`Code::RepoNotAllowed`] and [`Code::RepoIdentityChanged`] for a `repo:` of another, [`Code::NotAllowed`] for a search that no `repo:`
/// limits or that another qualifier widens, [`Code::Malformed`] for what has no certain reading.
pub fn check(query: &str, known: &dyn Known, all: bool) -> Result<Vec<RepoName>, OutOfScope> {
    if query.len() > MAX_SEARCH {
        return Err(malformed(format!("the search is longer than {MAX_SEARCH} bytes")));
    }
    if all {
        return Ok(Vec::new());
    }
    let mut reader = Reader {
        chars: query.chars().peekable(),
        known,
        depth: 0,
        negated: false,
        limited: false,
        alternative: false,
        names: Vec::new(),
    };
    while reader.step()? {}
    if reader.depth != 0 {
        return Err(doubt("a parenthesis is not closed"));
    }
    if reader.alternative || !reader.limited {
        return Err(OutOfScope::new(
            Code::NotAllowed,
            "a search has to name a repository of this sandbox: add repo:OWNER/NAME, outside parentheses and without OR",
        ));
    }
    Ok(reader.names)
}

fn doubt(what: &str) -> OutOfScope {
    malformed(format!("the search can be read in more than one way: {what}"))
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    known: &'a dyn Known,
    depth: u32,
    /// Whether a `NOT` or a minus stands before what comes next.
    negated: bool,
    /// Whether a `repo:` of the outermost level limits the search.
    limited: bool,
    /// Whether there is an `OR` on the outermost level.
    alternative: bool,
    /// What `repo:` names.
    names: Vec<RepoName>,
}

impl Reader<'_> {
    /// Reads one term; whether there was one.
    fn step(&mut self) -> Result<bool, OutOfScope> {
        while self.chars.next_if(|char| char.is_whitespace()).is_some() {}
        match self.chars.peek() {
            None => return Ok(false),
            Some('(') => {
                self.chars.next();
                self.depth += 1;
                self.negated = false;
            }
            Some(')') => {
                self.chars.next();
                self.depth = self.depth.checked_sub(1).ok_or_else(|| doubt("a parenthesis is not opened"))?;
                self.after_group()?;
            }
            Some('"') => {
                self.quoted()?;
                self.ends("a quoted text goes on")?;
                self.negated = false;
            }
            Some('-') => {
                self.chars.next();
                self.negated = true;
                if self.chars.peek() == Some(&'-') {
                    return Err(doubt("two signs of negation"));
                }
            }
            Some(_) => self.word()?,
        }
        Ok(true)
    }

    fn after_group(&mut self) -> Result<(), OutOfScope> {
        self.negated = false;
        self.ends("a parenthesis is followed by text")
    }

    /// A term ends where whitespace, a closing parenthesis or nothing follows.
    fn ends(&mut self, what: &str) -> Result<(), OutOfScope> {
        match self.chars.peek() {
            None | Some(')') => Ok(()),
            Some(char) if char.is_whitespace() => Ok(()),
            Some(_) => Err(doubt(what)),
        }
    }

    fn quoted(&mut self) -> Result<String, OutOfScope> {
        self.chars.next();
        let mut text = String::new();
        loop {
            match self.chars.next() {
                None => return Err(doubt("a quote is not closed")),
                Some('"') => return Ok(text),
                // Whether it escapes what follows is not said anywhere.
                Some('\\') => return Err(doubt("a backslash in quotes")),
                Some(char) => text.push(char),
            }
        }
    }

    /// The characters of a term up to a quote, a parenthesis, a colon or whitespace.
    fn plain(&mut self) -> Result<String, OutOfScope> {
        let mut text = String::new();
        let ends = |char: char| char.is_whitespace() || matches!(char, '"' | '(' | ')' | ':');
        while let Some(char) = self.chars.next_if(|char| !ends(*char)) {
            if odd(char) {
                return Err(doubt("it has a character that may stand for another"));
            }
            text.push(char);
        }
        Ok(text)
    }

    fn word(&mut self) -> Result<(), OutOfScope> {
        let text = self.plain()?;
        if text.starts_with(['/', '@']) {
            return Err(doubt("a term begins with a slash or an `@`; put it into quotes"));
        }
        if self.chars.next_if_eq(&':').is_some() {
            self.qualifier(&text)?;
        } else if self.chars.peek() == Some(&'"') {
            return Err(doubt("a quote inside a word"));
        } else {
            match text.to_ascii_uppercase().as_str() {
                "OR" | "|" | "||" => self.alternative |= self.depth == 0,
                "NOT" => {
                    self.negated = true;
                    return Ok(());
                }
                _ => {}
            }
        }
        self.negated = false;
        Ok(())
    }

    fn qualifier(&mut self, name: &str) -> Result<(), OutOfScope> {
        let name = name.to_ascii_lowercase();
        if name == "repo" {
            return self.repository();
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && scoped(&name).is_some()
        {
            return Err(doubt("a qualifier inside a word"));
        }
        if WIDENING.contains(&name.as_str()) {
            let message = format!(
                "a search of this sandbox is about repositories, each named by repo:, and not `{}:`",
                Shown(&name)
            );
            return Err(OutOfScope::new(Code::NotAllowed, message));
        }
        self.value()
    }

    /// The value of a qualifier that is not about repositories: text and quotes up to whitespace.
    fn value(&mut self) -> Result<(), OutOfScope> {
        if self.chars.peek() == Some(&'/') && self.chars.clone().any(|char| char == '"') {
            return Err(doubt("a value that begins with a slash, and quotes"));
        }
        loop {
            if self.chars.peek() == Some(&'"') {
                self.quoted()?;
                match self.chars.peek() {
                    Some(',') => {}
                    _ => return self.ends("a quoted value goes on"),
                }
            }
            let text = self.plain()?;
            match self.chars.peek() {
                Some(':') => {
                    if scoped(&text.to_ascii_lowercase()).is_some() {
                        return Err(doubt("a qualifier inside a value"));
                    }
                    self.chars.next();
                }
                Some('"') if text.ends_with(',') => {}
                Some('"') => return Err(doubt("a quote inside a value")),
                Some('(') => return Err(doubt("a parenthesis inside a value")),
                _ => return Ok(()),
            }
        }
    }

    fn repository(&mut self) -> Result<(), OutOfScope> {
        let value = if self.chars.peek() == Some(&'"') { self.quoted()? } else { self.plain()? };
        self.ends("the value of repo: goes on")?;
        let name =
            RepoName::parse(&value).map_err(|_| malformed(format!("repo:{} is not repo:OWNER/NAME", Shown(&value))))?;
        member(name.clone(), self.known, false)?;
        self.names.push(name);
        self.limited |= self.depth == 0 && !self.negated;
        self.negated = false;
        Ok(())
    }
}

/// The qualifier about repositories or owners that a text ends in.
fn scoped(text: &str) -> Option<&'static str> {
    let word = |byte: char| byte.is_ascii_alphanumeric() || matches!(byte, '-' | '_');
    let start = text.rfind(|char| !word(char)).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let name = text[start..].trim_start_matches('-');
    WIDENING.into_iter().chain(["repo"]).find(|scope| *scope == name)
}

/// Characters that a server which normalises text may take for a quote, a colon, a parenthesis, or for nothing.
fn odd(char: char) -> bool {
    char.is_control()
        || char == '\\'
        || matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(char, '\u{2018}'..='\u{201f}' | '\u{fe55}' | '\u{ff01}'..='\u{ff5e}')
}
