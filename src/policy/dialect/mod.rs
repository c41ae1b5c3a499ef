//! Policies that were written for other systems: GitLab's `network_policy` and srt's settings. They are known by what is in
//! them, not by their names, and become the same [`Document`](super::document) as a policy file of our own.
//!
//! What of them cannot be honoured is a mistake that names it, with its place and what to do instead; what changes nothing
//! here is a warning. Nothing is dropped in silence, unknown keys least of all.

mod entry;
mod gitlab;
mod json;
mod lists;
mod srt;
mod tree;
mod yaml;

use std::sync::Arc;

use super::compile::NamedText;
use super::document::{self, Document};
use super::lines::Lines;
use super::mistake::{Collector, Place};

pub use gitlab::{GitlabSettings, recommended_directory};
use tree::Node;

/// All files as one document: what is GitLab's is merged with its administrator's settings first.
pub(super) fn read(
    files: &[NamedText],
    names: &[Arc<str>],
    settings: Option<&GitlabSettings>,
    mistakes: &mut Collector,
) -> Document {
    let mut document = Document::default();
    let mut project = None;
    for (file, name) in files.iter().zip(names) {
        match recognise(file, name, mistakes) {
            Recognised::Toml => document.append(document::read(file, name, mistakes)),
            Recognised::Srt(settings) => document.append(*settings),
            Recognised::Gitlab(root) if project.is_none() => project = Some(root),
            Recognised::Gitlab(root) => {
                let hint = "give one of them: a run is for one project";
                mistakes.add(&root.place, "this is a second agent-config.yml", hint);
            }
            Recognised::Unreadable => {}
        }
    }
    if project.is_some() || settings.is_some() {
        document.append(gitlab::document(project.as_ref(), settings, mistakes));
    }
    document
}

/// What a policy file turns out to be.
enum Recognised {
    /// A policy of our own; also what is nothing else, so that it is reported as such.
    Toml,
    /// `agent-config.yml`.
    Gitlab(Node),
    /// srt's settings.
    Srt(Box<Document>),
    /// None of them; why is in the mistakes.
    Unreadable,
}

/// Whose policy a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Our own.
    Own,
    /// GitLab.
    Gitlab,
    /// Anthropic's sandbox runtime.
    Srt,
}

/// Whose policy a file is; `None` when it is nobody's.
pub fn dialect_of(file: &NamedText) -> Option<Dialect> {
    match recognise(file, &file.name.as_str().into(), &mut Collector::default()) {
        Recognised::Gitlab(_) => Some(Dialect::Gitlab),
        Recognised::Srt(_) => Some(Dialect::Srt),
        Recognised::Toml => Some(Dialect::Own),
        Recognised::Unreadable => None,
    }
}

/// Tells what a file is, and reads it unless it is TOML.
fn recognise(file: &NamedText, name: &Arc<str>, mistakes: &mut Collector) -> Recognised {
    if let Form::Toml = Form::of(&file.text) {
        return Recognised::Toml;
    }
    let Some(root) = parse(file, name, mistakes) else { return Recognised::Unreadable };
    if root.get("network_policy").is_some() {
        return Recognised::Gitlab(root);
    }
    if root.get("network").is_some() || root.get("filesystem").is_some() {
        return Recognised::Srt(Box::new(srt::document(&root, mistakes)));
    }
    let start = Place::File { name: name.clone(), line: 1, column: 1 };
    if root.get("allowed_domains").is_some() || root.get("allow_project_extension").is_some() {
        let hint = "give it by --gitlab-settings FILE; --policy takes the project's agent-config.yml";
        mistakes.add(&start, "these are an administrator's settings, not a policy", hint);
    } else {
        let hint = "a GitLab agent-config.yml has a `network_policy`, srt settings have `network` and `filesystem`, and a \
                    policy of our own is TOML";
        mistakes.add(&start, "it is no policy", hint);
    }
    Recognised::Unreadable
}

/// The content of a JSON or YAML file; `None` when it is neither, which is in the mistakes then.
fn parse(file: &NamedText, name: &Arc<str>, mistakes: &mut Collector) -> Option<Node> {
    let lines = Lines::new(name, &file.text);
    match Form::of(&file.text) {
        Form::Json => json::read(&file.text, &lines, mistakes),
        Form::Yaml | Form::Toml => yaml::read(&file.text, &lines, mistakes),
    }
}

enum Form {
    Json,
    Toml,
    Yaml,
}

impl Form {
    /// By the first line that says something: an object begins with a brace, a YAML mapping with a key and a colon, and
    /// what is left is TOML, nothing included.
    fn of(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim_start().starts_with('{') {
            return Self::Json;
        }
        let line =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
        let is_key = |key: &str| {
            let key = key.trim_end();
            let bare = key.trim_matches(['"', '\'']);
            !bare.is_empty() && bare.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' '))
        };
        let mapping = line
            .split_once(':')
            .is_some_and(|(key, rest)| is_key(key) && (rest.is_empty() || rest.starts_with([' ', '\t'])));
        if mapping || line == "---" || line.starts_with("--- ") || line.starts_with("%YAML") {
            Self::Yaml
        } else {
            Self::Toml
        }
    }
}

#[cfg(test)]
mod tests;
