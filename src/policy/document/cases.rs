//! The `[[cases]]` of a policy file.

use toml::de::DeTable;

use super::super::mistake::{At, Place};
use super::{Reader, Value};

/// A case with what was given of it.
#[derive(Debug)]
pub(in super::super) struct RawCase {
    pub(in super::super) place: Place,
    pub(in super::super) request: Option<At<String>>,
    pub(in super::super) expect: Option<At<String>>,
    pub(in super::super) code: Option<At<String>>,
}

const KEYS: [&str; 3] = ["request", "expect", "code"];
const ANSWERS: [&str; 2] = ["permit", "deny"];

impl Reader<'_> {
    pub(super) fn cases(&mut self, value: &Value<'_>) {
        let Some(array) = value.get_ref().as_array() else {
            return self.wrong_type(value, "cases", "tables, each under [[cases]]");
        };
        if array.is_empty() {
            let place = self.place_of(value);
            self.mistakes.add(&place, "`cases` is empty", "take it out, or add a [[cases]] table");
        }
        for entry in array {
            match entry.get_ref().as_table() {
                Some(table) => self.case(entry, table),
                None => self.wrong_type(entry, "cases", "tables, each under [[cases]]"),
            }
        }
    }

    fn case(&mut self, entry: &Value<'_>, table: &DeTable<'_>) {
        let mut raw = RawCase { place: self.place_of(entry), request: None, expect: None, code: None };
        for (key, value) in table {
            match &**key.get_ref() {
                "request" => raw.request = self.string(value, "request"),
                "expect" => raw.expect = self.word(value, "expect", &ANSWERS),
                "code" => raw.code = self.string(value, "code"),
                _ => self.unknown(key, "cases.", &KEYS),
            }
        }
        for (required, hint) in [
            ("request", "add request = \"GET https://…\", \"tcp://HOST:PORT\" or \"dns:NAME\""),
            ("expect", "add expect = \"permit\" or expect = \"deny\""),
        ] {
            if !table.contains_key(required) {
                self.mistakes.add(&raw.place, format!("the case has no `{required}`"), hint);
            }
        }
        self.document.cases.push(raw);
    }
}
