use super::*;

rows! {
    r045_head_of_fork: "POST api.github.com/repos/acme/widget/pulls".sends(r#"{"head":"other:branch","base":"main"}"#)
        .refused(RepoNotAllowed);
    r045_head_of_repository: "POST api.github.com/repos/acme/widget/pulls".sends(r#"{"head":"x","head_repo":"secret"}"#)
        .refused(RepoNotAllowed);
    r045_head_twice: "POST api.github.com/repos/acme/widget/pulls".sends(r#"{"head":"x","head":"other:x"}"#).refused(Malformed);
    r045_head_three: "POST api.github.com/repos/acme/widget/pulls".sends(r#"{"head":"other:secret:x"}"#).refused(RepoNotAllowed);
    head_missing: "POST api.github.com/repos/acme/widget/pulls".sends(r#"{"base":"main"}"#).refused(Malformed);
    r046_head: "POST api.github.com/repos/acme/widget/pulls".sends(r#"{"head":"feature","base":"main"}"#).unchanged();
    head_of_owner: "POST api.github.com/repos/acme/widget/pulls".sends(r#"{"head":"Acme:feature","head_repo":"widget"}"#).unchanged();
    head_of_any: "POST api.github.com/repos/any/thing/pulls".sends(r#"{"head":"other:x"}"#).for_all().unchanged();
    r049_visibility: "PATCH api.github.com/repos/acme/widget".sends(r#"{"visibility":"public"}"#).with("admin").refused(NotAllowed);
    r049_settings_off: "PATCH api.github.com/repos/acme/widget".sends(r#"{"description":"x"}"#).refused(OptionOff);
    settings: "PATCH api.github.com/repos/acme/widget".sends(r#"{"description":"x","has_wiki":false}"#).with("admin").unchanged();
    settings_name: "PATCH api.github.com/repositories/1001".sends(r#"{"name":"x"}"#).with("admin").refused(NotAllowed);
    r056_forced: "PATCH api.github.com/repos/acme/widget/git/refs/heads/main".sends(r#"{"sha":"1","force":true}"#)
        .changes(at("refs/heads/main"), Change::Update(Forced::Yes));
    ref_moved: "PATCH api.github.com/repos/acme/widget/git/refs/heads%2Fagent%2Fx".sends(r#"{"sha":"1"}"#)
        .changes(at("refs/heads/agent/x"), MOVES);
    ref_forced_as_text: "PATCH api.github.com/repos/acme/widget/git/refs/heads/main".sends(r#"{"force":"true"}"#).refused(Malformed);
    ref_made: "POST api.github.com/repos/acme/widget/git/refs".sends(r#"{"ref":"refs/tags/v1","sha":"1"}"#)
        .changes(at("refs/tags/v1"), Change::Create);
    ref_made_short: "POST api.github.com/repos/acme/widget/git/refs".sends(r#"{"ref":"heads/x"}"#).refused(Malformed);
    ref_in_query: "POST api.github.com/repos/acme/widget/git/refs?ref=refs/heads/main".sends(r#"{"ref":"refs/heads/x"}"#)
        .refused(Malformed);
    r057_contents_default: "PUT api.github.com/repos/acme/widget/contents/a".sends(r#"{"content":"eA=="}"#)
        .changes(RefTarget::DefaultBranch, MOVES);
    contents_branch: "DELETE api.github.com/repos/acme/widget/contents/a/b%20c".sends(r#"{"branch":"agent/x"}"#)
        .changes(at("refs/heads/agent/x"), MOVES);
    contents_query: "DELETE api.github.com/repos/acme/widget/contents/a?branch=main".sends(r#"{"branch":"agent/x"}"#).refused(Malformed);
    contents_short: "PUT api.github.com/repos/acme/widget/contents/a".sends(r#"{"branch":"heads/main"}"#).refused(Malformed);
    r058_deleted: "DELETE api.github.com/repos/acme/widget/git/refs/heads/agent/x".changes(at("refs/heads/agent/x"), Change::Delete);
    ref_upwards: "DELETE api.github.com/repos/acme/widget/git/refs/heads/agent/..%2Fmain".refused(Malformed);
    merges: "POST api.github.com/repos/acme/widget/merges".sends(r#"{"base":"main","head":"x"}"#).changes(at("refs/heads/main"), MOVES);
    merge_off: "PUT api.github.com/repos/acme/widget/pulls/7/merge".refused(OptionOff);
    merge: "PUT api.github.com/repos/acme/widget/pulls/7/merge".with("merge").changes(RefTarget::PullBase(7), MOVES);
    merge_without_number: "PUT api.github.com/repos/acme/widget/pulls/x/merge".with("merge").refused(NotAllowed);
    update_branch: "PUT api.github.com/repos/acme/widget/pulls/7/update-branch".changes(RefTarget::PullHead(7), MOVES);
    pull_edited: "PATCH api.github.com/repos/acme/widget/pulls/7".sends(r#"{"title":"x","state":"closed"}"#).unchanged();
    pull_of_another_base: "PATCH api.github.com/repos/acme/widget/pulls/7".sends(r#"{"base":"release"}"#)
        .changes(at("refs/heads/release"), MOVES);
    pull_of_two_bases: "PATCH api.github.com/repos/acme/widget/pulls/7".sends(r#"{"base":"x","base":"main"}"#).refused(Malformed);
    pull_of_a_full_base: "PATCH api.github.com/repos/acme/widget/pulls/7".sends(r#"{"base":"refs/heads/main"}"#)
        .changes(at("refs/heads/main"), MOVES);
    pull_base_in_query: "PATCH api.github.com/repos/acme/widget/pulls/7?base=main".sends(r#"{"base":"x"}"#).refused(Malformed);
    release: "POST api.github.com/repos/acme/widget/releases".sends(r#"{"tag_name":"v1","draft":true}"#)
        .changes(at("refs/tags/v1"), Change::Create);
    release_published: "PATCH api.github.com/repos/acme/widget/releases/5".sends(r#"{"draft":false}"#)
        .changes(RefTarget::ReleaseTag(5), Change::Create);
    release_renamed: "PATCH api.github.com/repos/acme/widget/releases/5".sends(r#"{"tag_name":"v2"}"#)
        .changes(at("refs/tags/v2"), Change::Create);
    release_text: "PATCH api.github.com/repos/acme/widget/releases/5".sends(r#"{"body":"x"}"#).unchanged();
    upstream: "POST api.github.com/repos/acme/widget/merge-upstream".sends(r#"{"branch":"main"}"#).refused(RepoNotAllowed);
    upstream_of_all: "POST api.github.com/repos/acme/widget/merge-upstream".sends(r#"{"branch":"main"}"#).for_all()
        .changes(at("refs/heads/main"), MOVES);
    autofix: "POST api.github.com/repos/acme/widget/code-scanning/alerts/3/autofix/commits".sends(r#"{"target_ref":"refs/heads/x"}"#)
        .changes(at("refs/heads/x"), MOVES);
    deployment: "POST api.github.com/repos/acme/widget/deployments".sends(r#"{"ref":"main"}"#).with("deploy")
        .changes(at("refs/heads/main"), MOVES);
    deployment_as_it_is: "POST api.github.com/repos/acme/widget/deployments".sends(r#"{"ref":"main","auto_merge":false}"#).with("deploy")
        .unchanged();
    r059_sub_issue: "POST api.github.com/repos/acme/widget/issues/1/sub_issues".sends(r#"{"sub_issue_id":777}"#).refused(ForeignObject);
    sub_issue_known: "POST api.github.com/repos/acme/widget/issues/1/sub_issues".sends(r#"{"sub_issue_id":5001}"#).unchanged();
    sub_issue_as_text: "POST api.github.com/repos/acme/widget/issues/1/sub_issues".sends(r#"{"sub_issue_id":"5001"}"#).refused(Malformed);
    sub_issue_moved: "PATCH api.github.com/repos/acme/widget/issues/1/sub_issues/priority".sends(r#"{"sub_issue_id":5001,"after_id":7}"#)
        .refused(ForeignObject);
    blocked_by_path: "DELETE api.github.com/repos/acme/widget/issues/1/dependencies/blocked_by/777".refused(ForeignObject);
    blocked_by_known: "DELETE api.github.com/repos/acme/widget/issues/1/dependencies/blocked_by/5001".unchanged();
    duplicate: "PATCH api.github.com/repos/acme/widget/issues/1".sends(r#"{"state":"closed","duplicate_issue_id":777}"#)
        .refused(ForeignObject);
    issue_edited: "PATCH api.github.com/repos/acme/widget/issues/1".sends(r#"{"title":"x","labels":["a"]}"#).unchanged();
    issue_deep_twice: "PATCH api.github.com/repos/acme/widget/issues/1".sends(r#"{"x":{"a":1,"a":2}}"#).refused(Malformed);
    r073_context: "POST api.github.com/markdown".sends(r#"{"text":"x","context":"other/secret"}"#).refused(RepoNotAllowed);
    r073_context_own: "POST api.github.com/markdown".sends(r#"{"text":"x","context":"Acme/Widget"}"#).read_only().bearer();
    r073_context_none: "POST api.github.com/markdown".sends(r#"{"text":"x"}"#).bearer();
    markdown_raw: "POST api.github.com/markdown/raw".typed(Some("text/plain; charset=utf-8")).bearer();
    markdown_raw_form: "POST api.github.com/markdown/raw".typed(None).refused(Malformed);
    curl_sends_json_as_a_form: "POST api.github.com/repos/acme/widget/issues/1/comments".typed(Some("application/x-www-form-urlencoded"))
        .sends(r#"{"body":"a & b = c"}"#).unchanged();
    form_with_method: "POST api.github.com/repos/acme/widget/issues/1/comments".typed(Some("application/x-www-form-urlencoded"))
        .sends("body=x&_method=DELETE").refused(Malformed);
    form_inside_json: "POST api.github.com/repos/acme/widget/issues/1/comments".typed(None)
        .sends(r#"{"body":"&_method=DELETE&"}"#).refused(Malformed);
    form_without_method: "POST api.github.com/repos/acme/widget/issues/1/comments".typed(None).sends("body=x").refused(Malformed);
    form_of_parts: "POST api.github.com/repos/acme/widget/issues/1/comments".typed(Some("multipart/form-data; boundary=x"))
        .refused(Malformed);
    read_only_contents: "PUT api.github.com/repos/acme/widget/contents/a".read_only().refused(ReadOnly);
    read_only_refs: "DELETE api.github.com/repos/acme/widget/git/refs/heads/agent/x".read_only().refused(ReadOnly);
    read_only_pulls: "POST api.github.com/repositories/1001/pulls".read_only().refused(ReadOnly);
    read_only_merge: "PUT api.github.com/repos/acme/widget/pulls/7/merge".with("merge").read_only().refused(ReadOnly);
    order_mark: "POST api.github.com/repos/acme/widget/pulls".sends("\u{feff}{\"head\":\"x\"}").refused(Malformed);
    list_for_an_object: "POST api.github.com/repos/acme/widget/pulls".sends(r#"[{"head":"x"}]"#).refused(Malformed);
}

#[test]
fn renaming_a_branch_deletes_it_and_makes_another() {
    let row = row("POST api.github.com/repos/acme/widget/branches/agent/x/rename").sends(r#"{"new_name":"main2"}"#);
    let (_, changes) = row.judge().unwrap();
    let change = |name, change| RefChange { target: at(name), change };
    assert_eq!(changes, [change("refs/heads/agent/x", Change::Delete), change("refs/heads/main2", Change::Create)]);
}
