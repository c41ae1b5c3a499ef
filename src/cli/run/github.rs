//! What git and gh find inside, so that they need no set-up of their own.

use crate::credentials::Placeholder;
use crate::credentials::placeholder::NoRandomness;
use crate::policy::Policy;
use crate::policy::github::{GitHubBinding, RepoName};

/// How git and gh get to a host, all of it in variables: no file of the sandbox is touched.
pub struct Forge<'a> {
    /// The host.
    pub host: &'a str,
    /// The repositories that are named; none where all are allowed.
    pub listed: &'a [RepoName],
    /// What stands for the token.
    pub placeholder: &'a str,
}

/// A stand-in for the token of each GitHub binding, in their order.
///
/// # Errors
/// [`NoRandomness`].
pub fn placeholders(policy: &Policy) -> Result<Vec<Placeholder>, NoRandomness> {
    let of = |github: &GitHubBinding| {
        let variable = token_variables(&github.host().host.to_string())[0];
        // One stands for all of them: which one it becomes is decided by what is asked for.
        let secret = github.tokens().into_iter().next().map_or_else(String::new, |token| token.name);
        Placeholder::github(&secret, variable)
    };
    policy.githubs().iter().map(of).collect()
}

/// Other spellings of a host's URL, each with what comes before the path.
const SPELLINGS: [(&str, &str); 7] = [
    ("git@", ":"),
    ("ssh://git@", "/"),
    ("ssh://", "/"),
    ("git+ssh://git@", "/"),
    ("git://", "/"),
    ("http://", "/"),
    ("https://", "/"),
];

/// The variables, with their values; none without a host.
pub fn variables(forges: &[Forge<'_>]) -> Vec<(String, String)> {
    let Some(first) = forges.first() else { return Vec::new() };
    // Of helpers that the user has set up none is asked, and none could answer.
    let helper = ("credential.helper".to_owned(), String::new());
    let settings: Vec<_> = std::iter::once(helper).chain(forges.iter().flat_map(git_settings)).collect();
    let mut variables = vec![
        ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()),
        ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
        ("GH_PROMPT_DISABLED".to_owned(), "1".to_owned()),
        ("GH_NO_UPDATE_NOTIFIER".to_owned(), "1".to_owned()),
    ];
    for (index, (key, value)) in settings.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}"), key));
        variables.push((format!("GIT_CONFIG_VALUE_{index}"), value));
    }
    // What gh takes where nothing says which host.
    if forges.iter().all(|forge| forge.host != "github.com") {
        variables.push(("GH_HOST".to_owned(), first.host.to_owned()));
    }
    for forge in forges {
        for name in token_variables(forge.host) {
            if !variables.iter().any(|(known, _)| known == name) {
                variables.push(((*name).to_owned(), forge.placeholder.to_owned()));
            }
        }
    }
    variables
}

/// Where tools look for the token of this host; gh knows others of enterprises, of which old versions count a tenant of ghe.com as one.
fn token_variables(host: &str) -> &'static [&'static str] {
    match host {
        "github.com" => &["GH_TOKEN", "GITHUB_TOKEN"],
        host if host.ends_with(".ghe.com") => {
            &["GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"]
        }
        _ => &["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"],
    }
}

fn git_settings(forge: &Forge<'_>) -> Vec<(String, String)> {
    let host = forge.host;
    let mut settings = Vec::new();
    let base = format!("https://{host}/");
    let mut instead = |base: &str, of: String| settings.push((format!("url.{base}.insteadOf"), of));
    SPELLINGS[..6].iter().for_each(|(before, behind)| instead(&base, format!("{before}{host}{behind}")));
    if host == "github.com" {
        instead(&base, "ssh://git@ssh.github.com:443/".to_owned());
    }
    // The user's own settings may turn https into ssh; git takes the longest of what fits.
    let mut owners: Vec<&str> = forge.listed.iter().map(RepoName::owner).collect();
    owners.sort_unstable();
    owners.dedup();
    for owner in owners {
        let base = format!("https://{host}/{owner}/");
        SPELLINGS.iter().for_each(|(before, behind)| instead(&base, format!("{before}{host}{behind}{owner}/")));
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: &str, listed: &[RepoName]) -> Vec<(String, String)> {
        variables(&[Forge { host, listed, placeholder: "ghs_x" }])
    }

    #[test]
    fn every_spelling_leads_to_https() {
        let listed = ["acme/b", "acme/a", "other/c"].map(|name| RepoName::parse(name).unwrap());
        let variables = of("github.com", &listed);
        let get = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let count: usize = get("GIT_CONFIG_COUNT").unwrap().parse().unwrap();
        let setting = |index| {
            let [key, value] = ["KEY", "VALUE"].map(|part| get(&format!("GIT_CONFIG_{part}_{index}")).unwrap());
            format!("{key}={value}")
        };
        let settings: Vec<String> = (0..count).map(setting).collect();
        assert_eq!((count, get(&format!("GIT_CONFIG_KEY_{count}"))), (1 + 7 + 2 * 7, None));
        for wanted in [
            "credential.helper=",
            "url.https://github.com/.insteadOf=git@github.com:",
            "url.https://github.com/.insteadOf=ssh://git@ssh.github.com:443/",
            "url.https://github.com/acme/.insteadOf=https://github.com/acme/",
            "url.https://github.com/other/.insteadOf=git@github.com:other/",
        ] {
            assert!(settings.iter().any(|setting| setting == wanted), "{wanted}: {settings:#?}");
        }
    }

    #[test]
    fn gh_finds_the_token_of_its_host() {
        let names = |host: &str| {
            let tokens = of(host, &[]).into_iter().filter(|(_, value)| value == "ghs_x");
            tokens.map(|(name, _)| name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("github.com"), "GH_TOKEN GITHUB_TOKEN");
        assert_eq!(names("ghes.test"), "GH_ENTERPRISE_TOKEN GITHUB_ENTERPRISE_TOKEN");
        assert!(names("acme.ghe.com").starts_with("GH_TOKEN GITHUB_TOKEN GH_ENTERPRISE_TOKEN"));
        let host = |host: &str| of(host, &[]).into_iter().find(|(name, _)| name == "GH_HOST").map(|(_, value)| value);
        assert_eq!((host("github.com"), host("ghes.test").as_deref()), (None, Some("ghes.test")));
    }

    #[test]
    fn two_hosts_share_the_settings_and_the_first_has_the_token() {
        let forge = |host, placeholder| Forge { host, listed: &[], placeholder };
        let variables =
            variables(&[forge("ghes.test", "ghs_1"), forge("github.com", "ghs_2"), forge("b.test", "ghs_3")]);
        let get = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(get("GIT_CONFIG_COUNT"), Some((1 + 6 + 7 + 6).to_string().as_str()));
        assert_eq!([get("GH_TOKEN"), get("GH_ENTERPRISE_TOKEN"), get("GH_HOST")], [Some("ghs_2"), Some("ghs_1"), None]);
        assert_eq!(super::variables(&[]), []);
    }
}
