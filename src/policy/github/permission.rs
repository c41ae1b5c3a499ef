//! The permissions of an App that a binding needs, and no more: what the proxy lets through by mistake then still fails at
//! GitHub.

use std::collections::BTreeMap;

use super::scope::{GitHubOption, Scope};

const READ: [&str; 7] = ["metadata", "contents", "issues", "pull_requests", "actions", "checks", "statuses"];
const WRITTEN: [&str; 4] = ["contents", "issues", "pull_requests", "actions"];

/// What a token for this needs, by GitHub's names (github-scope.md, section 3.7). An option that writes is no reason to write where
/// the binding reads alone: its permissions are then asked for to read. `workflows: write` is never asked for, so GitHub refuses
/// pushes that change `.github/workflows/`.
pub fn permissions(scope: &Scope) -> BTreeMap<String, String> {
    let mut wanted: BTreeMap<&str, &str> = READ.map(|name| (name, "read")).into();
    if scope.write {
        wanted.extend(WRITTEN.map(|name| (name, "write")));
    }
    for &(name, level) in scope.options.iter().flat_map(needs) {
        if scope.write && level == "write" {
            wanted.insert(name, level);
        } else {
            wanted.entry(name).or_insert("read");
        }
    }
    if !scope.projects.is_empty() {
        wanted.insert("organization_projects", if scope.write { "write" } else { "read" });
    }
    wanted.into_iter().map(|(name, level)| (name.to_owned(), level.to_owned())).collect()
}

/// What an option needs besides the base.
fn needs(option: GitHubOption) -> &'static [(&'static str, &'static str)] {
    match option {
        // The base has theirs.
        GitHubOption::Wiki | GitHubOption::Merge | GitHubOption::Dispatch | GitHubOption::Forks => &[],
        GitHubOption::Deploy => &[("deployments", "write")],
        GitHubOption::Security => {
            &[("secret_scanning_alerts", "write"), ("security_events", "write"), ("vulnerability_alerts", "write")]
        }
        GitHubOption::Secrets => &[("secrets", "read")],
        GitHubOption::Admin => &[("administration", "write")],
        GitHubOption::OrgRead => &[("members", "read")],
        GitHubOption::Packages => &[("packages", "read")],
        // Answered by the proxy, asked without a credential, or of what the base may read.
        GitHubOption::LocalLists | GitHubOption::PublicSearch | GitHubOption::UnknownRepoReads => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::super::scope::GitHubHost;
    use super::*;

    fn text(write: bool, options: &[GitHubOption]) -> String {
        text_of(write, options, &[])
    }

    fn text_of(write: bool, options: &[GitHubOption], projects: &[&str]) -> String {
        let options = options.iter().copied().collect();
        let projects = projects.iter().copied().map(str::to_owned).collect();
        let wanted =
            permissions(&Scope { host: GitHubHost::Public, all: false, write, options, projects, user_token: false });
        let beyond = |(name, level): &(&String, &String)| !(READ.contains(&name.as_str()) && *level == "read");
        assert!(READ.iter().all(|name| wanted.contains_key(*name)), "the base is asked for always");
        wanted.iter().filter(beyond).map(|(name, level)| format!("{name}:{level}")).collect::<Vec<_>>().join(" ")
    }

    const WRITE: &str = "actions:write contents:write issues:write pull_requests:write";

    #[test]
    fn each_option_asks_for_its_own() {
        assert_eq!((text(false, &[]).as_str(), text(true, &[]).as_str()), ("", WRITE));
        let with_project = "actions:write contents:write issues:write organization_projects:write pull_requests:write";
        assert_eq!(text_of(true, &[], &["PVT_1"]), with_project);
        assert_eq!(text_of(false, &[], &["PVT_1"]), "organization_projects:read");
        for option in GitHubOption::ALL {
            let more = match option {
                GitHubOption::Wiki | GitHubOption::Merge | GitHubOption::Dispatch | GitHubOption::Forks => "",
                GitHubOption::LocalLists | GitHubOption::PublicSearch | GitHubOption::UnknownRepoReads => "",
                GitHubOption::Deploy => "deployments:write",
                GitHubOption::Security => {
                    "secret_scanning_alerts:write security_events:write vulnerability_alerts:write"
                }
                GitHubOption::Secrets => "secrets:read",
                GitHubOption::Admin => "administration:write",
                GitHubOption::OrgRead => "members:read",
                GitHubOption::Packages => "packages:read",
            };
            let asked = text(true, &[option]);
            let rest: Vec<&str> = asked.split(' ').filter(|one| !WRITE.contains(one)).collect();
            assert_eq!(rest.join(" "), more, "{option}");
            assert!(WRITE.split(' ').all(|one| asked.contains(one)), "{option}");
            assert_eq!(text(false, &[option]), more.replace(":write", ":read"), "{option}");
        }
    }
}
