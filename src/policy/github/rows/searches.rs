use super::*;

/// What a search of acme/widget's sandbox is refused for.
fn search(query: &str) -> Option<Code> {
    super::super::search::check(query, &Repositories::new(false), false).err().map(|refusal| refusal.code)
}

macro_rules! searches {
    ($($name:ident: $query:literal => $expected:expr;)*) => {
        $(#[test] fn $name() { assert_eq!(search($query), $expected); })*
    };
}

rows! {
    r062_search: "GET api.github.com/search/issues?q=foo+repo:acme/widget".bearer();
    r062_escaped: "GET api.github.com/search/issues?q=foo%20repo%3AACME%2Fwidget&page=1".bearer();
    r063_search_all: "GET api.github.com/search/issues?q=foo".refused(NotAllowed);
    r064_search_two: "GET api.github.com/search/issues?q=foo+repo:acme/widget+repo:other/secret".refused(RepoNotAllowed);
    r065_search_or: "GET api.github.com/search/issues?q=repo:acme/widget+OR+is:public".refused(NotAllowed);
    r066_search_org: "GET api.github.com/search/code?q=x+repo:acme/widget+org:acme".refused(NotAllowed);
    search_twice: "GET api.github.com/search/issues?q=repo:acme/widget&q=x".refused(Malformed);
    search_twice_escaped: "GET api.github.com/search/issues?q=repo:acme/widget&%71=x".refused(Malformed);
    search_twice_nested: "GET api.github.com/search/issues?q=repo:acme/widget&q[]=x".refused(Malformed);
    search_odd_spelling: "GET api.github.com/search/issues?%71=repo:acme/widget".refused(Malformed);
    search_semicolon: "GET api.github.com/search/issues?q=repo:acme/widget;q=x".refused(Malformed);
    search_without: "GET api.github.com/search/issues".refused(Malformed);
    search_escaped_quotes: "GET api.github.com/search/issues?q=%22a%5C%22b%22+repo:acme/widget".refused(Malformed);
    search_of_all: "GET api.github.com/search/issues?q=foo".for_all().bearer();
}

searches! {
    plain_words: "foo bar repo:acme/widget state:open type:issue" => None;
    qualifier_case: "REPO:Acme/Widget" => None;
    quoted_value: "repo:\"acme/widget\" x" => None;
    quoted_foreign_value: "repo:\"other/secret\" repo:acme/widget" => Some(RepoNotAllowed);
    quoted_token_is_text: "\"repo:other/secret\" repo:acme/widget" => None;
    quoted_token_does_not_limit: "\"repo:acme/widget\"" => Some(NotAllowed);
    escaped_quote: r#""a\" repo:other/secret" repo:acme/widget"# => Some(Malformed);
    escaped_quote_does_not_limit: r#""a\" repo:acme/widget ""# => Some(Malformed);
    open_quote: "repo:acme/widget \"a" => Some(Malformed);
    quote_in_a_word: "a\"b\" repo:acme/widget" => Some(Malformed);
    quote_then_word: "\"a\"repo:other/secret repo:acme/widget" => Some(Malformed);
    labels: "label:\"a b\",\"c\" repo:acme/widget author:someone" => None;
    label_then_scope: "label:\"a\",repo:other/secret repo:acme/widget" => Some(Malformed);
    scope_in_value: "label:x,repo:other/secret repo:acme/widget" => Some(Malformed);
    scope_in_word: "x,repo:other/secret repo:acme/widget" => Some(Malformed);
    negated_foreign: "-repo:other/secret repo:acme/widget" => Some(RepoNotAllowed);
    negated_does_not_limit: "-repo:acme/widget" => Some(NotAllowed);
    not_does_not_limit: "NOT repo:acme/widget" => Some(NotAllowed);
    not_in_lower_case_does_not_limit: "not repo:acme/widget" => Some(NotAllowed);
    not_of_another_word: "NOT x repo:acme/widget" => None;
    nested_foreign: "(a (repo:other/secret)) repo:acme/widget" => Some(RepoNotAllowed);
    nested_does_not_limit: "(repo:acme/widget)" => Some(NotAllowed);
    nested_or: "(a OR b) repo:acme/widget" => None;
    lower_case_or: "a or b repo:acme/widget" => Some(NotAllowed);
    unbalanced: "(a repo:acme/widget" => Some(Malformed);
    closed_twice: "a) repo:acme/widget" => Some(Malformed);
    value_and_group: "repo:acme/widget(x)" => Some(Malformed);
    empty_value: "repo: acme/widget" => Some(Malformed);
    two_in_one: "repo:acme/widget,other/secret" => Some(Malformed);
    upwards: "repo:acme/widget/../secret" => Some(Malformed);
    owner_only: "repo:acme/" => Some(Malformed);
    user: "user:acme repo:acme/widget" => Some(NotAllowed);
    owner: "Owner:acme repo:acme/widget" => Some(NotAllowed);
    enterprise: "-enterprise:acme repo:acme/widget" => Some(NotAllowed);
    saved: "saved:x repo:acme/widget" => Some(NotAllowed);
    project: "project:acme/1 repo:acme/widget" => Some(NotAllowed);
    team: "team:acme/x repo:acme/widget" => Some(NotAllowed);
    team_review: "team-review-requested:acme/x repo:acme/widget" => Some(NotAllowed);
    user_review: "user-review-requested:@me repo:acme/widget" => None;
    at_owner: "@other repo:acme/widget" => Some(Malformed);
    pattern: "/a \"/ repo:other/secret \" repo:acme/widget" => Some(Malformed);
    pattern_value: "path:/a \"/ repo:other/secret \" repo:acme/widget" => Some(Malformed);
    backslash: "a\\ repo:acme/widget" => Some(Malformed);
    curly_quotes: "“ repo:acme/widget ”" => Some(Malformed);
    wide_colon: "repo：other/secret repo:acme/widget" => Some(Malformed);
    no_break_space: "a\u{a0}repo:other/secret repo:acme/widget" => Some(RepoNotAllowed);
    invisible: "a\u{200b}repo:other/secret repo:acme/widget" => Some(Malformed);
    nothing: "" => Some(NotAllowed);
}

#[test]
fn a_search_has_a_greatest_length() {
    let long = format!("repo:acme/widget {}", "a ".repeat(3000));
    assert_eq!(search(&long), Some(Malformed));
}
