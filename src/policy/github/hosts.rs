//! The hosts of an installation: what is asked of each, and in which form the credential goes there.

use super::scope::{GitHubHost, Scope};

/// What a host of an installation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostClass {
    /// Git, LFS, archives; on a server or a tenant its APIs, too.
    Web,
    /// REST and GraphQL.
    Api,
    /// Assets of releases.
    Uploads,
    /// Files of repositories.
    Raw,
    /// Archives.
    Codeload,
    /// Files that LFS keeps.
    Media,
    /// A package registry whose paths name the repository.
    Maven,
    /// Storage: a URL is good only where an answer to this sandbox has named exactly it.
    Storage,
    /// Never reached.
    Closed,
}

/// The form in which the credential is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialForm {
    /// It is not.
    None,
    /// `Bearer TOKEN`.
    Bearer,
    /// `Basic`, with the user name `x-access-token`.
    Basic,
}

/// A host of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundHost {
    /// Its name. A `*` before the first dot stands for any characters but a dot; a leading `*.` stands for any labels.
    pub pattern: String,
    /// What it is for.
    pub class: HostClass,
}

impl HostClass {
    /// The forms in which the credential may go to a host of this class; which of them, or none, is the route's.
    pub fn forms(self) -> &'static [CredentialForm] {
        match self {
            Self::Web => &[CredentialForm::Basic, CredentialForm::Bearer],
            Self::Api | Self::Uploads | Self::Raw | Self::Media => &[CredentialForm::Bearer],
            Self::Codeload | Self::Maven => &[CredentialForm::Basic],
            Self::Storage | Self::Closed => &[],
        }
    }
}

/// Every host of the binding's installation. The first that fits a name is the one that counts.
pub fn hosts(scope: &Scope) -> Vec<BoundHost> {
    let bound = |(pattern, class): (String, HostClass)| BoundHost { pattern, class };
    match &scope.host {
        GitHubHost::Public => PUBLIC.iter().map(|(name, class)| bound(((*name).to_owned(), *class))).collect(),
        GitHubHost::Server(host) => of(host, SERVER).map(bound).collect(),
        GitHubHost::Tenant(host) => {
            let shared = TENANT_SHARED.iter().map(|(name, class)| ((*name).to_owned(), *class));
            of(host, TENANT).chain(shared).map(bound).collect()
        }
    }
}

/// What a host of the binding's installation is for; nothing where it is none of its hosts, and the network rules alone say what is
/// allowed. `host` is in lower case, without a port and without a final dot.
pub fn class_of(scope: &Scope, host: &str) -> Option<HostClass> {
    let own = |own: &str, table: &[(&str, HostClass)]| {
        if host == own {
            return Some(HostClass::Web);
        }
        let part = host.strip_suffix(own)?.strip_suffix('.')?;
        table.iter().find(|(name, _)| *name == part || *name == "*").map(|(_, class)| *class)
    };
    let listed = |table: &[(&str, HostClass)]| table.iter().find(|(name, _)| fits(name, host)).map(|(_, class)| *class);
    match &scope.host {
        GitHubHost::Public => listed(PUBLIC),
        GitHubHost::Server(name) if outside(name, host) => None,
        GitHubHost::Server(name) => own(name, SERVER),
        GitHubHost::Tenant(name) if outside(name, host) => None,
        GitHubHost::Tenant(name) => own(name, TENANT).or_else(|| listed(TENANT_SHARED)),
    }
}

/// Public pictures and pages of an installation, for which the network rules alone count.
fn outside(own: &str, host: &str) -> bool {
    let part = host.strip_suffix(own).and_then(|rest| rest.strip_suffix('.'));
    part.is_some_and(|part| matches!(part, "avatars" | "assets" | "render" | "reply" | "pages"))
}

fn of(own: &str, table: &[(&str, HostClass)]) -> impl Iterator<Item = (String, HostClass)> {
    let itself = std::iter::once((own.to_owned(), HostClass::Web));
    itself.chain(table.iter().map(move |(name, class)| (format!("{name}.{own}"), *class)))
}

fn fits(pattern: &str, host: &str) -> bool {
    if let Some(parent) = pattern.strip_prefix('*').filter(|rest| rest.starts_with('.')) {
        return host.strip_suffix(parent).is_some_and(|labels| !labels.is_empty());
    }
    match pattern.split_once('*') {
        None => pattern == host,
        Some((before, after)) => host
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|middle| !middle.is_empty() && !middle.contains('.')),
    }
}

/// github-scope.md, section 1.1.
const PUBLIC: &[(&str, HostClass)] = &[
    ("github.com", HostClass::Web),
    ("api.github.com", HostClass::Api),
    ("uploads.github.com", HostClass::Uploads),
    ("raw.githubusercontent.com", HostClass::Raw),
    ("codeload.github.com", HostClass::Codeload),
    ("media.githubusercontent.com", HostClass::Media),
    ("lfs.github.com", HostClass::Storage),
    ("github-cloud.githubusercontent.com", HostClass::Storage),
    ("github-cloud.s3.amazonaws.com", HostClass::Storage),
    ("objects.githubusercontent.com", HostClass::Storage),
    ("objects-origin.githubusercontent.com", HostClass::Storage),
    ("release-assets.githubusercontent.com", HostClass::Storage),
    ("github-releases.githubusercontent.com", HostClass::Storage),
    ("github-production-release-asset-*.s3.amazonaws.com", HostClass::Storage),
    ("results-receiver.actions.githubusercontent.com", HostClass::Storage),
    ("pipelines.actions.githubusercontent.com", HostClass::Storage),
    ("productionresultssa*.blob.core.windows.net", HostClass::Storage),
    ("user-images.githubusercontent.com", HostClass::Storage),
    ("private-user-images.githubusercontent.com", HostClass::Storage),
    ("github-production-user-asset-*.s3.amazonaws.com", HostClass::Storage),
    ("camo.githubusercontent.com", HostClass::Storage),
    ("maven.pkg.github.com", HostClass::Maven),
    ("*.actions.githubusercontent.com", HostClass::Closed),
    ("gist.github.com", HostClass::Closed),
    ("gist.githubusercontent.com", HostClass::Closed),
    ("ghcr.io", HostClass::Closed),
    ("*.pkg.github.com", HostClass::Closed),
    ("pkg-containers.githubusercontent.com", HostClass::Closed),
    ("*.githubcopilot.com", HostClass::Closed),
    ("copilot-proxy.githubusercontent.com", HostClass::Closed),
    ("copilot-telemetry.githubusercontent.com", HostClass::Closed),
    ("models.github.ai", HostClass::Closed),
    ("*.github.dev", HostClass::Closed),
    ("*.githubpreview.dev", HostClass::Closed),
    ("*.codespaces.githubusercontent.com", HostClass::Closed),
    ("collector.github.com", HostClass::Closed),
    ("alive.github.com", HostClass::Closed),
    ("live.github.com", HostClass::Closed),
    ("ssh.github.com", HostClass::Closed),
];

/// Below the host of a server with subdomains, section 1.2.
const SERVER: &[(&str, HostClass)] = &[
    ("uploads", HostClass::Uploads),
    ("raw", HostClass::Raw),
    ("codeload", HostClass::Storage),
    ("media", HostClass::Storage),
    ("*", HostClass::Closed),
];

/// Below the host of a tenant, section 1.3.
const TENANT: &[(&str, HostClass)] = &[
    ("api", HostClass::Api),
    ("uploads", HostClass::Uploads),
    ("raw", HostClass::Raw),
    ("gist", HostClass::Closed),
    ("*", HostClass::Storage),
];

/// What all tenants share.
const TENANT_SHARED: &[(&str, HostClass)] =
    &[("auth.ghe.com", HostClass::Closed), ("*.blob.core.windows.net", HostClass::Storage)];

#[cfg(test)]
mod tests {
    use super::super::scope::Options;
    use super::*;

    fn class(installation: &str, host: &str) -> Option<HostClass> {
        let host_of = installation.parse().unwrap();
        let scope = Scope {
            host: host_of,
            all: false,
            write: true,
            options: Options::default(),
            projects: Vec::new(),
            user_token: false,
        };
        let class = class_of(&scope, host);
        let listed = hosts(&scope).into_iter().find(|bound| fits(&bound.pattern, host)).map(|bound| bound.class);
        assert!(class.is_none() || class == listed, "{host}: {class:?}, {listed:?}");
        class
    }

    #[test]
    fn hosts_and_their_classes() {
        let cases = [
            ("github.com", "github.com", Some(HostClass::Web)),
            ("github.com", "api.github.com", Some(HostClass::Api)),
            ("github.com", "xgithub.com", None),
            ("github.com", "github-production-release-asset-2e65be.s3.amazonaws.com", Some(HostClass::Storage)),
            ("github.com", "github-production-release-asset-a.b.s3.amazonaws.com", None),
            ("github.com", "github-production-release-asset-.s3.amazonaws.com", None),
            ("github.com", "productionresultssa0.blob.core.windows.net", Some(HostClass::Storage)),
            ("github.com", "mine.blob.core.windows.net", None),
            ("github.com", "results-receiver.actions.githubusercontent.com", Some(HostClass::Storage)),
            ("github.com", "token.actions.githubusercontent.com", Some(HostClass::Closed)),
            ("github.com", "gist.github.com", Some(HostClass::Closed)),
            ("github.com", "npm.pkg.github.com", Some(HostClass::Closed)),
            ("github.com", "maven.pkg.github.com", Some(HostClass::Maven)),
            ("github.com", "api.individual.githubcopilot.com", Some(HostClass::Closed)),
            ("github.com", "acme.github.io", None),
            ("github.com", "avatars.githubusercontent.com", None),
            ("github.com", "git.example.com", None),
            ("git.example.com", "git.example.com", Some(HostClass::Web)),
            ("git.example.com", "uploads.git.example.com", Some(HostClass::Uploads)),
            ("git.example.com", "gist.git.example.com", Some(HostClass::Closed)),
            ("git.example.com", "avatars.git.example.com", None),
            ("git.example.com", "xgit.example.com", None),
            ("git.example.com", "github.com", None),
            ("acme.ghe.com", "acme.ghe.com", Some(HostClass::Web)),
            ("acme.ghe.com", "api.acme.ghe.com", Some(HostClass::Api)),
            ("acme.ghe.com", "codeload.acme.ghe.com", Some(HostClass::Storage)),
            ("acme.ghe.com", "x.blob.core.windows.net", Some(HostClass::Storage)),
            ("acme.ghe.com", "auth.ghe.com", Some(HostClass::Closed)),
            ("acme.ghe.com", "other.ghe.com", None),
        ];
        for (installation, host, expected) in cases {
            assert_eq!(class(installation, host), expected, "{host} of {installation}");
        }
    }
}
