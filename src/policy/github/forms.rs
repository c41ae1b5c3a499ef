//! How a refusal is said, so that each client prints its reason (section 0.4 of the specification has what clients do with which
//! answer). A refusal is never a 401: git would forget its credential, and gh would ask for another log-in.

use super::denial::{Code, OutOfScope};

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// git or a browser: every path of the web host that is not git-lfs's, and the hosts of files.
    Git,
    /// gh, octokit and all else that asks the REST API.
    Rest,
    /// The GraphQL API.
    Graphql,
    /// git-lfs, on the web host.
    Lfs,
}

/// An answer that refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// `content-type`.
    pub content_type: &'static str,
    /// The value of [`REASON_HEADER`].
    pub reason: &'static str,
    /// The body. An answer to HEAD leaves it out.
    pub body: Vec<u8>,
}

/// The header that tells a policy's refusal from GitHub's.
pub const REASON_HEADER: &str = "x-deny-reason";

/// Text for git, which prints every line of it and of no other type.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// The page that REST answers name; clients print it behind the message.
const DOCUMENTATION: &str = "https://docs.github.com/rest";

/// The answer to a request that is refused. A push whose commands were read is [`super::git::report::refuse`]'s.
pub fn refusal(asked: Asked, why: &OutOfScope) -> Refusal {
    let status = status(why.code);
    let message = one_line(&why.message);
    let (status, content_type, body) = match asked {
        Asked::Git => (status, TEXT, format!("{message}\n")),
        Asked::Rest => {
            let body = serde_json::json!({
                "message": message,
                "documentation_url": DOCUMENTATION,
                "status": status.to_string(),
            });
            (status, "application/json; charset=utf-8", body.to_string())
        }
        // With any other status gh says that its token is invalid.
        Asked::Graphql => {
            let body = serde_json::json!({ "data": null, "errors": [{ "type": "FORBIDDEN", "message": message }] });
            (200, "application/json; charset=utf-8", body.to_string())
        }
        Asked::Lfs => (status, "application/vnd.git-lfs+json", serde_json::json!({ "message": message }).to_string()),
    };
    Refusal { status, content_type, reason: why.code.as_str(), body: body.into_bytes() }
}

fn status(code: Code) -> u16 {
    match code {
        Code::Malformed => 400,
        Code::CredentialRefused => 502,
        Code::Unresolved => 503,
        Code::RepoNotAllowed
        | Code::RepoIdentityChanged
        | Code::NotAllowed
        | Code::OptionOff
        | Code::ReadOnly
        | Code::PushRule
        | Code::UnknownCapability
        | Code::ForeignObject => 403,
    }
}

/// The text without line breaks and other control characters: they would end up on a terminal.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(asked: Asked, code: Code) -> (u16, &'static str, String) {
        let refusal = refusal(asked, &OutOfScope::new(code, "not \"this\"\none"));
        assert_eq!(refusal.reason, code.as_str());
        (refusal.status, refusal.content_type, String::from_utf8(refusal.body).unwrap())
    }

    #[test]
    fn each_client_gets_its_form() {
        let code = Code::RepoNotAllowed;
        assert_eq!(said(Asked::Git, code), (403, "text/plain; charset=utf-8", "not \"this\" one\n".into()));
        let (status, kind, body) = said(Asked::Rest, code);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, kind), (403, "application/json; charset=utf-8"));
        assert_eq!((&body["message"], &body["status"]), (&"not \"this\" one".into(), &"403".into()));
        assert!(body["documentation_url"].is_string());
        let graphql = r#"{"data":null,"errors":[{"message":"not \"this\" one","type":"FORBIDDEN"}]}"#;
        assert_eq!(said(Asked::Graphql, code), (200, "application/json; charset=utf-8", graphql.into()));
        let lfs = r#"{"message":"not \"this\" one"}"#;
        assert_eq!(said(Asked::Lfs, code), (403, "application/vnd.git-lfs+json", lfs.into()));
    }

    #[test]
    fn the_status_says_what_kind() {
        for asked in [Asked::Git, Asked::Rest, Asked::Lfs] {
            assert_eq!(said(asked, Code::Malformed).0, 400);
            assert_eq!(said(asked, Code::Unresolved).0, 503);
            assert_eq!(said(asked, Code::ReadOnly).0, 403);
        }
        assert_eq!(said(Asked::Graphql, Code::Unresolved).0, 200);
    }
}
