//! `--preset` and `policy presets`: what the compiled-in policies are on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::launcher::Links;
use crate::policy::{NamedText, PRESETS, Preset};

use super::indexes::{self, Surroundings};

/// Presets as policy files.
#[derive(Debug, Default)]
pub struct Presets {
    /// One for each, in the order in which they are listed.
    pub texts: Vec<NamedText>,
    /// What of this machine's settings was added, or left out, for a person.
    pub notes: Vec<String>,
    /// The files of settings that were read, resolved, which must not be changed from inside.
    pub files: Vec<PathBuf>,
    /// The symbolic links by which they were found.
    pub links: Vec<PathBuf>,
}

impl Presets {
    /// The presets of these names; what is no name of one was refused before. `home` is the user's, in which settings of
    /// package tools are looked for; `links` says which links lead to them.
    ///
    /// # Errors
    /// Settings of a package tool that are there and cannot be read.
    pub fn read(names: &[String], home: &Path, links: Links<'_>) -> Result<Self> {
        let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let around = Surroundings { home: home.to_owned(), variables: &variables, root: PathBuf::from("/"), links };
        let mut presets = Self::default();
        for preset in PRESETS.iter().filter(|preset| names.iter().any(|name| name == preset.name())) {
            presets.add(preset, &around).with_context(|| format!("preset {}", preset.name()))?;
        }
        Ok(presets)
    }

    fn add(&mut self, preset: &Preset, around: &Surroundings<'_>) -> Result<()> {
        let Some(tool) = preset.tool() else {
            self.texts.push(preset.file(&[]));
            return Ok(());
        };
        let name = preset.name();
        let found = indexes::of(tool, around)?;
        let added =
            found.indexes.iter().map(|index| format!("preset {name} permits {} ({})", index.host, index.setting));
        let left_out = found.left_out.iter().map(|what| format!("preset {name} leaves out {what}"));
        self.notes.extend(added.chain(left_out));
        if found.indexes.is_empty() {
            let tool = tool.as_str();
            self.notes.push(format!(
                "preset {name} permits no package index, since {tool} is configured with none; --allow HOST permits one"
            ));
        }
        self.texts.push(preset.file(&found.indexes));
        for opened in found.files {
            self.files.push(opened.path);
            self.links.extend(opened.links);
        }
        Ok(())
    }
}

/// The names of all, for the parser of options.
pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(Preset::name).collect()
}
