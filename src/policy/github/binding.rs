//! The binding itself: which repositories, with which token, for what.

use std::time::Duration;

use crate::types::{Authority, Host, HostName};

use super::super::binding::{BasicUser, Binding, Placement};
use super::super::mistake::Place;
use super::super::source::SecretSource;
use super::credential::{App, AppError, AppGrant, Credential, Token};
use super::denial::OutOfScope;
use super::hosts::{CredentialForm, HostClass, class_of, hosts};
use super::known::Listed;
use super::name::{NameError, RepoName};
use super::push::{PushRuleError, PushRules, WrittenPushRules};
use super::route::{self, Request, Route};
use super::scope::{GitHubHost, GitHubOption, HostError, Options, Scope, UnknownOption};
use super::site::{GitHubSite, SiteError};
use super::token::ClientId;

/// GitHub as the user, for named repositories only (the seed's type of that name). Inside, git and gh hold a token that only
/// this proxy accepts; every request to one of GitHub's hosts is judged before it gets the real one.
#[derive(Clone, Debug)]
pub struct GitHubBinding {
    place: Place,
    authority: Authority,
    repos: Option<Vec<RepoName>>,
    ttl: Duration,
    credential: Credential,
    site: GitHubSite,
    push: Option<WrittenPushRules>,
    rules: PushRules,
    scope: Scope,
}

/// Why a [`GitHubBinding`] cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitHubBindingError {
    /// The host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The host, of another kind.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The lifetime.
    #[error("a lifetime is 301 to 604800 seconds (7 days): tokens are renewed 300 seconds ahead of their end")]
    Ttl,
    /// The node id of a project.
    #[error(
        "write the node id of the project, PVT_…, which `gh project view NUMBER --owner OWNER --format json` shows as `id`"
    )]
    Project,
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
        let credential =
            Credential::Token(Box::new(Token { name: Self::SECRET.to_owned(), source: None, owner: None }));
        let (host, options) = (GitHubHost::Public, Options::default());
        let authority = authority(&host).expect("a plain host name");
        let site = GitHubSite::new(GitHubSite::GITHUB).expect("a plain host name");
        let scope = Scope { host, all: repos.is_none(), write: true, options, projects: Vec::new(), user_token: true };
        let (ttl, rules) = (Duration::from_secs(3600), PushRules::unlimited());
        Self { place, authority, repos, ttl, credential, site, push: None, rules, scope }
    }

    /// The same for another installation of GitHub.
    ///
    /// # Errors
    /// [`GitHubBindingError::Host`] and [`GitHubBindingError::Site`].
    pub fn with_host(mut self, host: &str) -> Result<Self, GitHubBindingError> {
        self.scope.host = host.parse()?;
        self.authority = authority(&self.scope.host).ok_or(HostError::NotAHost)?;
        self.site = GitHubSite::new(self.scope.host.name())?;
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
    /// [`GitHubBindingError::Option`].
    pub fn with_option(mut self, option: &str) -> Result<Self, GitHubBindingError> {
        let option: GitHubOption = option.parse()?;
        self.scope.options = self.scope.options.iter().chain([option]).collect();
        Ok(self)
    }

    /// The same with a project whose items may be changed, by its node id.
    ///
    /// # Errors
    /// [`GitHubBindingError::Project`].
    pub fn with_project(mut self, id: &str) -> Result<Self, GitHubBindingError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let rest = id.strip_prefix("PVT_").filter(|rest| (1..=200).contains(&rest.len()) && rest.bytes().all(legal));
        rest.ok_or(GitHubBindingError::Project)?;
        self.scope.projects.push(id.to_owned());
        Ok(self)
    }

    /// The same with another lifetime of tokens whose end is not told, in seconds.
    ///
    /// # Errors
    /// [`GitHubBindingError::Ttl`].
    pub fn with_ttl_seconds(self, seconds: u64) -> Result<Self, GitHubBindingError> {
        if seconds <= Self::MARGIN || seconds > Self::MAX_TTL {
            return Err(GitHubBindingError::Ttl);
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

    /// The same with one token for all of it, of a person.
    pub fn with_token(mut self, token: Token) -> Self {
        self.scope.user_token = true;
        Self { credential: Credential::Token(Box::new(token)), ..self }
    }

    /// The same with tokens of a GitHub App, one for the repositories of each owner, with the permissions that its access and options
    /// need. `owner` is whose repositories are meant where all are allowed.
    ///
    /// # Errors
    /// [`AppError`].
    pub fn with_app(mut self, client_id: ClientId, grant: AppGrant, owner: Option<&str>) -> Result<Self, AppError> {
        self.scope.user_token = match &grant {
            AppGrant::Installation { .. } => false,
            AppGrant::User { .. } => true,
        };
        let app = App::new(client_id, grant, self.repos(), owner)?;
        Ok(Self { credential: Credential::App(app), ..self })
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

    /// Where its tokens come from.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Its tokens, at least one; with more than one, each is for another owner's repositories.
    pub fn tokens(&self) -> Vec<Token> {
        self.credential.tokens(&self.scope, &self.site)
    }

    /// Where its pages and APIs are.
    pub fn site(&self) -> &GitHubSite {
        &self.site
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
        let parts = |this: &Self| (this.authority.clone(), this.repos.clone(), this.ttl, this.credential.clone());
        parts(self) == parts(other) && self.push == other.push && self.scope == other.scope
    }

    /// The secrets that it declares itself, with their sources.
    pub fn secrets(&self) -> Vec<(String, SecretSource)> {
        self.tokens().into_iter().filter_map(|Token { name, source, .. }| Some((name, source?))).collect()
    }

    /// What it does to requests that its own check lets pass.
    pub fn bindings(&self) -> Vec<Binding> {
        let (mut bindings, tokens) = (Vec::new(), self.tokens());
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
            for Token { name, owner, .. } in &tokens {
                let binding = Binding::of_parts(host.clone(), name.clone(), placement.clone());
                bindings.push(binding.with_ttl(self.ttl).for_github(owner.clone()));
            }
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
