//! Rows of github-scope.md 7, by their numbers.

use super::*;

macro_rules! rows {
    ($($name:ident: $verdict:expr => $wanted:pat,)*) => {$(
        #[test]
        fn $name() {
            let verdict = $verdict;
            assert!(matches!(&verdict, $wanted), "{verdict:?}");
        }
    )*};
}

use Answer::{Covered, Unknown};
use Code::{ForeignObject, Malformed, NotAllowed, OptionOff, ReadOnly, RepoIdentityChanged, RepoNotAllowed};

macro_rules! no {
    ($code:pat) => {
        Err(OutOfScope { code: $code, .. })
    };
}

fn with(text: &str, variables: &str) -> Result<Answer, OutOfScope> {
    judge(&body(text, variables), &rules())
}

rows! {
    row_80: query("{repository(owner:\"ACME\",name:\"widget\"){id}}") => Ok(Covered(_)),
    row_81: with("query($o:String!,$n:String!){a:repository(owner:$o,name:$n){id}}", r#"{"o":"other","n":"secret"}"#) => no!(RepoNotAllowed),
    row_81_allowed: with("query($o:String!,$n:String!){a:repository(owner:$o,name:$n){id}}", r#"{"o":"acme","n":"Widget"}"#) => Ok(Covered(_)),
    row_82: query("{a:repository(owner:\"acme\",name:\"widget\"){id} b:repository(owner:\"other\",name:\"secret\"){id}}") => no!(RepoNotAllowed),
    row_83: inside("owner{... on User{repositories(first:9){nodes{name}}}}") => no!(ForeignObject),
    row_84: inside("parent{id name owner{login}}") => Ok(Covered(_)),
    row_85: inside("parent{object(expression:\"HEAD:x\"){id}}") => no!(ForeignObject),
    row_86: inside("tempCloneToken") => no!(NotAllowed),
    row_87: inside("forks(first:1){nodes{nameWithOwner issues(first:1){totalCount}}}") => no!(ForeignObject),
    row_88: inside("pullRequest(number:1){closingIssuesReferences(first:9){nodes{number url}}}") => Ok(Covered(_)),
    row_89: inside("pullRequest(number:1){closingIssuesReferences(first:9){nodes{body}}}") => no!(ForeignObject),
    row_90: query("{node(id:\"PR_known\"){... on PullRequest{title}}}") => Ok(Covered(_)),
    row_91: query("{node(id:\"PR_unknown\"){... on PullRequest{title}}}") => Ok(Unknown(_)),
    row_91_looked_up: query("{node(id:\"PR_foreign\"){... on PullRequest{title}}}") => no!(ForeignObject),
    row_92: query("{nodes(ids:[\"PR_known\",\"PR_foreign\"]){id}}") => no!(ForeignObject),
    row_93: query("{resource(url:\"https://github.com/other/secret\"){url}}") => no!(RepoNotAllowed),
    row_93_allowed: query("{resource(url:\"https://GitHub.com/acme/widget/issues/1\"){... on Issue{title}}}") => Ok(Covered(_)),
    row_93_other_host: query("{resource(url:\"https://github.com.evil/acme/widget\"){url}}") => no!(NotAllowed),
    row_93_dots: query("{resource(url:\"https://github.com/acme/widget/../../other/secret\"){url}}") => no!(NotAllowed),
    row_93_user: query("{resource(url:\"https://acme/widget@github.com/other/secret\"){url}}") => no!(NotAllowed),
    row_94: query("{search(query:\"x repo:acme/widget\",type:ISSUE,first:1){nodes{... on Issue{title}}}}") => Ok(Covered(_)),
    row_94_foreign: query("{search(query:\"x repo:other/secret\",type:ISSUE,first:1){issueCount}}") => no!(RepoNotAllowed),
    row_95: query("{search(query:\"acme\",type:REPOSITORY,first:1){repositoryCount}}") => no!(NotAllowed),
    row_96: query("{relay{repository(owner:\"other\",name:\"secret\"){id}}}") => no!(NotAllowed),
    row_97: query("{viewer{login}}") => Ok(Covered(_)),
    row_98: query("{viewer{repositories(first:9){nodes{name}}}}") => no!(ForeignObject),
    row_99: query("{__type(name:\"PullRequest\"){fields{name}}}") => Ok(Covered(_)),
    row_100: with("mutation{addComment(input:{subjectId:\"PR_foreign\",body:\"x\"}){clientMutationId}}", "null") => no!(ForeignObject),
    row_101: with(
        "mutation($input:CreateIssueInput!){createIssue(input:$input){issue{id}}}",
        r#"{"input":{"repositoryId":"R_ok","title":"t"}}"#,
    ) => Ok(Covered(_)),
    row_102: with("mutation{transferIssue(input:{issueId:\"I_known\",repositoryId:\"R_tools\"}){issue{id}}}", "null") => no!(NotAllowed),
    row_104: with(
        "mutation{createPullRequest(input:{repositoryId:\"R_ok\",baseRefName:\"main\",headRefName:\"other:b\",title:\"t\"}){clientMutationId}}",
        "null",
    ) => no!(RepoNotAllowed),
    row_104_own: with(
        "mutation{createPullRequest(input:{repositoryId:\"R_ok\",baseRefName:\"main\",headRefName:\"Acme:b\",title:\"t\"}){clientMutationId}}",
        "null",
    ) => Ok(Covered(_)),
    row_105: judge("[{\"query\":\"{viewer{login}}\"}]", &rules()) => no!(Malformed),
    row_105_persisted: judge(r#"{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"00"}}}"#, &rules()) => no!(Malformed),
    row_106_depth: inside(&format!("{}id{}", "issue(number:1){repository{".repeat(20), "}}".repeat(20))) => no!(Malformed),
    row_106_cycle: query("{...a} fragment a on Query{...b} fragment b on Query{viewer{login}...a}") => no!(Malformed),
    row_107: query("{repository(owner:\"acme\",name:\"widget\"){...f}} fragment f on Repository{parent{issues(first:1){totalCount}}}") => no!(ForeignObject),
    row_108: inside("parent@include(if:false){object(expression:\"x\"){id}}") => no!(ForeignObject),
    row_112: judge(
        &body("{resource(url:\"https://acme.ghe.com/acme/widget\"){url}}", "null"),
        &Rules { web_host: "acme.ghe.com".to_owned(), ..rules() },
    ) => Ok(Covered(_)),
    row_119: inside("issue(number:1){timelineItems(first:3){nodes{... on CrossReferencedEvent{source{... on Issue{title body}}}}}}") => no!(ForeignObject),
    row_120: inside("issue(number:1){timelineItems(first:3){nodes{... on CrossReferencedEvent{source{... on Issue{number url}}}}}}") => Ok(Covered(_)),
    row_121: inside("object(expression:\"HEAD\"){... on Commit{zipballUrl}}") => no!(NotAllowed),
    row_122: inside("issues(first:1){nodes{author{... on User{issues(first:2){nodes{title}}}}}}") => no!(ForeignObject),
    row_123: inside("pullRequest(number:1){headRef{repository{object(oid:\"00\"){id}}}}") => no!(ForeignObject),
    row_124: inside("projectsV2(first:1){nodes{items(first:2){nodes{content{... on Issue{body}}}}}}") => no!(ForeignObject),
    row_125: inside("ref(qualifiedName:\"x\"){associatedPullRequests(first:1){nodes{body}}}") => no!(ForeignObject),
    row_126: inside("ref(qualifiedName:\"x\"){target{... on Commit{history(first:1){nodes{oid message}}}}}") => Ok(Covered(_)),
    row_127: inside("pullRequest(number:1){repository{owner{login}} headRepository{id name}}") => Ok(Covered(_)),
    row_128: inside("somethingNew{id}") => no!(NotAllowed),

    renamed_and_made_again: query("{repository(owner:\"acme\",name:\"renamed\"){id}}") => no!(RepoIdentityChanged),
    read_only: judge(
        &body("mutation{addComment(input:{subjectId:\"PR_known\",body:\"x\"}){clientMutationId}}", "null"),
        &Rules { read_only: true, ..rules() },
    ) => no!(ReadOnly),
    every_repository: judge(&body("{repository(owner:\"any\",name:\"thing\"){id}}", "null"), &Rules { all: true, ..rules() }) => Ok(Covered(_)),
    every_repository_is_not_every_thing: judge(&body("{viewer{gists(first:1){nodes{id}}}}", "null"), &Rules { all: true, ..rules() }) => no!(ForeignObject),
    teams_take_an_option: query("{organization(login:\"acme\"){teams(first:1){nodes{slug}}}}") => no!(OptionOff),
    teams_with_it: judge(
        &body("{organization(login:\"acme\"){teams(first:1){nodes{id slug name} pageInfo{endCursor hasNextPage}}}}", "null"),
        &Rules { org_read: true, ..rules() },
    ) => Ok(Covered(_)),
    repository_of_an_owner: query("{repositoryOwner(login:\"acme\"){... on User{repository(name:\"widget\"){issue(number:1){body}}}}}") => Ok(Covered(_)),
    other_repository_of_an_owner: query("{repositoryOwner(login:\"acme\"){repository(name:\"secret\"){id}}}") => no!(RepoNotAllowed),
    repository_of_whoever: query("{viewer{repository(name:\"widget\"){id}}}") => no!(ForeignObject),
    query_as_a_node: query("{node(id:\"R_ok\"){... on Query{repository(owner:\"other\",name:\"secret\"){id}}}}") => no!(NotAllowed),
    union_with_a_repository: inside("rulesets(first:1){nodes{source{... on Repository{object(expression:\"HEAD\"){id}}}}}") => no!(ForeignObject),
    union_by_way_of_node: inside("rulesets(first:1){nodes{source{... on Node{... on Repository{object(expression:\"HEAD\"){id}}}}}}") => no!(ForeignObject),
    head_of_a_comparison: inside("ref(qualifiedName:\"x\"){compare(headRef:\"other:x\"){headTarget{... on Commit{message}}}}") => no!(ForeignObject),
    public_things: query("{rateLimit{remaining} meta{gitHubServicesSha} licenses{key} securityAdvisories(first:1){nodes{summary}}}") => Ok(Covered(_)),
    an_id_of_no_binding: query("{node(id:\"R_lost\"){id}}") => no!(ForeignObject),
    unknown_argument: query("{repository(owner:\"acme\",name:\"widget\",id:\"R_x\"){id}}") => no!(NotAllowed),
    no_ids: query("{nodes(ids:[]){id}}") => no!(Malformed),
    accounts_and_others: query("{nodes(ids:[\"U_known\",\"PR_known\"]){id}}") => no!(Malformed),
}

#[test]
fn unknown_ids_are_asked_for_once_and_not_too_many() {
    let ids = |count: usize| (0..count).map(|at| format!("\"I_{at}\"")).collect::<Vec<_>>().join(",");
    let nodes = |list: &str| query(&format!("{{nodes(ids:[{list}]){{id}}}}"));
    assert_eq!(
        unknown(nodes("\"I_1\",\"I_1\",\"I_2\"")),
        [("I_1".to_owned(), Expect::Either), ("I_2".to_owned(), Expect::Either)]
    );
    assert_eq!(unknown(nodes(&ids(UNKNOWN_NODES))).len(), UNKNOWN_NODES);
    assert_eq!(refused(nodes(&ids(UNKNOWN_NODES + 1))), Malformed);
}
