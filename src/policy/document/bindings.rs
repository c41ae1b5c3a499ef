//! `[[header_bindings]]`: what a credential is for.

use std::time::Duration;

use toml::de::DeTable;

use super::super::binding::{Field, Kind};
use super::super::mistake::{At, Place, did_you_mean, quoted};
use super::super::mistral::MistralApiBinding;
use super::{Reader, Value};

/// Kinds of their own, beside those of [`Kind`].
const MISTRAL_API: &str = "mistral_api";
const GITHUB: &str = "github";
const WORKSPACE: &str = "workspace_header_bindings";

/// A binding with what was given of it.
#[derive(Debug)]
pub(in crate::policy) struct RawBinding {
    pub(in crate::policy) place: Place,
    pub(in crate::policy) kind: Kind,
    pub(in crate::policy) fields: Vec<(Field, At<String>)>,
    pub(in crate::policy) scrub: Option<At<bool>>,
}

impl RawBinding {
    /// What was given of a field.
    pub(in crate::policy) fn get(&self, field: Field) -> Option<&At<String>> {
        self.fields.iter().find(|(known, _)| *known == field).map(|(_, at)| at)
    }
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
        let written = table.get("kind").and_then(|kind| self.string(kind, "kind"));
        let name = written.as_ref().map_or(Kind::Header.name(), |kind| kind.value.as_str());
        match Kind::ALL.into_iter().find(|kind| kind.name() == name) {
            Some(kind) => self.binding_of(kind, entry, table),
            None if name == MISTRAL_API => self.mistral_api(entry, table),
            None if name == GITHUB => self.github(entry, table),
            None if name == WORKSPACE => self.workspace_rules(entry, table),
            None => {
                let known = Kind::ALL.iter().map(|kind| kind.name()).chain([MISTRAL_API, GITHUB, WORKSPACE]);
                let known: Vec<&str> = known.collect();
                let (what, cure) = (format!("{} is not a kind of binding", quoted(name)), did_you_mean(name, &known));
                let place = written.as_ref().map_or_else(|| self.place_of(entry), |kind| kind.place.clone());
                self.mistakes.add(&place, what, cure);
            }
        }
    }

    /// The rules themselves are the workspace's, which an administrator has made.
    fn workspace_rules(&mut self, entry: &Value<'_>, table: &DeTable<'_>) {
        table.iter().filter(|(key, _)| &**key.get_ref() != "kind").for_each(|(key, _)| {
            self.unknown(key, "header_bindings.", &["kind"]);
        });
        let place = self.place_of(entry);
        self.of_service(place, format!("a binding of the kind {WORKSPACE}"));
        self.document.workspace_rules = true;
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

    fn binding_of(&mut self, kind: Kind, entry: &Value<'_>, table: &DeTable<'_>) {
        let known: Vec<Field> = kind.required().iter().chain(kind.optional()).copied().collect();
        let mut raw = RawBinding { place: self.place_of(entry), kind, fields: Vec::new(), scrub: None };
        // What TLS uses is in no request, so no answer can show it.
        let has_scrub = kind != Kind::ClientCertificate;
        for (key, value) in table {
            let name = &**key.get_ref();
            match known.iter().find(|field| field.key() == name) {
                Some(&field) => {
                    let text = if field.may_be_empty() {
                        self.text(value, field.key())
                    } else {
                        self.string(value, field.key())
                    };
                    raw.fields.extend(text.map(|text| (field, text)));
                }
                None if name == "kind" => {}
                None if name == "scrub" && has_scrub => raw.scrub = self.flag(value, "scrub"),
                None => {
                    let keys = ["kind"].into_iter().chain(known.iter().map(|field| field.key()));
                    let keys: Vec<&str> = keys.chain(has_scrub.then_some("scrub")).collect();
                    self.unknown(key, "header_bindings.", &keys);
                }
            }
        }
        for required in kind.required().iter().map(|field| field.key()) {
            if !table.contains_key(required) {
                let hint = format!("add {required} = \"…\"");
                self.mistakes.add(&raw.place, format!("the binding has no `{required}`"), hint);
            }
        }
        if kind == Kind::Basic {
            self.one_user(&raw.place, table);
        }
        self.document.bindings.push(raw);
    }

    fn one_user(&mut self, place: &Place, table: &DeTable<'_>) {
        let what = match [Field::User, Field::UserSecret].map(|field| table.contains_key(field.key())) {
            [true, true] => "the binding has both `user` and `user_secret`",
            [false, false] => "the binding has no user",
            [true, false] | [false, true] => return,
        };
        self.mistakes.add(place, what, "give one of user = \"NAME\" or user_secret = \"SECRET\"");
    }
}
