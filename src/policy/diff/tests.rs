use super::*;
use crate::policy::{NamedText, Policy, PolicyOptions, load, oracle};
use crate::types::{Destination, RequestFacts};

fn compiled(name: &str, text: &str) -> Compiled {
    let file = NamedText { name: name.to_owned(), text: text.to_owned() };
    load(&[file], &PolicyOptions::default()).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"))
}

/// Each finding of the second over the first; `?` where it is not certain.
fn found(other: &str, this: &str) -> Vec<String> {
    let findings = more(&compiled("b", this), &compiled("a", other));
    let line = |more: More| {
        let example = more.example.map_or_else(String::new, |example| format!(": {example}"));
        format!("{}{}{example}", if more.certain { "" } else { "? " }, more.what)
    };
    findings.into_iter().map(line).collect()
}

const LISTED: &str = "[network]\nmode = \"allow\"\nhosts = [\"a.test\", \"b.test:8443\"]\n";
const ALL: &str = "[network]\nmode = \"all\"\n";

fn rule(host: &str, rest: &str) -> String {
    format!("[[network.rules]]\nhost = \"{host}\"\naction = \"allow\"\n{rest}\n")
}

fn deny(host: &str, rest: &str) -> String {
    format!("[[network.rules]]\nhost = \"{host}\"\naction = \"deny\"\n{rest}\n")
}

/// What only srt can deny.
fn srt(denied: &str) -> String {
    format!(
        r#"{{"network": {{"allowedDomains": ["a.test"], "deniedDomains": [{denied}]}},
            "filesystem": {{"disabled": true, "denyRead": [], "allowWrite": [], "denyWrite": []}}}}"#
    )
}

macro_rules! diffs {
    ($($name:ident: $other:expr, $this:expr => [$($want:expr),* $(,)?];)*) => { $(
        #[test]
        fn $name() {
            let want: Vec<String> = vec![$($want.to_owned()),*];
            assert_eq!(found(&$other, &$this), want);
        }
    )* };
}

diffs! {
    nothing: "", "" => [];
    the_same: LISTED, LISTED => [];
    less: LISTED, "" => [];
    a_host: "", LISTED => [
        "https://a.test/** with any method is permitted: GET https://a.test/",
        "https://b.test:8443/** with any method is permitted: GET https://b.test:8443/"];
    a_host_that_a_rule_permits: rule("a.test", ""), "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n" => [];
    a_host_below_a_pattern: rule("*.a.test", ""), rule("x.a.test", "") => [];
    a_pattern: rule("x.a.test", ""), rule("*.a.test", "") => [
        "https://*.a.test/** with any method is permitted: GET https://policy-diff.a.test/"];
    a_port: rule("a.test", ""), rule("a.test", "ports = [443, 8443]") => [
        "https://a.test:8443/** with any method is permitted: GET https://a.test:8443/"];
    ports_of_two_rules: rule("a.test", "") + &rule("a.test", "ports = [8443]"), rule("a.test", "ports = [443, 8443]") => [];
    a_method: rule("a.test", "methods = [\"GET\"]"), rule("a.test", "methods = [\"GET\", \"PUT\"]") => [
        "https://a.test/** with PUT is permitted: PUT https://a.test/"];
    methods_of_two_rules: rule("a.test", "methods = [\"GET\"]") + &rule("a.test", "methods = [\"PUT\"]"),
        rule("a.test", "methods = [\"PUT\", \"GET\"]") => [];
    a_path: rule("a.test", "paths = [\"/v1/*\"]"), rule("a.test", "paths = [\"/v1/**\"]") => [
        "https://a.test/v1/** with any method is permitted: GET https://a.test/v1"];
    a_path_below: rule("a.test", "paths = [\"/v1/**\"]"), rule("a.test", "paths = [\"/v1/a b/*\"]") => [];
    another_scheme: rule("a.test", "scheme = \"http\""), rule("a.test", "") => [
        "https://a.test/** with any method is permitted: GET https://a.test/"];
    what_two_rules_cover_together_may_be_more: rule("a.test", "paths = [\"/\"]") + &rule("a.test", "paths = [\"/*/**\"]"),
        rule("a.test", "paths = [\"/**/**\"]") => [
        "? https://a.test/** with any method is permitted",
        "paths of a.test that can be read in two ways are permitted: GET https://a.test/policy-diff/../x"];
    all: LISTED, ALL => ["every host is permitted (network mode all)"];
    all_over_all: ALL, ALL => [];
    a_rule_under_all: ALL, format!("{ALL}{}", rule("a.test", "")) => [];
    a_denial_that_is_missing: format!("{ALL}{}", deny("a.test", "")), ALL => [
        "https://a.test:*/** with any method is not denied: GET https://a.test/",
    ];
    a_denial_of_what_is_not_permitted: format!("{LISTED}{}", deny("c.test", "")), LISTED => [];
    a_wider_denial: format!("{ALL}{}", deny("x.a.test", "ports = [443]")), format!("{ALL}{}", deny("*.a.test", "")) => [];
    a_narrower_denial: format!("{LISTED}{}", deny("a.test", "")), format!("{LISTED}{}", deny("a.test", "paths = [\"/x\"]")) => [
        "https://a.test:*/** with any method is not denied: GET https://a.test/"];
    what_is_denied_is_not_more: "", rule("a.test", "") + &deny("*.test.example.com", "") + &deny("a.test", "") => [];
    ambiguous_paths: format!("{LISTED}{}", rule("a.test", "paths = [\"/v1\"]")), LISTED => [
        "paths of a.test that can be read in two ways are permitted: GET https://a.test/policy-diff/../x"];
    egress: "[egress]\nmode = \"custom\"\nallow_cidrs = [\"9.9.8.0/24\", \"9.9.9.0/24\"]",
        "[egress]\nmode = \"custom\"\nallow_cidrs = [\"9.9.8.0/23\", \"9.9.10.0/24\"]" => [
        "every port of 9.9.10.0/24 may be dialled by number (egress)"];
    egress_all: "[egress]\nmode = \"custom\"\nallow_cidrs = [\"9.9.8.0/24\"]", "[egress]\nmode = \"allow_all\"" => [
        "every port of 0.0.0.0/0 may be dialled by number (egress)",
        "every port of ::/0 may be dialled by number (egress)"];
    egress_of_half_of_all: "[egress]\nmode = \"custom\"\nallow_cidrs = [\"0.0.0.0/1\", \"128.0.0.0/1\"]",
        "[egress]\nmode = \"allow_all\"" => ["every port of ::/0 may be dialled by number (egress)"];
    egress_under_all: "[egress]\nmode = \"allow_all\"", "[egress]\nmode = \"custom\"\nallow_cidrs = [\"9.9.8.0/24\"]" => [];
    a_private_network: "[egress]\nmode = \"allow_all\"", "[egress]\nmode = \"custom\"\nallow_cidrs = [\"10.1.0.0/16\"]" => [
        "10.1.0.0/16 is open, which is blocked otherwise"];
    a_part_of_a_private_network: "[egress]\nmode = \"custom\"\nallow_cidrs = [\"10.1.0.0/16\"]",
        "[egress]\nmode = \"custom\"\nallow_cidrs = [\"10.1.2.0/24\"]" => [];
    private_addresses: "", "[egress]\nblock_private_ips = false" => [
        "private, loopback and this host's own addresses are open to permitted names"];
    metadata: "[egress]\nmode = \"allow_all\"\nblock_private_ips = false",
        "[egress]\nmode = \"custom\"\nallow_cidrs = [\"169.254.169.254\"]" => [
        "169.254.169.254 is open, a cloud metadata address"];
    one_address: "[egress]\nmode = \"allow_all\"", "[egress]\nmode = \"custom\"\nallow_cidrs = [\"9.9.9.9\"]" => [
        "? 9.9.9.9 is open even if it is one of this host's own addresses"];
    an_opened_address: rule("10.0.0.1", "ports = [8443]"), rule("10.0.0.1", "ports = [8443]\nopens_address = true") => [
        "https://10.0.0.1:8443/** with any method is permitted: GET https://10.0.0.1:8443/",
        "10.0.0.1 is open on port 8443, a private address"];
    an_opened_address_as_before: rule("10.0.0.1", "ports = \"all\"\nopens_address = true"),
        rule("10.0.0.1", "ports = [8443]\nopens_address = true") => [];
    an_opened_address_that_is_public: rule("9.9.9.9", ""), rule("9.9.9.9", "opens_address = true") => [
        "? https://9.9.9.9/** with any method is permitted",
        "? 9.9.9.9 is open on port 443 even if it is one of this host's own addresses"];
    a_denied_network: "[egress]\ndeny_cidrs = [\"9.9.9.0/24\", \"2620:fe::/48\"]", "[egress]\ndeny_cidrs = [\"9.9.9.0/25\", \"2620::/16\"]" => [
        "9.9.9.0/24 is not denied to names that lead there"];
    a_denied_network_of_parts: "[egress]\ndeny_cidrs = [\"9.9.9.0/24\"]", "[egress]\ndeny_cidrs = [\"9.9.9.0/25\", \"9.9.9.128/25\"]" => [];
    a_port_that_is_denied_everywhere: srt("\"*:22\""), srt("") => [
        "? https://*:22/** with any method is not denied"];
    a_port_that_is_still_denied_everywhere: srt("\"*:22\""), srt("\"*\"") => [];
    passthrough: LISTED, format!("{LISTED}[tls]\npassthrough = [\"a.test\", \"c.test\"]\n") => [
        "what is inside TLS to a.test is not seen (tls.passthrough)"];
    passthrough_as_before: format!("{LISTED}[tls]\npassthrough = [\"*.test.example.com\", \"a.test\"]\n"),
        format!("{LISTED}[tls]\npassthrough = [\"a.test:443\"]\n") => [];
    passthrough_of_what_is_not_looked_into: ALL, format!("{ALL}[tls]\npassthrough = [\"a.test\"]\n") => [
        "? what is inside TLS to a.test is not seen (tls.passthrough)"];
    a_connection: rule("a.test", "scheme = \"tcp\"\nports = [22]"), rule("a.test", "scheme = \"any\"\nports = [22]") => [
        "? https://a.test:22/** with any method is permitted"];
    a_connection_that_is_looked_into: rule("a.test", "scheme = \"tcp\"\nports = [443]") + &rule("a.test", "methods = [\"GET\"]"),
        rule("a.test", "scheme = \"tcp\"\nports = [443]") => [
        "connections to a.test that are looked into elsewhere are passed on unread: POST https://a.test/policy-diff"];
}

const BOUND: &str = "[[header_bindings]]\nhost = \"a.test\"\nheader = \"X-Key\"\nsecret_name = \"K\"\n[secrets.K]\n";

#[test]
fn bindings_and_their_secrets() {
    let with = |source: &str| format!("{LISTED}{BOUND}{source}");
    let want = ["the secret K goes into the header x-key of requests to a.test (paths /…)"];
    assert_eq!(found(LISTED, &with("env = \"K\"")), want);
    assert_eq!(found("", &format!("{BOUND}env = \"K\"")), [format!("? {}", want[0])]);
    assert_eq!(found(&with("env = \"K\""), LISTED), Vec::<String>::new());
    assert_eq!(found(&with("env = \"K\""), &with("env = \"K\"")), Vec::<String>::new());
    assert_eq!(found(&with("env = \"K\""), &with("env = \"L\"")), ["the secret K comes from another source"]);
}

/// What a GitHub binding opens and judges is never passed over.
#[test]
fn github_bindings_are_compared_as_a_whole() {
    let with = |lines: &str| format!("[[header_bindings]]\nkind = \"github\"\n{lines}\n");
    let (one, two) = (with("repos = [\"acme/a\"]"), with("repos = [\"acme/a\"]\noptions = [\"merge\"]"));
    assert_eq!(found(&one, &one), Vec::<String>::new());
    let other =
        "? the binding to github.com is another one: compare its repos, access, options, projects, push and token";
    assert!(found(&one, &two).contains(&other.to_owned()), "{:?}", found(&one, &two));
    let opens = "a binding opens github.com for its repositories";
    assert!(found("", &one).contains(&opens.to_owned()), "{:?}", found("", &one));
    let unjudged = "? requests to github.com are not judged by a binding, where they are permitted";
    assert!(found(&one, "").contains(&unjudged.to_owned()), "{:?}", found(&one, ""));
}

/// What a client may do: a request, or a connection that nobody reads, to a name or by an address.
fn permits(policy: &Policy, destination: &Destination, method: &str, path: &str) -> bool {
    let question = match destination.scheme {
        Scheme::Tcp => Question::Connection(destination.clone()),
        Scheme::Https | Scheme::Http => Question::Request {
            destination: destination.clone(),
            method: method.to_owned(),
            path: path.to_owned(),
            query: None,
        },
    };
    let answers = destination
        .dialled
        .map_or(Ok(()), |ip| policy.check_addresses(&destination.authority, destination.scheme, &[ip], &[]).map(drop));
    question.ask(policy).is_ok() && answers.is_ok()
}

/// Whenever one random policy permits what another denies, something is found; what is said to be certain is so.
#[test]
fn nothing_that_is_more_is_missed() {
    let mut policies: Vec<(String, Compiled)> = Vec::new();
    let mut asked: Vec<(Destination, String, String)> = Vec::new();
    oracle::samples(300, 4, |text, _, RequestFacts { destination, method, path }| {
        if policies.last().is_none_or(|(known, _)| known != text) {
            policies.push((text.to_owned(), compiled("p", text)));
        }
        for dialled in [None, Some("9.9.9.9"), Some("1.1.1.1"), Some("9.9.8.1")] {
            let dialled = dialled.map(|ip| ip.parse().unwrap());
            let literal = matches!(destination.authority.host, Host::Ip(_));
            if dialled.is_none() || !literal {
                asked.push((
                    Destination { dialled, ..(*destination).clone() },
                    (*method).to_owned(),
                    (*path).to_owned(),
                ));
            }
        }
    });
    let (mut shown, mut certain) = (0, 0);
    for (index, (text, this)) in policies.iter().enumerate() {
        for step in [1, 7, 31] {
            let (other_text, other) = &policies[(index + step) % policies.len()];
            let findings = more(this, other);
            let differs = |(destination, method, path): &&(Destination, String, String)| {
                permits(&this.policy, destination, method, path) && !permits(&other.policy, destination, method, path)
            };
            if let Some(request) = asked.iter().find(differs) {
                shown += 1;
                assert!(!findings.is_empty(), "{request:?}\n--- permitted by\n{text}\n--- denied by\n{other_text}");
            }
            for example in findings.iter().filter_map(|more| more.example.as_ref()) {
                certain += 1;
                assert!(example.ask(&this.policy).is_ok() && example.ask(&other.policy).is_err(), "{example}");
            }
        }
    }
    assert!(shown > 300 && certain > 300, "{shown} {certain}");
    // A policy is never more than itself.
    for (text, policy) in &policies {
        assert_eq!(more(policy, policy), [], "{text}");
    }
}

#[test]
fn responses_that_are_not_searched_let_more_out() {
    let with = |scrub: &str| BOUND.replace("[secrets", &format!("scrub = {scrub}\n[secrets")) + "env = \"K\"";
    let want = ["the secret K goes into the header x-key of requests to a.test (paths /…), and responses can show it"];
    let found = |other: &str, this: &str| -> Vec<String> {
        found(&with(other), &with(this)).iter().map(|line| line.trim_start_matches("? ").to_owned()).collect()
    };
    assert_eq!(found("true", "false"), want);
    assert!(found("false", "true").is_empty() && found("false", "false").is_empty());
}
