//! Which token a binding has for which repository: one for all of them, or one of an App for those of each owner.

use super::super::binding::{Binding, Placement};
use super::super::source::SecretSource;
use super::denial::{Code, OutOfScope};
use super::hosts::CredentialForm;
use super::name::RepoName;
use super::permission::permissions;
use super::scope::{GitHubHost, Scope};
use super::site::GitHubSite;
use super::token::{AppInstallation, ClientId, Repositories, RepositoriesError, ScopedUserToken};

/// Where a binding's tokens come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// One token for every repository.
    Token(Box<Token>),
    /// A GitHub App, which gives each owner's repositories a token of their own.
    App(App),
}

/// One token of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The name of the secret that holds it.
    pub name: String,
    /// The secret's source, where the binding declares it itself.
    pub source: Option<SecretSource>,
    /// The owner whose repositories it is for, in lower case; `None` where it is for all of the binding's.
    pub owner: Option<String>,
}

/// Tokens of a GitHub App, each for the repositories of one of at most [`App::OWNERS`] owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    client_id: ClientId,
    grant: AppGrant,
    repositories: Vec<Repositories>,
}

/// In whose name an App gets its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppGrant {
    /// Its own.
    Installation {
        /// The secret that holds its private key.
        private_key: String,
    },
    /// A user's, whose token GitHub narrows.
    User {
        /// The secret that holds the App's client secret.
        client_secret: String,
        /// The secret that holds the user's token.
        user_token: String,
    },
}

/// Why an [`App`] has no tokens for the repositories of a binding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    /// The repositories of an owner.
    #[error(transparent)]
    Repositories(#[from] RepositoriesError),
    /// For all, of nobody.
    #[error("repos = \"all\" are those of one owner here: add owner = \"…\" to the App")]
    NoOwner,
    /// An owner beside a list.
    #[error("each repository names its owner: `owner` is for repos = \"all\" alone")]
    NeedlessOwner,
    /// Too many owners.
    #[error("its repositories have more than 32 owners, each of which needs a token")]
    TooManyOwners,
}

impl App {
    /// The most owners that one binding has tokens for: what nobody knows is looked up with each of them.
    pub const OWNERS: usize = 32;

    /// Tokens for these repositories; `None` for all of `owner`, who is named then and only then.
    ///
    /// # Errors
    /// [`AppError`].
    pub fn new(
        client_id: ClientId,
        grant: AppGrant,
        repos: Option<&[RepoName]>,
        owner: Option<&str>,
    ) -> Result<Self, AppError> {
        let repositories = match (repos, owner) {
            (None, Some(owner)) => vec![Repositories::all(owner)?],
            (None, None) => return Err(AppError::NoOwner),
            (Some(_), Some(_)) => return Err(AppError::NeedlessOwner),
            (Some([]), None) => return Err(RepositoriesError::None.into()),
            (Some(repos), None) => {
                let mut repos = repos.to_vec();
                repos.sort();
                let of_owner = repos.chunk_by(|one, other| one.owner() == other.owner());
                of_owner.map(|repos| Repositories::named(repos.iter().cloned())).collect::<Result<_, _>>()?
            }
        };
        if repositories.len() > Self::OWNERS {
            return Err(AppError::TooManyOwners);
        }
        Ok(Self { client_id, grant, repositories })
    }

    /// The App.
    pub fn client_id(&self) -> &ClientId {
        &self.client_id
    }

    /// In whose name it gets tokens.
    pub fn grant(&self) -> &AppGrant {
        &self.grant
    }

    /// The owner all of whose repositories the binding is for.
    pub fn owner(&self) -> Option<&str> {
        self.repositories.iter().find(|of| of.names().is_none()).map(Repositories::owner)
    }

    /// The owner whose token is for what is about these repositories; none where there are none.
    ///
    /// # Errors
    /// [`Code::NotAllowed`] where they have two owners, or one for whom there is no token.
    fn owner_of<'a>(&self, names: impl IntoIterator<Item = &'a RepoName>) -> Result<Option<&'a str>, OutOfScope> {
        let refused = |what| OutOfScope::new(Code::NotAllowed, what);
        let mut owners = names.into_iter().map(RepoName::owner);
        let Some(first) = owners.next() else { return Ok(None) };
        if let Some(other) = owners.find(|owner| *owner != first) {
            let what = "one request cannot be for both: the App's token is for the repositories of one owner, so ask for each alone";
            return Err(refused(format!("this is about repositories of {first} and of {other}; {what}")));
        }
        if !self.repositories.iter().any(|of| of.owner() == first) {
            return Err(refused(format!("this sandbox has no token for the repositories of {first}")));
        }
        Ok(Some(first))
    }

    fn tokens(&self, scope: &Scope, site: &GitHubSite) -> Vec<Token> {
        let permissions = permissions(scope);
        let token = |repositories: &Repositories| {
            let (site, client_id, permissions) = (site.clone(), self.client_id.clone(), permissions.clone());
            let (owner, repositories) = (repositories.owner().to_owned(), repositories.clone());
            let source = match self.grant.clone() {
                AppGrant::Installation { private_key } => {
                    let app = AppInstallation { site, client_id, private_key, repositories, permissions };
                    SecretSource::GitHubApp(app)
                }
                AppGrant::User { client_secret, user_token } => {
                    let scoped =
                        ScopedUserToken { site, client_id, client_secret, user_token, repositories, permissions };
                    SecretSource::GitHubScoped(scoped)
                }
            };
            Token { name: secret_name(&scope.host, &owner), source: Some(source), owner: Some(owner) }
        };
        self.repositories.iter().map(token).collect()
    }
}

impl Credential {
    /// What is for other repositories has another name. A name may meet one that a policy declares, which is a mistake then.
    pub(super) fn tokens(&self, scope: &Scope, site: &GitHubSite) -> Vec<Token> {
        match self {
            Self::Token(token) => vec![Token::clone(token)],
            Self::App(app) => app.tokens(scope, site),
        }
    }

    /// The owner whose token is for what is about these repositories; none where any token is.
    ///
    /// # Errors
    /// [`Code::NotAllowed`] where no token is.
    pub fn owner_of<'a>(&self, names: impl IntoIterator<Item = &'a RepoName>) -> Result<Option<&'a str>, OutOfScope> {
        match self {
            Self::Token(_) => Ok(None),
            Self::App(app) => app.owner_of(names),
        }
    }
}

fn secret_name(host: &GitHubHost, owner: &str) -> String {
    let of = match host {
        GitHubHost::Public => String::new(),
        GitHubHost::Server(host) | GitHubHost::Tenant(host) => format!("{}_", host.replace('.', "_")),
    };
    format!("GITHUB_TOKEN_{of}{owner}").to_ascii_uppercase()
}

/// Of these bindings, as indexes into all, the one that puts the credential in as a host wants it, and whose token is for this owner's
/// repositories; the first one where nobody's are asked for.
pub fn choose(all: &[Binding], among: &[usize], form: CredentialForm, owner: Option<&str>) -> Option<usize> {
    let wants_basic = match form {
        CredentialForm::None => return None,
        CredentialForm::Basic => true,
        CredentialForm::Bearer => false,
    };
    let fits = |binding: &Binding| {
        let is_basic = matches!(binding.placement(), Placement::Basic { .. });
        binding.is_for_github() && is_basic == wants_basic && binding.is_for_owner(owner)
    };
    among.iter().copied().find(|&at| fits(&all[at]))
}

#[cfg(test)]
mod tests {
    use super::super::scope::Options;
    use super::*;

    fn app(repos: Option<&[&str]>, owner: Option<&str>) -> Result<App, AppError> {
        let grant = AppGrant::Installation { private_key: "PEM".to_owned() };
        let repos: Option<Vec<RepoName>> =
            repos.map(|repos| repos.iter().map(|text| RepoName::parse(text).unwrap()).collect());
        App::new(ClientId::parse("Iv1.x").unwrap(), grant, repos.as_deref(), owner)
    }

    fn tokens(app: App, host: &str) -> Vec<String> {
        let scope = Scope {
            host: host.parse().unwrap(),
            all: false,
            write: true,
            options: Options::default(),
            projects: Vec::new(),
            user_token: false,
        };
        let tokens = Credential::App(app).tokens(&scope, &GitHubSite::new(host).unwrap());
        let shown = |token: Token| {
            let Some(SecretSource::GitHubApp(app)) = token.source else { panic!("an App's") };
            assert_eq!((app.permissions, app.private_key.as_str()), (permissions(&scope), "PEM"));
            format!("{} {}: {}", token.name, token.owner.unwrap(), app.repositories)
        };
        tokens.into_iter().map(shown).collect()
    }

    #[test]
    fn each_owner_has_a_token_of_its_own() {
        let two = app(Some(&["other/x", "acme-co/b", "Acme-Co/a"]), None).unwrap();
        assert_eq!(
            tokens(two.clone(), "github.com"),
            ["GITHUB_TOKEN_ACME-CO acme-co: acme-co/a, acme-co/b", "GITHUB_TOKEN_OTHER other: other/x"]
        );
        assert_eq!(tokens(two, "ghes.test")[1], "GITHUB_TOKEN_GHES_TEST_OTHER other: other/x");
        let all = app(None, Some("Acme")).unwrap();
        assert_eq!(all.owner(), Some("acme"));
        assert_eq!(tokens(all, "acme.ghe.com"), ["GITHUB_TOKEN_ACME_GHE_COM_ACME acme: all repositories of acme"]);
    }

    #[test]
    fn a_request_is_for_one_owner() {
        let name = |text| RepoName::parse(text).unwrap();
        let names = ["acme/a", "acme/b", "other/x", "evil/x"].map(name);
        let listed = Credential::App(app(Some(&["other/x", "acme/b", "acme/a"]), None).unwrap());
        let all = Credential::App(app(None, Some("acme")).unwrap());
        for of in [&listed, &all] {
            assert_eq!(of.owner_of([]), Ok(None));
            assert_eq!(of.owner_of(&names[..2]), Ok(Some("acme")));
            let refused = of.owner_of(&names[1..3]).unwrap_err();
            assert!(refused.message.starts_with("this is about repositories of acme and of other; "), "{refused}");
            let refused = of.owner_of(&names[3..]).unwrap_err();
            assert_eq!(refused.message, "this sandbox has no token for the repositories of evil");
        }
        assert_eq!(listed.owner_of(&names[2..3]), Ok(Some("other")));
        let one = Credential::Token(Box::new(Token { name: "T".to_owned(), source: None, owner: None }));
        assert_eq!(one.owner_of(&names), Ok(None));
    }

    #[test]
    fn what_no_token_is_for_is_no_app() {
        assert_eq!(app(None, None), Err(AppError::NoOwner));
        assert_eq!(app(Some(&["a/b"]), Some("a")), Err(AppError::NeedlessOwner));
        assert_eq!(app(Some(&[]), None), Err(AppError::Repositories(RepositoriesError::None)));
        let many: Vec<String> = (0..=App::OWNERS).map(|number| format!("a{number}/x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(app(Some(&many), None), Err(AppError::TooManyOwners));
        assert!(app(Some(&many[1..]), None).is_ok());
    }
}
