//! Rules in a policy file: what is wrong with them, and what is probably not meant.

use super::*;

mistakes! {
    rule_without_fields: "[[network.rules]]\nhosts = \"a.test\"" => [
        "dir/p.toml:1:1: the rule has no `host`\n  hint: add host = \"…\"",
        "dir/p.toml:1:1: the rule has no `action`\n  hint: add action = \"allow\" or action = \"deny\"",
        "dir/p.toml:2:1: unknown key \"network.rules.hosts\"\n  hint: did you mean `host`?"];
    every_bad_part_of_a_rule_at_once: "[[network.rules]]\nhost = \"*.com\"\naction = \"alow\"\nports = [0, 443, 70000, \"1\"]\nscheme = \"https\"\nmethods = [\"G T\", \"CONNECT\", \"trace\"]\npaths = [\"v1\", \"/a*\", \"/a/../b\"]\nreason = \"a\\u001bb\"" => [
        "dir/p.toml:2:8: \"*.com\": `*.com` is every name of a top-level domain\n  hint: name a domain below it, such as *.example.com",
        "dir/p.toml:3:10: \"alow\" is not a value of `action`\n  hint: did you mean `allow`?",
        "dir/p.toml:4:10: it is no port\n  hint: write numbers from 1 to 65535, such as ports = [443, 8443]",
        "dir/p.toml:4:18: it is no port\n  hint: write numbers from 1 to 65535, such as ports = [443, 8443]",
        "dir/p.toml:4:25: it is no port\n  hint: write numbers from 1 to 65535, such as ports = [443, 8443]",
        "dir/p.toml:6:12: \"G T\": it is no method\n  hint: write one such as GET or POST",
        "dir/p.toml:6:19: \"CONNECT\": CONNECT asks for a connection, which the rules for its host judge\n  hint: name the methods that are used inside it",
        "dir/p.toml:6:30: \"trace\": TRACE is refused everywhere, so no rule is asked about it\n  hint: take it out",
        "dir/p.toml:7:10: \"v1\": a path begins with `/`\n  hint: write it so, such as /v1/**",
        "dir/p.toml:7:16: \"/a*\": `*` and `**` stand for whole segments\n  hint: write /v1/* or /v1/**, or a star that is meant as itself as %2A",
        "dir/p.toml:7:23: \"/a/../b\": the path is ambiguous: a dot segment\n  hint: write it plainly, such as /v1/**",
        "dir/p.toml:8:10: \"a\\u{1b}b\": the reason holds a character that is not shown\n  hint: write plain text"];
    rule_for_tcp_without_ports: "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nscheme = \"tcp\"" => [
        "dir/p.toml:1:1: an allow rule for this scheme needs `ports`\n  hint: add ports, such as ports = [5432], or ports = \"all\""];
    rule_for_any_scheme_without_ports: "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nscheme = \"any\"" => [
        "dir/p.toml:1:1: an allow rule for this scheme needs `ports`\n  hint: add ports, such as ports = [5432], or ports = \"all\""];
    rule_for_tcp_with_paths: "[[network.rules]]\nhost = \"a.test\"\naction = \"deny\"\nscheme = \"tcp\"\npaths = [\"/v1\"]" => [
        "dir/p.toml:1:1: tcp has neither methods nor paths\n  hint: take them out, or write scheme = \"https\" or scheme = \"http\""];
    rule_for_any_scheme_with_methods: "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nscheme = \"any\"\nports = [443]\nmethods = [\"GET\"]" => [
        "dir/p.toml:1:1: tcp has neither methods nor paths\n  hint: take them out, or write scheme = \"https\" or scheme = \"http\""];
    rule_for_any_port_by_another_word: "[[network.rules]]\nhost = \"a.test\"\naction = \"deny\"\nports = \"any\"" => [
        "dir/p.toml:4:9: `ports` cannot be of type string\n  hint: it takes a list of numbers, such as [443], or \"all\""];
    passthrough_beside_a_binding: "[tls]\npassthrough = [\"*.a.test\", \"b.test:8443\"]\n[[header_bindings]]\nhost = \"x.a.test\"\nheader = \"X\"\nsecret_name = \"K\"\n[[header_bindings]]\nhost = \"b.test\"\nheader = \"X\"\nsecret_name = \"K\"\n[secrets.K]\nenv = \"K\"" => [
        "dir/p.toml:2:16: there is a binding for x.a.test at dir/p.toml:3:1\n  hint: take the host out of `tls.passthrough`, whose connections nobody looks into"];
    passthrough_beside_rules_that_look: "[tls]\npassthrough = [\"a.test\", \"b.test\", \"c.test:8443\"]\n[[network.rules]]\nhost = \"*.test\"\naction = \"deny\"\n[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\npaths = [\"/v1/**\"]\n[[network.rules]]\nhost = \"b.test\"\naction = \"deny\"\nmethods = [\"PUT\"]\n[[network.rules]]\nhost = \"c.test\"\naction = \"allow\"\nmethods = [\"GET\"]" => [
        "dir/p.toml:2:16: the rule at dir/p.toml:6:1 looks at requests to a.test\n  hint: take the host out of `tls.passthrough`, whose connections nobody looks into",
        "dir/p.toml:2:26: the rule at dir/p.toml:10:1 looks at requests to b.test\n  hint: take the host out of `tls.passthrough`, whose connections nobody looks into",
        "dir/p.toml:4:8: \"*.test\": `*.test` is every name of a top-level domain\n  hint: name a domain below it, such as *.example.test"];
    passthrough_of_no_host: "[tls]\npassthrough = [\"*\", \"a.test:0\", \"a.test/x\"]" => [
        "dir/p.toml:2:16: \"*\": a bare `*` is every host\n  hint: name the hosts, such as api.example.com or *.example.com",
        "dir/p.toml:2:21: \"a.test:0\": the port is not a number from 1 to 65535\n  hint: write a host such as api.example.com or *.example.com",
        "dir/p.toml:2:33: \"a.test/x\": a rule's host has no path\n  hint: write the host alone, and paths under `paths`"];
    unknown_key_of_tls: "[tls]\npass = [\"a.test\"]" => [
        "dir/p.toml:2:1: unknown key \"tls.pass\"\n  hint: known here: passthrough"];
    rule_for_another_scheme: "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nscheme = \"htps\"" => [
        "dir/p.toml:4:10: \"htps\" is not a value of `scheme`\n  hint: did you mean `https`?"];
    rule_with_a_bare_star: "[[network.rules]]\nhost = \"*\"\naction = \"deny\"" => [
        "dir/p.toml:2:8: \"*\": a bare `*` is every host\n  hint: name the hosts, such as api.example.com or *.example.com"];
    name_with_an_address_to_open: "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nopens_address = true" => [
        "dir/p.toml:4:17: `opens_address` is for a rule whose host is an address\n  hint: take it out, and permit the addresses of a name by `egress.allow_cidrs` or --allow-cidr"];
    deny_rule_that_opens: "[[network.rules]]\nhost = \"10.0.0.1\"\naction = \"deny\"\nopens_address = true" => [
        "dir/p.toml:4:17: a deny rule opens nothing\n  hint: take `opens_address` out"];
    opens_address_of_wrong_type: "[[network.rules]]\nhost = \"10.0.0.1\"\naction = \"allow\"\nopens_address = 1" => [
        "dir/p.toml:4:17: `opens_address` cannot be of type integer\n  hint: it takes true or false"];
    rule_for_a_public_suffix: "[[network.rules]]\nhost = \"*.co.uk\"\naction = \"allow\"" => [
        "dir/p.toml:2:8: \"*.co.uk\": anybody can register a name below co.uk\n  hint: name a domain below it, such as *.example.co.uk"];
    rule_with_a_port_in_its_host: "[[network.rules]]\nhost = \"a.test:8443\"\naction = \"allow\"" => [
        "dir/p.toml:2:8: \"a.test:8443\": a rule's host has no port\n  hint: write the host alone, and ports under `ports`"];
    rules_of_wrong_type: "[network]\nrules = \"a.test\"" => [
        "dir/p.toml:2:9: `network.rules` cannot be of type string\n  hint: it takes tables, each under [[network.rules]]"];
    rule_of_wrong_type: "[network]\nrules = [\"a.test\"]" => [
        "dir/p.toml:2:10: `network.rules` cannot be of type string\n  hint: it takes tables, each under [[network.rules]]"];
    ports_of_wrong_type: "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nports = 443" => [
        "dir/p.toml:4:9: `ports` cannot be of type integer\n  hint: it takes a list of numbers, such as [443], or \"all\""];
    methods_of_wrong_type: "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nmethods = \"GET\"" => [
        "dir/p.toml:4:11: `methods` cannot be of type string\n  hint: it takes a list of texts: [\"…\"]"];
    mode_allow_with_rules_needs_hosts: "[network]\nmode = \"allow\"\n[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"" => [
        "dir/p.toml:2:8: mode \"allow\" needs at least one host\n  hint: add hosts = [\"api.example.com\"] or --allow HOST; mode = \"none\" permits no host"];
}

#[test]
fn a_reason_is_short() {
    let text = |reason: &str| format!("[[network.rules]]\nhost = \"a.test\"\naction = \"deny\"\nreason = \"{reason}\"");
    assert!(load(&[file(&text(&"\u{e4}".repeat(200)))], &PolicyOptions::default()).is_ok());
    for (reason, what) in
        [("x".repeat(201), "longer than 200"), ("a\\nb".into(), "not shown"), ("\u{202e}".into(), "not shown")]
    {
        let mistakes = load(&[file(&text(&reason))], &PolicyOptions::default()).unwrap_err();
        assert!(mistakes.as_slice()[0].what.contains(what), "{mistakes}");
    }
}

/// One row, one test: the rules of a file, one a line from line 2 on, and exactly the warnings.
macro_rules! warns {
    ($($name:ident: $head:expr, [$($rule:expr),*] => [$($want:expr),* $(,)?];)*) => { $(
        #[test]
        fn $name() {
            let rules: Vec<String> = [$($rule),*].iter().map(|rule| format!("{{ host = {rule} }},\n")).collect();
            let compiled = compile(&format!("network.rules = [\n{}]\n{}", rules.concat(), $head));
            let want: &[&str] = &[$($want),*];
            assert_eq!(warnings(&compiled), want);
        }
    )* };
}

const ALLOW: &str = "action = \"allow\"";

warns! {
    no_warning: "", [r#""a.test", action = "allow", methods = ["GET"]"#, r#""a.test", action = "deny", paths = ["/admin/**"]"#] => [];
    duplicate: "", [r#""a.test", action = "allow""#, r#""A.test.", action = "allow", ports = [443]"#] => [
        "dir/p.toml:3:1: warning: this rule says what the one at dir/p.toml:2:1 says"];
    duplicate_deny: "", [r#""a.test", action = "deny", reason = "x""#, r#""a.test", action = "deny", reason = "y""#] => [
        "dir/p.toml:3:1: warning: this rule says what the one at dir/p.toml:2:1 says"];
    allow_under_a_deny: "", [r#""a.test", action = "allow", paths = ["/v1/**"]"#, r#""a.test", action = "deny""#] => [
        "dir/p.toml:2:1: warning: this rule permits nothing: the deny rule at dir/p.toml:3:1 covers it"];
    allow_under_a_deny_for_a_pattern: "", [r#""*.x.a.test", action = "allow""#, r#""*.a.test", action = "deny", ports = [443, 8443]"#] => [
        "dir/p.toml:2:1: warning: this rule permits nothing: the deny rule at dir/p.toml:3:1 covers it"];
    allow_under_a_deny_of_its_methods: "", [r#""a.test", action = "allow", methods = ["PUT"]"#, r#""a.test", action = "deny", methods = ["put", "DELETE"]"#] => [
        "dir/p.toml:2:1: warning: this rule permits nothing: the deny rule at dir/p.toml:3:1 covers it"];
    allow_under_a_deny_of_its_paths: "", [r#""a.test", action = "allow", paths = ["/v1/x", "/v1/*/y"]"#, r#""a.test", action = "deny", paths = ["/v1/**"]"#] => [
        "dir/p.toml:2:1: warning: this rule permits nothing: the deny rule at dir/p.toml:3:1 covers it"];
    allow_beside_a_deny: "", [r#""a.test", action = "allow", ports = [443, 8443]"#, r#""a.test", action = "deny", ports = [443]"#] => [];
    allow_under_a_wider_allow: "", [r#""x.a.test", action = "allow", methods = ["GET"]"#, r#""*.a.test", action = "allow""#] => [
        "dir/p.toml:2:1: warning: the rule at dir/p.toml:3:1 permits all of it already"];
    deny_under_a_wider_deny: "", [r#""x.a.test", action = "deny""#, r#""*.a.test", action = "deny""#] => [
        "dir/p.toml:2:1: warning: the rule at dir/p.toml:3:1 denies all of it already"];
    deny_with_a_reason_of_its_own: "", [r#""x.a.test", action = "deny", reason = "x""#, r#""*.a.test", action = "deny""#] => [];
    allow_of_a_listed_host: "network.mode = \"allow\"\nnetwork.hosts = [\"a.test\"]", [r#""a.test", action = "allow", methods = ["GET"]"#] => [
        "dir/p.toml:2:1: warning: this rule changes nothing: `network.hosts` permits a.test whole; take the host out of `hosts` to have the rule decide"];
    allow_of_a_listed_host_on_another_port: "network.mode = \"allow\"\nnetwork.hosts = [\"a.test\"]", [r#""a.test", action = "allow", ports = [443, 8443]"#] => [];
    allow_under_mode_all: "network.mode = \"all\"", [r#""a.test", action = "allow", methods = ["GET"]"#] => [
        "dir/p.toml:2:1: warning: this rule changes nothing: network mode all permits every host whole"];
    host_listed_in_vain: "network.mode = \"allow\"\nnetwork.hosts = [\"a.test\", \"b.test\"]", [r#""a.test", action = "deny""#] => [
        "dir/p.toml:5:18: warning: a.test is listed in vain: the deny rule at dir/p.toml:2:1 closes it"];
    method_in_small_letters: "", [r#""a.test", action = "allow", methods = ["get"]"#] => [
        "dir/p.toml:2:49: warning: methods are compared letter by letter, and clients send GET, not get"];
    methods_beside_egress: "egress.mode = \"allow_all\"", [r#""a.test", action = "allow", methods = ["GET"]"#, r#""b.test", action = "allow""#, r#""c.test", action = "deny", methods = ["GET"]"#] => [
        "dir/p.toml:2:1: warning: egress permits every address, so a client that dials one for this host is not held to the methods and paths of this rule; a deny rule holds"];
    paths_beside_cidrs: "egress.mode = \"custom\"\negress.allow_cidrs = [\"11.0.0.0/8\"]", [r#""a.test", action = "allow", paths = ["/v1"]"#] => [
        "dir/p.toml:2:1: warning: egress permits addresses, so a client that dials one for this host is not held to the methods and paths of this rule; a deny rule holds"];
    private_address_on_every_port: "", [r#""10.0.0.1", action = "allow", scheme = "https", ports = "all""#] => [
        "dir/p.toml:2:1: warning: 10.0.0.1 is a private address, so listing it is not enough: --allow-cidr 10.0.0.1 opens it"];
    private_address_that_is_opened: "", [r#""10.0.0.1", action = "allow", ports = [8443], opens_address = true"#, r#""10.0.0.1", action = "allow", ports = [8443]"#] => [
        "dir/p.toml:3:1: warning: the rule at dir/p.toml:2:1 permits all of it already"];
    every_port_of_a_listed_host: "network.mode = \"allow\"\nnetwork.hosts = [\"a.test\"]", [r#""a.test", action = "allow", scheme = "https", ports = "all""#] => [];
    private_address: "", [r#""10.0.0.1", action = "allow""#] => [
        "dir/p.toml:2:1: warning: 10.0.0.1 is a private address, so listing it is not enough: --allow-cidr 10.0.0.1 opens it"];
}

/// A binding is used where a rule permits its host, and not where one closes it.
#[test]
fn bindings_are_warned_about_by_rule() {
    let text = |rule: &str| {
        format!(
            "[[network.rules]]\nhost = \"a.test\"\n{rule}\n[[header_bindings]]\nhost = \"a.test\"\nheader = \"X\"\nsecret_name = \"K\"\n[secrets.K]\nenv = \"K\""
        )
    };
    assert_eq!(warnings(&compile(&text(&format!("{ALLOW}\nmethods = [\"GET\"]")))), Vec::<String>::new());
    assert_eq!(
        warnings(&compile(&text("action = \"deny\""))),
        ["dir/p.toml:4:1: warning: the deny rule at dir/p.toml:1:1 closes a.test, so this binding is not used"]
    );
}
