//! GitLab's `network_policy`: the project's part out of `agent-config.yml`, the administrator's out of a settings file, and
//! how the two are merged (seed-systems B.4 and B.5).
//!
//! What is always allowed is written into the settings (`always_allowed`), not compiled in: GitLab's own list holds an
//! unscoped `localhost`, through which a command reaches every service of the proxy's host. A literal address opens a blocked
//! one only where the administrator lists it; what the project lists can be written by whoever writes to its repository.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::compile::NamedText;
use super::super::document::Document;
use super::super::files::UnixSockets;
use super::super::lines::Lines;
use super::super::mistake::{At, Collector};
use super::lists::{List, rules};
use super::tree::{Node, Reader, Value};

/// An administrator's settings, and the further recommended lists that they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitlabSettings {
    /// The file, YAML or JSON.
    pub file: NamedText,
    /// Every `*.txt` file of [`recommended_directory`], in the order in which they count.
    pub recommended: Vec<NamedText>,
}

/// The directory of further recommended lists that a settings file names, counted from the directory of that file. What is
/// wrong with the file is not told here, but by [`load`](super::super::load).
pub fn recommended_directory(settings: &NamedText) -> Option<PathBuf> {
    let root = super::parse(settings, &settings.name.as_str().into(), &mut Collector::default())?;
    let Value::Text(directory) = &root.get("recommended_directory")?.value else { return None };
    let beside = Path::new(&settings.name).parent().unwrap_or(Path::new(""));
    (!directory.is_empty()).then(|| beside.join(directory))
}

/// How many entries a list may have.
const MOST: usize = 1000;
/// What is shown as the name of the recommended list.
const BUILT_IN: &str = "recommended-domains.txt (built in)";
const RECOMMENDED: &str = include_str!("../../../policies/recommended-domains.txt");

const POLICY_KEYS: [&str; 4] =
    ["allowed_domains", "denied_domains", "include_recommended_allowed", "allow_all_unix_sockets"];
/// What else stands in `agent-config.yml`: how the runner is set up.
const RUNNER_KEYS: [&str; 3] = ["image", "setup_script", "cache"];

/// What one side says.
#[derive(Debug, Default)]
struct Side {
    allowed: Vec<At<String>>,
    denied: Vec<At<String>>,
    recommended: Option<At<bool>>,
    sockets: Option<At<bool>>,
}

/// What the administrator says. The default one is for a project without an administrator.
#[derive(Debug)]
struct Settings {
    side: Side,
    always_allowed: Vec<At<String>>,
    /// Whether the project may add to it.
    extension: bool,
}

/// What both say together.
struct Merged<'a> {
    allowed: Vec<(&'a At<String>, &'static List)>,
    denied: Vec<&'a At<String>>,
    recommended: bool,
    sockets: Option<At<bool>>,
}

/// The rules of a project and its administrator.
pub(in super::super) fn document(
    project: Option<&Node>,
    settings: Option<&GitlabSettings>,
    mistakes: &mut Collector,
) -> Document {
    let mut reader = Reader::new(mistakes);
    let project = project.map(|root| read_project(root, &mut reader)).unwrap_or_default();
    let further = settings.map(|settings| settings.recommended.as_slice()).unwrap_or_default();
    let settings = match settings {
        None => Settings { side: Side::default(), always_allowed: Vec::new(), extension: true },
        Some(settings) => read_settings(&settings.file, &mut reader),
    };
    warn_of_ignored(&project, &settings, &mut reader);
    let merged = merge(&settings, &project);
    let mut recommended = Vec::new();
    let mut document = Document::default();
    if merged.recommended {
        let built_in = NamedText { name: BUILT_IN.to_owned(), text: RECOMMENDED.to_owned() };
        for file in std::iter::once(&built_in).chain(further) {
            let name: Arc<str> = file.name.as_str().into();
            recommended.append(&mut lines(file, &name));
            document.not_warned_of.push(name);
        }
    }
    let recommended = recommended.iter().map(|entry| (entry, &List::ALLOWED));
    let mut seen = HashSet::new();
    for (entry, list) in merged.allowed.into_iter().chain(recommended) {
        if seen.insert(entry.value.to_ascii_lowercase()) {
            document.ready_rules.append(&mut rules(entry, list, None, &mut reader));
        }
    }
    seen.clear();
    for entry in merged.denied {
        if seen.insert(entry.value.to_ascii_lowercase()) {
            document.ready_rules.append(&mut rules(entry, &List::DENIED, None, &mut reader));
        }
    }
    document.files.unix_sockets.extend(merged.sockets.map(|flag| At { value: UnixSockets::All, place: flag.place }));
    document.warnings = reader.warnings;
    document
}

/// The table of B.5, and the order of its last line: what is always allowed comes first, the recommended list last.
fn merge<'a>(settings: &'a Settings, project: &'a Side) -> Merged<'a> {
    let of_project: &[_] = if settings.extension { &project.allowed } else { &[] };
    let of_admin = settings.always_allowed.iter().chain(&settings.side.allowed).map(|entry| (entry, &List::TRUSTED));
    Merged {
        allowed: of_admin.chain(of_project.iter().map(|entry| (entry, &List::ALLOWED))).collect(),
        denied: settings.side.denied.iter().chain(&project.denied).collect(),
        recommended: flag(settings, &settings.side.recommended, &project.recommended).is_some_and(|flag| flag.value),
        sockets: flag(settings, &settings.side.sockets, &project.sockets).filter(|flag| flag.value),
    }
}

/// With an extension what the project says counts; without one it may only take away.
fn flag(settings: &Settings, admin: &Option<At<bool>>, project: &Option<At<bool>>) -> Option<At<bool>> {
    let permitted = admin.as_ref().is_some_and(|admin| admin.value);
    match project {
        Some(project) if settings.extension || (permitted && !project.value) => Some(project.clone()),
        Some(_) | None => admin.clone(),
    }
}

/// What a project asks for and an administrator does not let it have.
fn warn_of_ignored(project: &Side, settings: &Settings, reader: &mut Reader<'_>) {
    if settings.extension {
        return;
    }
    let why = "the administrator's settings do not permit an extension by the project";
    if let Some(first) = project.allowed.first() {
        reader.warn(&first.place, format!("{why}, so its `allowed_domains` count for nothing"));
    }
    for (name, admin, project) in [
        ("include_recommended_allowed", &settings.side.recommended, &project.recommended),
        ("allow_all_unix_sockets", &settings.side.sockets, &project.sockets),
    ] {
        let ignored = |flag: &&At<bool>| flag.value && !admin.as_ref().is_some_and(|admin| admin.value);
        if let Some(flag) = project.as_ref().filter(ignored) {
            reader.warn(&flag.place, format!("{why}, so its `{name}` counts for nothing"));
        }
    }
}

fn read_project(root: &Node, reader: &mut Reader<'_>) -> Side {
    let mut side = Side::default();
    for (key, node) in reader.map(root, "agent-config.yml") {
        match key.value.as_str() {
            "network_policy" if matches!(node.value, Value::Null) => {}
            "network_policy" => {
                for (key, node) in reader.map(node, "network_policy") {
                    if !side.key(key, node, "network_policy.", reader) {
                        reader.unknown(key, "network_policy.", &POLICY_KEYS);
                    }
                }
            }
            name if RUNNER_KEYS.contains(&name) => {}
            name => {
                let name = name.escape_debug();
                reader.warn(&key.place, format!("`{name}` is no key of a network policy, and nothing is made of it"));
            }
        }
    }
    side
}

fn read_settings(file: &NamedText, reader: &mut Reader<'_>) -> Settings {
    let mut settings = Settings { side: Side::default(), always_allowed: Vec::new(), extension: false };
    let Some(root) = super::parse(file, &file.name.as_str().into(), reader.mistakes) else { return settings };
    if matches!(root.value, Value::Null) {
        return settings;
    }
    for (key, node) in reader.map(&root, "the settings") {
        let name = key.value.as_str();
        match name {
            _ if settings.side.key(key, node, "", reader) => {}
            _ if matches!(node.value, Value::Null) => {}
            "allow_project_extension" => settings.extension = reader.bool(node, name).is_some_and(|flag| flag.value),
            "always_allowed" => settings.always_allowed = entries(node, name, reader),
            "recommended_directory" => drop(reader.text(node, name)),
            "enforce_on_local_clients" => {
                reader.warn(&key.place, "`enforce_on_local_clients` changes nothing: every run is held to its policy");
            }
            _ => {
                let own = ["allow_project_extension", "always_allowed", "recommended_directory"];
                reader.unknown(key, "", &[&POLICY_KEYS[..], &own].concat());
            }
        }
    }
    settings
}

impl Side {
    /// Takes a key that both sides have; whether it was one. Null is a key that is not given.
    fn key(&mut self, key: &At<String>, node: &Node, before: &str, reader: &mut Reader<'_>) -> bool {
        let name = format!("{before}{}", key.value);
        let given = !matches!(node.value, Value::Null);
        match key.value.as_str() {
            "allowed_domains" if given => self.allowed = entries(node, &name, reader),
            "denied_domains" if given => self.denied = entries(node, &name, reader),
            "include_recommended_allowed" if given => self.recommended = reader.bool(node, &name),
            "allow_all_unix_sockets" if given => self.sockets = reader.bool(node, &name),
            known => return POLICY_KEYS.contains(&known),
        }
        true
    }
}

fn entries(node: &Node, name: &str, reader: &mut Reader<'_>) -> Vec<At<String>> {
    let entries = reader.texts(node, name);
    if let Some(over) = entries.get(MOST) {
        let what = format!("`{name}` has {} entries, and at most {MOST} are taken", entries.len());
        reader.mistakes.add(&over.place, what, "name the domains above them, such as *.example.com");
    }
    entries
}

/// The entries of a list of one a line; `#` begins a comment.
fn lines(file: &NamedText, name: &Arc<str>) -> Vec<At<String>> {
    let lines = Lines::new(name, &file.text);
    let entry = |(index, line): (usize, &str)| {
        let text = line.split('#').next().unwrap_or_default().trim();
        (!text.is_empty()).then(|| At { value: text.to_owned(), place: lines.at(index + 1, 1) })
    };
    file.text.lines().enumerate().filter_map(entry).collect()
}

#[cfg(test)]
mod tests;
