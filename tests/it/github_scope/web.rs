//! git, LFS, archives and files.

use serde_json::json;

use super::{Names, Row, row, scoped, table};
use crate::internet::github::github;
use crate::sandbox::need;

const FETCH: &str = "application/x-git-upload-pack-request";
const PUSH: &str = "application/x-git-receive-pack-request";
const LFS: &str = "application/vnd.git-lfs+json";
const OTHER: &str = "this sandbox may not use the repository other/secret";

pub fn other_repositories_and_odd_spellings_on_the_web_hosts() {
    github().repository("acme/onweb");
    let token = github().wide_token();
    let other = |line: &'static str| row(line).refused("repo_not_allowed", OTHER);
    let odd = |line: &'static str| row(line).refused("malformed", "");
    let closed = |line: &'static str| row(line).refused("not_allowed", "is not allowed");
    let unseen =
        |line: &'static str| row(line).refused("unknown_capability", "no answer to this sandbox has named this URL");
    let rows: Vec<Row> = vec![
        row("GET github.com/ACME/OnWeb.git/info/refs?service=git-upload-pack"),
        row("GET github.com/acme/onwe%62/info/refs?service=git-upload-pack"),
        row("GET raw.githubusercontent.com/acme/onweb/main/README.md"),
        other("GET github.com/other/secret.git/info/refs?service=git-upload-pack"),
        other("GET github.com/other/secret.wiki.git/info/refs?service=git-upload-pack"),
        other("GET github.com/Other/SECRET/info/refs?service=git-receive-pack"),
        other("POST github.com/other/secret.git/git-upload-pack").with("Content-Type", FETCH).sends("0000"),
        other("POST github.com/other/secret.git/git-receive-pack").with("Content-Type", PUSH).sends("0000"),
        other("POST github.com/other/secret.git/info/lfs/objects/batch")
            .with("Content-Type", LFS)
            .sends(r#"{"operation":"download","objects":[]}"#),
        other("GET github.com/other/secret/info/lfs/locks"),
        other("GET github.com/other/secret/archive/main.tar.gz"),
        other("GET github.com/other/secret/archive/refs/heads/main.zip"),
        other("GET github.com/other/secret/raw/main/README.md"),
        other("GET github.com/other/secret/releases/download/v1/secret-asset.txt"),
        other("GET raw.githubusercontent.com/other/secret/main/README.md"),
        other("GET codeload.github.com/other/secret/tar.gz/main"),
        other("GET media.githubusercontent.com/media/other/secret/main/big.bin"),
        other("POST uploads.github.com/repos/other/secret/releases/5/assets?name=a")
            .with("Content-Type", "text/plain")
            .sends("a"),
        row("GET github.com/acme/private-lib.git/info/refs?service=git-upload-pack")
            .refused("repo_not_allowed", "acme/private-lib"),
        row("GET github.com/acme/onweb2.git/info/refs?service=git-upload-pack")
            .refused("repo_not_allowed", "acme/onweb2"),
        row("GET github.com/evil/onweb.git/info/refs?service=git-upload-pack")
            .refused("repo_not_allowed", "evil/onweb"),
        odd("GET github.com/acme/onweb.git/../../other/secret.git/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb/%2e%2e/secret/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb/%2E./%2e%2E/other/secret/archive/main.zip"),
        odd("GET github.com/acme/onweb/..%2f..%2fother/secret/archive/main.zip"),
        odd("GET github.com/acme/onweb/archive/..;/..;/..;/other/secret/archive/main.zip"),
        closed("GET github.com/acme%2Fonweb/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb%2F..%2F..%2Fother%2Fsecret/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme//onweb/info/refs?service=git-upload-pack"),
        odd("GET github.com//other/secret/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onwe%2562/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb%00/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb%0d%0aX-A:%20b/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb%5c..%5c..%5cother%5csecret/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb;/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onwe%EF%BD%82/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb.git.git/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb.GIT/info/refs?service=git-upload-pack"),
        odd("GET github.com/acme/onweb.git/info/refs?service=git-upload-pack&service=git-receive-pack"),
        odd("GET github.com/acme/onweb.git/info/refs?service=git-upload-pack&x=1"),
        odd("POST github.com/acme/onweb.git/git-receive-pack").with("Content-Type", FETCH).sends("0000"),
        odd("POST github.com/acme/onweb.git/git-receive-pack").with("Content-Type", PUSH).sends("garbage"),
        row(r"GET github.com/acme/onweb\..\..\other\secret/info/refs?service=git-upload-pack").refused("malformed", ""),
        row("GET github.com/acme/onwéb/info/refs?service=git-upload-pack").unread(400),
        closed("GET github.com/acme/onweb/.git/config"),
        closed("GET github.com/acme/onweb.git/config"),
        closed("GET github.com/acme/onweb/settings/keys"),
        closed("POST github.com/acme/onweb/archive/main.zip").sends("{}"),
        closed("POST github.com/login/oauth/access_token").sends("{}"),
        closed("POST github.com/login/device/code").sends("{}"),
        row("GET github.com/acme/onweb.git/info/refs").refused("not_allowed", "dumb protocol"),
        row("GET github.com/acme/onweb.git/objects/info/packs").refused("not_allowed", "dumb protocol"),
        row("POST github.com/acme/onweb.git/git-upload-archive")
            .with("Content-Type", FETCH)
            .sends("0000")
            .refused("not_allowed", "clone"),
        row("GET github.com/acme/onweb.wiki.git/info/refs?service=git-receive-pack").refused("option_off", "wikis"),
        unseen("GET release-assets.githubusercontent.com/x?sig=1"),
        unseen("PUT github-cloud.s3.amazonaws.com/x?X-Amz-Signature=1").sends("mine"),
        unseen("GET productionresultssa0.blob.core.windows.net/x?sig=1"),
        unseen("POST lfs.github.com/acme/onweb/verify").sends("{}"),
        unseen("GET raw.githubusercontent.com/other/secret/main/README.md?token=AAAA"),
        unseen("GET codeload.github.com/other/secret/legacy.zip/main?token=AAAA"),
    ];
    table(scoped(&token, &["acme/onweb"]), &token, &Names::default(), &rows);
    let secret = |seen: &crate::internet::github::Seen| seen.target.to_lowercase().contains("secret");
    assert!(!github().requests_with(&token).iter().any(secret));
}

pub fn storage_is_closed_to_urls_of_other_sandboxes() {
    need("gh", "gh");
    github().repository("acme/stored");
    let token = github().wide_token();
    let release = "gh api repos/acme/stored/releases -q '.[0].assets[0].url'";
    let script = format!(
        "url=$({release}); to=$(curl -sS -o /dev/null -w '%{{redirect_url}}' -H 'Accept: application/octet-stream' $url)
        curl -sS \"$to\" -o /dev/null -H \"Authorization: Bearer $GH_TOKEN\"; curl -sS \"$to\"; curl -sS \"$to&x=1\" -o /dev/null -w '%{{http_code}}\\n'; curl -sS -X PUT -d x \"$to\" -o /dev/null -w '%{{http_code}}\\n'
        printf 'at %s\\n' \"$to\""
    );
    let output = scoped(&token, &["acme/stored"]).script(&script).run();
    output.expect_code(0).expect_stdout("asset of widget\n403\n403\nat https://release-assets.githubusercontent.com/");
    let url = output.stdout.lines().find_map(|line| line.strip_prefix("at ")).unwrap();
    let target = url.split_once(".com").unwrap().1;
    let arrived: Vec<_> = github().requests_with(target);
    assert_eq!(arrived.len(), 2, "{arrived:#?}");
    assert!(arrived.iter().all(|seen| seen.credential.is_none() && seen.authorization.is_empty()), "{arrived:#?}");
    let other = scoped(&token, &["acme/stored"]).script(&format!("curl -sS '{url}'")).run();
    other.expect_stdout("no answer to this sandbox has named this URL");
    assert_eq!(github().requests_with(target).len(), 2);
}

/// The sandbox has only the stand-in, and must not be made to send it about.
pub fn a_401_of_storage_is_no_question_for_a_login() {
    github().repository("acme/asking");
    let token = github().wide_token();
    let headers = [["Location", "https://release-assets.githubusercontent.com/asking?sig=1"]];
    let fault = |row: serde_json::Value| github().lever(row);
    fault(json!({"do": "fault", "target": "/repos/acme/asking/tarball/v1", "status": 302, "headers": headers}));
    let asks = [["WWW-Authenticate", "Basic realm=\"x\""]];
    fault(json!({"do": "fault", "target": "/asking?sig=1", "status": 401, "headers": asks}));
    let script =
        "curl -sSL https://api.github.com/repos/acme/asking/tarball/v1 -D head; grep -ci www-authenticate head";
    let output = scoped(&token, &["acme/asking"]).script(script).run();
    output.expect_stdout("GitHub gives this to nobody without a credential");
    assert!(output.stdout.ends_with("0\n"), "{output:#?}");
}

pub fn a_redirect_opens_no_other_repository() {
    github().repository("acme/leading");
    let token = github().wide_token();
    for (at, to) in [
        "https://github.com/other/secret/archive/main.zip",
        "https://api.github.com/repos/other/secret",
        "https://raw.githubusercontent.com/other/secret/main/README.md",
        "https://codeload.github.com/other/secret/zip/main",
        "https://leading.elsewhere.test/",
    ]
    .iter()
    .enumerate()
    {
        let path = format!("/repos/acme/leading/tarball/v{at}");
        github().lever(json!({"do": "fault", "target": path, "status": 302, "headers": [["Location", to]]}));
    }
    let script = "for at in 0 1 2 3 4; do
        curl -sSL https://api.github.com/repos/acme/leading/tarball/v$at -o /dev/null -w '%{http_code} %{num_redirects}\\n' || true; done";
    let output = scoped(&token, &["acme/leading"]).script(script).run();
    assert!(output.stdout.starts_with("403 1\n403 1\n403 1\n403 1\n"), "{output:#?}");
    assert!(!output.stdout.contains("200"), "{output:#?}");
    assert!(!github().requests_with(&token).iter().any(|seen| seen.target.contains("secret")));
}

/// Row 37: the id that a name led to at the start is what counts.
pub fn a_name_that_is_given_to_another_is_closed() {
    github().repository("acme/handed");
    let token = github().wide_token();
    let script = "code() { curl -sS -o answer -w '%{http_code}\\n' $1; }
        code https://api.github.com/repos/acme/handed; echo first; read line
        code https://api.github.com/repos/acme/handed; echo second; read line
        for at in https://api.github.com/repos/acme/handed https://github.com/acme/handed/info/refs?service=git-upload-pack; do
        code $at; cat answer; done; echo done";
    let (reads, mut writes) = std::io::pipe().unwrap();
    let mut command = scoped(&token, &["acme/handed"]).script(script).to_command();
    command.stdin(reads).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut until =
        |text: &str| -> Vec<String> { lines.by_ref().map(Result::unwrap).take_while(|line| line != text).collect() };
    assert_eq!(until("first"), ["200"]);
    github().lever(json!({"do": "rename", "name": "acme/handed", "to": "acme/handedon"}));
    std::io::Write::write_all(&mut writes, b"go\n").unwrap();
    assert_eq!(until("second"), ["301"]);
    github().lever(json!({"do": "repository", "name": "acme/handed", "like": "simple"}));
    std::io::Write::write_all(&mut writes, b"go\n").unwrap();
    let last = until("done").join("\n");
    child.wait().unwrap();
    assert_eq!(last.matches("403").count(), 3, "{last}");
    assert!(last.contains("acme/handed"), "{last}");
}
