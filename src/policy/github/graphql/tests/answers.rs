//! What is learned from answers, and what GitHub says about ids.

use super::*;

fn learned(text: &str, answer: &str) -> Vec<(String, Learned)> {
    covered(query(text)).learn.read(answer.as_bytes())
}

fn widget(id: &str) -> (String, Learned) {
    (id.to_owned(), Learned::Repository(RepositoryOf::Named(RepoName::new("acme", "widget").unwrap())))
}

const QUERY: &str = "{r:repository(owner:\"acme\",name:\"widget\"){x:id owner{id login} parent{id} \
    issues(first:2){nodes{id id2:id id3:title author{... on User{id}}}}} viewer{id}}";

#[test]
fn ids_are_learned_by_where_they_stand() {
    let answer = r#"{"data":{"r":{"x":"R_ok","id":"NOT_ASKED","owner":{"id":"U_1","login":"acme"},"parent":{"id":"R_parent"},
        "issues":{"nodes":[{"id":"I_1","id2":"I_1","id3":"I_no","author":{"id":"U_2"}},null,{"id":"I_2","author":null}]}},
        "viewer":{"id":"U_3"}},"errors":[]}"#;
    let account = |id: &str| (id.to_owned(), Learned::Account);
    let wanted =
        [widget("R_ok"), account("U_1"), widget("I_1"), widget("I_1"), account("U_2"), widget("I_2"), account("U_3")];
    assert_eq!(learned(QUERY, answer), wanted);
}

#[test]
fn an_answer_that_says_nothing_teaches_nothing() {
    for answer in [r#"{"errors":[{"message":"I_1"}]}"#, r#"{"data":null}"#, r#"{"data":{"r":"I_1"}}"#, "I_1", "", "[]"]
    {
        assert_eq!(learned(QUERY, answer), []);
    }
}

/// Of one place of the answer, two fragments say different things: a text that somebody wrote would be taken for an id.
#[test]
fn where_fragments_disagree_nothing_is_learned() {
    let below = |first: &str, second: &str| {
        format!(
            "{{repository(owner:\"acme\",name:\"widget\"){{issueOrPullRequest(number:1){{... on Issue{{{first}}} ... on PullRequest{{{second}}}}}}}}}"
        )
    };
    let answer = r#"{"data":{"repository":{"issueOrPullRequest":{"a":{"id":"R_x"},"b":"I_x"}}}}"#;
    assert_eq!(learned(&below("a:repository{id}", "a:headRepository{id}"), answer), []);
    assert_eq!(learned(&below("b:body", "b:id"), answer), []);
    assert_eq!(learned(&below("b:id", "b:body"), answer), []);
    assert_eq!(
        learned(&below("a:repository{id} b:id", "a:repository{id} b:id"), answer),
        [widget("R_x"), widget("I_x")]
    );
}

#[test]
fn a_mutation_teaches_whose_its_own_things_are() {
    let text = "mutation{createIssue(input:{repositoryId:\"R_ok\",title:\"t\"}){issue{id}}}";
    let answer = r#"{"data":{"createIssue":{"issue":{"id":"I_9"}}}}"#;
    assert_eq!(learned(text, answer), [("I_9".to_owned(), Learned::Repository(RepositoryOf::Id(1001)))]);
    let two = "mutation{addSubIssue(input:{issueId:\"I_known\",subIssueId:\"R_tools\"}){issue{id}}}";
    assert_eq!(learned(two, r#"{"data":{"addSubIssue":{"issue":{"id":"I_9"}}}}"#), []);
    assert_eq!(covered(query(two)).repositories, [RepositoryOf::Id(1001), RepositoryOf::Id(1002)]);
}

#[test]
fn every_repository_of_a_document_is_said() {
    let text = "{a:repository(owner:\"acme\",name:\"widget\"){id} b:repository(owner:\"acme\",name:\"tools\"){id} node(id:\"I_known\"){id} \
        search(query:\"repo:acme/tools x\",type:ISSUE,first:1){issueCount}}";
    let named = |name: &str| RepositoryOf::Named(RepoName::new("acme", name).unwrap());
    assert_eq!(covered(query(text)).repositories, [named("widget"), named("tools"), RepositoryOf::Id(1001)]);
}

#[test]
fn a_look_up_says_whose_each_id_is() {
    let ids = ["I_1", "A_1", "U_1", "X_1", "gone", "R_1", "S_1"];
    let answer = r#"{"data":{"nodes":[
        {"__typename":"Issue","id":"I_1","r_Issue":{"id":"R_ok","databaseId":1001}},
        {"__typename":"ReleaseAsset","id":"A_1","r_ReleaseAsset":{"repository":{"id":"R_ok","databaseId":1001}}},
        {"__typename":"Bot","id":"U_1"},
        {"__typename":"ProjectV2","id":"X_1"},
        null,
        {"__typename":"Repository","id":"R_1","databaseId":7},
        {"__typename":"WorkflowRun","id":"S_1","r_WorkflowRun":{"repository":null}}]},"errors":[{"message":"one is gone"}]}"#;
    let repository = |node_id: &str, number| Resolved::Repository { node_id: node_id.to_owned(), number: Some(number) };
    let wanted = [
        repository("R_ok", 1001),
        repository("R_ok", 1001),
        Resolved::Account,
        Resolved::Foreign,
        Resolved::Missing,
        repository("R_1", 7),
        Resolved::Foreign,
    ];
    let found: Vec<_> = resolved(&ids, answer.as_bytes());
    assert_eq!(found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ids);
    assert_eq!(found.into_iter().map(|(_, resolved)| resolved).collect::<Vec<_>>(), wanted);
    // Fewer answers than ids: which one is whose?
    assert_eq!(resolved(&["a", "b"], br#"{"data":{"nodes":[null]}}"#), []);
    assert_eq!(resolved(&ids, br#"{"errors":[]}"#), []);
}

/// The look-up asks only for what the schema has, so that its answer is no error.
#[test]
fn the_look_up_is_a_document_of_the_schema() {
    for types in [Types::All, Types::Old] {
        let body = String::from_utf8(resolve_query(&["I_known"], types)).unwrap();
        // The sandbox may not ask the number of a repository that a link leads to.
        let checked = covered(judge(&body.replace("{id databaseId}", "{id}"), &rules()));
        assert_eq!(checked.repositories, [RepositoryOf::Id(1001)]);
    }
}
