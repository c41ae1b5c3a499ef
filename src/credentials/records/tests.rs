use std::sync::atomic::{AtomicU64, Ordering};

use super::super::fetch::Fetch;
use super::super::issue::{Issued, Issuer, Issuing};
use super::super::issuers::tests::{Script, at};
use super::super::renew::Keeper;
use super::*;
use crate::policy::github::{Code, GitHubSite};
use crate::types::Secret;

struct Fixed(&'static str);

impl Issuer for Fixed {
    fn issue(&self) -> Issuing<'_> {
        let secret = Secret::new("T", self.0.as_bytes().to_vec().into()).unwrap();
        Box::pin(async move { Ok(Issued { secret, expires_at: None }) })
    }
}

/// Records of `acme/widget` and of what else is listed, at a time that the test moves.
struct Case {
    records: Records,
    script: Arc<Script>,
    time: Arc<AtomicU64>,
}

async fn case(listed: Option<&[&str]>, answers: &[(u16, &str)]) -> Case {
    let script = Script::new(answers);
    let time = Arc::new(AtomicU64::new(1_800_000_000));
    let clock: Clock = {
        let time = Arc::clone(&time);
        Arc::new(move || at(time.load(Ordering::Relaxed)))
    };
    let keeper = Arc::new(Keeper::new("T", Box::new(Fixed("real")), Arc::clone(&clock)));
    keeper.start().await.unwrap();
    let site = GitHubSite::new(GitHubSite::GITHUB).unwrap();
    let calls = Calls::new(&site, vec![Kept { keeper, owner: None }], Arc::clone(&script) as Arc<dyn Fetch>);
    let listed = listed.map(|names| names.iter().map(|name| name_of(name)).collect());
    Case { records: Records::new(listed, calls, clock), script, time }
}

fn name_of(text: &str) -> RepoName {
    RepoName::parse(text).unwrap()
}

fn repository(full_name: &str, id: u64, owner: u64) -> String {
    format!(
        r#"{{"id":{id},"node_id":"R_{id}","full_name":"{full_name}","default_branch":"main","owner":{{"id":{owner},"login":"x"}},"more":[1]}}"#
    )
}

impl Case {
    fn pass(&self, seconds: u64) {
        self.time.fetch_add(seconds, Ordering::Relaxed);
    }

    fn is(&self, name: &str) -> String {
        match self.records.repository(&name_of(name)) {
            Membership::Is(repository) => repository.id.to_string(),
            Membership::Any => "any".to_owned(),
            Membership::Not => "not".to_owned(),
            Membership::Changed => "changed".to_owned(),
            Membership::Unresolved => "unresolved".to_owned(),
        }
    }
}

#[tokio::test]
async fn a_name_is_pinned_once_and_a_former_name_leads_to_the_same() {
    let moved = r#"{"message":"Moved Permanently","url":"https://api.github.com/repositories/1"}"#;
    let case = case(Some(&["acme/old"]), &[(301, moved), (200, &repository("Acme/Widget", 1, 7))]).await;
    assert_eq!(case.is("acme/old"), "unresolved");
    case.records.refresh().await;
    case.records.refresh().await;
    assert_eq!([case.is("acme/old"), case.is("acme/widget"), case.is("acme/other")], ["1", "1", "not"]);
    assert_eq!(case.records.repository_of_id(1).map(|found| found.name.to_string()).as_deref(), Some("acme/widget"));
    assert_eq!(case.records.node("R_1"), Some(NodeOwner::Repository(1)));
    let asked = case.script.asked();
    let urls: Vec<&str> = asked.iter().map(|asked| asked[1].as_str()).collect();
    assert_eq!(urls, ["https://api.github.com/repos/acme/old", "https://api.github.com/repositories/1"]);
    assert!(asked[0][2].contains("authorization: Bearer real"), "{}", asked[0][2]);
}

#[tokio::test]
async fn a_redirect_to_elsewhere_is_not_followed() {
    for url in [
        "https://evil.test/repositories/1",
        "https://api.github.com.evil/repositories/1",
        "https://api.github.com/user",
    ] {
        let case = case(Some(&["acme/old"]), &[(301, &format!(r#"{{"url":"{url}"}}"#))]).await;
        case.records.refresh().await;
        assert_eq!((case.is("acme/old").as_str(), case.script.asked().len()), ("unresolved", 1), "{url}");
    }
}

#[tokio::test]
async fn a_name_that_changes_hands_is_closed_for_good() {
    for (id, owner) in [(2, 7), (1, 8)] {
        let answers =
            [repository("acme/widget", 1, 7), repository("acme/widget", id, owner), repository("acme/widget", 1, 7)];
        let answers: Vec<(u16, &str)> = answers.iter().map(|answer| (200, answer.as_str())).collect();
        let case = case(Some(&["acme/widget"]), &answers).await;
        case.records.refresh().await;
        case.records.learn_nodes([("I_1".to_owned(), NodeOwner::Repository(1))]);
        assert_eq!(case.records.node("I_1"), Some(NodeOwner::Repository(1)));
        case.pass(601);
        case.records.refresh().await;
        assert_eq!(case.is("acme/widget"), "changed");
        assert!(case.records.repository_of_id(1).is_none() && case.records.repository_of_id(2).is_none());
        assert_eq!((case.records.node("I_1"), case.records.node("R_1")), (Some(NodeOwner::Foreign), None));
        case.pass(601);
        case.records.refresh().await;
        assert_eq!((case.is("acme/widget").as_str(), case.script.asked().len()), ("changed", 3));
    }
}

#[tokio::test]
async fn a_name_that_has_moved_is_looked_up_at_the_next_request() {
    let answers = [repository("acme/widget", 1, 7), repository("acme/moved", 1, 7), repository("acme/widget", 2, 7)];
    let answers: Vec<(u16, &str)> = answers.iter().map(|answer| (200, answer.as_str())).collect();
    let case = case(Some(&["acme/widget"]), &answers).await;
    case.records.refresh().await;
    case.records.look_again(9);
    case.records.refresh().await;
    assert_eq!(case.script.asked().len(), 1);
    for is in ["1", "changed"] {
        // However often it is said, what was seen is believed until it has been looked up.
        (0..3).for_each(|_| case.records.look_again(1));
        assert_eq!(case.is("acme/widget"), "1");
        case.records.refresh().await;
        assert_eq!(case.is("acme/widget"), is);
    }
}

#[tokio::test]
async fn what_is_learned_may_be_looked_up_while_it_is_told() {
    let case = case(Some(&["acme/widget"]), &[(200, &repository("acme/widget", 1, 7))]).await;
    case.records.refresh().await;
    case.records.learn_nodes(["I_1"].into_iter().filter_map(|id| Some((id.to_owned(), case.records.node("R_1")?))));
    assert_eq!(case.records.node("I_1"), Some(NodeOwner::Repository(1)));
}

#[tokio::test]
async fn a_look_up_that_fails_closes_what_was_known_after_a_while() {
    let case = case(Some(&["acme/widget"]), &[(200, &repository("acme/widget", 1, 7)), (500, ""), (404, "{}")]).await;
    case.records.refresh().await;
    case.pass(601);
    case.records.refresh().await;
    assert_eq!(case.is("acme/widget"), "1");
    case.pass(600);
    assert_eq!(case.is("acme/widget"), "unresolved");
    assert!(case.records.repository_of_id(1).is_none());
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_is_left_alone_for_a_while() {
    let case = case(Some(&["acme/widget"]), &[(500, ""), (500, ""), (200, &repository("acme/widget", 1, 7))]).await;
    let name = name_of("acme/widget");
    for asked in [1, 2] {
        case.records.refresh().await;
        assert!(case.records.record(&name).await.is_err());
        case.records.refresh().await;
        assert_eq!((case.is("acme/widget").as_str(), case.script.asked().len()), ("unresolved", asked));
        case.pass(31);
    }
    case.records.refresh().await;
    assert_eq!(case.is("acme/widget"), "1");
}

#[tokio::test]
async fn many_names_are_looked_up_together() {
    let names: Vec<String> = (0..20).map(|number| format!("acme/r{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let case = case(Some(&names), &[(500, ""); 20]).await;
    case.records.refresh().await;
    assert_eq!(case.script.asked().len(), 20);
}

/// Somebody may have that name by now.
#[tokio::test]
async fn a_former_name_is_closed_once_another_is_seen() {
    let answers = [repository("acme/widget", 1, 7), repository("acme/moved", 1, 7)];
    let answers: Vec<(u16, &str)> = answers.iter().map(|answer| (200, answer.as_str())).collect();
    let case = case(Some(&["acme/old"]), &answers).await;
    case.records.refresh().await;
    case.records.learn_nodes([("I_1".to_owned(), NodeOwner::Repository(1)), ("U_1".to_owned(), NodeOwner::Foreign)]);
    case.records.learn_issues([5001]);
    assert_eq!([case.is("acme/old"), case.is("acme/widget"), case.is("acme/moved")], ["1", "1", "not"]);
    case.pass(601);
    case.records.refresh().await;
    assert_eq!([case.is("acme/old"), case.is("acme/widget"), case.is("acme/moved")], ["1", "not", "1"]);
    assert_eq!((case.records.node("I_1"), case.records.node("U_1")), (None, Some(NodeOwner::Foreign)));
    assert!(!case.records.issue_id(5001));
}

#[tokio::test(start_paused = true)]
async fn what_is_held_has_bounds_and_who_waits_is_told() {
    let case = case(Some(&[]), &[]).await;
    let records = &case.records;
    let most = BODY_PIECES * BODY_PIECE;
    let first = records.room_for_body(most - 1).await.unwrap();
    let refused = records.room_for_body(0).await.unwrap_err();
    assert_eq!((refused.code, refused.message.contains("try again")), (Code::Unresolved, true));
    drop(first);
    // More than all there is gets all there is.
    let _all = records.room_for_body(10 * most).await.unwrap();
    let _packs = [records.room_for_pack().await.unwrap(), records.room_for_pack().await.unwrap()];
    assert_eq!(records.room_for_pack().await.unwrap_err().code, Code::Unresolved);
}

#[tokio::test]
async fn where_all_are_allowed_records_are_made_on_demand() {
    let case = case(None, &[(200, &repository("acme/widget", 1, 7)), (404, "{}")]).await;
    case.records.refresh().await;
    assert_eq!((case.is("acme/widget").as_str(), case.script.asked().len()), ("any", 0));
    assert_eq!(case.records.record(&name_of("acme/widget")).await.unwrap().id, 1);
    assert_eq!(case.is("acme/widget"), "1");
    let refused = case.records.record(&name_of("acme/gone")).await.unwrap_err();
    assert_eq!((refused.code, refused.message.contains("404")), (Code::Unresolved, false));
}

#[tokio::test]
async fn a_url_of_storage_is_good_for_its_methods_and_for_its_time() {
    let case = case(Some(&[]), &[]).await;
    let records = &case.records;
    records.learn_capability("Storage.Test", "/a?sig=1", Methods::GET, None);
    records.learn_capability("storage.test", "/b", Methods::of("PUT").unwrap(), Some(Duration::from_secs(1_000_000)));
    let is = |target: &str, method: &str| records.is_capability("storage.test", target, method);
    assert!(is("/a?sig=1", "GET") && is("/a?sig=1", "HEAD") && !is("/a?sig=1", "PUT") && !is("/a?sig=2", "GET"));
    assert!(is("/b", "PUT") && !is("/b", "GET") && !records.is_capability("other.test", "/b", "PUT"));
    case.pass(901);
    assert!(!is("/a?sig=1", "GET") && is("/b", "PUT"));
    case.pass(2700);
    assert!(!is("/b", "PUT"));
    assert_eq!(Methods::of("DELETE"), None);
}

#[tokio::test]
async fn branches_are_looked_up_by_number_and_by_node_id() {
    let pull = r#"{"base":{"ref":"main","repo":{"id":1}},"head":{"ref":"f","repo":null}}"#;
    let node = r#"{"data":{"node":{"repository":{"databaseId":1},"baseRefName":"main","headRefName":"f","headRepository":{"databaseId":2}}}}"#;
    let a_ref = r#"{"data":{"node":{"repository":{"databaseId":1},"prefix":"refs/tags/","name":"v1"}}}"#;
    let answers =
        [(200, pull), (200, node), (200, a_ref), (200, r#"{"data":{"node":{}}}"#), (200, r#"{"status":"diverged"}"#)];
    let case = case(Some(&[]), &answers).await;
    let calls = case.records.calls();
    let name = name_of("acme/widget");
    let (default_branch, node_id) = ("main".to_owned(), "R_1".to_owned());
    let repository = Repository { name, id: 1, node_id, owner_id: 7, default_branch, parent_id: None };
    let main = "refs/heads/main".to_owned();
    let head = |of| Some(("refs/heads/f".to_owned(), of));
    let wanted = |head| Ok(RefDetails { repository: 1, name: main.clone(), head });
    assert_eq!(calls.pull(&repository, 5).await, wanted(head(None)));
    assert_eq!(calls.node("PR_1").await, wanted(head(Some(2))));
    assert_eq!(calls.node("REF_1").await.map(|found| found.name), Ok("refs/tags/v1".to_owned()));
    assert!(calls.node("U_1").await.is_err());
    assert_eq!(calls.is_ahead(&repository, "a", "b").await, Ok(false));
    assert!(case.script.asked()[4][1].ends_with("/repos/acme/widget/compare/a...b?per_page=1&page=2"));
}
