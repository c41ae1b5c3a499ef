//! A policy file as it was written: lenient, with places. Everything that is wrong with its form is collected here, so
//! that one reading shows all of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::compile::NamedText;
use super::lines::Lines;
use super::mistake::{At, Collector, Place, Warning, did_you_mean, quoted};
use super::rule::Rule;

mod bindings;
mod cases;
mod files;
mod github;
mod github_tokens;
mod rules;
mod secrets;

pub(super) use bindings::{RawBinding, RawMistralApi};
pub(super) use cases::RawCase;
pub(super) use files::RawFiles;
pub(super) use github::{RawApp, RawGitHub, RawPush, RawRepos};
pub(super) use rules::{RawPorts, RawRule};
pub(super) use secrets::RawSecret;

/// What one file, or the options, say.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) network_modes: Vec<At<String>>,
    pub(super) hosts: Vec<At<String>>,
    /// A list was written, be it empty or unreadable.
    pub(super) hosts_given: bool,
    pub(super) rules: Vec<RawRule>,
    /// Rules that another system's lists have become.
    pub(super) ready_rules: Vec<Rule>,
    pub(super) egress_modes: Vec<At<String>>,
    pub(super) cidrs: Vec<At<String>>,
    /// A list was written, be it empty or unreadable.
    pub(super) cidrs_given: bool,
    pub(super) denied_cidrs: Vec<At<String>>,
    pub(super) block_private: Vec<At<bool>>,
    pub(super) passthrough: Vec<At<String>>,
    pub(super) ready_passthrough: Vec<Rule>,
    pub(super) files: RawFiles,
    pub(super) proxies: Vec<At<String>>,
    pub(super) proxy_auths: Vec<At<String>>,
    pub(super) resolves: Vec<At<String>>,
    pub(super) bindings: Vec<RawBinding>,
    pub(super) mistral_apis: Vec<RawMistralApi>,
    pub(super) githubs: Vec<RawGitHub>,
    pub(super) placeholders: Vec<RawPlaceholder>,
    pub(super) secrets: Vec<RawSecret>,
    /// The names of all secrets that were written, those with an unreadable source too.
    pub(super) secret_names: BTreeSet<String>,
    pub(super) cases: Vec<RawCase>,
    pub(super) warnings: Vec<Warning>,
    /// What the service alone can do, as the beginning of a sentence.
    pub(super) of_service: Vec<At<String>>,
    /// The workspace's rules hold, too.
    pub(super) workspace_rules: bool,
    /// The names of lists that the one who reads the warnings has not written.
    pub(super) not_warned_of: Vec<Arc<str>>,
}

impl Document {
    /// Adds what another one says.
    pub(super) fn append(&mut self, mut other: Self) {
        self.network_modes.append(&mut other.network_modes);
        self.hosts.append(&mut other.hosts);
        self.hosts_given |= other.hosts_given;
        self.rules.append(&mut other.rules);
        self.ready_rules.append(&mut other.ready_rules);
        self.cidrs_given |= other.cidrs_given;
        self.egress_modes.append(&mut other.egress_modes);
        self.cidrs.append(&mut other.cidrs);
        self.denied_cidrs.append(&mut other.denied_cidrs);
        self.block_private.append(&mut other.block_private);
        self.passthrough.append(&mut other.passthrough);
        self.ready_passthrough.append(&mut other.ready_passthrough);
        self.files.append(other.files);
        self.proxies.append(&mut other.proxies);
        self.proxy_auths.append(&mut other.proxy_auths);
        self.resolves.append(&mut other.resolves);
        self.bindings.append(&mut other.bindings);
        self.mistral_apis.append(&mut other.mistral_apis);
        self.githubs.append(&mut other.githubs);
        self.placeholders.append(&mut other.placeholders);
        self.secrets.append(&mut other.secrets);
        self.secret_names.append(&mut other.secret_names);
        self.cases.append(&mut other.cases);
        self.warnings.append(&mut other.warnings);
        self.of_service.append(&mut other.of_service);
        self.workspace_rules |= other.workspace_rules;
        self.not_warned_of.append(&mut other.not_warned_of);
    }
}

/// A variable of the sandbox that is to hold a placeholder.
#[derive(Debug)]
pub(super) struct RawPlaceholder {
    /// The name of the secret.
    pub(super) secret: At<String>,
    pub(super) variable: At<String>,
}

pub(super) const NETWORK_MODES: [&str; 3] = ["none", "all", "allow"];
pub(super) const EGRESS_MODES: [&str; 3] = ["block_all", "allow_all", "custom"];
const RESOLVE: [&str; 2] = ["here", "upstream"];

/// Reads a file. What is wrong goes to `mistakes`, the rest is returned.
pub(super) fn read(file: &NamedText, name: &Arc<str>, mistakes: &mut Collector) -> Document {
    let text = file.text.as_str();
    let lines = Lines::new(name, text);
    let mut reader = Reader { name: name.clone(), lines, mistakes, document: Document::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        reader.root(table.get_ref());
        reader.lists_fit_modes();
    }
    for error in errors {
        let place = reader.place(error.span().map_or(text.len(), |span| span.start));
        reader.mistakes.add(&place, format!("not valid TOML: {}", error.message()), "");
    }
    reader.document
}

struct Reader<'a> {
    name: Arc<str>,
    lines: Lines<'a>,
    mistakes: &'a mut Collector,
    document: Document,
}

type Key<'a> = Spanned<DeString<'a>>;
type Value<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn root(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            match &**key.get_ref() {
                "network" => self.section(value, "network", Self::network_key),
                "egress" => self.section(value, "egress", Self::egress_key),
                "header_bindings" => self.bindings(value),
                "secrets" => self.section(value, "secrets", Self::secret),
                "files" => self.files(key, value),
                "upstream" => self.section(value, "upstream", Self::upstream_key),
                "cases" => self.cases(value),
                "tls" => self.section(value, "tls", Self::tls_key),
                _ => self.unknown(
                    key,
                    "",
                    &["network", "egress", "files", "upstream", "tls", "header_bindings", "secrets", "cases"],
                ),
            }
        }
    }

    fn network_key(&mut self, key: &Key<'_>, value: &Value<'_>) {
        match &**key.get_ref() {
            "mode" => {
                let mode = self.word(value, "network.mode", &NETWORK_MODES);
                self.document.network_modes.extend(mode);
            }
            "hosts" => {
                self.document.hosts_given = true;
                self.document.hosts = self.strings(value, "network.hosts", "mode = \"none\" permits no host");
            }
            "rules" => self.rules(value),
            _ => self.unknown(key, "network.", &["mode", "hosts", "rules"]),
        }
    }

    fn egress_key(&mut self, key: &Key<'_>, value: &Value<'_>) {
        match &**key.get_ref() {
            "mode" => {
                let mode = self.word(value, "egress.mode", &EGRESS_MODES);
                self.document.egress_modes.extend(mode);
            }
            "allow_cidrs" => {
                self.document.cidrs_given = true;
                self.document.cidrs =
                    self.strings(value, "egress.allow_cidrs", "mode = \"block_all\" permits no address");
            }
            "deny_cidrs" => {
                self.document.denied_cidrs =
                    self.strings(value, "egress.deny_cidrs", "without it no address is denied but the blocked ones");
            }
            "block_private_ips" => {
                let flag = self.flag(value, "egress.block_private_ips");
                self.document.block_private.extend(flag);
            }
            _ => self.unknown(key, "egress.", &["mode", "allow_cidrs", "deny_cidrs", "block_private_ips"]),
        }
    }

    fn tls_key(&mut self, key: &Key<'_>, value: &Value<'_>) {
        match &**key.get_ref() {
            "passthrough" => {
                self.document.passthrough =
                    self.strings(value, "tls.passthrough", "without it, all TLS that is looked into ends at the proxy");
            }
            _ => self.unknown(key, "tls.", &["passthrough"]),
        }
    }

    fn upstream_key(&mut self, key: &Key<'_>, value: &Value<'_>) {
        match &**key.get_ref() {
            "proxy" => {
                let proxy = self.string(value, "upstream.proxy");
                self.document.proxies.extend(proxy);
            }
            "proxy_auth" => {
                let auth = self.string(value, "upstream.proxy_auth");
                self.document.proxy_auths.extend(auth);
            }
            "resolve" => {
                let resolve = self.word(value, "upstream.resolve", &RESOLVE);
                self.document.resolves.extend(resolve);
            }
            _ => self.unknown(key, "upstream.", &["proxy", "proxy_auth", "resolve"]),
        }
    }

    fn section(&mut self, value: &Value<'_>, name: &str, each: fn(&mut Self, &Key<'_>, &Value<'_>)) {
        match value.get_ref().as_table() {
            Some(table) => table.iter().for_each(|(key, value)| each(self, key, value)),
            None => self.wrong_type(value, name, &format!("a table: [{name}]")),
        }
    }

    fn lists_fit_modes(&mut self) {
        let Document { network_modes, hosts, egress_modes, cidrs, .. } = &self.document;
        for (list, first, modes, known, right) in [
            ("network.hosts", hosts.first(), network_modes, NETWORK_MODES, "allow"),
            ("egress.allow_cidrs", cidrs.first(), egress_modes, EGRESS_MODES, "custom"),
        ] {
            let Some(first) = first else { continue };
            let fits = modes.iter().any(|mode| mode.value == right || !known.contains(&mode.value.as_str()));
            if !fits {
                let what = format!("`{list}` has no effect without mode = \"{right}\"");
                self.mistakes.add(&first.place, what, format!("write mode = \"{right}\", or take the list out"));
            }
        }
    }

    /// A word out of `known`. An unknown one is reported here and returned all the same, so that it counts as given.
    fn word(&mut self, value: &Value<'_>, name: &str, known: &[&str]) -> Option<At<String>> {
        let word = self.string(value, name)?;
        if !known.contains(&word.value.as_str()) {
            let what = format!("{} is not a value of `{name}`", quoted(&word.value));
            self.mistakes.add(&word.place, what, did_you_mean(&word.value, known));
        }
        Some(word)
    }

    /// A list of at least one text.
    fn strings(&mut self, value: &Value<'_>, name: &str, if_empty: &str) -> Vec<At<String>> {
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(value, name, "a list of texts: [\"…\"]");
            return Vec::new();
        };
        if array.is_empty() {
            let place = self.place_of(value);
            self.mistakes.add(&place, format!("`{name}` is empty"), format!("take it out; {if_empty}"));
        }
        array.iter().filter_map(|entry| self.string(entry, name)).collect()
    }

    /// A text of at least one character.
    fn string(&mut self, value: &Value<'_>, name: &str) -> Option<At<String>> {
        let text = self.text(value, name)?;
        if text.value.is_empty() {
            self.mistakes.add(&text.place, format!("`{name}` holds an empty text"), "write a value, or take it out");
            return None;
        }
        Some(text)
    }

    fn text(&mut self, value: &Value<'_>, name: &str) -> Option<At<String>> {
        match value.get_ref().as_str() {
            Some(text) => Some(At { value: text.to_owned(), place: self.place_of(value) }),
            None => {
                self.wrong_type(value, name, "a text in quotes");
                None
            }
        }
    }

    fn flag(&mut self, value: &Value<'_>, name: &str) -> Option<At<bool>> {
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(value, name, "true or false");
        }
        Some(At { value: flag?, place: self.place_of(value) })
    }

    fn wrong_type(&mut self, value: &Value<'_>, name: &str, right: &str) {
        let place = self.place_of(value);
        let what = format!("`{name}` cannot be of type {}", value.get_ref().type_str());
        self.mistakes.add(&place, what, format!("it takes {right}"));
    }

    fn unknown(&mut self, key: &Key<'_>, before: &str, known: &[&str]) {
        let place = self.place(key.span().start);
        let what = format!("unknown key {}", quoted(&format!("{before}{}", key.get_ref())));
        self.mistakes.add(&place, what, did_you_mean(key.get_ref(), known));
    }

    /// Notes what is the service's alone.
    fn of_service(&mut self, place: Place, what: String) {
        self.document.of_service.push(At { value: what, place });
    }

    fn place_of(&self, value: &Value<'_>) -> Place {
        self.place(value.span().start)
    }

    fn place(&self, offset: usize) -> Place {
        self.lines.place(offset)
    }
}
