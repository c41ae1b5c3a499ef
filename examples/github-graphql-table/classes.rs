//! `classes.txt`: what people decided.

use std::collections::{BTreeMap, BTreeSet};

/// See the file for what each list means.
#[derive(Default)]
pub struct Classes {
    pub secret: BTreeSet<String>,
    pub foreign: BTreeSet<String>,
    pub account: BTreeSet<String>,
    pub other: BTreeSet<String>,
    pub roots: Vec<String>,
    pub public: Vec<String>,
    /// Mutation and option, `-` for none.
    pub mutations: BTreeMap<String, String>,
    /// `Input.field` or `field`, and the position.
    pub positions: BTreeMap<String, String>,
    /// `Type.field` and what a person found it to be.
    pub reviewed: BTreeMap<String, String>,
}

impl Classes {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut classes, mut section) = (Self::default(), "");
        for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
                continue;
            }
            let words = line.split_whitespace().map(str::to_owned);
            match section {
                "secret" => classes.secret.extend(words),
                "foreign" => classes.foreign.extend(words),
                "account" => classes.account.extend(words),
                "other" => classes.other.extend(words),
                "roots" => classes.roots.extend(words),
                "public" => classes.public.extend(words),
                "mutations" => classes.mutations.extend(words.map(|word| match word.split_once(':') {
                    Some((option, name)) => (name.to_owned(), option.to_owned()),
                    None => (word, "-".to_owned()),
                })),
                "positions" => {
                    let (position, names) =
                        line.split_once(": ").ok_or_else(|| format!("{line}: write `position: names`"))?;
                    classes
                        .positions
                        .extend(names.split_whitespace().map(|name| (name.to_owned(), position.to_owned())));
                }
                "reviewed" => {
                    let (path, class) =
                        line.split_once(' ').ok_or_else(|| format!("{line}: write `Type.field class`"))?;
                    classes.reviewed.insert(path.to_owned(), class.trim().to_owned());
                }
                _ => return Err(format!("[{section}]: no such section")),
            }
        }
        Ok(classes)
    }
}
