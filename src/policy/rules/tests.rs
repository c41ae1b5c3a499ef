//! What rules decide: one row, one test. A row names the line of the rule that decided.

use super::super::compile::{NamedText, load};
use super::super::options::PolicyOptions;
use super::super::{Denial, Grant, Place, Policy};
use crate::types::{Authority, Destination, Host, HostName, RequestFacts, Scheme};

/// One rule a line, so that its line is its name: `allow|deny HOST [scheme=tcp] [ports=443,8443] [methods=GET] [paths=/v1/**]`. What
/// stands before an empty line is the policy's head, of one line.
fn policy(text: &str) -> Policy {
    let (head, rules) = text.trim().split_once("\n\n").unwrap_or(("", text.trim()));
    let head = head.replace("; ", "\n");
    let mut rows = String::new();
    for rule in rules.lines() {
        let mut words = rule.split_whitespace();
        rows += &format!("{{ action = \"{}\", host = \"{}\"", words.next().unwrap(), words.next().unwrap());
        for word in words {
            let (key, values) = word.split_once('=').unwrap();
            if key == "scheme" || values == "all" {
                rows += &format!(", {key} = \"{values}\"");
                continue;
            }
            let quoted = values.split(',').map(|v| if key == "ports" { v.to_owned() } else { format!("\"{v}\"") });
            rows += &format!(", {key} = [{}]", quoted.collect::<Vec<_>>().join(", "));
        }
        rows += " },\n";
    }
    let text = format!("network.rules = [\n{rows}]\n{head}");
    let file = NamedText { name: "p".to_owned(), text: text.clone() };
    load(&[file], &PolicyOptions::default()).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}")).policy
}

fn line(place: &Place) -> usize {
    match place {
        Place::File { line, .. } => line - 1,
        Place::Option { .. } => 0,
    }
}

/// `METHOD URL [by ADDRESS]`, or `METHOD URL *` for that target, to what decided.
fn ask(policy: &Policy, question: &str) -> String {
    let mut words = question.split(' ');
    let (method, url) = (words.next().unwrap(), words.next().unwrap());
    let asterisk = question.ends_with(" *");
    let dialled = words.nth(1).map(|address| address.parse().unwrap());
    let (scheme, rest) = url.split_once("://").unwrap();
    let (scheme, port) = match scheme {
        "https" => (Scheme::Https, 443),
        "http" => (Scheme::Http, 80),
        _ => (Scheme::Tcp, 443),
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if asterisk { "*" } else { path };
    let destination = Destination { authority: Authority::parse(host, port).unwrap(), scheme, dialled };
    let facts = RequestFacts { destination: &destination, method, path };
    let answer = policy.request(&facts);
    if let Err(denial) = policy.destination(&destination) {
        assert_eq!(answer.as_ref().err(), Some(&denial), "what closes the connection closes the request");
    }
    match answer {
        Ok(permit) => match permit.grant {
            Grant::Rule { place } => format!("rule {}", line(&place)),
            Grant::NetworkAll => "all".to_owned(),
            Grant::Host { .. } => "host".to_owned(),
            Grant::Egress { .. } => "egress".to_owned(),
            Grant::GitHub { .. } => "github".to_owned(),
        },
        Err(denial) => match denial.rule() {
            Some(place) => format!("{} {}", denial.code(), line(place)),
            None => denial.code().to_owned(),
        },
    }
}

macro_rules! decides {
    ($($name:ident: $policy:expr, $question:expr => $want:expr;)*) => { $(
        #[test]
        fn $name() {
            assert_eq!(ask(&policy($policy), $question), $want);
        }
    )* };
}

const NONE: &str = "network.mode = \"none\"\n\n";
const ONE: &str = "allow api.test";
const PATTERN: &str = "allow *.api.test";
const READ: &str = "allow api.test methods=GET,HEAD paths=/v1/**,/health";
const ALL: &str = "network.mode = \"all\"\n\ndeny evil.test\ndeny *.bad.test\ndeny odd.test ports=8443\ndeny 9.9.9.9\ndeny 2606:4700::9\ndeny only.test paths=/admin/**\ndeny verbs.test methods=DELETE,PUT";
const LISTED: &str = "network.mode = \"allow\"; network.hosts = [\"a.test\", \"b.test:8443\"]\n\ndeny a.test methods=DELETE\ndeny b.test\nallow c.test";
const NESTED: &str = "deny *.b.test\nallow a.b.test\nallow c.b.test";
const SPECIFIC: &str = "deny *.a.test\ndeny *.x.a.test\ndeny y.x.a.test\nallow z.test methods=GET\nallow *.z.test methods=GET\nallow w.z.test methods=POST";
const SEVERAL: &str = "allow a.test methods=GET paths=/read/**\nallow a.test methods=POST paths=/write/**\ndeny a.test paths=/read/secret/**,/write/secret";
const EGRESS: &str = "egress.mode = \"allow_all\"\n\ndeny evil.test\ndeny 9.9.9.9\nallow api.test methods=GET\ndeny deny.test methods=PUT";

const HTTP: &str = "allow a.test scheme=http\nallow *.a.test scheme=http ports=8080 methods=GET paths=/v1/**";
const TCP: &str =
    "allow db.test scheme=tcp ports=5432\nallow *.db.test scheme=tcp ports=all\nallow 9.9.9.9 scheme=tcp ports=22";
const ANY: &str = "allow a.test scheme=any ports=all\ndeny a.test scheme=tcp ports=25\ndeny a.test scheme=http paths=/admin/**\ndeny a.test ports=8443";

decides! {
    http: HTTP, "GET http://a.test/" => "rule 1";
    http_any_method: HTTP, "POST http://a.test/x" => "rule 1";
    http_is_not_https: HTTP, "GET https://a.test/" => "host_not_listed";
    http_is_not_https_on_its_port: HTTP, "GET https://a.test:80/" => "scheme_not_permitted";
    http_is_not_tcp: HTTP, "GET tcp://a.test:80" => "scheme_not_permitted";
    http_other_port: HTTP, "GET http://a.test:8080/" => "host_not_listed";
    http_pattern: HTTP, "GET http://x.a.test:8080/v1/b" => "rule 2";
    http_pattern_other_method: HTTP, "POST http://x.a.test:8080/v1/b" => "method_not_permitted 2";
    http_pattern_other_path: HTTP, "GET http://x.a.test:8080/v2" => "path_not_permitted 2";
    http_pattern_ambiguous_path: HTTP, "GET http://x.a.test:8080/v1/../x" => "ambiguous_path";
    http_pattern_not_on_80: HTTP, "GET http://x.a.test/v1/b" => "host_not_listed";
    http_beside_https_denied: "allow a.test scheme=http\ndeny a.test ports=443", "GET http://a.test/" => "rule 1";
    http_beside_all_denied: "allow a.test scheme=http\ndeny a.test", "GET http://a.test/" => "rule_denied 2";
    http_denied_by_scheme: "allow a.test scheme=any ports=all\ndeny a.test scheme=http", "GET http://a.test/" => "rule_denied 2";
    http_denied_leaves_https: "allow a.test scheme=any ports=all\ndeny a.test scheme=http", "GET https://a.test/" => "rule 1";
    http_dialled_for_a_denied_address: "allow a.test scheme=http\ndeny 9.9.9.9", "GET http://a.test/ by 9.9.9.9" => "rule_denied 2";
    http_beside_hosts: "network.mode = \"allow\"; network.hosts = [\"a.test\"]\n\nallow a.test scheme=http", "GET http://a.test/" => "rule 1";
    http_beside_hosts_https: "network.mode = \"allow\"; network.hosts = [\"a.test\"]\n\nallow a.test scheme=http", "GET https://a.test/" => "host";
    tcp: TCP, "GET tcp://db.test:5432" => "rule 1";
    tcp_other_port: TCP, "GET tcp://db.test:5433" => "host_not_listed";
    tcp_is_not_https: TCP, "GET https://db.test:5432/" => "scheme_not_permitted";
    tcp_is_not_http: TCP, "GET http://db.test:5432/" => "scheme_not_permitted";
    tcp_pattern_any_port: TCP, "GET tcp://x.db.test:1" => "rule 2";
    tcp_pattern_not_the_apex: TCP, "GET tcp://db.test:1" => "host_not_listed";
    tcp_address: TCP, "GET tcp://9.9.9.9:22" => "rule 3";
    tcp_address_spelled_oddly: TCP, "GET tcp://0x09090909:22" => "rule 3";
    tcp_address_other_port: TCP, "GET tcp://9.9.9.9:23" => "host_not_listed";
    tcp_denied: "allow db.test scheme=tcp ports=5432\ndeny db.test", "GET tcp://db.test:5432" => "rule_denied 2";
    tcp_denied_by_port: "allow *.db.test scheme=tcp ports=all\ndeny x.db.test ports=25", "GET tcp://x.db.test:25" => "rule_denied 2";
    tcp_under_all: ALL, "GET tcp://a.test:22" => "all";
    tcp_under_all_denied: ALL, "GET tcp://evil.test:22" => "rule_denied 1";
    tcp_under_all_denied_path_only: ALL, "GET tcp://only.test:22" => "all";
    http_under_all: ALL, "GET http://a.test/" => "all";
    http_under_all_denied: ALL, "GET http://evil.test/" => "rule_denied 1";
    any_https: ANY, "GET https://a.test:9443/" => "rule 1";
    any_http: ANY, "GET http://a.test:8080/" => "rule 1";
    any_tcp: ANY, "GET tcp://a.test:22" => "rule 1";
    any_tcp_denied: ANY, "GET tcp://a.test:25" => "rule_denied 2";
    any_http_denied_path: ANY, "GET http://a.test/admin/x" => "rule_denied 3";
    any_https_not_denied_path: ANY, "GET https://a.test/admin/x" => "rule 1";
    any_denied_port_tcp: ANY, "GET tcp://a.test:8443" => "rule_denied 4";
    any_denied_port_https: ANY, "GET https://a.test:8443/" => "rule_denied 4";
    nothing_else: ONE, "GET https://other.test/" => "host_not_listed";
    exact: ONE, "GET https://api.test/" => "rule 1";
    exact_upper_case: ONE, "GET https://API.Test./" => "rule 1";
    exact_any_path: ONE, "GET https://api.test/a/b?c" => "rule 1";
    exact_any_method: ONE, "PROPFIND https://api.test/" => "rule 1";
    exact_asterisk: ONE, "OPTIONS https://api.test *" => "rule 1";
    exact_not_below: ONE, "GET https://x.api.test/" => "host_not_listed";
    exact_not_above: ONE, "GET https://test/" => "host_not_listed";
    exact_other_port: ONE, "GET https://api.test:8443/" => "host_not_listed";
    exact_port_80: ONE, "GET https://api.test:80/" => "host_not_listed";
    exact_http: ONE, "GET http://api.test/" => "https_only";
    exact_http_443: ONE, "GET http://api.test:443/" => "https_only";
    exact_http_8080: ONE, "GET http://api.test:8080/" => "host_not_listed";
    exact_tcp: ONE, "GET tcp://api.test:443" => "https_only";
    exact_tcp_other_port: ONE, "GET tcp://api.test:22" => "host_not_listed";
    exact_ambiguous_path_is_not_looked_at: ONE, "GET https://api.test/a/../b" => "rule 1";
    mode_none_permits_what_rules_permit: &format!("{NONE}{ONE}"), "GET https://api.test/" => "rule 1";
    mode_none_permits_nothing_else: &format!("{NONE}{ONE}"), "GET https://other.test/" => "host_not_listed";
    pattern: PATTERN, "GET https://x.api.test/" => "rule 1";
    pattern_deep: PATTERN, "GET https://z.y.x.api.test/" => "rule 1";
    pattern_upper_case: PATTERN, "GET https://X.API.TEST/" => "rule 1";
    pattern_not_the_apex: PATTERN, "GET https://api.test/" => "host_not_listed";
    pattern_not_alike: PATTERN, "GET https://xapi.test/" => "host_not_listed";
    pattern_not_behind: PATTERN, "GET https://x.api.test.evil.test/" => "host_not_listed";
    pattern_not_an_address: PATTERN, "GET https://192.0.2.1/" => "host_not_listed";
    pattern_other_port: PATTERN, "GET https://x.api.test:8443/" => "host_not_listed";
    pattern_http: PATTERN, "GET http://x.api.test/" => "https_only";
    pattern_http_apex: PATTERN, "GET http://api.test/" => "host_not_listed";
    pattern_international: "allow *.b\u{fc}cher.test", "GET https://x.xn--bcher-kva.test/" => "rule 1";
    pattern_unlike_address_in_name: "allow *.2.test", "GET https://192.0.2.test/" => "rule 1";
    ports: "allow a.test ports=8443,9443", "GET https://a.test:9443/" => "rule 1";
    ports_not_443: "allow a.test ports=8443,9443", "GET https://a.test/" => "host_not_listed";
    ports_http_80_is_told: "allow a.test ports=8443", "GET http://a.test/" => "https_only";
    ports_of_80_over_https: "allow a.test ports=80", "GET https://a.test:80/" => "rule 1";
    ports_of_80_over_http: "allow a.test ports=80", "GET http://a.test/" => "https_only";
    address: "allow 203.0.114.7", "GET https://203.0.114.7/" => "rule 1";
    address_spelled_oddly: "allow 203.0.114.7", "GET https://0xcb007207/" => "rule 1";
    address_other: "allow 203.0.114.7", "GET https://203.0.114.8/" => "host_not_listed";
    address_dialled_for_another_name: "allow 203.0.114.7", "GET https://x.test/ by 203.0.114.7" => "host_not_listed";
    address_v6: "allow 2606:4700::1", "GET https://[2606:4700:0::1]/" => "rule 1";
    local: ONE, "GET https://localhost/" => "local_name";
    method: READ, "GET https://api.test/v1/x" => "rule 1";
    method_second: READ, "HEAD https://api.test/v1/x" => "rule 1";
    method_other: READ, "POST https://api.test/v1/x" => "method_not_permitted 1";
    method_in_small_letters: READ, "get https://api.test/v1/x" => "method_not_permitted 1";
    method_begins_alike: READ, "GETX https://api.test/v1/x" => "method_not_permitted 1";
    path: READ, "GET https://api.test/health" => "rule 1";
    path_none_of_the_stars: READ, "GET https://api.test/v1" => "rule 1";
    path_slash: READ, "GET https://api.test/v1/" => "rule 1";
    path_escaped: READ, "GET https://api.test/%761/x" => "rule 1";
    path_escaped_inside: READ, "GET https://api.test/%68ealth" => "rule 1";
    path_other: READ, "GET https://api.test/v2/x" => "path_not_permitted 1";
    path_begins_alike: READ, "GET https://api.test/v1x" => "path_not_permitted 1";
    path_root: READ, "GET https://api.test/" => "path_not_permitted 1";
    path_capitals: READ, "GET https://api.test/V1/x" => "path_not_permitted 1";
    path_asterisk: READ, "GET https://api.test *" => "path_not_permitted 1";
    path_and_method_other: READ, "POST https://api.test/v2" => "path_not_permitted 1";
    path_dots: READ, "GET https://api.test/v1/../admin" => "ambiguous_path";
    path_dots_encoded: READ, "GET https://api.test/v1/%2e%2e/admin" => "ambiguous_path";
    path_slash_encoded: READ, "GET https://api.test/v1%2fx" => "ambiguous_path";
    path_parameter: READ, "GET https://api.test/v1;x/y" => "ambiguous_path";
    path_backslash: READ, "GET https://api.test/v1\\x" => "ambiguous_path";
    path_repeated_slash: READ, "GET https://api.test/v1//x" => "ambiguous_path";
    path_repeated_slash_first: READ, "GET https://api.test//v1/x" => "ambiguous_path";
    path_double_encoding: READ, "GET https://api.test/v1/%252e%252e" => "ambiguous_path";
    path_nul: READ, "GET https://api.test/v1/%00" => "ambiguous_path";
    path_other_port: READ, "GET https://api.test:8443/v1/../x" => "host_not_listed";
    path_http: READ, "GET http://api.test/v1/x" => "https_only";
    every_path_is_no_path: "allow a.test paths=/**", "GET https://a.test/x/../y" => "rule 1";
    deny_name: ALL, "GET https://evil.test/" => "rule_denied 1";
    deny_name_every_port: ALL, "GET https://evil.test:8443/" => "rule_denied 1";
    deny_name_upper_case: ALL, "GET https://EVIL.test./" => "rule_denied 1";
    deny_name_http: ALL, "GET http://evil.test/" => "rule_denied 1";
    deny_name_tcp: ALL, "GET tcp://evil.test:22" => "rule_denied 1";
    deny_name_not_below: ALL, "GET https://x.evil.test/" => "all";
    deny_pattern: ALL, "GET https://x.bad.test/" => "rule_denied 2";
    deny_pattern_deep: ALL, "GET https://y.x.bad.test/" => "rule_denied 2";
    deny_pattern_not_the_apex: ALL, "GET https://bad.test/" => "all";
    deny_port: ALL, "GET https://odd.test:8443/" => "rule_denied 3";
    deny_port_not_others: ALL, "GET https://odd.test/" => "all";
    deny_address: ALL, "GET https://9.9.9.9/" => "rule_denied 4";
    deny_address_spelled_oddly: ALL, "GET https://0x9090909/" => "rule_denied 4";
    deny_address_mapped: ALL, "GET https://[::ffff:9.9.9.9]/" => "rule_denied 4";
    deny_address_dialled: ALL, "GET https://x.test/ by 9.9.9.9" => "rule_denied 4";
    deny_address_v6: ALL, "GET https://[2606:4700::9]/" => "rule_denied 5";
    deny_path: ALL, "GET https://only.test/admin/x" => "rule_denied 6";
    deny_path_itself: ALL, "GET https://only.test/admin" => "rule_denied 6";
    deny_path_slash: ALL, "GET https://only.test/admin/" => "rule_denied 6";
    deny_path_escaped: ALL, "GET https://only.test/%61dmin" => "rule_denied 6";
    deny_path_not_others: ALL, "GET https://only.test/admins" => "all";
    deny_path_asterisk: ALL, "OPTIONS https://only.test *" => "all";
    deny_path_dots: ALL, "GET https://only.test/x/../admin" => "ambiguous_path";
    deny_path_repeated_slash: ALL, "GET https://only.test//admin" => "ambiguous_path";
    deny_path_other_port: ALL, "GET https://only.test:8443/admin" => "rule_denied 6";
    deny_path_http: ALL, "GET http://only.test/admin" => "rule_denied 6";
    deny_method: ALL, "DELETE https://verbs.test/" => "rule_denied 7";
    deny_method_second: ALL, "PUT https://verbs.test/" => "rule_denied 7";
    deny_method_in_small_letters: ALL, "delete https://verbs.test/" => "rule_denied 7";
    deny_method_not_others: ALL, "POST https://verbs.test/" => "all";
    not_denied: ALL, "GET https://fine.test/" => "all";
    listed: LISTED, "GET https://a.test/" => "host";
    listed_and_denied_method: LISTED, "DELETE https://a.test/" => "rule_denied 1";
    listed_and_denied: LISTED, "GET https://b.test:8443/" => "rule_denied 2";
    listed_beside_a_rule: LISTED, "GET https://c.test/" => "rule 3";
    listed_and_nothing_else: LISTED, "GET https://d.test/" => "host_not_listed";
    denied_and_not_listed: LISTED, "GET https://b.test/" => "rule_denied 2";
    deny_beats_a_narrower_allow: NESTED, "GET https://a.b.test/" => "rule_denied 1";
    deny_beats_a_later_allow: NESTED, "GET https://c.b.test/" => "rule_denied 1";
    deny_beats_an_earlier_allow: "allow a.test\ndeny a.test", "GET https://a.test/" => "rule_denied 2";
    most_specific_deny: SPECIFIC, "GET https://b.a.test/" => "rule_denied 1";
    most_specific_deny_longer: SPECIFIC, "GET https://b.x.a.test/" => "rule_denied 2";
    most_specific_deny_exact: SPECIFIC, "GET https://y.x.a.test/" => "rule_denied 3";
    most_specific_miss: SPECIFIC, "PUT https://w.z.test/" => "method_not_permitted 6";
    wider_allow_counts: SPECIFIC, "GET https://w.z.test/" => "rule 5";
    narrower_allow_counts: SPECIFIC, "POST https://w.z.test/" => "rule 6";
    apex_has_its_own: SPECIFIC, "POST https://z.test/" => "method_not_permitted 4";
    several_read: SEVERAL, "GET https://a.test/read/x" => "rule 1";
    several_write: SEVERAL, "POST https://a.test/write/x" => "rule 2";
    several_crossed: SEVERAL, "POST https://a.test/read/x" => "method_not_permitted 1";
    several_crossed_back: SEVERAL, "GET https://a.test/write/x" => "method_not_permitted 2";
    several_elsewhere: SEVERAL, "GET https://a.test/x" => "path_not_permitted 1";
    several_denied: SEVERAL, "GET https://a.test/read/secret/x" => "rule_denied 3";
    several_denied_second_path: SEVERAL, "POST https://a.test/write/secret" => "rule_denied 3";
    several_denied_below_plain: SEVERAL, "POST https://a.test/write/secret/x" => "rule 2";
    egress: EGRESS, "GET https://x.test/ by 8.8.8.8" => "egress";
    egress_denied_by_name: EGRESS, "GET https://evil.test/ by 8.8.8.8" => "rule_denied 1";
    egress_denied_by_address: EGRESS, "GET https://9.9.9.9/ by 9.9.9.9" => "rule_denied 2";
    egress_denied_by_dialled_address: EGRESS, "GET https://x.test/ by 9.9.9.9" => "rule_denied 2";
    egress_denied_method: EGRESS, "PUT https://deny.test/ by 8.8.8.8" => "rule_denied 4";
    egress_beside_a_method: EGRESS, "POST https://api.test/ by 8.8.8.8" => "egress";
    rule_before_egress: EGRESS, "GET https://api.test/ by 8.8.8.8" => "rule 3";
    rule_without_egress: EGRESS, "POST https://api.test/" => "method_not_permitted 3";
}

fn resolves(policy: &Policy, name: &str) -> bool {
    policy.may_resolve(&HostName::parse(name).unwrap())
}

macro_rules! resolves {
    ($($name:ident: $policy:expr, $host:expr => $want:expr;)*) => { $(
        #[test]
        fn $name() {
            assert_eq!(resolves(&policy($policy), $host), $want);
        }
    )* };
}

resolves! {
    resolves_what_a_rule_permits: ONE, "api.test" => true;
    resolves_what_a_rule_permits_in_part: READ, "api.test" => true;
    resolves_nothing_else: ONE, "x.api.test" => false;
    resolves_below_a_pattern: PATTERN, "y.x.api.test" => true;
    resolves_no_apex_of_a_pattern: PATTERN, "api.test" => false;
    resolves_on_another_port: "allow a.test ports=8443", "a.test" => true;
    resolves_no_closed_name: ALL, "evil.test" => false;
    resolves_nothing_below_a_closed_pattern: ALL, "x.bad.test" => false;
    resolves_what_is_closed_on_one_port: ALL, "odd.test" => true;
    resolves_what_is_denied_in_part: ALL, "only.test" => true;
    resolves_no_listed_name_that_is_closed: LISTED, "b.test" => false;
    resolves_no_listed_name_that_is_closed_on_its_ports: "network.mode = \"allow\"; network.hosts = [\"a.test\"]\n\ndeny a.test ports=443", "a.test" => false;
    resolves_a_listed_name_that_is_closed_on_another_port: "network.mode = \"allow\"; network.hosts = [\"a.test\"]\n\ndeny a.test ports=8443", "a.test" => true;
    resolves_no_allowed_name_that_is_closed: "allow a.test\ndeny a.test", "a.test" => false;
    resolves_no_allowed_name_that_is_closed_on_its_ports: "allow b.a.test ports=443,8443\ndeny *.a.test ports=443,8443", "b.a.test" => false;
    resolves_an_allowed_name_that_is_closed_on_one_port: "allow a.test ports=443,8443\ndeny a.test ports=443", "a.test" => true;
    resolves_what_a_wider_rule_permits: "allow *.a.test\ndeny x.a.test ports=8443", "x.a.test" => true;
    resolves_no_local_name: "network.mode = \"all\"\n\nallow a.test", "localhost" => false;
}

/// A name that leads to an address which a rule closes is closed with it, whatever else it leads to.
#[test]
fn answers_are_checked_against_deny_rules() {
    let policy = policy(ALL);
    let authority = Authority::parse("x.test", 443).unwrap();
    let check = |answers: &[&str]| {
        let answers: Vec<_> = answers.iter().map(|answer| answer.parse().unwrap()).collect();
        policy.check_addresses(&authority, Scheme::Https, &answers, &[]).map_err(|denial| denial.code())
    };
    assert!(check(&["8.8.8.8"]).is_ok());
    assert_eq!(check(&["9.9.9.9"]), Err("rule_denied"));
    assert_eq!(check(&["8.8.8.8", "::ffff:9.9.9.9"]), Err("rule_denied"));
    assert_eq!(check(&["10.0.0.1"]), Err("address_blocked"));
    let denial = policy.check_addresses(&authority, Scheme::Https, &["9.9.9.9".parse().unwrap()], &[]).unwrap_err();
    assert!(matches!(denial, Denial::RuleDenied { authority: named, .. } if named == authority), "no address is named");
}

#[test]
fn ports_of_allow_rules_are_listened_on() {
    let policy = policy("allow a.test ports=8443,9443\ndeny b.test ports=1234\nallow c.test");
    assert_eq!(policy.ports(), [80, 443, 8443, 9443]);
}

/// The rules of a host, however many others there are.
#[test]
fn of_host_finds_exact_then_longest_pattern() {
    let policy = policy("allow *.test.x\nallow b.a.test.x\nallow *.a.test.x\nallow b.a.test.x ports=1\nallow other.x");
    let host = Host::parse("b.a.test.x").unwrap();
    let lines: Vec<_> = policy.rules().of_host(&host).map(|rule| line(rule.place())).collect();
    assert_eq!(lines, [2, 4, 3, 1]);
}
