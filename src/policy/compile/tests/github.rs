//! Bindings to GitHub.

use super::*;
use crate::policy::github::RepoName;
use crate::policy::toml;

/// One binding with these lines.
fn binding(lines: &str) -> String {
    format!("[[header_bindings]]\nkind = \"github\"\n{lines}\n")
}

const KEY: &str = "[secrets.KEY]\nfile = \"/k.pem\"\n";

mistakes! {
    no_repos: binding("") => [
        "dir/p.toml:1:1: the binding has no `repos`\n  hint: add repos = [\"owner/repository\"], or repos = \"all\""];
    repos_of_wrong_type: binding("repos = 1") => [
        "dir/p.toml:3:9: `repos` cannot be of type integer\n  hint: it takes a list of repositories, [\"owner/repository\"], or \"all\""];
    no_repository: binding("repos = [\"acme\"]") => [
        "dir/p.toml:3:10: \"acme\" cannot be used\n  hint: write it as owner/repository, such as acme/widgets"];
    another_hosts_repository: binding("repos = [\"https://gitlab.test/acme/widget\"]") => [
        "dir/p.toml:3:10: \"https://gitlab.test/acme/widget\" cannot be used\n  hint: write it as owner/repository, such as acme/widgets"];
    a_key_that_is_none: binding("repos = []\nrepo = \"a/b\"") => [
        "dir/p.toml:4:1: unknown key \"header_bindings.repo\"\n  hint: did you mean `repos`?"];
    no_access: binding("repos = []\naccess = \"admin\"") => [
        "dir/p.toml:4:10: \"admin\" is not a value of `access`\n  hint: known here: read, write"];
    a_host_with_a_path: binding("repos = []\nhost = \"github.com/acme\"") => [
        "dir/p.toml:4:8: \"github.com/acme\" cannot be used\n  hint: write the name of the host only, such as github.com, acme.ghe.com or github.example.com"];
    the_apis_host: binding("repos = []\nhost = \"api.github.com\"") => [
        "dir/p.toml:4:8: \"api.github.com\" cannot be used\n  hint: write github.com, or the tenant as NAME.ghe.com: its other hosts belong to it"];
    a_short_life: binding("repos = []\nttl_seconds = 300") => [
        "dir/p.toml:1:1: \"300\" cannot be used\n  hint: a lifetime is 301 to 604800 seconds (7 days): tokens are renewed 300 seconds ahead of their end"];
    a_project_that_is_none: binding("repos = []\nprojects = [\"7\"]") => [
        "dir/p.toml:4:13: \"7\" cannot be used\n  hint: write the node id of the project, PVT_…, which `gh project view NUMBER --owner OWNER --format json` shows as `id`"];
    an_undeclared_token: binding("repos = []\nsecret_name = \"T\"") => [
        "dir/p.toml:4:15: the secret \"T\" is not declared\n  hint: add [secrets.T] to the file, or --secret T=env:T"];
    a_push_rule_that_is_none: binding("repos = []\npush = { branches = [\"refs/heads/x\"], forced = true }") => [
        "dir/p.toml:1:1: `branches` takes names without refs/heads/: refs/heads/x\n  hint: see `push` in the README",
        "dir/p.toml:4:39: unknown key \"push.forced\"\n  hint: did you mean `force`?"];
    two_bindings_to_one_host: binding("repos = [\"a/b\"]") + &binding("repos = [\"a/c\"]") => [
        "dir/p.toml:4:1: there is a binding to github.com at dir/p.toml:1:1, too\n  hint: name all repositories of a host in one binding"];
    an_app_and_a_token: binding("repos = [\"a/b\"]\nsecret_name = \"KEY\"\napp = { client_id = \"Iv1.x\", private_key = \"KEY\" }") + KEY => [
        "dir/p.toml:5:7: a binding has one of `secret_name`, `app` and `user_app`\n  hint: keep one of them: it says where the token comes from"];
    an_app_for_all_of_nobody: binding("repos = \"all\"\napp = { client_id = \"Iv1.x\", private_key = \"KEY\" }") + KEY => [
        "dir/p.toml:4:7: the App has no token for this binding\n  hint: repos = \"all\" are those of one owner here: add owner = \"…\" to the App"];
    an_app_without_its_key: binding("repos = [\"a/b\", \"c/d\"]\napp = { client_id = \"Iv1.x\", private_key = \"NONE\" }") => [
        "dir/p.toml:4:44: the secret \"NONE\" is not declared\n  hint: add [secrets.NONE] to the file, or --secret NONE=env:NONE"];
    an_app_of_little: binding("repos = [\"a/b\"]\napp = { client = \"Iv1.x\" }") => [
        "dir/p.toml:4:7: `app` has no `private_key`\n  hint: add private_key = \"…\"",
        "dir/p.toml:4:7: `app` has no `client_id`\n  hint: add client_id = \"…\"",
        "dir/p.toml:4:9: unknown key \"app.client\"\n  hint: known here: client_id, private_key, owner"];
    a_secret_that_an_app_makes: binding("repos = [\"a/b\"]\napp = { client_id = \"Iv1.x\", private_key = \"KEY\" }") + KEY + "[secrets.GITHUB_TOKEN_A]\nenv = \"A\"\n" => [
        "dir/p.toml:4:7: the token of this App is the secret \"GITHUB_TOKEN_A\", which is declared already\n  hint: give the other one another name"];
    a_header_of_the_apis: binding("repos = []") + "[[header_bindings]]\nhost = \"api.github.com\"\nheader = \"Authorization\"\nsecret_name = \"KEY\"\n" + KEY => [
        "dir/p.toml:1:1: both this binding (paths /…) and the one at dir/p.toml:4:1 (paths /…) would set the header authorization of one request to api.github.com\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
}

#[test]
fn options_are_one_binding_with_the_users_own_login() {
    let github = ["acme/Widget", "https://github.com/acme/api.git", "acme/widget"].map(str::to_owned).to_vec();
    let compiled = compile_options(&PolicyOptions { github, ..PolicyOptions::default() });
    let [binding] = compiled.policy.githubs() else { panic!("one binding") };
    let names = ["acme/api", "acme/widget"].map(|name| RepoName::parse(name).unwrap());
    assert_eq!(binding.repos(), Some(&names[..]));
    let [secret] = &compiled.secrets[..] else { panic!("one secret") };
    let SecretSource::Command(command) = &secret.source else { panic!("a command") };
    assert_eq!(
        (secret.name.as_str(), command.argv.join(" ")),
        ("GITHUB_TOKEN", "gh auth token --hostname github.com".to_owned())
    );
    let samples: Vec<_> =
        compiled.policy.bindings().iter().map(|b| format!("{} {}", b.host().host, b.placement().sample("T"))).collect();
    assert!(samples.contains(&"github.com authorization: Basic x-access-token:{T}".to_owned()), "{samples:?}");
    assert!(samples.contains(&"api.github.com authorization: Bearer {T}".to_owned()), "{samples:?}");
    assert!(warnings(&compiled).concat().contains("by this program alone"), "{:?}", compiled.warnings);
}

#[test]
fn a_declared_token_takes_the_place_of_the_login() {
    let (github, secret) = (strings(&["all"]), strings(&["GITHUB_TOKEN=env:GH"]));
    let compiled = compile_options(&PolicyOptions { github, secret, ..PolicyOptions::default() });
    assert_eq!(compiled.secrets[0].source, SecretSource::Env("GH".to_owned()));
    assert_eq!(compiled.policy.githubs()[0].repos(), None);
}

#[test]
fn the_binding_opens_its_hosts_and_no_other() {
    use crate::policy::Question;
    let compiled = compile(&binding("repos = [\"acme/widget\"]"));
    let asks = |text: &str| Question::parse(text).unwrap().ask(&compiled.policy);
    for text in [
        "GET https://github.com/acme/widget.git/info/refs?service=git-upload-pack",
        "GET https://api.github.com/meta",
        "dns:api.github.com",
    ] {
        assert!(asks(text).is_ok(), "{text}");
    }
    for text in [
        "GET https://github.com/other/secret.git/info/refs?service=git-upload-pack",
        "GET https://api.github.com/repos/other/secret",
    ] {
        assert_eq!(asks(text).unwrap_err().code(), "repo_not_allowed", "{text}");
    }
    for text in ["GET https://github.com:8443/", "tcp://github.com:22", "GET https://evil.test/", "dns:evil.test"] {
        assert!(asks(text).is_err(), "{text}");
    }
    assert_eq!(asks("GET http://github.com/").unwrap_err().code(), "https_only");
    let text = binding("repos = []") + "[tls]\npassthrough = [\"github.com\", \"*.githubusercontent.com\"]\n";
    let mistakes = load(&[file(&text)], &PolicyOptions::default()).unwrap_err();
    assert!(mistakes.as_slice().iter().any(|mistake| mistake.to_string().contains("github.com")), "{mistakes}");
}

const APP: &str =
    "repos = [\"other/x\", \"acme/b\", \"acme/a\"]\napp = { client_id = \"Iv1.x\", private_key = \"KEY\" }";

#[test]
fn what_is_written_of_a_binding_is_printed_again() {
    let lines = "repos = [\"acme/a\"]\noptions = [\"merge\"]\nprojects = [\"PVT_a\", \"PVT_b\"]\naccess = \"read\"\nttl_seconds = 301";
    let compiled = compile(&binding(lines));
    let github = &compiled.policy.githubs()[0];
    assert_eq!(github.scope().projects, ["PVT_a", "PVT_b"]);
    let again = compile(&toml(&compiled, false));
    assert!(again.policy.githubs()[0].is_same_as(github), "{}", toml(&compiled, false));
    let other = compile(&binding(&lines.replace("PVT_b", "PVT_c")));
    assert!(!other.policy.githubs()[0].is_same_as(github));
}

#[test]
fn an_app_gives_each_owner_a_token_that_github_narrows() {
    let compiled = compile(&(binding(APP) + KEY));
    assert_eq!(warnings(&compiled), [""; 0]);
    let sources: Vec<String> =
        compiled.secrets.iter().map(|secret| format!("{}: {}", secret.name, secret.source)).collect();
    assert_eq!(
        sources[..2],
        [
            "GITHUB_TOKEN_ACME: the App Iv1.x at github.com, for acme/a, acme/b",
            "GITHUB_TOKEN_OTHER: the App Iv1.x at github.com, for other/x"
        ]
    );
    let [github] = compiled.policy.githubs() else { panic!("one binding") };
    assert!(!github.scope().user_token, "an installation has no GET /user");
    let again = compile(&toml(&compiled, false));
    assert!(again.policy.githubs()[0].is_same_as(github), "{}", toml(&compiled, false));
    let other = compile(&(binding(&APP.replace("Iv1.x", "Iv1.y")) + KEY));
    assert!(!other.policy.githubs()[0].is_same_as(github));
}

#[test]
fn a_question_is_answered_with_its_owners_token() {
    use crate::policy::Question;
    let compiled = compile(&(binding(APP) + KEY));
    let secrets = |text: &str| {
        let permit = Question::parse(text).unwrap().ask(&compiled.policy)?;
        let secret = |at: usize| compiled.policy.bindings()[at].secret_name().to_owned();
        Ok::<_, crate::policy::Denial>(permit.bindings.into_iter().map(secret).collect::<Vec<_>>().join(" "))
    };
    for (text, secret) in [
        ("GET https://api.github.com/repos/other/x", "GITHUB_TOKEN_OTHER"),
        ("GET https://api.github.com/repos/acme/b/pulls", "GITHUB_TOKEN_ACME"),
        ("GET https://github.com/other/x.git/info/refs?service=git-upload-pack", "GITHUB_TOKEN_OTHER"),
        ("GET https://api.github.com/rate_limit", "GITHUB_TOKEN_ACME"),
        ("GET https://api.github.com/search/issues?q=repo:other/x+bug", "GITHUB_TOKEN_OTHER"),
    ] {
        assert_eq!(secrets(text).unwrap(), secret, "{text}");
    }
    let both = "GET https://api.github.com/search/issues?q=repo:other/x+repo:acme/a";
    assert_eq!(secrets(both).unwrap_err().code(), "not_allowed");
}

#[test]
fn a_users_app_is_printed_as_it_was_written() {
    let app = "repos = \"all\"\nuser_app = { client_id = \"Iv1.x\", client_secret = \"KEY\", user_token = \"USER\", owner = \"Acme\" }";
    let compiled = compile(&(binding(app) + KEY + "[secrets.USER]\nenv = \"USER\"\n"));
    let text = toml(&compiled, false);
    assert!(text.contains("owner = \"acme\"") && !text.contains("GITHUB_TOKEN_ACME"), "{text}");
    let again = compile(&text);
    assert!(again.policy.githubs()[0].is_same_as(&compiled.policy.githubs()[0]));
    assert!(compiled.policy.githubs()[0].scope().user_token);
}
