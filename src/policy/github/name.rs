//! Names of owners and repositories.

use std::fmt;

/// `owner/repository`, in lower case: GitHub compares without it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoName {
    owner: Box<str>,
    name: Box<str>,
}

/// Why a text is no [`RepoName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not two parts.
    #[error("write it as owner/repository, such as acme/widgets")]
    Parts,
    /// The owner.
    #[error("an owner has 1 to 100 letters, digits, `-` and `_`, and begins with a letter or digit")]
    Owner,
    /// The repository.
    #[error("a repository's name has 1 to 100 letters, digits, `-`, `_` and `.`, and is not `.` or `..`")]
    Repository,
}

impl RepoName {
    /// One of its two parts, decoded.
    ///
    /// # Errors
    /// [`NameError::Owner`] and [`NameError::Repository`].
    pub fn new(owner: &str, name: &str) -> Result<Self, NameError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let starts = owner.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !starts || owner.len() > 100 || !owner.bytes().all(legal) {
            return Err(NameError::Owner);
        }
        let named = !matches!(name, "" | "." | "..") && name.len() <= 100;
        if !named || !name.bytes().all(|byte| legal(byte) || byte == b'.') {
            return Err(NameError::Repository);
        }
        Ok(Self { owner: owner.to_ascii_lowercase().into(), name: name.to_ascii_lowercase().into() })
    }

    /// One of `owner/repository`.
    ///
    /// # Errors
    /// [`NameError`] says which part is wrong.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let (owner, name) = text.split_once('/').ok_or(NameError::Parts)?;
        if name.contains('/') {
            return Err(NameError::Parts);
        }
        Self::new(owner, name)
    }

    /// The owner, in lower case.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The repository's own part, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case() {
        let name = RepoName::parse("Acme/Widget.js").unwrap();
        assert_eq!((name.owner(), name.name(), name.to_string().as_str()), ("acme", "widget.js", "acme/widget.js"));
        assert_eq!(name, RepoName::new("ACME", "widget.JS").unwrap());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(101);
        let cases = [
            ("acme", NameError::Parts),
            ("acme/widget/issues", NameError::Parts),
            ("/widget", NameError::Owner),
            ("-acme/widget", NameError::Owner),
            ("ac.me/widget", NameError::Owner),
            ("acmé/widget", NameError::Owner),
            (&format!("{long}/widget"), NameError::Owner),
            ("acme/", NameError::Repository),
            ("acme/..", NameError::Repository),
            ("acme/wid get", NameError::Repository),
            ("acme/wid%67et", NameError::Repository),
            (&format!("acme/{long}"), NameError::Repository),
        ];
        for (text, error) in cases {
            assert_eq!(RepoName::parse(text), Err(error), "{text}");
        }
    }
}
