//! The binding itself: which repositories, with which token, for what.

use std::time::Duration;

use crate::types::{Authority, Host, HostName};

use super::super::binding::{BasicUser, Binding, Placement};
use super::super::mistake::Place;
use super::super::source::SecretSource;
use super::denial::OutOfScope;
use super::hosts::{CredentialForm, HostClass, class_of, hosts};
use super::known::Listed;
use super::name::{NameError, RepoName};
use super::push::{PushRuleError, PushRules, WrittenPushRules};
use super::route::{self, Request, Route};
use super::scope::{GitHubHost, GitHubOption, HostError, Options, Scope, UnknownOption};

/// GitHub as the user, for named repositories only (the seed's type of that name). Inside, git and gh hold a token that only
/// this proxy accepts; every request to one of GitHub's hosts is judged before it gets the real one.
#[derive(Clone, Debug)]
pub struct GitHubBinding {
    place: Place,
    authority: Authority,
    repos: Option<Vec<RepoName>>,
    ttl: Duration,
    token: Token,
    push: Option<WrittenPushRules>,
    rules: PushRules,
    scope: Scope,
}

/// Where the token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The name of the secret that holds it.
    pub name: String,
    /// The secret's source, where the binding declares it itself.
    pub source: Option<SecretSource>,
}

/// Why a [`GitHubBinding`] cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitHubError {
    /// The host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The lifetime.
    #[error("a lifetime is 301 to 604800 seconds (7 days): tokens are renewed 300 seconds ahead of their end")]
    Ttl,
    /// An option.
    #[error(transparent)]
    Option(#[from] UnknownOption),
}

impl GitHubBinding {
    /// The secret that is used where none is named.
    pub const SECRET: &str = "GITHUB_TOKEN";
    /// The longest lifetime, in seconds.
    pub const MAX_TTL: u64 = 604_800;
    /// How long before its end a token is renewed, in seconds; a lifetime is longer.
    const MARGIN: u64 = 300;

    /// A binding to github.com for reading and writing, with every option off and no push rules. `repos` is `None` for all that the
    /// token reaches; an empty list allows none.
    pub fn new(place: Place, repos: Option<Vec<RepoName>>) -> Self {
        let token = Token { name: Self::SECRET.to_owned(), source: None };
        let (host, options) = (GitHubHost::Public, Options::default());
        let authority = authority(&host).expect("a plain host name");
        let scope = Scope { host, all: repos.is_none(), write: true, options, user_token: true };
        let (ttl, rules) = (Duration::from_secs(3600), PushRules::unlimited());
        Self { place, authority, repos, ttl, token, push: None, rules, scope }
    }

    /// The same for another installation of GitHub.
    ///
    /// # Errors
    /// [`GitHubError::Host`].
    pub fn with_host(mut self, host: &str) -> Result<Self, GitHubError> {
        self.scope.host = host.parse()?;
        self.authority = authority(&self.scope.host).ok_or(HostError::NotAHost)?;
        Ok(self)
    }

    /// The same for reading alone.
    pub fn read_only(mut self) -> Self {
        self.scope.write = false;
        self
    }

    /// The same with an option on.
    ///
    /// # Errors
    /// [`GitHubError::Option`].
    pub fn with_option(mut self, option: &str) -> Result<Self, GitHubError> {
        let option: GitHubOption = option.parse()?;
        self.scope.options = self.scope.options.iter().chain([option]).collect();
        Ok(self)
    }

    /// The same with another lifetime of tokens whose end is not told, in seconds.
    ///
    /// # Errors
    /// [`GitHubError::Ttl`].
    pub fn with_ttl_seconds(self, seconds: u64) -> Result<Self, GitHubError> {
        if seconds <= Self::MARGIN || seconds > Self::MAX_TTL {
            return Err(GitHubError::Ttl);
        }
        Ok(Self { ttl: Duration::from_secs(seconds), ..self })
    }

    /// The same with push rules.
    ///
    /// # Errors
    /// Every [`PushRuleError`] at once.
    pub fn with_push(self, push: WrittenPushRules) -> Result<Self, Vec<PushRuleError>> {
        let rules = PushRules::new(&push)?;
        Ok(Self { rules, push: Some(push), ..self })
    }

    /// The same with another token.
    pub fn with_token(self, token: Token) -> Self {
        Self { token, ..self }
    }

    /// Where it was written.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The host that its repositories are on.
    pub fn host(&self) -> &Authority {
        &self.authority
    }

    /// Its repositories; `None` where all are allowed.
    pub fn repos(&self) -> Option<&[RepoName]> {
        self.repos.as_deref()
    }

    /// What is judged of a request.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What may become of refs.
    pub fn rules(&self) -> &PushRules {
        &self.rules
    }

    /// The same as it was written.
    pub fn push(&self) -> Option<&WrittenPushRules> {
        self.push.as_ref()
    }

    /// Where its token comes from.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// How long a token is used whose end is not told.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How the head of a request is judged, with what is known without asking anybody: for `policy explain` and the cases of a policy. Its
    /// body is judged by more rules.
    ///
    /// # Errors
    /// [`OutOfScope`].
    pub fn explain(&self, host: &str, method: &str, target: &str) -> Result<Route, OutOfScope> {
        let request = Request { host, method, target, content_type: None, body: false };
        route::judge(&self.scope, &Listed::assumed(self.repos()), &request)
    }

    /// Where the REST API begins, and where GraphQL is.
    pub fn api(&self) -> (String, String) {
        let host = self.authority.host.to_string();
        match host.as_str() {
            "github.com" => ("https://api.github.com".to_owned(), "https://api.github.com/graphql".to_owned()),
            tenant if tenant.ends_with(".ghe.com") => {
                (format!("https://api.{tenant}"), format!("https://api.{tenant}/graphql"))
            }
            server => (format!("https://{server}/api/v3"), format!("https://{server}/api/graphql")),
        }
    }

    /// Whether it judges what is asked of a destination.
    pub fn covers(&self, authority: &Authority) -> bool {
        authority.port == self.authority.port && self.covers_host(&authority.host)
    }

    /// The same of a host, on the one port that GitHub has.
    pub fn covers_host(&self, host: &Host) -> bool {
        match host {
            // What is closed to the binding is no business of its: network and rules alone may open it, and no credential goes there.
            Host::Name(name) => class_of(&self.scope, name.as_str()).is_some_and(|class| class != HostClass::Closed),
            Host::Ip(_) => false,
        }
    }

    /// Whether a host is one of those that are reached by URLs which an answer has named, and by no other.
    pub fn is_storage(&self, host: &Host) -> bool {
        match host {
            Host::Name(name) => class_of(&self.scope, name.as_str()) == Some(HostClass::Storage),
            Host::Ip(_) => false,
        }
    }

    /// Whether both say the same, wherever that was written.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let parts = |this: &Self| (this.authority.clone(), this.repos.clone(), this.ttl, this.token.clone());
        parts(self) == parts(other) && self.push == other.push && self.scope == other.scope
    }

    /// The secret that it declares itself, with its source.
    pub fn secret(&self) -> Option<(String, SecretSource)> {
        let source = self.token.source.clone()?;
        Some((self.token.name.clone(), source))
    }

    /// What it does to requests that its own check lets pass.
    pub fn bindings(&self) -> Vec<Binding> {
        let mut bindings = Vec::new();
        for (host, form) in self.credential_hosts() {
            let placement = match form {
                CredentialForm::None => continue,
                CredentialForm::Basic => Placement::Basic { user: BasicUser::Plain("x-access-token".to_owned()) },
                CredentialForm::Bearer => Placement::Header {
                    name: http::header::AUTHORIZATION,
                    prefix: "Bearer ".to_owned(),
                    suffix: String::new(),
                },
            };
            let binding = Binding::of_parts(host, self.token.name.clone(), placement);
            bindings.push(binding.with_ttl(self.ttl).for_github());
        }
        bindings
    }
}

impl GitHubBinding {
    /// Every host that gets the credential, with each form that it gets it in.
    fn credential_hosts(&self) -> impl Iterator<Item = (Authority, CredentialForm)> {
        hosts(&self.scope).into_iter().flat_map(|host| {
            let name = HostName::parse(&host.pattern).ok();
            let authority = name.map(|name| Authority::new(Host::Name(name), 443));
            let forms = host.class.forms();
            authority.into_iter().flat_map(move |authority| forms.iter().map(move |form| (authority.clone(), *form)))
        })
    }
}

fn authority(host: &GitHubHost) -> Option<Authority> {
    let name = HostName::parse(host.name()).ok()?;
    Some(Authority::new(Host::Name(name), 443))
}

/// As far as the seeds read them: `owner/repository`, or its URL on the binding's host.
impl RepoName {
    /// Reads it.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn of_url(host: &str, text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        let path = ["https://", "ssh://git@"].iter().find_map(|scheme| text.strip_prefix(scheme)?.strip_prefix(host));
        let path = path.or_else(|| text.strip_prefix("git@")?.strip_prefix(host)?.strip_prefix(':'));
        let path = path.unwrap_or(text).trim_matches('/');
        Self::parse(path.strip_suffix(".git").unwrap_or(path))
    }
}
