//! A credential goes to what it is bound to, in place of whatever the client sent, and nowhere else.

use crate::cases;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::internet::recorder::Recorder;
use crate::sandbox::{Run, need};
use crate::table::{all_are, program, rows};

cases![
    each_host_gets_its_own_secret,
    a_clients_own_header_never_survives,
    a_binding_is_for_one_path,
    a_binding_is_for_one_port,
    a_binding_is_for_https,
    ambiguous_paths_are_refused_where_a_binding_looks,
    unambiguous_paths_pass_where_none_looks,
    redirects_are_followed_by_the_client_alone,
];

/// BL-038: two bindings, two hosts, one header.
fn each_host_gets_its_own_secret() {
    let code = r#"
told = []
for name in ["one", "two"]:
    host = f"{name}.bound.allowed.test"
    for alpn in ["http/1.1", "h2"]:
        sock = tls(connect(host), host, alpn)
        lines = [("authorization", "Bearer mine"), ("x-two", "mine"), ("authorization", "{ONE}{TWO}")]
        if alpn == "h2":
            got = h2(sock, [h2_get(host, "/echo", *lines)])[0]
        else:
            got = ask(sock, "GET /echo HTTP/1.1", f"Host: {host}", *[f"{n}: {v}" for n, v in lines])[0]
        told += [[f"{name} {alpn}", got]]
tell(told)
"#;
    let run = Run::new().allow("one.bound.allowed.test").allow("two.bound.allowed.test");
    let run = run.secret_env("ONE", "canary-bound-one").secret_env("TWO", "canary-bound-two");
    let run = run.bind("one.bound.allowed.test Authorization: Bearer {ONE}");
    let run =
        run.bind("two.bound.allowed.test Authorization: token {TWO} end").bind("two.bound.allowed.test X-Two: {TWO}");
    all_are(&program(run, code).0, |_| 200.into());
    for request in internet().web.requests("one.bound.allowed.test") {
        assert_eq!(request.header("authorization"), ["Bearer canary-bound-one"]);
        assert_eq!((request.header("x-two"), request.count("canary-bound-two")), (vec!["mine"], 0));
    }
    for request in internet().web.requests("two.bound.allowed.test") {
        assert_eq!(request.header("authorization"), ["token canary-bound-two end"]);
        assert_eq!((request.header("x-two"), request.count("canary-bound-one")), (vec!["canary-bound-two"], 0));
    }
    assert_eq!(internet().web.requests_with("canary-bound-").len(), 4);
}

/// BL-079, BL-128, BL-169: in every spelling, repeated, named in `Connection`, in a trailer.
fn a_clients_own_header_never_survives() {
    let code = r#"
host = "own.allowed.test"
cases = [["x-api-key: mine"], ["X-API-KEY: mine", "x-Api-Key: mine"], ["X_Api_Key: mine"], ["x_api-key: mine", "x-api_key: mine"],
    ["Connection: close, x-api-key", "x-api-key: mine"], ["Connection: x-api-key, host, content-length, x-other", "X-Other: mine"],
    ["Connection: X_Api_Key", "X_Api_Key: mine"], ["Proxy-Connection: x-api-key", "x-api-key:mine"], ["x-api-key:"],
    ["Proxy-Authorization: Basic mine", "TE: gzip", "Keep-Alive: mine"], ["Connection: upgrade, x-api-key", "Upgrade: foo"]]
told = []
for index, lines in enumerate(cases):
    sock = tls(connect(host), host)
    told += [[str(lines), ask(sock, f"GET /echo?case={index} HTTP/1.1", f"Host: {host}", *lines)[0]]]
fields = [("x-api-key", "mine"), ("x_api_key", "mine"), ("x-api-key", "mine again")]
told += [["h2", h2(tls(connect(host), host, "h2"), [h2_get(host, "/echo?h2", *fields)])[0]]]
sock = tls(connect(host), host)
chunked = ["Transfer-Encoding: chunked", "Trailer: X-Api-Key", "", "2", "ok", "0", "X-Api-Key: mine", "x_api_key: mine", "X-Fine: yes"]
told += [["trailer", ask(sock, "POST /echo?trailer HTTP/1.1", f"Host: {host}", *chunked)]]
tell([[case, got[0] if isinstance(got, list) else got] for case, got in told] + [["body", told[-1][1][2]]])
"#;
    let run = Run::new().allow("own.allowed.test").secret_env("KEY", "canary-of-own");
    let (told, _) = program(run.bind("own.allowed.test X-Api-Key: {KEY}"), code);
    let told = rows(&told);
    let (body, statuses) = told.split_last().unwrap();
    assert!(statuses.iter().all(|(_, status)| *status == 200), "{statuses:#?}");
    let seen = internet().web.requests("own.allowed.test");
    assert_eq!(seen.len(), statuses.len());
    for request in &seen {
        assert_eq!(request.header("x-api-key"), ["canary-of-own"], "{request:?}");
        assert_eq!((request.count("mine"), request.count("canary-of-own")), (0, 1), "{request:?}");
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(!names.iter().any(|name| name.contains("api_key") || name.starts_with("proxy-")), "{request:?}");
    }
    let trailers = body.1.as_str().unwrap();
    assert!(trailers.contains("x-fine") && !trailers.contains("mine"), "{trailers}");
}

/// BL-052: a path prefix is plain, as its source words it; what does not begin with it gets nothing.
fn a_binding_is_for_one_path() {
    let code = r#"
host = "path.allowed.test"
paths = ["/repos/acme/app", "/repos/acme/app/x?y=/z", "/repos/acme/app-secrets/x", "/repos/acme/%61pp/x", "/repos/acme/ap",
    "/repos/acme/App", "/repos//acme/app", "//repos/acme/app", "/x/repos/acme/app", "/x?/repos/acme/app", "/"]
told = []
for alpn in ["http/1.1", "h2"]:
    for path in paths:
        sock = tls(connect(host), host, alpn)
        got = h2(sock, [h2_get(host, path)])[0] if alpn == "h2" else ask(sock, f"GET {path} HTTP/1.1", f"Host: {host}")[0]
        told += [[path, got]]
tell(told)
"#;
    let run = Run::new().allow("path.allowed.test").secret_env("KEY", "canary-of-path");
    all_are(&program(run.bind("path.allowed.test/repos/acme/app X-Api-Key: {KEY}"), code).0, |_| 200.into());
    let seen = internet().web.requests("path.allowed.test");
    assert_eq!(seen.len(), 22);
    for request in &seen {
        let path = request.target.split('?').next().unwrap();
        let covered = path.starts_with("/repos/acme/app") || path.starts_with("/repos/acme/%61pp");
        assert_eq!(request.count("canary-of-path"), usize::from(covered), "{request:?}");
    }
    assert_eq!(internet().web.requests_with("canary-of-path").len(), 8);
}

fn a_binding_is_for_one_port() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
    let script = vec![Step::ReadHead, Step::Send(answer), Step::Close];
    let bound = RawTls::start("11.22.44.162:443", script.clone());
    let other = RawTls::start("11.22.44.162:8443", script);
    internet().dns.set("port.allowed.test", &["11.22.44.162"]);
    let code = r#"
host = "port.allowed.test"
told = []
for port in [443, 8443, 8444]:
    for way in ["connect", "transparent"]:
        sock = connect(host, port) if way == "connect" else socket.create_connection((host, port))
        asked = host if port == 443 else f"{host}:{port}"
        got = sock if isinstance(sock, list) else ask(tls(sock, host), "GET / HTTP/1.1", f"Host: {asked}")
        told += [[f"{port} {way}", got[0]]]
tell(told)
"#;
    let run = Run::new().allow("port.allowed.test").allow("port.allowed.test:8443").secret_env("KEY", "canary-of-port");
    let (told, _) = program(run.bind("port.allowed.test Authorization: {KEY}"), code);
    all_are(&told, |case| if case.starts_with("8444") { 403.into() } else { 200.into() });
    let with_secret = |upstream: &RawTls| {
        let seen = upstream.seen();
        seen.iter().filter(|bytes| String::from_utf8_lossy(bytes).contains("canary-of-port")).count()
    };
    assert_eq!((bound.requests("GET"), with_secret(&bound)), (2, 2));
    assert_eq!((other.requests("GET"), with_secret(&other)), (2, 0));
}

fn a_binding_is_for_https() {
    let recorders = [80, 443].map(|port| Recorder::tcp(&format!("11.22.44.163:{port}"), b"HTTP/1.1 200 OK\r\n\r\n"));
    internet().dns.set("clear.allowed.test", &["11.22.44.163"]);
    let code = r#"
host = "clear.allowed.test"
told = [["absolute", through_proxy(f"http://{host}/", host)[:2]], ["port 443", through_proxy(f"http://{host}:443/", f"{host}:443")[:2]]]
for port in [80, 443]:
    with socket.create_connection((host, port)) as sock:
        told += [[f"transparent {port}", ask(sock, "GET / HTTP/1.1", f"Host: {host}:{port}")[:2]]]
with connect(host) as sock:
    told += [["connect", ask(sock, "GET / HTTP/1.1", f"Host: {host}:443")[:2]]]
tell(told)
"#;
    let run = Run::new().allow("clear.allowed.test").secret_env("KEY", "canary-of-clear");
    let (told, _) = program(run.bind("clear.allowed.test Authorization: {KEY}"), code);
    all_are(&told, |_| serde_json::json!([403, "https_only"]));
    recorders.iter().for_each(Recorder::assert_nothing);
}

const AMBIGUOUS: &str = r#"
host = HOST
paths = ["/v1/../v2/x", "/v1/./x", "/v2/../v1/x", "/v1/..", "/.", "/v1/%2e%2e/v2", "/v1/.%2E/v2", "/v1/%2e/x", "/v1%2fx", "/v1/%2F..",
    "/v1/..%2fv2", "/v1/%5c..%5cv2", "/v1/..\\v2", "/v1/..;/v2", "/v1;a=b/x", "/v1/%3bx", "/v1/%252e%252e/v2", "/v1/%2525", "/v1/%00",
    "/v1/x%0d%0aX-Evil:%201", "/v1/%c0%ae%c0%ae/v2", "/v1/%2", "/v1/%zz", "/v1/%u002e", "/v1/%ff",
    "/v1/%EF%BC%8E%EF%BC%8E/v2", "/v1/.%e2%80%a4/v2", "/v1/%E2%80%A5/v2", "/v1/..%EF%BC%8Fv2", "/v1/..%E2%88%95v2", "/v1/..%EF%BC%BCv2",
    "/v1/..%EF%BC%9B/v2", "/v1/%EF%BC%852e%EF%BC%852e/v2"]
told = []
for path in paths:
    sock = tls(connect(host), host)
    told += [[path, ask(sock, f"GET {path} HTTP/1.1", f"Host: {host}")[:2]]]
    told += [[path + " h2", [h2(tls(connect(host), host, "h2"), [h2_get(host, path)])[0], "h2"]]]
tell(told)
"#;

fn ambiguous_paths_are_refused_where_a_binding_looks() {
    let run = Run::new().allow("ambiguous.allowed.test").secret_env("KEY", "canary-of-ambiguous");
    let run = run.bind("ambiguous.allowed.test/v1/ X-Api-Key: {KEY}");
    let (told, _) = program(run, &AMBIGUOUS.replace("HOST", "'ambiguous.allowed.test'"));
    for (path, got) in rows(&told) {
        // What http itself refuses to read is as good an answer as any.
        let refused = got[0] == 400 || path.ends_with("h2") && got[0] == "reset";
        let named =
            ["ambiguous_path", "malformed_request", "h2"].iter().any(|code| got[1] == *code) || got[1].is_null();
        assert!(refused && named, "{path}: {got}");
    }
    assert!(internet().web.requests("ambiguous.allowed.test").is_empty());
}

/// A path that nothing looks at is the upstream's own affair, and goes on as it was sent.
fn unambiguous_paths_pass_where_none_looks() {
    let run = Run::new().allow("opaque.allowed.test").secret_env("KEY", "canary-of-opaque");
    let run = run.bind("opaque.allowed.test X-Api-Key: {KEY}");
    let (told, _) = program(run, &AMBIGUOUS.replace("HOST", "'opaque.allowed.test'"));
    let passed: Vec<String> = rows(&told).into_iter().filter(|(_, got)| got[0] == 200).map(|(path, _)| path).collect();
    for path in ["/v1/../v2/x", "/v1/%2e%2e/v2 h2", "/v1%2fx", "/v1/..;/v2 h2", "/v1/%252e%252e/v2"] {
        assert!(passed.iter().any(|passed| passed == path), "{path}: {passed:#?}");
    }
    let seen: Vec<String> =
        internet().web.requests("opaque.allowed.test").into_iter().map(|seen| seen.target).collect();
    assert_eq!(seen, passed.iter().map(|path| path.trim_end_matches(" h2").to_owned()).collect::<Vec<_>>());
}

/// BL-005: the proxy follows none; what the client asks for next is judged from the start.
fn redirects_are_followed_by_the_client_alone() {
    need("curl", "curl");
    let host = "moved.allowed.test";
    let targets =
        ["https://moved.evil.test/x", "http://moved.allowed.test/x", "https://moved.allowed.test:8443/x", "/second"];
    let curl =
        |target: &&str| format!("curl -sSL -o /dev/null -w '%{{http_code}} ' 'https://{host}/redirect?to={target}'");
    let run = Run::new().allow(host).secret_env("KEY", "canary-of-moved").bind(&format!("{host} X-Api-Key: {{KEY}}"));
    let output = run.script(&targets.iter().map(curl).collect::<Vec<_>>().join("\n")).run();
    assert_eq!(output.stdout, "403 403 403 200 ", "{output:#?}");
    let seen = internet().web.requests_with("canary-of-moved");
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|request| request.host == host), "{seen:#?}");
    assert!(internet().web.requests("moved.evil.test").is_empty());
}
