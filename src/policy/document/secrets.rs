//! The `[secrets.NAME]` of a policy file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;

use super::super::mistake::{At, Place};
use super::super::source::{CommandSource, HttpSource, SecretSource};
use super::{Key, RawPlaceholder, Reader, Value};
use crate::types::Endpoint;

/// A secret with its source.
#[derive(Debug)]
pub(in super::super) struct RawSecret {
    pub(in super::super) name: At<String>,
    pub(in super::super) source: SecretSource,
    pub(in super::super) place: Place,
    /// The secrets that the source names.
    pub(in super::super) needs: Vec<At<String>>,
}

const FORM: &str =
    "give one of env = \"VAR\", file = \"PATH\", command = [\"PROGRAM\", \"ARG\"] or http = \"https://…\"";
const KEYS: [&str; 9] =
    ["env", "file", "command", "http", "placeholders", "timeout_seconds", "ttl_seconds", "method", "bearer"];
/// The keys that belong to some sources only.
const BESIDE: [(&str, &[&str]); 4] = [
    ("timeout_seconds", &["command"]),
    ("ttl_seconds", &["command", "http"]),
    ("method", &["http"]),
    ("bearer", &["http"]),
];
const METHODS: [&str; 2] = ["GET", "POST"];
/// The longest time to live, in seconds: ten years.
const TTL_MAX: u64 = 10 * 365 * 24 * 60 * 60;

/// What stands beside a source.
#[derive(Default)]
struct Beside {
    timeout: Option<Duration>,
    ttl: Option<Duration>,
    post: bool,
    bearer: Option<At<String>>,
}

impl Reader<'_> {
    pub(super) fn secret(&mut self, key: &Key<'_>, value: &Value<'_>) {
        let name = key.get_ref();
        self.document.secret_names.insert(name.to_string());
        let place = self.place(key.span().start);
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type(value, &format!("secrets.{name}"), "a table with a source, such as env or file");
        };
        let beside = self.beside(name, table);
        let mut needs: Vec<_> = beside.bearer.iter().cloned().collect();
        let mut sources = Vec::new();
        for (key, value) in table {
            match &**key.get_ref() {
                "env" => sources.push(self.string(value, "env").map(|env| SecretSource::Env(env.value))),
                "file" => sources.push(self.string(value, "file").map(|file| self.secret_file(&file.value))),
                "command" => sources.push(self.command(value, &beside)),
                "http" => sources.push(self.http(value, &beside)),
                "placeholders" => {
                    let without = "without it the sandbox has nothing in its place";
                    let variables = self.strings(value, "placeholders", without);
                    let secret = At { value: name.to_string(), place: place.clone() };
                    let raw = variables.into_iter().map(|variable| RawPlaceholder { secret: secret.clone(), variable });
                    self.document.placeholders.extend(raw);
                }
                "store" => {
                    self.unsupported(key, &format!("secrets.{name}.store"));
                    sources.push(None);
                }
                other if BESIDE.iter().any(|(beside, _)| *beside == other) => {}
                _ => self.unknown(key, &format!("secrets.{name}."), &KEYS),
            }
        }
        match sources.len() {
            1 => {
                let name = At { value: name.to_string(), place: place.clone() };
                let source = sources.into_iter().flatten().next();
                let needs = std::mem::take(&mut needs);
                self.document.secrets.extend(source.map(|source| RawSecret { name, source, place, needs }));
            }
            0 => self.mistakes.add(&place, format!("the secret `{name}` has no source"), FORM),
            _ => self.mistakes.add(&place, format!("the secret `{name}` has more than one source"), FORM),
        }
    }

    fn beside(&mut self, name: &str, table: &DeTable<'_>) -> Beside {
        let mut beside = Beside::default();
        for (key, value) in table {
            let word = &**key.get_ref();
            let Some((_, sources)) = BESIDE.iter().find(|(beside, _)| *beside == word) else { continue };
            if !sources.iter().any(|source| table.contains_key(*source)) {
                let place = self.place(key.span().start);
                let what = format!("`{word}` says nothing of this source of `{name}`");
                self.mistakes.add(&place, what, format!("take it out; it belongs to {}", sources.join(" and ")));
                continue;
            }
            match word {
                "timeout_seconds" => beside.timeout = self.seconds(value, word, 300),
                "ttl_seconds" => beside.ttl = self.seconds(value, word, TTL_MAX),
                "method" => beside.post = self.word(value, word, &METHODS).is_some_and(|word| word.value == "POST"),
                _ => beside.bearer = self.string(value, word),
            }
        }
        beside
    }

    fn command(&mut self, value: &Value<'_>, beside: &Beside) -> Option<SecretSource> {
        let words = self.strings(value, "command", "write command = [\"PROGRAM\", \"ARG\"]");
        let argv: Vec<_> = words.into_iter().map(|word| word.value).collect();
        let timeout = beside.timeout.unwrap_or(CommandSource::TIMEOUT);
        (!argv.is_empty()).then_some(SecretSource::Command(CommandSource { argv, timeout, ttl: beside.ttl }))
    }

    fn http(&mut self, value: &Value<'_>, beside: &Beside) -> Option<SecretSource> {
        let url = self.endpoint(value, "http")?;
        let bearer = beside.bearer.as_ref().map(|secret| secret.value.clone());
        Some(SecretSource::Http(HttpSource { url, post: beside.post, bearer, ttl: beside.ttl }))
    }

    fn endpoint(&mut self, value: &Value<'_>, name: &str) -> Option<Endpoint> {
        let text = self.string(value, name)?;
        match Endpoint::parse(&text.value) {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                // Not quoted: where there is a password in it, it stays in the file.
                let what = format!("`{name}` is no URL that can be asked: {error}");
                self.mistakes.add(&text.place, what, "write https://HOST/PATH");
                None
            }
        }
    }

    /// A whole number of seconds, from 1.
    pub(super) fn seconds(&mut self, value: &Value<'_>, name: &str, most: u64) -> Option<Duration> {
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong_type(value, name, &format!("a whole number of seconds, 1 to {most}"));
            return None;
        };
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(seconds) if (1..=most).contains(&seconds) => Some(Duration::from_secs(seconds)),
            Ok(_) | Err(_) => {
                let place = self.place_of(value);
                self.mistakes.add(&place, format!("`{name}` is out of its range"), format!("write 1 to {most}"));
                None
            }
        }
    }

    fn secret_file(&self, file: &str) -> SecretSource {
        let directory = Path::new(&*self.name).parent().map_or_else(PathBuf::new, Path::to_owned);
        SecretSource::File(directory.join(file))
    }
}
