//! What is wrong with a policy, and where.

use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file.
    File {
        /// The name the file was given by.
        name: Arc<str>,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// In an option of the command line.
    Option {
        /// Such as `--allow`.
        name: &'static str,
        /// Its value; empty for an option without one.
        value: String,
    },
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// One mistake of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub hint: String,
}

/// Every mistake of a policy: never empty, in the order of files and lines, options last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

/// Something that is permitted and probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// What, and what follows from it.
    pub what: String,
}

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Collector(Vec<Mistake>);

impl Mistakes {
    /// The mistakes.
    pub fn as_slice(&self) -> &[Mistake] {
        &self.0
    }
}

impl Collector {
    pub(super) fn add(&mut self, place: &Place, what: impl Into<String>, hint: impl Into<String>) {
        self.0.push(Mistake { place: place.clone(), what: what.into(), hint: hint.into() });
    }

    /// Adds an error about a value whose text is `what; what would be right`, as the typed errors of this module are
    /// worded. The value is not repeated where the place shows it.
    pub(super) fn add_error(&mut self, at: &At<String>, error: &dyn fmt::Display) {
        let text = error.to_string();
        let (what, hint) = text.split_once("; ").unwrap_or((&text, ""));
        let shown = matches!(&at.place, Place::Option { value, .. } if *value == at.value);
        let subject = if shown { String::new() } else { format!("{}: ", quoted(&at.value)) };
        self.add(&at.place, format!("{subject}{what}"), hint);
    }

    /// `value`, if there was no mistake.
    pub(super) fn finish<T>(mut self, order: &[Arc<str>], value: T) -> Result<T, Mistakes> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|mistake| match &mistake.place {
            Place::File { name, line, column } => {
                (order.iter().position(|known| known == name).unwrap_or(order.len()), *line, *column)
            }
            Place::Option { .. } => (order.len(), 0, 0),
        });
        Err(Mistakes(self.0))
    }
}

/// A text of the user's for a message: quoted, escaped and cut.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

/// The word that was probably meant, as a sentence for a hint, or all of them.
pub(super) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let near =
        known.iter().map(|k| (distance(&word.to_lowercase(), k), k)).min().filter(|(d, k)| *d <= 2 && 2 * *d < k.len());
    match near {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// Levenshtein's, over the first 64 characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Option { name, value } if value.is_empty() => f.write_str(name),
            Self::Option { name, value } => write!(f, "{name} {}", quoted(value)),
        }
    }
}

/// `{"file", "line", "column"}` or `{"option", "value"}`.
impl Serialize for Place {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(None)?;
        match self {
            Self::File { name, line, column } => {
                map.serialize_entry("file", &**name)?;
                map.serialize_entry("line", line)?;
                map.serialize_entry("column", column)?;
            }
            Self::Option { name, value } => {
                map.serialize_entry("option", name)?;
                map.serialize_entry("value", value)?;
            }
        }
        map.end()
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\n  hint: {}", self.hint) }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.0.iter().enumerate() {
            let line_break = if i == 0 { "" } else { "\n" };
            write!(f, "{line_break}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: warning: {}", self.place, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        assert_eq!(did_you_mean("host", &["mode", "hosts"]), "did you mean `hosts`?");
        assert_eq!(did_you_mean("ALLOW", &["none", "all", "allow"]), "did you mean `allow`?");
        assert_eq!(did_you_mean("banana", &["mode", "hosts"]), "known here: mode, hosts");
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn what_the_user_wrote_cannot_forge_a_line() {
        assert_eq!(quoted("a\n\u{1b}[31m"), "\"a\\n\\u{1b}[31m\"");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 83);
    }
}
