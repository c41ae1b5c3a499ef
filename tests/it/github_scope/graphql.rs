//! GraphQL: documents that reach elsewhere, and bodies that two readers read in two ways.

use super::{Names, Row, document, row, scoped, scoped_by, table};
use crate::internet::github::github;

const OTHER: &str = "this sandbox may not use the repository other/secret";

pub fn other_repositories_by_graphql() {
    github().repository("acme/bygraph");
    let token = github().wide_token();
    let other = |body: &'static str| document(body).refused("repo_not_allowed", OTHER);
    let foreign = |body: &'static str, says: &'static str| document(body).refused("foreign_object", says);
    let closed = |body: &'static str, says: &'static str| document(body).refused("not_allowed", says);
    let rows: Vec<Row> = vec![
        document(r#"{"query":"{repository(owner:\"ACME\",name:\"bygraph\"){id pullRequest(number:2){id}}}"}"#),
        document(r#"{"query":"query($id:ID!){node(id:$id){... on PullRequest{title}}}","variables":{"id":"<own_pull>"}}"#),
        document(r#"{"query":"{search(query:\"x repo:acme/bygraph\",type:ISSUE,first:1){issueCount}}"}"#),
        other(r#"{"query":"{repository(owner:\"other\",name:\"secret\"){id}}"}"#),
        other(r#"{"query":"query($o:String!,$n:String!){ok:repository(owner:$o,name:$n){id}}","variables":{"o":"other","n":"secret"}}"#),
        other(r#"{"query":"query($o:String!=\"other\",$n:String!=\"secret\"){repository(owner:$o,name:$n){id}}"}"#),
        other(r#"{"query":"{a:repository(owner:\"acme\",name:\"bygraph\"){id} b:repository(owner:\"other\",name:\"secret\"){id}}"}"#),
        other(r#"{"query":"query{...F} fragment F on Query{repository(owner:\"other\",name:\"secret\"){id}}"}"#),
        other(r#"{"query":"{... on Query{repository(owner:\"other\",name:\"secret\"){id}}}"}"#),
        other(r#"{"query":"query A{viewer{login}} query B{repository(owner:\"other\",name:\"secret\"){id}}","operationName":"A"}"#),
        other(r#"{"query":"{repository(owner:\"other\",name:\"secret\")@include(if:false){id} viewer{login}}"}"#),
        other(r#"{"query":"{search(query:\"x repo:acme/bygraph repo:other/secret\",type:ISSUE,first:1){issueCount}}"}"#),
        other(r#"{"query":"{resource(url:\"https://github.com/other/secret/issues/1\"){url}}"}"#),
        other(r#"{"query":"{organization(login:\"other\"){repository(name:\"secret\"){id}}}"}"#),
        foreign(r#"{"query":"{node(id:\"<secret_issue>\"){... on Issue{title}}}"}"#, ""),
        foreign(r#"{"query":"{node(id:\"<secret_node>\"){... on Repository{name}}}"}"#, ""),
        foreign(r#"{"query":"query($ids:[ID!]!){nodes(ids:$ids){id}}","variables":{"ids":["<own_pull>","<secret_pull>"]}}"#, ""),
        foreign(r#"{"query":"{node(id:\"PVT_kwDOAAAAC84AAAAB\"){... on ProjectV2{title}}}"}"#, ""),
        foreign(r#"{"query":"{node(id:\"MDEwOlJlcG9zaXRvcnkyMDAx\"){id}}"}"#, ""),
        foreign(r#"{"query":"{node(id:\"<own_pull>A\"){id}}"}"#, ""),
        foreign(r#"{"query":"{node(id:\"R_forged\"){id}}"}"#, ""),
        foreign(r#"{"query":"mutation($i:AddCommentInput!){addComment(input:$i){clientMutationId}}","variables":{"i":{"subjectId":"<secret_issue>","body":"b"}}}"#, ""),
        foreign(r#"{"query":"mutation{createIssue(input:{repositoryId:\"<secret_node>\",title:\"t\"}){issue{id}}}"}"#, ""),
        foreign(r#"{"query":"mutation{updateIssue(input:{id:\"<secret_issue>\",title:\"t\"}){issue{id}}}"}"#, ""),
        foreign(r#"{"query":"{repository(owner:\"acme\",name:\"bygraph\"){owner{... on User{repositories(first:9){nodes{name}}}}}}"}"#, "`repositories` may not be asked"),
        foreign(r#"{"query":"{repository(owner:\"acme\",name:\"bygraph\"){...A}} fragment A on Repository{parent{issues(first:1){nodes{title}}}}"}"#, "`issues` may not be asked"),
        foreign(r#"{"query":"{repository(owner:\"acme\",name:\"bygraph\"){parent{object(expression:\"HEAD:x\"){id}}}}"}"#, "`object` may not be asked"),
        foreign(r#"{"query":"{repository(owner:\"acme\",name:\"bygraph\"){pullRequest(number:2){closingIssuesReferences(first:9){nodes{body}}}}}"}"#, "`body` may not be asked"),
        foreign(r#"{"query":"{viewer{repositories(first:9){nodes{name}}}}"}"#, "`repositories` may not be asked of an account"),
        foreign(r#"{"query":"{viewer{gists(first:9){nodes{name}}}}"}"#, "`gists` may not be asked of an account"),
        closed(r#"{"query":"{repository(owner:\"acme\",name:\"bygraph\"){tempCloneToken}}"}"#, "is a credential"),
        closed(r#"{"query":"{repository(owner:\"acme\",name:\"bygraph\"){somethingNew{id}}}"}"#, "somethingNew"),
        closed(r#"{"query":"{relay{repository(owner:\"other\",name:\"secret\"){id}}}"}"#, "may not begin with `relay`"),
        closed(r#"{"query":"{topic(name:\"x\"){repositories(first:1){nodes{name}}}}"}"#, "`topic`"),
        closed(r#"{"query":"{search(query:\"acme\",type:ISSUE,first:1){issueCount}}"}"#, "add repo:OWNER/NAME"),
        closed(r#"{"query":"{search(query:\"acme repo:acme/bygraph\",type:REPOSITORY,first:1){issueCount}}"}"#, ""),
        closed(r#"{"query":"{resource(url:\"https://elsewhere.test/acme/bygraph\"){url}}"}"#, "`resource`"),
        closed(r#"{"query":"mutation{transferIssue(input:{issueId:\"<own_issue>\",repositoryId:\"<secret_node>\"}){issue{id}}}"}"#, "`transferIssue`"),
        closed(r#"{"query":"mutation{createRepository(input:{name:\"x\",visibility:PUBLIC}){repository{id}}}"}"#, "`createRepository`"),
        closed(r#"{"query":"mutation{addStar(input:{starrableId:\"<secret_node>\"}){clientMutationId}}"}"#, "`addStar`"),
        document(r#"{"query":"mutation{deleteIssue(input:{issueId:\"<own_issue>\"}){clientMutationId}}"}"#).refused("option_off", "`deleteIssue`"),
        document(r#"{"query":"mutation{mergePullRequest(input:{pullRequestId:\"<own_pull>\"}){clientMutationId}}"}"#).refused("option_off", "`mergePullRequest`"),
        document(r#"{"query":"mutation{createPullRequest(input:{repositoryId:\"<own_node>\",baseRefName:\"main\",headRefName:\"evil:evil\",title:\"t\"}){pullRequest{id}}}"}"#)
            .refused("repo_not_allowed", "evil:evil"),
        document(r#"{"query":"mutation{createCommitOnBranch(input:{branch:{repositoryNameWithOwner:\"other/secret\",branchName:\"main\"},message:{headline:\"h\"},expectedHeadOid:\"0000000000000000000000000000000000000000\",fileChanges:{}}){clientMutationId}}"}"#)
            .refused("repo_not_allowed", "other/secret"),
    ];
    table(scoped(&token, &["acme/bygraph"]), &token, &Names::of("acme/bygraph"), &rows);
    assert!(!github().requests_with(&token).iter().any(|seen| seen.body.contains("secret")));
}

pub fn projects_are_those_that_are_listed() {
    github().repository("acme/planned");
    let token = github().wide_token();
    let add = |project: &str, content: &str| {
        let text = format!(
            r#"{{"query":"mutation{{addProjectV2ItemById(input:{{projectId:\"{project}\",contentId:\"{content}\"}}){{clientMutationId}}}}"}}"#
        );
        document(text.leak())
    };
    let rows = vec![
        add("PVT_planned", "<own_issue>"),
        add("PVT_other", "<own_issue>").refused("foreign_object", "PVT_other"),
        add("PVT_planned", "<secret_issue>").refused("foreign_object", ""),
    ];
    let run = scoped_by(&token, "acme/planned", "projects = [\"PVT_planned\"]");
    table(run, &token, &Names::of("acme/planned"), &rows);
    let rows = [add("PVT_planned", "<own_issue>").refused("option_off", "")];
    table(scoped(&token, &["acme/planned"]), &token, &Names::of("acme/planned"), &rows);
}

pub fn odd_forms_of_graphql() {
    let token = github().wide_token();
    let odd = |body: &'static str| document(body).refused("malformed", "");
    let rows: Vec<Row> = vec![
        document(r#"{"query":"{viewer{login}}"}"#).zipped(),
        document(r#"{"query":"{viewer{login}}","variables":null,"operationName":null}"#),
        document(r#"{"query":"{repository(owner:\"other\",name:\"secret\"){id}}"}"#)
            .zipped()
            .refused("repo_not_allowed", OTHER),
        odd(r#"[{"query":"{viewer{login}}"},{"query":"{repository(owner:\"other\",name:\"secret\"){id}}"}]"#),
        odd(r#"{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"00"}}}"#),
        odd(r#"{"query":"{viewer{login}}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"00"}}}"#),
        odd(r#"{"id":"00","query":"{viewer{login}}"}"#),
        odd(r#"{"query":"{viewer{login}}","query":"{repository(owner:\"other\",name:\"secret\"){id}}"}"#),
        odd(r#"{"query":"{viewer{login}}","qu\u0065ry":"{repository(owner:\"other\",name:\"secret\"){id}}"}"#),
        odd("\u{feff}{\"query\":\"{viewer{login}}\"}"),
        odd(r#"{"query":"{viewer{login}}"} {"query":"{viewer{login}}"}"#),
        odd(r#"{"query":["{viewer{login}}"]}"#),
        odd(r#"{"query":"query A{viewer{login}} query B{viewer{id}}"}"#),
        odd(r#"{"query":"{viewer{login}}","operationName":"B"}"#),
        odd(r#"{"query":"{...A} fragment A on Query{...B} fragment B on Query{...A}"}"#),
        odd(r#"{"query":"{viewer{login}"}"#),
        odd(r#"{"query":"{viewer{login @other}}"}"#),
        odd("query={viewer{login}}").with("Content-Type", "application/x-www-form-urlencoded"),
        odd("{viewer{login}}").with("Content-Type", "application/graphql"),
        odd(r#"{"query":"{viewer{login}}"}"#)
            .with("Content-Type", "application/json")
            .with("Content-Type", "text/plain"),
        odd(r#"{"query":"{viewer{login}}"}"#).with("Content-Encoding", "br"),
        odd(r#"{"query":"{viewer{login}}"}"#).zipped().with("Content-Encoding", "gzip"),
        row("GET api.github.com/graphql?query=%7Bviewer%7Blogin%7D%7D").refused("not_allowed", "asked by POST"),
        row("POST api.github.com/graphql?query=%7Bviewer%7Blogin%7D%7D").sends("{}").refused("malformed", ""),
        row("POST api.github.com/graphql/").sends(r#"{"query":"{viewer{login}}"}"#).refused("malformed", ""),
        row("PUT api.github.com/graphql")
            .sends(r#"{"query":"{viewer{login}}"}"#)
            .refused("not_allowed", "asked by POST"),
    ];
    table(scoped(&token, &["acme/widget"]), &token, &Names::default(), &rows);
}
