//! The rows of github-scope.md, section 7, that need no push rule, and others like them: one row, one test.

use std::sync::Arc;

use super::*;

const WIDGET: &str = "acme/widget";

/// acme/widget, number 1001; acme/renamed belongs to another since the start. Issue 5001 is one of its issues.
struct Repositories {
    widget: Arc<Repository>,
    all: bool,
    none: bool,
}

impl Repositories {
    fn new(all: bool) -> Self {
        let name = RepoName::parse(WIDGET).unwrap();
        let (node_id, default_branch) = ("R_ok".to_owned(), "main".to_owned());
        let widget = Repository { name, id: 1001, node_id, owner_id: 1, default_branch, parent_id: Some(900) };
        Self { widget: Arc::new(widget), all, none: false }
    }
}

impl Known for Repositories {
    fn repository(&self, name: &RepoName) -> Membership {
        match name.to_string().as_str() {
            _ if self.none => Membership::Not,
            WIDGET => Membership::Is(self.widget.clone()),
            "acme/renamed" => Membership::Changed,
            _ if self.all => Membership::Any,
            _ => Membership::Not,
        }
    }

    fn repository_of_id(&self, id: u64) -> Option<Arc<Repository>> {
        (id == 1001 && !self.none).then(|| self.widget.clone())
    }

    fn node(&self, _: &str) -> Option<NodeOwner> {
        None
    }

    fn issue_id(&self, id: u64) -> bool {
        id == 5001
    }
}

/// A request with what is usual, and a binding with what is usual: read-write, no options.
struct Row {
    host: &'static str,
    scope: Scope,
    known: Repositories,
    request: Request<'static>,
    sent: Option<&'static str>,
}

/// `METHOD host/target` on github.com. A body of JSON follows where the method has one.
fn row(line: &'static str) -> Row {
    let (method, url) = line.split_once(' ').unwrap();
    let (host, _) = url.split_once('/').unwrap();
    let body = matches!(method, "POST" | "PUT" | "PATCH");
    let content_type = body.then_some(match url.rsplit('/').next().unwrap() {
        "git-upload-pack" => "application/x-git-upload-pack-request",
        "git-receive-pack" => "application/x-git-receive-pack-request",
        _ if url.contains("/info/lfs/") => "application/vnd.git-lfs+json",
        _ => "application/json",
    });
    let scope = Scope {
        host: GitHubHost::Public,
        all: false,
        write: true,
        options: Options::default(),
        projects: Vec::new(),
        user_token: false,
    };
    let request = Request { host, method, target: &url[host.len()..], content_type, body };
    Row { host: "github.com", scope, known: Repositories::new(false), request, sent: None }
}

impl Row {
    /// With this body.
    fn sends(mut self, body: &'static str) -> Self {
        self.sent = Some(body);
        self
    }

    fn of(mut self, host: &'static str) -> Self {
        self.host = host;
        self
    }

    fn with(mut self, option: &str) -> Self {
        self.scope.options = self.scope.options.iter().chain([option.parse().unwrap()]).collect();
        self
    }

    fn read_only(mut self) -> Self {
        self.scope.write = false;
        self
    }

    fn for_all(mut self) -> Self {
        self.scope.all = true;
        self.known = Repositories::new(true);
        self
    }

    fn user(mut self) -> Self {
        self.scope.user_token = true;
        self
    }

    fn typed(mut self, content_type: Option<&'static str>) -> Self {
        self.request.content_type = content_type;
        self
    }

    fn for_none(mut self) -> Self {
        self.known.none = true;
        self
    }

    fn judge(&self) -> Result<(Route, Vec<RefChange>), OutOfScope> {
        let scope = Scope { host: self.host.parse().unwrap(), ..self.scope.clone() };
        let route = judge(&scope, &self.known, &self.request)?;
        let changes = match &route.action {
            Action::Body(check) => check.check(self.sent.unwrap_or_default().as_bytes(), &self.known)?,
            Action::LfsBatch => {
                lfs_batch(&scope, route.wiki, self.sent.unwrap_or_default().as_bytes())?;
                Vec::new()
            }
            Action::Forward | Action::Git(_) | Action::Graphql | Action::Capability | Action::Local(_) => Vec::new(),
        };
        Ok((route, changes))
    }

    /// Allowed, with the credential in this form.
    #[track_caller]
    fn allowed(self, credential: CredentialForm) {
        let (route, _) = self.judge().unwrap_or_else(|refusal| panic!("{:?}: {refusal}", self.request));
        assert_eq!(route.credential, credential, "{route:?}");
    }

    #[track_caller]
    fn bearer(self) {
        self.allowed(CredentialForm::Bearer);
    }

    #[track_caller]
    fn basic(self) {
        self.allowed(CredentialForm::Basic);
    }

    #[track_caller]
    fn answered(self, answer: Answer) {
        let (route, _) = self.judge().unwrap_or_else(|refusal| panic!("{:?}: {refusal}", self.request));
        assert_eq!(route.answer, answer, "{route:?}");
    }

    #[track_caller]
    fn capability(self) {
        let (route, _) = self.judge().unwrap();
        assert!(matches!((route.action, route.credential), (Action::Capability, CredentialForm::None)));
    }

    #[track_caller]
    fn here(self, answer: LocalAnswer) {
        let (route, _) = self.judge().unwrap();
        assert!(matches!(route.action, Action::Local(found) if found == answer), "{:?}", route.action);
    }

    #[track_caller]
    fn changes(self, target: RefTarget, change: Change) {
        let (_, changes) = self.judge().unwrap_or_else(|refusal| panic!("{:?}: {refusal}", self.request));
        assert_eq!(changes, [RefChange { target, change }]);
    }

    #[track_caller]
    fn unchanged(self) {
        let (_, changes) = self.judge().unwrap_or_else(|refusal| panic!("{:?}: {refusal}", self.request));
        assert_eq!(changes, []);
    }

    #[track_caller]
    fn refused(self, code: Code) {
        match self.judge() {
            Ok((route, _)) => panic!("{:?} is allowed: {route:?}", self.request),
            Err(refusal) => {
                assert_eq!(refusal.code, code, "{refusal}");
                assert!(!refusal.message.contains('\n') && !refusal.message.ends_with('.'), "{refusal}");
            }
        }
    }
}

macro_rules! rows {
    ($($name:ident: $line:literal $(.$set:ident($($argument:expr),*))+;)*) => {
        $(#[test] fn $name() { row($line)$(.$set($($argument),*))+; })*
    };
}

use Code::*;
const MOVES: Change = Change::Update(Forced::No);

fn at(name: &str) -> RefTarget {
    RefTarget::Named(name.to_owned())
}

mod web;

mod api;

mod bodies;

mod searches;

mod random;
