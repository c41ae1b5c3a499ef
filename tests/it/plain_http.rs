//! Plain http, which only a rule permits, and SOCKS5.

use serde_json::json;

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::rules::with_rules;
use crate::sandbox::Run;
use crate::table::{all_are, program, rows};

cases![
    plain_http_goes_where_a_rule_says,
    nothing_is_put_into_plain_http,
    plain_http_to_an_address_is_judged_by_its_host,
    socks_clients_reach_what_is_permitted,
    socks_refusals_are_replies,
    odd_socks_is_refused,
];

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nplain";

fn http_rule(host: &str, rest: &str) -> String {
    format!("[[network.rules]]\nhost = \"{host}\"\naction = \"allow\"\nscheme = \"http\"\n{rest}\n")
}

/// By every way in; other paths, methods, ports and https are not meant.
fn plain_http_goes_where_a_rule_says() {
    internet().dns.set("plain.http.test", &["11.22.44.100"]);
    let recorder = Recorder::tcp("11.22.44.100:80", REPLY);
    let closed = Recorder::tcp("11.22.44.100:443", REPLY);
    let rules = http_rule("plain.http.test", "methods = [\"GET\"]\npaths = [\"/v1/**\"]");
    let code = r#"
host = "plain.http.test"
told = []
told += [["captured", ask(socket.create_connection((host, 80)), "GET /v1/a HTTP/1.1", f"Host: {host}")[2]]]
told += [["connect", ask(connect(host, 80), "GET /v1/b HTTP/1.1", f"Host: {host}")[2]]]
told += [["absolute", through_proxy(f"http://{host}/v1/c", host)[2]]]
told += [["spelled", through_proxy(f"http://{host.upper()}.:80/v1/d", f"{host}:80")[2]]]
told += [["path", through_proxy(f"http://{host}/v2", host)[1]]]
told += [["method", ask(socket.create_connection((host, 80)), "PUT /v1/a HTTP/1.1", f"Host: {host}")[1]]]
told += [["dots", through_proxy(f"http://{host}/v1/../v2", host)[1]]]
told += [["port", through_proxy(f"http://{host}:443/v1/a", f"{host}:443")[1]]]
told += [["host", ask(socket.create_connection((host, 80)), "GET /v1/a HTTP/1.1", "Host: other.http.test")[1]]]
told += [["https", ask(tls(socket.create_connection((host, 443)), host), "GET /v1/a HTTP/1.1", f"Host: {host}")[1]]]
told += [["tls on 80", ask(tls(socket.create_connection((host, 80)), host), "GET /v1/a HTTP/1.1", f"Host: {host}:80")[1]]]
tell(told)
"#;
    let (told, output) = program(with_rules(&rules), code);
    all_are(&told, |case| match case {
        "captured" | "connect" | "absolute" | "spelled" => json!("plain"),
        "path" => json!("path_not_permitted"),
        "method" => json!("method_not_permitted"),
        "dots" => json!("ambiguous_path"),
        "tls on 80" => json!("scheme_not_permitted"),
        _ => json!("host_not_listed"),
    });
    let wanted = ["a", "b", "c", "d"].map(|path| format!("GET /v1/{path} HTTP/1.1\r\nhost: plain.http.test\r\n\r\n"));
    let seen: Vec<String> =
        recorder.seen().into_iter().map(|seen| String::from_utf8(seen).unwrap().to_lowercase()).collect();
    assert_eq!(seen, wanted.map(|text| text.to_lowercase()), "{output:#?}");
    closed.assert_nothing();
}

/// A binding is for https: what is not verified gets no secret, and the client's own header passes as it is.
fn nothing_is_put_into_plain_http() {
    internet().dns.set("bare.http.test", &["11.22.44.101"]);
    let recorder = Recorder::tcp("11.22.44.101:80", REPLY);
    let rules = http_rule("bare.http.test", "")
        + "[[network.rules]]\nhost = \"bare.http.test\"\naction = \"allow\"\n"
        + "[[header_bindings]]\nhost = \"bare.http.test\"\nheader = \"X-Key\"\nsecret_name = \"K\"\n"
        + "[[header_bindings]]\nhost = \"bare.http.test:80\"\nheader = \"X-Key\"\nsecret_name = \"K\"\n[secrets.K]\nenv = \"K\"\n";
    let script = "curl -sS -H 'X-Key: mine' http://bare.http.test/; curl -sS -x 127.0.0.1:3128 http://bare.http.test/; \
                  curl -sS -p -x 127.0.0.1:3128 http://bare.http.test/";
    let output = with_rules(&rules).env("K", "canary-of-plain").script(script).run();
    output.expect_code(0).expect_stdout("plainplainplain");
    let seen = recorder.seen().concat();
    let text = String::from_utf8(seen).unwrap();
    assert!(text.contains("mine") && !text.contains("canary-of-plain"), "{text}");
}

/// Where a client has resolved a name itself, only `Host` says which; each request counts for itself.
fn plain_http_to_an_address_is_judged_by_its_host() {
    internet().dns.set("named.http.test", &["11.22.44.102"]);
    let recorder = Recorder::tcp("11.22.44.102:80", REPLY);
    let other = Recorder::tcp("11.22.44.103:80", REPLY);
    let code = r#"
told = []
told += [["named", ask(socket.create_connection(("11.22.44.103", 80)), "GET / HTTP/1.1", "Host: named.http.test")[2]]]
told += [["other", ask(socket.create_connection(("11.22.44.102", 80)), "GET / HTTP/1.1", "Host: else.http.test")[1]]]
told += [["address", ask(socket.create_connection(("11.22.44.102", 80)), "GET / HTTP/1.1", "Host: 11.22.44.102")[1]]]
tell(told)
"#;
    let (told, _) = program(with_rules(&http_rule("named.http.test", "")), code);
    all_are(&told, |case| if case == "named" { json!("plain") } else { json!("host_not_listed") });
    assert_eq!(recorder.seen().len(), 1);
    other.assert_nothing();
}

/// curl by name and by address, with a secret that goes in.
fn socks_clients_reach_what_is_permitted() {
    let run = Run::new().allow("socks.allowed.test").bind("socks.allowed.test X-Key: {KEY}");
    let script = "exec 2>&1
        curl -sS --socks5-hostname 127.0.0.1:3128 https://socks.allowed.test/status/200 -o /dev/null -w 'name %{http_code}\\n'
        curl -sS --socks5 127.0.0.1:3128 https://socks.allowed.test/status/200 -o /dev/null -w 'address %{http_code}\\n'
        curl -sS --socks5-hostname '[::1]:3128' https://socks.allowed.test/status/200 -o /dev/null -w 'v6 %{http_code}\\n'
        curl -sS --socks5-hostname 127.0.0.1:3128 https://elsewhere.socks.test/; echo \"refused $?\"";
    let output = run.secret_env("KEY", "canary-socks").script(script).run();
    output.expect_code(0).expect_stdout("name 200").expect_stdout("address 200").expect_stdout("v6 200");
    // CURLE_PROXY: the reply says that the rules do not allow it.
    output.expect_stdout("refused 97").expect_stdout("(2)");
    assert_eq!(internet().web.requests_with("canary-socks").len(), 3);
    let denied: Vec<_> = output.audit.iter().filter(|row| row["verdict"] == "deny").collect();
    assert_eq!(denied.len(), 1, "{denied:#?}");
    assert_eq!((&denied[0]["capture"], &denied[0]["code"]), (&json!("socks5"), &json!("host_not_listed")));
}

const SOCKS: &str = r#"
def socks(kind, address, port, command=1):
    sock = proxy()
    sock.sendall(b"\x05\x01\x00")
    assert sock.recv(2) == b"\x05\x00"
    sock.sendall(b"\x05" + bytes([command]) + b"\x00" + bytes([kind]) + address + port.to_bytes(2, "big"))
    return sock, sock.recv(10)
def name(text):
    return bytes([len(text)]) + text.encode("latin-1")
"#;

/// RFC 1928 section 6: not allowed, unreachable, refused.
fn socks_refusals_are_replies() {
    internet().dns.set("inner.socks.test", &["10.1.2.3"]);
    internet().dns.set("nobody.socks.test", &["11.22.44.104"]);
    let tcp = |host: &str| {
        format!("[[network.rules]]\nhost = \"{host}\"\naction = \"allow\"\nscheme = \"tcp\"\nports = [7000]\n")
    };
    let rules = ["inner.socks.test", "nobody.socks.test", "gone.socks.test", "localhost.socks.test"].map(tcp).concat();
    let code = r#"
told = []
for host in ["inner.socks.test", "other.socks.test", "localhost", "127.0.0.1", "0x7f.1", "gone.socks.test", "nobody.socks.test", "a b", "a\0b"]:
    told += [[host, socks(3, name(host), 7000)[1][1]]]
told += [["v4", socks(1, bytes([127, 0, 0, 1]), 7000)[1][1]]]
told += [["v6", socks(4, bytes(15) + b"\x01", 7000)[1][1]]]
told += [["mapped", socks(4, bytes(10) + b"\xff\xff\x0a\x01\x02\x03", 7000)[1][1]]]
told += [["bind", socks(1, bytes(4), 80, 2)[1][1]], ["udp", socks(1, bytes(4), 80, 3)[1][1]]]
told += [["type", socks(2, b"", 80)[1][1]], ["port", socks(3, name("nobody.socks.test"), 0)[1][1]]]
tell(told)
"#;
    let (told, output) = program(with_rules(&rules), &format!("{SOCKS}{code}"));
    all_are(&told, |case| match case {
        "gone.socks.test" => json!(4),
        "nobody.socks.test" => json!(5),
        "bind" | "udp" => json!(7),
        "type" => json!(8),
        "a b" | "a\0b" | "port" => json!(1),
        _ => json!(2),
    });
    let denied = output.audit.iter().filter(|row| row["verdict"] == "deny" && row["capture"] == "socks5").count();
    assert_eq!(denied, rows(&told).len(), "{:#?}", output.audit);
}

/// Other versions, no method that is served, half a greeting; and a hasty client that does not wait for replies.
fn odd_socks_is_refused() {
    let code = r#"
def raw(*sent):
    sock = proxy()
    for piece in sent:
        sock.sendall(piece)
    sock.shutdown(socket.SHUT_WR)
    got = b""
    try:
        while piece := sock.recv(64):
            got += piece
    except ConnectionResetError:
        pass
    return got.hex()
told = [["password", raw(b"\x05\x01\x02")], ["none", raw(b"\x05\x00")], ["half", raw(b"\x05\x02\x00")], ["long", raw(b"\x05\x01\x00" + b"\x05\x01\x00\x03\xff" + b"a" * 300)]]
sock = proxy()
sock.sendall(b"\x05\x02\x02\x00" + b"\x05\x01\x00\x03" + name("hasty.allowed.test") + b"\x01\xbb")
got = b""
while len(got) < 12:
    got += sock.recv(12 - len(got))
assert got[:4] == b"\x05\x00\x05\x00", got
told += [["hasty", ask(tls(sock, "hasty.allowed.test"), "GET /echo HTTP/1.1", "Host: hasty.allowed.test")[0]]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("hasty.allowed.test"), &format!("{SOCKS}{code}"));
    all_are(&told, |case| match case {
        "password" | "none" => json!("05ff"),
        "half" => json!(""),
        // A name of 255 letters without a dot is none.
        "long" => json!("050005010001000000000000"),
        _ => json!(200),
    });
}
