//! What one GitHub binding covers.

use std::fmt;
use std::str::FromStr;

/// What one GitHub binding covers. Which repositories are its own is asked of [`Known`](super::Known).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The installation of GitHub.
    pub host: GitHubHost,
    /// Whether it is for every repository that the credential reaches. Only the question whose repository it is falls away then.
    pub all: bool,
    /// Whether it writes, too.
    pub write: bool,
    /// What is switched on.
    pub options: Options,
    /// Node ids of the projects whose items may be changed.
    pub projects: Vec<String>,
    /// Whether the credential is a person's and not an App installation's, which has no `GET /user`.
    pub user_token: bool,
}

/// An installation of GitHub. Names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitHubHost {
    /// github.com.
    Public,
    /// GitHub Enterprise Server on this host.
    Server(Box<str>),
    /// The tenant whose host is `NAME.ghe.com`; this is the whole host.
    Tenant(Box<str>),
}

/// Why a text is no [`GitHubHost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Not the name of a host.
    #[error("write the name of the host only, such as github.com, acme.ghe.com or github.example.com")]
    NotAHost,
    /// A part of github.com or ghe.com and not the host of an installation.
    #[error("write github.com, or the tenant as NAME.ghe.com: its other hosts belong to it")]
    NotAnInstallation,
}

impl GitHubHost {
    /// The host that git and browsers use.
    pub fn name(&self) -> &str {
        match self {
            Self::Public => "github.com",
            Self::Server(host) | Self::Tenant(host) => host,
        }
    }
}

impl FromStr for GitHubHost {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let host = text.to_ascii_lowercase();
        let label = |label: &str| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=63).contains(&label.len())
                && label.bytes().all(legal)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if host.len() > 253 || !host.split('.').all(label) {
            return Err(HostError::NotAHost);
        }
        let belongs = ["github.com", "githubusercontent.com", "ghe.com"]
            .iter()
            .any(|parent| host.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
        match host.strip_suffix(".ghe.com") {
            _ if host == "github.com" => Ok(Self::Public),
            Some(tenant) if !tenant.contains('.') && tenant != "auth" => Ok(Self::Tenant(host.into())),
            _ if belongs => Err(HostError::NotAnInstallation),
            _ => Ok(Self::Server(host.into())),
        }
    }
}

/// What a binding may switch on beyond ordinary work in its repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitHubOption {
    /// Push to the wiki.
    Wiki,
    /// Merge pull requests; the branch they go into stays under the push rules.
    Merge,
    /// Start workflows, which run with the repository's secrets.
    Dispatch,
    /// Make deployments and their statuses.
    Deploy,
    /// Change the state of alerts, and read found secrets.
    Security,
    /// Read the names of secrets and the public key for them.
    Secrets,
    /// Some administration of the repository.
    Admin,
    /// List forks.
    Forks,
    /// Read organizations, their members and teams.
    OrgRead,
    /// Package registries and their API, which belong to owners and not to repositories.
    Packages,
    /// Lists of repositories that the proxy makes itself.
    LocalLists,
    /// Search of public repositories and users, without a credential.
    PublicSearch,
    /// Reads below a repository that no row of the tables names.
    UnknownRepoReads,
}

/// A text that names no option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such option of a GitHub binding")]
pub struct UnknownOption;

impl GitHubOption {
    /// Every option.
    pub const ALL: [Self; 13] = [
        Self::Wiki,
        Self::Merge,
        Self::Dispatch,
        Self::Deploy,
        Self::Security,
        Self::Secrets,
        Self::Admin,
        Self::Forks,
        Self::OrgRead,
        Self::Packages,
        Self::LocalLists,
        Self::PublicSearch,
        Self::UnknownRepoReads,
    ];

    /// As it is written in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wiki => "wiki",
            Self::Merge => "merge",
            Self::Dispatch => "dispatch",
            Self::Deploy => "deploy",
            Self::Security => "security",
            Self::Secrets => "secrets",
            Self::Admin => "admin",
            Self::Forks => "forks",
            Self::OrgRead => "org_read",
            Self::Packages => "packages",
            Self::LocalLists => "local_lists",
            Self::PublicSearch => "public_search",
            Self::UnknownRepoReads => "unknown_repo_reads",
        }
    }
}

impl FromStr for GitHubOption {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, UnknownOption> {
        Self::ALL.into_iter().find(|option| option.as_str() == text).ok_or(UnknownOption)
    }
}

impl fmt::Display for GitHubOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of options; the default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options(u16);

impl Options {
    /// Whether it is switched on.
    pub fn has(self, option: GitHubOption) -> bool {
        self.0 & (1 << option as u16) != 0
    }

    /// Those that are switched on, in the order of [`GitHubOption::ALL`].
    pub fn iter(self) -> impl Iterator<Item = GitHubOption> {
        GitHubOption::ALL.into_iter().filter(move |option| self.has(*option))
    }
}

impl FromIterator<GitHubOption> for Options {
    fn from_iter<T: IntoIterator<Item = GitHubOption>>(options: T) -> Self {
        Self(options.into_iter().fold(0, |bits, option| bits | 1 << option as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_installations() {
        let server = |host: &str| Ok(GitHubHost::Server(host.into()));
        let cases = [
            ("GitHub.com", Ok(GitHubHost::Public)),
            ("acme.ghe.com", Ok(GitHubHost::Tenant("acme.ghe.com".into()))),
            ("git.example.com", server("git.example.com")),
            ("notgithub.com", server("notgithub.com")),
            ("ghe.com", Err(HostError::NotAnInstallation)),
            ("auth.ghe.com", Err(HostError::NotAnInstallation)),
            ("api.acme.ghe.com", Err(HostError::NotAnInstallation)),
            ("api.github.com", Err(HostError::NotAnInstallation)),
            ("raw.githubusercontent.com", Err(HostError::NotAnInstallation)),
            ("", Err(HostError::NotAHost)),
            ("git.example.com:8443", Err(HostError::NotAHost)),
            ("https://git.example.com", Err(HostError::NotAHost)),
            ("git..example", Err(HostError::NotAHost)),
            ("-git.example", Err(HostError::NotAHost)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }

    #[test]
    fn options_are_named_once_and_off_by_default() {
        let set: Options = ["wiki", "org_read"].iter().map(|name| name.parse::<GitHubOption>().unwrap()).collect();
        assert_eq!(set.iter().map(GitHubOption::as_str).collect::<Vec<_>>(), ["wiki", "org_read"]);
        assert_eq!("Wiki".parse::<GitHubOption>(), Err(UnknownOption));
        for option in GitHubOption::ALL {
            assert_eq!(option.as_str().parse(), Ok(option));
            assert!(!Options::default().has(option), "{option}");
        }
    }
}
