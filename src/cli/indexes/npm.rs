//! npm: `npm_config_registry`, and the `.npmrc` files of the machine and of the user. Variables in them (`${NAME}`) are not
//! replaced: a host made of one would be shown, and permitted, with what is in it, be that a token.

use std::path::PathBuf;

use anyhow::Result;

use crate::launcher::OpenedFile;

use super::{Setting, Surroundings, in_file, read, variable};

/// The settings that name registries.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn settings(around: &Surroundings<'_>, files: &mut Vec<OpenedFile>) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    if let Some((name, value)) = configured(around, "registry") {
        settings.push(Setting { origin: variable(&name), value });
    }
    for path in paths(around) {
        let Some(text) = read(&path, around, files)? else { continue };
        for (key, value) in pairs(&text) {
            settings.push(Setting { origin: in_file(key, &path), value: value.to_owned() });
        }
    }
    Ok(settings)
}

/// npm takes its variables in any case.
fn configured(around: &Surroundings<'_>, key: &str) -> Option<(String, String)> {
    let wanted = format!("npm_config_{key}");
    let names = around.variables.iter().filter_map(|(name, _)| name.to_str());
    let mut set = names.filter(|name| name.to_lowercase() == wanted);
    set.find_map(|name| around.variable(name).map(|value| (name.to_owned(), value)))
}

/// The global file lies below npm's prefix, which only npm knows, so it is looked for below the usual ones.
fn paths(around: &Surroundings<'_>) -> Vec<PathBuf> {
    let named = |key| configured(around, key).map(|(_, path)| PathBuf::from(path)).filter(|path| path.is_absolute());
    let global = match named("globalconfig") {
        Some(path) => vec![path],
        None => ["/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc"].map(|path| around.at(path)).to_vec(),
    };
    let user = named("userconfig").unwrap_or_else(|| around.home.join(".npmrc"));
    global.into_iter().chain([user]).collect()
}

/// `registry = URL` and `@scope:registry = URL`.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim()));
    let registries = pairs.filter(|(key, _)| *key == "registry" || key.starts_with('@') && key.ends_with(":registry"));
    registries.map(|(key, value)| (key, value.trim_matches(['"', '\''])))
}
