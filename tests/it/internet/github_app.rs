//! The part of a GitHub Enterprise Server that gives tokens. It checks what it is sent by itself: signatures with openssl, times by its own
//! clock, bodies member by member.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::Response;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

use super::internet;
use super::issuer::{Asked, Issuer};
use crate::rig;
use crate::sandbox::need;

/// What its App, owner and repositories are.
pub const CLIENT: &str = "Iv23liTest";
pub const REPOSITORIES: [(u64, &str); 2] = [(100, "acme/widget"), (101, "acme/lib")];
const INSTALLATION: u64 = 7;

/// In what it differs from one that does as it is told.
#[derive(Clone, Default)]
pub struct Odd {
    /// How many seconds its clock is ahead.
    pub ahead: i64,
    /// How many seconds a token lives; an hour where it is 0.
    pub life: u64,
    /// The repositories that it gives tokens for, whatever is asked.
    pub gives: Option<Vec<(u64, &'static str)>>,
    pub is_suspended: bool,
}

/// Starts one at a name of its own; it lives until the tests end.
pub fn start(name: &str, address: &str, odd: Odd) -> Issuer {
    need("openssl", "openssl");
    internet().dns.set(name, &[address]);
    keys();
    Issuer::serve(&format!("{address}:443"), move |number, asked| odd.answer(number, asked))
}

/// The App's private key, as GitHub gives it (PKCS#1), or in PKCS#8.
pub fn private_key(kind: &str) -> String {
    fs::read_to_string(keys().join(kind)).unwrap()
}

/// A directory with `pkcs1`, `pkcs8`, `public`, and `stranger`, which is the key of no App.
fn keys() -> &'static Path {
    static KEYS: OnceLock<PathBuf> = OnceLock::new();
    KEYS.get_or_init(|| {
        let directory = rig::base().join("github-app");
        fs::create_dir_all(&directory).unwrap();
        let at = |name: &str| directory.join(name).display().to_string();
        for arguments in [
            ["genrsa", "-traditional", "-out", &at("pkcs1"), "2048"].as_slice(),
            &["genrsa", "-out", &at("stranger"), "2048"],
            &["pkcs8", "-topk8", "-nocrypt", "-in", &at("pkcs1"), "-out", &at("pkcs8")],
            &["rsa", "-in", &at("pkcs1"), "-pubout", "-out", &at("public")],
        ] {
            let made = Command::new("openssl").args(arguments).stderr(Stdio::null()).status().unwrap();
            assert!(made.success(), "openssl {arguments:?}");
        }
        directory
    })
}

impl Odd {
    fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        i64::try_from(now).unwrap() + self.ahead
    }

    fn answer(&self, number: usize, asked: &Asked) -> Response<String> {
        let (status, body) = self.reply(number, asked).unwrap_or_else(|(status, message)| {
            (status, json!({ "message": message, "documentation_url": "https://docs.github.test" }))
        });
        let date = OffsetDateTime::from_unix_timestamp(self.now()).unwrap().format(&Rfc2822).unwrap();
        let date = date.replace("+0000", "GMT");
        Response::builder().status(status).header("date", date).body(body.to_string()).unwrap()
    }

    fn reply(&self, number: usize, asked: &Asked) -> Result<(u16, Value), (u16, &'static str)> {
        let (method, path) = asked.line.split_once(' ').unwrap();
        if (method, path) == ("POST", "/login/oauth/access_token") {
            return Ok((200, refreshed(asked)));
        }
        for (header, message) in
            [("user-agent: ", "a request has to name its agent"), ("accept: application/vnd.github+json", "Accept")]
        {
            asked.headers.iter().find(|had| had.starts_with(header)).ok_or((403, message))?;
        }
        let path = path.strip_prefix("/api/v3").ok_or((404, "Not Found"))?;
        if let Some(client) = path.strip_prefix("/applications/").and_then(|rest| rest.strip_suffix("/token/scoped")) {
            return narrowed(client, asked);
        }
        self.check_jwt(asked).ok_or((401, "A JSON web token could not be decoded"))?;
        let account = json!({ "id": 70, "login": "Acme", "type": "Organization" });
        let suspended = self.is_suspended.then_some("2026-01-01T00:00:00Z");
        let installation = json!({
            "id": INSTALLATION, "account": account, "repository_selection": "selected", "suspended_at": suspended,
        });
        let tokens = format!("/app/installations/{INSTALLATION}/access_tokens");
        match (method, path) {
            ("GET", "/orgs/acme/installation") => Ok((200, installation)),
            ("GET", path) => {
                let name = path.strip_prefix("/repos/").and_then(|path| path.strip_suffix("/installation"));
                let is_known = REPOSITORIES.iter().any(|(_, known)| Some(*known) == name);
                is_known.then_some((200, installation)).ok_or((404, "Not Found"))
            }
            ("POST", path) if path == tokens => self.token(number, asked),
            _ => Err((404, "Not Found")),
        }
    }

    /// A token for exactly what is asked for, unless it is odd.
    fn token(&self, number: usize, asked: &Asked) -> Result<(u16, Value), (u16, &'static str)> {
        let body: Value = serde_json::from_str(&asked.body).map_err(|_| (400, "Problems parsing JSON"))?;
        let members: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        let permissions = body["permissions"].as_object().ok_or((400, "this server wants permissions"))?;
        let legal = json!({ "contents": "write", "issues": "write", "metadata": "read" });
        let granted = permissions
            .iter()
            .all(|(name, level)| legal[name] == *level || (level == "read" && legal[name] != Value::Null));
        granted.then_some(()).ok_or((422, "The permissions requested are not granted to this installation."))?;
        let missing = (
            422,
            "There is at least one repository that does not exist or is not accessible to the parent installation.",
        );
        let find = |key: &str,
                    is: &dyn Fn(&(u64, &str), &Value) -> bool|
         -> Result<Vec<(u64, &'static str)>, (u16, &'static str)> {
            let list = body[key].as_array().ok_or((400, "a list"))?;
            let found = |wanted: &Value| REPOSITORIES.iter().find(|had| is(had, wanted)).copied().ok_or(missing);
            list.iter().map(found).collect()
        };
        let (selection, repositories) = match members[..] {
            ["permissions"] => ("all", REPOSITORIES.to_vec()),
            ["permissions", "repositories"] => {
                ("selected", find("repositories", &|(_, name), wanted| name.strip_prefix("acme/") == wanted.as_str())?)
            }
            ["permissions", "repository_ids"] => {
                ("selected", find("repository_ids", &|(id, _), wanted| wanted == *id)?)
            }
            _ => return Err((400, "other members")),
        };
        let repositories = self.gives.clone().unwrap_or(repositories);
        let repositories: Vec<Value> =
            repositories.iter().map(|(id, name)| json!({ "id": id, "full_name": name, "private": true })).collect();
        let life = if self.life == 0 { 3600 } else { self.life };
        // Of the fraction of a second nothing is lost, for tokens that live for seconds.
        let end = OffsetDateTime::now_utc() + Duration::from_secs(life) + time::Duration::seconds(self.ahead);
        let given = json!({
            "token": format!("ghs_canary{number:030}"), "expires_at": end.format(&Rfc3339).unwrap(),
            "permissions": permissions, "repository_selection": selection, "repositories": repositories,
        });
        Ok((201, given))
    }

    /// Whether a request is signed by the App, now, and for no longer than may be.
    fn check_jwt(&self, asked: &Asked) -> Option<()> {
        let jwt = asked.headers.iter().find_map(|header| header.strip_prefix("authorization: Bearer "))?;
        let (signed, signature) = jwt.rsplit_once('.')?;
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let (head, claims) = signed.split_once('.')?;
        let head: Value = serde_json::from_slice(&decode(head)?).ok()?;
        let claims: Value = serde_json::from_slice(&decode(claims)?).ok()?;
        let (issued, expires) = (claims["iat"].as_i64()?, claims["exp"].as_i64()?);
        let now = self.now();
        let in_time = issued <= now && now < expires && expires <= now + 600;
        let is_ours = head == json!({ "alg": "RS256", "typ": "JWT" }) && claims["iss"] == CLIENT;
        (in_time && is_ours && verifies(signed, &decode(signature)?)).then_some(())
    }
}

fn verifies(signed: &str, signature: &[u8]) -> bool {
    use std::io::Write;
    let file = tempfile(signature);
    let public = keys().join("public");
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-verify"])
        .arg(public)
        .arg("-signature")
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(signed.as_bytes()).unwrap();
    let verified = openssl.wait().unwrap().success();
    let _ = fs::remove_file(file);
    verified
}

fn tempfile(bytes: &[u8]) -> PathBuf {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let path = keys().join(format!("signature-{}", NEXT.fetch_add(1, Ordering::SeqCst)));
    fs::write(&path, bytes).unwrap();
    path
}

/// GitHub's errors have status 200 here.
fn refreshed(asked: &Asked) -> Value {
    let body =
        format!("grant_type=refresh_token&refresh_token=ghr_canary&client_id={CLIENT}&client_secret=canary-client");
    let is_form = asked.headers.iter().any(|header| header == "content-type: application/x-www-form-urlencoded");
    let wants_json = asked.headers.iter().any(|header| header == "accept: application/json");
    if asked.body != body || !is_form || !wants_json {
        return json!({ "error": "bad_refresh_token", "error_description": "canary" });
    }
    json!({
        "access_token": "ghu_canarywhole", "expires_in": 28800, "refresh_token": "ghr_canarynext",
        "refresh_token_expires_in": 15_897_600, "scope": "", "token_type": "bearer",
    })
}

fn narrowed(client: &str, asked: &Asked) -> Result<(u16, Value), (u16, &'static str)> {
    let login = BASE64_STANDARD.encode(format!("{CLIENT}:canary-client"));
    let is_client = asked.headers.iter().any(|header| *header == format!("authorization: Basic {login}"));
    (is_client && client == CLIENT).then_some(()).ok_or((401, "Bad credentials"))?;
    let body: Value = serde_json::from_str(&asked.body).map_err(|_| (400, "Problems parsing JSON"))?;
    let wanted = json!({
        "access_token": "ghu_canarywhole", "target": "acme", "repositories": ["widget"],
        "permissions": { "contents": "read", "metadata": "read" },
    });
    (body == wanted).then_some(()).ok_or((422, "Validation Failed"))?;
    let end = (OffsetDateTime::now_utc() + Duration::from_secs(3600)).format(&Rfc3339).unwrap();
    let installation = json!({
        "permissions": wanted["permissions"], "repository_selection": "selected", "account": { "login": "Acme", "id": 70 },
    });
    Ok((200, json!({ "token": "ghu_canarynarrow", "expires_at": end, "installation": installation })))
}
