//! What the sandbox's resolver answers, whatever nameserver is asked and however, and what it asks outside.

use serde_json::{Value, json};

use crate::cases;
use crate::internet::dns::{A, AAAA, Answer};
use crate::internet::internet;
use crate::rig;
use crate::sandbox::{Run, need};
use crate::table::{all_are, program, rows};

cases![
    every_nameserver_answers_alike,
    refused_names_get_an_address_of_their_own,
    refused_names_are_not_asked_for,
    other_types_have_no_data,
    both_families,
    many_addresses_stay_under_512_bytes,
    many_questions_on_one_connection,
    extensions_are_answered,
    what_is_no_question,
    malformed_messages_harm_nobody,
    failures_outside,
    clients_resolve,
    ten_thousand_names,
];

/// Of every nameserver that a program may have built in, over UDP and TCP, from the address that was asked.
fn every_nameserver_answers_alike() {
    let code = r#"
servers = ["11.22.33.53", "8.8.8.8", "1.1.1.1", "9.9.9.9", "10.0.0.2", "192.168.1.1", "127.0.0.1", "127.0.0.53", "169.254.169.253",
           "::1", "2a11:22:33::53", "2001:4860:4860::8888", "fd00::53"]
told = []
for server in servers:
    reply = dns_udp(question("alike.allowed.test", 1), server)
    told += [[f"{server} udp", reply and [reply["addresses"], reply["rcode"], reply["same_address"], reply["id"]]]]
    replies = dns_tcp([question("alike.allowed.test", 1)], server)
    told += [[f"{server} tcp", [[r["addresses"], r["rcode"], True, r["id"]] for r in replies][0] if replies else None]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("alike.allowed.test"), code);
    all_are(&told, |_| json!([[rig::WEB], 0, true, 0x1234]));
}

/// The names and the addresses that the sandbox was given for them.
fn refused_names_get_an_address_of_their_own() {
    let code = r#"
names = ["own1.evil.test", "own2.evil.test", "OWN1.Evil.Test", "sub.own.allowed.test", "nowhere.example", "own.allowed.test.evil.test",
         "db.private.test", "loopback.private.test", "localhost", "x.localhost", "ip6-localhost"]
tell([[name, reply["addresses"]] for name in names for reply in [dns_udp(question(name, 1)), *dns_tcp([question(name, 1)])]])
"#;
    internet().dns.set("db.private.test", &["10.1.2.5"]);
    internet().dns.set("loopback.private.test", &["127.0.0.1"]);
    let run = Run::new().allow("own.allowed.test").allow("db.private.test").allow("loopback.private.test");
    let (told, _) = program(run, code);
    let told = rows(&told);
    let address = |name: &str| {
        let found: Vec<&Value> = told.iter().filter(|(told, _)| told == name).map(|(_, got)| got).collect();
        assert!(found.iter().all(|other| *other == found[0] && other.as_array().unwrap().len() == 1), "{found:?}");
        found[0][0].as_str().unwrap().to_owned()
    };
    let mut given: Vec<String> = told.iter().map(|(name, _)| address(name)).collect();
    for (name, _) in told.iter().filter(|(name, _)| !name.ends_with("localhost") || name.starts_with("ip6")) {
        assert!(address(name).starts_with("198.18."), "{name}: {}", address(name));
    }
    assert_eq!((address("localhost").as_str(), address("x.localhost").as_str()), ("127.0.0.1", "127.0.0.1"));
    assert_eq!(address("own1.evil.test"), address("OWN1.Evil.Test"));
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 10 - 1, "{told:?}");
}

const TYPES: &str = r#"
kinds = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "NAPTR": 35,
         "SVCB": 64, "HTTPS": 65, "IXFR": 251, "AXFR": 252, "ANY": 255, "CAA": 257, "private": 65280}
told = []
for name in NAMES:
    for kind, number in kinds.items():
        query = question(name, number)
        for reply in [dns_udp(query), *dns_tcp([query])]:
            told += [[f"{name} {kind}", reply and [reply["rcode"], len(reply["addresses"]), reply["asked"] == query[12:].hex()]]]
tell(told)
"#;

fn refused_names_are_not_asked_for() {
    let code = TYPES.replace("NAMES", "['s3cret.types.evil.test', 's3cret.types.allowed.test', 'types-allowed.test']");
    let (told, _) = program(Run::new().allow("types.allowed.test"), &code);
    all_are(&told, |case| json!([0, usize::from(case.ends_with(" A")), true]));
    assert!(internet().dns.queries_containing("types").is_empty());
}

fn other_types_have_no_data() {
    let code = TYPES.replace("NAMES", "['kinds.allowed.test']");
    let (told, _) = program(Run::new().allow("kinds.allowed.test"), &code);
    all_are(&told, |case| json!([0, usize::from(case.ends_with(" A")), true]));
    let kinds = internet().dns.kinds("kinds.allowed.test");
    assert!(kinds.iter().all(|kind| [A, AAAA].contains(kind)) && !kinds.is_empty(), "{kinds:?}");
}

fn both_families() {
    internet().dns.set("both.families.test", &["11.22.44.1", "2a11:22:44::1", "2a11:22:44::2"]);
    internet().dns.set("six.families.test", &["2a11:22:44::3"]);
    let code = r#"
tell([[f"{name} {kind}", sorted(dns_udp(question(name, kind))["addresses"])] for kind in [1, 28]
      for name in ["both.families.test", "six.families.test"]])
"#;
    let (told, _) = program(Run::new().allow("both.families.test").allow("six.families.test"), code);
    all_are(&told, |case| match case {
        "both.families.test 1" => json!(["11.22.44.1"]),
        "both.families.test 28" => json!(["2a11:22:44::1", "2a11:22:44::2"]),
        "six.families.test 28" => json!(["2a11:22:44::3"]),
        _ => json!([]),
    });
}

fn many_addresses_stay_under_512_bytes() {
    let long = format!("{}.{}.{}.{}.allowed.test", "a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(40));
    let v4 = (1..=20).map(|last| format!("11.22.44.{last}"));
    let addresses: Vec<String> = v4.chain((1..=20).map(|last| format!("2a11:22:44::{last}"))).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    internet().dns.set("many.allowed.test", &addresses);
    internet().dns.set(&long, &addresses);
    let code = r#"
told = []
for name in ["many.allowed.test", LONG]:
    for kind in [1, 28]:
        for query in [question(name, kind), question(name, kind, edns=True)]:
            for reply in [dns_udp(query), *dns_tcp([query])]:
                told += [[f"{name} {kind}", [reply["rcode"], reply["cut"], reply["length"] <= 512, len(reply["addresses"]) >= 4]]]
tell(told)
"#;
    let run = Run::new().allow("many.allowed.test").allow(&long);
    let (told, _) = program(run, &code.replace("LONG", &json!(long).to_string()));
    all_are(&told, |_| json!([0, false, true, true]));
}

fn many_questions_on_one_connection() {
    let code = r#"
names = ["pipe1.allowed.test", "pipe.evil.test", "pipe2.allowed.test"] * 20
replies = dns_tcp([question(name, 1, number=index) for index, name in enumerate(names)])
tell([[names[index], [reply["id"] == index, reply["addresses"][0].startswith("198.18.")]] for index, reply in enumerate(replies)])
"#;
    let (told, _) = program(Run::new().allow("pipe1.allowed.test").allow("pipe2.allowed.test"), code);
    assert_eq!(rows(&told).len(), 60);
    all_are(&told, |name| json!([true, name == "pipe.evil.test"]));
}

fn extensions_are_answered() {
    let code = r#"
told = []
for edns in [False, True]:
    query = question("eDnS.AlloWed.tesT", 1, edns=edns)
    for reply in [dns_udp(query), *dns_tcp([query])]:
        told += [[str(edns), [reply["opt"], reply["asked"] == question("eDnS.AlloWed.tesT", 1)[12:].hex(), reply["addresses"]]]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("edns.allowed.test"), code);
    all_are(&told, |edns| json!([edns == "True", true, [rig::WEB]]));
}

fn what_is_no_question() {
    let code = r#"
name = "shape.allowed.test"
two = struct.pack("!6H", 7, 0x0100, 2, 0, 0, 0) + question(name, 1)[12:] * 2
many = struct.pack("!6H", 7, 0x0100, 40, 0, 0, 0) + question("many" * 10 + ".evil.test", 1)[12:] * 40
cases = {"many": many, "chaos": question(name, 1, klass=3), "any class": question(name, 1, klass=255), "notify": question(name, 6, flags=0x2000),
         "update": question(name, 6, flags=0x2800), "two": two, "none": struct.pack("!6H", 7, 0x0100, 0, 0, 0, 0)}
told = [[case, reply["rcode"] if reply["length"] <= 512 else "long"] for case, query in cases.items() for reply in [dns_udp(query), *dns_tcp([query])]]
tell([*told, ["response", dns_udp(question(name, 1, flags=0x8100), timeout=0.3)]])
"#;
    let (told, _) = program(Run::new().allow("shape.allowed.test"), code);
    assert_eq!(rows(&told).len(), 15);
    all_are(&told, |case| match case {
        "chaos" | "any class" => json!(5),
        "notify" | "update" => json!(4),
        "two" | "none" | "many" => json!(1),
        _ => Value::Null,
    });
    assert_eq!(internet().dns.queries("shape.allowed.test"), 0);
}

/// After each of them the next question is answered, and those on other connections too.
fn malformed_messages_harm_nobody() {
    let code = r#"
import random
good = question("good.allowed.test", 1)
loop = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1"
cut = [good[:length] for length in range(0, len(good), 3)]
chance = random.Random(7)
noise = [bytes(chance.randrange(256) for _ in range(size)) for size in [1, 11, 12, 13, 40, 512, 1400] for _ in range(20)]
lies = [struct.pack("!6H", 7, 0x0100, 65535, 65535, 65535, 65535) + good[12:], good + b"\xff" * 300, loop, good[:12] + b"\x3f" + b"a" * 10]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    for bad in [*cut, *noise, *lies]:
        sock.sendto(bad, ("11.22.33.53", 53))
told = [["udp", dns_udp(good)["addresses"]]]
for bad in [*cut[:4], *noise[::20], *lies]:
    with socket.create_connection(("11.22.33.53", 53)) as sock:
        sock.sendall(struct.pack("!H", len(bad)) + bad)
half = socket.create_connection(("11.22.33.53", 53))
half.sendall(b"\0\x40half a question")
told += [["tcp", dns_tcp([good])[0]["addresses"]]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("good.allowed.test"), code);
    all_are(&told, |_| json!([rig::WEB]));
}

fn failures_outside() {
    internet().dns.answer("absent.fails.test", Answer::NoSuchName);
    internet().dns.answer("broken.fails.test", Answer::Failure);
    internet().dns.answer("silent.fails.test", Answer::Silence);
    internet().dns.set("empty.fails.test", &[]);
    let code = r#"
from concurrent.futures import ThreadPoolExecutor
names = [f"{name}.fails.test" for name in ["absent", "broken", "silent", "empty"]]
def asked(name):
    reply = dns_udp(question(name, 1))
    return [name, reply and [reply["rcode"], reply["addresses"]]]
with ThreadPoolExecutor(8) as pool:
    through = pool.map(lambda name: [name + " proxy", through_proxy(f"https://{name}/", name)[:2]], names)
    tell([*pool.map(asked, names), *through])
"#;
    let run = ["absent", "broken", "silent", "empty"]
        .iter()
        .fold(Run::new(), |run, name| run.allow(&format!("{name}.fails.test")));
    let (told, _) = program(run, code);
    all_are(&told, |name| match name {
        case if case.ends_with(" proxy") => json!([502, "upstream_unresolved"]),
        "absent.fails.test" => json!([3, []]),
        "empty.fails.test" => json!([0, []]),
        _ => json!([2, []]),
    });
}

/// The resolvers of glibc and of programs that bring their own.
fn clients_resolve() {
    need("getent", "libc-bin");
    need("node", "nodejs");
    let node = "const dns = require('dns'); new dns.Resolver().resolve4(process.argv[1], (error, found) => console.log(error || found.join()))";
    let script = format!(
        "for name in resolve.allowed.test resolve.evil.test; do
        getent ahostsv4 $name | head -1; node -e \"{node}\" $name; python3 -c 'import socket, sys
print(socket.gethostbyname_ex(sys.argv[1])[2], [found[4][0] for found in socket.getaddrinfo(sys.argv[1], 443, type=1)])' $name
        done; getent hosts localhost; getent hosts $(hostname); cat /etc/hosts"
    );
    let output = Run::new().allow("resolve.allowed.test").script(&script).run();
    output.expect_code(0);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("11.22.33.9 ") && lines[1] == "11.22.33.9", "{output:#?}");
    assert_eq!(lines[2], "['11.22.33.9'] ['11.22.33.9']");
    assert!(lines[3].starts_with("198.18.") && lines[4].starts_with("198.18."), "{output:#?}");
    assert!(!output.stdout.contains("hosts-file.test"), "the host's own hosts file is inside\n{output:#?}");
    assert_eq!(internet().dns.queries("resolve.evil.test"), 0);
}

/// More names than addresses are remembered for a while; each is answered, none is asked for outside.
fn ten_thousand_names() {
    let code = r#"
replies = []
for start in range(0, 20000, 1000):
    replies += dns_tcp([question(f"n{index}.flood.evil.test", 1) for index in range(start, start + 1000)])
last = dns_udp(question("n19999.flood.evil.test", 1))["addresses"]
tell([len(replies), all(reply["addresses"][0].startswith("198.18.") for reply in replies), last == replies[-1]["addresses"]])
"#;
    let (told, _) = program(Run::new(), code);
    assert_eq!(told, json!([20_000, true, true]));
    assert!(internet().dns.queries_containing("flood").is_empty());
}
