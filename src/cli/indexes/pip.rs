//! pip: `PIP_INDEX_URL` and its like, and the `pip.conf` files of the machine and of the user. Those of a virtual
//! environment are not read, as it is mostly inside the working directory.

use std::path::PathBuf;

use anyhow::Result;

use crate::launcher::OpenedFile;

use super::{Setting, Surroundings, in_file, read, variable};

/// The options that name indexes, with whether they take several.
const KEYS: [&str; 3] = ["index-url", "extra-index-url", "find-links"];

/// The settings that name indexes.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn settings(around: &Surroundings<'_>, files: &mut Vec<OpenedFile>) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    for key in KEYS {
        let name = format!("PIP_{}", key.to_uppercase().replace('-', "_"));
        for value in around.variable(&name).iter().flat_map(|value| value.split_whitespace()) {
            settings.push(Setting { origin: variable(&name), value: value.to_owned() });
        }
    }
    for path in paths(around) {
        let Some(text) = read(&path, around, files)? else { continue };
        for (key, value) in pairs(&text) {
            settings.push(Setting { origin: in_file(&key, &path), value });
        }
    }
    Ok(settings)
}

/// In pip's order. `PIP_CONFIG_FILE=/dev/null` means none of them.
fn paths(around: &Surroundings<'_>) -> Vec<PathBuf> {
    let named = around.variable("PIP_CONFIG_FILE");
    if named.as_deref() == Some("/dev/null") {
        return Vec::new();
    }
    let system = around.variable("XDG_CONFIG_DIRS");
    let system = system.as_deref().unwrap_or("/etc/xdg").split(':').filter(|directory| directory.starts_with('/'));
    let mut paths: Vec<PathBuf> = system.map(|directory| around.at(directory).join("pip/pip.conf")).collect();
    paths.push(around.at("/etc/pip.conf"));
    paths.push(around.home.join(".pip/pip.conf"));
    paths.push(around.directory("XDG_CONFIG_HOME", ".config").join("pip/pip.conf"));
    paths.extend(named.map(PathBuf::from).filter(|path| path.is_absolute()));
    paths
}

/// The values of [`KEYS`] in any section. A value may go on in lines that begin with white space, and name several URLs.
fn pairs(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let remark = line.trim_start().starts_with(['#', ';']);
        if remark || line.trim().is_empty() {
            continue;
        }
        let value = if line.starts_with([' ', '\t']) {
            line
        } else if let Some((key, value)) = line.split_once(['=', ':']).filter(|_| !line.starts_with('[')) {
            let key = key.trim().to_lowercase().replace('_', "-");
            let key = key.trim_start_matches("--").to_owned();
            current = Some(key).filter(|key| KEYS.contains(&key.as_str()));
            value
        } else {
            current = None;
            continue;
        };
        let Some(key) = &current else { continue };
        pairs.extend(value.split_whitespace().map(|value| (key.clone(), value.to_owned())));
    }
    pairs
}
