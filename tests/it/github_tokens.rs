//! Tokens that GitHub gives: to an App for named repositories, and to a user's client, narrowed.

use std::fs;

use crate::cases;
use crate::internet::github_app::{Odd, private_key, start};
use crate::internet::internet;
use crate::internet::issuer::Issuer;
use crate::issuers::{gives, private_file, run};
use crate::rig::fresh_address;
use crate::sandbox::{Run, refuses};
use crate::table::program;

cases![
    an_app_gets_a_token_for_what_it_names,
    a_run_outlives_three_lives_of_a_token,
    what_a_token_cannot_be_had_for_stops_the_start,
    a_token_for_other_repositories_is_not_used,
    a_clock_that_is_off_is_no_hindrance,
    a_token_that_was_revoked_is_renewed_once,
    a_users_token_is_narrowed,
    a_login_that_has_ended_is_told_with_status_200,
];

const ONE: &str = "repositories = [\"acme/widget\"], permissions = { contents = \"write\" }";

fn app(name: &str, what: &str) -> String {
    format!(
        "[secrets.KEY]\ngithub_app = {{ client_id = \"Iv23liTest\", private_key = \"PEM\", host = \"{name}\", {what} }}\n\
         [secrets.PEM]\nfile = \"private/token\"\n"
    )
}

/// A run whose secret is a token of an App, with its key in a file.
fn app_run(host: &str, name: &str, what: &str, key: &str) -> Run {
    let run = run(host, &app(name, what));
    private_file(&run, &private_key(key));
    run
}

fn lines(issuer: &Issuer) -> Vec<String> {
    issuer.asked().iter().map(|asked| format!("{} {}", asked.line, asked.body).trim_end().to_owned()).collect()
}

const FIND: &str = "GET /api/v3/repos/acme/widget/installation";
const TOKENS: &str = "POST /api/v3/app/installations/7/access_tokens";

/// With the key in either form; nothing of it or of the token is seen inside.
fn an_app_gets_a_token_for_what_it_names() {
    let name = "apps.github.test";
    let github = start(name, &fresh_address(), Odd::default());
    for (number, kind) in ["pkcs1", "pkcs8"].into_iter().enumerate() {
        let host = format!("{kind}.github.allowed.test");
        let token = format!("ghs_canary{:030}", 2 * number + 1);
        gives(app_run(&host, name, ONE, kind), &host, &token);
    }
    let body = r#"{"permissions":{"contents":"write","metadata":"read"},"repositories":["widget"]}"#;
    assert_eq!(lines(&github)[..2], [FIND.to_owned(), format!("{TOKENS} {body}")]);
    let host = "all.github.allowed.test";
    let all = "owner = \"acme\", repositories = \"all\", permissions = { issues = \"read\" }";
    // The first answer is 404: it is no user.
    gives(app_run(host, name, all, "pkcs1"), host, &format!("ghs_canary{:030}", 6));
}

fn a_run_outlives_three_lives_of_a_token() {
    let code = r#"
import time
host, wrong, done = "lives.github.allowed.test", [], 0
end = time.monotonic() + 6.5
sock = tls(socket.create_connection((host, 443)), host)
while time.monotonic() < end:
    got = ask(sock, "GET /status/204 HTTP/1.1", f"Host: {host}")
    done += 1
    if got[0] != 204:
        wrong.append(got)
        break
    time.sleep(0.01)
tell([done, wrong])
"#;
    let (host, name) = ("lives.github.allowed.test", "lives.github.test");
    let github = start(name, &fresh_address(), Odd { life: 2, ..Odd::default() });
    let (told, _) = program(app_run(host, name, ONE, "pkcs1"), code);
    assert!(told[0].as_u64() > Some(100) && told[1] == serde_json::json!([]), "{told}");
    let mut used: Vec<String> =
        internet().web.requests(host).iter().map(|request| request.header("x-key")[0].to_owned()).collect();
    used.dedup();
    // Renewed after 1.5 s at the latest, so at least for the fourth time in 6.5 s; none is used again once another one was.
    assert!((5..=6).contains(&used.len()), "{used:?}");
    let asked = lines(&github);
    assert_eq!(asked[0], FIND);
    assert!(asked[1].starts_with(TOKENS) && asked[1].contains(r#""repositories":["widget"]"#), "{asked:#?}");
    let by_number =
        format!("{TOKENS} {}", r#"{"permissions":{"contents":"write","metadata":"read"},"repository_ids":[100]}"#);
    assert!(asked[2..].iter().all(|line| *line == by_number), "{asked:#?}");
    assert!(asked.len() - 1 - used.len() <= 1, "{asked:#?} {used:?}");
}

fn what_a_token_cannot_be_had_for_stops_the_start() {
    let name = "closed.github.test";
    let github = start(name, &fresh_address(), Odd::default());
    start("suspended.github.test", &fresh_address(), Odd { is_suspended: true, ..Odd::default() });
    let rows = [
        (
            name,
            "repositories = [\"acme/widget\", \"acme/zebra\"], permissions = { contents = \"write\" }",
            "pkcs1",
            "gives no token for acme/widget, acme/zebra with contents:write metadata:read: the installation lacks one of them",
        ),
        (
            name,
            "repositories = [\"acme/widget\"], permissions = { workflows = \"write\" }",
            "pkcs1",
            "gives no token for acme/widget with metadata:read workflows:write: the installation lacks one of them",
        ),
        (
            name,
            "repositories = [\"other/secret\"], permissions = { contents = \"read\" }",
            "pkcs1",
            "knows no installation of the App for other/secret: install it there, with access to it",
        ),
        (name, ONE, "stranger", "does not accept the App's JWT: check client_id, that the key is one of this App's"),
        ("suspended.github.test", ONE, "pkcs1", "says that the App's installation is suspended"),
    ];
    for (name, what, key, said) in rows {
        refuses(app_run("closed.github.allowed.test", name, what, key), &[&format!("secret KEY: {name} {said}")]);
    }
    // No refusal had it asked for less, or for all.
    assert_eq!(lines(&github).iter().filter(|line| line.starts_with(TOKENS)).count(), 2);
    assert!(internet().web.requests("closed.github.allowed.test").is_empty());
}

fn a_token_for_other_repositories_is_not_used() {
    for (number, gives) in
        [vec![(100, "acme/widget"), (101, "acme/lib")], vec![(101, "acme/lib")], vec![]].into_iter().enumerate()
    {
        let name = format!("odd{number}.github.test");
        start(&name, &fresh_address(), Odd { gives: Some(gives), ..Odd::default() });
        let said =
            format!("secret KEY: {name} gave a token for other repositories than acme/widget, so it was not used");
        refuses(app_run("odd.github.allowed.test", &name, ONE, "pkcs1"), &[&said]);
    }
    assert!(internet().web.requests("odd.github.allowed.test").is_empty());
}

fn a_clock_that_is_off_is_no_hindrance() {
    for (number, ahead) in [7200, -7200].into_iter().enumerate() {
        let name = format!("clock{number}.github.test");
        let github = start(&name, &fresh_address(), Odd { ahead, ..Odd::default() });
        let host = format!("clock{number}.github.allowed.test");
        gives(app_run(&host, &name, ONE, "pkcs1"), &host, &format!("ghs_canary{:030}", 2));
        let asked = lines(&github);
        assert_eq!((asked.len(), asked[0].as_str(), asked[1].as_str()), (3, FIND, FIND), "{asked:#?}");
    }
}

/// The client gets the 401; what comes after it has another token, and further refusals ask for none.
fn a_token_that_was_revoked_is_renewed_once() {
    let code = r#"
host, told = "revoked.github.allowed.test", []
sock = tls(socket.create_connection((host, 443)), host)
for _ in range(400):
    told += [ask(sock, "GET /status/401 HTTP/1.1", f"Host: {host}")[0]]
tell(told)
"#;
    let (host, name) = ("revoked.github.allowed.test", "revoked.github.test");
    let github = start(name, &fresh_address(), Odd::default());
    let (told, _) = program(app_run(host, name, ONE, "pkcs1"), code);
    assert!(told.as_array().unwrap().iter().all(|status| *status == 401), "{told}");
    assert_eq!(lines(&github).len(), 3);
    let mut used: Vec<String> =
        internet().web.requests(host).iter().map(|request| request.header("x-key")[0].to_owned()).collect();
    used.dedup();
    assert_eq!(used, [1, 2].map(|number| format!("ghs_canary{number:030}")));
}

const NARROWED: &str = "[secrets.KEY]\ngithub_scoped_token = { client_id = \"Iv23liTest\", client_secret = \"S\", user_token = \"USER\", \
    host = \"NAME\", repositories = [\"acme/widget\"], permissions = { contents = \"read\" } }\n\
    [secrets.S]\nenv = \"S\"\n[secrets.USER]\noauth2 = { token_url = \"https://NAME/login/oauth/access_token\", \
    grant = \"refresh_token\", client_id = \"Iv23liTest\", client_secret = \"S\", auth = \"post\", refresh_token = \"R\" }\n\
    [secrets.R]\nfile = \"private/token\"\n";

fn a_users_token_is_narrowed() {
    let (host, name) = ("narrow.github.allowed.test", "narrow.github.test");
    let github = start(name, &fresh_address(), Odd::default());
    let run = run(host, &NARROWED.replace("NAME", name)).env("S", "canary-client");
    let file = private_file(&run, "ghr_canary\n");
    gives(run, host, "ghu_canarynarrow");
    assert_eq!(github.asked().len(), 2);
    assert_eq!(fs::read_to_string(file).unwrap(), "ghr_canarynext\n");
}

fn a_login_that_has_ended_is_told_with_status_200() {
    let (host, name) = ("ended.github.allowed.test", "ended.github.test");
    let github = start(name, &fresh_address(), Odd::default());
    let run = run(host, &NARROWED.replace("NAME", name)).env("S", "canary-client");
    let file = private_file(&run, "ghr_canaryold\n");
    let said =
        "refused with bad_refresh_token: the refresh token has ended, was revoked, or was used before; log in anew";
    refuses(run, &[&format!("secret KEY: it needs the secret USER: {name} {said}")]);
    assert_eq!((github.asked().len(), fs::read_to_string(file).unwrap().as_str()), (1, "ghr_canaryold\n"));
}
