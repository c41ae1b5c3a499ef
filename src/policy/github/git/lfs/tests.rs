use super::*;

/// 2023-11-14T22:13:20Z.
fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_700_000_000).unwrap()
}

#[test]
fn row_29_and_30_the_operation_is_read() {
    // As git-lfs 3.3.0 sends it.
    let body = r#"{"operation":"download","objects":[{"oid":"ab","size":3}],"transfers":["lfs-standalone-file","basic","ssh"],
        "ref":{"name":"refs/heads/main"},"hash_algo":"sha256"}"#;
    assert_eq!(request(body.as_bytes()), Ok(Operation::Download));
    assert_eq!(request(br#"{"operation":"upload","objects":[]}"#), Ok(Operation::Upload));
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let bodies = [
        "",
        "[]",
        "null",
        "{}",
        r#"{"operation":"delete"}"#,
        r#"{"operation":null}"#,
        r#"{"operation":"Download"}"#,
        r#"{"operation":["download"]}"#,
        r#"{"operation":"download","operation":"upload"}"#,
        r#"{"operation":"download","Operation":"upload"}"#,
        r#"{"operation":"download","\u006fperation":"upload"}"#,
        r#"{"operation":"download"} {"operation":"upload"}"#,
        "\u{feff}{\"operation\":\"download\"}",
    ];
    for body in bodies {
        assert_eq!(request(body.as_bytes()).map_err(|why| why.code), Err(Code::Malformed), "{body}");
    }
    let long = format!(r#"{{"operation":"download","x":"{}"}}"#, "a".repeat(REQUEST_MAX));
    assert!(request(long.as_bytes()).is_err());
    let deep = format!(r#"{{"operation":"download","x":{}{}}}"#, "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert!(request(deep.as_bytes()).is_ok(), "what is not looked at costs no stack");
}

#[test]
fn every_action_becomes_a_capability_for_its_own_method() {
    let answer = r#"{"transfer":"basic","objects":[
        {"oid":"a","size":1,"authenticated":true,"actions":{"download":{"href":"https://s.test/a?X-Amz-Signature=1","expires_in":600,
            "header":{"x":"y"}}}},
        {"oid":"b","size":1,"actions":{"upload":{"href":"https://s.test/b","expires_at":"2023-11-14T22:23:20Z"},
            "verify":{"href":"https://lfs.test/verify","header":{"Authorization":"RemoteAuth x"}}}},
        {"oid":"c","size":1,"actions":{"download":{"href":"https://s.test/c","expires_in":86400}}},
        {"oid":"d","size":1,"actions":{"download":{"href":"https://s.test/d","expires_at":"2023-11-14T22:13:19Z"}}},
        {"oid":"e","size":1,"actions":{"download":{"href":"https://s.test/e","expires_in":-5}}},
        {"oid":"f","size":1,"actions":{"download":{"href":"http://s.test/f"},"delete":{"href":"https://s.test/f"}}},
        {"oid":"g","size":1,"error":{"code":404,"message":"no"}},
        {"oid":"h","size":1,"actions":null},
        {"oid":"i","size":1,"actions":{"download":{"href":"https://s.test/i","expires_in":0,"expires_at":"2023-11-14T22:14:20+00:00"}}}
    ]}"#;
    let found = capabilities(answer.as_bytes(), now()).unwrap();
    let found: Vec<_> = found.iter().map(|c| (c.url.as_str(), c.method, c.life.as_secs())).collect();
    let expected = [
        ("https://s.test/a?X-Amz-Signature=1", "GET", 600),
        ("https://s.test/b", "PUT", 600),
        ("https://lfs.test/verify", "POST", 900),
        ("https://s.test/c", "GET", 3600),
        ("https://s.test/d", "GET", 0),
        ("https://s.test/e", "GET", 0),
        ("https://s.test/i", "GET", 60),
    ];
    assert_eq!(found, expected);
}

#[test]
fn answers_that_are_none_name_nothing() {
    assert_eq!(capabilities(br#"{"message":"Not Found"}"#, now()), Ok(Vec::new()));
    let answers = [
        "",
        "[]",
        r#"{"objects":[],"objects":[]}"#,
        r#"{"objects":[1]}"#,
        r#"{"objects":[{"actions":{"download":{"href":"https://a","href":"https://b"}}}]}"#,
        r#"{"objects":[{"actions":{"download":{"href":"https://a","expires_at":"soon"}}}]}"#,
        r#"{"objects":[{"actions":{"download":{"href":7}}}]}"#,
    ];
    for answer in answers {
        assert_eq!(capabilities(answer.as_bytes(), now()).map_err(|why| why.code), Err(Code::Malformed), "{answer}");
    }
    let many = format!(r#"{{"objects":[{}{{}}]}}"#, "{},".repeat(OBJECTS_MAX));
    assert!(capabilities(many.as_bytes(), now()).is_err());
}
