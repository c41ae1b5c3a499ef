//! The answers are those of the documentation of the key-value engine, version 2 ("Read secret version", "Delete", "Destroy").

use super::*;
use crate::credentials::issuers::Supply;
use crate::credentials::issuers::tests::{NOW, Script, at, env, issue, issuer};
use crate::types::Endpoint;

const READ: &str = r#"{"request_id":"e1","lease_id":"","renewable":false,"lease_duration":0,"data":{"data":{"other":{"a":["canary"]},
    "api_key":"canary\u002dvalue","number":5},"metadata":{"created_time":"2018-03-22T02:24:06.945319214Z",
    "custom_metadata":{"owner":"jdoe"},"deletion_time":"","destroyed":false,"version":2}},"wrap_info":null,"warnings":null,"auth":null}"#;
const DELETED: &str = r#"{"data":{"data":null,"metadata":{"created_time":"2018-03-22T02:24:06.945319214Z","custom_metadata":null,
    "deletion_time":"2018-03-22T02:36:43.986212308Z","destroyed":false,"version":1}}}"#;

fn vault(change: impl FnOnce(&mut VaultSource)) -> [(String, Supply); 2] {
    let mut source = VaultSource {
        url: Endpoint::parse("https://vault.test:8200/v1/secret/data/app").unwrap(),
        field: "api_key".into(),
        token: "T".into(),
        namespace: None,
        ttl: None,
    };
    change(&mut source);
    [("K".to_owned(), Supply::Vault(source)), env("T", "canary-token")]
}

#[tokio::test]
async fn a_field_of_the_current_version_is_read() {
    let script = Script::new(&[(200, READ)]);
    let supplies = vault(|source| {
        source.namespace = Some("team/a".into());
        source.ttl = Some(Duration::from_secs(60));
    });
    let made = issuer(&supplies, &script).unwrap();
    assert_eq!(issue(&made).await, Ok(("canary-value".to_owned(), Some(at(NOW + 60)))));
    let headers =
        "accept: application/json\nx-vault-namespace: team/a\nx-vault-request: true\nx-vault-token: canary-token";
    assert_eq!(script.asked(), [["GET", "https://vault.test:8200/v1/secret/data/app", headers, ""].map(str::to_owned)]);
    let made = issuer(&vault(|_| {}), &Script::new(&[(200, READ)])).unwrap();
    assert_eq!(issue(&made).await, Ok(("canary-value".to_owned(), None)), "a secret without a lease does not end");
}

#[tokio::test]
async fn a_lease_ends_a_value() {
    let leased = READ.replace(r#""lease_duration":0"#, r#""lease_duration":2764800"#);
    let made = issuer(&vault(|_| {}), &Script::new(&[(200, &leased)])).unwrap();
    assert_eq!(issue(&made).await, Ok(("canary-value".to_owned(), Some(at(NOW + 2_764_800)))));
}

#[tokio::test]
async fn failures_say_what_to_do_and_no_more() {
    let destroyed = DELETED.replace("\"destroyed\":false", "\"destroyed\":true");
    for (status, body, want) in [
        (
            403,
            r#"{"errors":["1 error occurred:\n\t* permission denied canary\n\n"]}"#,
            "vault.test:8200 answered with status 403: the token has ended, or its policies do not permit `read` of this path (with \
             data/ behind the mount)",
        ),
        (
            404,
            r#"{"errors":[]}"#,
            "vault.test:8200 answered with status 404: there is no such secret; path is MOUNT/data/NAME, and namespace where there is \
             one",
        ),
        (404, DELETED, "vault.test:8200 answered with status 404: the current version of the secret was deleted"),
        (404, &destroyed, "vault.test:8200 answered with status 404: the current version of the secret was destroyed"),
        (
            307,
            "",
            "vault.test:8200 answered with status 307: it is a standby, and redirects are not followed; name the active node as \
                   its address",
        ),
        (
            503,
            r#"{"errors":["Vault is sealed"]}"#,
            "vault.test:8200 answered with status 503: it is sealed, or in maintenance",
        ),
        (
            200,
            r#"{"data":{"api_key":"canary"}}"#,
            "the answer of vault.test:8200 is not that of a key-value engine of version 2; check that path is MOUNT/data/NAME",
        ),
        (
            200,
            "canary",
            "the answer of vault.test:8200 is not that of a key-value engine of version 2; check that path is \
                         MOUNT/data/NAME",
        ),
        (200, r#"{"data":{"data":{"api-key":"canary"}}}"#, "the answer of vault.test:8200 has no field api_key"),
        (
            200,
            r#"{"data":{"data":{"api_key":5}}}"#,
            "the answer of vault.test:8200 has a field api_key that is no text",
        ),
        (
            200,
            r#"{"data":{"data":{"api_key":""}}}"#,
            "the answer of vault.test:8200 holds no usable value: the value is empty",
        ),
    ] {
        let made = issuer(&vault(|_| {}), &Script::new(&[(status, body)])).unwrap();
        assert_eq!(issue(&made).await, Err(want.to_owned()), "{body}");
    }
}
