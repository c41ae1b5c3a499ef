//! Bindings to other places than headers.

use super::*;

/// One binding to a.test of a kind, with these further lines, and its secret.
fn binding(kind: &str, lines: &str) -> String {
    format!("[[header_bindings]]\nkind = \"{kind}\"\nhost = \"a.test\"\nsecret_name = \"K\"\n{lines}\n")
}

const SECRETS: &str = "[secrets.K]\nenv = \"K\"\nplaceholders = [\"K\"]\n";

mistakes! {
    a_parameter_is_missing: binding("query_parameter", "") + SECRETS => [
        "dir/p.toml:1:1: the binding has no `parameter`\n  hint: add parameter = \"…\""];
    a_cookie_is_missing: binding("cookie", "") + SECRETS => [
        "dir/p.toml:1:1: the binding has no `cookie`\n  hint: add cookie = \"…\""];
    a_user_is_missing: binding("basic", "") + SECRETS => [
        "dir/p.toml:1:1: the binding has no user\n  hint: give one of user = \"NAME\" or user_secret = \"SECRET\""];
    two_users: binding("basic", "user = \"me\"\nuser_secret = \"K\"") + SECRETS => [
        "dir/p.toml:1:1: the binding has both `user` and `user_secret`\n  hint: give one of user = \"NAME\" or user_secret = \"SECRET\""];
    an_undeclared_user: binding("basic", "user_secret = \"U\"") + SECRETS => [
        "dir/p.toml:5:15: the secret \"U\" is not declared\n  hint: add [secrets.U] to the file, or --secret U=env:U"];
    another_kinds_key: binding("cookie", "cookie = \"c\"\nheader = \"X\"") + SECRETS => [
        "dir/p.toml:6:1: unknown key \"header_bindings.header\"\n  hint: known here: kind, host, cookie, secret_name, path_prefix, scrub"];
    no_certificate: binding("client_certificate", "") + SECRETS => [
        "dir/p.toml:1:1: the binding has no `certificate`\n  hint: add certificate = \"…\""];
    an_undeclared_certificate: binding("client_certificate", "certificate = \"C\"") + SECRETS => [
        "dir/p.toml:5:15: the secret \"C\" is not declared\n  hint: add [secrets.C] to the file, or --secret C=env:C"];
    a_certificate_is_for_every_path: binding("client_certificate", "certificate = \"K\"\npath_prefix = \"/v1/\"\nscrub = false") + SECRETS => [
        "dir/p.toml:6:1: unknown key \"header_bindings.path_prefix\"\n  hint: known here: kind, host, certificate, secret_name",
        "dir/p.toml:7:1: unknown key \"header_bindings.scrub\"\n  hint: known here: kind, host, certificate, secret_name"];
    two_certificates: binding("client_certificate", "certificate = \"K\"") + &binding("client_certificate", "certificate = \"U\"") + SECRETS + "[secrets.U]\nenv = \"U\"" => [
        "dir/p.toml:6:1: both this binding (paths /…) and the one at dir/p.toml:1:1 (paths /…) would set the client certificate of one request to a.test\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
    no_access_key: binding("aws_sigv4", "") + SECRETS => [
        "dir/p.toml:1:1: the binding has no `access_key_id`\n  hint: add access_key_id = \"…\""];
    an_undeclared_access_key: binding("aws_sigv4", "access_key_id = \"I\"") + SECRETS => [
        "dir/p.toml:1:1: the secret I has no placeholder, which a client could sign with\n  hint: write placeholders = [\"VARIABLE\"] in [secrets.I]",
        "dir/p.toml:5:17: the secret \"I\" is not declared\n  hint: add [secrets.I] to the file, or --secret I=env:I"];
    an_undeclared_session_token: binding("aws_sigv4", "access_key_id = \"K\"\nsession_token = \"T\"") + SECRETS => [
        "dir/p.toml:6:17: the secret \"T\" is not declared\n  hint: add [secrets.T] to the file, or --secret T=env:T"];
    an_odd_region: binding("aws_sigv4", "access_key_id = \"K\"\nregion = \"EU West\"") + SECRETS => [
        "dir/p.toml:6:10: \"EU West\": a region's or a service's name has 1 to 64 small letters, digits, `-`, `_` and `.`, such as eu-west-1 or s3"];
    nothing_to_sign_with: binding("aws_sigv4", "access_key_id = \"I\"") + "[secrets.K]\nenv = \"K\"\n[secrets.I]\nenv = \"I\"" => [
        "dir/p.toml:1:1: the secret I has no placeholder, which a client could sign with\n  hint: write placeholders = [\"VARIABLE\"] in [secrets.I]",
        "dir/p.toml:1:1: the secret K has no placeholder, which a client could sign with\n  hint: write placeholders = [\"VARIABLE\"] in [secrets.K]"];
    a_signature_beside_basic: binding("aws_sigv4", "access_key_id = \"K\"") + &binding("basic", "user = \"me\"") + SECRETS => [
        "dir/p.toml:6:1: both this binding (paths /…) and the one at dir/p.toml:1:1 (paths /…) would set the header authorization of one request to a.test\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
    a_signature_beside_its_token: binding("aws_sigv4", "access_key_id = \"K\"") + "[[header_bindings]]\nhost = \"a.test\"\nheader = \"X-Amz_Security-Token\"\nsecret_name = \"K\"\n" + SECRETS => [
        "dir/p.toml:6:1: both this binding (paths /…) and the one at dir/p.toml:1:1 (paths /…) would set the header x-amz_security-token of one request to a.test\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
    no_marker: binding("path_segment", "") + "[secrets.K]\nenv = \"K\"" => [
        "dir/p.toml:1:1: the secret K has no placeholder, whose place in the path it could take\n  hint: write placeholders = [\"VARIABLE\"] in [secrets.K]"];
    two_parameters: binding("query_parameter", "parameter = \"key\"") + &binding("query_parameter", "parameter = \"KEY\"\npath_prefix = \"/v1\"") + SECRETS => [
        "dir/p.toml:6:1: both this binding (paths /v1…) and the one at dir/p.toml:1:1 (paths /…) would set the query parameter KEY of one request to a.test\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
    basic_beside_a_header: binding("basic", "user = \"me\"") + "[[header_bindings]]\nhost = \"a.test\"\nheader = \"Authorization\"\nsecret_name = \"K\"\n" + SECRETS => [
        "dir/p.toml:6:1: both this binding (paths /…) and the one at dir/p.toml:1:1 (paths /…) would set the header authorization of one request to a.test\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
    basic_beside_mistral: binding("basic", "user = \"me\"") + "[[header_bindings]]\nkind = \"mistral_api\"\nhost = \"a.test\"\n" + SECRETS => [
        "dir/p.toml:6:1: both this binding (paths /…) and the one at dir/p.toml:1:1 (paths /…) would set the header authorization of one request to a.test\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
    a_cookie_beside_the_header: binding("cookie", "cookie = \"c\"") + "[[header_bindings]]\nhost = \"a.test\"\nheader = \"Cookie\"\nsecret_name = \"K\"\n" + SECRETS => [
        "dir/p.toml:6:1: both this binding (paths /…) and the one at dir/p.toml:1:1 (paths /…) would set the header cookie of one request to a.test\n  hint: keep one of them, or give them path prefixes of which none begins the other"];
}

/// Different places of one request, and one place of different requests, are no conflict.
#[test]
fn places_that_are_apart() {
    let text = [
        binding("query_parameter", "parameter = \"key\""),
        binding("query_parameter", "parameter = \"token\""),
        binding("cookie", "cookie = \"key\""),
        binding("basic", "user_secret = \"U\"\npath_prefix = \"/v1/\""),
        binding("basic", "user = \"\"\npath_prefix = \"/v2/\""),
        binding("path_segment", "prefix = \"bot\""),
        binding("client_certificate", "certificate = \"U\""),
    ];
    let compiled = compile(&(text.concat() + "[network]\nmode = \"all\"\n[secrets.U]\nenv = \"U\"\n" + SECRETS));
    let samples: Vec<_> = compiled.policy.bindings().iter().map(|b| b.placement().sample(b.secret_name())).collect();
    assert_eq!(
        samples,
        [
            "?key={K}",
            "?token={K}",
            "cookie: key={K}",
            "authorization: Basic {U}:{K}",
            "authorization: Basic :{K}",
            "/bot{K}",
            "TLS: {U} with the key {K}"
        ]
    );
    assert_eq!(warnings(&compiled), Vec::<String>::new());
}

/// The variable of that name is meant whether the secret is named or not; of another one nobody can tell where it is.
#[test]
fn the_mistral_key_needs_no_declaration() {
    let api = |line: &str| format!("[[header_bindings]]\nkind = \"mistral_api\"\n{line}\n[network]\nmode = \"all\"\n");
    for line in ["", "secret_name = \"MISTRAL_API_KEY\""] {
        let compiled = compile(&api(line));
        let from = &compiled.secrets[0];
        assert_eq!(
            (from.name.as_str(), &from.source),
            ("MISTRAL_API_KEY", &SecretSource::Env("MISTRAL_API_KEY".to_owned()))
        );
        assert_eq!(compiled.placeholders[0].variable, "MISTRAL_API_KEY");
    }
    let text = "[secrets.MISTRAL_API_KEY]\ncommand = [\"issue\"]\n".to_owned() + &api("ttl_seconds = 60");
    let compiled = compile(&text);
    assert_eq!((compiled.secrets.len(), compiled.policy.bindings()[0].ttl()), (1, Some(Duration::from_secs(60))));
}

mistakes! {
    another_key_is_undeclared_once: "[[header_bindings]]\nkind = \"mistral_api\"\nsecret_name = \"K\"" => [
        "dir/p.toml:3:15: the secret \"K\" is not declared\n  hint: add [secrets.K] to the file, or --secret K=env:K"];
    a_key_that_lives_too_long: "[[header_bindings]]\nkind = \"mistral_api\"\nttl_seconds = 604801\nrun_as = \"me\"\n[secrets.MISTRAL_API_KEY]\nenv = \"K\"" => [
        "dir/p.toml:3:15: `ttl_seconds` is out of its range\n  hint: write 1 to 604800",
        "dir/p.toml:4:10: \"me\": `run_as` can be \"auto\" only: the owner of the key"];
}
