//! What HTTP itself offers to ask for something else than what was judged.

use serde_json::json;

use super::{Names, Row, document, row, scoped, table};
use crate::internet::github::github;

const FORM: &str = "application/x-www-form-urlencoded";
const OTHER: &str = "this sandbox may not use the repository other/secret";
const COMMENT: &str = "POST api.github.com/repos/acme/formed/issues/1/comments";

pub fn headers_and_forms_that_change_a_request() {
    github().repository("acme/formed");
    let (token, own) = (github().wide_token(), github().wide_token());
    let odd = |line: &'static str| row(line).refused("malformed", "");
    let comment = |value: &'static str| row(COMMENT).sends(value);
    let json = r#"{"body":"text"}"#;
    let rows: Vec<Row> = vec![
        // Whatever credential comes along, it is replaced, and opens nothing.
        row("GET api.github.com/repos/acme/formed").with("Authorization", "Bearer <own>"),
        row("GET api.github.com/repos/acme/formed").with("Authorization", "token <own>"),
        row("GET github.com/acme/formed/info/refs?service=git-upload-pack").with("Authorization", "Basic eDp5"),
        row("GET api.github.com/repos/other/secret")
            .with("Authorization", "Bearer <own>")
            .refused("repo_not_allowed", OTHER),
        row("GET api.github.com/user/keys").with("Authorization", "Bearer <own>").refused("not_allowed", ""),
        // The method that is judged is the method that arrives.
        comment(json).with("X-HTTP-Method-Override", "DELETE").passed(201),
        comment(json).with("X-Method-Override", "PUT").with("X-HTTP-Method", "PATCH").passed(201),
        comment(json).with("X_HTTP_Method_Override", "DELETE").passed(201),
        comment(json).with("Cookie", "user_session=x").with("X-Forwarded-Host", "ghes.test").passed(201),
        odd("POST api.github.com/repos/acme/formed/issues/1/comments?_method=DELETE").sends(json),
        odd("POST api.github.com/repos/acme/formed/issues/1/comments?%5Fmethod=DELETE").sends(json),
        odd("POST api.github.com/repos/acme/formed/issues/1/comments?a=b;_method=DELETE").sends(json),
        odd(COMMENT).with("Content-Type", FORM).sends("_method=DELETE"),
        odd(COMMENT).with("Content-Type", FORM).sends("body=text&%5fmethod=DELETE"),
        odd(COMMENT).with("Content-Type", "multipart/form-data; boundary=a").sends("--a--"),
        odd("POST api.github.com/repos/acme/formed/pulls").with("Content-Type", "text/plain").sends(json),
        // The kind of a body that is judged is the kind that arrives.
        odd(COMMENT).with("Content-Type", "application/json").with("Content-Type", FORM).sends("_method=DELETE"),
        odd(COMMENT)
            .with("Content-Type", "application/json, application/x-www-form-urlencoded")
            .sends("_method=DELETE"),
        odd(COMMENT)
            .with("Connection", "content-type")
            .with("Content-Type", "application/json")
            .sends("_method=DELETE"),
        row("GET github.com/acme/formed")
            .with("Connection", "Upgrade")
            .with("Upgrade", "websocket")
            .with("Sec-WebSocket-Version", "13")
            .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .refused("not_allowed", "no WebSocket is opened"),
        row("GET api.github.com/repos/acme/formed").with("Host", "github.com").unread(421),
        row("GET github.com/acme/formed/info/refs?service=git-upload-pack").with("Host", "elsewhere.test").unread(421),
        row("GET github.com/acme/formed/info/refs?service=git-upload-pack")
            .with("Host", "github.com")
            .with("Host", "api.github.com")
            .unread(400),
        odd("GET github.com/acme/formed/info/refs?service=git-upload-pack")
            .with("Transfer-Encoding", "chunked")
            .sends("0\r\n\r\n"),
        row(COMMENT).with("Transfer-Encoding", "chunked").sends("f\r\n{\"body\":\"text\"}\r\n0\r\n\r\n").passed(201),
    ];
    table(scoped(&token, &["acme/formed"]), &token, &Names::default().and("<own>", own.clone()), &rows);
    assert!(github().requests_with(&own).is_empty());
    let arrived = github().requests_with("/acme/formed");
    let stripped = [
        "x-http-method-override",
        "x-method-override",
        "x-http-method",
        "x_http_method_override",
        "cookie",
        "x-forwarded-host",
    ];
    let named =
        |seen: &crate::internet::github::Seen| seen.headers.iter().any(|(name, _)| stripped.contains(&name.as_str()));
    assert!(!arrived.iter().any(named), "{arrived:#?}");
}

/// What is judged as JSON arrives as JSON, whatever the client calls it.
pub fn a_body_is_read_as_it_was_judged() {
    github().repository("acme/called");
    let token = github().wide_token();
    let comment = || row("POST api.github.com/repos/acme/called/issues/1/comments").sends(r#"{"body":"text"}"#);
    let rows: Vec<Row> = vec![
        comment().with("Content-Type", FORM).passed(201),
        comment().with("Content-Type", "text/plain").passed(201),
        comment().with("Content-Type", "application/json; charset=utf-8").passed(201),
        comment().passed(201),
    ];
    table(scoped(&token, &["acme/called"]), &token, &Names::default(), &rows);
    let arrived = github().requests_with("/acme/called/issues/1/comments");
    let kinds = arrived.iter().flat_map(|seen| &seen.headers).filter(|(name, _)| name == "content-type");
    assert!(kinds.clone().all(|(_, kind)| kind.starts_with("application/json")) && kinds.count() == 4, "{arrived:#?}");
}

/// What a repository holds may look like what GitHub says of one.
pub fn what_a_repository_holds_teaches_nothing() {
    github().repository("acme/taught");
    let token = github().wide_token();
    let names = Names::of("acme/taught");
    let lie = |at: &str| {
        let (url, node) = (format!("https://api.github.com/repos/acme/taught/{at}"), names.fill("<secret_issue>"));
        json!({"id": 777, "node_id": node, "url": url})
    };
    let fault = |target: &str, kind: &str, body: serde_json::Value| {
        let body = body.to_string();
        let headers = [["Content-Type", kind]];
        github().lever(json!({"do": "fault", "target": target, "status": 200, "headers": headers, "body": body}));
    };
    fault("/repos/acme/taught/contents/lie", "application/vnd.github.raw+json; charset=utf-8", lie("issues/1"));
    let mut deployment = lie("deployments/1");
    deployment["node_id"] = "DE_1".into();
    deployment["payload"] = lie("issues/1");
    fault("/repos/acme/taught/deployments", "application/json; charset=utf-8", json!([deployment]));
    let rows: Vec<Row> = vec![
        row("GET api.github.com/repos/acme/taught/contents/lie").with("Accept", "application/vnd.github.raw"),
        row("GET api.github.com/repos/acme/taught/deployments"),
        document(r#"{"query":"{node(id:\"<secret_issue>\"){id}}"}"#).refused("foreign_object", ""),
        row("POST api.github.com/repos/acme/taught/issues/1/sub_issues")
            .sends(r#"{"sub_issue_id":777}"#)
            .refused("foreign_object", ""),
    ];
    table(scoped(&token, &["acme/taught"]), &token, &names, &rows);
}

pub fn the_same_by_http2() {
    github().repository("acme/second");
    let token = github().wide_token();
    let odd = |line: &'static str| row(line).http2().refused("malformed", "");
    let other = |line: &'static str| row(line).http2().refused("repo_not_allowed", OTHER);
    let rows: Vec<Row> = vec![
        row("GET api.github.com/repos/acme/second").http2(),
        row("GET github.com/acme/second/info/refs?service=git-upload-pack").http2(),
        other("GET api.github.com/repos/other/secret"),
        other("GET github.com/other/secret/info/refs?service=git-upload-pack"),
        other("GET raw.githubusercontent.com/other/secret/main/README.md"),
        odd("GET api.github.com/repos/acme/second/%2e%2e/%2e%2e/other/secret"),
        odd("GET api.github.com//repos/other/secret"),
        odd("POST api.github.com/repos/acme/second/issues/1/comments?_method=DELETE").sends("{}"),
        odd("POST api.github.com/repos/acme/second/issues/1/comments")
            .with("Content-Type", "application/json")
            .with("Content-Type", FORM)
            .sends("_method=DELETE"),
        row("GET api.github.com/repos/acme/second").http2().with("Host", "ghes.test").unread(421),
        document(r#"{"query":"{repository(owner:\"other\",name:\"secret\"){id}}"}"#)
            .http2()
            .refused("repo_not_allowed", OTHER),
        document(r#"{"query":"{viewer{login}}"}"#).http2(),
    ];
    table(scoped(&token, &["acme/second"]), &token, &Names::default(), &rows);
}
