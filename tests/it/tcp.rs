//! Connections that are passed on unread: tcp rules, and a network that permits everything.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::rig;
use crate::rules::with_rules;
use crate::sandbox::{Output, Run};
use crate::table::{all_are, program};

cases![
    a_real_database_is_reached_by_its_rule,
    bytes_arrive_as_they_were_sent,
    a_server_that_speaks_first_is_heard,
    other_ports_and_blocked_addresses_are_refused,
    where_something_looks_inside_nothing_passes_unread,
    all_passes_unread_what_nothing_is_for,
    under_all_a_binding_and_a_deny_rule_still_hold,
    http_in_disguise_passes_no_deny_rule,
    a_name_inside_does_not_lend_its_permission_to_an_address,
    half_of_a_relayed_connection_may_end,
    tls_of_listed_hosts_passes_through,
];

/// Ends with the case.
struct Postgres(Child);

impl Drop for Postgres {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Where the distribution keeps the server's programs.
fn postgres_program(name: &str) -> PathBuf {
    let mut versions: Vec<PathBuf> =
        fs::read_dir("/usr/lib/postgresql").unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    versions.pop().unwrap().join("bin").join(name)
}

/// The server refuses to run as root.
fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new(program);
    if nix::unistd::Uid::effective().is_root() {
        command.uid(65_534).gid(65_534);
    }
    command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/bin:/bin");
    // It wants a name for whoever runs it.
    let users = rig::base().join("users");
    let uid = nix::unistd::Uid::effective();
    fs::write(&users, format!("canary:x:{uid}:{uid}::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")).unwrap();
    command
        .env("LD_PRELOAD", "libnss_wrapper.so")
        .env("NSS_WRAPPER_PASSWD", &users)
        .env("NSS_WRAPPER_GROUP", "/etc/group");
    command
}

/// A database that trusts everybody, on port 5432 of an address; it listens when this returns.
fn postgres(run: &Run, address: &'static str) -> Postgres {
    let data = run.outside().join("postgres");
    fs::create_dir(&data).unwrap();
    if nix::unistd::Uid::effective().is_root() {
        std::os::unix::fs::chown(&data, Some(65_534), Some(65_534)).unwrap();
    }
    let initdb = as_nobody(&postgres_program("initdb"))
        .args(["--no-sync", "--auth=trust", "--username=canary", "--encoding=UTF8", "--pgdata"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(initdb.status.success(), "{initdb:?}");
    fs::write(data.join("pg_hba.conf"), "host all all all trust\n").unwrap();
    let started = rig::in_internet(move || {
        let settings =
            ["fsync=off".to_owned(), format!("listen_addresses={address}"), "unix_socket_directories=".into()];
        let mut command = as_nobody(&postgres_program("postgres"));
        command.arg("-D").arg(&data).args(settings.iter().flat_map(|setting| ["-c", setting]));
        let server = Postgres(command.stderr(std::process::Stdio::null()).spawn().unwrap());
        while TcpStream::connect((address, 5432)).is_err() {
            std::thread::yield_now();
        }
        server
    });
    started.join().unwrap()
}

fn tcp_rule(host: &str, port: u16) -> String {
    format!("[[network.rules]]\nhost = \"{host}\"\naction = \"allow\"\nscheme = \"tcp\"\nports = [{port}]\n")
}

/// The rows about a host.
fn rows_about<'a>(output: &'a Output, host: &str) -> Vec<&'a Value> {
    output.audit.iter().filter(|row| row["authority"].as_str().is_some_and(|a| a.starts_with(host))).collect()
}

/// psql, unmodified: a table is made, filled with a megabyte and read back.
fn a_real_database_is_reached_by_its_rule() {
    internet().dns.set("db.tcp.test", &["11.22.44.90"]);
    let run = with_rules(&tcp_rule("db.tcp.test", 5432));
    let _server = postgres(&run, "11.22.44.90");
    let script = "exec 2>&1
        psql -qtA -h db.tcp.test -U canary postgres -c \"create table t as select repeat('x', 1000000) as c\" \
            -c 'select length(c), c from t' | cut -c1-12
        psql -h db.tcp.test -p 5433 -U canary postgres -c 'select 1'; true";
    let output = run.script(script).run();
    output.expect_code(0).expect_stdout("1000000|xxxx");
    let rows = rows_about(&output, "db.tcp.test:5432");
    assert_eq!(rows.len(), 1, "{:#?}", output.audit);
    let row = rows[0];
    assert_eq!((&row["scheme"], &row["verdict"]), (&json!("tcp"), &json!("permit")), "{row}");
    assert_eq!(row["upstream"], "11.22.44.90:5432", "{row}");
    assert!(row["rule"].as_str().unwrap().ends_with("policy.toml:1:1"), "{row}");
    assert!(row["bytes_down"].as_u64().unwrap() > 1_000_000 && row["bytes_up"].as_u64().unwrap() > 50, "{row}");
    let denied = rows_about(&output, "db.tcp.test:5433");
    assert!(!denied.is_empty() && denied.iter().all(|row| row["code"] == "host_not_listed"), "{denied:#?}");
}

/// TLS, HTTP, and what is neither, by every way in; nothing is added, taken away or looked at.
fn bytes_arrive_as_they_were_sent() {
    internet().dns.set("raw.tcp.test", &["11.22.44.91"]);
    let recorder = Recorder::tcp("11.22.44.91:7000", b"\x00pong");
    let code = r#"
import socket
SENT = [b"\x16\x03\x01\x00\x05hello", b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", b"\x00\xff\r\n\r\n", b"SSH-2.0-x\r\n"]
def socks(host, port):
    sock = proxy()
    sock.sendall(b"\x05\x01\x00")
    assert sock.recv(2) == b"\x05\x00"
    name = host.encode()
    sock.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2, "big"))
    reply = sock.recv(10)
    assert reply == b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", reply
    return sock
told = []
for way in (lambda h, p: socket.create_connection((h, p)), connect, socks):
    for sent in SENT:
        with way("raw.tcp.test", 7000) as sock:
            sock.sendall(sent)
            told += [["pong", sock.recv(16).hex()]]
tell(told)
"#;
    let (told, output) = program(with_rules(&tcp_rule("raw.tcp.test", 7000)), code);
    all_are(&told, |_| json!("00706f6e67"));
    let sent: [&[u8]; 4] = [
        b"\x16\x03\x01\x00\x05hello",
        b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
        b"\x00\xff\r\n\r\n",
        b"SSH-2.0-x\r\n",
    ];
    assert_eq!(recorder.seen(), sent.repeat(3));
    let rows = rows_about(&output, "raw.tcp.test");
    let captures: Vec<_> = rows.iter().map(|row| row["capture"].as_str().unwrap()).collect();
    assert_eq!(captures, ["transparent"; 4].into_iter().chain(["connect"; 4]).chain(["socks5"; 4]).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row["bytes_down"] == 5 && row["status"].is_null()), "{rows:#?}");
}

/// A banner comes although the client says nothing, be tcp all that is permitted there or one thing among others.
fn a_server_that_speaks_first_is_heard() {
    internet().dns.set("banner.tcp.test", &["11.22.44.92"]);
    internet().run(async {
        let listener = tokio::net::TcpListener::bind("11.22.44.92:25").await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                stream.write_all(b"220 banner\r\n").await.unwrap();
                let mut said = [0; 6];
                let heard = stream.read_exact(&mut said).await;
                let _ = stream
                    .write_all(if heard.is_ok() && said == *b"QUIT\r\n" { b"221 bye\r\n" } else { b"500\r\n" })
                    .await;
            }
        });
    });
    for scheme in ["tcp", "any"] {
        let rule = tcp_rule("banner.tcp.test", 25).replace("\"tcp\"", &format!("\"{scheme}\""));
        let code = r#"
told = []
for way in (lambda h, p: socket.create_connection((h, p)), connect):
    sock = way("banner.tcp.test", 25)
    banner = sock.recv(12).decode()
    sock.sendall(b"QUIT\r\n")
    told += [["banner", banner + sock.recv(9).decode()]]
tell(told)
"#;
        let (told, _) = program(with_rules(&rule), code);
        all_are(&told, |_| json!("220 banner\r\n221 bye\r\n"));
    }
}

/// Nothing goes to another port, another host, a name at a private address, or the metadata service.
fn other_ports_and_blocked_addresses_are_refused() {
    internet().dns.set("closed.tcp.test", &["11.22.44.93"]);
    internet().dns.set("inner.tcp.test", &["10.1.2.3"]);
    let recorders = ["11.22.44.93:7001", "11.22.44.93:7002"].map(|address| Recorder::tcp(address, b"no"));
    let rules =
        ["closed.tcp.test", "inner.tcp.test", "169.254.169.254", "10.1.2.3"].map(|host| tcp_rule(host, 7000)).concat();
    let code = r#"
told = []
def heard(sock):
    try:
        sock.sendall(b"\x00hello")
        return sock.recv(1).decode()
    except (ConnectionResetError, BrokenPipeError):
        return ""
for host, port in [("closed.tcp.test", 7001), ("11.22.44.93", 7002), ("inner.tcp.test", 7000), ("169.254.169.254", 7000), ("10.1.2.3", 7000), ("other.tcp.test", 7000)]:
    got = connect(host, port)
    told += [[f"{host}:{port}", got[1] if isinstance(got, list) else heard(got)]]
    told += [["captured", heard(socket.create_connection((host, port)))]]
tell(told)
"#;
    let (told, output) = program(with_rules(&rules), code);
    all_are(&told, |case| match case {
        "closed.tcp.test:7001" | "11.22.44.93:7002" | "other.tcp.test:7000" => json!("host_not_listed"),
        // Permitted by name; the address is found to be blocked when it is dialled.
        _ => json!(""),
    });
    recorders.iter().for_each(Recorder::assert_nothing);
    let codes = |host: &str| rows_about(&output, host).iter().map(|row| row["code"].clone()).collect::<Vec<_>>();
    for host in ["inner.tcp.test", "169.254.169.254", "10.1.2.3"] {
        assert_eq!(codes(host), [json!("address_blocked"), json!("address_blocked")], "{host}: {:#?}", output.audit);
    }
    output.expect_stderr("--allow-cidr 10.1.2.3");
}

/// A tcp rule beside a binding, a path rule or a deny rule for https: TLS ends here, and what is no HTTP is refused.
fn where_something_looks_inside_nothing_passes_unread() {
    internet().dns.set("looked.tcp.test", &["11.22.44.94"]);
    let recorder = Recorder::tcp("11.22.44.94:443", b"no");
    let bound = "[[header_bindings]]\nhost = \"looked.tcp.test\"\nheader = \"X\"\nsecret_name = \"K\"\n[secrets.K]\nenv = \"K\"\n";
    let deny = |rest: &str| format!("[[network.rules]]\nhost = \"looked.tcp.test\"\naction = \"deny\"\n{rest}\n");
    for beside in
        [bound.to_owned(), deny("paths = [\"/x\"]"), deny("scheme = \"https\""), deny("methods = [\"DELETE\"]")]
    {
        let code = r#"
told = []
for way in (lambda h: socket.create_connection((h, 443)), connect):
    told += [["tls", ask(tls(way("looked.tcp.test"), "looked.tcp.test"), "GET / HTTP/1.1", "Host: looked.tcp.test")[0]]]
    sock = way("looked.tcp.test")
    sock.sendall(b"\x00hello")
    told += [["raw", sock.recv(1).decode()]]
tell(told)
"#;
        let run = with_rules(&(tcp_rule("looked.tcp.test", 443) + &beside)).env("K", "canary-tcp");
        let (told, _) = program(run, code);
        all_are(&told, |case| if case == "tls" { json!(403) } else { json!("") });
    }
    recorder.assert_nothing();
}

/// Who ended the TLS: the sandbox's authority, or the upstream itself.
const ISSUERS: &str = r#"
def issuer(way, host):
    sock = tls(way(host), host)
    names = sock.getpeercert(binary_form=True)
    return "upstream" if b"Sandbox Proxy Test Root" in names else "sandbox"
WAYS = [lambda host: socket.create_connection((host, 443)), connect]
"#;

fn all_passes_unread_what_nothing_is_for() {
    let code = r#"
told = []
for way in WAYS:
    told += [["issuer", issuer(way, "blind.allowed.test")]]
    told += [["status", ask(tls(way("blind.allowed.test"), "blind.allowed.test"), "GET /echo HTTP/1.1", "Host: blind.allowed.test")[0]]]
told += [["plain", ask(socket.create_connection(("plain.unread.test", 80)), "GET / HTTP/1.1", "Host: plain.unread.test")[2]]]
tell(told)
"#;
    internet().dns.set("plain.unread.test", &["11.22.44.95"]);
    let recorder = Recorder::tcp("11.22.44.95:80", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain");
    let (told, output) = program(Run::new().arg("--network").arg("all"), &format!("{ISSUERS}{code}"));
    all_are(&told, |case| match case {
        "issuer" => json!("upstream"),
        "status" => json!(200),
        _ => json!("plain"),
    });
    assert_eq!(recorder.seen(), [b"GET / HTTP/1.1\r\nHost: plain.unread.test\r\n\r\n".to_vec()]);
    assert!(
        output.audit.iter().all(|row| row["scheme"] == "tcp" && row["rule"] == "network all"),
        "{:#?}",
        output.audit
    );
    assert_eq!(output.audit.len(), 5, "{:#?}", output.audit);
}

/// A secret goes in, and a denied name is refused, though its address is one that others live at; hosts that nothing is for
/// are not looked into because of a binding for another.
fn under_all_a_binding_and_a_deny_rule_still_hold() {
    let bound = "[network]\nmode = \"all\"\n[[header_bindings]]\nhost = \"known.allowed.test\"\nheader = \"X-Key\"\nsecret_name = \"K\"\n[secrets.K]\nenv = \"K\"\n";
    let code = r#"
told = []
for way in WAYS:
    told += [["bound", issuer(way, "known.allowed.test")], ["other", issuer(way, "blind.allowed.test")]]
    told += [["status", ask(tls(way("known.allowed.test"), "known.allowed.test"), "GET /echo HTTP/1.1", "Host: known.allowed.test", "X-Key: mine")[0]]]
tell(told)
"#;
    let run = with_rules(bound).env("K", "canary-under-all");
    let (told, _) = program(run, &format!("{ISSUERS}{code}"));
    all_are(&told, |case| match case {
        "bound" => json!("sandbox"),
        "other" => json!("upstream"),
        _ => json!(200),
    });
    let seen = internet().web.requests_with("canary-under-all");
    assert_eq!(seen.len(), 2, "{seen:#?}");
    assert!(seen.iter().all(|seen| seen.header("x-key") == ["canary-under-all"]), "{seen:#?}");

    let denied = "[network]\nmode = \"all\"\n[[network.rules]]\nhost = \"evil.unread.test\"\naction = \"deny\"\n";
    internet().dns.set("good.unread.test", &[rig::WEB]);
    internet().dns.set("evil.unread.test", &[rig::WEB]);
    let code = r#"
told = []
for way in WAYS:
    # To the address of a good name, by the name of a bad one: in the handshake, in Host, in plain.
    told += [["sni", ask(tls(way("good.unread.test"), "evil.unread.test"), "GET / HTTP/1.1", "Host: evil.unread.test")[0]]]
    told += [["host", ask(tls(way("good.unread.test"), "good.unread.test"), "GET / HTTP/1.1", "Host: evil.unread.test")[0]]]
told += [["plain", ask(socket.create_connection(("good.unread.test", 80)), "GET / HTTP/1.1", "Host: evil.unread.test")[0]]]
told += [["itself", ask(tls(socket.create_connection(("evil.unread.test", 443)), "evil.unread.test"), "GET / HTTP/1.1", "Host: evil.unread.test")[0]]]
tell(told)
"#;
    let (told, _) = program(with_rules(denied), &format!("{ISSUERS}{code}"));
    let refused = |status: &Value| [json!(403), json!(421)].contains(status);
    let rows = crate::table::rows(&told);
    assert!(rows.len() == 6 && rows.iter().all(|(_, status)| refused(status)), "{told}");
    assert!(internet().web.requests("evil.unread.test").is_empty());
}

/// Empty lines before the request, small letters, other white space: what a server may take for HTTP is judged as HTTP, be
/// everything permitted by name or by number.
fn http_in_disguise_passes_no_deny_rule() {
    internet().dns.set("disguised.unread.test", &["11.22.44.99"]);
    internet().dns.set("evil.disguised.test", &["11.22.44.99"]);
    let recorder = Recorder::tcp("11.22.44.99:80", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let deny = "[[network.rules]]\nhost = \"evil.disguised.test\"\naction = \"deny\"\n\
                [[network.rules]]\nhost = \"disguised.unread.test\"\naction = \"deny\"\nmethods = [\"DELETE\"]\n";
    for permits in ["[network]\nmode = \"all\"\n", "[egress]\nmode = \"custom\"\nallow_cidrs = [\"11.22.44.99\"]\n"] {
        let code = r#"
told = []
LINES = ["GET / HTTP/1.1", "\r\nGET / HTTP/1.1", "\r\n\r\nget / HTTP/1.1", "\n \tget / HTTP/1.1", "get\t/ HTTP/1.1", "gEt / HTTP/1.1", "x~y / HTTP/1.1", "get\x0b/ HTTP/1.1", "get\r/ HTTP/1.1", "SSH-2.0-x / HTTP/1.1"]
def refused(host, port, text):
    try:
        sock = socket.create_connection((host, port))
        sock.sendall(text.encode())
        got = sock.recv(100)
    except ConnectionResetError:
        return True
    return not got.startswith(b"HTTP/1.1 200")
for line in LINES:
    told += [[line, refused("11.22.44.99", 80, f"{line}\r\nHost: evil.disguised.test\r\n\r\n")]]
    delete = line.replace("GET", "DELETE").replace("get", "delete").replace("gEt", "dElete").replace("x~y", "DELETE")
    told += [[delete, refused("disguised.unread.test", 80, f"{delete}\r\nHost: disguised.unread.test\r\n\r\n")]]
tell(told)
"#;
        let (told, _) = program(with_rules(&format!("{permits}{deny}")), code);
        all_are(&told, |_| json!(true));
    }
    recorder.assert_nothing();
}

/// The address is one of the client's choosing, and the name in its handshake one that may be reached: the name's own address
/// is dialled, where TLS ends here; nothing of it goes to the address.
fn a_name_inside_does_not_lend_its_permission_to_an_address() {
    let recorder = Recorder::tcp("11.22.44.96:443", b"no");
    let rules =
        tcp_rule("lent.allowed.test", 8443) + "[[network.rules]]\nhost = \"lent.allowed.test\"\naction = \"allow\"\n";
    let code = r#"
told = []
sock = tls(socket.create_connection(("11.22.44.96", 443)), "lent.allowed.test")
told += [["by address", ask(sock, "GET /echo HTTP/1.1", "Host: lent.allowed.test")[0]]]
tell(told)
"#;
    let (told, _) = program(with_rules(&rules), code);
    all_are(&told, |_| json!(200));
    recorder.assert_nothing();
}

/// The client ends its direction, and what comes afterwards still arrives; and the other way round.
fn half_of_a_relayed_connection_may_end() {
    internet().dns.set("half.tcp.test", &["11.22.44.97"]);
    internet().run(async {
        let listener = tokio::net::TcpListener::bind("11.22.44.97:7000").await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                let _ = stream.write_all(&all).await;
            }
        });
    });
    let code = r#"
sent = bytes(range(256)) * 40000
sock = socket.create_connection(("half.tcp.test", 7000))
sock.sendall(sent)
sock.shutdown(socket.SHUT_WR)
got = b""
while piece := sock.recv(1 << 20):
    got += piece
tell([["echoed", len(got) if got == sent else "other"]])
"#;
    let (told, output) = program(with_rules(&tcp_rule("half.tcp.test", 7000)), code);
    all_are(&told, |_| json!(10_240_000));
    let rows = rows_about(&output, "half.tcp.test");
    assert_eq!((&rows[0]["bytes_up"], &rows[0]["bytes_down"]), (&json!(10_240_000), &json!(10_240_000)));
}

/// The upstream's own certificate is seen, which a client verifies by itself; a name that is not the connection's ends here.
fn tls_of_listed_hosts_passes_through() {
    let recorder = Recorder::tcp("11.22.44.98:443", b"no");
    let rules = "[network]\nmode = \"allow\"\nhosts = [\"pinned.allowed.test\", \"seen.allowed.test\"]\n[tls]\npassthrough = [\"pinned.allowed.test\"]\n";
    let code = r#"
told = []
for way in WAYS:
    told += [["pinned", issuer(way, "pinned.allowed.test")], ["seen", issuer(way, "seen.allowed.test")]]
    told += [["status", ask(tls(way("pinned.allowed.test"), "pinned.allowed.test", verify=True), "GET /echo HTTP/1.1", "Host: pinned.allowed.test")[0]]]
told += [["mismatch", ask(tls(connect("seen.allowed.test"), "pinned.allowed.test"), "GET / HTTP/1.1", "Host: pinned.allowed.test")[0]]]
# To an address of its own choosing by a name that passes: it is the name's address that is dialled.
told += [["address", issuer(lambda host: socket.create_connection(("11.22.44.98", 443)), "pinned.allowed.test")]]
told += [["plain", ask(connect("pinned.allowed.test"), "GET / HTTP/1.1", "Host: pinned.allowed.test:443")[1]]]
tell(told)
"#;
    let (told, output) = program(with_rules(rules), &format!("{ISSUERS}{code}"));
    all_are(&told, |case| match case {
        "pinned" | "address" => json!("upstream"),
        "seen" => json!("sandbox"),
        "status" => json!(200),
        "mismatch" => json!(421),
        _ => json!("https_only"),
    });
    recorder.assert_nothing();
    output.expect_stderr("what is inside TLS to pinned.allowed.test is not seen");
    let rows = rows_about(&output, "pinned.allowed.test");
    let unread = rows.iter().filter(|row| row["method"].is_null() && row["scheme"] == "https").count();
    assert_eq!(unread, 5, "{rows:#?}");
}
