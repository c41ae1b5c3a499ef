use super::super::issue::{Issued, Issuer, Issuing};
use super::super::source::SourceError;
use super::*;
use crate::policy::HeaderBinding;

const VALUE: &str = "canary-5f2a";

fn binding(header: &str, secret: &str) -> Binding {
    HeaderBinding::new("api.test", header, secret).unwrap().into()
}

fn bearer() -> Binding {
    let header = HeaderBinding::new("api.test", "Authorization", "K");
    header.and_then(|header| header.with_prefix("Bearer ")?.with_suffix("/x")).unwrap().into()
}

/// What an issuer gives each time.
struct Fixed(Option<&'static str>);

impl Issuer for Fixed {
    fn issue(&self) -> Issuing<'_> {
        let value = self.0.map(|value| Secret::new("K", Zeroizing::new(value.as_bytes().to_vec())).unwrap());
        let missing = SourceError::EnvMissing("BROKEN_KEY".to_owned());
        Box::pin(async { value.map(|secret| Issued { secret, expires_at: None }).ok_or(missing.into()) })
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn keepers() -> HashMap<String, Arc<Keeper>> {
    let keeper = |name: &str, value| {
        let keeper = Keeper::new(name, Box::new(Fixed(value)), Arc::new(std::time::SystemTime::now));
        assert_eq!(wait(keeper.start()).is_ok(), value.is_some());
        (name.to_owned(), Arc::new(keeper))
    };
    HashMap::from([keeper("K", Some(VALUE)), keeper("BROKEN", None)])
}

fn apply(injector: &Injector, indexes: &[usize], headers: &mut HeaderMap) -> Result<Used, InjectError> {
    let (mut head, ()) = http::Request::new(()).into_parts();
    std::mem::swap(&mut head.headers, headers);
    let applied = wait(injector.apply(indexes, &mut head));
    std::mem::swap(&mut head.headers, headers);
    applied
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value));
    }
    headers
}

#[test]
fn the_header_is_set_once_and_never_indexed() {
    let injector = Injector::new(&[bearer()], &keepers(), Vec::new());
    let mut headers = headers(&[("AUTHORIZATION", "mine"), ("authorization", "mine too"), ("accept", "*/*")]);
    apply(&injector, &[0], &mut headers).unwrap();
    let all: Vec<_> = headers.get_all("authorization").iter().collect();
    assert_eq!(all, ["Bearer canary-5f2a/x"]);
    assert!(all[0].is_sensitive());
    assert_eq!(headers.len(), 2);
}

macro_rules! alike {
    ($($test:ident: $header:literal, $sent:literal, $gone:expr;)*) => { $(
        #[test]
        fn $test() {
            let injector = Injector::new(&[binding($header, "K")], &keepers(), Vec::new());
            let mut headers = headers(&[($sent, "mine"), ($sent, "mine too")]);
            apply(&injector, &[0], &mut headers).unwrap();
            let mine = headers.values().filter(|value| value.to_str().unwrap().starts_with("mine")).count();
            assert_eq!(mine, if $gone { 0 } else { 2 });
            assert_eq!(headers[$header], VALUE);
        }
    )* };
}

alike! {
    another_case_is_replaced: "X-Api-Key", "x-API-key", true;
    an_underscore_for_a_dash_is_removed: "X-Api-Key", "X_Api_Key", true;
    one_underscore_is_enough: "X-Api-Key", "X-Api_Key", true;
    a_dash_for_an_underscore_is_removed: "x_api_key", "X-Api-Key", true;
    a_dot_for_a_dash_is_removed: "X-Api-Key", "X.Api.Key", true;
    another_header_stays: "X-Api-Key", "X-Api-Kex", false;
    a_longer_header_stays: "X-Api-Key", "X-Api-Key-2", false;
}

#[test]
fn only_the_bindings_asked_for_are_applied() {
    let injector = Injector::new(&[bearer(), binding("X-Api-Key", "K")], &keepers(), Vec::new());
    let mut sent = headers(&[("authorization", "mine"), ("x-api-key", "mine")]);
    apply(&injector, &[], &mut sent).unwrap();
    assert_eq!(sent["authorization"], "mine");
    apply(&injector, &[1], &mut sent).unwrap();
    assert_eq!((&sent["authorization"], &sent["x-api-key"]), (&"mine".parse().unwrap(), &VALUE.parse().unwrap()));
}

#[test]
fn a_missing_secret_fails_its_own_requests_and_changes_nothing() {
    let bindings = [bearer(), binding("X-Broken", "BROKEN"), binding("X-Unknown", "UNKNOWN")];
    let injector = Injector::new(&bindings, &keepers(), Vec::new());
    let sent = headers(&[("authorization", "mine")]);
    for (indexes, secret, reason) in [
        ([0, 1], "BROKEN", "the environment variable BROKEN_KEY is not set"),
        ([0, 2], "UNKNOWN", "no secret of that name is configured"),
    ] {
        let mut headers = sent.clone();
        let error = apply(&injector, &indexes, &mut headers).unwrap_err();
        let InjectError::Unavailable { reason: told, .. } = &error else { panic!("{error:?}") };
        assert_eq!(told, reason);
        assert!(error.to_string().starts_with(&format!("the secret {secret}, which api.test needs in the header x-")));
        assert_eq!(headers, sent);
    }
    apply(&injector, &[0], &mut sent.clone()).unwrap();
}

#[test]
fn trailers_lose_it_without_getting_it() {
    let injector = Injector::new(&[bearer()], &keepers(), Vec::new());
    let mut trailers = headers(&[("authorization", "mine"), ("grpc-status", "0")]);
    injector.strip(&[0], &mut trailers);
    assert_eq!(trailers, headers(&[("grpc-status", "0")]));
}

#[test]
fn debug_shows_names_only() {
    let injector = Injector::new(&[bearer()], &keepers(), Vec::new());
    assert_eq!(format!("{injector:?}"), r#"Injector([("K", "the header authorization")])"#);
    let mut headers = HeaderMap::new();
    apply(&injector, &[0], &mut headers).unwrap();
    assert!(!format!("{headers:?}").contains("canary"));
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn an_index_of_another_policy_stops_the_request() {
    let _ = apply(&Injector::new(&[bearer()], &keepers(), Vec::new()), &[1], &mut HeaderMap::new());
}

#[test]
fn answers_of_a_host_are_searched_for_all_its_values() {
    let other = |host: &str, secret: &str| Binding::from(HeaderBinding::new(host, "X-Key", secret).unwrap());
    let mut keepers = keepers();
    let second = Keeper::new("L", Box::new(Fixed(Some("another-77"))), Arc::new(std::time::SystemTime::now));
    wait(second.start()).unwrap();
    keepers.insert("L".to_owned(), Arc::new(second));
    let bindings = [
        bearer(),
        HeaderBinding::new("api.test", "X-Key", "L").and_then(|b| b.with_path_prefix("/v2/")).unwrap().into(),
        other("open.test", "K").with_scrub(false),
        other("open.test:8443", "L"),
        other("broken.test", "BROKEN"),
    ];
    let injector = Injector::new(&bindings, &keepers, Vec::new());
    let found = |host: &str| {
        let scrubber = injector.searched(&Authority::parse(host, 443).unwrap())?.current();
        Some([VALUE, "another-77"].map(|value| scrubber.is_in(value.as_bytes())))
    };
    assert_eq!(found("api.test"), Some([true, true]));
    assert_eq!(found("open.test:8443"), Some([false, true]));
    assert_eq!(found("broken.test"), Some([false, false]));
    for none in ["open.test", "api.test:8443", "unbound.test"] {
        assert_eq!(found(none), None, "{none}");
    }
}

/// Gives another value each time.
struct Counting(std::sync::atomic::AtomicUsize);

impl Issuer for Counting {
    fn issue(&self) -> Issuing<'_> {
        let number = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let secret = Secret::new("K", Zeroizing::new(format!("canary-{number}").into_bytes())).unwrap();
        Box::pin(async { Ok(Issued { secret, expires_at: None }) })
    }
}

#[test]
fn a_renewed_value_is_searched_for_beside_the_one_before() {
    let keeper = Arc::new(Keeper::new("K", Box::new(Counting(0.into())), Arc::new(std::time::SystemTime::now)));
    let injector = Injector::new(&[bearer()], &HashMap::from([("K".to_owned(), Arc::clone(&keeper))]), Vec::new());
    let watch = injector.searched(&Authority::parse("api.test", 443).unwrap()).unwrap();
    let found = || ["canary-0", "canary-1", "canary-2"].map(|value| watch.current().is_in(value.as_bytes()));
    assert_eq!(found(), [false, false, false]);
    wait(keeper.start()).unwrap();
    assert_eq!(found(), [true, false, false]);
    assert!(Arc::ptr_eq(&watch.current(), &watch.current()), "it is made once for each value");
    wait(keeper.start()).unwrap();
    assert_eq!(found(), [true, true, false]);
}
