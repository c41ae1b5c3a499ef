//! The fields that a query may begin with (github-scope.md 4.2).

use super::super::denial::{Code, OutOfScope};
use super::super::known::NodeOwner;
use super::super::name::RepoName;
use super::super::search;
use super::answer::Owner;
use super::document::Field;
use super::table::TABLE;
use super::values::Input;
use super::walk::{Context, Walk, inside};
use super::words::{malformed, quoted};
use super::{Expect, RepositoryOf};

impl<'d> Walk<'d> {
    /// What a root leads to; none for a value.
    pub(super) fn root(&mut self, field: &'d Field<'d>) -> Result<Option<Context>, OutOfScope> {
        Ok(Some(match field.name {
            "__typename" | "id" => return Ok(None),
            "__schema" | "__type" => Context::Schema,
            "repository" => {
                self.arguments(field, &["owner", "name", "followRenames"])?;
                let (owner, name) = (self.string(field, "owner")?, self.string(field, "name")?);
                self.repository(&owner, &name)?
            }
            "node" => self.nodes(field, "id")?,
            "nodes" => self.nodes(field, "ids")?,
            "resource" => self.resource(field)?,
            "search" => self.search(field)?,
            "viewer" => Context::Account(None),
            "user" | "organization" | "repositoryOwner" => {
                self.arguments(field, &["login", "followRenames"])?;
                let login = self.string(field, "login")?;
                self.logins.push(login);
                Context::Account(Some(self.logins.len() - 1))
            }
            "rateLimit" => public("RateLimit", field)?,
            "meta" => public("GitHubMetadata", field)?,
            "license" | "licenses" => public("License", field)?,
            "codeOfConduct" | "codesOfConduct" => public("CodeOfConduct", field)?,
            "securityAdvisory" => public("SecurityAdvisory", field)?,
            "securityAdvisories" => public("SecurityAdvisoryConnection", field)?,
            "securityVulnerabilities" => public("SecurityVulnerabilityConnection", field)?,
            _ => return Err(closed(field)),
        }))
    }

    /// `repository(name:)` of an account that the document names.
    pub(super) fn owned(&mut self, owner: &str, field: &'d Field<'d>) -> Result<Context, OutOfScope> {
        self.arguments(field, &["name", "followRenames"])?;
        let name = self.string(field, "name")?;
        self.repository(owner, &name)
    }

    fn repository(&mut self, owner: &str, name: &str) -> Result<Context, OutOfScope> {
        let name = RepoName::new(owner, name).map_err(|error| malformed(format!("the repository: {error}")))?;
        let kind = TABLE.id("Repository").ok_or_else(|| malformed("there is no such type"))?;
        self.allowed(&name)?;
        let owner = Owner::Repository(self.enter(RepositoryOf::Named(name))?);
        Ok(inside(kind, owner))
    }

    /// Whether a repository of this name is one of the binding's.
    pub(super) fn allowed(&self, name: &RepoName) -> Result<(), OutOfScope> {
        self.known.repository(name).record(name, self.rules.all).map(drop)
    }

    fn nodes(&mut self, field: &'d Field<'d>, argument: &str) -> Result<Context, OutOfScope> {
        self.arguments(field, &[argument])?;
        let value = self.argument(field, argument)?;
        let node = TABLE.id("Node").ok_or_else(|| closed(field))?;
        let mut owners = Vec::new();
        if value.items().is_empty() {
            return Err(malformed(format!("`{argument}` names no id")));
        }
        for id in value.items() {
            let id = id.text().ok_or_else(|| malformed(format!("`{argument}` takes ids as strings")))?;
            if let Some(owner) = self.node(id, Expect::Either)? {
                owners.push(owner);
            }
        }
        let first = match owners.first() {
            Some(first) => *first,
            // Nothing is known of any: what is asked of them is checked once it is.
            None => return Ok(Context::Schema),
        };
        let same = owners.iter().all(|owner| *owner == first);
        match first {
            NodeOwner::Account if same => Ok(Context::Account(None)),
            NodeOwner::Repository(_) if owners.iter().all(|owner| matches!(owner, NodeOwner::Repository(_))) => {
                let mut owner = Owner::Nobody;
                for one in owners {
                    if let NodeOwner::Repository(number) = one {
                        owner = Owner::Repository(self.enter(RepositoryOf::Id(number))?);
                    }
                }
                Ok(inside(node, if same { owner } else { Owner::Nobody }))
            }
            NodeOwner::Account | NodeOwner::Repository(_) | NodeOwner::Foreign => {
                Err(malformed("ask for accounts and for things of a repository in two queries"))
            }
        }
    }

    fn resource(&mut self, field: &'d Field<'d>) -> Result<Context, OutOfScope> {
        self.arguments(field, &["url"])?;
        let url = self.string(field, "url")?;
        let kind = TABLE.id("UniformResourceLocatable").ok_or_else(|| closed(field))?;
        let name = self.resource_name(&url).ok_or_else(|| {
            OutOfScope::new(
                Code::NotAllowed,
                "`resource` takes the plain https URL of something in a repository of this host",
            )
        })?;
        self.allowed(&name)?;
        let owner = Owner::Repository(self.enter(RepositoryOf::Named(name))?);
        Ok(inside(kind, owner))
    }

    fn resource_name(&self, url: &str) -> Option<RepoName> {
        let (scheme, rest) = url.split_at_checked("https://".len())?;
        let (host, path) = rest.split_once('/')?;
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"%?\\".contains(&byte));
        let mut parts = path.split('#').next()?.split('/');
        let dots = parts.clone().any(|part| matches!(part, "." | ".."));
        if scheme != "https://" || host.is_empty() || !host.eq_ignore_ascii_case(&self.rules.web_host) || !plain || dots
        {
            return None;
        }
        RepoName::new(parts.next()?, parts.next()?).ok()
    }

    fn search(&mut self, field: &'d Field<'d>) -> Result<Context, OutOfScope> {
        self.arguments(field, &["query", "type", "first", "last", "before", "after"])?;
        let kind = self.argument(field, "type")?;
        if !matches!(kind.word(), Some("ISSUE" | "ISSUE_ADVANCED" | "DISCUSSION")) {
            let message = "`search` is allowed for issues, pull requests and discussions of a repository only";
            return Err(OutOfScope::new(Code::NotAllowed, message));
        }
        let query = self.string(field, "query")?;
        search::check(&query, self.known, self.rules.all)?;
        for name in searched(&query) {
            self.enter(RepositoryOf::Named(name))?;
        }
        let kind = TABLE.id("SearchResultItemConnection").ok_or_else(|| closed(field))?;
        // What is found may be of any of the repositories that the terms name.
        Ok(inside(kind, Owner::Nobody))
    }

    /// Refuses arguments that are not known: they could change what a field means.
    fn arguments(&self, field: &Field<'_>, allowed: &[&str]) -> Result<(), OutOfScope> {
        match field.arguments.iter().find(|(name, _)| !allowed.contains(name)) {
            Some((name, _)) => {
                let message = format!("the argument `{}` of `{}` is not known here", quoted(name), quoted(field.name));
                Err(OutOfScope::new(Code::NotAllowed, message))
            }
            None => Ok(()),
        }
    }

    pub(super) fn argument(&self, field: &'d Field<'d>, name: &str) -> Result<Input<'d>, OutOfScope> {
        let value = field.arguments.iter().find(|(key, _)| *key == name);
        let value = value.map_or(Ok(None), |(_, value)| self.variables.resolve(value))?;
        let value = value.filter(|value| *value != Input::Null);
        value.ok_or_else(|| malformed(format!("`{}` needs a value for `{name}`", quoted(field.name))))
    }

    fn string(&self, field: &'d Field<'d>, name: &str) -> Result<String, OutOfScope> {
        let value = self.argument(field, name)?;
        let text =
            value.text().ok_or_else(|| malformed(format!("`{name}` of `{}` takes a string", quoted(field.name))))?;
        Ok(text.to_owned())
    }
}

fn public(kind: &str, field: &Field<'_>) -> Result<Context, OutOfScope> {
    TABLE.public(kind).map(Context::Public).ok_or_else(|| closed(field))
}

fn closed(field: &Field<'_>) -> OutOfScope {
    let name = quoted(field.name);
    OutOfScope::new(
        Code::NotAllowed,
        format!("a query may not begin with `{name}` here; begin with `repository(owner:, name:)`"),
    )
}

/// The repositories that a search names. Which credential has to serve it depends on them; whether it is allowed was decided before.
fn searched(query: &str) -> impl Iterator<Item = RepoName> {
    query.split([' ', '\t', '\n', '(', ')']).filter_map(|word| {
        let (key, value) = word.split_once(':')?;
        if !key.eq_ignore_ascii_case("repo") {
            return None;
        }
        RepoName::parse(value.trim_matches('"')).ok()
    })
}
