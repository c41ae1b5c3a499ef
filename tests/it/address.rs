//! Which addresses may be dialled: every blocked range in every spelling, as a literal, as an answer, as half an answer.

use std::net::IpAddr;

use serde_json::json;

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::rig;
use crate::sandbox::Run;
use crate::table::{all_are, list, program, rows};

cases![
    blocked_literals,
    blocked_literals_dialled,
    odd_spellings,
    blocked_answers,
    mixed_answers,
    public_neighbours_of_blocked_ranges,
];

/// The first and the last address of each range of DESIGN 4, and IPv4 addresses inside IPv6 ones.
const BLOCKED: &[&str] = &[
    "0.0.0.0",
    "0.1.2.3",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.0.0",
    "169.254.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.255",
    "192.0.2.0",
    "192.0.2.255",
    "192.168.0.0",
    "192.168.255.255",
    "198.18.255.1",
    "198.19.255.255",
    "198.51.100.0",
    "198.51.100.255",
    "203.0.113.0",
    "203.0.113.255",
    "224.0.0.0",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.255",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "::",
    "::1",
    "100::",
    "100::ffff:ffff:ffff:ffff",
    "2001:2::1",
    "2001:1ff:ffff::1",
    "2001:10::1",
    "2001:db8::",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff::1",
    "3fff:fff:ffff::1",
    "5f00::1",
    "5f00:ffff::1",
    "64:ff9b:1::1",
    "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
    "fc00::1",
    "fdff:ffff::1",
    "fe80::1",
    "febf:ffff::1",
    "fec0::1",
    "feff:ffff::1",
    "ff00::1",
    "ff02::1",
    "ffff:ffff::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "::ffff:10.1.2.3",
    "::ffff:127.0.0.1",
    "::ffff:0:127.0.0.1",
    "::127.0.0.2",
    "::10.1.2.3",
    "64:ff9b::10.1.2.3",
    "64:ff9b::127.0.0.1",
    "64:ff9b::169.254.170.23",
    "2002:7f00:1::",
    "2002:a01:203::1",
    "2002:a9fe:aa17::",
    "2001:0:a01:203::1",
    "2001:0:b16:2109::f5fe:fdfc",
    "2a11:22:44::5efe:10.1.2.3",
    "2a11:22:44::200:5efe:10.1.2.3",
];

/// As an authority has it.
fn literal(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// Through the explicit proxy, by absolute target and in a CONNECT tunnel.
pub const LITERALS: &str = r#"
told = []
for host in HOSTS:
    told += [[host, through_proxy(f"https://{host}/", host)[:2]]]
    sock = connect(host)
    if not isinstance(sock, list):
        sock = ask(tls(sock, None), "GET / HTTP/1.1", f"Host: {host}")
    told += [[host, sock[:2]]]
tell(told)
"#;

fn blocked_literals() {
    let (told, _) = program(all(), &LITERALS.replace("HOSTS", &list(BLOCKED.iter().map(|ip| literal(ip)))));
    all_are(&told, |_| json!([403, "address_blocked"]));
    nothing_left_for(BLOCKED.iter().copied());
}

/// With every name permitted, what is refused is refused for its address.
pub fn all() -> Run {
    Run::new().arg("--network").arg("all")
}

#[track_caller]
pub fn nothing_left_for<'a>(addresses: impl IntoIterator<Item = &'a str>) {
    for address in addresses {
        let canonical = address.parse::<IpAddr>().unwrap().to_canonical().to_string();
        assert_eq!(internet().sniffer.protocols_to(&canonical), [0u8; 0], "packets left for {address}");
    }
}

/// Without the explicit proxy; loopback is the sandbox's own, where nobody listens.
fn blocked_literals_dialled() {
    let code = r#"
told = []
for address in HOSTS:
    try:
        sock = tls(socket.create_connection((address, 443), timeout=5), None)
        host = f"[{address}]" if ":" in address else address
        told += [[address, ask(sock, "GET / HTTP/1.1", f"Host: {host}")[:2]]]
    except OSError as error:
        told += [[address, ["no connection", None]]]
tell(told)
"#;
    let (told, _) = program(all(), &code.replace("HOSTS", &list(BLOCKED)));
    let refused = rows(&told).iter().filter(|(_, got)| *got == json!([403, "address_blocked"])).count();
    assert!(refused > BLOCKED.len() / 2, "{told:#?}");
    for (address, got) in rows(&told) {
        assert!(got == json!([403, "address_blocked"]) || got[0] == "no connection", "{address}: {got}");
    }
    nothing_left_for(BLOCKED.iter().copied());
}

/// 127.0.0.1, 10.1.2.4 and 169.254.170.23 as only some parsers read them.
fn odd_spellings() {
    let spellings = [
        "2130706433",
        "0x7f000001",
        "0X7F000001",
        "017700000001",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f.1",
        "127.0.0.1.",
        "127.00.00.01",
        "0",
        "0x0",
        "0.0",
        "00000000000",
        "10.66052",
        "012.1.2.4",
        "0xa010204",
        "167838212",
        "10.1.2.4.",
        "0xA9.0xFE.0xAA.0x17",
        "0251.0376.0252.027",
        "2852039191",
        "0xa9feaa17",
        "[::FFFF:10.1.2.4]",
        "[::ffff:a01:204]",
        "[0:0:0:0:0:FFFF:0a01:0204]",
        "[::0a01:0204]",
        "[0::1]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
        "[64:FF9B::A01:204]",
        "[2002:0A01:0204::]",
    ];
    let disguised = ["１２７.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "１０．１．２．４", "𝟏𝟐𝟕.𝟎.𝟎.𝟏"];
    let malformed =
        ["127.0.0.256", "1.2.3.4.5", "0x", "127.0.0.1.nip.0x1", "[fe80::1%25lo]", "4294967296.", "10.1.2.09"];
    let code = LITERALS.replace("HOSTS", &list(spellings.iter().chain(&disguised).chain(&malformed)));
    let (told, _) = program(all(), &code);
    all_are(&told, |host| match host {
        // An empty hexadecimal number is zero to inet_aton.
        "0x" => json!([403, "address_blocked"]),
        // What is not ASCII is no request target, whatever it means.
        host if malformed.contains(&host) || disguised.contains(&host) => json!([400, "malformed_request"]),
        _ => json!([403, "address_blocked"]),
    });
    nothing_left_for(["127.0.0.1", "10.1.2.4", "169.254.170.23", "0.0.0.0"]);
}

/// Gives each list of addresses a name of its own; a Python list of the names.
pub fn named(prefix: &str, answers: impl IntoIterator<Item = Vec<String>>) -> String {
    let name = |(index, addresses): (usize, Vec<String>)| {
        let name = format!("{prefix}{index}.answers.test");
        internet().dns.set(&name, &addresses.iter().map(String::as_str).collect::<Vec<_>>());
        name
    };
    list(answers.into_iter().enumerate().map(name).collect::<Vec<_>>())
}

/// Each name, asked for through the explicit proxy and as it resolves inside.
pub const ANSWERS: &str = r#"
told = []
for host in NAMES:
    told += [[host + " proxy", through_proxy(f"https://{host}/", host)[:2]]]
    sock = tls(socket.create_connection((host, 443)), host)
    told += [[host + " dialled", ask(sock, "GET / HTTP/1.1", f"Host: {host}")[:2]]]
tell(told)
"#;

fn blocked_answers() {
    let names = named("blocked", BLOCKED.iter().map(|address| vec![(*address).to_owned()]));
    let (told, output) = program(all(), &ANSWERS.replace("NAMES", &names));
    all_are(&told, |_| json!([403, "address_blocked"]));
    nothing_left_for(BLOCKED.iter().copied());
    // The operator reads which address it was, the sandbox does not.
    output.expect_stderr("(10.255.255.255)");
    assert!(!output.stdout.contains("10.255.255.255"), "{output:#?}");
}

fn mixed_answers() {
    let recorder = Recorder::tcp("11.22.44.164:443", b"");
    let public = |blocked: &str| if blocked.contains(':') { "2a11:22:44::14" } else { "11.22.44.164" };
    let answers = BLOCKED.iter().flat_map(|blocked| {
        let (blocked, public) = ((*blocked).to_owned(), public(blocked).to_owned());
        [vec![blocked.clone(), public.clone()], vec![public, blocked.clone()], vec!["11.22.44.164".into(), blocked]]
    });
    let (told, _) = program(all(), &ANSWERS.replace("NAMES", &named("mixed", answers)));
    all_are(&told, |_| json!([403, "address_blocked"]));
    recorder.assert_nothing();
    nothing_left_for(BLOCKED.iter().copied());
}

/// What is next to a range is open: a connection is tried, and fails for want of a peer.
fn public_neighbours_of_blocked_ranges() {
    let code = r#"
tell([[host, through_proxy(f"https://{host}/", host)[:2]] for host in HOSTS])
"#;
    let (told, _) = program(all(), &code.replace("HOSTS", &list(rig::NEIGHBOURS.iter().map(|ip| literal(ip)))));
    all_are(&told, |_| json!([502, "upstream_unreachable"]));
    for address in rig::NEIGHBOURS {
        assert!(!internet().sniffer.protocols_to(address).is_empty(), "{address} was not dialled");
    }
}
