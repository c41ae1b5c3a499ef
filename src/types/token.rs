//! Tokens by which a sandbox names itself to a proxy that many share.
//!
//! The format is that of the published SDK (`../shared/spec/seed-systems.md` A.4.3): base64url of a JSON text, a dot, base64url of its
//! HMAC-SHA256. Tokens that this program issues say as well which sandbox they are for (`sub.sandbox_id`), and have an id of their own
//! (`jti`), by which one can be revoked.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::SandboxId;

/// The user that every token goes with, where a client gives a pair of user and password.
pub const PROXY_USER: &str = "sandbox-proxy";
/// The longest token that is read, in bytes: 500 repositories with long names.
pub const TOKEN_MAX: usize = 96 * 1024;
/// The longest id of a subject, in bytes.
const ID_MAX: usize = 256;

/// Who a token stands for. All are needed and none is blank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// The customer.
    pub customer_id: String,
    /// The organization.
    pub organization_id: String,
    /// The user.
    pub user_id: String,
    /// The workspace.
    pub workspace_id: String,
}

/// What a token is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderScope {
    /// GitHub, for these repositories: `owner/repository` in lower case, sorted.
    GitHub(RepoScope),
    /// The use of the proxy.
    Egress,
}

/// Which repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepoScope {
    /// All that the user may see.
    All,
    /// These.
    Selected(Vec<String>),
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// When it ends, in seconds since 1970.
    pub expires_at: u64,
    /// What it is good for.
    pub scope: ProviderScope,
    /// Who it stands for.
    pub subject: Subject,
    /// The sandbox, where this program has issued it.
    pub sandbox: Option<SandboxId>,
    /// Its own id, where this program has issued it.
    pub id: Option<TokenId>,
}

/// The id of one token: 128 random bits in lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenId(String);

impl TokenId {
    /// An id from 128 bits of the caller's randomness.
    pub fn from_bits(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The secret that tokens are signed with. `Debug` shows nothing of it.
pub struct SigningSecret(hmac::Key);

/// Why a text is no [`SigningSecret`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a signing secret is not empty")]
pub struct EmptySecret;

/// Why a token is not accepted. It quotes nothing of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is no token of this form.
    #[error("it is no token of this proxy")]
    Form,
    /// It is signed with another secret, or was changed.
    #[error("its signature is not this proxy's")]
    Signature,
    /// It says something that is not understood.
    #[error("its content is not understood")]
    Content,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
}

impl SigningSecret {
    /// A secret from its text; white space around it does not count, as in the SDK.
    ///
    /// # Errors
    /// [`EmptySecret`].
    pub fn new(text: &str) -> Result<Self, EmptySecret> {
        let text = text.trim();
        if text.is_empty() {
            return Err(EmptySecret);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    /// A token that says this.
    pub fn sign(&self, claims: &Claims) -> String {
        let payload = BASE64_URL_SAFE_NO_PAD.encode(ascii_json(&Payload::from(claims)));
        let tag = hmac::sign(&self.0, payload.as_bytes());
        format!("{payload}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref()))
    }

    /// What a token says at a time, where this secret signed it.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn verify(&self, token: &str, now: SystemTime) -> Result<Claims, TokenError> {
        if token.len() > TOKEN_MAX {
            return Err(TokenError::Form);
        }
        let (payload, tag) = token.split_once('.').ok_or(TokenError::Form)?;
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).map_err(|_| TokenError::Form)?;
        // Compared in constant time, and before anything of it is read.
        hmac::verify(&self.0, payload.as_bytes(), &tag).map_err(|_| TokenError::Signature)?;
        let json = BASE64_URL_SAFE_NO_PAD.decode(payload).map_err(|_| TokenError::Form)?;
        let payload: Payload = serde_json::from_slice(&json).map_err(|_| TokenError::Content)?;
        let claims = payload.into_claims().ok_or(TokenError::Content)?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX).as_secs();
        if claims.expires_at <= now {
            return Err(TokenError::Expired);
        }
        Ok(claims)
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// The JSON of a token. Fields stand in the order of their names, which is the order on the wire.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    exp: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jti: Option<String>,
    provider_scope: Scope,
    sub: Sub,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    provider: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repo_scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repos: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sub {
    customer_id: String,
    organization_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sandbox_id: Option<String>,
    user_id: String,
    workspace_id: String,
}

impl From<&Claims> for Payload {
    fn from(claims: &Claims) -> Self {
        let scope = |provider: &str, repo_scope: Option<&str>, repos| Scope {
            provider: provider.to_owned(),
            repo_scope: repo_scope.map(str::to_owned),
            repos,
        };
        let provider_scope = match &claims.scope {
            ProviderScope::Egress => scope("egress", None, None),
            ProviderScope::GitHub(RepoScope::All) => scope("github", Some("all_accessible_repos"), Some(Vec::new())),
            ProviderScope::GitHub(RepoScope::Selected(repos)) => {
                scope("github", Some("selected_repos"), Some(repos.clone()))
            }
        };
        let Subject { customer_id, organization_id, user_id, workspace_id } = claims.subject.clone();
        let sandbox_id = claims.sandbox.as_ref().map(|id| id.as_str().to_owned());
        Self {
            exp: claims.expires_at,
            jti: claims.id.as_ref().map(|id| id.0.clone()),
            provider_scope,
            sub: Sub { customer_id, organization_id, sandbox_id, user_id, workspace_id },
        }
    }
}

impl Payload {
    fn into_claims(self) -> Option<Claims> {
        let Scope { provider, repo_scope, repos } = self.provider_scope;
        let scope = match (provider.as_str(), repo_scope.as_deref(), repos) {
            ("egress", None, None) => ProviderScope::Egress,
            ("github", Some("all_accessible_repos"), Some(repos)) if repos.is_empty() => {
                ProviderScope::GitHub(RepoScope::All)
            }
            ("github", Some("selected_repos"), Some(repos)) => ProviderScope::GitHub(RepoScope::Selected(repos)),
            _ => return None,
        };
        let Sub { customer_id, organization_id, sandbox_id, user_id, workspace_id } = self.sub;
        let legal = |id: &String| !id.trim().is_empty() && id.len() <= ID_MAX;
        if ![&customer_id, &organization_id, &user_id, &workspace_id].into_iter().all(legal) {
            return None;
        }
        let is_hex =
            |text: &str, len| text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let id = match self.jti {
            Some(text) if is_hex(&text, 32) => Some(TokenId(text)),
            Some(_) => return None,
            None => None,
        };
        let sandbox = sandbox_id.map(|text| SandboxId::parse(&text).ok_or(())).transpose().ok()?;
        let subject = Subject { customer_id, organization_id, user_id, workspace_id };
        Some(Claims { expires_at: self.exp, scope, subject, sandbox, id })
    }
}

/// JSON without spaces, in ASCII: other characters as `\uXXXX`, as Python writes it.
fn ascii_json(payload: &Payload) -> String {
    let json = serde_json::to_string(payload).expect("texts and numbers are JSON");
    let mut ascii = String::with_capacity(json.len());
    for char in json.chars() {
        if char.is_ascii() {
            ascii.push(char);
        } else {
            let mut units = [0; 2];
            char.encode_utf16(&mut units).iter().for_each(|unit| ascii += &format!("\\u{unit:04x}"));
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    const GITHUB: &str = "eyJleHAiOjE3MDAwMDM2MDAsInByb3ZpZGVyX3Njb3BlIjp7InByb3ZpZGVyIjoiZ2l0aHViIiwicmVwb19zY29wZSI6InNlbGVjdGVkX3JlcG9zIiwicmVwb3MiOlsiYWNtZS9hcGkiLCJhY21lL3dpZGdldCJdfSwic3ViIjp7ImN1c3RvbWVyX2lkIjoiY3VzdC0xIiwib3JnYW5pemF0aW9uX2lkIjoib3JnLTEiLCJ1c2VyX2lkIjoidXNlci0xIiwid29ya3NwYWNlX2lkIjoid3MtMSJ9fQ.NSRyX0TP1os4m65UB5cBboDXrMS_TRC9cZ9X8xKsDkc";
    const EGRESS: &str = "eyJleHAiOjE3MDAwMDM2MDAsInByb3ZpZGVyX3Njb3BlIjp7InByb3ZpZGVyIjoiZWdyZXNzIn0sInN1YiI6eyJjdXN0b21lcl9pZCI6ImN1c3QtMSIsIm9yZ2FuaXphdGlvbl9pZCI6Im9yZy0xIiwidXNlcl9pZCI6InVzZXItMSIsIndvcmtzcGFjZV9pZCI6IndzLTEifX0.5VP8-xkDpNqvz512ghquHBvQtGiX9AzgA3LXGLuw66Q";

    fn secret() -> SigningSecret {
        SigningSecret::new(" test-secret ").unwrap()
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn claims(scope: ProviderScope) -> Claims {
        let id = |kind: &str| format!("{kind}-1");
        let (customer_id, organization_id, user_id, workspace_id) = (id("cust"), id("org"), id("user"), id("ws"));
        let subject = Subject { customer_id, organization_id, user_id, workspace_id };
        Claims { expires_at: 1_700_003_600, scope, subject, sandbox: None, id: None }
    }

    fn selected(repos: &[&str]) -> ProviderScope {
        ProviderScope::GitHub(RepoScope::Selected(repos.iter().map(|&repo| repo.to_owned()).collect()))
    }

    /// As the SDK's signer made them.
    #[test]
    fn golden_tokens_are_made_and_read() {
        let github = claims(selected(&["acme/api", "acme/widget"]));
        let egress = claims(ProviderScope::Egress);
        let all = claims(ProviderScope::GitHub(RepoScope::All));
        assert_eq!(secret().sign(&github), GITHUB);
        assert_eq!(secret().sign(&egress), EGRESS);
        assert!(secret().sign(&all).ends_with(".1IEON4GLzX9MqUchcnzzaEAyj4bfwnqh4a8h4ZY_u9M"));
        assert_eq!(secret().verify(GITHUB, at(1_700_000_000)), Ok(github));
        assert_eq!(secret().verify(EGRESS, at(1_700_003_599)), Ok(egress));
        assert_eq!(secret().verify(&secret().sign(&all), at(0)), Ok(all));
    }

    #[test]
    fn our_own_say_which_sandbox_they_are_for() {
        let own = Claims {
            sandbox: Some(SandboxId::from_bits(7)),
            id: Some(TokenId::from_bits(9)),
            ..claims(selected(&["acme/ünï", "a/𝄞"]))
        };
        let token = secret().sign(&own);
        let json = BASE64_URL_SAFE_NO_PAD.decode(token.split_once('.').unwrap().0).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(json.contains(r#""jti":"00000000000000000000000000000009","provider_scope""#), "{json}");
        assert!(json.contains(r#""sandbox_id":"0000000000000007","user_id""#), "{json}");
        assert!(json.contains(r#"["acme/\u00fcn\u00ef","a/\ud834\udd1e"]"#), "{json}");
        assert_eq!(secret().verify(&token, at(0)), Ok(own));
    }

    #[test]
    fn what_is_changed_expired_or_of_another_secret_is_refused() {
        let verify = |token: &str| secret().verify(token, at(1_700_000_000)).unwrap_err();
        assert_eq!(secret().verify(EGRESS, at(1_700_003_600)), Err(TokenError::Expired));
        let other = SigningSecret::new("other").unwrap();
        assert_eq!(other.verify(EGRESS, at(0)), Err(TokenError::Signature));
        let (payload, tag) = GITHUB.split_once('.').unwrap();
        let (egress, _) = EGRESS.split_once('.').unwrap();
        assert_eq!(verify(&format!("{egress}.{tag}")), TokenError::Signature);
        assert_eq!(verify(&format!("{payload}.{}", &tag[..42])), TokenError::Form);
        assert_eq!(verify(&format!("{payload}.{tag}=")), TokenError::Form);
        assert_eq!(verify(&format!("{payload}.{tag}.{tag}")), TokenError::Form);
        assert_eq!(verify(&format!("{payload}.")), TokenError::Signature);
        for token in ["", ".", "a", payload, &"a".repeat(TOKEN_MAX + 1)] {
            assert!(matches!(verify(token), TokenError::Form | TokenError::Signature), "{token:.20}");
        }
        assert_eq!(SigningSecret::new("  ").unwrap_err(), EmptySecret);
    }

    /// Signed as they should be, and saying what nobody issues.
    #[test]
    fn contents_that_are_not_the_formats_are_refused() {
        let sub = r#"{"customer_id":"c","organization_id":"o","user_id":"u","workspace_id":"w"}"#;
        let egress = r#"{"provider":"egress"}"#;
        let good = format!(r#"{{"exp":9,"provider_scope":{egress},"sub":{sub}}}"#);
        let signed = |json: &str| {
            let payload = BASE64_URL_SAFE_NO_PAD.encode(json);
            let tag = hmac::sign(&secret().0, payload.as_bytes());
            format!("{payload}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref()))
        };
        assert!(secret().verify(&signed(&good), at(0)).is_ok());
        for (from, to) in [
            ("\"exp\":9", "\"exp\":-9"),
            ("\"exp\":9", "\"exp\":9.5"),
            ("\"exp\":9", "\"exp\":\"9\""),
            ("\"exp\":9", "\"exp\":9,\"exp\":99"),
            ("\"exp\":9", "\"exp\":9,\"alg\":\"none\""),
            ("\"exp\":9", "\"exp\":9,\"jti\":\"7\""),
            ("\"customer_id\":\"c\"", "\"customer_id\":\" \""),
            ("\"customer_id\":\"c\",", ""),
            ("\"user_id\":\"u\"", "\"sandbox_id\":\"../x\",\"user_id\":\"u\""),
            ("{\"provider\":\"egress\"}", "{\"provider\":\"gitlab\"}"),
            ("{\"provider\":\"egress\"}", "{\"provider\":\"egress\",\"repos\":[]}"),
            ("{\"provider\":\"egress\"}", "{\"provider\":\"github\"}"),
            ("{\"provider\":\"egress\"}", "{\"provider\":\"github\",\"repo_scope\":\"all\",\"repos\":[]}"),
            (
                "{\"provider\":\"egress\"}",
                "{\"provider\":\"github\",\"repo_scope\":\"all_accessible_repos\",\"repos\":[\"a/b\"]}",
            ),
        ] {
            let json = good.replacen(from, to, 1);
            assert_ne!(json, good, "{from}");
            assert_eq!(secret().verify(&signed(&json), at(0)), Err(TokenError::Content), "{json}");
        }
    }
}
