//! Clients as they are installed: each reaches an allowed host with no proxy variable, no certificate option and no
//! other help, and says in its own words that another host was refused.

use crate::cases;
use crate::internet::{git, internet};
use crate::sandbox::{Output, Run, need};

cases![
    curl,
    curl_http1,
    curl_uploads_what_is_refused,
    wget,
    python_urllib,
    python_requests,
    python_httpx,
    python_aiohttp,
    node_fetch,
    java_http_client,
    gh,
    git_clone,
    git_push,
    git_push_chunked,
    git_refused,
    pip,
    pip_refused,
    npm,
    npm_refused,
    cargo,
    cargo_refused,
    openssl_strict,
];

/// A client that fetches the URL `$1` and prints what it got.
struct Client {
    /// Its hosts are `NAME.allowed.test` and `NAME.blocked.test`.
    name: &'static str,
    /// Program and the Debian package it is from.
    needs: (&'static str, &'static str),
    script: &'static str,
    /// What it prints of a refusal.
    refusal: &'static str,
}

impl Client {
    /// It reaches the allowed host and shows the refusal of the other, which nobody outside hears of.
    #[track_caller]
    fn check(&self) {
        need(self.needs.0, self.needs.1);
        let (allowed, blocked) = (format!("{}.allowed.test", self.name), format!("{}.blocked.test", self.name));
        let reached = self.fetch(&allowed, &allowed);
        reached.expect_code(0).expect_stdout(&format!("\"host\":\"{allowed}\""));
        assert_eq!(internet().web.requests(&allowed).len(), 1, "one request, one arrival");
        let refused = self.fetch(&allowed, &blocked);
        let shown = format!("{}{}", refused.stdout, refused.stderr);
        assert!(shown.contains(self.refusal), "no {:?} in what it shows\n{refused:#?}", self.refusal);
        refused.expect_stderr(&format!("--allow {blocked}"));
        assert_untouched(&blocked);
    }

    fn fetch(&self, allowed: &str, host: &str) -> Output {
        let url = format!("https://{host}/echo");
        Run::new().allow(allowed).command(&["sh", "-c", self.script, "sh", &url]).run()
    }
}

#[track_caller]
fn assert_untouched(host: &str) {
    assert!(internet().web.requests(host).is_empty(), "{host} got a request");
    assert_eq!(internet().web.connections(host), 0, "{host} got a connection");
    assert_eq!(internet().dns.queries(host), 0, "{host} was looked up outside");
}

fn curl() {
    let script = "curl -sS \"$1\"";
    Client { name: "curl", needs: ("curl", "curl"), script, refusal: "--allow curl.blocked.test" }.check();
}

fn curl_http1() {
    let script = "curl -sSf --http1.1 \"$1\"";
    Client { name: "curl1", needs: ("curl", "curl"), script, refusal: "returned error: 403" }.check();
}

/// Over HTTP/2 the stream must not be reset before curl has sent all: it would say 92 in place of the refusal.
fn curl_uploads_what_is_refused() {
    let script = "for turn in 1 2 3 4 5 6 7 8 9 10; do for body in -dx -Tlarge; do curl -sS $body https://uploads.blocked.test/; done
        head -c 300000 large | curl -sS -T - https://uploads.blocked.test/; done 2>&1 | grep -c 'allow uploads.blocked.test'";
    let run = Run::new().allow("uploads.allowed.test").file("large", &"x".repeat(900_000));
    run.script(script).run().expect_code(0).expect_stdout("30\n");
}

fn wget() {
    let script = "wget -nv -O - \"$1\"";
    Client { name: "wget", needs: ("wget", "wget"), script, refusal: "ERROR 403" }.check();
}

fn python_urllib() {
    let script =
        "/usr/bin/python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())' \"$1\"";
    Client { name: "urllib", needs: ("python3", "python3"), script, refusal: "HTTP Error 403" }.check();
}

fn python_requests() {
    let script = "/usr/bin/python3 -c 'import sys, requests
r = requests.get(sys.argv[1]); print(r.text); r.raise_for_status()' \"$1\"";
    Client { name: "requests", needs: ("python3", "python3-requests"), script, refusal: "403 Client Error" }.check();
}

fn python_httpx() {
    let script = "/usr/bin/python3 -c 'import sys, httpx
r = httpx.get(sys.argv[1]); print(r.text); r.raise_for_status()' \"$1\"";
    Client { name: "httpx", needs: ("python3", "python3-httpx"), script, refusal: "403 Forbidden" }.check();
}

fn python_aiohttp() {
    let script = "/usr/bin/python3 -c 'import sys, asyncio, aiohttp
async def main():
    async with aiohttp.ClientSession() as session:
        async with session.get(sys.argv[1]) as r:
            print(await r.text()); r.raise_for_status()
asyncio.run(main())' \"$1\"";
    Client { name: "aiohttp", needs: ("python3", "python3-aiohttp"), script, refusal: "403, message=" }.check();
}

fn node_fetch() {
    let script = "node -e 'fetch(process.argv[1]).then(async r => console.log(r.status, await r.text()))' \"$1\"";
    Client { name: "node", needs: ("node", "nodejs"), script, refusal: "403 " }.check();
}

fn java_http_client() {
    let script = "cat > Fetch.java <<'END'
import java.net.URI;
import java.net.http.*;
class Fetch {
    public static void main(String[] url) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(url[0])).build();
        var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(response.statusCode() + \" \" + response.body());
    }
}
END
java Fetch.java \"$1\"";
    Client { name: "java", needs: ("java", "default-jdk-headless"), script, refusal: "403 " }.check();
}

fn gh() {
    let script = "GH_TOKEN=none HOME=$PWD gh api \"$1\"";
    Client { name: "gh", needs: ("gh", "gh"), script, refusal: "403" }.check();
}

fn git_clone() {
    need("git", "git");
    let run = Run::new().allow("git.test").script("git clone -q https://git.test/project.git && cat project/README");
    run.run().expect_code(0).expect_stdout("hello from git.test");
}

fn git_push() {
    push("pushed", 300_000, "");
}

/// A body that git sends as it makes it. Over HTTP/1.1: sending such a body over HTTP/2, git with libcurl 7.88 (Debian
/// 12) now and then corrupts it, also where nothing stands between it and the server.
fn git_push_chunked() {
    push("chunked", 3_000_000, "-c http.version=HTTP/1.1");
}

#[track_caller]
fn push(branch: &str, bytes: usize, options: &str) {
    need("git", "git");
    let script = format!(
        "set -e
        git clone -q https://git.test/project.git && cd project && git checkout -q -b {branch}
        head -c {bytes} /dev/urandom > big && git add big
        git -c user.name=s -c user.email=s@git.test commit -q -m second
        git {options} push -q origin {branch} && git rev-parse HEAD"
    );
    let output = Run::new().allow("git.test").script(&script).run();
    output.expect_code(0);
    assert_eq!(git::tip(branch).as_deref(), Some(output.stdout.trim()));
}

fn git_refused() {
    let output = Run::new().allow("git.test").script("git clone https://git.blocked.test/project.git").run();
    output.expect_code(128).expect_stderr("The requested URL returned error: 403");
    assert_untouched("git.blocked.test");
}

fn pip() {
    need("pip3", "python3-pip");
    let script = "/usr/bin/python3 -m pip install -q --target here --index-url https://pypi.test/simple demo-pkg
        PYTHONPATH=here /usr/bin/python3 -c 'import demo_pkg; print(demo_pkg.WORD)'";
    Run::new().allow("pypi.test").script(script).run().expect_code(0).expect_stdout("wheel from pypi.test");
}

fn pip_refused() {
    let script = "/usr/bin/python3 -m pip download https://pip.blocked.test/demo_pkg-1.0-py3-none-any.whl";
    let output = Run::new().allow("pypi.test").script(script).run();
    output.expect_code(1).expect_stderr("HTTP error 403 while getting https://pip.blocked.test/");
    assert_untouched("pip.blocked.test");
}

fn npm() {
    need("npm", "npm");
    let script =
        "export HOME=$PWD; npm install --registry https://npm.test demo-pkg && node -p 'require(\"demo-pkg\")'";
    Run::new().allow("npm.test").script(script).run().expect_code(0).expect_stdout("tarball from npm.test");
}

fn npm_refused() {
    let script = "export HOME=$PWD; npm view --registry https://npm.blocked.test demo-pkg";
    let output = Run::new().allow("npm.test").script(script).run();
    output.expect_code(1).expect_stderr("403 Forbidden - GET https://npm.blocked.test/demo-pkg");
    assert_untouched("npm.blocked.test");
}

fn cargo() {
    let output = cargo_fetch("crates.test").run();
    output.expect_code(0);
    assert!(!internet().web.requests("crates.test").is_empty());
}

fn cargo_refused() {
    cargo_fetch("crates.blocked.test").run().expect_code(101).expect_stderr("403");
    assert_untouched("crates.blocked.test");
}

/// A package that depends on a crate of the index on `host`, to be fetched by the toolchain that built these tests.
fn cargo_fetch(host: &str) -> Run {
    let manifest = "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
        [dependencies]\ndemo-crate = { version = \"1\", registry = \"demo\" }\n";
    let index = format!("[registries.demo]\nindex = \"sparse+https://{host}/\"\n");
    let toolchain = std::env::var("IT_TOOLCHAIN").unwrap_or_else(|_| env!("CARGO").replace("/bin/cargo", ""));
    let script = format!("CARGO_HOME=$PWD/home PATH={toolchain}/bin:$PATH cargo fetch");
    let run = Run::new().allow("crates.test").file("Cargo.toml", manifest).file(".cargo/config.toml", &index);
    run.file("src/lib.rs", "").script(&script)
}

fn openssl_strict() {
    need("openssl", "openssl");
    let script = "set -e
        openssl s_client -connect strict.allowed.test:443 -servername strict.allowed.test -showcerts </dev/null 2>/dev/null |
            sed -n '/BEGIN/,/END/p' > chain.pem
        openssl verify -x509_strict -CAfile \"$SSL_CERT_FILE\" -untrusted chain.pem \\
            -verify_hostname strict.allowed.test chain.pem";
    Run::new().allow("strict.allowed.test").script(script).run().expect_code(0).expect_stdout("chain.pem: OK");
}
