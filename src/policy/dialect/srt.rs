//! The settings of Anthropic's sandbox runtime, srt 0.0.83 (seed-systems B.7 and B.8), as its `--settings` file has them.
//!
//! Two things are stricter here than in srt. A name that resolves to a private address is refused, where srt refuses only
//! loopback, link-local, metadata and this host's own addresses; a literal address in `allowedDomains` opens that address, as
//! there. And an answer that holds a refused address beside a good one is refused whole. One thing is mended: a deny entry in
//! Unicode matches, which it never does in srt (see `entry`). Unknown keys, which srt drops, are mistakes.

mod files;

use std::collections::HashMap;
use std::sync::Arc;

use super::super::document::Document;
use super::super::files::UnixSockets;
use super::super::mistake::{At, Collector, quoted};
use super::super::rule::{Ports, check_reason};
use super::lists::{List, rules};
use super::tree::{Node, Reader, Value};

/// What becomes of a key that this reads without honouring it.
enum Fate {
    /// It changes nothing here, for this reason.
    Nothing(&'static str),
    /// It would change something: what to do instead.
    Refused(&'static str),
}

const TOP: [(&str, Fate); 14] = [
    (
        "credentials",
        Fate::Refused("bind each to its hosts instead: --secret NAME=env:VAR and --bind 'HOST HEADER: {NAME}'"),
    ),
    ("allowNestedUserNamespaces", Fate::Refused("take it out; no namespace can be made inside")),
    ("git", Fate::Refused("take it out, and have the command run git config --global --add safe.directory")),
    ("ignoreViolations", Fate::Nothing("it only hides reports of srt")),
    ("enableWeakerNestedSandbox", Fate::Nothing("this sandbox is never weakened")),
    ("enableWeakerNetworkIsolation", Fate::Nothing("it is for macOS")),
    ("allowAppleEvents", Fate::Nothing("it is for macOS")),
    ("allowPty", Fate::Nothing("it is for macOS, and terminals work here")),
    ("ripgrep", Fate::Nothing("no ripgrep is used")),
    ("seccomp", Fate::Nothing("the filter is built in")),
    ("bwrapPath", Fate::Nothing("no bubblewrap is used")),
    ("socatPath", Fate::Nothing("no socat is used")),
    ("javaAgentJarPath", Fate::Nothing("connections are caught without an agent")),
    ("windows", Fate::Nothing("it is for Windows")),
];

const TLS: [(&str, Fate); 5] = [
    ("caCertPath", Fate::Refused("take it out; every run has an authority of its own, which the sandbox trusts")),
    ("caKeyPath", Fate::Refused("take it out; every run has an authority of its own, which the sandbox trusts")),
    ("extraCaCertPaths", Fate::Refused("name each by --upstream-ca FILE, which the sandbox trusts too")),
    ("maxTunnels", Fate::Refused("take it out; how many connections are served depends on the limit on open files")),
    ("handshakeTimeoutMs", Fate::Refused("take it out; the proxy has limits of its own")),
];

const NETWORK: [(&str, Fate); 9] = [
    ("httpProxyPort", Fate::Refused("take it out; --upstream-proxy goes through a proxy that stands behind this one")),
    ("socksProxyPort", Fate::Refused("take it out; --upstream-proxy goes through a proxy that stands behind this one")),
    ("mitmProxy", Fate::Refused("take it out; --upstream-proxy goes through a proxy, for all hosts alike")),
    ("filterRequest", Fate::Refused("a function is no part of a file; rules of a TOML policy judge methods and paths")),
    ("stripResponseHeaders", Fate::Refused("take it out; headers of responses are passed on")),
    ("allowLocalBinding", Fate::Nothing("the sandbox's own loopback can always be used")),
    ("allowMachLookup", Fate::Nothing("it is for macOS")),
    ("allowPlaintextHeaderSet", Fate::Nothing("it counts with filterRequest alone")),
    ("ambiguousRequestTarget", Fate::Nothing("it counts with filterRequest alone")),
];

/// Reads the settings. What is wrong goes to `mistakes`.
pub(in super::super) fn document(root: &Node, mistakes: &mut Collector) -> Document {
    let mut srt = Srt { reader: Reader::new(mistakes), document: Document::default() };
    srt.each(root, "", &["network", "filesystem", "mandatoryDenySearchDepth"], &TOP, |srt, key, node| match key {
        "network" => srt.network(node),
        "filesystem" => srt.filesystem(node),
        _ => srt.depth(node),
    });
    srt.required(root, "", &["network", "filesystem"]);
    srt.document.warnings = srt.reader.warnings;
    srt.document
}

struct Srt<'m> {
    reader: Reader<'m>,
    document: Document,
}

impl Srt<'_> {
    /// Gives `take` every key of a mapping that is in `known`, and settles the others.
    fn each(
        &mut self,
        node: &Node,
        before: &str,
        known: &[&str],
        settled: &[(&str, Fate)],
        take: impl Fn(&mut Self, &str, &Node),
    ) {
        for (key, node) in self.reader.map(node, before.strip_suffix('.').unwrap_or("the settings")) {
            let name = format!("{before}{}", key.value);
            if known.contains(&key.value.as_str()) {
                take(self, &key.value, node);
                continue;
            }
            match settled.iter().find(|(name, _)| *name == key.value).map(|(_, fate)| fate) {
                Some(_) if node.is_nothing() => {}
                Some(Fate::Nothing(why)) => {
                    self.reader.warn(&key.place, format!("`{name}` changes nothing here: {why}"));
                }
                Some(Fate::Refused(hint)) => {
                    self.reader.mistakes.add(&key.place, format!("`{name}` cannot be honoured"), *hint);
                }
                None => {
                    let known: Vec<&str> = known.iter().copied().chain(settled.iter().map(|(name, _)| *name)).collect();
                    self.reader.unknown(key, before, &known);
                }
            }
        }
    }

    fn required(&mut self, node: &Node, before: &str, keys: &[&str]) {
        // What is no mapping was told to be none.
        let missing = |key: &&&str| matches!(node.value, Value::Map(_)) && node.get(key).is_none();
        for key in keys.iter().filter(missing) {
            let what = format!("`{before}{key}` is missing");
            self.reader.mistakes.add(&node.place, what, "add it, as srt takes no settings without it");
        }
    }

    fn network(&mut self, network: &Node) {
        const KNOWN: [&str; 11] = [
            "allowedDomains",
            "deniedDomains",
            "deniedDomainReasons",
            "strictAllowlist",
            "deniedResolvedAddresses",
            "allowUnixSockets",
            "allowAllUnixSockets",
            "refuseOpaqueTunnels",
            "requireHostMatch",
            "tlsTerminate",
            "parentProxy",
        ];
        let seen_alone = network.get("refuseOpaqueTunnels").is_some_and(|node| matches!(node.value, Value::Bool(true)));
        let allowed = if seen_alone { &List::TRUSTED_AND_SEEN } else { &List::TRUSTED };
        let reasons = network.get("deniedDomainReasons").map(|node| self.reasons(node)).unwrap_or_default();
        self.each(network, "network.", &KNOWN, &NETWORK, |srt, key, node| match key {
            "allowedDomains" => {
                for entry in srt.reader.texts(node, "network.allowedDomains") {
                    srt.document.ready_rules.append(&mut rules(&entry, allowed, None, &mut srt.reader));
                }
            }
            "deniedDomains" => srt.denied(node, &reasons),
            "deniedResolvedAddresses" => {
                let addresses = srt.reader.texts(node, "network.deniedResolvedAddresses");
                srt.document.denied_cidrs.extend(addresses);
            }
            "allowAllUnixSockets" => {
                let flag = srt.reader.bool(node, "network.allowAllUnixSockets").filter(|flag| flag.value);
                srt.document
                    .files
                    .unix_sockets
                    .extend(flag.map(|flag| At { value: UnixSockets::All, place: flag.place }));
            }
            "allowUnixSockets" => srt.sockets(node),
            "tlsTerminate" => srt.tls(node),
            "parentProxy" => srt.parent_proxy(node),
            // Read above.
            "deniedDomainReasons" => {}
            // `strictAllowlist` and `requireHostMatch` are how it is here always: nobody is asked, and a request for
            // another host than its connection's gets 421.
            _ => drop(srt.reader.bool(node, &format!("network.{key}"))),
        });
        self.required(network, "network.", &["allowedDomains", "deniedDomains"]);
        self.unused_reasons(network);
        if let Some(passed) = self.document.ready_passthrough.first().filter(|_| seen_alone) {
            let what = "`network.refuseOpaqueTunnels` refuses the connections that this entry has passed on unread";
            self.reader.mistakes.add(&passed.place, what, "take one of them out");
        }
    }

    /// Texts by the entries that they explain.
    fn reasons(&mut self, node: &Node) -> HashMap<String, Arc<str>> {
        let mut reasons = HashMap::new();
        for (key, node) in self.reader.map(node, "network.deniedDomainReasons") {
            let Some(reason) = self.reader.text(node, "network.deniedDomainReasons") else { continue };
            match check_reason(&reason.value) {
                Ok(()) => drop(reasons.insert(key.value.clone(), reason.value.into())),
                Err(error) => self.reader.mistakes.add_error(&reason, &error),
            }
        }
        reasons
    }

    fn denied(&mut self, node: &Node, reasons: &HashMap<String, Arc<str>>) {
        let entries = self.reader.texts(node, "network.deniedDomains");
        for entry in &entries {
            let reason = reasons.get(&entry.value).cloned();
            let mut denied = rules(entry, &List::DENIED_WITH_EVERY, reason, &mut self.reader);
            self.document.ready_rules.append(&mut denied);
        }
    }

    fn unused_reasons(&mut self, network: &Node) {
        let (Some(reasons), Some(denied)) = (network.get("deniedDomainReasons"), network.get("deniedDomains")) else {
            return;
        };
        let (Value::Map(reasons), Value::List(denied)) = (&reasons.value, &denied.value) else { return };
        let is = |node: &Node, key: &str| matches!(&node.value, Value::Text(text) if text == key);
        for (key, _) in reasons.iter().filter(|(key, _)| !denied.iter().any(|node| is(node, &key.value))) {
            let what = format!("no entry of `network.deniedDomains` is {}, so nobody is told this", quoted(&key.value));
            self.reader.warn(&key.place, what);
        }
    }

    fn tls(&mut self, node: &Node) {
        self.each(node, "network.tlsTerminate.", &["excludeDomains"], &TLS, |srt, _, node| {
            for entry in srt.reader.texts(node, "network.tlsTerminate.excludeDomains") {
                let mut passed = rules(&entry, &List::PASSED, None, &mut srt.reader);
                if passed.iter().any(|rule| rule.ports != Ports::All) {
                    srt.reader.mistakes.add(&entry.place, "an entry of this list has no port", "write the host alone");
                }
                srt.document.ready_passthrough.append(&mut passed);
            }
        });
    }

    /// One proxy for everything is what there is here: srt sends https to the one for http where it has no other.
    fn parent_proxy(&mut self, node: &Node) {
        let (mut http, mut https) = (None, None);
        for (key, node) in self.reader.map(node, "network.parentProxy") {
            let name = format!("network.parentProxy.{}", key.value);
            match key.value.as_str() {
                "http" => http = self.reader.text(node, &name),
                "https" => https = self.reader.text(node, &name),
                "noProxy" if node.is_nothing() => {}
                "noProxy" => {
                    let hint = "take it out; every upstream is reached through the proxy";
                    self.reader.mistakes.add(&key.place, format!("`{name}` cannot be honoured"), hint);
                }
                _ => self.reader.unknown(key, "network.parentProxy.", &["http", "https", "noProxy"]),
            }
        }
        match (http, https) {
            (None, None) => {}
            (None, Some(https)) => {
                let what =
                    "srt would reach plain http without a proxy here, and https through one, which cannot be honoured";
                self.reader.mistakes.add(&https.place, what, "write `http` with the same URL");
            }
            (Some(http), Some(https)) if http.value != https.value => {
                let what = "plain http and https cannot go through different proxies";
                self.reader.mistakes.add(&https.place, what, "write one of the two URLs for both");
            }
            (Some(http), Some(_) | None) => self.document.proxies.push(http),
        }
    }
}

#[cfg(test)]
mod tests;
