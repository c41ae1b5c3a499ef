use super::*;

mistakes! {
    an_app_in_words: "[secrets.K]\ngithub_app = \"Iv1\"" => [
        "dir/p.toml:2:14: `github_app` cannot be of type string\n  hint: it takes a table, such as { client_id = \"…\" }"];
    an_app_of_nothing: "[secrets.K]\ngithub_app = {}" => [
        "dir/p.toml:2:14: `github_app` has no `private_key`\n  hint: add private_key = \"…\"",
        "dir/p.toml:2:14: `github_app` has no `repositories`\n  hint: add repositories = [\"OWNER/NAME\"], or \"all\" with an owner",
        "dir/p.toml:2:14: `github_app` has no `permissions`\n  hint: name what the token may do, such as permissions = { contents = \"read\" }",
        "dir/p.toml:2:14: `github_app` has no `client_id`\n  hint: add client_id = \"…\", or app_id"];
    an_app_of_odd_words: "[secrets.P]\nenv = \"P\"\n[secrets.K]\nttl_seconds = 5\n[secrets.K.github_app]\nclient_id = \"a b\"\nprivate_key = \"P\"\nhost = \"api.github.com\"\nowner = \"acme\"\nrepositories = [\"acme\"]\npermissions = { Contents = \"read\", issues = \"all\" }\nkey = \"P\"" => [
        "dir/p.toml:4:1: `ttl_seconds` says nothing of this source of `K`\n  hint: take it out; it belongs to command and http and vault",
        "dir/p.toml:6:13: \"a b\" is no client id of an App (`github_app`)\n  hint: it has 1 to 64 letters, digits, `.`, `_` and `-`, such as Iv23liAbCdEfGhIjKlMn",
        "dir/p.toml:8:8: \"api.github.com\" is no host of a GitHub (`github_app`)\n  hint: it is the host of an API; write the one of the pages, such as github.com or acme.ghe.com",
        "dir/p.toml:10:17: \"acme\" is no repository (`github_app`)\n  hint: write it as owner/repository, such as acme/widgets",
        "dir/p.toml:11:17: \"Contents\" is no permission of an App\n  hint: write it as the REST API does, such as pull_requests",
        "dir/p.toml:11:45: \"all\" is not a value of `github_app.permissions`\n  hint: known here: read, write, admin",
        "dir/p.toml:12:1: unknown key \"github_app.key\"\n  hint: known here: client_id, app_id, private_key, host, owner, repositories, permissions"];
    an_app_that_is_named_twice: "[secrets.P]\nenv = \"P\"\n[secrets.K]\ngithub_app = { client_id = \"a\", app_id = \"1\", private_key = \"P\", repositories = \"all\", permissions = {} }" => [
        "dir/p.toml:4:42: `app_id` says again what `client_id` says\n  hint: keep one of them",
        "dir/p.toml:4:81: `github_app` is for all repositories of nobody\n  hint: add owner = \"…\"",
        "dir/p.toml:4:102: `github_app.permissions` is empty\n  hint: name what the token may do, such as permissions = { contents = \"read\" }"];
    repositories_of_two_owners: "[secrets.P]\nenv = \"P\"\n[secrets.K]\ngithub_app = { client_id = \"a\", private_key = \"P\", repositories = [\"a/x\", \"b/y\"], permissions = { contents = \"read\" } }" => [
        "dir/p.toml:4:67: `github_app.repositories`: a/x and b/y have different owners; a token is for one owner\n  hint: a secret is for the repositories of one owner; give each owner a secret of its own"];
    repositories_of_another_owner: "[secrets.P]\nenv = \"P\"\n[secrets.K]\ngithub_app = { client_id = \"a\", private_key = \"P\", owner = \"b\", repositories = [\"a/x\"], permissions = { contents = \"read\" } }" => [
        "dir/p.toml:4:60: `github_app.owner` is not the owner of its repositories, a\n  hint: take it out"];
    no_repositories: "[secrets.P]\nenv = \"P\"\n[secrets.K]\ngithub_app = { client_id = \"a\", private_key = \"P\", repositories = [], permissions = { contents = \"read\" } }" => [
        "dir/p.toml:4:67: `github_app.repositories` is empty\n  hint: take it out; write \"all\" for all that the App may see"];
    a_narrowed_token_that_needs_itself: "[secrets.S]\nenv = \"S\"\n[secrets.K]\ngithub_scoped_token = { client_id = \"a\", client_secret = \"S\", user_token = \"K\", repositories = [\"a/x\"], permissions = { contents = \"read\" } }" => [
        "dir/p.toml:3:10: the secret \"K\" needs itself, or what it needs does\n  hint: give one of them a source that needs no other secret"];
    a_narrowed_token_of_nobody: "[secrets.K]\ngithub_scoped_token = { client_id = \"a\", client_secret = \"S\", repositories = [\"a/x\"], permissions = { contents = \"read\" } }" => [
        "dir/p.toml:2:23: `github_scoped_token` has no `user_token`\n  hint: add user_token = \"…\""];
    a_key_that_nobody_declared: "[secrets.K]\ngithub_app = { client_id = \"a\", private_key = \"P\", repositories = [\"a/x\"], permissions = { contents = \"read\" } }" => [
        "dir/p.toml:2:47: the secret \"P\" is not declared\n  hint: add [secrets.P] to the file, or --secret P=env:P"];
}

#[test]
fn an_app_is_read_with_what_it_is_for() {
    let source = |host: &str| {
        let text = format!(
            "[secrets.P]\nenv = \"P\"\n[secrets.K]\ngithub_app = {{ app_id = \"17\", private_key = \"P\", {host}owner = \"Acme\", \
             repositories = [\"acme/Widget\", \"acme/lib\"], permissions = {{ contents = \"write\" }} }}"
        );
        compile(&text).secrets[0].source.clone()
    };
    let SecretSource::GitHubApp(app) = source("host = \"ghes.test:8443\", ") else { panic!() };
    assert_eq!(app.site.api("/x").unwrap().url(), "https://ghes.test:8443/api/v3/x");
    assert_eq!((app.client_id.number(), app.repositories.to_string().as_str()), (Some(17), "acme/lib, acme/widget"));
    let said = source("").to_string();
    assert_eq!(said, "the App 17 at github.com, for acme/lib, acme/widget");
    assert_eq!(source("").needs(), ["P"]);
    assert!(source("").is_remote());
}
