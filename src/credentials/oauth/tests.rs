use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use super::*;
use crate::credentials::SecretFile;
use crate::credentials::issuers::Supply;
use crate::credentials::issuers::tests::{NOW, Script, at, env, issue, issuer, me};
use crate::types::Endpoint;

const GOOD: &str = r#"{"access_token":"canary-access","token_type":"Bearer","expires_in":3600}"#;
const ROTATED: &str =
    r#"{"access_token":"canary-access","token_type":"bearer","expires_in":60,"refresh_token":"canary-new"}"#;

fn oauth(change: impl FnOnce(&mut OAuth2Source)) -> (String, Supply) {
    let mut source = OAuth2Source {
        token_url: Endpoint::parse("https://login.test/canary/token").unwrap(),
        grant: OAuthGrant::RefreshToken("R".into()),
        client_id: "my client".into(),
        client_secret: None,
        scope: None,
        audience: None,
        auth: ClientAuth::Basic,
    };
    change(&mut source);
    ("K".to_owned(), Supply::OAuth2(source))
}

fn supplies(change: impl FnOnce(&mut OAuth2Source)) -> [(String, Supply); 3] {
    [oauth(change), env("R", "canary/refresh"), env("S", "canary+secret:1")]
}

async fn asked(supplies: &[(String, Supply)]) -> (String, String) {
    let script = Script::new(&[(200, GOOD)]);
    let issuer = issuer(supplies, &script).unwrap();
    assert_eq!(issue(&issuer).await, Ok(("canary-access".to_owned(), Some(at(NOW + 3600)))));
    let [[method, url, headers, body]] = &script.asked()[..] else { panic!("{:?}", script.asked()) };
    assert_eq!((method.as_str(), url.as_str()), ("POST", "https://login.test/canary/token"));
    let common = "accept: application/json\n";
    (headers.strip_prefix(common).unwrap().to_owned(), body.clone())
}

const FORM: &str = "content-type: application/x-www-form-urlencoded";

#[tokio::test]
async fn a_public_client_names_itself() {
    let (headers, body) = asked(&supplies(|_| {})).await;
    assert_eq!(headers, FORM);
    assert_eq!(body, "grant_type=refresh_token&refresh_token=canary%2Frefresh&client_id=my%20client");
}

#[tokio::test]
async fn a_client_with_a_secret_says_it_as_basic() {
    let (headers, body) = asked(&supplies(|source| {
        source.client_secret = Some("S".into());
        source.scope = Some("a b".into());
    }))
    .await;
    // my%20client:canary%2Bsecret%3A1
    assert_eq!(headers, format!("authorization: Basic bXklMjBjbGllbnQ6Y2FuYXJ5JTJCc2VjcmV0JTNBMQ==\n{FORM}"));
    assert_eq!(body, "grant_type=refresh_token&refresh_token=canary%2Frefresh&scope=a%20b");
}

#[tokio::test]
async fn a_client_may_say_its_secret_in_the_body_and_use_its_own_credentials() {
    let (headers, body) = asked(&supplies(|source| {
        source.client_secret = Some("S".into());
        source.auth = ClientAuth::Post;
        source.grant = OAuthGrant::ClientCredentials;
        source.audience = Some("https://api.test/".into());
    }))
    .await;
    assert_eq!(headers, FORM);
    let want = "grant_type=client_credentials&audience=https%3A%2F%2Fapi.test%2F&client_id=my%20client&client_secret=canary%2Bsecret%3A1";
    assert_eq!(body, want);
}

#[tokio::test]
async fn what_a_token_endpoint_says_is_read_as_the_rfc_has_it() {
    for (status, body, want) in [
        (
            400,
            r#"{"error":"invalid_grant","error_description":"canary"}"#,
            "login.test refused with invalid_grant: the refresh token has ended, was revoked, or was used before; log in anew",
        ),
        (
            401,
            r#"{"error":"invalid_client"}"#,
            "login.test refused with invalid_client: check client_id, the secret that client_secret names, and auth (basic or post)",
        ),
        (
            200,
            r#"{"error":"bad_refresh_token","error_description":"canary","error_uri":"canary"}"#,
            "login.test refused with bad_refresh_token: the refresh token has ended, was revoked, or was used before; log in anew",
        ),
        (
            200,
            r#"{"error":"incorrect_client_credentials"}"#,
            "login.test refused with incorrect_client_credentials: check client_id, and the secret that client_secret names",
        ),
        (200, r#"{"error":"unsupported"}"#, "login.test refused with unsupported"),
        (400, r#"{"error":"canary-2"}"#, "login.test refused with an error of its own"),
        (500, "canary", "login.test answered with status 500"),
        (
            302,
            "canary",
            "login.test answered with status 302, and redirects are not followed: name the URL it leads to",
        ),
        (200, "canary", "the answer of login.test is no answer of a token endpoint (RFC 6749 section 5.1)"),
        (
            200,
            r#"{"access_token":["canary"]}"#,
            "the answer of login.test is no answer of a token endpoint (RFC 6749 section 5.1)",
        ),
        (
            200,
            r#"{"access_token":"canary","expires_in":"soon"}"#,
            "the answer of login.test says that its token lives for what is no number of seconds from 0 on",
        ),
        (
            200,
            r#"{"access_token":"canary","token_type":"DPoP"}"#,
            "the answer of login.test holds a token of another type than Bearer, which cannot be put into a header",
        ),
        (
            200,
            r#"{"access_token":"canary","expires_in":0}"#,
            "the answer of login.test holds a value that expired at 2027-01-15T08:00:00Z",
        ),
        (
            200,
            r#"{"access_token":"canary\n1"}"#,
            "the answer of login.test holds no usable value: the value holds a control character (a line break, NUL or DEL): a \
             header cannot carry it",
        ),
    ] {
        let issuer = issuer(&supplies(|_| {}), &Script::new(&[(status, body)])).unwrap();
        assert_eq!(issue(&issuer).await, Err(want.to_owned()), "{body}");
    }
}

#[tokio::test]
async fn lives_are_told_in_several_ways() {
    for (body, want) in [
        (r#"{"access_token":"canary"}"#, None),
        (r#"{"access_token":"canary","token_type":"BEARER","expires_in":"60"}"#, Some(at(NOW + 60))),
        (r#"{"access_token":"canary","expires_in":60.0,"refresh_token":null,"other":1}"#, Some(at(NOW + 60))),
    ] {
        let issuer = issuer(&supplies(|_| {}), &Script::new(&[(200, body)])).unwrap();
        assert_eq!(issue(&issuer).await, Ok(("canary".to_owned(), want)), "{body}");
    }
}

fn tokens(script: &Script) -> Vec<String> {
    let token =
        |body: &String| body.split('&').find_map(|part| part.strip_prefix("refresh_token=")).unwrap().to_owned();
    script.asked().iter().map(|[_, _, _, body]| token(body)).collect()
}

#[tokio::test]
async fn a_new_refresh_token_takes_the_place_of_one_from_the_environment() {
    let script = Script::new(&[(200, ROTATED), (400, r#"{"error":"invalid_request"}"#), (200, GOOD), (200, GOOD)]);
    let issuer = issuer(&supplies(|_| {}), &script).unwrap();
    issue(&issuer).await.unwrap();
    issue(&issuer).await.unwrap_err();
    issue(&issuer).await.unwrap();
    issue(&issuer).await.unwrap();
    assert_eq!(tokens(&script), ["canary%2Frefresh", "canary-new", "canary-new", "canary-new"]);
}

/// Two secrets of one refresh token, asked for at once.
#[tokio::test]
async fn no_refresh_token_is_sent_twice_however_many_share_it() {
    let other = |n| ROTATED.replace("canary-new", &format!("canary-{n}"));
    let answers: Vec<String> = (1..=6).map(other).collect();
    let answers: Vec<_> = answers.iter().map(|answer| (200, answer.as_str())).collect();
    let script = Script::new(&answers);
    let [k, r, s] = supplies(|_| {});
    let (_, second) = oauth(|source| source.scope = Some("other".into()));
    let all = [k, r, s, ("L".to_owned(), second)];
    let fetch: Arc<dyn crate::credentials::Fetch> = Arc::clone(&script) as _;
    let made = crate::credentials::issuers(&all, ["K", "L"], &crate::credentials::issuers::tests::context(), &fetch);
    let tasks: Vec<_> = [&made["K"], &made["L"], &made["K"], &made["L"], &made["K"], &made["L"]]
        .into_iter()
        .map(|issuer| {
            tokio::spawn({
                let issuer = Arc::clone(issuer);
                async move { issue(&issuer).await }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let want = ["canary%2Frefresh", "canary-1", "canary-2", "canary-3", "canary-4", "canary-5"];
    assert_eq!(tokens(&script), want);
}

/// A file with the refresh token in a directory of its own; removed when dropped.
struct Kept(PathBuf, String);

impl Kept {
    fn new(test: &str) -> Self {
        Self::called(test, "token")
    }

    fn called(test: &str, name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("sandbox-proxy-oauth-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let kept = Self(dir.canonicalize().unwrap(), name.to_owned());
        kept.write("canary-old\n");
        kept
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.0.join(&self.1)
    }

    fn supply(&self) -> (String, Supply) {
        let file = SecretFile::new(self.path(), fs::File::open(self.path()).unwrap());
        ("R".to_owned(), Supply::Read(Arc::new(Source::File(file))))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[tokio::test]
async fn a_new_refresh_token_is_written_back_to_its_file() {
    let kept = Kept::new("file");
    let script = Script::new(&[(200, ROTATED), (200, &ROTATED.replace("-new", "-newer")), (200, GOOD)]);
    let issuer = issuer(&[oauth(|_| {}), kept.supply()], &script).unwrap();
    for (want, is_new) in [("canary-new\n", true), ("canary-newer\n", true), ("canary-newer\n", false)] {
        let before = fs::File::open(kept.path()).unwrap();
        issue(&issuer).await.unwrap();
        assert_eq!(fs::read_to_string(kept.path()).unwrap(), want);
        let now = fs::metadata(kept.path()).unwrap();
        assert_eq!((now.mode() & 0o7777, now.uid(), now.nlink()), (0o600, me(), 1));
        let is_gone = before.metadata().unwrap().nlink() == 0;
        assert_eq!(is_gone, is_new, "a new file: a crash leaves the old one or the new one whole");
        assert_eq!(fs::read_dir(&kept.0).unwrap().count(), 1, "nothing else is left");
    }
    assert_eq!(tokens(&script), ["canary-old", "canary-new", "canary-newer"]);
}

/// Somebody has logged in anew, or another run has had the turn: what is open here is old.
#[tokio::test]
async fn a_file_that_was_replaced_is_neither_used_nor_overwritten() {
    let kept = Kept::new("replaced");
    let script = Script::new(&[(200, ROTATED)]);
    let issuer = issuer(&[oauth(|_| {}), kept.supply()], &script).unwrap();
    fs::rename(kept.path(), kept.0.join("away")).unwrap();
    kept.write("canary-of-another\n");
    let text = issue(&issuer).await.unwrap_err();
    assert!(
        text.starts_with("it needs the secret R: ") && text.ends_with("was replaced since it was opened; start again"),
        "{text}"
    );
    assert!(script.asked().is_empty());
    assert_eq!(fs::read_to_string(kept.path()).unwrap(), "canary-of-another\n");
}

#[tokio::test]
async fn where_the_file_cannot_be_written_the_new_one_is_kept_in_memory() {
    // So long that there is no name for a new file beside it.
    let kept = Kept::called("unwritable", &"t".repeat(250));
    let script = Script::new(&[(200, ROTATED), (200, GOOD)]);
    let issuer = issuer(&[oauth(|_| {}), kept.supply()], &script).unwrap();
    issue(&issuer).await.unwrap();
    issue(&issuer).await.unwrap();
    assert_eq!(tokens(&script), ["canary-old", "canary-new"]);
    assert_eq!(fs::read_to_string(kept.path()).unwrap(), "canary-old\n");
}

/// The server has taken the old one for used already.
#[tokio::test]
async fn a_new_refresh_token_is_kept_whatever_else_is_wrong_with_the_answer() {
    for wrong in [r#""expires_in":-5"#, r#""expires_in":0"#, r#""token_type":"DPoP""#, r#""error":"odd""#] {
        let kept = Kept::new("partly");
        let answer = format!(r#"{{"access_token":"canary","refresh_token":"canary-new",{wrong}}}"#);
        let issuer = issuer(&[oauth(|_| {}), kept.supply()], &Script::new(&[(200, &answer)])).unwrap();
        assert!(issue(&issuer).await.is_err());
        assert_eq!(fs::read_to_string(kept.path()).unwrap(), "canary-new\n", "{wrong}");
    }
}
