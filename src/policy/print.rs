//! A policy as a file of our own: what `policy import` prints.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

use toml::Value;

use super::binding::{Accepts, BasicUser, Binding, Placement};
use super::compile::Compiled;
use super::egress::EgressMode;
use super::files::{FileLimits, FilePath, FilePolicy, UnixSockets};
use super::github::{AppGrant, Credential, GitHubBinding, GitHubSite, Repositories, WrittenPushRules};
use super::network::NetworkMode;
use super::rule::{Action, Rule, Schemes};
use super::source::{ClientAuth, CommandSource, HttpSource, OAuth2Source, OAuthGrant, SecretSource, SecretSpec};
use super::upstream::UpstreamProxy;

/// The TOML that says what a policy says. Two policies that say the same become the same text, unless `places` asks for a
/// comment on where each rule comes from.
///
/// Deny rules of other systems for `*`, and their patterns below a public suffix, are printed as they are, although a policy
/// file of our own does not take them: load the text to know.
pub fn toml(compiled: &Compiled, places: bool) -> String {
    let mut out = String::new();
    // All of it, so that what is added is not forgotten here. The last three are not what a policy says.
    let Compiled {
        policy,
        files,
        upstream_proxy,
        secrets,
        workspace_rules,
        placeholders,
        warnings: _,
        written: _,
        cases: _,
    } = compiled;
    let mode = match policy.network_mode() {
        NetworkMode::None if policy.mode_is_fixed => Some("none"),
        NetworkMode::None => None,
        NetworkMode::All => Some("all"),
        NetworkMode::Allow => Some("allow"),
    };
    let hosts: Vec<String> = policy.network().entries().iter().map(ToString::to_string).collect();
    table(&mut out, "network", [("mode", mode.map(text)), ("hosts", some(&hosts))]);
    for rule in policy.rules().as_slice() {
        let comment = if places { format!("# {}\n", rule.place) } else { String::new() };
        table_after(&mut out, &comment, "[network.rules]", of_rule(rule));
    }
    let mode = match policy.egress().mode() {
        EgressMode::BlockAll => None,
        EgressMode::AllowAll => Some("allow_all"),
        EgressMode::Custom => Some("custom"),
    };
    let cidrs: Vec<&str> = policy.egress().cidrs().iter().map(|cidr| cidr.as_str()).collect();
    let denied: Vec<String> = policy.addresses.denied().iter().map(ToString::to_string).collect();
    let open = policy.addresses.open_private().then_some(Value::Boolean(false));
    let egress = [
        ("mode", mode.map(text)),
        ("allow_cidrs", some(&cidrs)),
        ("deny_cidrs", some(&denied)),
        ("block_private_ips", open),
    ];
    table(&mut out, "egress", egress);
    table(&mut out, "files", of_files(files));
    if let Some(UpstreamProxy { authority, auth, looks_up }) = upstream_proxy {
        let upstream = [
            ("proxy", Some(text(format!("http://{}:{}", authority.host, authority.port)))),
            ("proxy_auth", auth.as_deref().map(text)),
            ("resolve", looks_up.then(|| text("upstream"))),
        ];
        table(&mut out, "upstream", upstream);
    }
    let passed: Vec<String> = policy.passthrough.as_slice().iter().map(passed).collect();
    table(&mut out, "tls", [("passthrough", some(&passed))]);
    if *workspace_rules {
        table(&mut out, "[header_bindings]", [("kind", Some(text("workspace_header_bindings")))]);
    }
    for github in policy.githubs() {
        table(&mut out, "[header_bindings]", of_github(github));
    }
    for binding in policy.bindings().iter().filter(|binding| !binding.is_for_github()) {
        match binding.accepts() {
            Accepts::Anything => table(&mut out, "[header_bindings]", of_binding(binding)),
            Accepts::PlaceholderOnly => table(&mut out, "[header_bindings]", of_mistral_api(binding)),
        }
    }
    let declared: Vec<_> = policy.githubs().iter().flat_map(GitHubBinding::secrets).collect();
    let is_written =
        |spec: &&SecretSpec| !declared.iter().any(|(name, source)| *name == spec.name && *source == spec.source);
    for secret in secrets.iter().filter(is_written) {
        let stand_ins = placeholders.iter().filter(|placeholder| placeholder.secret == secret.name);
        let variables: Vec<&str> = stand_ins.map(|placeholder| placeholder.variable.as_str()).collect();
        let [a, b, c, d] = of_source(&secret.source);
        let keys = [a, b, c, d, ("placeholders", some(&variables))];
        table(&mut out, &format!("secrets.{}", secret.name), keys);
    }
    out
}

type Key = (&'static str, Option<Value>);

fn of_rule(rule: &Rule) -> [Key; 8] {
    let scheme = match rule.schemes {
        Schemes::Any => "any",
        Schemes::Only(scheme) => scheme.as_str(),
    };
    let ports = match rule.ports.listed() {
        None => text("all"),
        Some(ports) => Value::Array(ports.iter().map(|port| Value::Integer((*port).into())).collect()),
    };
    let action = match rule.action {
        Action::Allow => "allow",
        Action::Deny => "deny",
    };
    [
        ("host", Some(text(&rule.host))),
        ("scheme", Some(text(scheme))),
        ("ports", Some(ports)),
        ("methods", rule.methods.as_ref().map(list)),
        ("paths", rule.paths.as_ref().map(list)),
        ("action", Some(text(action))),
        ("reason", rule.reason.as_ref().map(text)),
        ("opens_address", rule.opens_address.then_some(Value::Boolean(true))),
    ]
}

fn of_files(files: &FilePolicy) -> [Key; 7] {
    let paths = |of: fn(&FileLimits) -> &Vec<FilePath>| files.limits.as_ref().and_then(|limits| some(of(limits)));
    let sockets = match &files.unix_sockets {
        UnixSockets::Masked => None,
        UnixSockets::Listed(paths) => some(paths),
        UnixSockets::All => Some(text("all")),
    };
    [
        ("allow_write", paths(|limits| &limits.allow_write)),
        ("deny_write", paths(|limits| &limits.deny_write)),
        ("deny_read", paths(|limits| &limits.deny_read)),
        ("allow_read", paths(|limits| &limits.allow_read)),
        // A table that says nothing else permits no write.
        ("disabled", (files.limits.is_none() && sockets.is_some()).then_some(Value::Boolean(true))),
        ("allow_git_config", files.limits.as_ref().map(|limits| Value::Boolean(limits.allow_git_config))),
        ("unix_sockets", sockets),
    ]
}

/// A host whose TLS is passed on unread, with its port where it has one.
fn passed(rule: &Rule) -> String {
    match rule.ports.listed() {
        Some([port]) => format!("{}:{port}", rule.host),
        Some(_) | None => rule.host.to_string(),
    }
}

fn of_binding(binding: &Binding) -> [Key; 11] {
    let given = |value: &str| (!value.is_empty()).then(|| text(value));
    let placement = binding.placement();
    // Without a kind it is for a header.
    let kind = Some(placement.kind());
    let mut signed = [("session_token", None), ("region", None), ("service", None)];
    let (kind, place, [prefix, suffix]) = match placement {
        Placement::Header { name, prefix, suffix } => {
            (None, ("header", Some(text(name))), [given(prefix), given(suffix)])
        }
        Placement::QueryParameter { name } => (kind, ("parameter", Some(text(name))), [None, None]),
        Placement::Cookie { name } => (kind, ("cookie", Some(text(name))), [None, None]),
        Placement::Basic { user: BasicUser::Plain(user) } => (kind, ("user", Some(text(user))), [None, None]),
        Placement::Basic { user: BasicUser::Secret(user) } => (kind, ("user_secret", Some(text(user))), [None, None]),
        Placement::ClientCertificate { certificate } => (kind, ("certificate", Some(text(certificate))), [None, None]),
        Placement::AwsSigv4 { access_key_id, session_token, scope } => {
            let values = [session_token, &scope.region, &scope.service].map(|value| value.as_ref().map(text));
            signed.iter_mut().zip(values).for_each(|((_, to), value)| *to = value);
            (kind, ("access_key_id", Some(text(access_key_id))), [None, None])
        }
        Placement::PathSegment { prefix, suffix } => (kind, ("prefix", None), [given(prefix), given(suffix)]),
    };
    let [token, region, service] = signed;
    [
        ("kind", kind.map(text)),
        ("host", Some(text(binding.host()))),
        place,
        token,
        region,
        service,
        ("secret_name", Some(text(binding.secret_name()))),
        ("path_prefix", given(binding.path_prefix()).filter(|_| !binding.is_for_connection())),
        ("prefix", prefix),
        ("suffix", suffix),
        ("scrub", (!binding.scrub()).then_some(Value::Boolean(false))),
    ]
}

fn of_mistral_api(binding: &Binding) -> [Key; 4] {
    let ttl = binding.ttl().and_then(|ttl| i64::try_from(ttl.as_secs()).ok());
    [
        ("kind", Some(text("mistral_api"))),
        ("host", Some(text(binding.host()))),
        ("secret_name", Some(text(binding.secret_name()))),
        ("ttl_seconds", ttl.map(Value::Integer)),
    ]
}

fn of_github(github: &GitHubBinding) -> [Key; 10] {
    let repos = github.repos().map_or_else(|| text("all"), list);
    let host = Some(&github.host().host).filter(|host| host.to_string() != "github.com");
    let access = (!github.scope().write).then(|| text("read"));
    let ttl = i64::try_from(github.ttl().as_secs()).ok().filter(|ttl| *ttl != 3600);
    let (secret, app, user_app) = match github.credential() {
        Credential::Token(token) => (token.source.is_none().then(|| text(&token.name)), None, None),
        Credential::App(app) => {
            let client_id = ("client_id", Some(text(app.client_id().as_str())));
            let owner = ("owner", app.owner().map(text));
            match app.grant() {
                AppGrant::Installation { private_key } => {
                    (None, Some(inline([client_id, ("private_key", Some(text(private_key))), owner])), None)
                }
                AppGrant::User { client_secret, user_token } => {
                    let secrets = [client_secret, user_token].map(|name| Some(text(name)));
                    let [client_secret, user_token] = secrets;
                    let keys = [client_id, ("client_secret", client_secret), ("user_token", user_token), owner];
                    (None, None, Some(inline(keys)))
                }
            }
        }
    };
    [
        ("kind", Some(text("github"))),
        ("repos", Some(repos)),
        ("host", host.map(text)),
        ("access", access),
        ("ttl_seconds", ttl.map(Value::Integer)),
        ("secret_name", secret),
        ("app", app),
        ("user_app", user_app),
        ("options", some(&github.scope().options.iter().collect::<Vec<_>>())),
        ("push", github.push().map(|push| inline(of_push(push)))),
    ]
}

fn of_push(push: &WrittenPushRules) -> [Key; 7] {
    let flag = |is_on: bool, usual: bool| (is_on != usual).then_some(Value::Boolean(is_on));
    [
        ("branches", push.branches.as_ref().and_then(|branches| some(branches))),
        ("deny_branches", some(&push.deny_branches)),
        ("other_refs", some(&push.other_refs)),
        ("create", flag(push.create, true)),
        ("delete", flag(push.delete, false)),
        ("tags", flag(push.tags, false)),
        ("force", flag(push.force, false)),
    ]
}

/// As many keys as any source has.
fn of_source(source: &SecretSource) -> [Key; 4] {
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

/// A table in one line.
fn inline<const N: usize>(keys: [Key; N]) -> Value {
    Value::Table(keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

/// A table with the keys that have a value; none without.
fn table<const N: usize>(out: &mut String, name: &str, keys: [Key; N]) {
    table_after(out, "", name, keys);
}

fn table_after<const N: usize>(out: &mut String, comment: &str, name: &str, keys: [Key; N]) {
    if keys.iter().all(|(_, value)| value.is_none()) {
        return;
    }
    let gap = if out.is_empty() { "" } else { "\n" };
    // Writing to a text cannot fail.
    let _ = writeln!(out, "{gap}{comment}[{name}]");
    for (key, value) in keys {
        let _ = value.map(|value| writeln!(out, "{key} = {value}"));
    }
}

fn text(value: impl Display) -> Value {
    Value::String(value.to_string())
}

fn list<T: Display>(values: impl IntoIterator<Item = T>) -> Value {
    Value::Array(values.into_iter().map(text).collect())
}

/// An empty list is never written: it would be a mistake.
fn some<T: Display>(values: &[T]) -> Option<Value> {
    (!values.is_empty()).then(|| list(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{NamedText, PolicyOptions, load};

    const WHOLE: &str = r#"[network]
mode = "allow"
hosts = ["api.example.com", "files.example.com:8443"]

[[network.rules]]
host = "*.example.com"
scheme = "https"
ports = [443]
methods = ["GET", "HEAD"]
paths = ["/v1/**"]
action = "allow"
reason = 'it says "read only"'

[[network.rules]]
host = "bad.example.com"
scheme = "any"
ports = "all"
action = "deny"

[egress]
mode = "custom"
allow_cidrs = ["203.0.113.5/24"]
deny_cidrs = ["9.9.9.0/24"]
block_private_ips = false

[files]
allow_write = [".", "/tmp"]
deny_read = ["~/.ssh"]
allow_git_config = false
unix_sockets = ["/run/x.sock"]

[upstream]
proxy = "http://proxy.example.com:3128"
proxy_auth = "PROXY"
resolve = "upstream"

[tls]
passthrough = ["pinned.example.com:8443", "*.pinned.example.org"]

[[header_bindings]]
host = "api.example.com"
header = "authorization"
secret_name = "KEY"
path_prefix = "/v1/"
prefix = "Bearer "
scrub = false

[[header_bindings]]
kind = "query_parameter"
host = "query.example.com"
parameter = "api_key"
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "basic"
host = "basic.example.com"
user = ""
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "basic"
host = "pair.example.com"
user_secret = "USER"
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "cookie"
host = "cookie.example.com"
cookie = "session"
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "client_certificate"
host = "tls.example.com"
certificate = "USER"
secret_name = "KEY"

[[header_bindings]]
kind = "aws_sigv4"
host = "aws.example.com"
access_key_id = "KEY"
session_token = "USER"
region = "eu-west-1"
service = "s3"
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "path_segment"
host = "path.example.com"
secret_name = "KEY"
path_prefix = "/"
prefix = "bot"
suffix = ".json"

[secrets.APP]
github_app = { client_id = "1", permissions = { contents = "write" }, private_key = "KEY", repositories = ["acme/lib", "acme/widget"] }

[secrets.KEY]
command = ["print", "it's"]
placeholders = ["KEY"]

[secrets.LOGIN]
oauth2 = { audience = "a", auth = "post", client_id = "c", client_secret = "KEY", grant = "refresh_token", refresh_token = "PROXY", scope = "s", token_url = "https://login.example.com/token" }

[secrets.MACHINE]
oauth2 = { client_id = "c", client_secret = "KEY", grant = "client_credentials", token_url = "https://login.example.com/token" }

[secrets.NARROWED]
github_scoped_token = { client_id = "c", client_secret = "KEY", host = "ghes.test", owner = "acme", permissions = { contents = "read", issues = "write" }, repositories = "all", user_token = "LOGIN" }

[secrets.PROXY]
env = "PROXY"

[secrets.SERVED]
http = "https://issuer.example.com/key"
method = "POST"
bearer = "KEY"
ttl_seconds = 600

[secrets.SLOW]
command = ["print"]
timeout_seconds = 90
ttl_seconds = 3600

[secrets.USER]
env = "USER_NAME"

[secrets.VAULT]
vault = { address = "https://vault.example.com:8200", field = "f", namespace = "n", path = "secret/data/app", token = "KEY" }
ttl_seconds = 60
"#;

    #[test]
    fn what_is_printed_says_what_was_written() {
        let load = |text: &str| {
            let file = NamedText { name: "p.toml".to_owned(), text: text.to_owned() };
            load(&[file], &PolicyOptions::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"))
        };
        let printed_of = |text: &str| toml(&load(text), false);
        let printed = printed_of(WHOLE);
        assert_eq!(printed, WHOLE);
        let placed = toml(&load(WHOLE), true);
        assert!(placed.contains("\n# p.toml:5:1\n[[network.rules]]\n"), "{placed}");
        assert_eq!(toml(&load(&placed), false), WHOLE);
        assert_eq!(toml(&load(""), false), "");
        assert_eq!(toml(&load("[network]\nmode = \"none\"\n"), false), "[network]\nmode = \"none\"\n");
        let project = printed_of("network_policy:\n  allow_all_unix_sockets: true");
        assert_eq!(project, "[files]\ndisabled = true\nunix_sockets = \"all\"\n");
        assert_eq!(printed_of(&project), project);
        assert_eq!(printed_of("[files]\n"), "[files]\nallow_git_config = false\n");
    }
}
