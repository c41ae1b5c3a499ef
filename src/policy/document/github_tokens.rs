//! The sources of `[secrets.NAME]` that ask GitHub for a token.

use std::collections::BTreeMap;

use super::super::github::{AppGrant, AppInstallation, ClientId, GitHubSite, RepoName, Repositories, ScopedUserToken};
use super::super::mistake::{At, Place, quoted};
use super::super::source::SecretSource;
use super::github::RawApp;
use super::{Reader, Value};

const APP: &str = "github_app";
const SCOPED: &str = "github_scoped_token";
const APP_KEYS: [&str; 7] = ["client_id", "app_id", "private_key", "host", "owner", "repositories", "permissions"];
const SCOPED_KEYS: [&str; 7] =
    ["client_id", "client_secret", "user_token", "host", "owner", "repositories", "permissions"];

/// What both sources say.
struct Common {
    site: GitHubSite,
    repositories: Repositories,
    permissions: BTreeMap<String, String>,
}

impl Reader<'_> {
    pub(super) fn github_app(&mut self, value: &Value<'_>, needs: &mut Vec<At<String>>) -> Option<SecretSource> {
        self.known_keys(value, APP, &APP_KEYS)?;
        let private_key = self.needed(value, APP, "private_key", needs);
        let common = self.common(value, APP);
        let client_id = match (self.entry(value, APP, "client_id"), self.entry(value, APP, "app_id")) {
            (Some(id), None) | (None, Some(id)) => self.client_id(&id, APP),
            (None, None) => {
                let place = self.place_of(value);
                self.mistakes.add(&place, format!("`{APP}` has no `client_id`"), "add client_id = \"…\", or app_id");
                None
            }
            (Some(_), Some(id)) => {
                self.mistakes.add(&id.place, "`app_id` says again what `client_id` says", "keep one of them");
                None
            }
        };
        let (Common { site, repositories, permissions }, client_id) = (common?, client_id?);
        let private_key = private_key?;
        Some(SecretSource::GitHubApp(AppInstallation { site, client_id, private_key, repositories, permissions }))
    }

    pub(super) fn github_scoped(&mut self, value: &Value<'_>, needs: &mut Vec<At<String>>) -> Option<SecretSource> {
        self.known_keys(value, SCOPED, &SCOPED_KEYS)?;
        let client_secret = self.needed(value, SCOPED, "client_secret", needs);
        let user_token = self.needed(value, SCOPED, "user_token", needs);
        let common = self.common(value, SCOPED);
        let client_id = self.required(value, SCOPED, "client_id").and_then(|id| self.client_id(&id, SCOPED));
        let Common { site, repositories, permissions } = common?;
        let (client_id, client_secret, user_token) = (client_id?, client_secret?, user_token?);
        let scoped = ScopedUserToken { site, client_id, client_secret, user_token, repositories, permissions };
        Some(SecretSource::GitHubScoped(scoped))
    }

    /// `app` of a binding: what stands there is said once for the repositories of every owner.
    pub(super) fn binding_app(&mut self, value: &Value<'_>) -> Option<RawApp> {
        self.known_keys(value, "app", &["client_id", "private_key", "owner"])?;
        let mut needs = Vec::new();
        let private_key = self.needed(value, "app", "private_key", &mut needs);
        let client_id = self.required(value, "app", "client_id").and_then(|id| self.client_id(&id, "app"));
        let owner = self.entry(value, "app", "owner").map(|owner| owner.value);
        let grant = AppGrant::Installation { private_key: private_key? };
        Some(RawApp { place: self.place_of(value), client_id: client_id?, grant, owner, needs })
    }

    /// `user_app` of a binding.
    pub(super) fn binding_user_app(&mut self, value: &Value<'_>) -> Option<RawApp> {
        self.known_keys(value, "user_app", &["client_id", "client_secret", "user_token", "owner"])?;
        let mut needs = Vec::new();
        let client_secret = self.needed(value, "user_app", "client_secret", &mut needs);
        let user_token = self.needed(value, "user_app", "user_token", &mut needs);
        let client_id = self.required(value, "user_app", "client_id").and_then(|id| self.client_id(&id, "user_app"));
        let owner = self.entry(value, "user_app", "owner").map(|owner| owner.value);
        let grant = AppGrant::User { client_secret: client_secret?, user_token: user_token? };
        Some(RawApp { place: self.place_of(value), client_id: client_id?, grant, owner, needs })
    }

    /// Nothing where it is no table.
    fn known_keys(&mut self, value: &Value<'_>, name: &str, keys: &[&str]) -> Option<()> {
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, name, &format!("a table, such as {{ {} = \"…\" }}", keys[0]));
            return None;
        };
        table.iter().filter(|(key, _)| !keys.contains(&&**key.get_ref())).for_each(|(key, _)| {
            self.unknown(key, &format!("{name}."), keys);
        });
        Some(())
    }

    fn entry(&mut self, value: &Value<'_>, name: &str, key: &str) -> Option<At<String>> {
        let entry = value.get_ref().as_table()?.get(key)?;
        self.string(entry, &format!("{name}.{key}"))
    }

    fn required(&mut self, value: &Value<'_>, name: &str, key: &str) -> Option<At<String>> {
        if value.get_ref().as_table().is_some_and(|table| !table.contains_key(key)) {
            let place = self.place_of(value);
            self.mistakes.add(&place, format!("`{name}` has no `{key}`"), format!("add {key} = \"…\""));
        }
        self.entry(value, name, key)
    }

    /// The name of another secret.
    fn needed(&mut self, value: &Value<'_>, name: &str, key: &str, needs: &mut Vec<At<String>>) -> Option<String> {
        let secret = self.required(value, name, key)?;
        needs.push(secret.clone());
        Some(secret.value)
    }

    fn client_id(&mut self, text: &At<String>, name: &str) -> Option<ClientId> {
        let parsed = ClientId::parse(&text.value);
        parsed.map_err(|error| self.bad(&text.place, name, &text.value, "client id of an App", &error)).ok()
    }

    fn bad(&mut self, place: &Place, name: &str, text: &str, kind: &str, error: &dyn std::fmt::Display) {
        self.mistakes.add(place, format!("{} is no {kind} (`{name}`)", quoted(text)), error.to_string());
    }

    fn common(&mut self, value: &Value<'_>, name: &str) -> Option<Common> {
        let place = self.place_of(value);
        let host = self.entry(value, name, "host");
        let host = host.unwrap_or_else(|| At { value: GitHubSite::GITHUB.to_owned(), place });
        let site = GitHubSite::new(&host.value);
        let site = site.map_err(|error| self.bad(&host.place, name, &host.value, "host of a GitHub", &error)).ok();
        let repositories = self.repositories(value, name);
        let permissions = self.permissions(value, name);
        Some(Common { site: site?, repositories: repositories?, permissions: permissions? })
    }

    fn repositories(&mut self, value: &Value<'_>, name: &str) -> Option<Repositories> {
        let owner = self.entry(value, name, "owner");
        let key = format!("{name}.repositories");
        let Some(written) = value.get_ref().as_table()?.get("repositories") else {
            let place = self.place_of(value);
            let hint = "add repositories = [\"OWNER/NAME\"], or \"all\" with an owner";
            self.mistakes.add(&place, format!("`{name}` has no `repositories`"), hint);
            return None;
        };
        let place = self.place_of(written);
        let made = match (written.get_ref().as_str(), owner) {
            (Some("all"), Some(owner)) => Repositories::all(&owner.value),
            (Some("all"), None) => {
                self.mistakes.add(&place, format!("`{name}` is for all repositories of nobody"), "add owner = \"…\"");
                return None;
            }
            (Some(_), _) => {
                self.wrong_type(written, &key, "\"all\", or a list such as [\"OWNER/NAME\"]");
                return None;
            }
            (None, owner) => {
                let texts = self.strings(written, &key, "write \"all\" for all that the App may see");
                let names: Vec<_> = texts.iter().filter_map(|text| self.repository(text, name)).collect();
                if names.is_empty() || names.len() < texts.len() {
                    return None;
                }
                let made = Repositories::named(names);
                let other = |owner: &At<String>, of: &str| !owner.value.eq_ignore_ascii_case(of);
                if let (Some(owner), Ok(made)) = (owner, &made)
                    && other(&owner, made.owner())
                {
                    let what = format!("`{name}.owner` is not the owner of its repositories, {}", made.owner());
                    self.mistakes.add(&owner.place, what, "take it out");
                }
                made
            }
        };
        let hint = "a secret is for the repositories of one owner; give each owner a secret of its own";
        made.map_err(|error| self.mistakes.add(&place, format!("`{key}`: {error}"), hint)).ok()
    }

    fn repository(&mut self, text: &At<String>, name: &str) -> Option<RepoName> {
        let parsed = RepoName::parse(&text.value);
        parsed.map_err(|error| self.bad(&text.place, name, &text.value, "repository", &error)).ok()
    }

    fn permissions(&mut self, value: &Value<'_>, name: &str) -> Option<BTreeMap<String, String>> {
        const LEVELS: [&str; 3] = ["read", "write", "admin"];
        let hint = "name what the token may do, such as permissions = { contents = \"read\" }";
        let Some(written) = value.get_ref().as_table()?.get("permissions") else {
            let place = self.place_of(value);
            self.mistakes.add(&place, format!("`{name}` has no `permissions`"), hint);
            return None;
        };
        let key = format!("{name}.permissions");
        let Some(table) = written.get_ref().as_table() else {
            self.wrong_type(written, &key, "a table, such as { contents = \"read\" }");
            return None;
        };
        if table.is_empty() {
            let place = self.place_of(written);
            self.mistakes.add(&place, format!("`{key}` is empty"), hint);
        }
        let mut permissions = BTreeMap::new();
        for (permission, level) in table {
            let word = &**permission.get_ref();
            if !word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') || word.len() > 64 {
                let place = self.place(permission.span().start);
                let what = format!("{} is no permission of an App", quoted(word));
                self.mistakes.add(&place, what, "write it as the REST API does, such as pull_requests");
            }
            let level = self.word(level, &key, &LEVELS)?;
            permissions.insert(word.to_owned(), level.value);
        }
        (!permissions.is_empty()).then_some(permissions)
    }
}
