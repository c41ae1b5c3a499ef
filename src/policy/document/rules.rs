//! The `[[network.rules]]` of a policy file.

use toml::de::{DeTable, DeValue};

use super::super::mistake::{At, Place};
use super::{Reader, Value};

/// A rule with what was given of it.
#[derive(Debug)]
pub(in super::super) struct RawRule {
    pub(in super::super) place: Place,
    pub(in super::super) host: Option<At<String>>,
    pub(in super::super) ports: Option<RawPorts>,
    pub(in super::super) scheme: Option<At<String>>,
    pub(in super::super) methods: Option<Vec<At<String>>>,
    pub(in super::super) paths: Option<Vec<At<String>>>,
    pub(in super::super) action: Option<At<String>>,
    pub(in super::super) reason: Option<At<String>>,
    pub(in super::super) opens_address: Option<At<bool>>,
}

/// The ports of a rule.
#[derive(Clone, Debug)]
pub(in super::super) enum RawPorts {
    All,
    Of(Vec<u16>),
}

const KEYS: [&str; 8] = ["host", "ports", "scheme", "methods", "paths", "action", "reason", "opens_address"];
const ACTIONS: [&str; 2] = ["allow", "deny"];
const SCHEMES: [&str; 4] = ["https", "http", "tcp", "any"];

impl Reader<'_> {
    pub(super) fn rules(&mut self, value: &Value<'_>) {
        let Some(array) = value.get_ref().as_array() else {
            return self.wrong_type(value, "network.rules", "tables, each under [[network.rules]]");
        };
        if array.is_empty() {
            let place = self.place_of(value);
            self.mistakes.add(&place, "`network.rules` is empty", "take it out, or add a [[network.rules]] table");
        }
        for entry in array {
            match entry.get_ref().as_table() {
                Some(table) => self.rule(entry, table),
                None => self.wrong_type(entry, "network.rules", "tables, each under [[network.rules]]"),
            }
        }
    }

    fn rule(&mut self, entry: &Value<'_>, table: &DeTable<'_>) {
        let place = self.place_of(entry);
        let mut raw = RawRule {
            place,
            host: None,
            ports: None,
            scheme: None,
            methods: None,
            paths: None,
            action: None,
            reason: None,
            opens_address: None,
        };
        for (key, value) in table {
            match &**key.get_ref() {
                "host" => raw.host = self.string(value, "host"),
                "ports" => raw.ports = Some(self.ports(value)),
                "scheme" => raw.scheme = self.word(value, "scheme", &SCHEMES),
                "methods" => {
                    raw.methods = Some(self.strings(value, "methods", "a rule without it is for every method"))
                }
                "paths" => raw.paths = Some(self.strings(value, "paths", "a rule without it is for every path")),
                "action" => raw.action = self.word(value, "action", &ACTIONS),
                "reason" => raw.reason = self.string(value, "reason"),
                "opens_address" => raw.opens_address = self.flag(value, "opens_address"),
                _ => self.unknown(key, "network.rules.", &KEYS),
            }
        }
        for (required, hint) in
            [("host", "add host = \"…\""), ("action", "add action = \"allow\" or action = \"deny\"")]
        {
            if !table.contains_key(required) {
                self.mistakes.add(&raw.place, format!("the rule has no `{required}`"), hint);
            }
        }
        self.document.rules.push(raw);
    }

    /// `all`, or a list of at least one port.
    fn ports(&mut self, value: &Value<'_>) -> RawPorts {
        if value.get_ref().as_str() == Some("all") {
            return RawPorts::All;
        }
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(value, "ports", "a list of numbers, such as [443], or \"all\"");
            return RawPorts::Of(Vec::new());
        };
        if array.is_empty() {
            let place = self.place_of(value);
            let hint = "take it out; without it an https rule is for port 443, an http rule for 80, a deny rule for every port";
            self.mistakes.add(&place, "`ports` is empty", hint);
        }
        let mut ports = Vec::new();
        for entry in array {
            match port(entry.get_ref()) {
                Some(port) => ports.push(port),
                None => {
                    let place = self.place_of(entry);
                    let hint = "write numbers from 1 to 65535, such as ports = [443, 8443]";
                    self.mistakes.add(&place, "it is no port", hint);
                }
            }
        }
        ports.sort_unstable();
        ports.dedup();
        RawPorts::Of(ports)
    }
}

fn port(value: &DeValue<'_>) -> Option<u16> {
    let number = value.as_integer()?;
    u16::from_str_radix(number.as_str(), number.radix()).ok().filter(|port| *port != 0)
}
