use super::super::*;
use super::*;

fn authority(text: &str) -> Authority {
    Authority::parse(text, 443).unwrap()
}

fn to(text: &str, scheme: Scheme) -> Destination {
    Destination { authority: authority(text), scheme, dialled: None }
}

fn dialled(text: &str, ip: &str) -> Destination {
    Destination { dialled: Some(ip.parse().unwrap()), ..to(text, Scheme::Https) }
}

fn network(hosts: &[&str]) -> Policy {
    Policy::new(Network::allow(hosts).unwrap(), EgressPolicy::block_all(), false, Vec::new())
}

fn bound(bindings: Vec<Binding>) -> Policy {
    Policy::new(Network::allow(["a.test", "b.test:8443"]).unwrap(), EgressPolicy::block_all(), false, bindings)
}

fn bind(host: &str, header: &str, path: &str) -> Binding {
    HeaderBinding::new(host, header, "K").and_then(|b| b.with_path_prefix(path)).unwrap().into()
}

fn request(policy: &Policy, destination: &Destination, path: &str) -> Result<Vec<usize>, &'static str> {
    let facts = RequestFacts { destination, method: "GET", path };
    policy.request(&facts).map(|permit| permit.bindings).map_err(|denial| denial.code())
}

fn code(policy: &Policy, destination: &Destination) -> &'static str {
    policy.destination(destination).map_or_else(|denial| denial.code(), |_| "permitted")
}

#[test]
fn the_default_permits_nothing() {
    let policy = Policy::default();
    assert_eq!(code(&policy, &to("a.test", Scheme::Https)), "host_not_listed");
    assert!(!policy.may_resolve(&HostName::parse("a.test").unwrap()));
    assert!(policy.check_addresses(&authority("a.test"), Scheme::Https, &[IpAddr::from([10, 0, 0, 1])], &[]).is_err());
    assert_eq!(policy.network_mode(), NetworkMode::None);
}

#[test]
fn listed_hosts_are_https_only() {
    let policy = network(&["a.test", "b.test:8443", "127.0.0.1"]);
    let entry = authority("b.test:8443");
    assert_eq!(policy.destination(&to("B.test.:8443", Scheme::Https)), Ok(Grant::Host { entry }));
    for (text, scheme, want) in [
        ("a.test", Scheme::Https, "permitted"),
        ("0x7f.1", Scheme::Https, "permitted"),
        ("a.test:80", Scheme::Https, "host_not_listed"),
        ("a.test:80", Scheme::Http, "https_only"),
        ("a.test:443", Scheme::Http, "https_only"),
        ("a.test:443", Scheme::Tcp, "https_only"),
        ("a.test:8080", Scheme::Http, "host_not_listed"),
        ("a.test:22", Scheme::Tcp, "host_not_listed"),
        ("b.test:80", Scheme::Http, "https_only"),
        ("b.test", Scheme::Https, "host_not_listed"),
        ("c.test:80", Scheme::Http, "host_not_listed"),
    ] {
        assert_eq!(code(&policy, &to(text, scheme)), want, "{text} {scheme}");
    }
}

#[test]
fn all_permits_every_name_but_the_machine_itself() {
    let policy = Policy::new(Network::all(), EgressPolicy::allow_all(), true, Vec::new());
    assert_eq!(policy.destination(&to("x.test:1234", Scheme::Https)), Ok(Grant::NetworkAll));
    for scheme in [Scheme::Http, Scheme::Tcp] {
        assert_eq!(policy.destination(&to("x.test:80", scheme)), Ok(Grant::NetworkAll), "{scheme}");
    }
    for name in ["localhost", "LOCALHOST.", "x.localhost", "localhost.localdomain", "ip6-localhost"] {
        assert_eq!(code(&policy, &to(name, Scheme::Https)), "local_name", "{name}");
        assert_eq!(code(&policy, &dialled(name, "8.8.8.8")), "local_name", "{name}");
        assert!(!policy.may_resolve(&HostName::parse(name).unwrap()), "{name}");
    }
    assert!(policy.may_resolve(&HostName::parse("localhost.test").unwrap()));
}

#[test]
fn only_listed_names_are_resolved() {
    let custom = EgressPolicy::custom(["0.0.0.0/0"]).unwrap();
    let policy = Policy::new(Network::allow(["a.test:8443"]).unwrap(), custom, true, Vec::new());
    for (name, want) in [("a.test", true), ("b.test", false), ("x.a.test", false)] {
        assert_eq!(policy.may_resolve(&HostName::parse(name).unwrap()), want, "{name}");
    }
}

#[test]
fn egress_permits_by_the_dialled_address() {
    let custom = EgressPolicy::custom(["198.41.0.0/24"]).unwrap();
    let policy = Policy::new(Network::allow(["a.test"]).unwrap(), custom, false, Vec::new());
    let by_address = Ok(Grant::Egress { entry: "198.41.0.0/24".to_owned() });
    assert_eq!(policy.destination(&dialled("other.test", "198.41.0.4")), by_address);
    assert_eq!(policy.destination(&to("198.41.0.4:5432", Scheme::Https)), by_address);
    assert_eq!(policy.destination(&to("198.41.0.4:5432", Scheme::Tcp)), by_address);
    assert_eq!(code(&policy, &dialled("other.test", "198.41.1.4")), "host_not_listed");
    assert_eq!(code(&policy, &to("other.test", Scheme::Https)), "host_not_listed");
    let entry = authority("a.test");
    assert_eq!(policy.destination(&dialled("a.test", "198.41.0.4")), Ok(Grant::Host { entry }));
    let plain = Destination { scheme: Scheme::Http, ..dialled("a.test:80", "198.41.0.4") };
    assert_eq!(policy.destination(&plain), by_address);
    assert_eq!(code(&policy, &to("a.test:80", Scheme::Http)), "https_only");
    let elsewhere = dialled("198.41.0.4", "9.9.9.9");
    assert_eq!(code(&policy, &elsewhere), "host_not_listed", "what was dialled counts, not what was said");
}

#[test]
fn bindings_match_by_host_port_and_plain_prefix() {
    let policy = bound(vec![
        bind("a.test", "authorization", "/v1/"),
        bind("a.test", "x-api-key", "/"),
        bind("b.test:8443", "authorization", "/x"),
    ]);
    let a = to("a.test", Scheme::Https);
    assert_eq!(request(&policy, &a, "/v1/x"), Ok(vec![0, 1]));
    assert_eq!(request(&policy, &a, "/%76%31/x"), Ok(vec![0, 1]));
    assert_eq!(request(&policy, &a, "/v1"), Ok(vec![1]));
    assert_eq!(request(&policy, &a, "/V1/x"), Ok(vec![1]));
    assert_eq!(request(&policy, &a, "//v1/x"), Ok(vec![1]));
    assert_eq!(request(&policy, &a, ""), Ok(vec![1]));
    assert_eq!(request(&policy, &a, "*"), Ok(vec![]));
    assert_eq!(request(&policy, &to("b.test:8443", Scheme::Https), "/xyz"), Ok(vec![2]));
    assert!(policy.is_bound(&authority("a.test")));
    assert!(!policy.is_bound(&authority("a.test:8443")));
}

#[test]
fn bindings_do_not_widen_the_network_and_need_https() {
    let binding = || vec![bind("c.test", "x", "/"), bind("c.test:80", "x", "/")];
    assert_eq!(request(&bound(binding()), &to("c.test", Scheme::Https), "/"), Err("host_not_listed"));
    let all = Policy::new(Network::all(), EgressPolicy::block_all(), false, binding());
    assert_eq!(request(&all, &to("c.test", Scheme::Https), "/"), Ok(vec![0]));
    assert_eq!(request(&all, &to("c.test:80", Scheme::Http), "/"), Ok(vec![]));
    assert_eq!(request(&all, &to("c.test", Scheme::Http), "/"), Ok(vec![]));
    assert_eq!(request(&all, &to("c.test", Scheme::Tcp), "/"), Ok(vec![]));
}

#[test]
fn a_path_is_ambiguous_only_where_it_is_looked_at() {
    let policy = bound(vec![bind("a.test", "x", "/v1/"), bind("b.test:8443", "x", "/")]);
    for path in ["/v1/../admin", "/v1/%2e%2e/admin", "/v1%2f..", "/other;x", "/%00"] {
        assert_eq!(request(&policy, &to("a.test", Scheme::Https), path), Err("ambiguous_path"), "{path}");
        assert!(request(&policy, &to("b.test:8443", Scheme::Https), path).is_ok(), "{path}");
    }
}

#[test]
fn a_conflict_that_got_past_the_compiler_is_refused() {
    let policy = bound(vec![bind("a.test", "x-api-key", "/"), bind("a.test", "x_api_key", "/v1/")]);
    assert_eq!(request(&policy, &to("a.test", Scheme::Https), "/v1/"), Err("binding_conflict"));
    assert_eq!(request(&policy, &to("a.test", Scheme::Https), "/v2/"), Ok(vec![0]));
}

#[test]
fn ports_are_those_that_are_named() {
    let policy = Policy::new(
        Network::allow(["a.test:8443", "b.test"]).unwrap(),
        EgressPolicy::block_all(),
        false,
        vec![bind("a.test:9443", "x", "/")],
    );
    assert_eq!(policy.ports(), [80, 443, 8443, 9443]);
    assert_eq!(Policy::default().ports(), [80, 443]);
}

#[test]
fn a_policy_is_shared_by_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Policy>();
}

/// What is passed on unread: from a policy's rules to the answers for a connection, and for TLS that names its host.
#[test]
fn what_is_passed_on_unread() {
    let relayed = |entry: Result<Entry, Denial>| match entry {
        Ok(Entry::Relay(_)) => "relay",
        Ok(Entry::Look { other: Some(_) }) => "look or relay",
        Ok(Entry::Look { other: None }) => "look",
        Err(_) => "no",
    };
    const BIND: &str =
        "[[header_bindings]]\nhost = \"b.test\"\nheader = \"X\"\nsecret_name = \"K\"\n[secrets.K]\nenv = \"K\"";
    let rule = |rest: &str| format!("[[network.rules]]\nhost = \"db.test\"\n{rest}\n");
    let tcp = rule("action = \"allow\"\nscheme = \"tcp\"\nports = [443]");
    let any = rule("action = \"allow\"\nscheme = \"any\"\nports = \"all\"");
    let https = rule("action = \"allow\"");
    let denied = |rest: &str| rule(&format!("action = \"deny\"\n{rest}"));
    let all = "[network]\nmode = \"all\"\n".to_owned();
    let elsewhere = "[[network.rules]]\nhost = \"evil.test\"\naction = \"deny\"\n";
    for (name, text, host, wanted) in [
        ("tcp alone", tcp.clone(), "db.test", ("relay", true)),
        ("tcp on another port", tcp.clone(), "db.test:5432", ("no", false)),
        ("tcp and https", tcp.clone() + &https, "db.test", ("look or relay", false)),
        ("any", any.clone(), "db.test:22", ("look or relay", false)),
        ("tcp with a denied path", tcp.clone() + &denied("paths = [\"/x\"]"), "db.test", ("look", false)),
        ("tcp with denied https", tcp.clone() + &denied("scheme = \"https\""), "db.test", ("look", false)),
        ("tcp with denied http", tcp.clone() + &denied("scheme = \"http\""), "db.test", ("look", false)),
        ("tcp and a rule elsewhere", tcp.clone() + elsewhere, "db.test", ("relay", true)),
        ("denied tcp", any.clone() + &denied("scheme = \"tcp\""), "db.test", ("look", false)),
        ("all", all.clone(), "db.test", ("relay", true)),
        ("all, bound elsewhere", all.clone() + BIND, "a.test", ("relay", true)),
        ("all, bound", all.clone() + BIND, "b.test", ("look", false)),
        ("all, denied elsewhere", all.clone() + elsewhere, "a.test", ("look or relay", false)),
        (
            "all, with a rule that looks",
            all.clone() + &rule("action = \"allow\"\nmethods = [\"GET\"]"),
            "db.test",
            ("look", false),
        ),
        ("nothing", String::new(), "db.test", ("no", false)),
    ] {
        let file = NamedText { name: "p".to_owned(), text };
        let policy = load(&[file], &PolicyOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}")).policy;
        let to = to(host, Scheme::Https);
        assert_eq!((relayed(policy.entry(&to)), policy.passes_unread(&to).is_some()), wanted, "{name}");
    }
}

/// A connection to an address may name a host inside that something is for, so that the name is read first.
#[test]
fn a_name_inside_is_read_where_names_matter() {
    let policy = |text: &str| {
        let file = NamedText { name: "p".to_owned(), text: text.to_owned() };
        load(&[file], &PolicyOptions::default()).unwrap().policy
    };
    let by_address = Destination { authority: authority("9.9.9.9"), ..dialled("9.9.9.9", "9.9.9.9") };
    for (text, relay) in [
        ("network.mode = \"all\"", true),
        ("egress.mode = \"allow_all\"", true),
        ("egress.mode = \"allow_all\"\n[network]\nmode = \"allow\"\nhosts = [\"a.test\"]", false),
        (
            "network.mode = \"all\"\n[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nmethods = [\"GET\"]",
            false,
        ),
    ] {
        let entry = policy(text).entry(&by_address);
        assert_eq!(matches!(entry, Ok(Entry::Relay(_))), relay, "{text}");
    }
}
