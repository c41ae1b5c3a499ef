//! The permissions of an App that a binding's options need, and no more: what the proxy lets through by mistake then still fails
//! at GitHub.

use std::collections::BTreeMap;

/// Whether the sandbox may change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may read.
    Read,
    /// It may push, open and change issues and pull requests, and run workflows again.
    Write,
}

/// What a binding opens besides. Each is closed unless it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Opening {
    /// Pushing to the wiki.
    Wiki,
    /// Merging pull requests.
    Merge,
    /// Starting workflows.
    Dispatch,
    /// Deployments and their statuses.
    Deploy,
    /// Alerts and advisories.
    Security,
    /// Names of secrets.
    Secrets,
    /// Settings of the repository.
    Admin,
    /// The list of forks.
    Forks,
    /// The organization with its members and teams.
    OrgRead,
    /// Items of projects.
    Projects,
    /// Packages.
    Packages,
    /// Pushes that change `.github/workflows/`.
    Workflows,
}

const READ: [&str; 7] = ["metadata", "contents", "issues", "pull_requests", "actions", "checks", "statuses"];

impl Opening {
    /// What it needs, by GitHub's names.
    pub fn permissions(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Wiki => &[("contents", "write")],
            Self::Merge => &[("contents", "write"), ("pull_requests", "write")],
            Self::Dispatch => &[("actions", "write"), ("contents", "write")],
            Self::Deploy => &[("deployments", "write")],
            Self::Security => {
                &[("secret_scanning_alerts", "read"), ("security_events", "read"), ("vulnerability_alerts", "read")]
            }
            Self::Secrets => &[("secrets", "read")],
            Self::Admin => &[("administration", "write")],
            Self::Forks => &[("metadata", "read")],
            Self::OrgRead => &[("members", "read")],
            Self::Projects => &[("organization_projects", "write")],
            Self::Packages => &[("packages", "read")],
            Self::Workflows => &[("workflows", "write")],
        }
    }
}

/// What a token for this needs, by GitHub's names. An opening that writes is no reason to write under [`Access::Read`]: its
/// permissions are then asked for to read, and those that there are only to write not at all.
pub fn permissions(
    access: Access,
    openings: impl IntoIterator<Item = Opening>,
) -> BTreeMap<&'static str, &'static str> {
    let mut wanted: BTreeMap<_, _> = READ.map(|name| (name, "read")).into();
    if access == Access::Write {
        wanted.extend(["contents", "issues", "pull_requests", "actions"].map(|name| (name, "write")));
    }
    for &(name, level) in openings.into_iter().flat_map(Opening::permissions) {
        match (access, level) {
            (Access::Write, "write") => {
                wanted.insert(name, "write");
            }
            (Access::Read, "write") if name == "workflows" => {}
            (Access::Read | Access::Write, _) => {
                wanted.entry(name).or_insert("read");
            }
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(access: Access, openings: &[Opening]) -> String {
        let wanted = permissions(access, openings.iter().copied());
        let beyond = |(name, level): &(&&str, &&str)| !(READ.contains(*name) && **level == "read");
        wanted.iter().filter(beyond).map(|(name, level)| format!("{name}:{level}")).collect::<Vec<_>>().join(" ")
    }

    const WRITE: &str = "actions:write contents:write issues:write pull_requests:write";

    #[test]
    fn the_base_is_asked_for_always() {
        let read = permissions(Access::Read, []);
        assert_eq!(read.len(), 7);
        assert!(read.values().all(|level| *level == "read") && READ.iter().all(|name| read.contains_key(name)));
        let write = permissions(Access::Write, []);
        assert_eq!((write.len(), write["metadata"], write["checks"], write["statuses"]), (7, "read", "read", "read"));
        assert_eq!(text(Access::Write, &[]), WRITE);
    }

    #[test]
    fn each_opening_asks_for_its_own() {
        for (opening, more) in [
            (Opening::Wiki, ""),
            (Opening::Merge, ""),
            (Opening::Dispatch, ""),
            (Opening::Deploy, "deployments:write"),
            (Opening::Security, "secret_scanning_alerts:read security_events:read vulnerability_alerts:read"),
            (Opening::Secrets, "secrets:read"),
            (Opening::Admin, "administration:write"),
            (Opening::Forks, ""),
            (Opening::OrgRead, "members:read"),
            (Opening::Projects, "organization_projects:write"),
            (Opening::Packages, "packages:read"),
            (Opening::Workflows, "workflows:write"),
        ] {
            let asked = text(Access::Write, &[opening]);
            let rest: Vec<&str> = asked.split(' ').filter(|one| !WRITE.contains(one)).collect();
            assert_eq!(rest.join(" "), more, "{opening:?}");
            assert!(WRITE.split(' ').all(|one| asked.contains(one)), "{opening:?}");
            assert!(!text(Access::Read, &[opening]).contains("write"), "{opening:?}");
        }
    }
}
