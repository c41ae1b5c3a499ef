use std::time::Duration;

use super::*;
use crate::policy::{Binding, CommandSource, EgressMode, NetworkMode, SecretSource};

fn file(text: &str) -> NamedText {
    NamedText { name: "dir/p.toml".to_owned(), text: text.to_owned() }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn compile(text: &str) -> Compiled {
    load(&[file(text)], &PolicyOptions::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn compile_options(options: &PolicyOptions) -> Compiled {
    load(&[], options).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn warnings(compiled: &Compiled) -> Vec<String> {
    compiled.warnings.iter().map(ToString::to_string).collect()
}

/// One row, one test: a file and exactly the mistakes it has, hints included.
macro_rules! mistakes {
    ($($name:ident: $text:expr => [$($want:expr),* $(,)?];)*) => { $(
        #[test]
        fn $name() {
            match load(&[file(&String::from($text))], &PolicyOptions::default()) {
                Ok(_) => panic!("it was taken"),
                Err(mistakes) => {
                    let got: Vec<_> = mistakes.as_slice().iter().map(ToString::to_string).collect();
                    assert_eq!(got, [$($want.to_owned()),*]);
                }
            }
        }
    )* };
}

mod cases;
mod github;
mod github_tokens;
mod placements;
mod rules;
mod secrets;

mistakes! {
    unknown_table: "[netwrok]\nmode = \"all\"" => [
        "dir/p.toml:1:2: unknown key \"netwrok\"\n  hint: did you mean `network`?"];
    unknown_key: "[network]\nhost = [\"a.test\"]" => [
        "dir/p.toml:2:1: unknown key \"network.host\"\n  hint: did you mean `hosts`?"];
    unknown_mode: "[network]\nmode = \"some\"\nhosts = [\"a.test\"]" => [
        "dir/p.toml:2:8: \"some\" is not a value of `network.mode`\n  hint: known here: none, all, allow"];
    wrong_type: "[network]\nmode = 1" => [
        "dir/p.toml:2:8: `network.mode` cannot be of type integer\n  hint: it takes a text in quotes"];
    hosts_of_wrong_type: "[network]\nmode = \"allow\"\nhosts = \"a.test\"" => [
        "dir/p.toml:3:9: `network.hosts` cannot be of type string\n  hint: it takes a list of texts: [\"…\"]"];
    no_table: "network = 3" => [
        "dir/p.toml:1:11: `network` cannot be of type integer\n  hint: it takes a table: [network]"];
    allow_without_hosts: "[network]\nmode = \"allow\"" => [
        "dir/p.toml:2:8: mode \"allow\" needs at least one host\n  hint: add hosts = [\"api.example.com\"] or --allow HOST; mode = \"none\" permits no host"];
    empty_text: "[network]\nmode = \"allow\"\nhosts = [\"a.test\", \"\"]" => [
        "dir/p.toml:3:20: `network.hosts` holds an empty text\n  hint: write a value, or take it out"];
    hosts_without_mode: "[network]\nhosts = [\"a.test\"]" => [
        "dir/p.toml:2:10: `network.hosts` has no effect without mode = \"allow\"\n  hint: write mode = \"allow\", or take the list out"];
    hosts_with_mode_all: "[network]\nmode = \"all\"\nhosts = [\"a.test\"]" => [
        "dir/p.toml:3:10: `network.hosts` has no effect without mode = \"allow\"\n  hint: write mode = \"allow\", or take the list out"];
    every_bad_host_at_once: "[network]\nmode = \"allow\"\nhosts = [\n  \"https://a.test\",\n  \"*.a.test\", \"a.test/v1\",\n  \"localhost\"]" => [
        "dir/p.toml:4:3: \"https://a.test\": an entry has no scheme\n  hint: write the host alone, such as api.example.com or api.example.com:8443",
        "dir/p.toml:5:3: \"*.a.test\": wildcards are not accepted here\n  hint: list each host by its full name",
        "dir/p.toml:5:15: \"a.test/v1\": an entry has no path\n  hint: write the host alone, such as api.example.com or api.example.com:8443",
        "dir/p.toml:6:3: \"localhost\": this name means the machine itself and is never resolved\n  hint: list the address, such as 127.0.0.1:8443"];
    custom_without_cidrs: "[egress]\nmode = \"custom\"" => [
        "dir/p.toml:2:8: mode \"custom\" needs at least one CIDR\n  hint: add allow_cidrs = [\"192.0.2.0/24\"] or --allow-cidr CIDR; mode = \"block_all\" permits no address"];
    cidrs_with_another_mode: "[egress]\nmode = \"allow_all\"\nallow_cidrs = [\"10.0.0.0/8\"]" => [
        "dir/p.toml:3:16: `egress.allow_cidrs` has no effect without mode = \"custom\"\n  hint: write mode = \"custom\", or take the list out"];
    bad_denied_cidr: "[egress]\ndeny_cidrs = [\"a.test\"]" => [
        "dir/p.toml:2:15: \"a.test\": it is no IP address or network\n  hint: write one such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"];
    bad_cidr: "[egress]\nmode = \"custom\"\nallow_cidrs = [\"fe80::%1/64\"]" => [
        "dir/p.toml:3:16: \"fe80::%1/64\": an IPv6 zone id (`%`) is not allowed\n  hint: write the address without it"];
    not_toml: "[network\nmode = \"all\"" => [
        "dir/p.toml:1:9: not valid TOML: unclosed table, expected `]`"];
    unknown_kind: "[[header_bindings]]\nkind = \"header-binding\"" => [
        "dir/p.toml:2:8: \"header-binding\" is not a kind of binding\n  hint: did you mean `header_binding`?"];
    binding_without_fields: "[[header_bindings]]\nhost = \"a.test\"\nheaders = \"x\"" => [
        "dir/p.toml:1:1: the binding has no `header`\n  hint: add header = \"…\"",
        "dir/p.toml:1:1: the binding has no `secret_name`\n  hint: add secret_name = \"…\"",
        "dir/p.toml:3:1: unknown key \"header_bindings.headers\"\n  hint: did you mean `header`?"];
    every_bad_field_at_once: "[[header_bindings]]\nhost = \"*.a.test\"\nheader = \"Host\"\nsecret_name = \"K\"\npath_prefix = \"v1\"\nprefix = \" x\"\nsuffix = \"\\n\"\n[secrets.K]\nenv = \"K\"" => [
        "dir/p.toml:2:8: \"*.a.test\": wildcards are not accepted here\n  hint: list each host by its full name",
        "dir/p.toml:3:10: \"Host\": the header Host belongs to the connection, the framing or the proxy itself and cannot be bound",
        "dir/p.toml:5:15: \"v1\": a path prefix begins with `/`",
        "dir/p.toml:6:10: \" x\": the header's value would begin or end with white space, which is lost on the way",
        "dir/p.toml:7:10: \"\\n\": it holds a control character, which a header cannot carry"];
    undeclared_secret: "[[header_bindings]]\nhost = \"a.test\"\nheader = \"X\"\nsecret_name = \"K\"" => [
        "dir/p.toml:4:15: the secret \"K\" is not declared\n  hint: add [secrets.K] to the file, or --secret K=env:K"];
    secret_without_source: "[secrets.K]" => [
        "dir/p.toml:1:10: the secret `K` has no source\n  hint: give one of env = \"VAR\", file = \"PATH\", command = [\"PROGRAM\", \"ARG\"], http = \"https://…\", oauth2 = {…}, vault = {…}, github_app = {…} or github_scoped_token = {…}"];
    secret_with_two_sources: "[secrets.K]\nenv = \"K\"\nfile = \"k\"" => [
        "dir/p.toml:1:10: the secret `K` has more than one source\n  hint: give one of env = \"VAR\", file = \"PATH\", command = [\"PROGRAM\", \"ARG\"], http = \"https://…\", oauth2 = {…}, vault = {…}, github_app = {…} or github_scoped_token = {…}"];
    secret_from_store: "[secrets.K]\nstore = \"k\"" => [
        "dir/p.toml:2:1: `secrets.K.store` is for sandboxes of the service alone\n  hint: take it out; a policy is never followed in part"];
    secret_with_bad_name: "[secrets.\"a b\"]\nenv = \"K\"" => [
        "dir/p.toml:1:10: \"a b\" is no name of a secret\n  hint: a secret's name has 1 to 256 letters, digits, `-` and `_`"];
    secret_that_is_used_and_has_no_source: "[[header_bindings]]\nhost = \"a.test\"\nheader = \"X\"\nsecret_name = \"K\"\n[secrets.K]\nenv = \"\"" => [
        "dir/p.toml:6:7: `env` holds an empty text\n  hint: write a value, or take it out"];
    secret_in_a_home: "[secrets.K]\nfile = \"~/k\"" => [
        "dir/p.toml:1:10: `~` is not expanded in \"dir/~/k\"\n  hint: write the whole path"];
    colliding_bindings: "[[header_bindings]]\nhost = \"a.test\"\nheader = \"X-Key\"\nsecret_name = \"K\"\n[[header_bindings]]\nhost = \"A.test:443\"\nheader = \"x_key\"\nsecret_name = \"K\"\npath_prefix = \"/v1\"\n[secrets.K]\nenv = \"K\"" => [
        "dir/p.toml:5:1: both this binding (paths /v1…) and the one at dir/p.toml:1:1 (paths /…) would set the header x_key of one request to a.test\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
    bindings_that_disagree_on_scrubbing: "[[header_bindings]]\nhost = \"a.test\"\nheader = \"X-Key\"\nsecret_name = \"K\"\n[[header_bindings]]\nhost = \"a.test\"\nheader = \"Y-Key\"\nsecret_name = \"K\"\nscrub = false\n[secrets.K]\nenv = \"K\"" => [
        "dir/p.toml:5:1: responses of a.test are searched for the secret K by one of this binding and the one at dir/p.toml:1:1, and not by the other\n  hint: write scrub = false in both or in neither"];
    scrubbing_by_a_word: "[[header_bindings]]\nhost = \"a.test\"\nheader = \"X-Key\"\nsecret_name = \"K\"\nscrub = \"no\"\n[secrets.K]\nenv = \"K\"" => [
        "dir/p.toml:5:9: `scrub` cannot be of type string\n  hint: it takes true or false"];
}

#[test]
fn responses_that_are_not_searched_are_warned_of() {
    let bound = |host: &str, secret: &str, scrub: &str| {
        format!(
            "[[header_bindings]]\nhost = \"{host}\"\nheader = \"X-{secret}\"\nsecret_name = \"{secret}\"\n{scrub}\n[secrets.{secret}]\nenv = \"K\"\n"
        )
    };
    let listed = "[network]\nmode = \"allow\"\nhosts = [\"a.test\", \"b.test\"]\n";
    // Another secret for the same host, and the same by default.
    let text = listed.to_owned()
        + &bound("a.test", "K", "scrub = false")
        + &bound("a.test", "L", "scrub = true")
        + &bound("b.test", "M", "");
    let compiled = compile(&text);
    let scrubbed: Vec<bool> = compiled.policy.bindings().iter().map(Binding::scrub).collect();
    assert_eq!(scrubbed, [false, true, true]);
    assert_eq!(
        warnings(&compiled),
        [
            "dir/p.toml:4:1: warning: responses of a.test are not searched for the secret K, so they can show it to the sandbox"
        ]
    );
}

#[test]
fn empty_lists_are_mistakes() {
    for (text, list) in [
        ("[network]\nmode = \"allow\"\nhosts = []", "network.hosts"),
        ("[egress]\nallow_cidrs = []", "egress.allow_cidrs"),
        ("[egress]\ndeny_cidrs = []", "egress.deny_cidrs"),
        ("header_bindings = []", "header_bindings"),
        ("network.rules = []", "network.rules"),
        ("[[network.rules]]\nhost = \"a.test\"\naction = \"deny\"\nports = []", "ports"),
        ("[[network.rules]]\nhost = \"a.test\"\naction = \"deny\"\nmethods = []", "methods"),
        ("[[network.rules]]\nhost = \"a.test\"\naction = \"deny\"\npaths = []", "paths"),
        ("[secrets.K]\ncommand = []", "command"),
    ] {
        let mistakes = load(&[file(text)], &PolicyOptions::default()).unwrap_err();
        assert_eq!(mistakes.as_slice().len(), 1, "{mistakes}");
        assert!(mistakes.as_slice()[0].what.contains(&format!("`{list}` is empty")), "{mistakes}");
    }
}

#[test]
fn the_whole_document() {
    let compiled = compile(
        r#"
        [network]
        mode = "allow"
        hosts = ["api.example.com", "files.example.com:8443", "API.example.com."]
        [egress]
        mode = "custom"
        allow_cidrs = ["10.1.2.3"]
        block_private_ips = true
        [[header_bindings]]
        kind = "header_binding"
        host = "api.example.com"
        header = "Authorization"
        secret_name = "EXAMPLE_KEY"
        path_prefix = "/v1/"
        prefix = "Bearer "
        [secrets.EXAMPLE_KEY]
        file = "keys/example"
        [secrets.ABSOLUTE]
        file = "/keys/example"
        [secrets.PRINTED]
        command = ["gh", "auth", "token"]
        "#,
    );
    let policy = &compiled.policy;
    assert_eq!(policy.network_mode(), NetworkMode::Allow);
    assert_eq!(policy.network().entries().len(), 2);
    assert_eq!(policy.egress().mode(), EgressMode::Custom);
    assert_eq!(policy.bindings().len(), 1);
    let binding = &policy.bindings()[0];
    assert_eq!(binding.placement().sample("K"), "authorization: Bearer {K}");
    assert_eq!(binding.path_prefix(), "/v1/");
    let sources: Vec<_> = compiled.secrets.iter().map(|secret| (secret.name.as_str(), secret.source.clone())).collect();
    assert_eq!(
        sources,
        [
            ("ABSOLUTE", SecretSource::File("/keys/example".into())),
            ("EXAMPLE_KEY", SecretSource::File("dir/keys/example".into())),
            ("PRINTED", SecretSource::Command(CommandSource::new(strings(&["gh", "auth", "token"])))),
        ]
    );
    assert_eq!(
        warnings(&compiled),
        [
            "dir/p.toml:18:18: warning: nothing uses the secret ABSOLUTE",
            "dir/p.toml:20:18: warning: nothing uses the secret PRINTED",
        ]
    );
}

#[test]
fn nothing_written_permits_nothing() {
    for compiled in [compile(""), compile("[network]\n[egress]\n[secrets]"), compile_options(&PolicyOptions::default())]
    {
        assert_eq!(compiled.policy.network_mode(), NetworkMode::None);
        assert_eq!(compiled.policy.egress().mode(), EgressMode::BlockAll);
        assert!(
            compiled
                .policy
                .check_addresses(&parse_entry("a.test").unwrap(), Scheme::Https, &[IpAddr::from([10, 0, 0, 1])], &[])
                .is_err()
        );
    }
}

#[test]
fn options_alone_are_a_policy() {
    let compiled = compile_options(&PolicyOptions {
        allow: strings(&["example.com", "example.com:443"]),
        allow_cidr: strings(&["10.1.2.3"]),
        bind: strings(&["example.com/v1/ Authorization: Bearer {DEMO_KEY}"]),
        secret: strings(&["DEMO_KEY=env:DEMO_KEY", "DEMO_KEY=env:DEMO_KEY"]),
        ..PolicyOptions::default()
    });
    assert!(compiled.policy.network().reaches("example.com"));
    assert_eq!(compiled.policy.egress().mode(), EgressMode::Custom);
    let binding = &compiled.policy.bindings()[0];
    assert_eq!((binding.path_prefix(), binding.secret_name()), ("/v1/", "DEMO_KEY"));
    assert_eq!(binding.placement().sample("K"), "authorization: Bearer {K}");
    assert_eq!(
        compiled.secrets,
        [SecretSpec { name: "DEMO_KEY".into(), source: SecretSource::Env("DEMO_KEY".into()) }]
    );
    assert_eq!(warnings(&compiled), Vec::<String>::new());
}

#[test]
fn options_add_to_the_files_and_files_to_each_other() {
    let one = file("[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n[secrets.K]\nenv = \"K\"");
    let two = NamedText { name: "q.toml".into(), text: "[network]\nmode = \"allow\"\nhosts = [\"b.test\"]".into() };
    let options = PolicyOptions {
        allow: strings(&["c.test"]),
        bind: strings(&["a.test X: {K}", "a.test X: {K}"]),
        allow_private_ips: true,
        ..PolicyOptions::default()
    };
    let policy = load(&[one, two], &options).unwrap().policy;
    assert!(["a.test", "b.test", "c.test"].iter().all(|host| policy.network().reaches(host)));
    assert_eq!(policy.bindings().len(), 1, "a repeat is one binding");
    assert!(
        policy
            .check_addresses(&parse_entry("a.test").unwrap(), Scheme::Https, &[IpAddr::from([10, 0, 0, 1])], &[])
            .is_ok()
    );
}

fn conflict(text: &str, options: PolicyOptions) -> String {
    let mistakes = load(&[file(text)], &options).unwrap_err();
    assert_eq!(mistakes.as_slice().len(), 1, "{mistakes}");
    mistakes.to_string().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn contradictions_are_mistakes() {
    let none = PolicyOptions::default;
    let all = || PolicyOptions { network: Some("all".into()), ..none() };
    let allow = "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]";
    assert_eq!(
        conflict(allow, all()),
        "--network \"all\": network mode all contradicts network mode allow at dir/p.toml:2:8"
    );
    assert_eq!(
        conflict("", PolicyOptions { allow: strings(&["a.test"]), network: Some("none".into()), ..none() }),
        "--allow \"a.test\": network mode allow contradicts network mode none at --network \"none\""
    );
    assert_eq!(
        conflict("[network]\nmode = \"none\"", PolicyOptions { allow: strings(&["a.test"]), ..none() }),
        "--allow \"a.test\": network mode allow contradicts network mode none at dir/p.toml:2:8"
    );
    assert_eq!(
        conflict("[egress]\nmode = \"allow_all\"", PolicyOptions { allow_cidr: strings(&["10.0.0.1"]), ..none() }),
        "--allow-cidr \"10.0.0.1\": egress mode custom contradicts egress mode allow_all at dir/p.toml:2:8"
    );
    assert_eq!(
        conflict("[egress]\nblock_private_ips = true", PolicyOptions { allow_private_ips: true, ..none() }),
        "--allow-private-ips: block_private_ips false contradicts block_private_ips true at dir/p.toml:2:21"
    );
    assert_eq!(
        conflict("[secrets.K]\nenv = \"K\"", PolicyOptions { secret: strings(&["K=env:OTHER"]), ..none() }),
        "--secret \"K=env:OTHER\": the secret \"K\" has another source at dir/p.toml:1:10"
    );
}

#[test]
fn unreadable_options_are_mistakes() {
    let bad = |options: PolicyOptions| load(&[], &options).unwrap_err().as_slice()[0].what.clone();
    let secret = |text| bad(PolicyOptions { secret: strings(&[text]), ..PolicyOptions::default() });
    let bind = |text| {
        let secret = strings(&["K=env:K"]);
        bad(PolicyOptions { bind: strings(&[text]), secret, ..PolicyOptions::default() })
    };
    assert_eq!(
        bad(PolicyOptions { network: Some("some".into()), ..PolicyOptions::default() }),
        "\"some\" is not a network mode of this option"
    );
    assert_eq!(bad(PolicyOptions { allow: strings(&[""]), ..PolicyOptions::default() }), "the host is empty");
    assert_eq!(secret("K"), "it is not a name and a source");
    assert_eq!(secret("K=value"), "\"value\" names no source");
    assert_eq!(secret("K=envv:K"), "\"envv\" is not a source");
    assert_eq!(secret("K=store:k"), "secrets from a store are not supported by this version");
    assert_eq!(secret("K=env:"), "\"\" is no name of an environment variable");
    assert_eq!(secret("K=file:"), "the path of the secret's file is empty");
    assert_eq!(secret("K=command:"), "the secret's command names no program");
    assert_eq!(secret("K=command:echo $X"), "the command runs without a shell, so '$' would be plain text");
    assert_eq!(secret("=env:K"), "\"\" is no name of a secret");
    assert_eq!(bind("a.test"), "it is not a host, a header and a value");
    assert_eq!(bind("a.test X: plain"), "the value must hold exactly one {SECRET}");
    assert_eq!(bind("a.test X: {K}{K}"), "the value must hold exactly one {SECRET}");
    assert_eq!(bind("a.test X: {L}"), "the secret \"L\" is not declared");
    assert_eq!(bind("https://a.test/v1 X: {K}"), "\"https://a.test/v1\": an entry has no scheme");
    assert_eq!(
        bind("a.test Content-Length: {K}"),
        "\"Content-Length\": the header Content-Length belongs to the connection, the framing or the proxy itself and cannot be bound"
    );
}

#[test]
fn what_is_permitted_and_not_meant_is_a_warning() {
    let compiled = compile_options(&PolicyOptions {
        allow: strings(&["a.test", "10.0.0.1"]),
        allow_cidr: strings(&["0.0.0.0/0"]),
        bind: strings(&["b.test X: {K}"]),
        secret: strings(&["K=env:K", "L=env:L"]),
        ..PolicyOptions::default()
    });
    assert_eq!(
        warnings(&compiled),
        [
            "--allow-cidr \"0.0.0.0/0\": warning: 0.0.0.0/0 is wider than a blocked range, so it opens public addresses only; \
             an entry that lies wholly inside one blocked range opens the addresses of that range",
            "--allow \"10.0.0.1\": warning: 10.0.0.1 is a private address, so listing it is not enough: --allow-cidr 10.0.0.1 opens it",
            "--bind \"b.test X: {K}\": warning: the network does not permit b.test, and a binding does not either: \
             it is not used, except on connections to an address that egress permits",
            "--secret \"L=env:L\": warning: nothing uses the secret L",
        ]
    );
}
