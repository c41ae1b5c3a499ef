//! The project's and the administrator's part, each alone and merged: table B.5, one row, one test.

use super::super::super::compile::{Compiled, load};
use super::super::super::options::PolicyOptions;
use super::*;
use crate::policy::Action;

fn named(name: &str, text: &str) -> NamedText {
    NamedText { name: name.to_owned(), text: text.to_owned() }
}

/// The policy of a project, an administrator's settings, and the lists that these name.
fn load_both(project: Option<&str>, settings: Option<&str>, lists: &[NamedText]) -> Result<Compiled, String> {
    let files: Vec<_> = project.map(|text| named("agent-config.yml", text)).into_iter().collect();
    let gitlab = settings.map(|text| GitlabSettings { file: named("admin.yml", text), recommended: lists.to_vec() });
    load(&files, &PolicyOptions { gitlab, ..PolicyOptions::default() }).map_err(|mistakes| mistakes.to_string())
}

fn merged(project: &str, settings: Option<&str>) -> Compiled {
    let project = format!("network_policy:\n{project}");
    load_both(Some(&project), settings, &[]).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// The hosts that rules of an action name, those of the built-in list as `recommended` once.
fn hosts(compiled: &Compiled, action: Action) -> Vec<String> {
    let rules = compiled.policy.rules().as_slice().iter().filter(|rule| rule.action() == action);
    let mut hosts: Vec<String> = rules
        .map(|rule| match rule.place().to_string().starts_with(BUILT_IN) {
            true => "recommended".to_owned(),
            false => rule.host().to_string(),
        })
        .collect();
    hosts.dedup();
    hosts
}

fn warnings(compiled: &Compiled) -> Vec<String> {
    compiled.warnings.iter().map(ToString::to_string).collect()
}

const FLEXIBLE: &str = "allow_project_extension: true\n";

/// One row of the boolean part, one test, for both flags: the administrator's value, the project's, and the result.
macro_rules! flags {
    ($($name:ident: $head:expr, admin $admin:expr, project $project:expr => $want:expr;)*) => { $(
        #[test]
        fn $name() {
            for flag in ["include_recommended_allowed", "allow_all_unix_sockets"] {
                let line = |value: &str| if value.is_empty() { String::new() } else { format!("{flag}: {value}\n") };
                let settings = format!("{}{}", $head, line($admin));
                let project = Some(line($project)).filter(|line| !line.is_empty()).map(|line| format!("  {line}"));
                let project = format!("network_policy:\n{}", project.unwrap_or_default());
                let mut mistakes = Collector::default();
                let root = super::super::parse(&named("p", &project), &"p".into(), &mut mistakes).unwrap();
                let settings = GitlabSettings { file: named("admin.yml", &settings), recommended: Vec::new() };
                let document = document(Some(&root), Some(&settings), &mut mistakes);
                mistakes.finish(&[], ()).unwrap();
                let got = match flag {
                    "include_recommended_allowed" => !document.ready_rules.is_empty(),
                    _ => !document.files.unix_sockets.is_empty(),
                };
                assert_eq!(got, $want, "{flag}");
            }
        }
    )* };
}

flags! {
    flexible_unset_unset: FLEXIBLE, admin "", project "" => false;
    flexible_unset_false: FLEXIBLE, admin "", project "false" => false;
    flexible_unset_true: FLEXIBLE, admin "", project "true" => true;
    flexible_false_unset: FLEXIBLE, admin "false", project "" => false;
    flexible_false_false: FLEXIBLE, admin "false", project "false" => false;
    flexible_false_true: FLEXIBLE, admin "false", project "true" => true;
    flexible_true_unset: FLEXIBLE, admin "true", project "" => true;
    flexible_true_false: FLEXIBLE, admin "true", project "false" => false;
    flexible_true_true: FLEXIBLE, admin "true", project "true" => true;
    flexible_null_is_unset: FLEXIBLE, admin "true", project "null" => true;
    strict_unset_unset: "", admin "", project "" => false;
    strict_unset_false: "", admin "", project "false" => false;
    strict_unset_true: "", admin "", project "true" => false;
    strict_null_true: "", admin "null", project "true" => false;
    strict_false_unset: "", admin "false", project "" => false;
    strict_false_false: "", admin "false", project "false" => false;
    strict_false_true: "", admin "false", project "true" => false;
    strict_true_unset: "", admin "true", project "" => true;
    strict_true_false: "", admin "true", project "false" => false;
    strict_true_true: "", admin "true", project "true" => true;
    strict_when_said: "allow_project_extension: false\n", admin "", project "true" => false;
    strict_when_null: "allow_project_extension: null\n", admin "", project "true" => false;
}

const ADMIN_LISTS: &str = "allowed_domains: [a.test, both.test]\ndenied_domains: [bad.test, worse.test]\n";
const PROJECT_LISTS: &str = "  allowed_domains: [both.test, p.test]\n  denied_domains: [worse.test, worst.test]\n";

#[test]
fn flexible_lists_are_joined() {
    let compiled = merged(PROJECT_LISTS, Some(&format!("{FLEXIBLE}{ADMIN_LISTS}")));
    assert_eq!(hosts(&compiled, Action::Allow), ["a.test", "both.test", "p.test"]);
    assert_eq!(hosts(&compiled, Action::Deny), ["bad.test", "worse.test", "worst.test"]);
    assert_eq!(warnings(&compiled), Vec::<String>::new());
}

#[test]
fn strict_lists_are_the_administrators_but_for_what_is_denied() {
    let compiled = merged(PROJECT_LISTS, Some(ADMIN_LISTS));
    assert_eq!(hosts(&compiled, Action::Allow), ["a.test", "both.test"]);
    assert_eq!(hosts(&compiled, Action::Deny), ["bad.test", "worse.test", "worst.test"]);
    let why = "agent-config.yml:2:21: warning: the administrator's settings do not permit an extension by the project, so its \
               `allowed_domains` count for nothing";
    assert_eq!(warnings(&compiled), [why]);
}

#[test]
fn what_a_project_asks_for_in_vain_is_told() {
    let compiled = merged("  include_recommended_allowed: true\n  allow_all_unix_sockets: true\n", Some(""));
    let told = warnings(&compiled);
    assert!(
        told.len() == 2 && told[0].contains("`include_recommended_allowed`") && told[1].contains("sockets"),
        "{told:?}"
    );
    let settings = "include_recommended_allowed: true\nallow_all_unix_sockets: true\n";
    let compiled = merged("  include_recommended_allowed: false\n  allow_all_unix_sockets: false\n", Some(settings));
    assert_eq!(warnings(&compiled), Vec::<String>::new(), "taking away is heard");
}

#[test]
fn a_project_without_an_administrator_is_followed() {
    let compiled = merged(&format!("{PROJECT_LISTS}  include_recommended_allowed: true\n"), None);
    assert_eq!(hosts(&compiled, Action::Allow), ["both.test", "p.test", "recommended"]);
    assert_eq!(hosts(&compiled, Action::Deny), ["worse.test", "worst.test"]);
}

#[test]
fn settings_alone_are_a_policy() {
    let settings = "always_allowed: [gitlab.test, '*.gitlab.test']\nallowed_domains: [a.test]";
    let compiled = load_both(None, Some(settings), &[]).unwrap();
    assert_eq!(hosts(&compiled, Action::Allow), ["gitlab.test", "*.gitlab.test", "a.test"]);
    let json = r#"{"allowed_domains": ["a.test"], "denied_domains": null, "allow_project_extension": true}"#;
    assert_eq!(hosts(&load_both(None, Some(json), &[]).unwrap(), Action::Allow), ["a.test"]);
    assert!(load_both(None, Some(""), &[]).unwrap().policy.rules().as_slice().is_empty());
}

/// Always allowed, the administrator's, the project's, the recommended ones, and what stands in several lists once.
#[test]
fn the_order_is_that_of_the_table() {
    let settings =
        format!("{FLEXIBLE}{ADMIN_LISTS}always_allowed: [gitlab.test, a.test]\ninclude_recommended_allowed: true");
    let lists = [
        named("dir/one.txt", "# our own\none.test\n\n  two.test # and why\np.test\n"),
        named("dir/two.txt", "github.com"),
    ];
    let project = format!("network_policy:\n{PROJECT_LISTS}");
    let compiled = load_both(Some(&project), Some(&settings), &lists).unwrap();
    let want = ["gitlab.test", "a.test", "both.test", "p.test", "recommended", "one.test", "two.test"];
    assert_eq!(hosts(&compiled, Action::Allow), want);
    let place =
        compiled.policy.rules().as_slice().iter().find(|rule| rule.host().to_string() == "two.test").unwrap().place();
    assert_eq!(place.to_string(), "dir/one.txt:4:1");
    let without = load_both(Some(&project), Some(FLEXIBLE), &lists).unwrap();
    assert_eq!(hosts(&without, Action::Allow), ["both.test", "p.test"], "the lists count as the recommended one does");
}

#[test]
fn the_recommended_list_is_whole_and_says_nothing_of_itself() {
    let compiled = merged("  include_recommended_allowed: true\n", None);
    let rules = compiled.policy.rules().as_slice();
    let lines = RECOMMENDED.lines().filter(|line| !line.is_empty()).count();
    assert_eq!(
        (rules.len(), rules.iter().filter(|rule| rule.host().to_string().starts_with("*.")).count()),
        (lines, 10)
    );
    assert_eq!(warnings(&compiled), Vec::<String>::new());
}

#[test]
fn what_is_denied_stays_denied_even_where_it_is_always_allowed() {
    let settings = "always_allowed: [gitlab.test]\ndenied_domains: []";
    let compiled = merged("  denied_domains: [gitlab.test]\n", Some(settings));
    let to = crate::types::Destination {
        authority: crate::types::Authority::parse("gitlab.test", 443).unwrap(),
        scheme: crate::types::Scheme::Https,
        dialled: None,
    };
    assert!(matches!(compiled.policy.destination(&to), Err(crate::policy::Denial::RuleDenied { .. })));
}

/// A project's literal address is a host like another; an administrator's is meant.
#[test]
fn the_administrator_alone_opens_addresses() {
    let project = merged("  allowed_domains: ['10.0.0.1:5432']\n", None);
    let told = "agent-config.yml:2:21: warning: 10.0.0.1 is a private address, so listing it is not enough: --allow-cidr 10.0.0.1 opens it";
    assert_eq!(warnings(&project), [told]);
    let admin = load_both(None, Some("allowed_domains: ['10.0.0.1:5432']"), &[]).unwrap();
    assert_eq!(warnings(&admin), ["admin.yml:1:19: warning: 10.0.0.1 is a private address, which this entry opens"]);
}

/// One row, one test: a project, or the settings, and exactly the mistakes.
macro_rules! mistakes {
    ($($name:ident: $project:expr, $settings:expr => $want:expr;)*) => { $(
        #[test]
        fn $name() {
            let project: Option<String> = $project.map(|text: &str| format!("network_policy:\n{text}"));
            let settings: Option<String> = $settings.map(|text: &str| text.to_owned());
            let got = load_both(project.as_deref(), settings.as_deref(), &[]).map(|_| ()).unwrap_err();
            assert_eq!(got, $want);
        }
    )* };
}

const BARE: &str = "\"*\": a bare `*` is every host\n  hint: name the hosts, such as api.example.com or *.example.com";

mistakes! {
    every_host_allowed: Some("  allowed_domains: ['*']"), None => format!("agent-config.yml:2:21: {BARE}");
    every_host_denied: Some("  denied_domains: ['*']"), None => format!("agent-config.yml:2:20: {BARE}");
    every_host_by_the_administrator: None, Some("denied_domains: ['*']") => format!("admin.yml:1:18: {BARE}");
    unknown_key: Some("  allowed_domain: [a.test]"), None =>
        "agent-config.yml:2:3: unknown key \"network_policy.allowed_domain\"\n  hint: did you mean `allowed_domains`?";
    unknown_setting: None, Some("allow_project_extensions: true") =>
        "admin.yml:1:1: unknown key \"allow_project_extensions\"\n  hint: did you mean `allow_project_extension`?";
    not_a_list: Some("  allowed_domains: a.test"), None =>
        "agent-config.yml:2:20: `network_policy.allowed_domains` cannot be of type text\n  hint: it takes a list of texts";
    not_a_text: Some("  allowed_domains: [1, a.test, null]"), None =>
        "agent-config.yml:2:21: `network_policy.allowed_domains` cannot be of type number\n  hint: it takes a text\n\
         agent-config.yml:2:32: `network_policy.allowed_domains` cannot be of type null\n  hint: it takes a text";
    not_a_flag: Some("  include_recommended_allowed: yes"), None =>
        "agent-config.yml:2:32: `network_policy.include_recommended_allowed` cannot be of type text\n  hint: it takes true or false";
    not_a_mapping: Some("  - a.test"), None =>
        "agent-config.yml:2:3: `network_policy` cannot be of type list\n  hint: it takes a mapping";
    settings_that_are_a_list: None, Some("- a.test") =>
        "admin.yml:1:1: `the settings` cannot be of type list\n  hint: it takes a mapping";
    settings_that_are_broken: None, Some("{") => "admin.yml:1:1: not valid JSON: EOF while parsing an object";
    a_quote_in_a_name: Some("  allowed_domains: [\"a.test'; id\"]"), None =>
        "agent-config.yml:2:21: \"a.test'; id\": '\\'' is not allowed in a host name\n  hint: write a host such as api.example.com or *.example.com";
}

#[test]
fn a_list_has_at_most_a_thousand_entries() {
    let list = |count: usize| (0..count).map(|n| format!("  - h{n}.test\n")).collect::<String>();
    for key in ["allowed_domains", "denied_domains"] {
        let load = |count| load_both(None, Some(&format!("{key}:\n{}", list(count))), &[]);
        assert_eq!(load(1000).unwrap().policy.rules().as_slice().len(), 1000);
        let told = format!(
            "admin.yml:1002:5: `{key}` has 1001 entries, and at most 1000 are taken\n  hint: name the domains above them, such as *.example.com"
        );
        assert_eq!(load(1001).map(|_| ()).unwrap_err(), told);
    }
    let project = format!("  allowed_domains:\n{}", list(600).replace("  -", "    -"));
    let settings = format!("{FLEXIBLE}allowed_domains:\n{}", list(600));
    assert_eq!(merged(&project, Some(&settings)).policy.rules().as_slice().len(), 600, "each list by itself");
}

#[test]
fn a_run_has_one_project() {
    let file = |name| named(name, "network_policy:");
    let mistakes =
        load(&[file("a.yml"), file("b.yml")], &PolicyOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        mistakes,
        "b.yml:1:1: this is a second agent-config.yml\n  hint: give one of them: a run is for one project"
    );
}

#[test]
fn local_names_and_other_keys_are_told() {
    let settings = "always_allowed: [localhost, host.docker.internal]\nenforce_on_local_clients: true";
    let project = "image: ruby\nsetup_script: ls\ncache:\n  paths: [x]\nnetwork_polcy: {}\nnetwork_policy:\n";
    let compiled = load_both(Some(project), Some(settings), &[]).unwrap();
    assert_eq!(hosts(&compiled, Action::Allow), ["host.docker.internal"]);
    let told = warnings(&compiled).join("\n");
    for part in [
        "agent-config.yml:5:1: warning: `network_polcy` is no key of a network policy, and nothing is made of it",
        "admin.yml:2:1: warning: `enforce_on_local_clients` changes nothing",
        "admin.yml:1:18: warning: a name for the machine itself is never resolved",
    ] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(compiled.warnings.len(), 3);
}

#[test]
fn further_lists_lie_beside_the_settings() {
    let directory = |text| recommended_directory(&named("conf/admin.yml", text));
    assert_eq!(directory("recommended_directory: lists"), Some("conf/lists".into()));
    assert_eq!(directory("recommended_directory: /etc/lists"), Some("/etc/lists".into()));
    assert_eq!(directory("{\"recommended_directory\": \"lists\"}"), Some("conf/lists".into()));
    for none in ["", "recommended_directory: ''", "recommended_directory: [x]", "{", "allowed_domains: []"] {
        assert_eq!(directory(none), None, "{none:?}");
    }
}
