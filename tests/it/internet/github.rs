//! A GitHub: a process of its own (`github/server.py`, which says what each host and repository is), started by the first test
//! that asks for it. Git is the real `git http-backend`, GraphQL runs over the published schema.
//!
//! Its levers are the functions of `github/levers.py`; those that Rust has no method for are pulled with
//! [`GitHub::lever`]. State is shared by all tests of a run: a test that changes something makes a repository, and a
//! token, of its own.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

use serde::Deserialize;
use serde_json::{Value, json};

use super::internet;
use crate::rig;

/// Where all of it listens, on port 443.
pub const ADDRESS: &str = "11.22.44.66";

/// Its hosts: those of github.com, of the Enterprise Server `ghes.test`, and of the tenant `acme.ghe.com`.
pub const HOSTS: &[&str] = &[
    "github.com",
    "api.github.com",
    "uploads.github.com",
    "raw.githubusercontent.com",
    "codeload.github.com",
    "media.githubusercontent.com",
    "lfs.github.com",
    "github-cloud.s3.amazonaws.com",
    "github-cloud.githubusercontent.com",
    "objects.githubusercontent.com",
    "release-assets.githubusercontent.com",
    "results-receiver.actions.githubusercontent.com",
    "pipelines.actions.githubusercontent.com",
    "productionresultssa0.blob.core.windows.net",
    "gist.github.com",
    "ghes.test",
    "acme.ghe.com",
    "api.acme.ghe.com",
    "uploads.acme.ghe.com",
    "raw.acme.ghe.com",
    "codeload.acme.ghe.com",
    "lfs.acme.ghe.com",
];

const FILES: &[(&str, &str)] = &[
    ("answers.py", include_str!("github/answers.py")),
    ("faults.py", include_str!("github/faults.py")),
    ("gitrepo.py", include_str!("github/gitrepo.py")),
    ("gitweb.py", include_str!("github/gitweb.py")),
    ("graph.py", include_str!("github/graph.py")),
    ("graph_changes.py", include_str!("github/graph_changes.py")),
    ("graph_fields.py", include_str!("github/graph_fields.py")),
    ("hosts.py", include_str!("github/hosts.py")),
    ("levers.py", include_str!("github/levers.py")),
    ("lfs.py", include_str!("github/lfs.py")),
    ("rest.py", include_str!("github/rest.py")),
    ("rest_account.py", include_str!("github/rest_account.py")),
    ("rest_actions.py", include_str!("github/rest_actions.py")),
    ("rest_app.py", include_str!("github/rest_app.py")),
    ("rest_files.py", include_str!("github/rest_files.py")),
    ("rest_forms.py", include_str!("github/rest_forms.py")),
    ("rest_issues.py", include_str!("github/rest_issues.py")),
    ("rest_releases.py", include_str!("github/rest_releases.py")),
    ("search.py", include_str!("github/search.py")),
    ("seed.py", include_str!("github/seed.py")),
    ("server.py", include_str!("github/server.py")),
    ("storage.py", include_str!("github/storage.py")),
    ("world.py", include_str!("github/world.py")),
];

/// A request as it arrived there.
#[derive(Clone, Debug, Deserialize)]
pub struct Seen {
    pub method: String,
    /// `Host`, in lower case and without the port.
    pub host: String,
    pub target: String,
    /// Every value of `Authorization`.
    pub authorization: Vec<String>,
    /// The token in it, whatever the scheme.
    pub credential: Option<String>,
    /// In their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The first 8 KiB, as text.
    pub body: String,
    /// When it came, in seconds.
    pub time: f64,
}

impl Seen {
    /// Whether a text stands in it, wherever.
    pub fn has(&self, text: &str) -> bool {
        let in_headers = self.headers.iter().any(|(name, value)| name.contains(text) || value.contains(text));
        let in_credential = self.credential.as_ref().is_some_and(|token| token.contains(text));
        in_headers || in_credential || self.target.contains(text) || self.body.contains(text)
    }

    /// Method, host and target in one line.
    pub fn line(&self) -> String {
        format!("{} {}{}", self.method, self.host, self.target)
    }
}

/// The running one.
pub struct GitHub {
    levers: Mutex<BufReader<UnixStream>>,
    log: PathBuf,
}

/// The GitHub of this run; the first call starts it.
pub fn github() -> &'static GitHub {
    static GITHUB: OnceLock<GitHub> = OnceLock::new();
    GITHUB.get_or_init(start)
}

impl GitHub {
    /// A new token of an installation that may read and write these repositories, and nothing else that is private.
    pub fn token(&self, repositories: &[&str]) -> String {
        let order = json!({"do": "token", "repositories": repositories, "viewer": "acme-app[bot]"});
        self.lever(order).as_str().unwrap().to_owned()
    }

    /// A new classic token of the user `octo-user`, to whom every repository is open: only the proxy is a boundary then.
    pub fn wide_token(&self) -> String {
        self.lever(json!({"do": "token", "scopes": "repo, read:org"})).as_str().unwrap().to_owned()
    }

    /// Makes a repository with all that acme/widget has at the beginning; its number.
    pub fn repository(&self, name: &str) -> u64 {
        self.lever(json!({"do": "repository", "name": name}))["id"].as_u64().unwrap()
    }

    /// A token is worth nothing from now on.
    pub fn revoke(&self, token: &str) {
        self.lever(json!({"do": "revoke", "text": token}));
    }

    /// What git prints in the bare repository.
    pub fn git(&self, repository: &str, words: &[&str]) -> String {
        self.lever(json!({"do": "git", "name": repository, "words": words})).as_str().unwrap().to_owned()
    }

    /// Pulls a lever: `do` names it, the other members are its arguments (`github/levers.py`).
    #[track_caller]
    pub fn lever(&self, order: Value) -> Value {
        let mut stream = self.levers.lock().unwrap();
        stream.get_mut().write_all(format!("{order}\n").as_bytes()).expect("the GitHub of the tests runs");
        let mut reply = read(&mut stream);
        assert!(reply.get("error").is_none(), "{order}: {reply}");
        reply["ok"].take()
    }

    /// Every request so far, of all tests.
    pub fn requests(&self) -> Vec<Seen> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of the log is a request")).collect()
    }

    /// The requests that carry a text anywhere: a token, or the name of a test's own repository.
    pub fn requests_with(&self, text: &str) -> Vec<Seen> {
        self.requests().into_iter().filter(|request| request.has(text)).collect()
    }
}

fn start() -> GitHub {
    let directory = rig::base().join("github");
    std::fs::create_dir_all(&directory).unwrap();
    for (name, text) in FILES {
        std::fs::write(directory.join(name), text).unwrap();
    }
    let (certificate, key) = internet().pki.pem(HOSTS);
    std::fs::write(directory.join("certificate.pem"), certificate).unwrap();
    std::fs::write(directory.join("key.pem"), key).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let command = command(&directory, theirs);
    rig::in_internet(move || serve(command)).join().expect("the GitHub of the tests starts");
    HOSTS.iter().for_each(|host| internet().dns.set(host, &[ADDRESS]));
    let mut levers = BufReader::new(ours);
    assert_eq!(read(&mut levers)["ready"], true);
    GitHub { levers: Mutex::new(levers), log: directory.join("requests.jsonl") }
}

fn command(directory: &Path, levers: UnixStream) -> Command {
    let installed = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: see tests/run.sh"));
    let schema = format!("{}/node_modules/@octokit/graphql-schema/schema.graphql", installed("IT_NODE"));
    let mut command = Command::new("/usr/bin/python3");
    command
        .arg(directory.join("server.py"))
        .args([directory, &directory.join("certificate.pem"), &directory.join("key.pem"), Path::new(&schema)])
        .env_clear()
        .env("PATH", crate::sandbox::PATH)
        .env("LANG", "C.UTF-8")
        .env("PYTHONPATH", installed("IT_PYTHON"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(OwnedFd::from(levers));
    command
}

/// It ends when our end of its levers does, which is when the tests end.
#[expect(clippy::zombie_processes, reason = "it ends with the tests, when its levers do")]
fn serve(mut command: Command) {
    let listener = TcpListener::bind((ADDRESS, 443)).expect("the address is the internet's");
    command.stdin(Stdio::from(OwnedFd::from(listener)));
    command.spawn().expect("python3 is missing: apt-get install python3");
}

fn read(stream: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    stream.read_line(&mut line).expect("the GitHub of the tests answers");
    serde_json::from_str(&line).expect("the GitHub of the tests started, and answers in JSON")
}
