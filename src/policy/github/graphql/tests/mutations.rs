//! Mutations: ids in every position, and the refs that they change.

use super::super::super::push::{Change, Forced, RefTarget};
use super::*;

fn mutate(field: &str, rules: &Rules) -> Result<Answer, OutOfScope> {
    judge(&body(&format!("mutation{{{field}{{clientMutationId}}}}"), "null"), rules)
}

/// The changes that a mutation asks for, in the allowed repository.
fn changes(field: &str) -> Vec<(RefTarget, Change)> {
    let checked = covered(mutate(field, &merging()));
    assert!(checked.mutation);
    let changes = checked.changes.into_iter().map(|one| {
        assert!(matches!(&one.repository, RepositoryOf::Id(1001) | RepositoryOf::Named(_)), "{one:?}");
        (one.change.target, one.change.change)
    });
    changes.collect()
}

fn named(name: &str) -> RefTarget {
    RefTarget::Named(name.to_owned())
}

const NO: Change = Change::Update(Forced::No);
const YES: Change = Change::Update(Forced::Yes);

/// Row 103 and its like: what the push rules are asked about.
#[test]
fn every_door_to_a_ref_is_seen() {
    let pull = || "PR_known".to_owned();
    let node = || RefTarget::RefNode("REF_known".to_owned());
    let cases: Vec<(&str, Vec<(RefTarget, Change)>)> = vec![
        (
            "createCommitOnBranch(input:{branch:{repositoryNameWithOwner:\"acme/widget\",branchName:\"main\"}})",
            vec![(named("refs/heads/main"), NO)],
        ),
        ("createCommitOnBranch(input:{branch:{id:\"REF_known\"}})", vec![(node(), NO)]),
        (
            "createRef(input:{repositoryId:\"R_ok\",name:\"refs/tags/v1\",oid:\"00\"})",
            vec![(named("refs/tags/v1"), Change::Create)],
        ),
        ("updateRef(input:{refId:\"REF_known\",oid:\"00\"})", vec![(node(), NO)]),
        ("updateRef(input:{refId:\"REF_known\",oid:\"00\",force:true})", vec![(node(), YES)]),
        ("deleteRef(input:{refId:\"REF_known\"})", vec![(node(), Change::Delete)]),
        (
            "updateRefs(input:{repositoryId:\"R_ok\",refUpdates:[{name:\"refs/heads/a\",afterOid:\"0000000000000000000000000000000000000000\"},{name:\"refs/heads/b\",afterOid:\"1111111111111111111111111111111111111111\",beforeOid:\"0000000000000000000000000000000000000000\"},{name:\"refs/heads/c\",afterOid:\"1111111111111111111111111111111111111111\"}]})",
            vec![
                (named("refs/heads/a"), Change::Delete),
                (named("refs/heads/b"), Change::Create),
                (named("refs/heads/c"), Change::Put),
            ],
        ),
        (
            "updateRefs(input:{repositoryId:\"R_ok\",refUpdates:{name:\"refs/heads/a\",afterOid:\"1111111111111111111111111111111111111111\",force:true}})",
            vec![(named("refs/heads/a"), Change::Create), (named("refs/heads/a"), YES)],
        ),
        ("mergeBranch(input:{repositoryId:\"R_ok\",base:\"main\",head:\"x\"})", vec![(named("refs/heads/main"), NO)]),
        ("mergePullRequest(input:{pullRequestId:\"PR_known\"})", vec![(RefTarget::PullBaseNode(pull()), NO)]),
        ("enqueuePullRequest(input:{pullRequestId:\"PR_known\"})", vec![(RefTarget::PullBaseNode(pull()), NO)]),
        ("enablePullRequestAutoMerge(input:{pullRequestId:\"PR_known\"})", vec![(RefTarget::PullBaseNode(pull()), NO)]),
        ("updatePullRequestBranch(input:{pullRequestId:\"PR_known\"})", vec![(RefTarget::PullHeadNode(pull()), NO)]),
        (
            "updatePullRequestBranch(input:{pullRequestId:\"PR_known\",updateMethod:REBASE})",
            vec![(RefTarget::PullHeadNode(pull()), YES)],
        ),
        ("revertPullRequest(input:{pullRequestId:\"PR_known\"})", vec![(named("refs/heads/revert-"), Change::Create)]),
        (
            "createLinkedBranch(input:{issueId:\"I_known\",oid:\"00\",name:\"x\"})",
            vec![(named("refs/heads/x"), Change::Create)],
        ),
        ("updatePullRequest(input:{pullRequestId:\"PR_known\",title:\"x\"})", vec![]),
        ("updatePullRequest(input:{pullRequestId:\"PR_known\",baseRefName:null})", vec![]),
        (
            "updatePullRequest(input:{pullRequestId:\"PR_known\",baseRefName:\"release\"})",
            vec![(named("refs/heads/release"), NO)],
        ),
        ("addComment(input:{subjectId:\"I_known\",body:\"x\"})", vec![]),
    ];
    for (field, wanted) in cases {
        assert_eq!(changes(field), wanted, "{field}");
    }
}

#[test]
fn what_an_input_names_is_checked_where_it_stands() {
    let cases = [
        // A branch that could be read as another one.
        (
            "createCommitOnBranch(input:{branch:{repositoryNameWithOwner:\"acme/widget\",branchName:\"refs/heads/main\"}})",
            Code::Malformed,
        ),
        (
            "createCommitOnBranch(input:{branch:{repositoryNameWithOwner:\"other/secret\",branchName:\"x\"}})",
            Code::RepoNotAllowed,
        ),
        ("createCommitOnBranch(input:{branch:{id:\"REF_known\",branchName:\"x\"}})", Code::Malformed),
        ("createCommitOnBranch(input:{branch:{id:\"PR_foreign\"}})", Code::ForeignObject),
        ("createRef(input:{repositoryId:\"R_ok\",name:\"heads/main\",oid:\"00\"})", Code::Malformed),
        ("createRef(input:{repositoryId:\"R_ok\",name:\"refs/heads/../tags/x\",oid:\"00\"})", Code::Malformed),
        ("createLinkedBranch(input:{issueId:\"I_known\",oid:\"00\"})", Code::Malformed),
        ("updateRef(input:{refId:\"REF_known\",oid:\"00\",force:\"true\"})", Code::Malformed),
        // What could be read as an id of no commit, and as that of one.
        ("updateRefs(input:{repositoryId:\"R_ok\",refUpdates:{name:\"refs/heads/a\",afterOid:\"\"}})", Code::Malformed),
        (
            "updateRefs(input:{repositoryId:\"R_ok\",refUpdates:{name:\"refs/heads/a\",afterOid:\"0\"}})",
            Code::Malformed,
        ),
        (
            "updateRefs(input:{repositoryId:\"R_ok\",refUpdates:{name:\"refs/heads/a\",beforeOid:\"00\"}})",
            Code::Malformed,
        ),
        ("updateRefs(input:{repositoryId:\"R_ok\",refUpdates:{name:\"refs/heads/a\",beforeOid:0}})", Code::Malformed),
        ("updatePullRequest(input:{pullRequestId:\"PR_known\",baseRefName:\"refs/heads/x\"})", Code::Malformed),
        // Ids of the wrong kind, or of something else.
        ("addComment(input:{subjectId:\"U_known\",body:\"x\"})", Code::ForeignObject),
        (
            "createIssue(input:{repositoryId:\"R_ok\",title:\"t\",assigneeIds:[\"U_known\",\"PR_known\"]})",
            Code::ForeignObject,
        ),
        (
            "createIssue(input:{repositoryId:\"R_ok\",title:\"t\",labelIds:[\"L_known\",\"PR_foreign\"]})",
            Code::ForeignObject,
        ),
        ("createIssue(input:{repositoryId:\"R_ok\",title:\"t\",labelIds:\"PR_foreign\"})", Code::ForeignObject),
        ("createIssue(input:{repositoryId:\"R_ok\",title:\"t\",projectIds:[\"PVT_known\"]})", Code::NotAllowed),
        (
            "createIssue(input:{repositoryId:\"R_ok\",title:\"t\",agentAssignment:{targetRepositoryId:\"R_x\"}})",
            Code::NotAllowed,
        ),
        ("createIssue(input:{repositoryId:1001,title:\"t\"})", Code::Malformed),
        ("createIssue(input:{repositoryId:$id,title:\"t\"})", Code::Malformed),
        ("createIssue", Code::Malformed),
        (
            "addSubIssue(input:{issueId:\"I_known\",subIssueUrl:\"https://github.com/other/secret/issues/1\"})",
            Code::NotAllowed,
        ),
        ("closeIssue(input:{issueId:\"I_known\",duplicateIssueId:\"PR_foreign\"})", Code::ForeignObject),
        (
            "createPullRequest(input:{repositoryId:\"R_ok\",headRepositoryId:\"PR_foreign\",headRefName:\"x\",baseRefName:\"y\",title:\"t\"})",
            Code::ForeignObject,
        ),
        // What takes an option.
        ("deleteIssue(input:{issueId:\"I_known\"})", Code::OptionOff),
        ("createDeployment(input:{repositoryId:\"R_ok\",refId:\"REF_known\"})", Code::OptionOff),
        ("addProjectV2ItemById(input:{projectId:\"PVT_known\",contentId:\"I_known\"})", Code::OptionOff),
        // What nothing opens.
        ("addStar(input:{starrableId:\"R_ok\"})", Code::NotAllowed),
        ("updateRepository(input:{repositoryId:\"R_ok\"})", Code::NotAllowed),
    ];
    for (field, code) in cases {
        assert_eq!(refused(mutate(field, &merging())), code, "{field}");
    }
    let merge = "mergePullRequest(input:{pullRequestId:\"PR_known\"})";
    assert_eq!(refused(mutate(merge, &rules())), Code::OptionOff);
}

#[test]
fn options_open_what_they_say() {
    let open = Rules { admin: true, deploy: true, projects: vec!["PVT_known".to_owned()], ..rules() };
    covered(mutate("deleteIssue(input:{issueId:\"I_known\"})", &open));
    covered(mutate("addProjectV2ItemById(input:{projectId:\"PVT_known\",contentId:\"I_known\"})", &open));
    let other = "addProjectV2ItemById(input:{projectId:\"PVT_other\",contentId:\"I_known\"})";
    assert_eq!(refused(mutate(other, &open)), Code::ForeignObject);
    let merges = "createDeployment(input:{repositoryId:\"R_ok\",refId:\"REF_known\"})";
    assert_eq!(covered(mutate(merges, &open)).changes.len(), 1);
    let plain = "createDeployment(input:{repositoryId:\"R_ok\",refId:\"REF_known\",autoMerge:false})";
    assert_eq!(covered(mutate(plain, &open)).changes.len(), 0);
}

#[test]
fn ids_that_nobody_knows_are_to_be_looked_up_in_their_position() {
    let asked =
        unknown(mutate("createIssue(input:{repositoryId:\"R_new\",assigneeIds:[\"U_new\"],title:\"t\"})", &rules()));
    let wanted = [("R_new".to_owned(), Expect::Repository), ("U_new".to_owned(), Expect::Account)];
    assert_eq!(asked.len(), 2);
    assert!(wanted.iter().all(|one| asked.contains(one)));
}

#[test]
fn an_input_is_the_same_wherever_it_is_written() {
    let text = "mutation($id:ID!,$all:[ID!]=[\"PR_foreign\"]){createIssue(input:{repositoryId:$id,title:\"t\",labelIds:$all}){clientMutationId}}";
    assert_eq!(refused(judge(&body(text, "{\"id\":\"R_ok\"}"), &rules())), Code::ForeignObject);
    covered(judge(&body(text, "{\"id\":\"R_ok\",\"all\":[\"L_known\"]}"), &rules()));
    covered(judge(&body(text, "{\"id\":\"R_ok\",\"all\":null}"), &rules()));
    assert_eq!(refused(judge(&body(text, "{\"id\":null}"), &rules())), Code::ForeignObject);
    let items = text.replace("labelIds:$all", "labelIds:[\"L_known\",$id]").replace(",$all:[ID!]=[\"PR_foreign\"]", "");
    assert_eq!(refused(judge(&body(&items, "{\"id\":\"PR_foreign\"}"), &rules())), Code::ForeignObject);
}
