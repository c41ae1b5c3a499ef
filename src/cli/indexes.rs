//! The package indexes that pip, npm and cargo are configured with on this machine, for the presets of their languages.
//!
//! Of each setting only the host is taken; a user name, a password and a path in it are never shown. Settings of the
//! working directory are not read: they belong to what runs in the sandbox.

mod cargo;
mod npm;
mod pip;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::launcher::{Links, OpenError, OpenedFile, Purpose, open_file};
use crate::policy::network::parse_entry;
use crate::policy::{Index, Tool};
use crate::types::read_bounded;

/// The longest file of settings, in MiB.
const FILE_MAX: u32 = 1;

/// Where settings are looked for.
pub struct Surroundings<'a> {
    /// The user's home.
    pub home: PathBuf,
    /// All variables.
    pub variables: &'a [(OsString, OsString)],
    /// The root of the file system; another one in tests.
    pub root: PathBuf,
    /// Which links lead to settings.
    pub links: Links<'a>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// The indexes, without repeats.
    pub indexes: Vec<Index>,
    /// What is left out, and why.
    pub left_out: Vec<String>,
    /// The files that were read.
    pub files: Vec<OpenedFile>,
}

/// A setting that names an index.
struct Setting {
    /// Its name, and where it is.
    origin: String,
    value: String,
}

/// The indexes of a tool.
///
/// # Errors
/// Settings that are there and cannot be read, by name.
pub fn of(tool: Tool, around: &Surroundings<'_>) -> Result<Found> {
    let mut found = Found::default();
    let settings = match tool {
        Tool::Pip => pip::settings(around, &mut found.files)?,
        Tool::Npm => npm::settings(around, &mut found.files)?,
        Tool::Cargo => cargo::settings(around, &mut found.files)?,
    };
    for Setting { origin, value } in settings {
        match index(&value, tool, &origin) {
            Ok(None) => {}
            Ok(Some(index)) => {
                let same = |known: &&mut Index| known.host == index.host;
                match found.indexes.iter_mut().find(same) {
                    Some(known) => known.git |= index.git,
                    None => found.indexes.push(index),
                }
            }
            Err(why) => found.left_out.push(format!("{origin}: {why}")),
        }
    }
    Ok(found)
}

/// The index of a URL. None for a file or a directory, which is not reached over the network. The error is why it cannot
/// be permitted; it holds nothing of the value, in which there may be a password.
fn index(value: &str, tool: Tool, origin: &str) -> Result<Option<Index>, String> {
    let value = value.trim();
    let (sparse, url) = match value.strip_prefix("sparse+") {
        Some(url) => (true, url),
        None => (false, value),
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.is_empty() || url.starts_with(['/', '.', '~']) {
            Ok(None)
        } else {
            Err("it is no URL".to_owned())
        };
    };
    match scheme.to_ascii_lowercase().as_str() {
        "https" => {}
        "file" => return Ok(None),
        _ => return Err("it is not https, which is all that a preset permits".to_owned()),
    }
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = parse_entry(host).map_err(|_| "its host cannot be permitted by name".to_owned())?;
    Ok(Some(Index { host, git: tool == Tool::Cargo && !sparse, setting: origin.to_owned() }))
}

impl Surroundings<'_> {
    /// A variable, where it is set to some text.
    fn variable(&self, name: &str) -> Option<String> {
        let set = self.variables.iter().find(|(known, _)| known == name);
        set.map(|(_, value)| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
    }

    /// An absolute path of the machine.
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A directory of the user's: what a variable says, or a place below the home.
    fn directory(&self, variable: &str, below_home: &str) -> PathBuf {
        let named = self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        named.unwrap_or_else(|| self.home.join(below_home))
    }
}

/// A file of settings, noted in `files`; none where there is none.
fn read(path: &Path, around: &Surroundings<'_>, files: &mut Vec<OpenedFile>) -> Result<Option<String>> {
    let context = || format!("cannot read the settings in {}", path.display());
    let opened = match open_file(path, Purpose::ReadFile, around.links) {
        Ok(opened) => opened,
        Err(OpenError::Failed(error)) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(context),
    };
    if !opened.file.metadata().with_context(context)?.is_file() {
        return Ok(None);
    }
    let bytes = read_bounded(&opened.file, FILE_MAX).with_context(context)?;
    if files.iter().any(|known| known.path == opened.path) {
        return Ok(None);
    }
    files.push(opened);
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => bail!("{} is not UTF-8", path.display()),
    }
}

/// `KEY in FILE`.
fn in_file(key: &str, path: &Path) -> String {
    shown(&format!("{key} in {}", path.display()))
}

fn variable(name: &str) -> String {
    shown(&format!("the variable {name}"))
}

fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests;
