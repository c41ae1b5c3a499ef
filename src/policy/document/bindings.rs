//! `[[header_bindings]]`: what a credential is for.

use std::time::Duration;

use toml::de::DeTable;

use super::super::mistake::{At, Place, did_you_mean, quoted};
use super::super::mistral::MistralApiBinding;
use super::{NOT_YET, Reader, Value};

/// The kinds of binding, by their names in the seed.
const KINDS: [&str; 2] = ["header_binding", "mistral_api"];
const UNSUPPORTED_KINDS: [&str; 2] = ["github", "workspace_header_bindings"];

/// A binding with what was given of it.
#[derive(Debug)]
pub(in crate::policy) struct RawBinding {
    pub(in crate::policy) place: Place,
    pub(in crate::policy) host: Option<At<String>>,
    pub(in crate::policy) header: Option<At<String>>,
    pub(in crate::policy) secret_name: Option<At<String>>,
    pub(in crate::policy) path_prefix: Option<At<String>>,
    pub(in crate::policy) prefix: Option<At<String>>,
    pub(in crate::policy) suffix: Option<At<String>>,
    pub(in crate::policy) scrub: Option<At<bool>>,
}

/// A binding to the Mistral API with what was given of it.
#[derive(Debug)]
pub(in crate::policy) struct RawMistralApi {
    pub(in crate::policy) place: Place,
    pub(in crate::policy) host: Option<At<String>>,
    pub(in crate::policy) secret_name: Option<At<String>>,
    pub(in crate::policy) ttl: Option<Duration>,
    pub(in crate::policy) run_as: Option<At<String>>,
}

impl RawMistralApi {
    /// One of which nothing was given.
    pub(in crate::policy) fn at(place: Place) -> Self {
        Self { place, host: None, secret_name: None, ttl: None, run_as: None }
    }
}

impl Reader<'_> {
    pub(super) fn bindings(&mut self, value: &Value<'_>) {
        let Some(array) = value.get_ref().as_array() else {
            return self.wrong_type(value, "header_bindings", "tables, each under [[header_bindings]]");
        };
        if array.is_empty() {
            let place = self.place_of(value);
            self.mistakes.add(&place, "`header_bindings` is empty", "take it out, or add a [[header_bindings]] table");
        }
        for entry in array {
            match entry.get_ref().as_table() {
                Some(table) => self.binding(entry, table),
                None => self.wrong_type(entry, "header_bindings", "tables, each under [[header_bindings]]"),
            }
        }
    }

    fn binding(&mut self, entry: &Value<'_>, table: &DeTable<'_>) {
        let kind = table.get("kind").and_then(|kind| self.string(kind, "kind"));
        match kind.as_ref().map_or("header_binding", |kind| kind.value.as_str()) {
            "header_binding" => self.header_binding(entry, table),
            "mistral_api" => self.mistral_api(entry, table),
            _ => {}
        }
        if let Some(kind) = kind.filter(|kind| !KINDS.contains(&kind.value.as_str())) {
            let (what, cure) = if UNSUPPORTED_KINDS.contains(&kind.value.as_str()) {
                (format!("kind {} is not supported by this version", kind.value), NOT_YET.to_owned())
            } else {
                (format!("{} is not a kind of binding", quoted(&kind.value)), did_you_mean(&kind.value, &KINDS))
            };
            self.mistakes.add(&kind.place, what, cure);
        }
    }

    fn mistral_api(&mut self, entry: &Value<'_>, table: &DeTable<'_>) {
        let mut raw = RawMistralApi::at(self.place_of(entry));
        for (key, value) in table {
            match &**key.get_ref() {
                "kind" => {}
                "host" => raw.host = self.string(value, "host"),
                "secret_name" => raw.secret_name = self.string(value, "secret_name"),
                "ttl_seconds" => raw.ttl = self.bounded_seconds(value, "ttl_seconds", MistralApiBinding::MAX_TTL),
                "run_as" => raw.run_as = self.string(value, "run_as"),
                _ => self.unknown(key, "header_bindings.", &["kind", "host", "secret_name", "ttl_seconds", "run_as"]),
            }
        }
        self.document.mistral_apis.push(raw);
    }

    fn header_binding(&mut self, entry: &Value<'_>, table: &DeTable<'_>) {
        let place = self.place_of(entry);
        let mut raw = RawBinding {
            place,
            host: None,
            header: None,
            secret_name: None,
            path_prefix: None,
            prefix: None,
            suffix: None,
            scrub: None,
        };
        for (key, value) in table {
            match &**key.get_ref() {
                "kind" => {}
                "host" => raw.host = self.string(value, "host"),
                "header" => raw.header = self.string(value, "header"),
                "secret_name" => raw.secret_name = self.string(value, "secret_name"),
                "path_prefix" => raw.path_prefix = self.string(value, "path_prefix"),
                "prefix" => raw.prefix = self.text(value, "prefix"),
                "suffix" => raw.suffix = self.text(value, "suffix"),
                "scrub" => raw.scrub = self.flag(value, "scrub"),
                _ => self.unknown(
                    key,
                    "header_bindings.",
                    &["kind", "host", "header", "secret_name", "path_prefix", "prefix", "suffix", "scrub"],
                ),
            }
        }
        for required in ["host", "header", "secret_name"] {
            if !table.contains_key(required) {
                let hint = format!("add {required} = \"…\"");
                self.mistakes.add(&raw.place, format!("the binding has no `{required}`"), hint);
            }
        }
        self.document.bindings.push(raw);
    }
}
