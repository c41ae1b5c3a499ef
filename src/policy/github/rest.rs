//! REST: the row of a request, and what it asks for (github-scope.md, section 3).

mod account;
mod repository;
pub(super) mod row;

use row::{Check, GET, Local, Methods, Row, Table, Verdict};

use super::body::BodyCheck;
use super::denial::{Code, OutOfScope};
use super::hosts::CredentialForm;
use super::local::LocalAnswer;
use super::route::{Action, Answer, Asked, Route, Shown, Subject};
use super::scope::GitHubOption;
use super::search;
use super::target::{self, malformed, member, number, repo_name};

/// A request whose path begins after this many segments.
pub(super) fn route(asked: &Asked<'_>, skip: usize) -> Result<Route, OutOfScope> {
    let method = Methods::of(asked.request.method).ok_or_else(|| refused(asked, "this method is not used"))?;
    let segments = &asked.target.segments()[skip..];
    // gh writes the root of a server's API with a slash.
    if asked.target.slash && !segments.is_empty() {
        return Err(malformed("the path ends in a slash"));
    }
    // Parameters in the body of a GET might count, too.
    if method == GET && asked.request.body {
        return Err(malformed("a GET of the API has no body"));
    }
    match segments {
        ["repos", owner, name, below @ ..] => {
            asked.target.plain_from(skip + 3)?;
            let subject = member(repo_name(owner, name)?, asked.known, asked.scope.all)?;
            Matched { asked, method, subject: Some(subject), segments: below }.settle(repository::TABLE)
        }
        ["repositories", id, below @ ..] => {
            asked.target.plain_from(skip)?;
            let subject = by_number(asked, id)?;
            Matched { asked, method, subject: Some(subject), segments: below }.settle(repository::TABLE)
        }
        _ => {
            asked.target.plain_from(skip)?;
            Matched { asked, method, subject: None, segments }.settle(account::TABLE)
        }
    }
}

/// An asset of a release, on the host for them.
pub(super) fn upload(asked: &Asked<'_>, skip: usize) -> Result<Route, OutOfScope> {
    asked.target.plain_from(skip + 3)?;
    match (asked.request.method, &asked.target.segments()[skip..]) {
        ("POST", ["repos", owner, name, "releases", id, "assets"]) if number(id).is_some() && !asked.target.slash => {
            let repository = Some(member(repo_name(owner, name)?, asked.known, asked.scope.all)?);
            if !asked.scope.write {
                return Err(asked.read_only());
            }
            match content(asked)? {
                Content::Json | Content::Typed => {}
                Content::Form => return Err(malformed("an asset has a Content-Type, which is not that of a form")),
            }
            let credential = CredentialForm::Bearer;
            let family = "releases/*/assets on the host for uploads";
            let (action, answer) = (Action::Forward, Answer::Learn);
            Ok(Route { repository, named: Vec::new(), wiki: false, action, family, credential, answer })
        }
        _ => Err(refused(asked, "only assets of releases are uploaded there")),
    }
}

fn by_number(asked: &Asked<'_>, id: &str) -> Result<Subject, OutOfScope> {
    let id = number(id).ok_or_else(|| malformed("the number of the repository is none"))?;
    match asked.known.repository_of_id(id) {
        Some(repository) => Ok(Subject::Pinned(repository)),
        None if asked.scope.all => Ok(Subject::Id(id)),
        None => Err(OutOfScope::new(
            Code::RepoNotAllowed,
            format!("this sandbox may not use the repository with the number {id}"),
        )),
    }
}

fn refused(asked: &Asked<'_>, why: &str) -> OutOfScope {
    OutOfScope::new(Code::NotAllowed, format!("{} is not allowed: {why}", what(asked)))
}

fn what(asked: &Asked<'_>) -> String {
    let path = asked.request.target.split('?').next().unwrap_or_default();
    format!("{} {}", Shown(asked.request.method), Shown(path))
}

enum Content {
    Json,
    /// What GitHub may read as a form, also when nothing is said.
    Form,
    /// Another kind.
    Typed,
}

fn content(asked: &Asked<'_>) -> Result<Content, OutOfScope> {
    let Some(kind) = asked.request.content_type else { return Ok(Content::Form) };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind.starts_with("multipart/") || kind.contains(',') {
        return Err(malformed("the API takes JSON, not a form of several parts"));
    }
    Ok(match kind.as_str() {
        "application/json" => Content::Json,
        "" | "application/x-www-form-urlencoded" => Content::Form,
        _ if kind.starts_with("application/") && kind.ends_with("+json") => Content::Json,
        _ => Content::Typed,
    })
}

/// A request on its way through a table. `segments` are those that the table is about.
struct Matched<'a> {
    asked: &'a Asked<'a>,
    method: Methods,
    subject: Option<Subject>,
    segments: &'a [&'a str],
}

impl Matched<'_> {
    fn settle(self, table: Table) -> Result<Route, OutOfScope> {
        match row::find(table, self.method, self.segments) {
            Some(row) => self.verdict(row),
            None => self.unlisted(),
        }
    }

    fn unlisted(self) -> Result<Route, OutOfScope> {
        let whole = !self.segments.iter().any(|segment| segment.contains('%'));
        if self.subject.is_some() && self.method == GET && whole && self.has(GitHubOption::UnknownRepoReads) {
            return Ok(self.made(Action::Forward, "a read that no row names", Answer::Plain));
        }
        Err(refused(self.asked, "it is not among what this sandbox may ask of GitHub"))
    }

    fn has(&self, option: GitHubOption) -> bool {
        self.asked.scope.options.has(option)
    }

    fn need(&self, option: GitHubOption) -> Result<(), OutOfScope> {
        if self.has(option) {
            return Ok(());
        }
        Err(OutOfScope::new(Code::OptionOff, format!("{} is switched off for this sandbox", what(self.asked))))
    }

    fn writes(&self) -> Result<(), OutOfScope> {
        if self.method == GET || self.asked.scope.write { Ok(()) } else { Err(self.asked.read_only()) }
    }

    fn verdict(self, row: &'static Row) -> Result<Route, OutOfScope> {
        match row.verdict {
            Verdict::Deny(why) => Err(refused(self.asked, why)),
            Verdict::Local(local) => self.local(local, row),
            Verdict::Allow => {
                self.writes()?;
                self.forward(row)
            }
            Verdict::Option(option) => {
                self.writes()?;
                self.need(option)?;
                self.forward(row)
            }
            Verdict::Check(check) => self.check(check, row),
            Verdict::Both(option, check) => {
                self.writes()?;
                self.need(option)?;
                self.check(check, row)
            }
        }
    }

    fn made(self, action: Action, family: &'static str, answer: Answer) -> Route {
        let (repository, credential) = (self.subject, CredentialForm::Bearer);
        Route { repository, named: Vec::new(), wiki: false, action, family, credential, answer }
    }

    /// No check is due; but what GitHub may read as a form has to be no form that changes the method.
    fn forward(self, row: &'static Row) -> Result<Route, OutOfScope> {
        let unread = !self.asked.request.body || matches!(content(self.asked)?, Content::Json);
        let all = self.asked.scope.all;
        let action = if unread { Action::Forward } else { Action::Body(BodyCheck::form(self.subject.clone(), all)) };
        Ok(self.made(action, row.template, row.answer))
    }

    fn check(self, check: Check, row: &'static Row) -> Result<Route, OutOfScope> {
        let query = &self.asked.target.query;
        let plain = |matched: Self| Ok(matched.made(Action::Forward, row.template, row.answer));
        match check {
            Check::Compare => {
                self.compare()?;
                plain(self)
            }
            Check::Search => {
                let text = query.only("q")?.ok_or_else(|| malformed("a search has a `q`"))?;
                let named = search::check(&text, self.asked.known, self.asked.scope.all)?;
                Ok(Route { named, ..plain(self)? })
            }
            Check::PublicSearch => Ok(Route { credential: CredentialForm::None, ..plain(self)? }),
            Check::LabelRepository => {
                let id = query
                    .only("repository_id")?
                    .ok_or_else(|| malformed("a search for labels has a `repository_id`"))?;
                let subject = Some(by_number(self.asked, &id)?);
                plain(Self { subject, ..self })
            }
            Check::StarredRepository => {
                let [_, _, owner, name] = self.segments else { return Err(malformed("the path names no repository")) };
                let subject = Some(member(repo_name(owner, name)?, self.asked.known, self.asked.scope.all)?);
                plain(Self { subject, ..self })
            }
            Check::Text => {
                let kind = self.asked.request.content_type.unwrap_or_default();
                match kind.split(';').next().unwrap_or_default().trim() {
                    "text/plain" | "text/x-markdown" => plain(self),
                    _ => Err(malformed("the Content-Type is not text/plain or text/x-markdown")),
                }
            }
            Check::Body(door) => {
                if door != row::Door::Context {
                    self.writes()?;
                }
                self.body(door, row)
            }
        }
    }

    fn body(self, door: row::Door, row: &'static Row) -> Result<Route, OutOfScope> {
        // Parameters of the query would count beside those of the body.
        if !self.asked.target.query.0.is_empty() {
            return Err(malformed("the parameters of this request belong into its body"));
        }
        let form = self.asked.request.body && !matches!(content(self.asked)?, Content::Json);
        let check = BodyCheck::new(door, self.segments, self.subject.clone(), self.asked.scope.all)?.read_as_form(form);
        Ok(self.made(Action::Body(check), row.template, row.answer))
    }

    /// Both sides of a comparison are of this repository, or of another one of the binding's that they name.
    fn compare(&self) -> Result<(), OutOfScope> {
        if self.asked.scope.all {
            return Ok(());
        }
        let from = self.segments.iter().position(|segment| *segment == "compare").map_or(0, |at| at + 1);
        let text = target::text(&self.segments[from..].join("/"))?;
        let (base, head) = text.split_once("...").ok_or_else(|| malformed("a comparison is written BASE...HEAD"))?;
        if base.is_empty() || head.is_empty() || head.contains("..") || base.contains("..") {
            return Err(malformed("a comparison is written BASE...HEAD"));
        }
        let own = self.subject.as_ref().and_then(Subject::name);
        for side in [base, head] {
            let parts: Vec<&str> = side.split(':').collect();
            match parts[..] {
                [_] => {}
                [owner, _] if own.is_some_and(|own| own.owner().eq_ignore_ascii_case(owner)) => {}
                [owner, name, _] => {
                    member(repo_name(owner, name)?, self.asked.known, false)?;
                }
                _ => {
                    let message = format!("this sandbox may not use the repository that {} names", Shown(side));
                    return Err(OutOfScope::new(Code::RepoNotAllowed, message));
                }
            }
        }
        Ok(())
    }

    fn local(self, local: Local, row: &'static Row) -> Result<Route, OutOfScope> {
        let scope = self.asked.scope;
        let first = |matched: &Self| {
            let page = matched.asked.target.query.only("page")?;
            Ok(page.is_none_or(|page| page == "1"))
        };
        let answer = match local {
            Local::User if scope.user_token => return self.forward(row),
            Local::User => LocalAnswer::User,
            Local::TokenRevoked => LocalAnswer::TokenRevoked,
            Local::InstallationRepositories if scope.all => return self.forward(row),
            Local::InstallationRepositories => LocalAnswer::InstallationRepositories { first: first(&self)? },
            Local::UserRepositories => {
                if scope.all {
                    return Err(refused(self.asked, "it reaches across repositories"));
                }
                self.need(GitHubOption::LocalLists)?;
                LocalAnswer::UserRepositories { first: first(&self)? }
            }
        };
        let route = self.made(Action::Local(answer), row.template, row.answer);
        Ok(Route { credential: CredentialForm::None, ..route })
    }
}
