//! How a file is known, and that JSON and YAML are read with places and without surprises. What the dialects say is tested
//! beside each.

use super::super::compile::{Compiled, load};
use super::super::options::PolicyOptions;
use super::super::print::toml;
use super::*;

/// A policy of one file, whatever it is.
fn compile(text: &str) -> Result<Compiled, String> {
    let file = NamedText { name: "p".to_owned(), text: text.to_owned() };
    load(&[file], &PolicyOptions::default()).map_err(|mistakes| mistakes.to_string())
}

/// One row, one test: a file, and what it is taken for: `toml`, `gitlab`, `srt`, or the mistakes.
macro_rules! files {
    ($($name:ident: $text:expr => $want:expr;)*) => { $(
        #[test]
        fn $name() {
            let mut mistakes = Collector::default();
            let file = NamedText { name: "p".to_owned(), text: $text.to_owned() };
            let written = match recognise(&file, &"p".into(), &mut mistakes) {
                Recognised::Toml => "toml".to_owned(),
                Recognised::Gitlab(_) => "gitlab".to_owned(),
                Recognised::Srt(_) => "srt".to_owned(),
                Recognised::Unreadable => String::new(),
            };
            let got = mistakes.finish(&[], written).unwrap_or_else(|mistakes| mistakes.to_string());
            assert_eq!(got, $want);
        }
    )* };
}

const SRT: &str = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#;

files! {
    nothing: "" => "toml";
    comments_alone: "# a: b\n\n" => "toml";
    a_table: "[network]\nmode = \"all\"" => "toml";
    a_dotted_key: "network.mode = \"none\" # a: b" => "toml";
    a_quoted_key_of_toml: "\"network\" = 1 # a: b" => "toml";
    a_toml_file_with_byte_order_mark: "\u{feff}[network]" => "toml";
    broken_toml: "[network" => "toml";
    prose: "hello world" => "toml";
    a_url: "https://a.test" => "toml";
    agent_config: "network_policy:\n  allowed_domains: []" => "gitlab";
    agent_config_with_other_keys_first: "# a\n---\nimage: \"ruby:3\"\nsetup_script:\n  - ls\nnetwork_policy:" => "gitlab";
    agent_config_with_a_quoted_key: "\"network_policy\" : {}" => "gitlab";
    agent_config_as_json: "{\"network_policy\": {}}" => "gitlab";
    agent_config_with_a_version: "%YAML 1.2\n---\nnetwork_policy:" => "gitlab";
    srt_settings: SRT => "srt";
    srt_settings_after_blank_lines: format!("\n\n  {SRT}") => "srt";
    settings_of_an_administrator: "allowed_domains: []" =>
        "p:1:1: these are an administrator's settings, not a policy\n  hint: give it by --gitlab-settings FILE; --policy \
         takes the project's agent-config.yml";
    agent_config_without_a_policy: "image: ruby" =>
        "p:1:1: it is no policy\n  hint: a GitLab agent-config.yml has a `network_policy`, srt settings have `network` and \
         `filesystem`, and a policy of our own is TOML";
    an_empty_object: "{}" =>
        "p:1:1: it is no policy\n  hint: a GitLab agent-config.yml has a `network_policy`, srt settings have `network` and \
         `filesystem`, and a policy of our own is TOML";
}

// JSON: what RFC 8259 has, and nothing beside it.
files! {
    json_cut_off: "{\"network\": {" => "p:1:13: not valid JSON: EOF while parsing an object";
    json_with_a_comment: "{\n // x\n}" => "p:2:2: not valid JSON: key must be a string";
    json_with_a_final_comma: "{\"network\": [1,]}" => "p:1:16: not valid JSON: expected value";
    json_with_something_behind: "{} {}" => "p:1:4: not valid JSON: trailing characters";
    json_key_twice: "{\"network\": {},\n \"n\\u0065twork\": {}, \"filesystem\": 1}" =>
        "p:1:13: `network.allowedDomains` is missing\n  hint: add it, as srt takes no settings without it\n\
         p:1:13: `network.deniedDomains` is missing\n  hint: add it, as srt takes no settings without it\n\
         p:2:2: the key \"network\" stands here twice\n  hint: keep one of them\n\
         p:2:36: `filesystem` cannot be of type number\n  hint: it takes a mapping";
    json_half_a_character: "{\"network_policy\": [\"\\ud83d\"]}" =>
        "p:1:21: it is no text: an escape in it stands for no character";
    json_whole_character: "{\"network_policy\": {\"a\": \"\\ud83d\\ude00\"}}" => "gitlab";
    json_deep: format!("{{\"network_policy\": {}1{}}}", "[".repeat(31), "]".repeat(31)) =>
        "p:1:51: lists and objects stand more than 32 deep in each other";
    json_very_deep: format!("{{\"network_policy\": {}", "[".repeat(500_000)) =>
        "p:1:500019: not valid JSON: EOF while parsing a list";
}

// YAML: one document of texts, numbers and flags.
files! {
    yaml_pattern_without_quotes: "network_policy:\n  allowed_domains:\n    - *.example.com" =>
        "p:3:7: what begins with `*` is an alias in YAML, and there is none of this name\n  hint: put a host pattern in \
         quotes: \"*.example.com\"";
    yaml_key_twice: "network_policy:\n  allowed_domains: []\n  allowed_domains: []" =>
        "p:3:3: the key \"allowed_domains\" stands here twice\n  hint: keep one of them";
    yaml_two_documents: "network_policy:\n---\nnetwork_policy:" =>
        "p:2:1: a second document begins here\n  hint: write all of it as one document";
    yaml_tab: "network_policy:\n\tallowed_domains: []" =>
        "p:2:2: not valid YAML: tabs disallowed within this context (block indentation)";
    yaml_list_as_a_key: "network_policy:\n  [a]: b" =>
        "p:2:3: a key is a text\n  hint: write a name, in quotes where YAML reads it otherwise";
    yaml_deep: format!("network_policy: {}1{}", "[".repeat(32), "]".repeat(32)) =>
        "p:1:48: lists and mappings stand more than 32 deep in each other";
    yaml_alias_elsewhere: "cache: &c\n  key: x\nimage: *c\nnetwork_policy:" => "gitlab";
    yaml_tag_elsewhere: "setup_script: !reference [a, b]\nnetwork_policy:" => "gitlab";
}

/// Nine lines that would become a billion texts.
#[test]
fn aliases_do_not_multiply() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (one, two) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        text += &format!("{two}: &{two} [{}]\n", vec![format!("*{one}"); 9].join(", "));
    }
    let mistakes = compile(&format!("{text}network_policy:\n  allowed_domains: *i")).unwrap_err();
    assert_eq!(
        mistakes,
        "p:11:20: `network_policy.allowed_domains` cannot be of type alias\n  hint: it takes a list of texts"
    );
}

/// What a plain scalar is, by the core schema: GitLab's own parser takes `yes` for true, which is told and not guessed.
#[test]
fn plain_scalars_are_texts_unless_they_are_flags_or_numbers() {
    let kind = |scalar: &str| {
        let text = format!("network_policy:\n  include_recommended_allowed: {scalar}");
        let mistake = compile(&text).map(|_| "boolean".to_owned()).unwrap_or_else(|mistakes| mistakes);
        let kind = mistake.split("of type ").nth(1).unwrap_or(&mistake);
        kind.split('\n').next().unwrap_or_default().to_owned()
    };
    for (scalars, want) in [
        (&["true", "True", "FALSE", "~", "", "null"][..], "boolean"),
        (
            &["yes", "on", "\"true\"", "'no'", "!!str true", "1.2.3.4", "12:30", "a.test:443", "nanny", "infinity"],
            "text",
        ),
        (&["1", "-0.5", "1e3", "0x1F", "0o17", ".5", ".inf", "-.inf", ".nan"], "number"),
        (&["!x true", "!!bool true"], "value with a tag"),
        (&["[]"], "list"),
        (&["{}"], "mapping"),
    ] {
        for scalar in scalars {
            assert_eq!(kind(scalar), want, "{scalar}");
        }
    }
}

/// The same policy in four spellings: own rules, GitLab's, srt's, and what is printed of any of them.
#[test]
fn all_that_say_the_same_are_the_same_policy() {
    let own = r#"
        [[network.rules]]
        host = "api.example.com"
        action = "allow"
        scheme = "any"
        ports = "all"
        [[network.rules]]
        host = "*.example.org"
        action = "allow"
        scheme = "any"
        ports = [8443]
        [[network.rules]]
        host = "bad.example.org"
        action = "deny"
        [[network.rules]]
        host = "*.example.net"
        action = "deny"
        ports = [22]
    "#;
    let gitlab = "
network_policy:
  allowed_domains: [API.example.com, '*.example.org:8443', api.example.com]
  denied_domains:
    - bad.example.org
    - '*.example.net:22'
";
    let srt = r#"{
        "network": {
            "allowedDomains": ["api.example.com", "*.Example.org:8443"],
            "deniedDomains": ["bad.example.org", "*.example.net:22"],
            "strictAllowlist": true
        },
        "filesystem": {"disabled": true, "denyRead": [], "allowWrite": [], "denyWrite": []}
    }"#;
    let own = printed(own);
    assert_eq!(own.matches("[[network.rules]]").count(), 4, "{own}");
    assert_eq!(printed(gitlab), own);
    assert_eq!(printed(srt), own);
    assert_eq!(printed(&own), own);
}

/// The same of what only srt and own rules can say.
#[test]
fn addresses_and_proxies_are_the_same_too() {
    let own = r#"
        [upstream]
        proxy = "http://proxy.example.com:3128"
        [egress]
        deny_cidrs = ["9.9.9.0/24", "2620:fe::/48"]
        [[network.rules]]
        host = "10.0.0.1"
        action = "allow"
        scheme = "any"
        ports = [5432]
        opens_address = true
        [[network.rules]]
        host = "a.example.com"
        action = "allow"
        scheme = "https"
        ports = "all"
        [[network.rules]]
        host = "a.example.com"
        action = "allow"
        scheme = "http"
        ports = "all"
        [[network.rules]]
        host = "b.example.com"
        action = "deny"
        ports = [22]
        reason = "use https"
    "#;
    let settings = |allowed: &str, more: &str| {
        format!(
            r#"{{"network": {{"allowedDomains": [{allowed}], "deniedDomains": ["b.example.com:22"],
                 "deniedDomainReasons": {{"b.example.com:22": "use https"}},
                 "deniedResolvedAddresses": ["9.9.9.0/24", "2620:fe::/48"], {more}
                 "parentProxy": {{"http": "http://proxy.example.com:3128"}}}},
                "filesystem": {{"disabled": true, "denyRead": [], "allowWrite": [], "denyWrite": []}}}}"#
        )
    };
    let seen = settings(r#""a.example.com""#, "\"refuseOpaqueTunnels\": true,");
    let own = printed(own);
    let without_address =
        own.split("\n\n").filter(|table| !table.contains("10.0.0.1")).collect::<Vec<_>>().join("\n\n");
    assert_eq!(printed(&seen), without_address);
    assert_eq!(printed(&own), own);
    let addressed = printed(&settings(r#""10.0.0.1:5432""#, ""));
    assert!(addressed.starts_with(own.split("\n\n").next().unwrap()), "{addressed}");
}

/// What a policy says, wherever it was written.
fn printed(text: &str) -> String {
    toml(&compile(text).unwrap_or_else(|mistakes| panic!("{mistakes}")), false)
}
