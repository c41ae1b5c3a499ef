use super::*;

fn written(branches: &[&str]) -> WrittenPushRules {
    WrittenPushRules {
        branches: Some(branches.iter().map(|&text| text.to_owned()).collect()),
        create: true,
        ..WrittenPushRules::default()
    }
}

/// The binding of the rows marked P: branches `agent/**` only, no delete, no tags, no force.
fn agent() -> PushRules {
    PushRules::new(&written(&["agent/**"])).unwrap()
}

fn word(rules: &PushRules, name: &str, change: Change) -> String {
    match rules.judge(&RefChange { target: RefTarget::Named(name.to_owned()), change }) {
        Judged::Allowed => "allowed".to_owned(),
        Judged::NeedsAncestry => "ancestry".to_owned(),
        Judged::Refused(why) => {
            assert_eq!(why.code, Code::PushRule);
            assert!(!why.message.contains('\n') && why.message.contains(name));
            why.message.replace("blocked by policy: ", "").replace(&format!(": {name}"), "")
        }
    }
}

const MOVE: Change = Change::Update(Forced::Unknown);

#[test]
fn the_rows_of_an_agent() {
    let rows = [
        ("refs/heads/agent/x", Change::Create, "allowed"),
        ("refs/heads/agent/x/y", Change::Create, "allowed"),
        ("refs/heads/agent/x", Change::Put, "allowed"),
        ("refs/heads/agent/x", Change::Update(Forced::No), "allowed"),
        ("refs/heads/agent/x", MOVE, "ancestry"),
        ("refs/heads/agent/x", Change::Update(Forced::Yes), "force push not allowed"),
        ("refs/heads/agent/x", Change::Delete, "deleting it is not allowed"),
        ("refs/heads/main", MOVE, "branch not allowed"),
        ("refs/heads/main", Change::Put, "branch not allowed"),
        ("refs/heads/agent", Change::Create, "branch not allowed"),
        ("refs/heads/refs/heads/agent/x", Change::Create, "branch not allowed"),
        ("refs/tags/v1", Change::Create, "tags are not allowed"),
        ("refs/tags/agent/v1", Change::Delete, "tags are not allowed"),
        ("refs/notes/commits", Change::Create, "ref is neither a branch nor a tag"),
        ("refs/pull/1/head", MOVE, "ref is neither a branch nor a tag"),
        ("refs/headsagent/x", Change::Create, "ref is neither a branch nor a tag"),
        ("HEAD", MOVE, "ref is neither a branch nor a tag"),
    ];
    for (name, change, verdict) in rows {
        assert_eq!(word(&agent(), name, change), verdict, "{name} {change:?}");
    }
}

#[test]
fn every_flag_opens_its_own_door_only() {
    let all = WrittenPushRules { create: true, delete: true, tags: true, force: true, ..WrittenPushRules::default() };
    let without = |change: fn(&mut WrittenPushRules)| {
        let mut written = all.clone();
        change(&mut written);
        PushRules::new(&written).unwrap()
    };
    let branch = "refs/heads/b";
    let tag = "refs/tags/t";
    let rules = without(|w| w.create = false);
    assert_eq!(word(&rules, branch, Change::Create), "creating it is not allowed");
    assert_eq!(word(&rules, branch, Change::Put), "creating it is not allowed");
    assert_eq!(word(&rules, branch, MOVE), "allowed");
    assert_eq!(word(&rules, tag, Change::Create), "allowed");
    let rules = without(|w| w.delete = false);
    assert_eq!(word(&rules, branch, Change::Delete), "deleting it is not allowed");
    assert_eq!(word(&rules, tag, Change::Delete), "deleting it is not allowed");
    let rules = without(|w| w.force = false);
    assert!(rules.needs_ancestry() && !PushRules::unlimited().needs_ancestry());
    assert_eq!(word(&rules, branch, MOVE), "ancestry");
    for change in [MOVE, Change::Update(Forced::No), Change::Update(Forced::Yes), Change::Put] {
        assert_eq!(word(&rules, tag, change), "moving a tag is not allowed", "an update of a tag is force");
    }
    assert_eq!(word(&rules, tag, Change::Create), "allowed");
    let rules = without(|w| w.tags = false);
    for change in [Change::Create, Change::Delete, MOVE, Change::Put] {
        assert_eq!(word(&rules, tag, change), "tags are not allowed");
        assert_eq!(word(&rules, branch, change), "allowed");
    }
}

#[test]
fn denied_branches_are_denied_among_the_allowed() {
    let rules = PushRules::new(&WrittenPushRules {
        branches: None,
        deny_branches: vec!["main".into(), "release/**".into()],
        ..written(&[])
    })
    .unwrap();
    assert_eq!(word(&rules, "refs/heads/x", Change::Create), "allowed");
    assert_eq!(word(&rules, "refs/heads/main", Change::Create), "branch not allowed");
    assert_eq!(word(&rules, "refs/heads/release/1/2", Change::Create), "branch not allowed");
}

#[test]
fn without_rules_branches_and_tags_are_free() {
    let rules = PushRules::unlimited();
    for name in ["refs/heads/main", "refs/tags/v1"] {
        for change in [Change::Create, Change::Delete, Change::Put, MOVE, Change::Update(Forced::Yes)] {
            assert_eq!(word(&rules, name, change), "allowed", "{name}");
        }
    }
    assert_eq!(word(&rules, "refs/notes/x", Change::Create), "ref is neither a branch nor a tag");
}

#[test]
fn other_refs_are_for_those_that_are_listed() {
    let rules =
        PushRules::new(&WrittenPushRules { other_refs: vec!["refs/notes/*".into()], ..written(&["x"]) }).unwrap();
    assert_eq!(word(&rules, "refs/notes/commits", Change::Create), "allowed");
    assert_eq!(word(&rules, "refs/notes/commits", MOVE), "ancestry");
    assert_eq!(word(&rules, "refs/notes/commits", Change::Delete), "deleting it is not allowed");
    assert_eq!(word(&rules, "refs/notes/a/b", Change::Create), "ref is neither a branch nor a tag");
}

#[test]
fn what_is_not_known_is_refused() {
    for target in [RefTarget::DefaultBranch, RefTarget::PullBase(1), RefTarget::RefNode("REF_x".into())] {
        let Judged::Refused(why) = PushRules::unlimited().judge(&RefChange { target, change: Change::Create }) else {
            panic!("allowed");
        };
        assert_eq!(why.code, Code::Unresolved);
    }
    let target = RefTarget::Named("refs/heads/a b".into());
    let Judged::Refused(why) = PushRules::unlimited().judge(&RefChange { target, change: Change::Create }) else {
        panic!("allowed");
    };
    assert_eq!(why.code, Code::Malformed);
}

#[test]
fn all_mistakes_are_said_at_once() {
    let errors = PushRules::new(&WrittenPushRules {
        branches: Some(vec![]),
        deny_branches: vec!["refs/heads/main".into(), "a?".into()],
        other_refs: vec!["refs/heads/x".into(), "refs/**".into(), "notes/x".into(), "refs/notes/*".into()],
        ..WrittenPushRules::default()
    })
    .unwrap_err();
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 6, "{texts:?}");
    assert_eq!(errors[0], PushRuleError::NoBranches);
    assert_eq!(errors[1], PushRuleError::Full { list: "deny_branches", text: "refs/heads/main".into() });
    assert!(matches!(&errors[2], PushRuleError::Pattern { text, .. } if text == "a?"));
    assert_eq!(errors[4], PushRuleError::NotOther("refs/**".into()));
    let many = WrittenPushRules { branches: Some(vec!["a".into(); 101]), ..WrittenPushRules::default() };
    assert_eq!(PushRules::new(&many), Err(vec![PushRuleError::Many("branches")]));
}
