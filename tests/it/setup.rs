//! The commands by which a sandbox elsewhere is set up, in real shells, each with a /tmp and a home of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use sandbox_proxy::admin::setup::{Proxy, ProxyUrl, Setup, github, secret_injection};
use sandbox_proxy::trust;
use sandbox_proxy::types::SandboxId;

use crate::cases;
use crate::internet::internet;
use crate::port::Port;
use crate::sandbox::{PATH, Run, need};

cases![
    a_set_up_shell_uses_the_proxy,
    a_renewal_changes_the_credentials_alone,
    git_and_gh_are_set_up_for_one_host,
    a_value_with_quotes_stays_a_value,
];

/// Runs it, and then this, in a mount namespace with an empty /tmp.
fn shell(shell: &str, home: &Path, setup: &Setup, after: &str) -> Output {
    need("unshare", "util-linux");
    let script = format!(
        "mount -t tmpfs tmpfs /tmp && cd / && printf %s \"$SETUP\" | {shell} && printf %s \"$SETUP\" | {shell} && {after}"
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).env_clear().env("PATH", PATH).env("HOME", home);
    command.env("SETUP", &setup.command).env("RENEWAL", &setup.renewal).envs(&setup.env).output().unwrap()
}

fn done(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn with_proxy<T>(egress_token: &str, address: &str, ca_pem: &str, make: impl FnOnce(&Proxy<'_>) -> T) -> T {
    let url = ProxyUrl::parse(&format!("http://{address}")).unwrap();
    let own = sandbox_proxy::tls::SandboxCa::generate(&SandboxId::from_bits(3)).unwrap();
    make(&Proxy { url: &url, ca_pem, ca_jks: &trust::java_store(own.der()), egress_token })
}

fn a_set_up_shell_uses_the_proxy() {
    let port = Port::start("setup-port");
    let home = Run::bare();
    let ca = std::fs::read_to_string(&port.ca[0]).unwrap();
    let setup = with_proxy(&port.token(0), &port.address, &ca, secret_injection);
    let (own, other) = (port.host(0), port.host(1));
    let after = format!(
        ". /tmp/sandbox-proxy/secret-injection.env && env -u HTTPS_PROXY true &&
         curl -sS -o /dev/null -w '%{{http_code}}\\n' https://{own}/echo &&
         python3 -c 'import urllib.request as u; print(u.urlopen(\"https://{own}/echo?python\").status)' &&
         {{ curl -sS https://{other}/echo 2>&1 || true; }} && stat -c %a /tmp/sandbox-proxy/secret-injection.env"
    );
    for name in ["dash", "bash"] {
        let told = done(&shell(name, &home.home(), &setup, &after));
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!((lines[0], lines[1], lines.last()), ("200", "200", Some(&"600")), "{name}: {told}");
        assert!(told.contains("403"), "{name}: {told}");
    }
    let requests = internet().web.requests(&own);
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| request.header("x-key") == ["canary-port-one"]));
    assert!(internet().web.requests(&other).is_empty());
}

fn a_renewal_changes_the_credentials_alone() {
    let home = Run::bare();
    let mut setup = with_proxy("first", "p.test:1", "PEM", secret_injection);
    let (env, renewal) = with_proxy("second", "p.test:1", "PEM", |proxy| {
        let again = secret_injection(proxy);
        (again.env, again.renewal)
    });
    let was = setup.env.insert("RENEWED".to_owned(), env["SANDBOX_PROXY_URL_WITH_TOKEN"].clone());
    assert!(was.is_none());
    setup.renewal = renewal;
    let after = "grep -c :first@ /tmp/sandbox-proxy/secret-injection.env &&
        cksum /tmp/sandbox-proxy/sandbox-proxy-ca-bundle.crt > /tmp/before &&
        printf %s \"$RENEWAL\" | SANDBOX_PROXY_URL_WITH_TOKEN=$RENEWED sh && grep -c :second@ /tmp/sandbox-proxy/secret-injection.env &&
        ! grep first /tmp/sandbox-proxy/secret-injection.env && cksum /tmp/sandbox-proxy/sandbox-proxy-ca-bundle.crt | cmp - /tmp/before";
    assert_eq!(done(&shell("dash", &home.home(), &setup, after)), "4\n4\n");
}

fn git_and_gh_are_set_up_for_one_host() {
    need("git", "git");
    let run = Run::bare();
    let real = run.outside().join("real-gh");
    std::fs::write(&real, "#!/bin/sh\necho \"$GH_TOKEN $HTTPS_PROXY $SSL_CERT_FILE $*\"\n").unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut setup = with_proxy("egress", "p.test:1", "PEM", |proxy| github(proxy, "github.com", "token-one"));
    setup.env.insert("SANDBOX_PROXY_REAL_GH".to_owned(), real.display().to_string());
    let after = "for key in proxy proxyAuthMethod extraHeader; do git config --global --get-all http.https://github.com/.$key; done
        git config --global --get-all safe.directory; git config --global --get-all http.sslCAInfo
        printf %s \"$RENEWAL\" | SANDBOX_PROXY_TOKEN=token-two sh
        git config --global --get-all http.https://github.com/.extraHeader
        env -i PATH=\"$HOME/.local/bin:$PATH\" HOME=\"$HOME\" SANDBOX_PROXY_REAL_GH=\"$SANDBOX_PROXY_REAL_GH\" gh pr list
        stat -c %a /tmp/sandbox-proxy/github-gh-proxy; grep -c .local/bin \"$HOME/.profile\"";
    let told = done(&shell("dash", &run.home(), &setup, after));
    let proxy = "http://sandbox-proxy:egress@p.test:1";
    let bundle = "/tmp/sandbox-proxy/sandbox-proxy-ca-bundle.crt";
    let wanted = [
        proxy,
        "basic",
        "X-Sandbox-Proxy-Token: token-one",
        "/workspace",
        bundle,
        "X-Sandbox-Proxy-Token: token-two",
        &format!("token-two {proxy} {bundle} pr list"),
        "600",
        "1",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), wanted);
}

fn a_value_with_quotes_stays_a_value() {
    let home = Run::bare();
    let mut setup = with_proxy("egress", "p.test:1", "PEM", secret_injection);
    let evil = "http://a'b$(touch /tmp/evil)`touch /tmp/evil`\\\"c@p.test";
    setup.env.insert("SANDBOX_PROXY_URL_WITH_TOKEN".to_owned(), evil.to_owned());
    let after = ". /tmp/sandbox-proxy/secret-injection.env && printf %s \"$HTTPS_PROXY\" && ! ls /tmp/evil 2>/dev/null";
    for name in ["dash", "bash"] {
        assert_eq!(done(&shell(name, &home.home(), &setup, after)), evil);
    }
}
