//! Where secrets come from.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::Value;

use super::super::github::{GitHubSite, Repositories};
use super::super::source::{ClientAuth, CommandSource, HttpSource, OAuth2Source, OAuthGrant, SecretSource};
use super::{Key, inline, list, text};

/// As many keys as any source has.
pub(super) fn of_source(source: &SecretSource) -> [Key; 4] {
    const NONE: Key = ("", None);
    let seconds = |time: &Duration| i64::try_from(time.as_secs()).ok().map(Value::Integer);
    let ttl = |ttl: &Option<Duration>| ("ttl_seconds", ttl.as_ref().and_then(seconds));
    match source {
        SecretSource::Env(name) => [("env", Some(text(name))), NONE, NONE, NONE],
        SecretSource::File(path) => [("file", Some(text(path.display()))), NONE, NONE, NONE],
        SecretSource::Store(name) => [("store", Some(text(name))), NONE, NONE, NONE],
        SecretSource::Command(command) => {
            let timeout = Some(&command.timeout).filter(|timeout| **timeout != CommandSource::TIMEOUT);
            let timeout = ("timeout_seconds", timeout.and_then(seconds));
            [("command", Some(list(&command.argv))), timeout, ttl(&command.ttl), NONE]
        }
        SecretSource::Http(HttpSource { url, post, bearer, ttl: lives }) => [
            ("http", Some(text(url.url()))),
            ("method", post.then(|| text("POST"))),
            ("bearer", bearer.as_ref().map(text)),
            ttl(lives),
        ],
        SecretSource::OAuth2(oauth) => [("oauth2", Some(inline(of_oauth2(oauth)))), NONE, NONE, NONE],
        SecretSource::Vault(vault) => {
            let url = vault.url.url();
            let (address, path) = url.split_once("/v1/").unwrap_or_default();
            let keys = [
                ("address", Some(text(address))),
                ("path", Some(text(path))),
                ("field", Some(text(&vault.field))),
                ("token", Some(text(&vault.token))),
                ("namespace", vault.namespace.as_ref().map(text)),
            ];
            [("vault", Some(inline(keys))), ttl(&vault.ttl), NONE, NONE]
        }
        SecretSource::GitHubApp(app) => {
            let [host, owner, repositories, permissions] =
                of_github_token(&app.site, &app.repositories, &app.permissions);
            let client_id = ("client_id", Some(text(app.client_id.as_str())));
            let private_key = ("private_key", Some(text(&app.private_key)));
            let keys = [client_id, private_key, host, owner, repositories, permissions];
            [("github_app", Some(inline(keys))), NONE, NONE, NONE]
        }
        SecretSource::GitHubScoped(scoped) => {
            let [host, owner, repositories, permissions] =
                of_github_token(&scoped.site, &scoped.repositories, &scoped.permissions);
            let keys = [
                ("client_id", Some(text(scoped.client_id.as_str()))),
                ("client_secret", Some(text(&scoped.client_secret))),
                ("user_token", Some(text(&scoped.user_token))),
                host,
                owner,
                repositories,
                permissions,
            ];
            [("github_scoped_token", Some(inline(keys))), NONE, NONE, NONE]
        }
    }
}

fn of_github_token(site: &GitHubSite, repositories: &Repositories, permissions: &BTreeMap<String, String>) -> [Key; 4] {
    let owner = repositories.names().is_none().then(|| text(repositories.owner()));
    let permissions = permissions.iter().map(|(name, level)| (name.clone(), text(level))).collect();
    [
        ("host", (site.host() != GitHubSite::GITHUB).then(|| text(site.host()))),
        ("owner", owner),
        ("repositories", Some(repositories.names().map_or_else(|| text("all"), list))),
        ("permissions", Some(Value::Table(permissions))),
    ]
}

fn of_oauth2(oauth: &OAuth2Source) -> [Key; 8] {
    let (grant, refresh_token) = match &oauth.grant {
        OAuthGrant::RefreshToken(token) => ("refresh_token", Some(text(token))),
        OAuthGrant::ClientCredentials => ("client_credentials", None),
    };
    let post = match oauth.auth {
        ClientAuth::Basic => None,
        ClientAuth::Post => Some(text("post")),
    };
    [
        ("token_url", Some(text(oauth.token_url.url()))),
        ("grant", Some(text(grant))),
        ("client_id", Some(text(&oauth.client_id))),
        ("client_secret", oauth.client_secret.as_ref().map(text)),
        ("refresh_token", refresh_token),
        ("scope", oauth.scope.as_ref().map(text)),
        ("audience", oauth.audience.as_ref().map(text)),
        ("auth", post),
    ]
}
