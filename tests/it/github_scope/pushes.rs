//! Push rules, at every door to a ref.

use serde_json::json;

use super::{Names, Row, document, row, scoped_by, table};
use crate::internet::github::github;
use crate::sandbox::need;

const PUSH: &str = "application/x-git-receive-pack-request";
const RULES: &str = "push = { branches = [\"agent/**\"] }\noptions = [\"merge\"]";

pub fn every_door_to_a_ref_has_the_push_rules() {
    github().repository("acme/doors");
    let token = github().wide_token();
    let git = |words: &[&str]| github().git("acme/doors", words);
    let refs = || git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags"]);
    let before = refs();
    let no = |line: &'static str, says: &'static str| row(line).refused("push_rule", says);
    let no_graph = |body: &'static str, says: &'static str| document(body).refused("push_rule", says);
    let main = "refs/heads/main";
    let rows: Vec<Row> = vec![
        no("POST api.github.com/repos/acme/doors/git/refs", "refs/heads/new")
            .sends(r#"{"ref":"refs/heads/new","sha":"<main>"}"#),
        no("POST api.github.com/repos/acme/doors/git/refs", "refs/tags/v7")
            .sends(r#"{"ref":"refs/tags/v7","sha":"<main>"}"#),
        no("POST api.github.com/repos/acme/doors/git/refs", "").sends(r#"{"ref":"refs/pull/9/head","sha":"<main>"}"#),
        no("PATCH api.github.com/repos/acme/doors/git/refs/heads/main", main).sends(r#"{"sha":"<feature>"}"#),
        no("PATCH api.github.com/repos/acme/doors/git/refs/heads/main", main)
            .sends(r#"{"sha":"<feature>","force":true}"#),
        no("PATCH api.github.com/repositories/<own_id>/git/refs/heads/main", main).sends(r#"{"sha":"<feature>"}"#),
        no("DELETE api.github.com/repos/acme/doors/git/refs/heads/feature", "refs/heads/feature"),
        no("DELETE api.github.com/repos/acme/doors/git/refs/tags/v1", "refs/tags/v1"),
        no("PUT api.github.com/repos/acme/doors/contents/x", main).sends(r#"{"message":"m","content":"eA=="}"#),
        no("PUT api.github.com/repos/acme/doors/contents/x", main)
            .sends(r#"{"message":"m","content":"eA==","branch":"main"}"#),
        no("PUT api.github.com/repos/acme/doors/contents/x", main)
            .sends(r#"{"message":"m","content":"eA==","branch":"refs/heads/main"}"#),
        no("DELETE api.github.com/repos/acme/doors/contents/README.md", main)
            .sends(r#"{"message":"m","sha":"<main>"}"#),
        no("POST api.github.com/repos/acme/doors/merges", main).sends(r#"{"base":"main","head":"feature"}"#),
        no("POST api.github.com/repos/acme/doors/branches/feature/rename", "").sends(r#"{"new_name":"agent/y"}"#),
        no("PUT api.github.com/repos/acme/doors/pulls/2/merge", main).sends("{}"),
        no("PATCH api.github.com/repos/acme/doors/pulls/2", main).sends(r#"{"base":"main"}"#),
        no_graph(
            r#"{"query":"mutation{updatePullRequest(input:{pullRequestId:\"<own_pull>\",baseRefName:\"main\"}){clientMutationId}}"}"#,
            main,
        ),
        no("PUT api.github.com/repos/acme/doors/pulls/2/update-branch", "refs/heads/feature").sends("{}"),
        no("POST api.github.com/repos/acme/doors/releases", "refs/tags/v9").sends(r#"{"tag_name":"v9"}"#),
        no_graph(
            r#"{"query":"mutation{createRef(input:{repositoryId:\"<own_node>\",name:\"refs/heads/new\",oid:\"<main>\"}){clientMutationId}}"}"#,
            "refs/heads/new",
        ),
        no_graph(
            r#"{"query":"mutation($i:UpdateRefsInput!){updateRefs(input:$i){clientMutationId}}","variables":{"i":{"repositoryId":"<own_node>","refUpdates":[{"name":"refs/heads/agent/x","afterOid":"<feature>"},{"name":"refs/heads/main","afterOid":"<feature>"}]}}}"#,
            main,
        ),
        no_graph(
            r#"{"query":"mutation{createCommitOnBranch(input:{branch:{repositoryNameWithOwner:\"acme/doors\",branchName:\"main\"},message:{headline:\"h\"},expectedHeadOid:\"<main>\",fileChanges:{}}){clientMutationId}}"}"#,
            main,
        ),
        no_graph(
            r#"{"query":"mutation{mergePullRequest(input:{pullRequestId:\"<own_pull>\"}){clientMutationId}}"}"#,
            main,
        ),
        no_graph(
            r#"{"query":"mutation{mergeBranch(input:{repositoryId:\"<own_node>\",base:\"main\",head:\"feature\"}){clientMutationId}}"}"#,
            main,
        ),
        row("POST github.com/acme/doors.git/git-receive-pack").with("Content-Type", PUSH).sends("0000"),
        row("POST github.com/acme/doors.git/git-receive-pack")
            .with("Content-Type", PUSH)
            .sends("0068<main> <feature> refs/heads/main\u{0} report-status0000")
            .refused("malformed", ""),
        row("POST api.github.com/repos/acme/doors/git/refs")
            .sends(r#"{"ref":"refs/heads/agent/x","sha":"<main>"}"#)
            .passed(201),
        row("PATCH api.github.com/repos/acme/doors/git/refs/heads/agent/x").sends(r#"{"sha":"<feature>"}"#),
        row("PUT api.github.com/repos/acme/doors/contents/x")
            .sends(r#"{"message":"m","content":"eA==","branch":"agent/x"}"#)
            .passed(201),
    ];
    let names = Names::of("acme/doors")
        .and("<main>", git(&["rev-parse", "refs/heads/main"]))
        .and("<feature>", git(&["rev-parse", "refs/heads/feature"]));
    table(scoped_by(&token, "acme/doors", RULES), &token, &names, &rows);
    let after = refs();
    let kept: Vec<&str> = after.lines().filter(|line| !line.starts_with("refs/heads/agent/x ")).collect();
    assert_eq!(kept.join("\n"), before, "only agent/x is new");
    assert_eq!(after.lines().count(), before.lines().count() + 1);
    let there = github().lever(json!({"do": "look", "name": "acme/doors"}));
    assert_eq!(there["issues"][1]["state"], "OPEN");
}

/// Row 24: git takes an early answer for a broken connection.
pub fn a_large_push_is_read_to_its_end_before_it_is_refused() {
    github().repository("acme/bulky");
    let token = github().wide_token();
    let main = github().git("acme/bulky", &["rev-parse", "refs/heads/main"]);
    let script = format!(
        r#"
command = b"{main} {new} refs/heads/main\0 report-status side-band-64k"
front = b"%04x" % (len(command) + 4) + command + b"0000PACK"
stream = tls("github.com")
stream.sendall(b"POST /acme/bulky.git/git-receive-pack HTTP/1.1\r\nHost: github.com\r\nTransfer-Encoding: chunked\r\n"
               b"Content-Type: application/x-git-receive-pack-request\r\n\r\n" + b"%x\r\n" % len(front) + front + b"\r\n")
piece = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
for _ in range(300):
    stream.sendall(piece)
stream.sendall(b"0\r\n\r\n")
answer = Answer(stream, "POST")
check("status", answer.status, 200)
check("kind", answer.field("content-type"), "application/x-git-receive-pack-result")
check("report", answer.body, lambda body: b"ng refs/heads/main blocked by policy: branch not allowed: refs/heads/main" in body)
"#,
        new = "1".repeat(40)
    );
    scoped_by(&token, "acme/bulky", RULES).wire(&script).run().expect_code(0);
    assert!(!github().requests_with("/acme/bulky").iter().any(|seen| seen.target.contains("receive-pack")));
}

pub fn the_report_of_a_push_says_why() {
    need("git", "git");
    github().repository("acme/reported");
    let token = github().wide_token();
    let script = "export HOME=$PWD; git config --global user.name s; git config --global user.email s@s.test
        git clone -q https://github.com/acme/reported && cd reported && head -c 3000000 /dev/urandom > large && git add large
        git commit -q -m large; git push origin HEAD:main HEAD:agent/x; echo both $?
        git push --porcelain origin HEAD:refs/notes/x; echo notes $?; git push origin v1:refs/tags/v2; echo tag $?
        git push -q origin HEAD:agent/large; echo chunked $?";
    let output = scoped_by(&token, "acme/reported", RULES).script(script).run();
    for said in [
        "! [remote rejected] HEAD -> main (blocked by policy: branch not allowed: refs/heads/main)",
        "! [remote rejected] HEAD -> agent/x (not sent: another ref of this push was refused)",
        "! [remote rejected] v1 -> v2 (blocked by policy: ",
    ] {
        output.expect_stderr(said);
    }
    output.expect_stdout("both 1").expect_stdout("notes 1").expect_stdout("tag 1").expect_stdout("chunked 0");
    output.expect_stdout("refs/notes/x\t[remote rejected] (blocked by policy: ");
    let arrived = github().requests_with("/acme/reported");
    let chunked = |seen: &crate::internet::github::Seen| {
        seen.method == "POST"
            && seen.headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked")
    };
    assert!(arrived.iter().any(chunked), "{arrived:#?}");
}
