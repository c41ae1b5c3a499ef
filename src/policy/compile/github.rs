//! Bindings to GitHub.

use std::collections::BTreeSet;

use super::super::binding::{Binding, parse_secret_name};
use super::super::document::{Document, RawApp, RawGitHub, RawPush, RawRepos, RawSecret};
use super::super::github::{Credential, GitHubBinding, GitHubBindingError, RepoName, Token, WrittenPushRules};
use super::super::mistake::{At, Collector, Warning, quoted};
use super::super::source::{CommandSource, SecretSource};
use super::{declare, undeclared};

/// The bindings, each for another host. What they need of secrets that is not declared is declared.
pub(super) fn githubs(document: &mut Document, mistakes: &mut Collector) -> Vec<At<GitHubBinding>> {
    let mut made = Vec::<At<GitHubBinding>>::new();
    for raw in std::mem::take(&mut document.githubs) {
        let Some(binding) = github(&raw, &document.secret_names, mistakes) else { continue };
        if let Some(earlier) = made.iter().find(|earlier| earlier.value.host() == binding.host()) {
            let what = format!("there is a binding to {} at {}, too", binding.host(), earlier.place);
            mistakes.add(&raw.place, what, "name all repositories of a host in one binding");
            continue;
        }
        declare_secrets(&raw, &binding, document, mistakes);
        made.push(At { value: binding, place: raw.place });
    }
    made
}

fn github(raw: &RawGitHub, declared: &BTreeSet<String>, mistakes: &mut Collector) -> Option<GitHubBinding> {
    let host = raw.host.as_ref().map_or("github.com", |host| host.value.as_str());
    let mut failed = false;
    let mut note = |at: &At<String>, error: &dyn std::fmt::Display, mistakes: &mut Collector| {
        mistakes.add(&at.place, format!("{} cannot be used", quoted(&at.value)), error.to_string());
        failed = true;
    };
    let repos = match raw.repos.as_ref()? {
        RawRepos::All => None,
        RawRepos::Listed(texts) => {
            let mut repos = Vec::new();
            for text in texts {
                match RepoName::of_url(host, &text.value) {
                    Ok(name) => repos.push(name),
                    Err(error) => note(text, &error, mistakes),
                }
            }
            repos.sort();
            repos.dedup();
            Some(repos)
        }
    };
    let mut spec = GitHubBinding::new(raw.place.clone(), repos);
    let mut take = |made: Result<GitHubBinding, GitHubBindingError>, at: &At<String>, mistakes: &mut Collector| {
        made.map_err(|error| note(at, &error, mistakes)).ok()
    };
    if let Some(host) = &raw.host {
        spec = take(spec.with_host(&host.value), host, mistakes)?;
    }
    if raw.access.as_ref().is_some_and(|access| access.value == "read") {
        spec = spec.read_only();
    }
    for option in &raw.options {
        spec = take(spec.with_option(&option.value), option, mistakes)?;
    }
    for project in &raw.projects {
        spec = take(spec.with_project(&project.value), project, mistakes)?;
    }
    if let Some(ttl) = raw.ttl {
        let shown = At { value: ttl.as_secs().to_string(), place: raw.place.clone() };
        spec = take(spec.with_ttl_seconds(ttl.as_secs()), &shown, mistakes)?;
    }
    if let Some(push) = &raw.push {
        match spec.with_push(push_rules(push)) {
            Ok(with) => spec = with,
            Err(errors) => {
                errors.iter().for_each(|error| mistakes.add(&raw.place, error.to_string(), "see `push` in the README"));
                return None;
            }
        }
    }
    let spec = with_credential(spec, raw, declared, mistakes)?;
    (!failed).then_some(spec)
}

/// The secrets that a binding needs and that nobody has declared. The user's own login may be declared as something else; a token of
/// an App may not.
fn declare_secrets(raw: &RawGitHub, binding: &GitHubBinding, document: &mut Document, mistakes: &mut Collector) {
    let app = raw.app.as_ref().or(raw.user_app.as_ref());
    let mut needs = app.map(|app| app.needs.clone()).unwrap_or_default();
    for (name, source) in binding.secrets() {
        if document.secret_names.insert(name.clone()) {
            let (name, place) = (At { value: name, place: raw.place.clone() }, raw.place.clone());
            document.secrets.push(RawSecret { name, source, place, needs: std::mem::take(&mut needs) });
        } else if let Some(app) = app {
            let what = format!("the token of this App is the secret {}, which is declared already", quoted(&name));
            mistakes.add(&app.place, what, "give the other one another name");
        }
    }
}

/// The binding with its App, its token, or the user's own login.
fn with_credential(
    spec: GitHubBinding,
    raw: &RawGitHub,
    declared: &BTreeSet<String>,
    mistakes: &mut Collector,
) -> Option<GitHubBinding> {
    let apps: Vec<&RawApp> = raw.app.iter().chain(&raw.user_app).collect();
    let named = raw.secret_name.as_ref().map(|name| &name.place);
    let places: Vec<_> = named.into_iter().chain(apps.iter().map(|app| &app.place)).collect();
    if let [_, second, ..] = places[..] {
        let what = "a binding has one of `secret_name`, `app` and `user_app`";
        mistakes.add(second, what, "keep one of them: it says where the token comes from");
        return None;
    }
    let Some(app) = apps.first() else {
        return Some(spec.with_token(token(raw, declared, mistakes)?));
    };
    let made = spec.with_app(app.client_id.clone(), app.grant.clone(), app.owner.as_deref());
    made.map_err(|error| mistakes.add(&app.place, "the App has no token for this binding", error.to_string())).ok()
}

fn push_rules(raw: &RawPush) -> WrittenPushRules {
    let texts = |list: &[At<String>]| list.iter().map(|at| at.value.clone()).collect();
    WrittenPushRules {
        branches: raw.branches.as_deref().map(texts),
        deny_branches: texts(&raw.deny_branches),
        other_refs: texts(&raw.other_refs),
        create: raw.create,
        delete: raw.delete,
        tags: raw.tags,
        force: raw.force,
    }
}

/// The user's own login where nothing is said.
fn token(raw: &RawGitHub, declared: &BTreeSet<String>, mistakes: &mut Collector) -> Option<Token> {
    let named = |at: &At<String>, mistakes: &mut Collector| {
        if let Err(error) = parse_secret_name(&at.value) {
            mistakes.add(&at.place, format!("{} is no name of a secret", quoted(&at.value)), error.to_string());
            return None;
        }
        if !declared.contains(&at.value) {
            mistakes.add(&at.place, undeclared(&at.value), declare(&at.value));
            return None;
        }
        Some(at.value.clone())
    };
    match &raw.secret_name {
        Some(name) => Some(Token { name: named(name, mistakes)?, source: None, owner: None }),
        None => {
            let host = raw.host.as_ref().map_or("github.com", |host| host.value.as_str());
            let words = ["gh", "auth", "token", "--hostname", host];
            let login = CommandSource::new(words.map(str::to_owned).to_vec());
            let name = GitHubBinding::SECRET.to_owned();
            Some(Token { name, source: Some(SecretSource::Command(login)), owner: None })
        }
    }
}

/// What a binding does to requests that its own check lets pass.
pub(super) fn bindings(github: &At<GitHubBinding>) -> impl Iterator<Item = At<Binding>> {
    github.value.bindings().into_iter().map(|value| At { value, place: github.place.clone() })
}

/// Warns of tokens that reach more than their binding.
pub(super) fn warn(githubs: &[At<GitHubBinding>], warnings: &mut Vec<Warning>) {
    for github in githubs {
        // The tokens of an App are for these repositories alone by GitHub's own rules.
        let Credential::Token(token) = github.value.credential() else { continue };
        let what = format!(
            "what is asked with the token in the secret {} is limited to these repositories by this program alone, unless GitHub limits the \
             token, too",
            token.name
        );
        warnings.push(Warning { place: github.place.clone(), what });
    }
}
