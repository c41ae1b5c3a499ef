//! A policy as a file of our own: what `policy import` prints.

mod secrets;
#[cfg(test)]
mod tests;

use std::fmt::{Display, Write};

use toml::Value;

use super::binding::{Accepts, BasicUser, Binding, Placement};
use super::compile::Compiled;
use super::egress::EgressMode;
use super::files::{FileLimits, FilePath, FilePolicy, UnixSockets};
use super::github::{AppGrant, Credential, GitHubBinding, WrittenPushRules};
use super::network::NetworkMode;
use super::rule::{Action, Rule, Schemes};
use super::source::SecretSpec;
use super::upstream::UpstreamProxy;

use secrets::of_source;

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

fn of_github(github: &GitHubBinding) -> [Key; 11] {
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
        ("projects", some(&github.scope().projects)),
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
