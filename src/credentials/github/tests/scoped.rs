use super::*;
use crate::policy::github::ScopedUserToken;
use crate::policy::{ClientAuth, OAuth2Source, OAuthGrant};
use crate::types::Endpoint;

fn scoped(repositories: Repositories) -> [(String, Supply); 3] {
    let source = ScopedUserToken {
        site: GitHubSite::new("ghes.test").unwrap(),
        client_id: ClientId::parse("Iv1").unwrap(),
        client_secret: "S".to_owned(),
        user_token: "U".to_owned(),
        repositories,
        permissions: BTreeMap::from([("contents".to_owned(), "read".to_owned())]),
    };
    [("K".to_owned(), Supply::GitHubScoped(source)), env("S", "canary-s"), env("U", "ghu_canary")]
}

fn narrowed() -> Value {
    json!({
        "token": "ghu_canary-narrow", "expires_at": "2027-01-15T09:00:00Z", "user": { "login": "me" },
        "installation": {
            "permissions": { "contents": "read", "metadata": "read" }, "repository_selection": "selected",
            "account": { "login": "Acme", "id": 70 },
        },
    })
}

#[tokio::test]
async fn a_users_token_is_narrowed() {
    let script = Script::new(&[(200, &narrowed().to_string())]);
    let issuer = issuer(&scoped(named(&["acme/widget", "acme/lib"])), &script).unwrap();
    assert_eq!(issue(&issuer).await, Ok(("ghu_canary-narrow".to_owned(), Some(at(NOW + 3600)))));
    let body = r#"{"access_token":"ghu_canary","permissions":{"contents":"read","metadata":"read"},"repositories":["lib","widget"],"target":"acme"}"#;
    assert_eq!(lines(&script), [format!("POST https://ghes.test/api/v3/applications/Iv1/token/scoped {body}")]);
    let login = BASE64_STANDARD.encode("Iv1:canary-s");
    assert!(script.asked()[0][2].contains(&format!("authorization: Basic {login}\n")));
}

#[tokio::test]
async fn a_users_token_that_is_not_narrowed_is_not_used() {
    let change = |of: &dyn Fn(&mut Value)| {
        let mut value = narrowed();
        of(&mut value);
        value.to_string()
    };
    let form = "gave an answer that is not the documented one";
    let repositories = "gave a token for other repositories than acme/widget, so it was not used";
    for (status, body, want) in [
        (
            401,
            "canary".to_owned(),
            "does not accept the App's own credentials: check client_id (not app_id) and client_secret",
        ),
        (
            404,
            "canary".to_owned(),
            "does not know the user's token as one of this App: it has ended, or is of a kind that cannot be narrowed",
        ),
        (
            422,
            "canary".to_owned(),
            "gives no token for acme/widget with contents:read metadata:read: the installation lacks one of them",
        ),
        (200, "canary".to_owned(), form),
        (200, change(&|value| value["installation"] = json!(null)), form),
        (200, change(&|value| value["installation"]["repository_selection"] = json!("all")), repositories),
        (200, change(&|value| value["token"] = json!("ghu_canary")), repositories),
        (
            200,
            change(&|value| value["installation"]["account"]["login"] = json!("canary")),
            "answered for another account than acme, so nothing of it was used",
        ),
        (
            200,
            change(&|value| value["installation"]["permissions"]["contents"] = json!("write")),
            "gave a token with more permissions than contents:read metadata:read, so it was not used",
        ),
    ] {
        let issuer = issuer(&scoped(named(&["acme/widget"])), &Script::new(&[(status, &body)])).unwrap();
        assert_eq!(issue(&issuer).await, Err(format!("ghes.test {want}")), "{body}");
    }
    let [source, secret, _] = scoped(named(&["acme/widget"]));
    let script = Script::new(&[]);
    let issuer = issuer(&[source, secret, env("U", "canary\"}")], &script).unwrap();
    assert!(issue(&issuer).await.unwrap_err().contains("it is no token of GitHub"));
    assert!(script.asked().is_empty());
}

/// A user's token that comes for a refresh token, narrowed for two owners.
#[tokio::test]
async fn owners_share_a_users_token_while_it_lives() {
    let narrow = |owner: &str, token: &str| {
        let mut value = narrowed();
        (value["installation"]["account"]["login"], value["token"]) = (json!(owner), json!(token));
        value["expires_at"] = json!(null);
        value.to_string()
    };
    let whole = |number: u32, life: u32| format!(r#"{{"access_token":"ghu_canary{number}","expires_in":{life}}}"#);
    let refresh = OAuth2Source {
        token_url: Endpoint::parse("https://ghes.test/login/oauth/access_token").unwrap(),
        grant: OAuthGrant::RefreshToken("R".to_owned()),
        client_id: "Iv1".to_owned(),
        client_secret: None,
        scope: None,
        audience: None,
        auth: ClientAuth::Post,
    };
    let [(_, one), secret, _] = scoped(named(&["acme/widget"]));
    let [(_, other), ..] = scoped(named(&["other/thing"]));
    let user = ("U".to_owned(), Supply::OAuth2(refresh));
    let supplies = [("K".to_owned(), one), ("L".to_owned(), other), secret, user, env("R", "ghr_canary")];
    let script = Script::new(&[
        (200, &whole(1, 28800)),
        (200, &narrow("acme", "ghu_canaryK")),
        (200, &narrow("other", "ghu_canaryL")),
        // It was revoked, and the next one is about to end.
        (404, ""),
        (200, &whole(2, 900)),
        (200, &narrow("acme", "ghu_canaryK2")),
        (200, &whole(3, 28800)),
        // Nothing is asked twice for one that is new.
        (404, ""),
    ]);
    let fetch: Arc<dyn Fetch> = Arc::clone(&script) as _;
    let issuers = issuers(&supplies, ["K", "L"], &context(), &fetch);
    assert_eq!(issue(&issuers["K"]).await, Ok(("ghu_canaryK".to_owned(), Some(at(NOW + 28800)))));
    assert_eq!(issue(&issuers["L"]).await.unwrap().0, "ghu_canaryL");
    assert_eq!(issue(&issuers["K"]).await, Ok(("ghu_canaryK2".to_owned(), Some(at(NOW + 900)))));
    assert!(issue(&issuers["L"]).await.unwrap_err().contains("does not know the user's token"));
    let refreshed = |line: &String| line.contains("/login/oauth/");
    let asked: Vec<bool> = lines(&script).iter().map(refreshed).collect();
    assert_eq!(asked, [true, false, false, false, true, false, true, false]);
}
