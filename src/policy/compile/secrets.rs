//! Secrets: their names, their sources, and what needs what.

use std::collections::{BTreeMap, BTreeSet};

use super::super::binding::{Binding, parse_secret_name};
use super::super::document::RawSecret;
use super::super::mistake::{At, Collector, Warning, quoted};
use super::super::source::{OAuth2Source, OAuthGrant, SecretSource, SecretSpec};
use super::super::upstream::UpstreamProxy;
use super::{declare, undeclared};

pub(super) type Secrets = BTreeMap<String, At<SecretSpec>>;

pub(super) fn secrets(raw: Vec<RawSecret>, declared: &BTreeSet<String>, mistakes: &mut Collector) -> Secrets {
    let mut secrets = Secrets::new();
    for RawSecret { name, source, place, needs } in raw {
        if let Err(error) = parse_secret_name(&name.value) {
            mistakes.add(&name.place, format!("{} is no name of a secret", quoted(&name.value)), error.to_string());
        }
        if let Some((what, hint)) = bad_source(&source) {
            mistakes.add(&place, what, hint);
        }
        for name in needs.iter().filter(|name| !declared.contains(&name.value)) {
            mistakes.add(&name.place, undeclared(&name.value), declare(&name.value));
        }
        match secrets.get(&name.value) {
            Some(earlier) if earlier.value.source != source => {
                let what = format!("the secret {} has another source at {}", quoted(&name.value), earlier.place);
                mistakes.add(&place, what, "keep one of them");
            }
            Some(_) => {}
            None => {
                let spec = SecretSpec { name: name.value.clone(), source };
                secrets.insert(name.value, At { value: spec, place });
            }
        }
    }
    refuse_cycles(&secrets, mistakes);
    secrets
}

fn refuse_cycles(secrets: &Secrets, mistakes: &mut Collector) {
    for (name, secret) in secrets {
        let needs = needed_by(secrets, secret.value.source.needs());
        if needs.contains(name.as_str()) {
            let what = format!("the secret {} needs itself, or what it needs does", quoted(name));
            mistakes.add(&secret.place, what, "give one of them a source that needs no other secret");
        }
    }
}

/// These secrets, and all that they need.
fn needed_by<'a>(secrets: &'a Secrets, names: Vec<&'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = names;
    while let Some(name) = open.pop() {
        if found.insert(name) {
            open.extend(secrets.get(name).into_iter().flat_map(|secret| secret.value.source.needs()));
        }
    }
    found
}

fn bad_source(source: &SecretSource) -> Option<(String, &'static str)> {
    match source {
        SecretSource::Env(name) if name.is_empty() || name.contains(['=', '\0']) => {
            Some((format!("{} is no name of an environment variable", quoted(name)), "name the variable alone"))
        }
        SecretSource::File(path) if path.as_os_str().is_empty() => {
            Some(("the path of the secret's file is empty".to_owned(), "write the path of the file"))
        }
        SecretSource::File(path) if path.components().any(|part| part.as_os_str() == "~") => {
            Some((format!("`~` is not expanded in {}", quoted(&path.to_string_lossy())), "write the whole path"))
        }
        SecretSource::Command(command) if command.argv.first().is_none_or(String::is_empty) => {
            Some(("the secret's command names no program".to_owned(), "write a program and its arguments"))
        }
        SecretSource::Env(_) | SecretSource::File(_) | SecretSource::Command(_) => None,
        SecretSource::Http(_) | SecretSource::OAuth2(_) | SecretSource::Vault(_) => None,
        SecretSource::GitHubApp(_) | SecretSource::GitHubScoped(_) | SecretSource::Store(_) => None,
    }
}

/// Sources that would read, run or call something in the service's own name are not a sandbox's to name.
pub(super) fn check_service(secrets: &Secrets, proxies: &[At<String>], mistakes: &mut Collector) {
    let cure = "name a secret of the workspace: store = \"NAME\"";
    for (name, secret) in secrets {
        match secret.value.source {
            SecretSource::Store(_) => {}
            SecretSource::Env(_)
            | SecretSource::File(_)
            | SecretSource::Command(_)
            | SecretSource::Http(_)
            | SecretSource::OAuth2(_)
            | SecretSource::Vault(_)
            | SecretSource::GitHubApp(_)
            | SecretSource::GitHubScoped(_) => {
                let what = format!("the secret {} of a sandbox of the service is not in its store", quoted(name));
                mistakes.add(&secret.place, what, cure);
            }
        }
    }
    if let Some(proxy) = proxies.first() {
        let what = "the upstream proxy of the service is not a sandbox's to choose";
        mistakes.add(&proxy.place, what, "take it out");
    }
}

/// The login of the upstream proxy is what calls through it would need first.
pub(super) fn check_proxy_auth(secrets: &Secrets, auths: &[At<String>], mistakes: &mut Collector) {
    for auth in auths {
        if secrets.get(&auth.value).is_some_and(|secret| secret.value.source.is_remote()) {
            let what =
                format!("the secret {} is got by a call, which would go through this proxy", quoted(&auth.value));
            mistakes.add(&auth.place, what, "name a secret with env, file or command");
        }
    }
}

/// A server may give a new refresh token for each that it takes.
pub(super) fn warn_of_refresh_tokens(secrets: &Secrets, warnings: &mut Vec<Warning>) {
    for (name, secret) in secrets {
        let SecretSource::OAuth2(OAuth2Source { grant: OAuthGrant::RefreshToken(token), .. }) = &secret.value.source
        else {
            continue;
        };
        let Some(kept) = secrets.get(token) else { continue };
        if !matches!(kept.value.source, SecretSource::File(_)) {
            let what = format!(
                "a new refresh token that comes for {name} cannot be written back to {}: it is kept in memory and lost at the end; \
                 a file takes it",
                kept.value.source
            );
            warnings.push(Warning { place: secret.place.clone(), what });
        }
    }
}

pub(super) fn warn_of_secrets(
    secrets: &Secrets,
    bindings: &[At<Binding>],
    proxy: Option<&UpstreamProxy>,
    warnings: &mut Vec<Warning>,
) {
    let bound = bindings.iter().flat_map(|binding| binding.value.secrets());
    let used = needed_by(secrets, bound.chain(proxy.and_then(|proxy| proxy.auth.as_deref())).collect());
    for (name, secret) in secrets.iter().filter(|(name, _)| !used.contains(name.as_str())) {
        let what = format!("nothing uses the secret {name}");
        warnings.push(Warning { place: secret.place.clone(), what });
    }
}
