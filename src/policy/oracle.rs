//! A naive second opinion on random policies and random questions. It knows only texts in canonical spelling, lists and
//! `==`; what it says, the compiled policy must say too.

use std::net::IpAddr;

use crate::types::{Authority, Destination, RequestFacts, Scheme};

use super::compile::{NamedText, load};
use super::options::PolicyOptions;

const HOSTS: [&str; 5] = ["a.test", "b.test", "x.a.test", "localhost", "1.1.1.1"];
const SPELLINGS: [[&str; 2]; 5] = [
    ["a.test", "A.TEST."],
    ["b.test", "B.test"],
    ["x.a.test", "X.A.test."],
    ["localhost", "LocalHost."],
    ["1.1.1.1", "0x01010101"],
];
const PORTS: [u16; 3] = [443, 80, 8443];
const ADDRESSES: [&str; 4] = ["1.1.1.1", "9.9.9.9", "9.9.8.1", "2606:4700::1"];
const CIDRS: [(&str, &str); 3] = [("9.9.9.0/24", "9.9.9."), ("1.1.1.1", "1.1.1.1"), ("2606:4700::/32", "2606:4700:")];
const PREFIXES: [&str; 3] = ["/v1/", "/v2/", "/other"];
const PATHS: [&str; 6] = ["/", "/v1/a", "/v2", "/v2/../v1/", "/other-one", "/v1"];

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn some<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        of.iter().copied().filter(|_| self.below(2) == 0).collect()
    }
}

/// A policy as plain lists.
struct Plain {
    all: bool,
    hosts: Vec<(usize, u16)>,
    egress_all: bool,
    cidrs: Vec<(&'static str, &'static str)>,
    bindings: Vec<(usize, u16, &'static str)>,
}

struct Question {
    host: usize,
    port: u16,
    scheme: Scheme,
    dialled: Option<&'static str>,
    path: &'static str,
}

/// The code of the denial, or what permits with the prefixes of the bindings.
fn oracle(plain: &Plain, q: &Question) -> Result<(&'static str, Vec<&'static str>), &'static str> {
    let address = q.dialled.or((q.host == 4).then_some(HOSTS[4]));
    let by_address = address.is_some_and(|a| plain.egress_all || plain.cidrs.iter().any(|c| a.starts_with(c.1)));
    let listed = |port| plain.hosts.contains(&(q.host, port));
    let mine = plain.bindings.iter().filter(|b| (b.0, b.1, q.scheme) == (q.host, q.port, Scheme::Https));
    let plain_http = q.scheme == Scheme::Http && q.port == 80 && PORTS.iter().any(|p| listed(*p));
    let by = match q.scheme {
        _ if HOSTS[q.host] == "localhost" => return Err("local_name"),
        Scheme::Http | Scheme::Tcp if plain.all || by_address || listed(q.port) || plain_http => {
            return Err("https_only");
        }
        _ if plain.all => "all",
        Scheme::Https if listed(q.port) => "host",
        Scheme::Https if by_address => "egress",
        Scheme::Https | Scheme::Http | Scheme::Tcp => return Err("host_not_listed"),
    };
    if q.path.contains("..") && mine.clone().next().is_some() {
        return Err("ambiguous_path");
    }
    Ok((by, mine.map(|b| b.2).filter(|prefix| q.path.starts_with(prefix)).collect()))
}

fn random_plain(r: &mut Random) -> Plain {
    let entries: Vec<(usize, u16)> = [0, 1, 2, 4].iter().flat_map(|h| PORTS.map(|p| (*h, p))).collect();
    let mut bindings: Vec<(usize, u16, &str)> = Vec::new();
    for _ in 0..r.below(4) {
        let binding = ([0, 1, 2, 4][r.below(4)], PORTS[r.below(3)], PREFIXES[r.below(3)]);
        if !bindings.contains(&binding) {
            bindings.push(binding);
        }
    }
    let all = r.below(4) == 0;
    let hosts = if all || r.below(4) == 0 { Vec::new() } else { r.some(&entries) };
    let egress_all = r.below(4) == 0;
    let cidrs = if egress_all { Vec::new() } else { r.some(&CIDRS) };
    Plain { all, hosts, egress_all, cidrs, bindings }
}

/// The same as a policy file, in random spellings.
fn document(plain: &Plain, r: &mut Random) -> String {
    let mut spell = |(host, port): (usize, u16)| format!("\"{}:{port}\"", SPELLINGS[host][r.below(2)]);
    let hosts: Vec<_> = plain.hosts.iter().map(|entry| spell(*entry)).collect();
    let cidrs: Vec<_> = plain.cidrs.iter().map(|cidr| format!("\"{}\"", cidr.0)).collect();
    let mut text = match (plain.all, hosts.is_empty()) {
        (true, _) => "[network]\nmode = \"all\"\n".to_owned(),
        (false, true) => String::new(),
        (false, false) => format!("[network]\nmode = \"allow\"\nhosts = [{}]\n", hosts.join(", ")),
    };
    match (plain.egress_all, cidrs.is_empty()) {
        (true, _) => text.push_str("[egress]\nmode = \"allow_all\"\n"),
        (false, true) => {}
        (false, false) => {
            text.push_str(&format!("[egress]\nmode = \"custom\"\nallow_cidrs = [{}]\n", cidrs.join(", ")))
        }
    }
    for (host, port, prefix) in &plain.bindings {
        let host = spell((*host, *port));
        text.push_str(&format!(
            "[[header_bindings]]\nhost = {host}\nheader = \"X\"\nsecret_name = \"K\"\npath_prefix = \"{prefix}\"\n"
        ));
    }
    text + "[secrets.K]\nenv = \"K\"\n"
}

#[test]
fn random_policies_decide_as_the_oracle_does() {
    let mut r = Random(0x5eed_0f5a_17b0_c0de);
    let (mut permitted, mut denied) = (0, 0);
    for _ in 0..400 {
        let plain = random_plain(&mut r);
        let text = document(&plain, &mut r);
        let file = NamedText { name: "random.toml".to_owned(), text: text.clone() };
        let policy = load(&[file], &PolicyOptions::default()).unwrap_or_else(|e| panic!("{text}\n{e}")).policy;
        for _ in 0..100 {
            let q = Question {
                host: r.below(5),
                port: PORTS[r.below(3)],
                scheme: [Scheme::Https, Scheme::Http, Scheme::Tcp][r.below(3)],
                dialled: [None, Some(ADDRESSES[r.below(4)])][r.below(2)],
                path: PATHS[r.below(6)],
            };
            let spelling = SPELLINGS[q.host][r.below(2)];
            let destination = Destination {
                authority: Authority::parse(&format!("{spelling}:{}", q.port), 443).unwrap(),
                scheme: q.scheme,
                dialled: q.dialled.map(|a| a.parse::<IpAddr>().unwrap()),
            };
            let got = policy.request(&RequestFacts { destination: &destination, method: "GET", path: q.path });
            let got = got.map_err(|denial| denial.code()).map(|permit| {
                let by = match permit.grant {
                    super::Grant::NetworkAll => "all",
                    super::Grant::Host { .. } => "host",
                    super::Grant::Egress { .. } => "egress",
                };
                (by, permit.bindings.iter().map(|&i| policy.bindings()[i].path_prefix()).collect())
            });
            let want: Result<(&str, Vec<&str>), _> = oracle(&plain, &q);
            assert_eq!(got, want, "{destination:?} {} in\n{text}", q.path);
            *(if want.is_ok() { &mut permitted } else { &mut denied }) += 1;
            let reaches = policy.network().reaches(&format!("{spelling}:{}", q.port));
            assert_eq!(reaches, oracle_network(&plain, &q), "{destination:?} in\n{text}");
        }
    }
    assert!(permitted > 5_000 && denied > 5_000, "{permitted} {denied}: the questions are lopsided");
}

fn oracle_network(plain: &Plain, q: &Question) -> bool {
    HOSTS[q.host] != "localhost" && (plain.all || plain.hosts.contains(&(q.host, q.port)))
}
