use super::fields::RESERVED;
use super::*;

fn binding(header: &str) -> Result<HeaderBinding, BindingError> {
    HeaderBinding::new("a.test", header, "KEY")
}

#[test]
fn defaults_are_the_seeds() {
    let b = Binding::from(binding("X-Api-Key").unwrap());
    assert_eq!((b.path_prefix(), b.placement().sample("K").as_str()), ("/", "x-api-key: {K}"));
    assert_eq!((b.host().port, b.secret_name(), b.accepts(), b.ttl()), (443, "KEY", Accepts::Anything, None));
}

#[test]
fn headers_that_frame_or_travel_are_refused_in_any_spelling() {
    for name in RESERVED.iter().copied().chain(["Content_Length", "HOST", "X-Sandbox-Proxy-Token", "x_sandbox_proxy-x"])
    {
        assert_eq!(binding(name), Err(BindingError::HeaderReserved(name.to_owned())));
    }
    for name in ["", "a b", "a:", ":path", "x\r\ny", "\u{fc}"] {
        assert_eq!(binding(name), Err(BindingError::HeaderName), "{name:?}");
    }
}

#[test]
fn a_path_prefix_is_plain() {
    let with = |prefix| binding("x").unwrap().with_path_prefix(prefix).map(|b| b.path_prefix);
    assert_eq!(with("/v1/"), Ok("/v1/".to_owned()));
    assert_eq!(with("/%76%31/\u{fc}"), Ok("/v1/%C3%BC".to_owned()));
    assert_eq!(with("v1"), Err(BindingError::PathStart));
    assert_eq!(with(""), Err(BindingError::PathStart));
    assert_eq!(with("*"), Err(BindingError::PathStart));
    assert_eq!(with("/a/../b"), Err(BindingError::PathAmbiguous("a dot segment")));
    assert_eq!(with("/a//b"), Err(BindingError::PathAmbiguous("a repeated slash")));
    assert_eq!(with("/a?b"), Err(BindingError::PathAmbiguous("a query or fragment inside the path")));
}

#[test]
fn what_stands_around_the_value_is_legal_in_a_header() {
    assert!(binding("x").unwrap().with_prefix("Bearer ").is_ok());
    assert_eq!(binding("x").unwrap().with_prefix(" x"), Err(BindingError::AffixPadding));
    assert_eq!(binding("x").unwrap().with_prefix("a\r\nb"), Err(BindingError::AffixControl));
    assert_eq!(binding("x").unwrap().with_suffix("x "), Err(BindingError::AffixPadding));
    assert_eq!(binding("x").unwrap().with_suffix("\0"), Err(BindingError::AffixControl));
}

#[test]
fn hosts_and_secret_names_are_checked() {
    let host = |host| HeaderBinding::new(host, "x", "KEY").map(|b| b.host.to_string());
    assert_eq!(host("A.test.:8443"), Ok("a.test:8443".to_owned()));
    assert_eq!(host("*.a.test"), Err(BindingError::Host(EntryError::Wildcard)));
    assert_eq!(host("localhost"), Err(BindingError::Host(EntryError::Local)));
    for name in ["", "a b", "a.b", "{K}", &"a".repeat(257)] {
        assert_eq!(HeaderBinding::new("a.test", "x", name), Err(BindingError::SecretName), "{name:?}");
    }
}

fn made(kind: Kind, given: &[(Field, &str)]) -> Result<Binding, Vec<(Field, BindingError)>> {
    let given: Vec<_> = [(Field::Host, "a.test"), (Field::SecretName, "KEY")].iter().chain(given).collect();
    let field = |field| given.iter().find(|(known, _)| *known == field).map(|(_, text)| *text);
    let mut errors = Vec::new();
    let binding = Binding::from_fields(kind, field, |field, error| errors.push((field, error)));
    binding.ok_or(errors)
}

fn good(kind: Kind, given: &[(Field, &str)]) -> Binding {
    made(kind, given).unwrap_or_else(|errors| panic!("{given:?}: {errors:?}"))
}

macro_rules! bad_fields {
    ($($test:ident: $kind:ident, $field:ident, [$($text:expr),*] => $error:ident;)*) => { $(
        #[test]
        fn $test() {
            for text in [$($text),*].map(String::from) {
                let errors = made(Kind::$kind, &[(Field::$field, &text)]);
                assert_eq!(errors, Err(vec![(Field::$field, BindingError::$error)]), "{text:?}");
            }
        }
    )* };
}

bad_fields! {
    a_parameter_has_a_name: QueryParameter, Parameter, ["", " key", "k\n", "k\0", &"k".repeat(257)] => Parameter;
    a_cookie_has_a_token: Cookie, Cookie, ["", "a b", "a=b", "a;b", "\u{fc}", &"k".repeat(257)] => CookieName;
    a_user_has_no_colon: Basic, User, ["a:b", "a\n"] => User;
    a_users_secret_has_a_name: Basic, UserSecret, ["a b"] => SecretName;
    what_stands_in_a_segment_stays_there: PathSegment, Prefix, ["a/b", "a?", "#", "a;b", "%41", "a b"] => Segment;
    what_stands_behind_it_too: PathSegment, Suffix, ["/"] => Segment;
}

/// Which places are the same, told as every pair of them.
#[test]
fn two_bindings_share_a_place_in_any_spelling() {
    let header = |name| good(Kind::Header, &[(Field::Header, name)]);
    let query = |name| good(Kind::QueryParameter, &[(Field::Parameter, name)]);
    let cookie = |name| good(Kind::Cookie, &[(Field::Cookie, name)]);
    let basic = good(Kind::Basic, &[(Field::User, "me")]);
    let segment = |prefix| good(Kind::PathSegment, &[(Field::Prefix, prefix)]);
    let mistral = super::super::mistral::MistralApiBinding::new().with_secret_name("KEY").unwrap().into_binding();
    for (one, other, same) in [
        (header("X-Api-Key"), header("x_api_key"), true),
        (header("X-Api-Key"), header("x-api-keys"), false),
        (header("Authorization"), basic.clone(), true),
        (mistral.clone(), basic.clone(), true),
        (mistral, header("authorization"), true),
        (basic.clone(), header("X-Auth"), false),
        (query("key"), query("KEY"), true),
        (query("a.b"), query("a_b"), true),
        (query("key"), query("keys"), false),
        (query("key"), header("key"), false),
        (cookie("session"), cookie("Session"), true),
        (cookie("session"), cookie("sessions"), false),
        (cookie("session"), header("Cookie"), true),
        (cookie("session"), query("session"), false),
        (cookie("session"), basic, false),
        (segment("bot"), segment("bot"), true),
        (segment("bot"), segment(""), false),
        (segment("bot"), query("bot"), false),
    ] {
        assert_eq!((one.shares_place(&other), other.shares_place(&one)), (same, same), "{one:?} {other:?}");
    }
}
