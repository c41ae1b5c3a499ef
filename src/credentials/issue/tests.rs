use std::time::UNIX_EPOCH;

use super::*;

/// 2027-01-15T08:00:00Z.
const NOW: u64 = 1_800_000_000;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn read(raw: &str, ttl: Option<u64>) -> Result<Option<SystemTime>, AnswerError> {
    let reading = Reading { name: "K", now: at(NOW), ttl: ttl.map(Duration::from_secs) };
    let read = reading.json(raw.as_bytes());
    assert!(!format!("{read:?}").contains("canary"));
    read.map(|issued| {
        assert_eq!(issued.secret.expose(), b"canary");
        issued.expires_at
    })
}

#[test]
fn expiries_in_both_forms() {
    let good = |expiry: &str, want| assert_eq!(read(&format!(r#"{{"value":"canary"{expiry}}}"#), None), Ok(want));
    good("", None);
    good(r#","expires_at":null"#, None);
    good(r#","expires_at":"2027-01-15T09:00:01+01:00""#, Some(at(NOW + 1)));
    good(r#","expires_at":1800000001"#, Some(at(NOW + 1)));
    good(r#","expires_at":1800000000.5"#, Some(at(NOW) + Duration::from_millis(500)));
    good(r#","expires_at":"2037-01-14T08:00:00Z""#, Some(at(2_115_532_800)));
}

#[test]
fn the_earlier_of_ttl_and_expiry_holds() {
    let both = |ttl| read(r#"{"value":"canary","expires_at":1800000100}"#, Some(ttl));
    assert_eq!(both(50), Ok(Some(at(NOW + 50))));
    assert_eq!(both(150), Ok(Some(at(NOW + 100))));
    assert_eq!(read(r#"{"value":"canary"}"#, Some(50)), Ok(Some(at(NOW + 50))));
}

#[test]
fn expiries_that_cannot_be_meant() {
    let bad = |expiry: &str| read(&format!(r#"{{"value":"canary","expires_at":{expiry}}}"#), Some(50)).unwrap_err();
    assert_eq!(bad("1800000000"), AnswerError::Expired(When(at(NOW))));
    assert_eq!(bad(r#""1969-12-31T00:00:00Z""#).to_string(), "holds a value that expired at 1969-12-31T00:00:00Z");
    assert!(matches!(bad(r#""2038-01-15T08:00:00Z""#), AnswerError::TooFar(_)));
    assert!(matches!(bad("1800000000000"), AnswerError::TooFar(_)));
    for form in ["-1", "1e300", "\"\"", "\"1800000001\"", "true", "[]", "{}"] {
        assert_eq!(bad(form), AnswerError::Form, "{form}");
    }
}
