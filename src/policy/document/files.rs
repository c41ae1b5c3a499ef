//! The `[files]` of a policy file.

use super::super::files::{FilePath, UnixSockets};
use super::super::mistake::At;
use super::{Key, Reader, Value};

/// What a file says about files. `given` lists each place where it says anything.
#[derive(Debug, Default)]
pub(in super::super) struct RawFiles {
    pub(in super::super) given: Vec<At<()>>,
    pub(in super::super) disabled: Vec<At<bool>>,
    pub(in super::super) allow_write: Vec<At<FilePath>>,
    pub(in super::super) deny_write: Vec<At<FilePath>>,
    pub(in super::super) deny_read: Vec<At<FilePath>>,
    pub(in super::super) allow_read: Vec<At<FilePath>>,
    pub(in super::super) allow_git_config: Vec<At<bool>>,
    pub(in super::super) unix_sockets: Vec<At<UnixSockets>>,
}

const KEYS: [&str; 7] =
    ["allow_write", "deny_write", "deny_read", "allow_read", "allow_git_config", "disabled", "unix_sockets"];

impl RawFiles {
    /// Adds what another one says.
    pub(super) fn append(&mut self, mut other: Self) {
        self.given.append(&mut other.given);
        self.disabled.append(&mut other.disabled);
        self.allow_write.append(&mut other.allow_write);
        self.deny_write.append(&mut other.deny_write);
        self.deny_read.append(&mut other.deny_read);
        self.allow_read.append(&mut other.allow_read);
        self.allow_git_config.append(&mut other.allow_git_config);
        self.unix_sockets.append(&mut other.unix_sockets);
    }
}

impl Reader<'_> {
    pub(super) fn files(&mut self, key: &Key<'_>, value: &Value<'_>) {
        let place = self.place(key.span().start);
        self.document.files.given.push(At { value: (), place });
        self.section(value, "files", Self::files_key);
    }

    fn files_key(&mut self, key: &Key<'_>, value: &Value<'_>) {
        match &**key.get_ref() {
            "allow_write" => {
                let paths = self.paths(value, "files.allow_write", "without it nothing may be written");
                self.document.files.allow_write.extend(paths);
            }
            "deny_write" => {
                let paths = self.paths(value, "files.deny_write", "what allow_write does not name is denied anyway");
                self.document.files.deny_write.extend(paths);
            }
            "deny_read" => {
                let paths = self.paths(value, "files.deny_read", "without it everything is shown");
                self.document.files.deny_read.extend(paths);
            }
            "allow_read" => {
                let paths = self.paths(value, "files.allow_read", "what deny_read does not name is shown anyway");
                self.document.files.allow_read.extend(paths);
            }
            "allow_git_config" => {
                let flag = self.flag(value, "files.allow_git_config");
                self.document.files.allow_git_config.extend(flag);
            }
            "disabled" => {
                let flag = self.flag(value, "files.disabled");
                self.document.files.disabled.extend(flag);
            }
            "unix_sockets" => {
                let sockets = self.unix_sockets(value);
                self.document.files.unix_sockets.extend(sockets);
            }
            _ => self.unknown(key, "files.", &KEYS),
        }
    }

    fn unix_sockets(&mut self, value: &Value<'_>) -> Option<At<UnixSockets>> {
        const NAME: &str = "files.unix_sockets";
        let place = self.place_of(value);
        if value.get_ref().as_array().is_some() {
            let paths = self.paths(value, NAME, "without it every socket of the host is hidden");
            let paths: Vec<FilePath> = paths.into_iter().map(|path| path.value).collect();
            return (!paths.is_empty()).then_some(At { value: UnixSockets::Listed(paths), place });
        }
        self.word(value, NAME, &["all"]).map(|_| At { value: UnixSockets::All, place })
    }

    /// A list of at least one path.
    fn paths(&mut self, value: &Value<'_>, name: &str, if_empty: &str) -> Vec<At<FilePath>> {
        let texts = self.strings(value, name, if_empty);
        let mut paths = Vec::new();
        for text in texts {
            match FilePath::parse(&text.value) {
                Ok(value) => paths.push(At { value, place: text.place }),
                Err(error) => self.mistakes.add_error(&text, &error),
            }
        }
        paths
    }
}
