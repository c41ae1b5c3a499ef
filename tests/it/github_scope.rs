//! `--github` and what is out of its scope, asked for by hand: each row is one request through the real proxy, with a token that GitHub
//! itself would let do it all. A refused request never arrives, which the log of the fake GitHub shows by a mark in its head.

mod api;
mod graphql;
mod odd;
mod pushes;
mod web;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::cases;
use crate::internet::github::{Seen, github};
use crate::sandbox::Run;

use self::api::{odd_spellings_of_rest, other_repositories_by_rest, what_belongs_to_no_repository};
use self::graphql::{odd_forms_of_graphql, other_repositories_by_graphql, projects_are_those_that_are_listed};
use self::odd::{
    a_body_is_read_as_it_was_judged, headers_and_forms_that_change_a_request, the_same_by_http2,
    what_a_repository_holds_teaches_nothing,
};
use self::pushes::{
    a_large_push_is_read_to_its_end_before_it_is_refused, every_door_to_a_ref_has_the_push_rules,
    the_report_of_a_push_says_why,
};
use self::web::{
    a_401_of_storage_is_no_question_for_a_login, a_name_that_is_given_to_another_is_closed,
    a_redirect_opens_no_other_repository, other_repositories_and_odd_spellings_on_the_web_hosts,
    storage_is_closed_to_urls_of_other_sandboxes,
};

cases![
    other_repositories_and_odd_spellings_on_the_web_hosts,
    storage_is_closed_to_urls_of_other_sandboxes,
    a_401_of_storage_is_no_question_for_a_login,
    a_redirect_opens_no_other_repository,
    a_name_that_is_given_to_another_is_closed,
    other_repositories_by_rest,
    what_belongs_to_no_repository,
    odd_spellings_of_rest,
    other_repositories_by_graphql,
    odd_forms_of_graphql,
    projects_are_those_that_are_listed,
    headers_and_forms_that_change_a_request,
    a_body_is_read_as_it_was_judged,
    what_a_repository_holds_teaches_nothing,
    the_same_by_http2,
    every_door_to_a_ref_has_the_push_rules,
    a_large_push_is_read_to_its_end_before_it_is_refused,
    the_report_of_a_push_says_why,
];

/// The client: rows from a file, what came of each as a line.
const CLIENT: &str = r#"
import gzip, json

def ask(row):
    body = row["body"].encode() if row["body"] is not None else b""
    if row["gzip"]:
        body = gzip.compress(body)
    fields = [(name, value) for name, value in row["fields"]]
    if row["body"] is not None and not any(name.lower() == "transfer-encoding" for name, _ in fields):
        fields.append(("Content-Length", str(len(body))))
    if row["http2"]:
        fields = [(name.lower(), value) for name, value in fields]
        stream = H2(tls(row["host"], alpn=("h2",)), strict=False)
        number = stream.send(row["host"], row["target"], row["method"], fields, body if row["body"] is not None else None)
        answer = stream.answer(number)
        return answer["status"], {name: value for name, value in answer["fields"]}, answer["body"]
    stream = tls(row["host"])
    if not any(name.lower() == "host" for name, _ in fields):
        fields.insert(0, ("Host", row["host"]))
    head = [f"{row['method']} {row['target']} HTTP/1.1"] + [f"{name}: {value}" for name, value in fields]
    stream.sendall(("\r\n".join(head) + "\r\n\r\n").encode() + body)
    answer = Answer(stream, row["method"])
    return answer.status, dict(answer.fields), answer.body

for row in json.load(open("rows.json")):
    try:
        status, fields, body = ask(row)
    except Exception as error:
        status, fields, body = 0, {}, repr(error).encode()
    print(json.dumps([status, fields.get("x-deny-reason"), fields.get("x-sandbox-proxy-denial"), body[:4000].decode("latin-1")]), flush=True)
"#;

/// One request.
pub struct Row {
    line: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    body: Option<&'static str>,
    gzip: bool,
    http2: bool,
    came: Came,
}

/// What is to come of it.
enum Came {
    /// Refused, with this code and this in the message.
    Refused(&'static str, &'static str),
    /// Refused as a request that cannot be read, by this status.
    Unread(u16),
    /// Answered by GitHub, which saw the binding's own credential and nothing of the client's.
    Passed(u16),
    /// Answered without GitHub.
    Here(u16),
}

/// `METHOD host/target`.
pub fn row(line: &'static str) -> Row {
    Row { line, fields: vec![], body: None, gzip: false, http2: false, came: Came::Passed(200) }
}

/// A document of GraphQL.
pub fn document(body: &'static str) -> Row {
    row("POST api.github.com/graphql").sends(body)
}

impl Row {
    /// With this body, which is JSON unless a field says otherwise.
    pub fn sends(mut self, body: &'static str) -> Self {
        self.body = Some(body);
        self
    }

    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.fields.push((name, value));
        self
    }

    pub fn zipped(mut self) -> Self {
        self.gzip = true;
        self.with("Content-Encoding", "gzip")
    }

    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    pub fn refused(self, code: &'static str, says: &'static str) -> Self {
        Self { came: Came::Refused(code, says), ..self }
    }

    pub fn unread(self, status: u16) -> Self {
        Self { came: Came::Unread(status), ..self }
    }

    pub fn passed(self, status: u16) -> Self {
        Self { came: Came::Passed(status), ..self }
    }

    pub fn here(self, status: u16) -> Self {
        Self { came: Came::Here(status), ..self }
    }

    fn host(&self) -> &'static str {
        let url = self.line.split_once(' ').unwrap().1;
        &url[..url.find(['/', '\\']).unwrap()]
    }

    /// For the client; `names` are put in place of what stands in `<…>`.
    fn told(&self, mark: &str, names: &Names) -> Value {
        let (method, url) = self.line.split_once(' ').unwrap();
        let mut fields: Vec<(String, String)> =
            self.fields.iter().map(|(name, value)| ((*name).to_owned(), names.fill(value))).collect();
        let is_typed = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if self.body.is_some() && !is_typed {
            fields.push(("Content-Type".to_owned(), "application/json".to_owned()));
        }
        fields.push(("X-Row".to_owned(), mark.to_owned()));
        let (host, target) = (self.host(), names.fill(&url[self.host().len()..]));
        json!({
            "method": method, "host": host, "target": target, "fields": fields, "gzip": self.gzip, "http2": self.http2,
            "body": self.body.map(|body| names.fill(body)),
        })
    }

    /// What is wrong with what came.
    fn wrong(&self, told: &Value, seen: &[Seen], token: &str) -> Option<String> {
        let (status, reason, body) = (told[0].as_u64().unwrap(), told[1].as_str(), told[3].as_str().unwrap());
        let is_graphql = self.line.contains("/graphql");
        let fine = match self.came {
            Came::Refused(code, says) => {
                let by_code = if code == "malformed" { 400 } else { 403 };
                let expected = if is_graphql { 200 } else { by_code };
                let has_errors = !is_graphql || body.starts_with(r#"{"data":null,"errors":[{"#);
                status == expected && reason == Some(code) && body.contains(says) && has_errors && seen.is_empty()
            }
            Came::Unread(expected) => status == u64::from(expected) && !told[2].is_null() && seen.is_empty(),
            Came::Here(expected) => status == u64::from(expected) && seen.is_empty(),
            Came::Passed(expected) => {
                let ours = |seen: &Seen| seen.credential.as_deref() == Some(token) && seen.authorization.len() == 1;
                status == u64::from(expected) && reason.is_none() && seen.len() == 1 && seen.iter().all(ours)
            }
        };
        let arrived: Vec<String> = seen.iter().map(Seen::line).collect();
        (!fine)
            .then(|| format!("{} {:?}\n    {told}\n    arrived: {arrived:?}", self.line, self.body.unwrap_or_default()))
    }
}

/// What `<…>` in a row stands for.
#[derive(Default)]
pub struct Names(Vec<(&'static str, String)>);

impl Names {
    /// The ids of other/secret, and of a repository of the binding.
    pub fn of(own: &str) -> Self {
        let look = |name: &str| github().lever(json!({"do": "look", "name": name}));
        let (secret, own) = (look("other/secret"), look(own));
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self(vec![
            ("<secret_id>", text(&secret["id"])),
            ("<secret_node>", text(&secret["node_id"])),
            ("<secret_issue>", text(&secret["issues"][0]["node_id"])),
            ("<secret_pull>", text(&secret["issues"][1]["node_id"])),
            ("<own_id>", text(&own["id"])),
            ("<own_node>", text(&own["node_id"])),
            ("<own_issue>", text(&own["issues"][0]["node_id"])),
            ("<own_pull>", text(&own["issues"][1]["node_id"])),
        ])
    }

    pub fn and(mut self, name: &'static str, value: String) -> Self {
        self.0.push((name, value));
        self
    }

    fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// A run for these repositories with a token to which everything is open.
pub fn scoped(token: &str, repositories: &[&str]) -> Run {
    let run = Run::new().secret_env("GITHUB_TOKEN", token);
    repositories.iter().fold(run, |run, name| run.arg("--github").arg(name))
}

/// The same by a policy file with these further lines in its binding.
pub fn scoped_by(token: &str, repository: &str, lines: &str) -> Run {
    let policy = format!(
        "[[header_bindings]]\nkind = \"github\"\nrepos = [\"{repository}\"]\nsecret_name = \"GITHUB_TOKEN\"\n{lines}\n\
         [secrets.GITHUB_TOKEN]\nenv = \"GITHUB_TOKEN\"\n"
    );
    Run::new().file("policy.toml", &policy).arg("--policy").arg("policy.toml").env("GITHUB_TOKEN", token)
}

/// Asks for all rows in one sandbox, and panics with every row that came out otherwise, not with the first alone.
#[track_caller]
pub fn table(run: Run, token: &str, names: &Names, rows: &[Row]) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mark = |at: usize, number: usize| format!("row-{number}-{at}-");
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let told: Vec<Value> = rows.iter().enumerate().map(|(at, row)| row.told(&mark(at, number), names)).collect();
    let output = run.file("rows.json", &Value::from(told).to_string()).wire(CLIENT).run();
    output.expect_code(0);
    let lines: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), rows.len(), "{output:#?}");
    assert!(!output.stdout.contains(token) && !output.stderr.contains("panicked"), "{output:#?}");
    let seen: Vec<Seen> = github().requests_with(&format!("row-{number}-"));
    let marked = |at: usize| -> Vec<Seen> {
        let mark = mark(at, number);
        seen.iter()
            .filter(|seen| seen.headers.iter().any(|(name, value)| name == "x-row" && *value == mark))
            .cloned()
            .collect()
    };
    let wrong: Vec<String> = rows
        .iter()
        .zip(&lines)
        .enumerate()
        .filter_map(|(at, (row, line))| row.wrong(line, &marked(at), token))
        .collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}\n{}", wrong.len(), rows.len(), wrong.join("\n"), output.stderr);
}
