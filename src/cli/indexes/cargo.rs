//! cargo: source replacement and registries in the user's `config.toml`, and `CARGO_REGISTRIES_…_INDEX`.

use anyhow::{Result, anyhow};

use crate::launcher::OpenedFile;

use super::{Setting, Surroundings, in_file, read, variable};

/// The settings that name registries.
///
/// # Errors
/// A file that cannot be read, or that is not TOML.
pub(super) fn settings(around: &Surroundings<'_>, files: &mut Vec<OpenedFile>) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    let mut names: Vec<&str> = around.variables.iter().filter_map(|(name, _)| name.to_str()).collect();
    names.sort_unstable();
    for name in names.into_iter().filter(|name| name.starts_with("CARGO_REGISTRIES_") && name.ends_with("_INDEX")) {
        let value = around.variable(name);
        settings.extend(value.map(|value| Setting { origin: variable(name), value }));
    }
    let home = around.directory("CARGO_HOME", ".cargo");
    // cargo reads the older name where both are there.
    for path in [home.join("config.toml"), home.join("config")] {
        let Some(text) = read(&path, around, files)? else { continue };
        // The error would show the line, in which there may be a token.
        let table: toml::Table =
            text.parse().map_err(|_| anyhow!("the settings in {} are not valid TOML", path.display()))?;
        for (section, key) in [("source", "registry"), ("registries", "index")] {
            for (name, entry) in table.get(section).and_then(toml::Value::as_table).into_iter().flatten() {
                let Some(value) = entry.get(key).and_then(toml::Value::as_str) else { continue };
                let origin = in_file(&format!("{section}.{name}.{key}"), &path);
                settings.push(Setting { origin, value: value.to_owned() });
            }
        }
    }
    Ok(settings)
}
