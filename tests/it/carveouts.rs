//! What opens a blocked address and what does not, and that the address that was checked is the one that is dialled.

use std::net::TcpListener;

use serde_json::json;

use crate::address::{ANSWERS, LITERALS, all, named, nothing_left_for};
use crate::cases;
use crate::internet::dns::Answer;
use crate::internet::internet;
use crate::internet::rawtls::{RawTls, Step};
use crate::internet::recorder::Recorder;
use crate::rig;
use crate::sandbox::Run;
use crate::table::{all_are, list, program, rows};

cases![
    one_address_opens_itself_alone,
    a_wide_entry_opens_public_addresses_only,
    allow_private_ips_never_opens_metadata,
    a_metadata_address_opens_by_its_own_entry,
    own_addresses,
    names_of_the_hosts_file,
    local_names,
    a_name_is_resolved_once,
    an_answer_that_changes_is_checked_again,
];

/// An upstream of this address that answers every request.
fn upstream(address: &str) -> RawTls {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
    RawTls::start(&format!("{address}:443"), vec![Step::ReadHead, Step::Send(answer), Step::Close])
}

fn one_address_opens_itself_alone() {
    let opened = upstream("10.1.2.9");
    internet().dns.set("db.carved.test", &["10.1.2.9"]);
    internet().dns.set("near.carved.test", &["10.1.2.8"]);
    internet().dns.set("both.carved.test", &["10.1.2.9", "10.1.2.8"]);
    let names = ["db.carved.test", "near.carved.test", "both.carved.test"];
    let run = names.iter().fold(Run::new(), |run, name| run.allow(name));
    let run = run.arg("--allow-cidr").arg("10.1.2.9/32");
    let (told, _) = program(run, &ANSWERS.replace("NAMES", &list(names)));
    all_are(&told, |case| if case.starts_with("db.") { json!([200, null]) } else { json!([403, "address_blocked"]) });
    assert_eq!(opened.requests("GET"), 2);
    nothing_left_for(["10.1.2.8"]);
}

fn a_wide_entry_opens_public_addresses_only() {
    internet().dns.set("wide.carved.test", &["10.1.2.7"]);
    internet().dns.set("zero.carved.test", &["0.0.0.0"]);
    let run = Run::new().allow("wide.carved.test").allow("zero.carved.test");
    let run = run.arg("--allow-cidr").arg("0.0.0.0/0").arg("--allow-cidr").arg("::/0");
    let code = ANSWERS.replace("NAMES", &list(["wide.carved.test", "zero.carved.test"]));
    let (told, output) = program(run, &code);
    all_are(&told, |_| json!([403, "address_blocked"]));
    output.expect_stderr("0.0.0.0/0 is wider than a blocked range");
    nothing_left_for(["10.1.2.7", "0.0.0.0"]);
}

fn allow_private_ips_never_opens_metadata() {
    let opened = upstream("10.1.2.10");
    internet().dns.set("private.carved.test", &["10.1.2.10"]);
    let metadata =
        ["169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::23", "fd20:ce::254"];
    let names = named("metadata", metadata.iter().map(|address| vec![(*address).to_owned()]));
    let code = ANSWERS.replace("NAMES", &format!("['private.carved.test', *{names}]"));
    let (told, _) = program(all().arg("--allow-private-ips"), &code);
    all_are(
        &told,
        |case| {
            if case.starts_with("private") { json!([200, null]) } else { json!([403, "address_blocked"]) }
        },
    );
    assert_eq!(opened.requests("GET"), 2);
    nothing_left_for(metadata);
}

fn a_metadata_address_opens_by_its_own_entry() {
    let opened = upstream("169.254.170.2");
    internet().dns.set("ecs.carved.test", &["169.254.170.2"]);
    for (cidr, status) in [("169.254.170.0/24", 403), ("169.254.170.2/31", 403), ("169.254.170.2", 200)] {
        let run = Run::new().allow("ecs.carved.test").arg("--allow-cidr").arg(cidr);
        let (told, _) = program(run, &ANSWERS.replace("NAMES", &list(["ecs.carved.test"])));
        assert!(rows(&told).iter().all(|(_, got)| got[0] == status), "{cidr}: {told}");
    }
    assert_eq!(opened.requests("GET"), 2);
}

/// Those of the host's interfaces, the public ones too; and loopback, where a server of the host listens (BL-010).
fn own_addresses() {
    let listeners = ["11.22.33.1:0", "127.0.0.1:0"].map(|address| TcpListener::bind(address).unwrap());
    let ports = listeners.each_ref().map(|listener| listener.local_addr().unwrap().port());
    internet().dns.set("own.answers.test", &["11.22.33.1"]);
    internet().dns.set("own6.answers.test", &["2a11:22:33::1"]);
    let hosts = list([
        format!("11.22.33.1:{}", ports[0]),
        format!("[::ffff:11.22.33.1]:{}", ports[0]),
        format!("own.answers.test:{}", ports[0]),
        format!("[2a11:22:33::1]:{}", ports[0]),
        format!("own6.answers.test:{}", ports[0]),
        format!("[64:ff9b::11.22.33.1]:{}", ports[0]),
        format!("0.0.0.0:{}", ports[1]),
        format!("[::]:{}", ports[1]),
        format!("127.0.0.1:{}", ports[1]),
    ]);
    let code = "tell([[host, through_proxy(f'https://{host}/', host)[:2]] for host in HOSTS])".replace("HOSTS", &hosts);
    for run in [all(), all().arg("--allow-cidr").arg("11.22.33.0/24")] {
        all_are(&program(run, &code).0, |_| json!([403, "address_blocked"]));
    }
    for listener in listeners {
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "somebody connected to the host itself");
    }
}

/// The host's hosts file is read before the nameservers are asked, and opens nothing (BL-065).
fn names_of_the_hosts_file() {
    let names = rig::HOSTS_FILE.iter().flat_map(|(_, name)| [(*name).to_owned(), name.to_uppercase()]);
    let (told, _) = program(all(), &ANSWERS.replace("NAMES", &list(names)));
    all_are(&told, |case| {
        if case.to_lowercase().starts_with("public.") { json!([200, null]) } else { json!([403, "address_blocked"]) }
    });
    assert!(internet().dns.queries_containing("hosts-file.test").is_empty());
    assert_eq!(internet().web.requests("public.hosts-file.test").len(), 4);
    nothing_left_for(["10.1.2.6"]);
}

/// BL-065: refused without the help of any resolver.
fn local_names() {
    let names = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "x.localhost",
        "ip6-localhost",
        "ip6-loopback",
        "localhost.localdomain",
        "localhost6.localdomain6",
        "loopback",
        "LocalHost4",
    ];
    let code = LITERALS.replace("HOSTS", &list(names));
    all_are(&program(all(), &code).0, |_| json!([403, "local_name"]));
    let others = LITERALS.replace("HOSTS", &list(["host.docker.internal", "gateway.docker.internal", "metadata"]));
    for (host, got) in rows(&program(all(), &others).0) {
        assert!(got[0] == 502 || got[0] == 403, "{host}: {got}");
    }
    for part in ["localhost", "loopback", "localdomain"] {
        assert!(internet().dns.queries_containing(part).is_empty());
    }
}

fn parsed(lists: &[&[&str]]) -> Answer {
    let parse = |addresses: &&[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
    Answer::Alternating(lists.iter().map(parse).collect())
}

/// Checked and dialled is one look-up: what a second one would say does not matter.
fn a_name_is_resolved_once() {
    let (public, private) = (upstream("11.22.44.165"), Recorder::tcp("11.22.44.166:443", b""));
    internet().dns.answer("once.rebound.test", parsed(&[&["11.22.44.165"], &["11.22.44.166"], &["10.1.2.5"]]));
    let code = r#"
host = "once.rebound.test"
tell([[host, ask(tls(connect(host), host), "GET / HTTP/1.1", f"Host: {host}")[:2]]])
"#;
    all_are(&program(Run::new().allow("once.rebound.test"), code).0, |_| json!([200, null]));
    assert_eq!(internet().dns.queries("once.rebound.test"), 2, "one for each family");
    assert_eq!(public.requests("GET"), 1);
    private.assert_nothing();
    nothing_left_for(["10.1.2.5"]);
}

/// Public the first time, private the next, and round again; what the client itself dials makes no difference.
fn an_answer_that_changes_is_checked_again() {
    let public = upstream("11.22.44.167");
    for name in ["first.rebound.test", "second.rebound.test"] {
        internet().dns.answer(name, parsed(&[&["11.22.44.167"], &["10.1.2.5"]]));
    }
    let code = r#"
told = []
host = "first.rebound.test"
for turn in range(6):
    sock = tls(socket.create_connection(("11.22.44.167", 443)), host)
    told += [[f"dialled {turn % 2}", ask(sock, "GET / HTTP/1.1", f"Host: {host}")[:2]]]
host = "second.rebound.test"
for turn in range(6):
    told += [[f"proxy {turn % 2}", through_proxy(f"https://{host}/", host)[:2]]]
tell(told)
"#;
    let (told, _) = program(Run::new().allow("first.rebound.test").allow("second.rebound.test"), code);
    all_are(&told, |case| if case.ends_with('0') { json!([200, null]) } else { json!([403, "address_blocked"]) });
    assert_eq!(public.requests("GET"), 6);
    nothing_left_for(["10.1.2.5"]);
}
