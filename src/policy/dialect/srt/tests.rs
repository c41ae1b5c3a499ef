//! What srt's settings mean here: the matching rows of B.8, and what becomes of every key of B.7.

use std::net::IpAddr;

use super::super::super::compile::{Compiled, NamedText, load};
use super::super::super::options::PolicyOptions;
use crate::policy::{AddressClass, Denial};
use crate::types::{Authority, Destination, HostName, Scheme};

fn compile(text: &str) -> Result<Compiled, String> {
    let file = NamedText { name: "srt.json".to_owned(), text: text.to_owned() };
    load(&[file], &PolicyOptions::default()).map_err(|mistakes| mistakes.to_string())
}

/// Settings with these members of `network` besides the lists, which are given as JSON.
fn settings(allowed: &str, denied: &str, more: &str) -> String {
    format!(
        "{{\"network\": {{{more}\n\"allowedDomains\": [{allowed}],\n\"deniedDomains\": [{denied}]}},\n\
         \"filesystem\": {{\"disabled\": true, \"denyRead\": [], \"allowWrite\": [], \"denyWrite\": []}}}}"
    )
}

fn compiled(allowed: &str, denied: &str, more: &str) -> Compiled {
    compile(&settings(allowed, denied, more)).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// `SCHEME://HOST:PORT`, to `yes`, `denied` (a deny rule), `no`, or `malformed`.
fn ask(compiled: &Compiled, url: &str) -> &'static str {
    let (scheme, authority) = url.split_once("://").unwrap();
    let (scheme, port) = match scheme {
        "https" => (Scheme::Https, 443),
        "http" => (Scheme::Http, 80),
        _ => (Scheme::Tcp, 22),
    };
    let Ok(authority) = Authority::parse(authority, port) else { return "malformed" };
    match compiled.policy.destination(&Destination { authority, scheme, dialled: None }) {
        Ok(_) => "yes",
        Err(Denial::RuleDenied { .. }) => "denied",
        Err(_) => "no",
    }
}

/// One row, one test: the lists, and URLs with their answers.
macro_rules! answers {
    ($($name:ident: $allowed:expr, denied $denied:expr => [$($url:expr => $want:expr),* $(,)?];)*) => { $(
        #[test]
        fn $name() {
            let compiled = compiled($allowed, $denied, "");
            $(assert_eq!(ask(&compiled, $url), $want, "{}", $url);)*
        }
    )* };
}

answers! {
    exact_on_every_port_and_scheme: r#""a.test""#, denied "" => [
        "https://a.test" => "yes", "http://a.test" => "yes", "tcp://a.test:22" => "yes", "https://a.test:8443" => "yes",
        "https://x.a.test" => "no", "https://b.test" => "no", "https://a.test.evil.test" => "no"];
    a_port_restricts: r#""a.test:443""#, denied "" => [
        "https://a.test" => "yes", "tcp://a.test:443" => "yes", "http://a.test" => "no", "https://a.test:8443" => "no"];
    below_is_strict: r#""*.a.test""#, denied "" => [
        "https://x.a.test" => "yes", "https://x.y.a.test:1" => "yes", "https://a.test" => "no", "https://xa.test" => "no"];
    below_with_a_port: r#""*.a.test:8443""#, denied "" => [
        "https://x.a.test:8443" => "yes", "https://x.a.test" => "no"];
    below_is_never_an_address: r#""*.0.0.1", "*.a.test""#, denied "" => [
        "https://10.0.0.1" => "no", "https://8.0.0.1" => "no"];
    below_a_public_suffix: r#""*.co.uk""#, denied "" => [
        "https://anybody.co.uk" => "yes", "https://co.uk" => "no"];
    case_counts_for_nothing: r#""API.Example.COM""#, denied "" => [
        "https://api.example.com" => "yes", "https://Api.Example.Com" => "yes"];
    one_final_dot: r#""a.test""#, denied "" => [
        "https://a.test." => "yes", "https://a.test.." => "malformed"];
    inet_aton_of_the_request: "", denied r#""127.0.0.1""# => [
        "https://127.1" => "denied", "https://2130706433" => "denied", "https://0x7f000001" => "denied",
        "https://0177.0.0.1" => "denied", "https://127.0.0.1." => "denied", "https://[::ffff:127.0.0.1]" => "denied"];
    mapped_entry: r#""[::ffff:8.8.8.8]:443""#, denied "" => [
        "https://8.8.8.8" => "yes", "https://8.8.8.8:1" => "no"];
    v6: r#""[2606:4700::1]:443""#, denied "" => [
        "https://[2606:4700:0::1]" => "yes", "https://[2606:4700::1]:80" => "no", "https://[2606:4700::2]" => "no"];
    idn_of_the_request: r#""xn--bcher-kva.test""#, denied "" => [
        "https://b\u{fc}cher.test" => "yes"];
    unicode_is_permitted_as_it_is_meant: "\"b\u{fc}cher.test\"", denied "" => [
        "https://xn--bcher-kva.test" => "yes"];
    unicode_is_denied_where_srt_would_not: "\"*.test\\u002etest\", \"*.x.test\"", denied "\"b\u{fc}cher.x.test\"" => [
        "https://xn--bcher-kva.x.test" => "denied", "https://other.x.test" => "yes"];
    malformed: r#""a.test""#, denied "" => [
        "https://a.test%00" => "malformed", "https://a\u{0}.test" => "malformed", "https://[fe80::1%eth0]" => "malformed"];
    deny_beats_allow: r#""a.test", "*.b.test""#, denied r#""a.test", "x.b.test""# => [
        "https://a.test" => "denied", "https://x.b.test" => "denied", "https://y.b.test" => "yes"];
    deny_beats_a_more_exact_allow: r#""x.a.test:443""#, denied r#""*.a.test""# => [
        "https://x.a.test" => "denied", "https://y.a.test" => "denied", "https://a.test" => "no"];
    deny_on_a_port: r#""a.test""#, denied r#""a.test:22""# => [
        "tcp://a.test:22" => "denied", "https://a.test" => "yes"];
    deny_everything: r#""a.test""#, denied r#""*""# => [
        "https://a.test" => "denied", "https://b.test" => "denied", "https://8.8.8.8" => "denied", "tcp://[2606::1]:1" => "denied"];
    deny_a_port_of_everything: r#""a.test", "8.8.8.8""#, denied r#""*:22""# => [
        "tcp://a.test:22" => "denied", "tcp://8.8.8.8:22" => "denied", "https://a.test" => "yes", "https://8.8.8.8" => "yes",
        "tcp://b.test:22" => "denied", "https://b.test" => "no"];
    nothing_listed: "", denied "" => [
        "https://a.test" => "no"];
    no_host_is_called_so: r#""a..b""#, denied "" => [
        "https://a..b" => "malformed", "https://a.b" => "no"];
    local_names_lead_nowhere: r#""localhost", "localhost:8080""#, denied "" => [
        "http://localhost:8080" => "no", "https://localhost" => "no"];
}

/// What a look-up of `a.test` may give, and what the entries of the list open.
#[test]
fn addresses_that_a_name_leads_to() {
    let more = r#""deniedResolvedAddresses": ["9.9.9.0/24", "2620:fe::/48", "10.0.0.9"],"#;
    let allowed =
        r#""a.test", "*.b.test", "10.0.0.1:5432", "9.9.9.1", "127.0.0.1:8080", "169.254.169.254:80", "[fd00::1]""#;
    let compiled = compiled(allowed, r#""*.x.test", "8.8.4.4""#, more);
    let class = |host: &str, ip: &str| {
        let (authority, ip) = (Authority::parse(host, 443).unwrap(), ip.parse::<IpAddr>().unwrap());
        match compiled.policy.check_addresses(&authority, Scheme::Https, &[ip], &[IpAddr::from([8, 8, 4, 8])]) {
            Ok(_) => None,
            Err(Denial::AddressBlocked { class, .. }) => Some(format!("{class:?}")),
            Err(denial) => Some(denial.code().to_owned()),
        }
    };
    for (host, ip, want) in [
        ("a.test", "8.8.8.8", None),
        ("a.test", "9.9.9.9", Some("Denied")),
        ("a.test", "::ffff:9.9.9.9", Some("Denied")),
        ("a.test", "64:ff9b::9.9.9.9", Some("Denied")),
        ("a.test", "2620:fe::9", Some("Denied")),
        ("a.test", "10.0.0.9", Some("Denied")),
        ("a.test", "9.9.9.1", None),
        ("9.9.9.1", "9.9.9.1", None),
        ("a.test", "8.8.4.4", Some("rule_denied")),
        ("a.test", "8.8.4.8", Some("Own")),
        ("a.test", "10.0.0.1", Some("Private")),
        ("a.test:5432", "10.0.0.1", None),
        ("10.0.0.1:5432", "10.0.0.1", None),
        ("a.test:5432", "10.0.0.2", Some("Private")),
        ("a.test:8080", "127.0.0.1", None),
        ("a.test:8081", "127.0.0.1", Some("Loopback")),
        ("a.test", "169.254.169.254", Some("Metadata")),
        ("a.test:80", "169.254.169.254", None),
        ("a.test:80", "64:ff9b::169.254.169.254", None),
        ("a.test:80", "fd00:ec2::254", Some("Metadata")),
        ("a.test:1", "fd00::1", None),
        ("a.test:1", "fd00::2", Some("Private")),
    ] {
        assert_eq!(class(host, ip).as_deref(), want, "{host} at {ip}");
    }
    let mixed = [IpAddr::from([8, 8, 8, 8]), IpAddr::from([9, 9, 9, 9])];
    let whole = compiled.policy.check_addresses(&Authority::parse("a.test", 443).unwrap(), Scheme::Https, &mixed, &[]);
    assert!(matches!(&whole, Err(Denial::AddressBlocked { class: AddressClass::Denied, .. })), "{whole:?}");
    let denial = whole.unwrap_err();
    assert_eq!(denial.cure().as_deref(), Some("take 9.9.9.9 out of the addresses that the policy denies"));
    assert_eq!(denial.cure_inside(), None);
    let told: Vec<String> = compiled.warnings.iter().map(ToString::to_string).collect();
    let opened = |n: usize| told.iter().filter(|told| told.ends_with("which this entry opens")).count() == n;
    assert!(opened(4) && told.len() == 4, "{told:#?}");
}

#[test]
fn only_permitted_names_are_looked_up() {
    let compiled = compiled(r#""a.test", "x.b.test""#, r#""*.b.test""#, "");
    let looks = |name| compiled.policy.may_resolve(&HostName::parse(name).unwrap());
    assert!(looks("a.test") && !looks("x.b.test") && !looks("c.test"));
    let nothing = super::tests::compiled(r#""a.test""#, r#""*""#, "");
    assert!(!nothing.policy.may_resolve(&HostName::parse("a.test").unwrap()));
}

#[test]
fn a_refusal_gives_the_reason() {
    let more = r#""deniedDomainReasons": {"a.test:22": "use https", "a.test": "never fires"},"#;
    let compiled = compiled("", r#""a.test:22""#, more);
    let authority = Authority::parse("a.test:22", 443).unwrap();
    let denial =
        compiled.policy.destination(&Destination { authority, scheme: Scheme::Tcp, dialled: None }).unwrap_err();
    assert_eq!(denial.to_string(), "a rule of this sandbox's policy denies a.test:22: use https");
    let told = "srt.json:1:64: warning: no entry of `network.deniedDomains` is \"a.test\", so nobody is told this";
    assert_eq!(compiled.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [told]);
}

#[test]
fn what_cannot_be_seen_can_be_refused() {
    let compiled = compiled(r#""a.test", "b.test:8443""#, "", "\"refuseOpaqueTunnels\": true, \"tlsTerminate\": {},");
    for (url, want) in [
        ("https://a.test", "yes"),
        ("http://a.test", "yes"),
        ("tcp://a.test:22", "no"),
        ("https://b.test:8443", "yes"),
        ("tcp://b.test:8443", "no"),
    ] {
        assert_eq!(ask(&compiled, url), want, "{url}");
    }
    assert!(compiled.warnings.is_empty(), "{:?}", compiled.warnings);
}

#[test]
fn what_is_not_terminated_is_passed_on_unread() {
    let tls = |entries: &str, more: &str| {
        compile(&settings(
            r#""a.test", "*.b.test""#,
            "",
            &format!("{more}\"tlsTerminate\": {{\"excludeDomains\": [{entries}]}},"),
        ))
    };
    let printed = crate::policy::toml(&tls(r#""A.test", "*.b.test""#, "").unwrap(), false);
    assert!(printed.ends_with("\n[tls]\npassthrough = [\"a.test\", \"*.b.test\"]\n"), "{printed}");
    for (entries, more, want) in [
        ("\"a.test:443\"", "", "srt.json:1:50: an entry of this list has no port"),
        ("\"*\"", "", "srt.json:1:50: \"*\": a bare `*` is every host"),
        ("\"a.test\"", "\"refuseOpaqueTunnels\": true, ", "srt.json:1:79: `network.refuseOpaqueTunnels` refuses"),
    ] {
        let mistakes = tls(entries, more).map(|_| ()).unwrap_err();
        assert!(mistakes.starts_with(want), "{mistakes}");
    }
}

#[test]
fn a_parent_proxy_is_the_upstream_proxy() {
    let proxy = |parent: &str| {
        let compiled = compile(&settings("", "", &format!("\"parentProxy\": {parent},")));
        compiled.map(|compiled| compiled.upstream_proxy.map(|proxy| proxy.authority.to_string()))
    };
    let is = |name: &str| Ok(Some(name.to_owned()));
    assert_eq!(proxy("{}"), Ok(None));
    assert_eq!(proxy(r#"{"http": "http://proxy.test:3128"}"#), is("proxy.test:3128"));
    assert_eq!(
        proxy(r#"{"http": "http://proxy.test:3128/", "https": "http://proxy.test:3128/", "noProxy": ""}"#),
        is("proxy.test:3128")
    );
    for (parent, want) in [
        (r#"{"https": "http://proxy.test:3128"}"#, "srt would reach plain http without a proxy here"),
        (
            r#"{"http": "http://proxy.test:1", "https": "http://proxy.test:2"}"#,
            "plain http and https cannot go through different proxies",
        ),
        (r#"{"http": "https://proxy.test:3128"}"#, "it does not begin with http://"),
        (r#"{"http": "http://u:p@proxy.test:3128"}"#, "it holds a user and password"),
        (r#"{"http": "http://proxy.test"}"#, "it is not a host and a port"),
        (r#"{"http": "http://proxy.test:1", "noProxy": "x.test"}"#, "`network.parentProxy.noProxy` cannot be honoured"),
        (r#"{"htttp": "http://proxy.test:1"}"#, "unknown key \"network.parentProxy.htttp\""),
    ] {
        let mistakes = proxy(parent).unwrap_err();
        assert!(mistakes.contains(want) && mistakes.starts_with("srt.json:1:"), "{parent}: {mistakes}");
    }
}

/// Every key that is not honoured, with a value that srt takes: what is told of it. A key of `network` has no name before it.
#[test]
fn what_is_not_honoured_is_told() {
    let top = |key: &str, value: &str| {
        let text = settings("", "", "");
        compile(&format!("{{\"{key}\": {value}, {}", &text[1..]))
    };
    let in_network = |key: &str, value: &str| compile(&settings("", "", &format!("\"{key}\": {value},")));
    for (key, value) in [
        ("credentials", r#"{"envVars": [{"name": "X", "mode": "mask"}]}"#),
        ("allowNestedUserNamespaces", "true"),
        ("git", r#"{"safeDirectories": ["/x"]}"#),
    ] {
        let mistakes = top(key, value).map(|_| ()).unwrap_err();
        assert!(mistakes.starts_with(&format!("srt.json:1:2: `{key}` cannot be honoured\n  hint: ")), "{mistakes}");
    }
    for (key, value) in [
        ("httpProxyPort", "3128"),
        ("socksProxyPort", "1080"),
        ("mitmProxy", r#"{"socketPath": "/x", "domains": ["a.test"]}"#),
        ("filterRequest", "1"),
        ("stripResponseHeaders", r#"["set-cookie"]"#),
    ] {
        let mistakes = in_network(key, value).map(|_| ()).unwrap_err();
        assert!(
            mistakes.starts_with(&format!("srt.json:1:14: `network.{key}` cannot be honoured\n  hint: ")),
            "{mistakes}"
        );
    }
    for (key, value) in [
        ("caCertPath", "\"/x\""),
        ("caKeyPath", "\"/x\""),
        ("extraCaCertPaths", "[\"/x\"]"),
        ("maxTunnels", "256"),
        ("handshakeTimeoutMs", "10000"),
    ] {
        let mistakes = in_network("tlsTerminate", &format!("{{\"{key}\": {value}}}")).map(|_| ()).unwrap_err();
        let want = format!("srt.json:1:31: `network.tlsTerminate.{key}` cannot be honoured\n  hint: ");
        assert!(mistakes.starts_with(&want), "{mistakes}");
    }
    for (key, value) in [
        ("ignoreViolations", r#"{"*": ["/x"]}"#),
        ("enableWeakerNestedSandbox", "true"),
        ("enableWeakerNetworkIsolation", "true"),
        ("allowAppleEvents", "true"),
        ("allowPty", "true"),
        ("ripgrep", r#"{"command": "rg"}"#),
        ("seccomp", r#"{"applyPath": "/x"}"#),
        ("bwrapPath", "\"/x\""),
        ("socatPath", "\"/x\""),
        ("javaAgentJarPath", "\"/x\""),
        ("windows", r#"{"backend": "mxc"}"#),
    ] {
        let warnings = top(key, value).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].to_string().starts_with(&format!("srt.json:1:2: warning: `{key}` changes nothing here: ")));
    }
    for (key, value) in [
        ("allowLocalBinding", "true"),
        ("allowMachLookup", "[\"com.example.*\"]"),
        ("allowPlaintextHeaderSet", "true"),
        ("ambiguousRequestTarget", "\"refuse\""),
    ] {
        let warnings = in_network(key, value).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0]
                .to_string()
                .starts_with(&format!("srt.json:1:14: warning: `network.{key}` changes nothing here: "))
        );
    }
    for (key, value) in
        [("strictAllowlist", "false"), ("requireHostMatch", "false"), ("mitmProxy", "{}"), ("allowMachLookup", "[]")]
    {
        assert!(in_network(key, value).unwrap().warnings.is_empty(), "{key} {value} says nothing");
    }
}

/// One row, one test: settings, and exactly the mistakes.
macro_rules! mistakes {
    ($($name:ident: $text:expr => $want:expr;)*) => { $(
        #[test]
        fn $name() {
            assert_eq!(compile(&$text).map(|_| ()).unwrap_err(), $want);
        }
    )* };
}

mistakes! {
    no_network: r#"{"filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"# => "srt.json:1:1: `network` is missing\n  hint: add it, as srt takes no settings without it";
    no_filesystem: r#"{"network": {"allowedDomains": [], "deniedDomains": []}}"# =>
        "srt.json:1:1: `filesystem` is missing\n  hint: add it, as srt takes no settings without it";
    no_lists: r#"{"network": {}, "filesystem": {}}"# => {
        let missing = |place, key| format!("srt.json:{place}: `{key}` is missing\n  hint: add it, as srt takes no settings without it");
        [
            missing("1:13", "network.allowedDomains"),
            missing("1:13", "network.deniedDomains"),
            missing("1:31", "filesystem.denyRead"),
            missing("1:31", "filesystem.allowWrite"),
            missing("1:31", "filesystem.denyWrite"),
        ]
        .join("\n")
    };
    unknown_top: settings("", "", "").replacen('{', "{\"allow_pty\": true, ", 1) =>
        "srt.json:1:2: unknown key \"allow_pty\"\n  hint: did you mean `allowPty`?";
    unknown_in_network: settings("", "", "\"allowedDomain\": [],") =>
        "srt.json:1:14: unknown key \"network.allowedDomain\"\n  hint: did you mean `allowedDomains`?";
    unknown_in_tls: settings("", "", "\"tlsTerminate\": {\"maxTunnel\": 1},") =>
        "srt.json:1:31: unknown key \"network.tlsTerminate.maxTunnel\"\n  hint: did you mean `maxTunnels`?";
    list_of_another_type: settings("", "", "").replace("\"deniedDomains\": []", "\"deniedDomains\": \"*\"") =>
        "srt.json:3:18: `network.deniedDomains` cannot be of type text\n  hint: it takes a list of texts";
    entries_of_another_type: settings("1, \"a.test\", null", "", "") =>
        "srt.json:2:20: `network.allowedDomains` cannot be of type number\n  hint: it takes a text\n\
         srt.json:2:33: `network.allowedDomains` cannot be of type null\n  hint: it takes a text";
    flag_of_another_type: settings("", "", "\"strictAllowlist\": 1,") =>
        "srt.json:1:33: `network.strictAllowlist` cannot be of type number\n  hint: it takes true or false";
    every_bad_entry_at_once: settings("\"*\", \"https://a.test\"", "\"*.com\"", "") =>
        "srt.json:2:20: \"*\": a bare `*` is every host\n  hint: name the hosts, such as api.example.com or *.example.com\n\
         srt.json:2:25: \"https://a.test\": an entry has no scheme\n  hint: write the host alone, such as api.example.com or api.example.com:8443\n\
         srt.json:3:19: \"*.com\": `*.com` is every name of a top-level domain\n  hint: name a domain below it, such as *.example.com";
    bad_resolved_address: settings("", "", "\"deniedResolvedAddresses\": [\"a.test\"],") =>
        "srt.json:1:42: \"a.test\": it is no IP address or network\n  hint: write one such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32";
    reason_with_a_line_break: settings("", "\"a.test\"", "\"deniedDomainReasons\": {\"a.test\": \"a\\nb\"},") =>
        "srt.json:1:48: \"a\\nb\": the reason holds a character that is not shown\n  hint: write plain text";
}
