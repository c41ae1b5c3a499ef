use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderName};
use zeroize::Zeroizing;

use super::*;
use crate::credentials::fetch::{FetchError, Fetching};
use crate::types::Endpoint;

/// 2027-01-15T08:00:00Z.
pub const NOW: u64 = 1_800_000_000;

pub fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Gives answers in their order, and keeps what it was asked: method, URL, headers as lines, body.
#[derive(Default)]
pub struct Script {
    answers: Mutex<VecDeque<(u16, HeaderMap, String)>>,
    asked: Mutex<Vec<[String; 4]>>,
}

impl Script {
    pub fn new(answers: &[(u16, &str)]) -> Arc<Self> {
        let script = Arc::new(Self::default());
        answers.iter().for_each(|(status, body)| script.then(*status, &[], body));
        script
    }

    /// One more answer, with headers.
    pub fn then(&self, status: u16, headers: &[(&'static str, &str)], body: &str) {
        let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        self.answers.lock().unwrap().push_back((status, headers.collect(), body.to_owned()));
    }

    pub fn asked(&self) -> Vec<[String; 4]> {
        self.asked.lock().unwrap().clone()
    }
}

impl Fetch for Script {
    fn fetch(&self, call: Call) -> Fetching<'_> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut headers: Vec<_> =
            call.headers.iter().map(|(name, value)| format!("{name}: {}", text(value.as_bytes()))).collect();
        headers.sort();
        let asked = [call.method.to_string(), call.url.url(), headers.join("\n"), text(&call.body)];
        self.asked.lock().unwrap().push(asked);
        let answer = self.answers.lock().unwrap().pop_front();
        let unreachable =
            FetchError::Unreachable { authority: call.url.authority().clone(), reason: "nothing is scripted".into() };
        Box::pin(async move {
            // Lets others come between, as a real call does.
            tokio::task::yield_now().await;
            let (status, headers, body) = answer.ok_or(unreachable)?;
            let status = StatusCode::from_u16(status).unwrap();
            Ok(Answer { status, headers, body: Zeroizing::new(body.into_bytes()) })
        })
    }
}

pub fn me() -> u32 {
    nix::unistd::geteuid().as_raw()
}

pub fn context() -> SourceContext {
    let read_env = |name: &str| name.strip_prefix("IS_").map(Into::into);
    SourceContext { read_env, uid: me(), now: Arc::new(|| at(NOW)) }
}

/// A secret whose value is what follows `IS_`.
pub fn env(name: &str, value: &str) -> (String, Supply) {
    (name.to_owned(), Supply::Read(Arc::new(Source::Env(format!("IS_{value}")))))
}

pub fn issuer(supplies: &[(String, Supply)], script: &Arc<Script>) -> Option<Arc<dyn Issuer>> {
    let fetch: Arc<dyn Fetch> = Arc::clone(script) as _;
    issuers(supplies, ["K"], &context(), &fetch).remove("K")
}

/// The value and the expiry, or what is said instead, in which nothing may be that is called a canary.
pub async fn issue(issuer: &Arc<dyn Issuer>) -> Result<(String, Option<SystemTime>), String> {
    match issuer.issue().await {
        Ok(issued) => Ok((String::from_utf8(issued.secret.expose().to_vec()).unwrap(), issued.expires_at)),
        Err(error) => {
            let (text, debug) = (error.to_string(), format!("{error:?}"));
            assert!(!text.contains("canary") && !debug.contains("canary"), "{text} {debug}");
            Err(text)
        }
    }
}

fn http(bearer: Option<&str>) -> (String, Supply) {
    let url = Endpoint::parse("https://issuer.test/canary-path").unwrap();
    let ttl = Some(Duration::from_secs(60));
    ("K".to_owned(), Supply::Http(HttpSource { url, post: bearer.is_some(), bearer: bearer.map(str::to_owned), ttl }))
}

#[tokio::test]
async fn a_service_is_asked_for_each_value() {
    let script =
        Script::new(&[(200, r#"{"value": "canary-1"}"#), (200, r#"{"value":"canary-2","expires_at":1800000001}"#)]);
    let issuer = issuer(&[http(None)], &script).unwrap();
    assert_eq!(issue(&issuer).await, Ok(("canary-1".to_owned(), Some(at(NOW + 60)))));
    assert_eq!(issue(&issuer).await, Ok(("canary-2".to_owned(), Some(at(NOW + 1)))));
    let asked = ["GET", "https://issuer.test/canary-path", "accept: application/json", ""].map(str::to_owned);
    assert_eq!(script.asked(), [asked.clone(), asked]);
}

#[tokio::test]
async fn a_bearer_token_goes_along() {
    let script = Script::new(&[(200, r#"{"value": "canary"}"#)]);
    let issuer = issuer(&[http(Some("T")), env("T", "canary-token")], &script).unwrap();
    assert_eq!(issue(&issuer).await.unwrap().0, "canary");
    let headers = "accept: application/json\nauthorization: Bearer canary-token";
    assert_eq!(script.asked(), [["POST", "https://issuer.test/canary-path", headers, ""].map(str::to_owned)]);
}

#[tokio::test]
async fn failures_of_a_service_say_what_to_do_and_no_more() {
    for (status, body, want) in [
        (
            302,
            "canary",
            "issuer.test answered with status 302, and redirects are not followed: name the URL it leads to",
        ),
        (401, "canary", "issuer.test answered with status 401: it does not accept what it was asked with"),
        (500, "canary", "issuer.test answered with status 500"),
        (204, "", "issuer.test answered with status 204"),
        (
            200,
            "canary",
            "the answer of issuer.test is not {\"value\": …, \"expires_at\": …} (the time as in RFC 3339 or in \
                         seconds since 1970, or left out)",
        ),
        (
            200,
            r#"{"value":"canary","expires_at":1}"#,
            "the answer of issuer.test holds a value that expired at 1970-01-01T00:00:01Z",
        ),
        (
            200,
            r#"{"value":"canary\r\nX: 1"}"#,
            "the answer of issuer.test holds no usable value: the value holds a control \
                         character (a line break, NUL or DEL): a header cannot carry it",
        ),
    ] {
        let issuer = issuer(&[http(None)], &Script::new(&[(status, body)])).unwrap();
        assert_eq!(issue(&issuer).await, Err(want.to_owned()));
    }
    let issuer = issuer(&[http(None)], &Script::new(&[])).unwrap();
    assert_eq!(issue(&issuer).await.unwrap_err(), "issuer.test cannot be reached: nothing is scripted");
}

#[tokio::test]
async fn what_is_needed_and_fails_is_named() {
    let unset = ("T".to_owned(), Supply::Read(Arc::new(Source::Env("UNSET".into()))));
    let script = Script::new(&[]);
    let issuer = issuer(&[http(Some("T")), unset], &script).unwrap();
    let want = "it needs the secret T: the environment variable UNSET is not set";
    assert_eq!(issue(&issuer).await.unwrap_err(), want);
    assert!(script.asked().is_empty());
}

#[test]
fn what_needs_itself_or_nobody_declared_has_no_issuer() {
    assert!(issuer(&[http(Some("K"))], &Script::new(&[])).is_none());
    assert!(issuer(&[http(Some("GONE"))], &Script::new(&[])).is_none());
}
