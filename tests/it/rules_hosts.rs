//! Rules over the wire: which hosts, ports and addresses they open and close.

use serde_json::json;

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::rules::{WAYS, targets, with_rules};
use crate::table::{all_are, program};

cases![
    a_denied_name_is_never_looked_up,
    deny_beats_every_grant,
    a_pattern_is_for_what_stands_below_it,
    rules_open_ports,
    a_denied_address_is_not_reached_by_a_name,
];

/// It gets the address of a refused name, so that the refusal can be read, over TLS that the client trusts.
fn a_denied_name_is_never_looked_up() {
    let rules = r#"
[network]
mode = "all"

[[network.rules]]
host = "gone.unseen.test"
action = "deny"

[[network.rules]]
host = "*.below.unseen.test"
action = "deny"
"#;
    let code = r#"
told = []
for name in ["gone.unseen.test", "GONE.unseen.test.", "x.below.unseen.test", "y.x.below.unseen.test"]:
    told += [[f"dns {name}", dns_udp(question(name, 1))["addresses"][0].startswith("198.18.")]]
    host = name.lower().rstrip(".")
    got = ask(tls(socket.create_connection((host, 443)), host, verify=True), "GET / HTTP/1.1", f"Host: {host}")
    told += [[f"tls {name}", got[:2]]]
    told += [[f"connect {name}", connect(name)[:2]], [f"connect {name} 8443", connect(name, 8443)[:2]]]
    told += [[f"http {name}", through_proxy(f"http://{host}/", host)[:2]]]
tell(told)
"#;
    let (told, _) = program(with_rules(rules), code);
    all_are(&told, |case| if case.starts_with("dns") { json!(true) } else { json!([403, "rule_denied"]) });
    assert!(internet().dns.queries_containing("unseen").is_empty());
    assert!(internet().web.requests_with("unseen").is_empty());
}

/// `--allow`, `network.hosts` and an address that egress permits.
fn deny_beats_every_grant() {
    let rules = r#"
[network]
mode = "allow"
hosts = ["listed.beaten.test"]

[egress]
mode = "allow_all"

[[network.rules]]
host = "*.beaten.test"
action = "deny"

[[network.rules]]
host = "allowed.beaten.test"
action = "allow"
"#;
    let code = r#"
told = []
for host in ["listed.beaten.test", "option.beaten.test", "allowed.beaten.test"]:
    told += [[f"connect {host}", connect(host)[:2]]]
    told += [[f"transparent {host}", ask(tls(socket.create_connection((host, 443)), host), "GET / HTTP/1.1", f"Host: {host}")[:2]]]
    told += [[f"address {host}", ask(tls(socket.create_connection(("11.22.33.9", 443)), host), "GET / HTTP/1.1", f"Host: {host}")[:2]]]
    told += [[f"h2 {host}", [h2(tls(socket.create_connection(("11.22.33.9", 443)), host, "h2"), [h2_get(host)])[0], "rule_denied"]]]
tell(told)
"#;
    let (told, output) = program(with_rules(rules).allow("option.beaten.test"), code);
    all_are(&told, |_| json!([403, "rule_denied"]));
    output.expect_stderr("listed.beaten.test is listed in vain").expect_stderr("option.beaten.test is listed in vain");
    assert!(internet().web.requests_with("beaten").is_empty());
    assert!(internet().dns.queries_containing("beaten").is_empty());
}

fn a_pattern_is_for_what_stands_below_it() {
    let rules = "[network]\nmode = \"none\"\n[[network.rules]]\nhost = \"*.star.allowed.test\"\naction = \"allow\"\n";
    let code = r#"
told = []
for host in ["a.star.allowed.test", "b.a.star.allowed.test", "star.allowed.test", "xstar.allowed.test", "a.star.allowed.test.evil.test"]:
    for way, reach in WAYS.items():
        got = reach(host)
        got = got if isinstance(got, list) else ask(tls(got, host), "GET /x HTTP/1.1", f"Host: {host}")
        told += [[host, got[:2]]]
tell(told)
"#;
    let (told, output) = program(with_rules(rules), &format!("{WAYS}{code}"));
    all_are(&told, |host| {
        if host.ends_with("a.star.allowed.test") { json!([200, null]) } else { json!([403, "host_not_listed"]) }
    });
    output.expect_stderr("to allow it: [[network.rules]] with host = \"star.allowed.test\", action = \"allow\"");
    assert!(!output.stderr.contains("--allow"), "the file fixes the mode: {}", output.stderr);
    assert_eq!(targets("a.star.allowed.test").len() + targets("b.a.star.allowed.test").len(), 4);
    assert!(targets("star.allowed.test").is_empty() && targets("xstar.allowed.test").is_empty());
}

fn rules_open_ports() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
    let script = vec![Step::ReadHead, Step::Send(answer), Step::Close];
    let upstream = RawTls::start("11.22.44.219:8443", script.clone());
    let other = RawTls::start("11.22.44.219:443", script);
    internet().dns.set("ports.rules.test", &["11.22.44.219"]);
    let rules = "[[network.rules]]\nhost = \"ports.rules.test\"\naction = \"allow\"\nports = [8443, 9443]\n\
                 [[network.rules]]\nhost = \"ports.rules.test\"\naction = \"deny\"\nports = [9443]\n";
    let code = r#"
host = "ports.rules.test"
told = []
for port in [8443, 443, 9443]:
    for way, reach in WAYS.items():
        got = reach(host, port)
        got = got if isinstance(got, list) else ask(tls(got, host), "GET / HTTP/1.1", f"Host: {host}:{port}" if port != 443 else f"Host: {host}")
        told += [[str(port), got[:2]]]
tell(told)
"#;
    let (told, _) = program(with_rules(rules), &format!("{WAYS}{code}"));
    all_are(&told, |port| match port {
        "8443" => json!([200, null]),
        "443" => json!([403, "host_not_listed"]),
        _ => json!([403, "rule_denied"]),
    });
    assert_eq!((upstream.requests("GET"), other.requests("GET")), (2, 0));
}

/// The sandbox learns that a rule closes the name, not the address that it leads to.
fn a_denied_address_is_not_reached_by_a_name() {
    internet().dns.set("leads.rules.test", &["11.22.33.10"]);
    let rules = "[network]\nmode = \"all\"\n[[network.rules]]\nhost = \"11.22.33.10\"\naction = \"deny\"\nreason = \"not that machine\"\n";
    let code = r#"
told = []
host = "leads.rules.test"
for way, reach in WAYS.items():
    got = ask(tls(reach(host), host), "GET / HTTP/1.1", f"Host: {host}")
    told += [[way, [*got[:2], "not that machine" in got[2], "11.22" in got[2]]]]
got = connect("11.22.33.10")
told += [["address", [*got[:2], "not that machine" in got[2], False]]]
got = ask(tls(socket.create_connection(("11.22.33.10", 443)), "other.rules.test"), "GET / HTTP/1.1", "Host: other.rules.test")
told += [["dialled", [*got[:2], "not that machine" in got[2], False]]]
tell(told)
"#;
    let (told, _) = program(with_rules(rules), &format!("{WAYS}{code}"));
    all_are(&told, |_| json!([403, "rule_denied", true, false]));
    assert!(targets("leads.rules.test").is_empty() && targets("other.rules.test").is_empty());
}
