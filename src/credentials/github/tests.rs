use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::super::issuers::tests::{NOW, Script, at, context, env, issue, issuer};
use super::super::{Fetch, Issuer, Keeper, Source, Supply, issuers};
use crate::policy::github::{AppInstallation, ClientId, GitHubSite, RepoName, Repositories};

mod scoped;

type Headers<'a> = &'a [(&'static str, &'a str)];

const INSTALLATION: &str = r#"{"id":7,"account":{"id":70,"login":"Acme","type":"Organization"},"suspended_at":null}"#;

/// The App's key, as PKCS#8.
fn key() -> &'static RsaKeyPair {
    static KEY: OnceLock<RsaKeyPair> = OnceLock::new();
    KEY.get_or_init(|| RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", BASE64_STANDARD.encode(der))
}

fn pkcs8() -> String {
    let der: Pkcs8V1Der<'static> = key().as_der().unwrap();
    pem("PRIVATE KEY", der.as_ref())
}

fn named(names: &[&str]) -> Repositories {
    Repositories::named(names.iter().map(|name| RepoName::parse(name).unwrap())).unwrap()
}

fn app(repositories: Repositories, client_id: &str) -> AppInstallation {
    AppInstallation {
        site: GitHubSite::new("github.com").unwrap(),
        client_id: ClientId::parse(client_id).unwrap(),
        private_key: "P".to_owned(),
        repositories,
        permissions: BTreeMap::from([("contents".to_owned(), "write".to_owned())]),
    }
}

fn supplies(repositories: Repositories) -> [(String, Supply); 2] {
    [("K".to_owned(), Supply::GitHubApp(app(repositories, "Iv23abc"))), env("P", &pkcs8())]
}

fn given(token: &str, repositories: &[(u64, &str)]) -> Value {
    let repositories: Vec<_> =
        repositories.iter().map(|(id, name)| json!({ "id": id, "full_name": name, "private": true })).collect();
    json!({
        "token": token, "expires_at": "2027-01-15T09:00:00Z", "permissions": { "contents": "write", "metadata": "read" },
        "repository_selection": "selected", "repositories": repositories,
    })
}

fn widget(token: &str) -> String {
    given(token, &[(100, "Acme/Widget")]).to_string()
}

/// The claims of the JWT that a call was signed with, if the signature is the App's.
fn claims(headers: &str) -> Value {
    let jwt = headers.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap();
    let (signed, signature) = jwt.rsplit_once('.').unwrap();
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key().public_key().as_ref());
    public.verify(signed.as_bytes(), &decode(signature)).unwrap();
    let (head, claims) = signed.split_once('.').unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&decode(head)).unwrap(), json!({ "alg": "RS256", "typ": "JWT" }));
    serde_json::from_slice(&decode(claims)).unwrap()
}

fn lines(script: &Script) -> Vec<String> {
    script.asked().iter().map(|[method, url, _, body]| format!("{method} {url} {body}").trim_end().to_owned()).collect()
}

const FIND: &str = "GET https://api.github.com/repos/acme/widget/installation";
const TOKENS: &str = "POST https://api.github.com/app/installations/7/access_tokens";

#[tokio::test]
async fn the_first_token_is_by_name_and_later_ones_by_number() {
    let script = Script::new(&[(200, INSTALLATION), (201, &widget("ghs_canary1")), (201, &widget("ghs_canary2"))]);
    // Renamed meanwhile: the number is the same.
    script.then(201, &[], &given("ghs_canary3", &[(100, "other/thing")]).to_string());
    let issuer = issuer(&supplies(named(&["Acme/Widget"])), &script).unwrap();
    for number in 1..=3 {
        assert_eq!(issue(&issuer).await, Ok((format!("ghs_canary{number}"), Some(at(NOW + 3600)))));
    }
    let by_name = r#"{"permissions":{"contents":"write","metadata":"read"},"repositories":["widget"]}"#;
    let by_number = r#"{"permissions":{"contents":"write","metadata":"read"},"repository_ids":[100]}"#;
    let later = format!("{TOKENS} {by_number}");
    assert_eq!(lines(&script), [FIND.to_owned(), format!("{TOKENS} {by_name}"), later.clone(), later]);
    for [_, _, headers, body] in script.asked() {
        let want = json!({ "iat": NOW - 60, "exp": NOW + 540, "iss": "Iv23abc" });
        assert_eq!(claims(&headers), want);
        for header in
            ["accept: application/vnd.github+json", "user-agent: sandbox-proxy", "x-github-api-version: 2022-11-28"]
        {
            assert!(headers.lines().any(|had| had == header), "{headers}");
        }
        assert_eq!(headers.contains("content-type: application/json"), !body.is_empty());
    }
}

#[tokio::test]
async fn a_key_in_pkcs1_and_an_app_by_its_number_do_as_well() {
    let der: Pkcs8V1Der<'static> = key().as_der().unwrap();
    // Behind the head of PKCS#8 for RSA keys of this length stands PKCS#1.
    let pkcs1 = pem("RSA PRIVATE KEY", &der.as_ref()[26..]);
    let script = Script::new(&[(200, INSTALLATION), (201, &widget("ghs_canary"))]);
    let app = app(named(&["acme/widget"]), "4711");
    let issuer = issuer(&[("K".to_owned(), Supply::GitHubApp(app)), env("P", &pkcs1)], &script).unwrap();
    assert!(issue(&issuer).await.is_ok());
    assert_eq!(claims(&script.asked()[0][2])["iss"], 4711);
}

#[tokio::test]
async fn what_is_no_rsa_key_is_refused_and_nothing_asked() {
    let cut = pkcs8().replace("\nMII", "\nMIX");
    let other = pem("EC PRIVATE KEY", b"canary");
    for (key, want) in [
        ("canary", "it is no PEM of a private key without a password (PKCS 1 or PKCS 8)"),
        (&other, "it is no RSA key of 2048 bits or more, which Apps have"),
        (&cut, "it is no RSA key of 2048 bits or more, which Apps have"),
    ] {
        let script = Script::new(&[]);
        let app = app(named(&["acme/widget"]), "Iv1");
        let issuer = issuer(&[("K".to_owned(), Supply::GitHubApp(app)), env("P", key)], &script).unwrap();
        let said = format!("the value of the secret P, which it needs, cannot be used: {want}");
        assert_eq!(issue(&issuer).await, Err(said));
        assert!(script.asked().is_empty());
    }
}

#[tokio::test]
async fn all_of_an_owner_are_asked_for_by_no_list() {
    let mut all = given("ghs_canary", &[]);
    all["repository_selection"] = json!("all");
    let script = Script::new(&[(404, "{}"), (200, INSTALLATION), (201, &all.to_string())]);
    let issuer = issuer(&supplies(Repositories::all("acme").unwrap()), &script).unwrap();
    assert!(issue(&issuer).await.is_ok());
    let [users, orgs] = ["users", "orgs"].map(|kind| format!("GET https://api.github.com/{kind}/acme/installation"));
    let body = r#"{"permissions":{"contents":"write","metadata":"read"}}"#;
    assert_eq!(lines(&script), [users, orgs, format!("{TOKENS} {body}")]);
}

#[tokio::test]
async fn what_is_not_found_or_not_granted_is_named() {
    let other = INSTALLATION.replace("Acme", "canary");
    let suspended = INSTALLATION.replace("null", "\"2026-01-01T00:00:00Z\"");
    let find: [(u16, &str, &str); 9] = [
        (404, "canary", "knows no installation of the App for acme/widget: install it there, with access to it"),
        (301, "canary", "has acme/widget under another name by now; write the new one"),
        (200, &other, "answered for another account than acme, so nothing of it was used"),
        (200, &suspended, "says that the App's installation is suspended; its owner can end that"),
        (200, "canary", "gave an answer that is not the documented one"),
        (
            401,
            "canary",
            "does not accept the App's JWT: check client_id, that the key is one of this App's, and this machine's clock",
        ),
        (403, "canary", "answered with status 403: it does not accept what it was asked with"),
        (429, "canary", "was asked too often, and is not asked again for 60 seconds"),
        (500, "canary", "answered with status 500"),
    ];
    for (status, body, want) in find {
        let script = Script::new(&[(status, body)]);
        let issuer = issuer(&supplies(named(&["acme/widget"])), &script).unwrap();
        assert_eq!(issue(&issuer).await, Err(format!("api.github.com {want}")));
        assert_eq!(script.asked().len(), 1);
    }
    let token: [(u16, &str, &str); 4] = [
        (404, "canary", "does not know the App's installation any more; it is looked for again"),
        (
            422,
            "canary",
            "gives no token for acme/widget with contents:write metadata:read: the installation lacks one of them",
        ),
        (
            403,
            r#"{"message":"This installation has been suspended"}"#,
            "says that the App's installation is suspended; its owner can end that",
        ),
        (403, "you hit a secondary rate limit", "was asked too often, and is not asked again for 60 seconds"),
    ];
    for (status, body, want) in token {
        let script = Script::new(&[(200, INSTALLATION), (status, body)]);
        let issuer = issuer(&supplies(named(&["acme/widget"])), &script).unwrap();
        assert_eq!(issue(&issuer).await, Err(format!("api.github.com {want}")));
        // In particular it is not asked for more, or for less.
        assert_eq!(script.asked().len(), 2);
    }
}

#[tokio::test]
async fn an_installation_that_is_gone_is_looked_for_again() {
    let script = Script::new(&[(200, INSTALLATION), (404, ""), (200, INSTALLATION), (201, &widget("ghs_canary"))]);
    let issuer = issuer(&supplies(named(&["acme/widget"])), &script).unwrap();
    assert!(issue(&issuer).await.is_err());
    assert!(issue(&issuer).await.is_ok());
    assert_eq!(script.asked()[2][1], "https://api.github.com/repos/acme/widget/installation");
    // Another account has the name by now.
    script.then(404, &[], "");
    script.then(200, &[], &INSTALLATION.replace("70", "71"));
    assert!(issue(&issuer).await.is_err());
    assert!(issue(&issuer).await.unwrap_err().contains("another account"));
}

#[tokio::test]
async fn a_token_for_anything_else_is_not_used() {
    let both = [(100, "acme/widget"), (101, "acme/lib")];
    let change = |of: &dyn Fn(&mut Value)| {
        let mut value = given("ghs_canary", &both);
        of(&mut value);
        value.to_string()
    };
    let repositories = "gave a token for other repositories than acme/lib, acme/widget, so it was not used";
    let permissions = "gave a token with more permissions than contents:write metadata:read, so it was not used";
    let form = "gave an answer that is not the documented one";
    let rows: [(String, &str); 13] = [
        (given("ghs_canary", &both[..1]).to_string(), repositories),
        (given("ghs_canary", &[both[0], both[0]]).to_string(), repositories),
        (given("ghs_canary", &[both[0], (101, "acme/other")]).to_string(), repositories),
        (given("ghs_canary", &[both[0], (101, "evil/lib")]).to_string(), repositories),
        (given("ghs_canary", &[both[0], both[1], (102, "acme/more")]).to_string(), repositories),
        (change(&|value| value["repository_selection"] = json!("all")), repositories),
        (change(&|value| value["repositories"] = json!([])), repositories),
        (change(&|value| value["permissions"]["contents"] = json!("admin")), permissions),
        (change(&|value| value["permissions"]["workflows"] = json!("write")), permissions),
        (change(&|value| value["permissions"]["issues"] = json!("read")), permissions),
        (change(&|value| value["permissions"]["contents"] = json!("canary")), permissions),
        (change(&|value| value["expires_at"] = json!(null)), form),
        (change(&|value| value["expires_at"] = json!("canary")), form),
    ];
    for (body, want) in rows {
        let script = Script::new(&[(200, INSTALLATION), (201, &body)]);
        let issuer = issuer(&supplies(named(&["acme/widget", "acme/lib"])), &script).unwrap();
        assert_eq!(issue(&issuer).await, Err(format!("api.github.com {want}")), "{body}");
    }
    // Less than was asked for harms nobody; and numbers that change do.
    let less = change(&|value| value["permissions"] = json!({ "contents": "read" }));
    let script = Script::new(&[(200, INSTALLATION), (201, &less)]);
    script.then(201, &[], &given("ghs_canary", &[(100, "acme/widget"), (999, "acme/lib")]).to_string());
    let issuer = issuer(&supplies(named(&["acme/widget", "acme/lib"])), &script).unwrap();
    assert!(issue(&issuer).await.is_ok());
    assert_eq!(issue(&issuer).await, Err(format!("api.github.com {repositories}")));
}

#[tokio::test]
async fn limits_say_how_long() {
    let rows: [(u16, Headers<'_>, u64); 6] = [
        (403, &[("retry-after", "90")], 90),
        (429, &[("retry-after", "Fri, 15 Jan 2027 08:02:00 GMT")], 120),
        (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000600")], 600),
        (403, &[("x-ratelimit-remaining", "0")], 60),
        (429, &[("retry-after", "999999")], 3600),
        (429, &[("retry-after", "0")], 1),
    ];
    for (status, headers, seconds) in rows {
        let script = Script::new(&[]);
        script.then(status, headers, "");
        let issuer = issuer(&supplies(named(&["acme/widget"])), &script).unwrap();
        let error = issuer.issue().await.unwrap_err();
        assert_eq!(error.wait(), Some(Duration::from_secs(seconds)), "{headers:?}");
    }
}

#[tokio::test]
async fn a_clock_that_is_off_is_corrected_once() {
    let date: Headers<'_> = &[("date", "Fri, 15 Jan 2027 08:30:00 GMT")];
    let script = Script::new(&[]);
    script.then(401, date, "'exp' is too far in the past");
    script.then(200, date, INSTALLATION);
    script.then(201, date, &widget("ghs_canary1"));
    script.then(401, date, "");
    let issuer = issuer(&supplies(named(&["acme/widget"])), &script).unwrap();
    // By GitHub's clock it lives for half an hour more, and that is what counts.
    assert_eq!(issue(&issuer).await.unwrap().1, Some(at(NOW + 1800)));
    let issued: Vec<_> = script.asked().iter().map(|[_, _, headers, _]| claims(headers)["iat"].clone()).collect();
    assert_eq!(issued, [NOW - 60, NOW + 1740, NOW + 1740]);
    // The correction is kept, and 401 with it is final.
    assert!(issue(&issuer).await.unwrap_err().contains("does not accept the App's JWT"));
    assert_eq!(script.asked().len(), 4);
}

#[tokio::test]
async fn a_clock_is_not_set_to_anything() {
    for headers in [
        &[("date", "Sun, 17 Jan 2027 08:30:00 GMT")][..],
        &[("date", "Fri, 15 Jan 2027 08:00:03 GMT")],
        &[("date", "canary")],
        &[],
    ] {
        let script = Script::new(&[]);
        script.then(401, headers, "");
        let issuer = issuer(&supplies(named(&["acme/widget"])), &script).unwrap();
        assert!(issue(&issuer).await.unwrap_err().contains("does not accept the App's JWT"));
        assert_eq!(script.asked().len(), 1, "{headers:?}");
    }
}

#[tokio::test]
async fn a_token_that_git_does_not_know_is_asked_for_in_the_older_form() {
    let stateless = widget("ghs_1_canary.canary.canary");
    let script = Script::new(&[(200, INSTALLATION), (201, &stateless), (404, ""), (201, &widget("ghs_old"))]);
    script.then(201, &[], &widget("ghs_old2"));
    let other = issuer(&supplies(named(&["acme/widget"])), &script).unwrap();
    assert_eq!(issue(&other).await.unwrap().0, "ghs_old");
    assert_eq!(issue(&other).await.unwrap().0, "ghs_old2");
    let asked = script.asked();
    assert_eq!(asked[2][1], "https://github.com/acme/widget.git/info/refs?service=git-upload-pack");
    let login = BASE64_STANDARD.encode("x-access-token:ghs_1_canary.canary.canary");
    assert!(asked[2][2].contains(&format!("authorization: Basic {login}")), "{}", asked[2][2]);
    let is_old = |number: usize| asked[number][2].contains("x-github-stateless-s2s-token: disabled");
    assert_eq!([1, 3, 4].map(is_old), [false, true, true]);
    // One that git knows is used, and so is one of which nothing is known.
    for probe in [Some(200), None] {
        let script = Script::new(&[(200, INSTALLATION), (201, &stateless)]);
        probe.iter().for_each(|status| script.then(*status, &[], ""));
        let issuer = issuer(&supplies(named(&["acme/widget"])), &script).unwrap();
        assert_eq!(issue(&issuer).await.unwrap().0, "ghs_1_canary.canary.canary");
    }
}

/// Three lives of a token, second by second, with the App's issuer behind a keeper: one token is issued for each.
#[tokio::test(start_paused = true)]
async fn each_life_of_a_token_costs_one_issue() {
    let start = Instant::now();
    let clock: super::super::source::Clock = Arc::new(move || at(NOW) + start.elapsed());
    let script = Script::new(&[(200, INSTALLATION)]);
    for life in 0..5 {
        // Each is asked for 300 to 330 seconds before the end of the one before, and lives for an hour from then.
        let end = at(NOW + 3600 + life * 3270);
        let mut token = given(&format!("ghs_canary{life}"), &[(100, "acme/widget")]);
        token["expires_at"] = json!(super::super::issue::When(end).to_string());
        script.then(201, &[], &token.to_string());
    }
    let mut context = context();
    context.now = Arc::clone(&clock);
    let fetch: Arc<dyn Fetch> = Arc::clone(&script) as _;
    let supplies = supplies(named(&["acme/widget"]));
    let issuer = issuers(&supplies, ["K"], &context, &fetch).remove("K").unwrap();
    let keeper = Arc::new(Keeper::new("K", Box::new(issuer), clock));
    keeper.start().await.unwrap();
    let renewing = Arc::clone(&keeper);
    tokio::spawn(async move { renewing.keep().await });
    for second in 0..3 * 3600 {
        advance(Duration::from_secs(1)).await;
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        assert!(keeper.value().await.is_ok(), "second {second}");
    }
    let tokens = lines(&script).iter().filter(|line| line.starts_with(TOKENS)).count();
    assert_eq!((tokens, script.asked().len()), (4, 5));
}

#[tokio::test]
async fn without_gh_there_is_a_clear_error() {
    let mut source = crate::policy::CommandSource::gh_auth_token("github.com");
    assert_eq!(source.argv, ["gh", "auth", "token", "--hostname", "github.com"]);
    source.argv[0] = "gh-that-nobody-has".to_owned();
    let supplies = [("K".to_owned(), Supply::Read(Arc::new(Source::Command(source))))];
    let said = "cannot run gh-that-nobody-has: there is no such program, or not the one that its first line names; install it, or name another";
    let issuer: Arc<dyn Issuer> = issuer(&supplies, &Script::new(&[])).unwrap();
    assert_eq!(issue(&issuer).await, Err(said.to_owned()));
}
