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
