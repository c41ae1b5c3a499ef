//! ClientHellos by hand: cut anywhere, naming several hosts or none, hiding one. Whatever a hello says, what is served is
//! its one plain name, under a certificate of that name; nothing of it reaches an upstream.

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::sandbox::Run;

cases![
    a_hello_cut_anywhere_is_read,
    a_hello_of_any_size_is_read_or_refused,
    a_hello_names_one_host,
    an_encrypted_hello_is_served_as_its_outer_name,
    what_is_no_hello_ends,
    a_ticket_of_another_sandbox_is_none,
];

/// Runs a script with `inside/hello.py` on a host of its own, whose address must not be connected to.
fn shown(host: &str, address: &str, script: &str) {
    internet().dns.set(host, &[address]);
    let recorder = Recorder::tcp(&format!("{address}:443"), b"");
    let script = format!("from hello import *\nHOST = {host:?}\nVIAS = tcp, connect\n{script}");
    let output = Run::new().allow(host).file("hello.py", include_str!("inside/hello.py")).wire(&script).run();
    output.expect_code(0);
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    recorder.assert_nothing();
}

/// BL-019, BL-071: at every byte, in two segments and in two records.
fn a_hello_cut_anywhere_is_read() {
    let script = r#"
message = hello(names(HOST.encode()))
flight = records(message)
check("whole", answer_to(tcp, HOST, flight), HOST)
for at in range(1, len(flight)):
    check(f"segments cut at {at}", answer_to(VIAS[at % 2], HOST, [flight[:at], flight[at:]]), HOST)
for at in range(1, len(message)):
    check(f"records cut at {at}", answer_to(VIAS[at % 2], HOST, records(message, at)), HOST)
for via in VIAS:
    check("records of one byte", answer_to(via, HOST, records(message, *[1] * len(message))), HOST)
    check("bytes", answer_to(via, HOST, [flight[at:at + 1] for at in range(len(flight))]), HOST)
    check("records of one byte, byte by byte",
          answer_to(via, HOST, [bytes([byte]) for byte in records(message, *[1] * len(message))]), HOST)
"#;
    shown("cut.hello.test", "11.22.44.243", script);
}

/// BL-019: padded, with the name behind what is long, and over every bound.
fn a_hello_of_any_size_is_read_or_refused() {
    let script = r#"
def long(size):
    return extension(0xFDE8, bytes(size))
name = names(HOST.encode())
for via in VIAS:
    for size in 0, 1000, 12 * 1024, 16 * 1024 - 200, 16 * 1024, 17 * 1024, 40 * 1024:
        check(f"the name before {size}", answer_to(via, HOST, records(hello(name, long(size)))), HOST)
        check(f"the name behind {size}", answer_to(via, HOST, records(hello(usual=[*USUAL, long(size), name]))), HOST)
    huge = b"\1\1\0\0" + hello(name, long(60000))[4:] + bytes(70000)
    check("more than 64 KB", answer_to(via, HOST, records(huge)), lambda got: got == "closed" or got.startswith("alert"))
    check("many ciphers", answer_to(via, HOST, records(hello(name, suites=SUITES + b"\x13\x37" * 9000))), HOST)
"#;
    shown("size.hello.test", "11.22.44.244", script);
}

/// BL-070, BL-100: two names, the extension twice, other kinds of names, none at all; on a connection that CONNECT has named
/// and on one that was caught on its way to an address.
fn a_hello_names_one_host() {
    let script = r#"
ADDRESS, OTHER = "11.22.44.245", "evil.test"
refused = lambda got: got == "closed" or got.startswith("alert")
name = HOST.encode()
for via in VIAS:
    own = HOST if via is connect else ADDRESS
    def table(what, message, wanted):
        check(f"{what} by {via.__name__}", answer_to(via, HOST, records(message)), wanted)
    attempt("one", lambda: table("one name", hello(names(name)), HOST))
    attempt("none", lambda: table("no name", hello(), own))
    attempt("two", lambda: table("two names", hello(names(name, b"evil.test")), refused))
    attempt("other first", lambda: table("another one first", hello(names(b"evil.test", name)), refused))
    attempt("same twice", lambda: table("the same twice", hello(names(name, name)), refused))
    attempt("extension twice", lambda: table("the extension twice", hello(names(name), names(b"evil.test")), refused))
    attempt("no entry", lambda: table("an empty list", hello(extension(0, b"\0\0")), refused))
    attempt("empty", lambda: table("an empty name", hello(names(b"")), refused))
    attempt("empty extension", lambda: table("an empty extension", hello(extension(0, b"")), refused))
    attempt("other kind", lambda: table("a name of another kind", hello(names((1, b"evil.test"))), lambda got: got == own or refused(got)))
    attempt("other kind too", lambda: table("another kind beside it", hello(names((7, b"evil.test"), name)), lambda got: got == HOST or refused(got)))
    for odd in name + b"\0", name + b"\0.evil.test", b"evil.test\0." + name, b"." + name, name + b"..", b"*." + name, name + b":443", name + b"/", \
            b"[::1]", b"\xff" + name, b" " + name, name + b"\r\n", b"x" * 300, b"a" * 64 + b".test":
        attempt(f"{odd[:40]}", lambda: table(f"the name {odd[:40]}", hello(names(odd)), refused))
    for same in name.upper(), name.title():
        attempt(f"{same}", lambda: table(f"the name {same}", hello(names(same)), HOST))
    short = bytearray(hello(names(name)))
    at = short.index(name)
    for place, what in (at - 1, "the name"), (at - 4, "the list"), (at - 6, "the extension"):
        for change in -1, 1:
            wrong = bytearray(short)
            wrong[place] += change
            attempt(what, lambda: table(f"the length of {what} off by {change}", bytes(wrong),
                # The byte left over reads as a name of a kind that nobody knows.
                lambda got: refused(got) or change < 0 and what == "the name" and got == HOST[:-1]))
    attempt("behind", lambda: table("bytes behind the extensions", hello(names(name), behind=b"evil.test"), refused))
# The name of the handshake against the one of CONNECT: the certificate is the handshake's, and the request is misdirected.
check("another name", answer_to(connect, HOST, records(hello(names(b"other.hello.test")))), "other.hello.test")
"#;
    shown("names.hello.test", "11.22.44.245", script);
}

/// BL-044: with the keys that our DNS never hands out, or with GREASE (RFC 8701) where a key would be.
fn an_encrypted_hello_is_served_as_its_outer_name() {
    let script = r#"
name = names(HOST.encode())
def outer(config, key, payload):
    return extension(0xFE0D, b"\0" + b"\0\1\0\1" + bytes([config]) + struct.pack("!H", len(key)) + key + struct.pack("!H", len(payload)) + payload)
inner = hello(names(b"evil.test"))
GREASE = [extension(0x0A0A, b""), extension(0xFAFA, b"\0")]
for via in VIAS:
    for what, message in {
        "an encrypted hello": hello(name, outer(7, os.urandom(32), os.urandom(208))), "with a readable one in it": hello(name, outer(7, os.urandom(32), inner)),
        "an inner mark": hello(name, extension(0xFE0D, b"\1")), "an empty one": hello(name, extension(0xFE0D, b"")),
        "garbage": hello(name, extension(0xFE0D, os.urandom(60))), "twice another draft": hello(name, extension(0xFE0A, inner), extension(0xFE09, inner)),
        "GREASE": hello(GREASE[0], name, GREASE[1], suites=b"\x2a\x2a" + SUITES + b"\xca\xca",
            usual=[extension(10, b"\0\6\x3a\x3a\0\x1d\0\x17"), *USUAL[1:]]),
        "GREASE of ECH": hello(GREASE[0], name, outer(255, os.urandom(32), os.urandom(144))),
    }.items():
        wanted = HOST, "alert 50" if what in ("an empty one", "garbage") else HOST
        attempt(what, lambda: check(f"{what} by {via.__name__}", answer_to(via, HOST, records(message)), lambda got: got in wanted))
    check("the outer name hidden, too", answer_to(via, HOST, records(hello(outer(7, os.urandom(32), inner)))),
          HOST if via is connect else "11.22.44.246")
"#;
    shown("outer.hello.test", "11.22.44.246", script);
}

/// BL-019: never a stream that nobody looks into, be it SSL 2, another record, or a hello that stops.
fn what_is_no_hello_ends() {
    let script = r#"
import time
name = names(HOST.encode())
message = hello(name)
ssl2 = struct.pack("!BHHHH", 1, 0x0301, 6, 0, 16) + b"\1\0\x80\0\0\x2f" + os.urandom(16)
FLIGHTS = {
    "SSL 2": struct.pack("!H", 0x8000 | len(ssl2)) + ssl2, "SSL 2, long head": struct.pack("!HB", len(ssl2), 0) + ssl2,
    "an alert": records(b"\2\x28", kind=21), "data": records(b"GET / HTTP/1.1\r\n\r\n", kind=23), "a change of cipher": records(b"\1", kind=20),
    "a heartbeat": records(b"\1\0\x10" + bytes(16), kind=24), "an unknown record": records(message, kind=99), "a ServerHello": records(b"\2" + message[1:]),
    "a Finished": records(b"\x14\0\0\x0c" + bytes(12)), "two hellos": records(message[:-1] + b"\xff" + message), "an empty record": records(b""),
    "empty records": records(b"") * 100, "a record too long": b"\x16\3\1\xff\xff" + bytes(70000), "no version of TLS": records(message, version=0x0909),
    "no common cipher": records(hello(name, suites=b"\0\1")), "no cipher": records(hello(name, suites=b"")), "no compression": records(hello(name, compression=b"")),
    "SSL 3": records(hello(name, version=0x0300), version=0x0300), "a session id too long": records(hello(name, session=bytes(40))),
}
for via in VIAS:
    for what, flight in FLIGHTS.items():
        def ends():
            with via(HOST) as stream:
                try:
                    stream.sendall(flight)
                    stream.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                got = read_to_end(stream)
                check(f"{what} by {via.__name__}", got, lambda got: got == b"" or got[0] == 21)
        attempt(what, ends)
def stalls():
    # After ten seconds without the rest; the others are served meanwhile.
    half = [via(HOST) for via in VIAS]
    [stream.sendall(records(message)[:60]) for stream in half]
    check("meanwhile", answer_to(tcp, HOST, records(message)), HOST)
    began = time.monotonic()
    check("the end of those that stall", [read_to_end(stream) for stream in half], lambda ends: all(end == b"" or end[0] == 21 for end in ends))
    check("in time", time.monotonic() - began, lambda seconds: seconds < 18)
attempt("stalls", stalls)
"#;
    shown("none.hello.test", "11.22.44.247", script);
}

/// BL-041: one sandbox's tickets say nothing to another's proxy, nor those of an earlier run of the same one.
fn a_ticket_of_another_sandbox_is_none() {
    let host = "ticket.allowed.test";
    let get = |more: &str| {
        format!(
            "printf 'GET /ticket HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' |
            timeout 20 openssl s_client -connect {host}:443 -servername {host} -ign_eof {more} 2>&1"
        )
    };
    let script = format!("{}; {} | sed 's/^/AGAIN /'; cat ticket", get("-sess_out ticket"), get("-sess_in ticket"));
    let first = Run::new().allow(host).script(&script).run();
    assert!(first.stdout.contains("New, TLSv1.3"), "{first:#?}");
    assert!(first.stdout.contains("AGAIN Reused, TLSv1.3"), "{first:#?}");
    let at = first.stdout.find("-----BEGIN SSL SESSION").unwrap_or_else(|| panic!("{first:#?}"));
    let second = Run::new().allow(host).file("ticket", &first.stdout[at..]).script(&get("-sess_in ticket")).run();
    assert!(second.stdout.contains("New, TLSv1.3") && !second.stdout.contains("Reused"), "{second:#?}");
    assert_eq!(internet().web.requests(host).len(), 3);
}
