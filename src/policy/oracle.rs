//! A naive second opinion on random policies and random questions. It knows only texts in canonical spelling, lists and
//! `==`; what it says, the compiled policy must say too.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::types::{Authority, Destination, Host, RequestFacts, Scheme};

use super::Policy;
use super::compile::{NamedText, load};
use super::options::PolicyOptions;

/// 100,000 requests in all.
const POLICIES: usize = 2_000;
const REQUESTS: usize = 50;

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
const PATHS: [&str; 9] = ["/", "/v1/a", "/v2", "/v2/../v1/", "/other-one", "/v1", "/v1/a/b/", "//v1", "/v2/a/b"];
const PATTERNS: [&str; 8] =
    ["a.test", "b.test", "x.a.test", "1.1.1.1", "9.9.9.9", "*.a.test", "*.x.a.test", "*.b.test"];
const GLOBS: [&str; 9] = ["/", "/v1", "/v1/*", "/v1/**", "/**/b", "/*/a/**", "/**", "/v2/", "/other-one"];
const SCHEMES: [Scheme; 3] = [Scheme::Https, Scheme::Http, Scheme::Tcp];
const METHODS: [&str; 3] = ["GET", "POST", "get"];

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

/// A rule; a part that is not given is for everything.
struct PlainRule {
    deny: bool,
    host: &'static str,
    scheme: Option<Scheme>,
    ports: Option<Vec<u16>>,
    methods: Option<Vec<&'static str>>,
    paths: Option<Vec<&'static str>>,
}

impl PlainRule {
    fn of(&self, host: &str, port: u16, scheme: Scheme) -> bool {
        let below = self.host.strip_prefix('*').is_some_and(|end| host.ends_with(end) && !host.contains("1.1."));
        (below || self.host == host)
            && self.ports.as_ref().is_none_or(|ports| ports.contains(&port))
            && self.scheme.is_none_or(|only| only == scheme)
    }

    fn whole(&self) -> bool {
        self.methods.is_none() && self.paths.as_ref().is_none_or(|paths| paths.contains(&"/**"))
    }

    fn looks(&self) -> bool {
        self.paths.as_ref().is_some_and(|paths| !paths.contains(&"/**"))
    }

    fn takes_method(&self, method: &str) -> bool {
        let same = |mine: &&str| *mine == method || self.deny && mine.to_lowercase() == method.to_lowercase();
        self.methods.as_ref().is_none_or(|methods| methods.iter().any(same))
    }

    fn takes_path(&self, path: &str) -> bool {
        self.paths.as_ref().is_none_or(|globs| globs.iter().any(|glob| leads(&parts(glob), &parts(path))))
    }
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

fn leads(glob: &[&str], path: &[&str]) -> bool {
    match (glob.first(), path.first()) {
        (None, None) => true,
        (Some(&"**"), _) => (0..=path.len()).any(|some| leads(&glob[1..], &path[some..])),
        (Some(part), Some(segment)) if part == &"*" || part == segment => leads(&glob[1..], &path[1..]),
        (_, _) => false,
    }
}

/// A policy as plain lists.
struct Plain {
    rules: Vec<PlainRule>,
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
    method: &'static str,
    path: &'static str,
}

/// The code of the denial, or what permits with the prefixes of the bindings.
fn oracle(plain: &Plain, q: &Question) -> Result<(&'static str, Vec<&'static str>), &'static str> {
    let host = HOSTS[q.host];
    if host == "localhost" {
        return Err("local_name");
    }
    let denying = |port, scheme| {
        let asked = [Some(host), q.dialled].into_iter().flatten();
        let rules = asked.flat_map(move |host| plain.rules.iter().filter(move |rule| rule.of(host, port, scheme)));
        rules.filter(|rule| rule.deny)
    };
    if denying(q.port, q.scheme).any(PlainRule::whole) {
        return Err("rule_denied");
    }
    let allowing = |scheme| plain.rules.iter().filter(move |rule| !rule.deny && rule.of(host, q.port, scheme));
    let address = q.dialled.or((q.host == 4).then_some(HOSTS[4]));
    let by_address = address.is_some_and(|a| plain.egress_all || plain.cidrs.iter().any(|c| a.starts_with(c.1)));
    let listed = |port| plain.hosts.contains(&(q.host, port));
    let by_network = plain.all || q.scheme == Scheme::Https && listed(q.port);
    if !by_network && !by_address && allowing(q.scheme).next().is_none() {
        let plain_http = q.scheme == Scheme::Http && q.port == 80;
        if plain_http && denying(443, Scheme::Https).any(PlainRule::whole) {
            return Err("rule_denied");
        }
        let closed = |scheme| plain.rules.iter().any(|r| r.deny && r.whole() && r.of(host, q.port, scheme));
        let opens = |scheme: &Scheme| !closed(*scheme) && allowing(*scheme).next().is_some();
        let on_https = plain_http && (PORTS.iter().any(|p| listed(*p)) || oracle_opens(plain, host, Scheme::Https));
        return Err(match SCHEMES.into_iter().find(opens) {
            Some(Scheme::Https) => "https_only",
            _ if on_https || q.scheme != Scheme::Https && listed(q.port) => "https_only",
            Some(Scheme::Http | Scheme::Tcp) => "scheme_not_permitted",
            None => "host_not_listed",
        });
    }
    let allowing = || allowing(q.scheme);
    let denying = || denying(q.port, q.scheme);
    if q.scheme == Scheme::Tcp {
        let by_rule = allowing().next().is_some();
        return Ok((
            if plain.all {
                "all"
            } else if by_rule {
                "rule"
            } else {
                "egress"
            },
            Vec::new(),
        ));
    }
    let ambiguous = q.path.contains("..");
    if (ambiguous || q.path.contains("//")) && denying().chain(allowing()).any(PlainRule::looks) {
        return Err("ambiguous_path");
    }
    if denying().any(|rule| rule.takes_method(q.method) && rule.takes_path(q.path)) {
        return Err("rule_denied");
    }
    let by = match () {
        () if plain.all => "all",
        () if by_network => "host",
        () if allowing().any(|rule| rule.takes_method(q.method) && rule.takes_path(q.path)) => "rule",
        () if by_address => "egress",
        () if allowing().any(|rule| rule.takes_path(q.path)) => return Err("method_not_permitted"),
        () => return Err("path_not_permitted"),
    };
    let mine = plain.bindings.iter().filter(|b| (b.0, b.1, q.scheme) == (q.host, q.port, Scheme::Https));
    if ambiguous && mine.clone().next().is_some() {
        return Err("ambiguous_path");
    }
    Ok((by, mine.map(|b| b.2).filter(|prefix| q.path.starts_with(prefix)).collect()))
}

/// Whether an allow rule permits something by this scheme on a port that no deny rule closes. Port 7 is one that no rule names.
fn oracle_opens(plain: &Plain, host: &str, scheme: Scheme) -> bool {
    let of = |port, deny| plain.rules.iter().filter(move |rule| rule.deny == deny && rule.of(host, port, scheme));
    PORTS.iter().chain(&[7]).any(|&port| !of(port, true).any(PlainRule::whole) && of(port, false).next().is_some())
}

/// Whether a look-up of the name may be made.
fn oracle_resolves(plain: &Plain, host: usize) -> bool {
    let name = HOSTS[host];
    let closed = |port, scheme| plain.rules.iter().any(|rule| rule.deny && rule.whole() && rule.of(name, port, scheme));
    SCHEMES.iter().any(|&scheme| !closed(7, scheme))
        && name != "localhost"
        && (plain.all
            || PORTS.iter().any(|&port| plain.hosts.contains(&(host, port)) && !closed(port, Scheme::Https))
            || SCHEMES.iter().any(|&scheme| oracle_opens(plain, name, scheme)))
}

fn random_rule(r: &mut Random) -> PlainRule {
    let deny = r.below(3) == 0;
    let part = |some: Vec<_>| Some(some).filter(|some: &Vec<usize>| !some.is_empty());
    let numbers = |r: &mut Random, n: usize| (0..n).filter(|_| r.below(3) == 0).collect::<Vec<_>>();
    let host = PATTERNS[r.below(8)];
    let ports = part(numbers(r, 3)).map(|some| some.into_iter().map(|at| PORTS[at]).collect());
    let methods = part(numbers(r, 2)).map(|some| some.into_iter().map(|at| METHODS[at]).collect());
    let globs = if r.below(2) == 0 { numbers(r, 9) } else { Vec::new() };
    let paths = part(globs).map(|some| some.into_iter().map(|at| GLOBS[at]).collect());
    let scheme = if r.below(2) == 0 { None } else { Some(SCHEMES[r.below(3)]) };
    let scheme = if deny || r.below(3) == 0 { scheme } else { Some(Scheme::Https) };
    let ports = match scheme {
        _ if deny => ports,
        Some(Scheme::Https) => ports.or(Some(vec![443])),
        Some(Scheme::Http) => ports.or(Some(vec![80])),
        Some(Scheme::Tcp) | None => ports,
    };
    let seen = !(scheme == Some(Scheme::Tcp) || scheme.is_none() && !deny);
    PlainRule { deny, host, scheme, ports, methods: methods.filter(|_| seen), paths: paths.filter(|_| seen) }
}

fn rule_text(rule: &PlainRule) -> String {
    let mut text = format!("[[network.rules]]\nhost = \"{}\"\n", rule.host);
    text += if rule.deny { "action = \"deny\"\n" } else { "action = \"allow\"\n" };
    for (key, value) in [
        ("scheme", Some(rule.scheme.map_or("\"any\"".to_owned(), |scheme| format!("\"{scheme}\"")))),
        ("ports", Some(rule.ports.as_ref().map_or("\"all\"".to_owned(), |ports| format!("{ports:?}")))),
        ("methods", rule.methods.as_ref().map(|methods| format!("{methods:?}"))),
        ("paths", rule.paths.as_ref().map(|paths| format!("{paths:?}"))),
    ] {
        text += &value.map_or_else(String::new, |value| format!("{key} = {value}\n"));
    }
    text
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
    let rules = (0..r.below(10)).map(|_| random_rule(r)).collect();
    Plain { rules, all, hosts, egress_all, cidrs, bindings }
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
    plain.rules.iter().for_each(|rule| text.push_str(&rule_text(rule)));
    for (host, port, prefix) in &plain.bindings {
        let host = spell((*host, *port));
        text.push_str(&format!(
            "[[header_bindings]]\nhost = {host}\nheader = \"X\"\nsecret_name = \"K\"\npath_prefix = \"{prefix}\"\n"
        ));
    }
    text + "[secrets.K]\nenv = \"K\"\n"
}

fn random_question(r: &mut Random) -> Question {
    Question {
        host: [0, 1, 2, 0, 2, 3, 4, 4][r.below(8)],
        port: [443, 443, 80, 8443][r.below(4)],
        scheme: [Scheme::Https, Scheme::Https, Scheme::Https, Scheme::Http, Scheme::Tcp][r.below(5)],
        dialled: [None, Some(ADDRESSES[r.below(4)])][r.below(2)],
        method: METHODS[r.below(3)],
        path: PATHS[r.below(9)],
    }
}

fn destination(q: &Question, spelling: usize) -> Destination {
    Destination {
        authority: Authority::parse(&format!("{}:{}", SPELLINGS[q.host][spelling], q.port), 443).unwrap(),
        scheme: q.scheme,
        dialled: q.dialled.map(|a| a.parse::<IpAddr>().unwrap()),
    }
}

/// Random policy files, with what they compile to, and for each of them random requests that dial no address by number.
pub(crate) fn samples(policies: usize, requests: usize, mut each: impl FnMut(&str, &Policy, &RequestFacts<'_>)) {
    let mut r = Random(0x0dd_5eed_0f5a_17b0);
    for _ in 0..policies {
        let text = document(&random_plain(&mut r), &mut r);
        let policy = compile(&text);
        for _ in 0..requests {
            let q = Question { dialled: None, ..random_question(&mut r) };
            let destination = destination(&q, r.below(2));
            each(&text, &policy, &RequestFacts { destination: &destination, method: q.method, path: q.path });
        }
    }
}

fn compile(text: &str) -> Policy {
    let file = NamedText { name: "random.toml".to_owned(), text: text.to_owned() };
    load(&[file], &PolicyOptions::default()).unwrap_or_else(|e| panic!("{text}\n{e}")).policy
}

#[test]
fn random_policies_decide_as_the_oracle_does() {
    let mut r = Random(0x5eed_0f5a_17b0_c0de);
    let mut count = BTreeMap::<&str, u32>::new();
    for _ in 0..POLICIES {
        let plain = random_plain(&mut r);
        let text = document(&plain, &mut r);
        let policy = compile(&text);
        for _ in 0..REQUESTS {
            let q = random_question(&mut r);
            let destination = destination(&q, r.below(2));
            let want = oracle(&plain, &q);
            agree(&text, &policy, (&destination, &q), &want);
            seen_where_it_matters(&text, &policy, &plain, (&destination, &q));
            match want {
                Ok((by, _)) => *count.entry(by).or_default() += 1,
                Err(code) => *count.entry(code).or_default() += 1,
            }
            if let Host::Name(name) = &destination.authority.host {
                assert_eq!(policy.may_resolve(name), oracle_resolves(&plain, q.host), "{name} in\n{text}");
            }
            let reaches = policy.network().reaches(&destination.authority.to_string());
            assert_eq!(reaches, oracle_network(&plain, &q), "{destination:?} in\n{text}");
        }
    }
    let rare: Vec<_> = count.iter().filter(|(_, times)| **times < 200).collect();
    assert!(rare.is_empty() && count.len() == 12, "the questions are lopsided: {count:?}");
}

/// The request is decided as wanted, and the connection as the request where both can be.
fn agree(
    text: &str,
    policy: &Policy,
    (destination, q): (&Destination, &Question),
    want: &Result<(&str, Vec<&str>), &str>,
) {
    let got = policy.request(&RequestFacts { destination, method: q.method, path: q.path });
    let got = got.map_err(|denial| denial.code()).map(|permit| {
        let by = match permit.grant {
            super::Grant::NetworkAll => "all",
            super::Grant::Host { .. } => "host",
            super::Grant::Rule { .. } => "rule",
            super::Grant::Egress { .. } => "egress",
            super::Grant::GitHub { .. } => "github",
        };
        (by, permit.bindings.iter().map(|&i| policy.bindings()[i].path_prefix()).collect())
    });
    assert_eq!(got, *want, "{destination:?} {} {} in\n{text}", q.method, q.path);
    match policy.destination(destination) {
        Err(denial) => assert_eq!(want.as_ref().err(), Some(&denial.code()), "{destination:?} {} in\n{text}", q.path),
        Ok(_) => {
            let closed = ["local_name", "host_not_listed", "https_only", "scheme_not_permitted"];
            assert!(!want.as_ref().is_err_and(|code| closed.contains(code)), "{destination:?} in\n{text}");
        }
    }
}

/// What is passed on unread is permitted as tcp, and nothing that looks inside is for it.
fn seen_where_it_matters(text: &str, policy: &Policy, plain: &Plain, (destination, q): (&Destination, &Question)) {
    let by = |scheme| policy.destination(&Destination { scheme, ..destination.clone() });
    let entry = policy.entry(destination);
    assert_eq!(entry.is_ok(), SCHEMES.iter().any(|scheme| by(*scheme).is_ok()), "{destination:?} in\n{text}");
    let unread = match entry {
        Ok(super::Entry::Relay(grant)) => Some(grant),
        Ok(super::Entry::Look { .. }) | Err(_) => policy.passes_unread(destination),
    };
    let Some(grant) = unread else { return };
    assert!(by(Scheme::Tcp).is_ok(), "{destination:?} in\n{text}");
    let hosts = [HOSTS[q.host]].into_iter().chain(q.dialled);
    let about = |rule: &&PlainRule| hosts.clone().any(|host| SCHEMES.iter().any(|s| rule.of(host, q.port, *s)));
    let looks = |rule: &PlainRule| !rule.whole() || rule.deny;
    assert!(!plain.rules.iter().filter(about).any(looks), "{destination:?} in\n{text}");
    assert!(!plain.bindings.iter().any(|b| (b.0, b.1) == (q.host, q.port)), "{destination:?} in\n{text}");
    let by_rule = matches!(grant, super::Grant::Rule { .. });
    assert!(by_rule || !plain.rules.iter().any(|rule| rule.deny), "{destination:?} in\n{text}");
}

fn oracle_network(plain: &Plain, q: &Question) -> bool {
    HOSTS[q.host] != "localhost" && (plain.all || plain.hosts.contains(&(q.host, q.port)))
}
