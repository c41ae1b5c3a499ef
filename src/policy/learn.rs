//! What a run used, as the smallest policy that permits it: `run --learn`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::types::{Authority, Host, Scheme};

use super::glob::PathGlob;
use super::rule::check_method;
use super::{network, path};

/// Hosts with port and scheme that are remembered; of further ones only the number is.
const HOSTS: usize = 4096;
/// Different paths of one of them that are remembered; one with more is permitted whole.
const PATHS: usize = 512;
/// Bytes of paths that are remembered in all; a host with a path beyond them is permitted whole.
const BYTES: usize = 8 << 20;
/// Different methods of one of them; one with more is permitted whole.
const METHODS: usize = 16;
/// First segments of paths through which a host may be used and still have its paths written down.
const FEW: usize = 4;

/// What was used so far.
#[derive(Debug, Default)]
pub struct Learned {
    used: BTreeMap<(Host, u16, Scheme), Used>,
    requests: u64,
    beyond: u64,
    /// Bytes of all paths.
    bytes: usize,
}

/// How one host was used by one scheme on one port.
#[derive(Debug, Default)]
struct Used {
    methods: BTreeSet<String>,
    /// None where they are too many, or not to be told apart.
    paths: Option<BTreeSet<String>>,
    whole: bool,
}

impl Learned {
    /// Takes in a request, or a connection that was not looked into, that was permitted.
    pub fn note(&mut self, authority: &Authority, scheme: Scheme, request: Option<(&str, &str)>) {
        if network::is_local(&authority.host) {
            return;
        }
        self.requests += 1;
        let key = (authority.host.clone(), authority.port, scheme);
        if self.used.len() >= HOSTS && !self.used.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let used = self.used.entry(key).or_insert_with(|| Used { paths: Some(BTreeSet::new()), ..Used::default() });
        match request {
            Some((method, path)) => used.note(method, path, &mut self.bytes),
            None => used.whole = true,
        }
    }

    /// How many hosts, each by scheme and port.
    pub fn hosts(&self) -> usize {
        self.used.len()
    }

    /// The policy, in TOML. It permits all that was noted, but for the hosts beyond the first 4,096.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "# Learned by sandbox-proxy run --learn from {} requests and connections. It permits what that run did: read it\n\
             # before you trust it.\n",
            self.requests
        );
        if self.beyond > 0 {
            text += &format!("# {} more were for other hosts than the {HOSTS} that are listed.\n", self.beyond);
        }
        for ((host, port, scheme), used) in &self.used {
            used.write(host, *port, *scheme, &mut text);
        }
        text
    }
}

impl Used {
    fn note(&mut self, method: &str, path: &str, bytes: &mut usize) {
        if self.whole {
            return;
        }
        if check_method(method).is_err() {
            self.whole = true;
            return;
        }
        self.methods.insert(method.to_owned());
        self.whole = self.methods.len() > METHODS;
        let compared = path::decoded(path).ok().is_some_and(|path| path::segments(&path).is_some());
        match &mut self.paths {
            Some(paths) if compared && paths.contains(path) => {}
            Some(paths) if compared && paths.len() < PATHS && *bytes < BYTES => {
                *bytes += path.len();
                paths.insert(path.to_owned());
            }
            paths => *paths = None,
        }
    }

    fn write(&self, host: &Host, port: u16, scheme: Scheme, text: &mut String) {
        let own_port = match scheme {
            Scheme::Https => Some(443),
            Scheme::Http => Some(80),
            Scheme::Tcp => None,
        };
        let list = |words: &mut dyn Iterator<Item = String>| {
            let words: Vec<String> = words.map(|word| toml::Value::String(word).to_string()).collect();
            format!("[{}]", words.join(", "))
        };
        let host = toml::Value::String(host.to_string());
        // Writing into a text cannot fail.
        let _ = write!(text, "\n[[network.rules]]\nhost = {host}\naction = \"allow\"\n");
        if scheme != Scheme::Https {
            let _ = writeln!(text, "scheme = \"{scheme}\"");
        }
        if own_port != Some(port) {
            let _ = writeln!(text, "ports = [{port}]");
        }
        if self.whole || scheme == Scheme::Tcp {
            return;
        }
        let _ = writeln!(text, "methods = {}", list(&mut self.methods.iter().cloned()));
        if let Some(globs) = self.paths.as_ref().and_then(few) {
            let _ = writeln!(text, "paths = {}", list(&mut globs.into_iter()));
        }
    }
}

/// Globs for these paths, where they begin in few ways: each first segment with as many further ones as are common to the
/// directories of its paths.
fn few(paths: &BTreeSet<String>) -> Option<Vec<String>> {
    let mut by_first = BTreeMap::<String, Vec<Vec<String>>>::new();
    for path in paths {
        let decoded = path::decoded(path).ok()?;
        let segments: Vec<String> = path::segments(&decoded)?.into_iter().map(literal).collect();
        by_first.entry(segments.first().cloned().unwrap_or_default()).or_default().push(segments);
    }
    if by_first.len() > FEW {
        return None;
    }
    let globs: Vec<String> = by_first.values().map(|paths| glob(paths)).collect();
    let fits = |globs: &Vec<String>| {
        let globs: Vec<PathGlob> = globs.iter().filter_map(|glob| PathGlob::parse(glob).ok()).collect();
        paths.iter().all(|path| {
            let Ok(path) = path::decoded(path) else { return false };
            path::segments(&path).is_some_and(|segments| globs.iter().any(|glob| glob.matches(&segments)))
        })
    };
    Some(globs).filter(fits)
}

/// A segment as a glob that stands for it alone.
fn literal(segment: &str) -> String {
    path::encode(segment).replace('*', "%2A")
}

/// One glob for paths that begin with one segment: the path itself where there is one of one segment, else the tree that
/// they have in common.
fn glob(paths: &[Vec<String>]) -> String {
    let mut common: &[String] = match paths.iter().min_by_key(|path| path.len()) {
        Some(shortest) if shortest.len() <= 1 && paths.len() == 1 => return format!("/{}", shortest.concat()),
        Some(shortest) => &shortest[..shortest.len().saturating_sub(1).max(1).min(shortest.len())],
        None => &[],
    };
    while !paths.iter().all(|path| path.starts_with(common)) {
        common = &common[..common.len() - 1];
    }
    format!("/{}/**", common.join("/")).replace("//", "/")
}

#[cfg(test)]
mod tests {
    use super::super::compile::{NamedText, load};
    use super::super::options::PolicyOptions;
    use super::*;
    use crate::types::{Destination, RequestFacts};

    /// `METHOD URL` or `tcp://HOST:PORT`, a line each.
    fn learned(lines: &str) -> Learned {
        let mut learned = Learned::default();
        for line in lines.lines() {
            let (method, url) = line.trim().split_once(' ').map_or((None, line.trim()), |(m, url)| (Some(m), url));
            let (authority, scheme, path) = parts(url);
            learned.note(&authority, scheme, method.map(|method| (method, path)));
        }
        learned
    }

    fn parts(url: &str) -> (Authority, Scheme, &str) {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (scheme, port) = match scheme {
            "https" => (Scheme::Https, 443),
            "http" => (Scheme::Http, 80),
            _ => (Scheme::Tcp, 443),
        };
        (Authority::parse(host, port).unwrap(), scheme, path)
    }

    fn rules(lines: &str) -> Vec<String> {
        let text = learned(lines).to_toml();
        text.split("[[network.rules]]\n").skip(1).map(|rule| rule.trim().replace('\n', "; ")).collect()
    }

    macro_rules! learns {
        ($($name:ident: $used:expr => [$($rule:expr),*];)*) => { $(
            #[test]
            fn $name() {
                let wanted: &[&str] = &[$($rule),*];
                assert_eq!(rules($used), wanted);
                permits_what_it_learned($used);
            }
        )* };
    }

    learns! {
        nothing: "" => [];
        one_path: "GET https://a.test/x" => [r#"host = "a.test"; action = "allow"; methods = ["GET"]; paths = ["/x"]"#];
        root: "GET https://a.test/" => [r#"host = "a.test"; action = "allow"; methods = ["GET"]; paths = ["/"]"#];
        one_deep_path: "GET https://a.test/v1/models/x" => [
            r#"host = "a.test"; action = "allow"; methods = ["GET"]; paths = ["/v1/models/**"]"#];
        one_tree: "GET https://a.test/v1/models/x\nGET https://a.test/v1/files\nPOST https://a.test/v1/chat/y" => [
            r#"host = "a.test"; action = "allow"; methods = ["GET", "POST"]; paths = ["/v1/**"]"#];
        two_trees: "GET https://a.test/a/b/c\nGET https://a.test/a/b/d\nGET https://a.test/x/y" => [
            r#"host = "a.test"; action = "allow"; methods = ["GET"]; paths = ["/a/b/**", "/x/**"]"#];
        a_path_and_what_is_below: "GET https://a.test/a\nGET https://a.test/a/b/c" => [
            r#"host = "a.test"; action = "allow"; methods = ["GET"]; paths = ["/a/**"]"#];
        a_final_slash: "GET https://a.test/a/\nGET https://a.test/a/b/" => [
            r#"host = "a.test"; action = "allow"; methods = ["GET"]; paths = ["/a/**"]"#];
        many_trees: "GET https://a.test/1\nGET https://a.test/2\nGET https://a.test/3\nGET https://a.test/4\nGET https://a.test/5" => [
            r#"host = "a.test"; action = "allow"; methods = ["GET"]"#];
        ambiguous: "GET https://a.test/@x%2fy" => [r#"host = "a.test"; action = "allow"; methods = ["GET"]"#];
        repeated_slash: "GET https://a.test//x" => [r#"host = "a.test"; action = "allow"; methods = ["GET"]"#];
        a_star: "GET https://a.test/a*/b*/c" => [
            r#"host = "a.test"; action = "allow"; methods = ["GET"]; paths = ["/a%2A/b%2A/**"]"#];
        odd_letters: "GET https://a.test/%22%C3%A4/\u{e4}\"" => [
            r#"host = "a.test"; action = "allow"; methods = ["GET"]; paths = ["/%22%C3%A4/**"]"#];
        small_method: "get https://a.test/x" => [r#"host = "a.test"; action = "allow"; methods = ["get"]; paths = ["/x"]"#];
        port: "GET https://a.test:8443/x" => [
            r#"host = "a.test"; action = "allow"; ports = [8443]; methods = ["GET"]; paths = ["/x"]"#];
        http: "GET http://a.test/x\nGET http://a.test:8080/x" => [
            r#"host = "a.test"; action = "allow"; scheme = "http"; methods = ["GET"]; paths = ["/x"]"#,
            r#"host = "a.test"; action = "allow"; scheme = "http"; ports = [8080]; methods = ["GET"]; paths = ["/x"]"#];
        tcp: "tcp://db.test:5432\ntcp://db.test:443" => [
            r#"host = "db.test"; action = "allow"; scheme = "tcp"; ports = [443]"#,
            r#"host = "db.test"; action = "allow"; scheme = "tcp"; ports = [5432]"#];
        address: "GET https://9.9.9.9/x\ntcp://[2606:4700::1]:22" => [
            r#"host = "9.9.9.9"; action = "allow"; methods = ["GET"]; paths = ["/x"]"#,
            r#"host = "[2606:4700::1]"; action = "allow"; scheme = "tcp"; ports = [22]"#];
    }

    fn permits_what_it_learned(lines: &str) {
        let text = learned(lines).to_toml();
        let file = NamedText { name: "learned".to_owned(), text: text.clone() };
        let policy = load(&[file], &PolicyOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}")).policy;
        for line in lines.lines() {
            let (method, url) = line.trim().split_once(' ').unwrap_or(("", line.trim()));
            let (authority, scheme, path) = parts(url);
            let destination = Destination { authority, scheme, dialled: None };
            let answer = policy.request(&RequestFacts { destination: &destination, method, path });
            assert!(answer.is_ok(), "{line}: {answer:?} by\n{text}");
        }
    }

    #[test]
    fn what_is_too_much_to_remember_is_permitted_whole_or_counted() {
        let paths: String = (0..PATHS + 1).map(|at| format!("GET https://a.test/p/{at}\n")).collect();
        assert_eq!(rules(paths.trim()), [r#"host = "a.test"; action = "allow"; methods = ["GET"]"#]);
        let methods: String = (0..METHODS + 1).map(|at| format!("M{at} https://a.test/p\n")).collect();
        assert_eq!(rules(methods.trim()), [r#"host = "a.test"; action = "allow""#]);
        let hosts: String = (0..HOSTS + 3).map(|at| format!("GET https://h{at}.test/\n")).collect();
        let learned = learned(hosts.trim());
        assert_eq!((learned.hosts(), learned.beyond), (HOSTS, 3));
        assert!(learned.to_toml().contains("# 3 more were for other hosts"));
        permits_what_it_learned(paths.trim());
        permits_what_it_learned(methods.trim());
    }
}
