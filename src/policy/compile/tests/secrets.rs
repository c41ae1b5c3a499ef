use super::*;
use crate::policy::HttpSource;
use crate::types::Endpoint;

mistakes! {
    a_key_of_another_source: "[secrets.K]\nenv = \"K\"\ntimeout_seconds = 5\nbearer = \"K\"" => [
        "dir/p.toml:3:1: `timeout_seconds` says nothing of this source of `K`\n  hint: take it out; it belongs to command",
        "dir/p.toml:4:1: `bearer` says nothing of this source of `K`\n  hint: take it out; it belongs to http"];
    a_timeout_of_nothing: "[secrets.K]\ncommand = [\"a\"]\ntimeout_seconds = 0" => [
        "dir/p.toml:3:19: `timeout_seconds` is out of its range\n  hint: write 1 to 300"];
    a_timeout_of_hours: "[secrets.K]\ncommand = [\"a\"]\ntimeout_seconds = 301\nttl_seconds = -1" => [
        "dir/p.toml:3:19: `timeout_seconds` is out of its range\n  hint: write 1 to 300",
        "dir/p.toml:4:15: `ttl_seconds` is out of its range\n  hint: write 1 to 315360000"];
    a_time_to_live_in_words: "[secrets.K]\ncommand = [\"a\"]\nttl_seconds = \"1h\"" => [
        "dir/p.toml:3:15: `ttl_seconds` cannot be of type string\n  hint: it takes a whole number of seconds, 1 to 315360000"];
    a_service_in_plain_text: "[secrets.K]\nhttp = \"http://canary@a.test/\"" => [
        "dir/p.toml:2:8: `http` is no URL that can be asked: it holds a user or password, which others could read\n  hint: write https://HOST/PATH"];
    a_service_on_another_host_in_plain_text: "[secrets.K]\nhttp = \"http://a.test/\"" => [
        "dir/p.toml:2:8: `http` is no URL that can be asked: http:// is for a loopback address such as 127.0.0.1 or [::1] alone, since credentials must not be readable on the way\n  hint: write https://HOST/PATH"];
    another_method: "[secrets.K]\nhttp = \"https://a.test/\"\nmethod = \"PUT\"" => [
        "dir/p.toml:3:10: \"PUT\" is not a value of `method`\n  hint: known here: GET, POST"];
    a_bearer_that_nobody_declared: "[secrets.K]\nhttp = \"https://a.test/\"\nbearer = \"T\"" => [
        "dir/p.toml:3:10: the secret \"T\" is not declared\n  hint: add [secrets.T] to the file, or --secret T=env:T"];
    secrets_that_need_each_other: "[secrets.A]\nhttp = \"https://a.test/\"\nbearer = \"B\"\n[secrets.B]\nhttp = \"https://a.test/\"\nbearer = \"A\"\n[secrets.C]\nhttp = \"https://a.test/\"\nbearer = \"B\"" => [
        "dir/p.toml:1:10: the secret \"A\" needs itself, or what it needs does\n  hint: give one of them a source that needs no other secret",
        "dir/p.toml:4:10: the secret \"B\" needs itself, or what it needs does\n  hint: give one of them a source that needs no other secret"];
    a_secret_that_needs_itself: "[secrets.A]\nhttp = \"https://a.test/\"\nbearer = \"A\"" => [
        "dir/p.toml:1:10: the secret \"A\" needs itself, or what it needs does\n  hint: give one of them a source that needs no other secret"];
    a_login_that_is_got_through_its_own_proxy: "[upstream]\nproxy = \"http://p.test:3128\"\nproxy_auth = \"P\"\n[secrets.P]\nhttp = \"https://a.test/\"" => [
        "dir/p.toml:3:14: the secret \"P\" is got by a call, which would go through this proxy\n  hint: name a secret with env, file or command"];
}

#[test]
fn what_a_used_secret_needs_is_used() {
    let text = "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n[[header_bindings]]\nhost = \"a.test\"\nheader = \"X\"\n\
        secret_name = \"K\"\n[secrets.K]\nhttp = \"https://b.test/k\"\nmethod = \"GET\"\nbearer = \"T\"\nttl_seconds = 60\n\
        [secrets.T]\nenv = \"T\"\n[secrets.U]\nenv = \"U\"";
    let compiled = compile(text);
    let [warning] = &warnings(&compiled)[..] else { panic!("{:?}", warnings(&compiled)) };
    assert_eq!(warning, "dir/p.toml:15:10: warning: nothing uses the secret U");
    let url = Endpoint::parse("https://b.test/k").unwrap();
    let want = HttpSource { url, post: false, bearer: Some("T".to_owned()), ttl: Some(Duration::from_secs(60)) };
    assert_eq!(compiled.secrets[0].source, SecretSource::Http(want));
    assert_eq!(compiled.secrets[0].source.to_string(), "https://b.test");
}

mistakes! {
    a_grant_without_its_token: "[secrets.K]\noauth2 = { token_url = \"https://a.test/\", grant = \"refresh_token\", client_id = \"c\" }" => [
        "dir/p.toml:2:10: the grant has no `refresh_token`\n  hint: add refresh_token = \"SECRET\", the name of the secret that holds it"];
    a_client_without_credentials: "[secrets.K]\noauth2 = { token_url = \"https://a.test/\", grant = \"client_credentials\", client_id = \"c\" }" => [
        "dir/p.toml:2:10: the client has no credentials: there is no `client_secret`\n  hint: add client_secret = \"SECRET\", the name of the secret that holds it"];
    a_token_beside_the_other_grant: "[secrets.K]\noauth2 = { token_url = \"https://a.test/\", grant = \"client_credentials\", client_id = \"c\", refresh_token = \"K\" }" => [
        "dir/p.toml:2:106: `refresh_token` says nothing of the grant client_credentials\n  hint: take it out, or write grant = \"refresh_token\""];
    oauth2_in_words: "[secrets.K]\noauth2 = \"https://a.test/\"" => [
        "dir/p.toml:2:10: `oauth2` cannot be of type string\n  hint: it takes a table, such as { token_url = \"…\" }"];
    oauth2_of_odd_words: "[secrets.K]\n[secrets.K.oauth2]\ntoken_url = \"http://a.test/\"\ngrant = \"password\"\nclient = \"c\"\nclient_id = \"c\"\nttl_seconds = 1" => [
        "dir/p.toml:3:13: `oauth2.token_url` is no URL that can be asked: http:// is for a loopback address such as 127.0.0.1 or [::1] alone, since credentials must not be readable on the way\n  hint: write https://HOST/PATH",
        "dir/p.toml:4:9: \"password\" is not a value of `oauth2.grant`\n  hint: known here: refresh_token, client_credentials",
        "dir/p.toml:5:1: unknown key \"oauth2.client\"\n  hint: known here: token_url, grant, client_id, client_secret, refresh_token, scope, audience, auth",
        "dir/p.toml:7:1: unknown key \"oauth2.ttl_seconds\"\n  hint: known here: token_url, grant, client_id, client_secret, refresh_token, scope, audience, auth"];
    an_auth_of_nothing: "[secrets.K]\noauth2 = { token_url = \"https://a.test/\", grant = \"refresh_token\", client_id = \"c\", refresh_token = \"R\", auth = \"post\" }\n[secrets.R]\nfile = \"r\"" => [
        "dir/p.toml:2:113: `auth` says nothing without `client_secret`\n  hint: take it out, or add one"];
    a_token_that_nobody_declared: "[secrets.K]\nvault = { address = \"https://a.test\", path = \"secret/data/app\", field = \"f\", token = \"T\" }" => [
        "dir/p.toml:2:86: the secret \"T\" is not declared\n  hint: add [secrets.T] to the file, or --secret T=env:T"];
    a_vault_without_a_field: "[secrets.K]\nvault = { address = \"https://a.test\", path = \"secret/data/app\", token = \"K\" }" => [
        "dir/p.toml:2:9: `vault` has no `field`\n  hint: add field = \"…\""];
    paths_that_lead_elsewhere: "[secrets.T]\nenv = \"T\"\n[secrets.K]\nvault = { address = \"https://a.test\", path = \"secret/data/../../sys\", field = \"f\", token = \"T\" }\n[secrets.L]\nvault = { address = \"https://a.test?x\", path = \"secret/app\", field = \"f\", token = \"T\" }\n[secrets.M]\nvault = { address = \"https://a.test\", path = \"secret/app\", field = \"f\", token = \"T\", namespace = \"a b\" }" => [
        "dir/p.toml:4:46: \"secret/data/../../sys\" is no path in a key-value engine of version 2\n  hint: write MOUNT/data/NAME, such as secret/data/app, of letters, digits and -_.~",
        "dir/p.toml:6:21: `vault.address` holds a query\n  hint: write https://HOST:PORT",
        "dir/p.toml:8:46: \"secret/app\" is no path in a key-value engine of version 2\n  hint: write MOUNT/data/NAME, such as secret/data/app, of letters, digits and -_.~"];
    a_token_that_is_got_by_its_own_token: "[secrets.K]\nvault = { address = \"https://a.test\", path = \"s/data/a\", field = \"f\", token = \"L\" }\n[secrets.L]\noauth2 = { token_url = \"https://a.test/\", grant = \"refresh_token\", client_id = \"c\", refresh_token = \"K\" }" => [
        "dir/p.toml:1:10: the secret \"K\" needs itself, or what it needs does\n  hint: give one of them a source that needs no other secret",
        "dir/p.toml:3:10: the secret \"L\" needs itself, or what it needs does\n  hint: give one of them a source that needs no other secret"];
}

#[test]
fn a_refresh_token_that_cannot_be_written_back_is_warned_of() {
    let text = |source: &str| {
        format!(
            "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n[[header_bindings]]\nhost = \"a.test\"\nheader = \"X\"\n\
             secret_name = \"K\"\n[secrets.R]\n{source}\n[secrets.K]\n\
             oauth2 = {{ token_url = \"https://b.test/t\", grant = \"refresh_token\", client_id = \"c\", refresh_token = \"R\" }}"
        )
    };
    assert_eq!(warnings(&compile(&text("file = \"r\""))), Vec::<String>::new());
    let said = "dir/p.toml:10:10: warning: a new refresh token that comes for K cannot be written back to the variable R: it is kept in \
                memory and lost at the end; a file takes it";
    assert_eq!(warnings(&compile(&text("env = \"R\""))), [said]);
}
