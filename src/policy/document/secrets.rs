//! The `[secrets.NAME]` of a policy file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;

use super::super::binding::parse_secret_name;
use super::super::mistake::{At, Place, did_you_mean, quoted};
use super::super::source::{
    ClientAuth, CommandSource, HttpSource, OAuth2Source, OAuthGrant, SecretSource, VaultSource,
};
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

const FORM: &str = "give one of env = \"VAR\", file = \"PATH\", command = [\"PROGRAM\", \"ARG\"], http = \"https://…\", oauth2 = {…}, vault = {…}, github_app = {…} or github_scoped_token = {…}";
const KEYS: [&str; 14] = [
    "env",
    "file",
    "command",
    "http",
    "oauth2",
    "vault",
    "github_app",
    "github_scoped_token",
    "store",
    "placeholders",
    "timeout_seconds",
    "ttl_seconds",
    "method",
    "bearer",
];
/// The keys that belong to some sources only.
const BESIDE: [(&str, &[&str]); 4] = [
    ("timeout_seconds", &["command"]),
    ("ttl_seconds", &["command", "http", "vault"]),
    ("method", &["http"]),
    ("bearer", &["http"]),
];
const OAUTH2_KEYS: [&str; 8] =
    ["token_url", "grant", "client_id", "client_secret", "refresh_token", "scope", "audience", "auth"];
const GRANTS: [&str; 2] = ["refresh_token", "client_credentials"];
const AUTHS: [&str; 2] = ["basic", "post"];
const VAULT_KEYS: [&str; 5] = ["address", "path", "field", "token", "namespace"];
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
                "oauth2" => sources.push(self.oauth2(value, &mut needs)),
                "vault" => sources.push(self.vault(value, &beside, &mut needs)),
                "github_app" => sources.push(self.github_app(value, &mut needs)),
                "github_scoped_token" => sources.push(self.github_scoped(value, &mut needs)),
                "placeholders" => {
                    let variables =
                        self.strings(value, "placeholders", "without it the sandbox has nothing in its place");
                    let secret = At { value: name.to_string(), place: place.clone() };
                    let raw = variables.into_iter().map(|variable| RawPlaceholder { secret: secret.clone(), variable });
                    self.document.placeholders.extend(raw);
                }
                "store" => {
                    let place = self.place(key.span().start);
                    self.of_service(place, format!("`secrets.{name}.store`"));
                    sources.push(self.string(value, "store").and_then(|stored| self.stored(&stored)));
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

    /// Names in the store are in lower case, however they are written.
    fn stored(&mut self, name: &At<String>) -> Option<SecretSource> {
        match parse_secret_name(&name.value) {
            Ok(parsed) => Some(SecretSource::Store(parsed.to_ascii_lowercase())),
            Err(error) => {
                let what = format!("{} is no name of a secret in the store", quoted(&name.value));
                self.mistakes.add(&name.place, what, error.to_string());
                None
            }
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
                "timeout_seconds" => beside.timeout = self.bounded_seconds(value, word, 300),
                "ttl_seconds" => beside.ttl = self.bounded_seconds(value, word, TTL_MAX),
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
        let text = self.string(value, "http")?;
        let url = self.endpoint(&text, "http")?;
        let bearer = beside.bearer.as_ref().map(|secret| secret.value.clone());
        Some(SecretSource::Http(HttpSource { url, post: beside.post, bearer, ttl: beside.ttl }))
    }

    fn oauth2(&mut self, value: &Value<'_>, needs: &mut Vec<At<String>>) -> Option<SecretSource> {
        let texts = self.texts(value, "oauth2", OAUTH2_KEYS, &["token_url", "grant", "client_id"])?;
        let place = self.place_of(value);
        let [token_url, grant, client_id, client_secret, refresh_token, scope, audience, auth] = texts;
        let token_url = self.endpoint(&token_url?, "oauth2.token_url");
        needs.extend(client_secret.iter().chain(&refresh_token).cloned());
        let grant = self.known(grant?, "oauth2.grant", &GRANTS)?;
        let grant = match (grant.as_str(), refresh_token) {
            ("refresh_token", Some(token)) => OAuthGrant::RefreshToken(token.value),
            ("refresh_token", None) => {
                let hint = "add refresh_token = \"SECRET\", the name of the secret that holds it";
                self.mistakes.add(&place, "the grant has no `refresh_token`", hint);
                return None;
            }
            (_, Some(token)) => {
                let what = "`refresh_token` says nothing of the grant client_credentials";
                self.mistakes.add(&token.place, what, "take it out, or write grant = \"refresh_token\"");
                return None;
            }
            (_, None) if client_secret.is_none() => {
                let hint = "add client_secret = \"SECRET\", the name of the secret that holds it";
                self.mistakes.add(&place, "the client has no credentials: there is no `client_secret`", hint);
                return None;
            }
            (_, None) => OAuthGrant::ClientCredentials,
        };
        if let (Some(auth), None) = (&auth, &client_secret) {
            self.mistakes.add(&auth.place, "`auth` says nothing without `client_secret`", "take it out, or add one");
        }
        let auth = match auth {
            Some(auth) => self.known(auth, "oauth2.auth", &AUTHS)?,
            None => AUTHS[0].to_owned(),
        };
        let auth = if auth == "post" { ClientAuth::Post } else { ClientAuth::Basic };
        let value = |at: Option<At<String>>| at.map(|at| at.value);
        let (client_secret, scope, audience) = (value(client_secret), value(scope), value(audience));
        let client_id = value(client_id)?;
        let token_url = token_url?;
        Some(SecretSource::OAuth2(OAuth2Source { token_url, grant, client_id, client_secret, scope, audience, auth }))
    }

    fn vault(&mut self, value: &Value<'_>, beside: &Beside, needs: &mut Vec<At<String>>) -> Option<SecretSource> {
        let texts = self.texts(value, "vault", VAULT_KEYS, &["address", "path", "field", "token"])?;
        let [address, path, field, token, namespace] = texts;
        needs.extend(token.iter().cloned());
        let (address, path) = (address?, path?);
        let whole = self.endpoint(&address, "vault.address")?;
        if whole.path().contains('?') {
            let what = "`vault.address` holds a query";
            self.mistakes.add(&address.place, what, "write https://HOST:PORT");
            return None;
        }
        let parts: Vec<&str> = path.value.split('/').collect();
        let plain = |part: &&str| {
            let safe = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
            !part.is_empty() && *part != "." && *part != ".." && part.chars().all(safe)
        };
        let data = parts.iter().position(|part| *part == "data");
        if !parts.iter().all(plain) || data.is_none_or(|at| at == 0 || at + 1 == parts.len()) {
            let what = format!("{} is no path in a key-value engine of version 2", quoted(&path.value));
            let hint = "write MOUNT/data/NAME, such as secret/data/app, of letters, digits and -_.~";
            self.mistakes.add(&path.place, what, hint);
            return None;
        }
        if let Some(namespace) = namespace.as_ref().filter(|text| !text.value.bytes().all(|b| b.is_ascii_graphic())) {
            let what = format!("{} is no namespace", quoted(&namespace.value));
            self.mistakes.add(&namespace.place, what, "write it as the vault does, such as team/a");
        }
        let text = format!("{}/v1/{}", whole.url().trim_end_matches('/'), path.value);
        let url = self.endpoint(&At { value: text, place: path.place }, "vault.path")?;
        let value = |at: Option<At<String>>| at.map(|at| at.value);
        let (field, token, namespace) = (value(field)?, value(token)?, value(namespace));
        Some(SecretSource::Vault(VaultSource { url, field, token, namespace, ttl: beside.ttl }))
    }

    /// The texts of a table, by its keys; none where a required one is missing or it is no table.
    fn texts<const N: usize>(
        &mut self,
        value: &Value<'_>,
        name: &str,
        keys: [&'static str; N],
        required: &[&str],
    ) -> Option<[Option<At<String>>; N]> {
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, name, &format!("a table, such as {{ {} = \"…\" }}", keys[0]));
            return None;
        };
        table.iter().filter(|(key, _)| !keys.contains(&&**key.get_ref())).for_each(|(key, _)| {
            self.unknown(key, &format!("{name}."), &keys);
        });
        let place = self.place_of(value);
        for missing in required.iter().filter(|key| !table.contains_key(**key)) {
            self.mistakes.add(&place, format!("`{name}` has no `{missing}`"), format!("add {missing} = \"…\""));
        }
        let texts = keys.map(|key| table.get(key).and_then(|value| self.string(value, &format!("{name}.{key}"))));
        let complete = keys.iter().zip(&texts).all(|(key, text)| text.is_some() || !required.contains(key));
        complete.then_some(texts)
    }

    /// A word out of `known`.
    fn known(&mut self, word: At<String>, name: &str, known: &[&str]) -> Option<String> {
        if known.contains(&word.value.as_str()) {
            return Some(word.value);
        }
        let what = format!("{} is not a value of `{name}`", quoted(&word.value));
        self.mistakes.add(&word.place, what, did_you_mean(&word.value, known));
        None
    }

    fn endpoint(&mut self, text: &At<String>, name: &str) -> Option<Endpoint> {
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
    pub(super) fn bounded_seconds(&mut self, value: &Value<'_>, name: &str, most: u64) -> Option<Duration> {
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
