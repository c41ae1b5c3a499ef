//! Git, LFS and archives on the web host, and the hosts of files (github-scope.md, sections 1.5 and 2.1).

use super::denial::{Code, OutOfScope};
use super::hosts::CredentialForm;
use super::route::{Action, Answer, Asked, Git, Route, Subject};
use super::scope::GitHubOption;
use super::target::{decoded_repo_name, malformed, member, repo_name, text};

/// First segments of the web host that are never an owner.
const RESERVED: &[&str] = &[
    "api",
    "apps",
    "assets",
    "avatars",
    "codeload",
    "codespaces",
    "dashboard",
    "enterprise",
    "enterprises",
    "gist",
    "login",
    "logout",
    "manage",
    "marketplace",
    "media",
    "new",
    "notifications",
    "oauth",
    "organizations",
    "orgs",
    "raw",
    "search",
    "session",
    "sessions",
    "settings",
    "setup",
    "stafftools",
    "storage",
    "users",
];

/// A request to the web host.
pub(super) fn route(asked: &Asked<'_>) -> Result<Route, OutOfScope> {
    let segments = asked.target.segments();
    let [owner, name, tail @ ..] = segments else { return Err(no_route(asked)) };
    let word = text(owner)?;
    if word.starts_with('_') || RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved)) {
        return Err(no_route(asked));
    }
    asked.target.plain_from(2)?;
    match tail {
        ["info", "refs"] | ["git-upload-pack"] | ["git-receive-pack"] => git(asked, owner, name, tail),
        ["info", "lfs", rest @ ..] => lfs(asked, owner, name, rest),
        ["git-upload-archive"] => {
            Err(OutOfScope::new(Code::NotAllowed, "git archive over the network is not there: use a clone"))
        }
        ["HEAD"] | ["objects", ..] => Err(dumb()),
        _ => file(asked, owner, name, tail),
    }
}

fn dumb() -> OutOfScope {
    OutOfScope::new(Code::NotAllowed, "git's dumb protocol is not there: unset GIT_SMART_HTTP")
}

fn no_route(asked: &Asked<'_>) -> OutOfScope {
    let method = super::route::Shown(asked.request.method);
    let path = asked.request.target.split('?').next().unwrap_or_default();
    let path = super::route::Shown(path);
    OutOfScope::new(
        Code::NotAllowed,
        format!(
            "{method} {path} is not allowed on this host: git, LFS, archives and files of this sandbox's repositories are"
        ),
    )
}

/// The repository of a URL of git's, which may end in `.git`, and whether its wiki is meant.
fn git_repository(asked: &Asked<'_>, owner: &str, name: &str) -> Result<(Subject, bool), OutOfScope> {
    // What is judged is what it stands for: an escape hides no end of it.
    let name = text(name)?;
    let name = name.strip_suffix(".git").unwrap_or(&name);
    let (name, wiki) = name.strip_suffix(".wiki").map_or((name, false), |name| (name, true));
    if !wiki && name.to_ascii_lowercase().ends_with(".wiki") {
        return Err(malformed("write `.wiki` in small letters"));
    }
    Ok((member(decoded_repo_name(&text(owner)?, name)?, asked.known, asked.scope.all)?, wiki))
}

fn writes(asked: &Asked<'_>, wiki: bool) -> Result<(), OutOfScope> {
    if !asked.scope.write {
        return Err(asked.read_only());
    }
    if wiki && !asked.scope.options.has(GitHubOption::Wiki) {
        return Err(OutOfScope::new(Code::OptionOff, "this sandbox may not push to wikis"));
    }
    Ok(())
}

fn git(asked: &Asked<'_>, owner: &str, name: &str, tail: &[&str]) -> Result<Route, OutOfScope> {
    let request = asked.request;
    let query = asked.target.query.0;
    let kind = match (request.method, tail, query) {
        ("GET", ["info", "refs"], "service=git-upload-pack") => Git::AdvertiseFetch,
        ("GET", ["info", "refs"], "service=git-receive-pack") => Git::AdvertisePush,
        ("GET", ["info", "refs"], "") => return Err(dumb()),
        ("POST", ["git-upload-pack"], "") => Git::Fetch,
        ("POST", ["git-receive-pack"], "") => Git::Push,
        (_, _, "") => return Err(no_route(asked)),
        _ => return Err(malformed("the URL of git has a query that git does not send")),
    };
    let content = match kind {
        Git::AdvertiseFetch | Git::AdvertisePush => None,
        Git::Fetch => Some("application/x-git-upload-pack-request"),
        Git::Push => Some("application/x-git-receive-pack-request"),
    };
    match content {
        None if request.body => return Err(malformed("a GET of git has no body")),
        Some(expected) if request.content_type != Some(expected) => {
            return Err(malformed(format!("the Content-Type is not {expected}")));
        }
        None | Some(_) => {}
    }
    let (repository, wiki) = git_repository(asked, owner, name)?;
    let family = match kind {
        Git::AdvertiseFetch => "info/refs?service=git-upload-pack",
        Git::AdvertisePush => "info/refs?service=git-receive-pack",
        Git::Fetch => "git-upload-pack",
        Git::Push => "git-receive-pack",
    };
    match kind {
        Git::AdvertisePush | Git::Push => writes(asked, wiki)?,
        Git::AdvertiseFetch | Git::Fetch => {}
    }
    let answer = Answer::Plain;
    Ok(Route {
        repository: Some(repository),
        named: Vec::new(),
        wiki,
        action: Action::Git(kind),
        family,
        credential: CredentialForm::Basic,
        answer,
    })
}

fn lfs(asked: &Asked<'_>, owner: &str, name: &str, rest: &[&str]) -> Result<Route, OutOfScope> {
    let (action, family, write) = match (asked.request.method, rest) {
        ("POST", ["objects", "batch"]) => (Action::LfsBatch, "info/lfs/objects/batch", false),
        ("GET", ["locks"]) => (Action::Forward, "info/lfs/locks", false),
        ("POST", ["locks", "verify"]) => (Action::Forward, "info/lfs/locks/verify", false),
        ("POST", ["locks"]) => (Action::Forward, "info/lfs/locks", true),
        ("POST", ["locks", id, "unlock"]) if !id.contains('%') => (Action::Forward, "info/lfs/locks/*/unlock", true),
        _ => return Err(no_route(asked)),
    };
    if asked.reads() {
        if asked.request.body {
            return Err(malformed("a GET of LFS has no body"));
        }
    } else {
        let json = asked.request.content_type.map(|kind| kind.split(';').next().unwrap_or_default().trim());
        if json != Some("application/vnd.git-lfs+json") {
            return Err(malformed("the Content-Type is not application/vnd.git-lfs+json"));
        }
        if !asked.target.query.0.is_empty() {
            return Err(malformed("the URL has a query that LFS does not send"));
        }
    }
    let (repository, wiki) = git_repository(asked, owner, name)?;
    if write {
        writes(asked, wiki)?;
    }
    let answer = if family == "info/lfs/objects/batch" { Answer::LfsBatch } else { Answer::Plain };
    Ok(Route {
        repository: Some(repository),
        named: Vec::new(),
        wiki,
        action,
        family,
        credential: CredentialForm::Basic,
        answer,
    })
}

/// Archives, files and release downloads: reads, mostly answered by a redirect.
fn file(asked: &Asked<'_>, owner: &str, name: &str, tail: &[&str]) -> Result<Route, OutOfScope> {
    let (family, credential) = match tail {
        ["archive", _, ..] => ("archive/**", CredentialForm::Basic),
        ["tarball", _, ..] => ("tarball/**", CredentialForm::Basic),
        ["zipball", _, ..] => ("zipball/**", CredentialForm::Basic),
        ["raw", _, _, ..] => ("raw/**", CredentialForm::Basic),
        // A private repository's download wants the session of a browser, so the credential is of no use.
        ["releases", "download", _, _] => ("releases/download/*/*", CredentialForm::None),
        ["releases", "latest", ..] => ("releases/latest/**", CredentialForm::None),
        _ => return Err(no_route(asked)),
    };
    read(asked, owner, name, family, credential)
}

fn read(
    asked: &Asked<'_>,
    owner: &str,
    name: &str,
    family: &'static str,
    credential: CredentialForm,
) -> Result<Route, OutOfScope> {
    if !asked.reads() || asked.request.body || asked.target.slash {
        return Err(no_route(asked));
    }
    let repository = Some(member(repo_name(owner, name)?, asked.known, asked.scope.all)?);
    Ok(Route {
        repository,
        named: Vec::new(),
        wiki: false,
        action: Action::Forward,
        family,
        credential,
        answer: Answer::Plain,
    })
}

/// A URL that is good where an answer has named it.
pub(super) fn capability(family: &'static str) -> Route {
    let credential = CredentialForm::None;
    Route {
        repository: None,
        named: Vec::new(),
        wiki: false,
        action: Action::Capability,
        family,
        credential,
        answer: Answer::Plain,
    }
}

/// `/{owner}/{repo}/{ref}/{path}`, after this many segments.
pub(super) fn raw(asked: &Asked<'_>, skip: usize) -> Result<Route, OutOfScope> {
    if asked.target.query.has("token") {
        return Ok(capability("raw with a token"));
    }
    match &asked.target.segments()[skip..] {
        [owner, name, _, _, ..] => read(asked, owner, name, "/*/*/*/**", CredentialForm::Bearer),
        _ => Err(no_route(asked)),
    }
}

pub(super) fn codeload(asked: &Asked<'_>) -> Result<Route, OutOfScope> {
    if asked.target.query.has("token") {
        return Ok(capability("codeload with a token"));
    }
    match asked.target.segments() {
        [owner, name, "tar.gz" | "zip" | "legacy.tar.gz" | "legacy.zip", _, ..] => {
            read(asked, owner, name, "/*/*/{tar.gz,zip,legacy.tar.gz,legacy.zip}/**", CredentialForm::Basic)
        }
        _ => Err(no_route(asked)),
    }
}

pub(super) fn media(asked: &Asked<'_>) -> Result<Route, OutOfScope> {
    if asked.target.query.has("token") {
        return Ok(capability("media with a token"));
    }
    match asked.target.segments() {
        ["media", owner, name, _, _, ..] => read(asked, owner, name, "/media/*/*/*/**", CredentialForm::Bearer),
        _ => Err(no_route(asked)),
    }
}

pub(super) fn maven(asked: &Asked<'_>) -> Result<Route, OutOfScope> {
    if !asked.scope.options.has(GitHubOption::Packages) {
        return Err(OutOfScope::new(Code::OptionOff, "this sandbox may not use package registries"));
    }
    let [owner, name, _, ..] = asked.target.segments() else { return Err(no_route(asked)) };
    asked.target.plain_from(2)?;
    let action = Action::Forward;
    if !asked.reads() {
        if asked.request.method != "PUT" {
            return Err(no_route(asked));
        }
        if !asked.scope.write {
            return Err(asked.read_only());
        }
    }
    let repository = Some(member(repo_name(owner, name)?, asked.known, asked.scope.all)?);
    Ok(Route {
        repository,
        named: Vec::new(),
        wiki: false,
        action,
        family: "/*/*/**",
        credential: CredentialForm::Basic,
        answer: Answer::Plain,
    })
}
