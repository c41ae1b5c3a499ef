//! JSON (RFC 8259) with places. A key that stands twice is a mistake: readers differ in which one counts.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::lines::Lines;
use super::super::mistake::{At, Collector, quoted};
use super::tree::{DEPTH, Node, Value};

/// Reads a whole text; `None` when it is no JSON, which is in `mistakes` then.
pub(super) fn read(text: &str, lines: &Lines<'_>, mistakes: &mut Collector) -> Option<Node> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Json { text, lines, mistakes }.node(raw, DEPTH),
        Err(error) => {
            let whole = error.to_string();
            let what = whole.split(" at line ").next().unwrap_or(&whole);
            mistakes.add(&lines.at(error.line().max(1), error.column().max(1)), format!("not valid JSON: {what}"), "");
            None
        }
    }
}

struct Json<'a> {
    text: &'a str,
    lines: &'a Lines<'a>,
    mistakes: &'a mut Collector,
}

impl Json<'_> {
    fn node(&mut self, raw: &RawValue, deeper: usize) -> Option<Node> {
        let place = self.lines.place(self.offset(raw));
        let Some(deeper) = deeper.checked_sub(1) else {
            self.mistakes.add(&place, format!("lists and objects stand more than {DEPTH} deep in each other"), "");
            return None;
        };
        let value = match raw.get().as_bytes().first()? {
            b'{' => self.map(raw, deeper)?,
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
                Value::List(items.into_iter().filter_map(|item| self.node(item, deeper)).collect())
            }
            b'"' => Value::Text(self.string(raw)?.value),
            b'n' => Value::Null,
            b't' => Value::Bool(true),
            b'f' => Value::Bool(false),
            _ => Value::Number(raw.get().to_owned()),
        };
        Some(Node { place, value })
    }

    fn map(&mut self, raw: &RawValue, deeper: usize) -> Option<Value> {
        let Entries(entries) = serde_json::from_str(raw.get()).ok()?;
        let mut seen = HashSet::new();
        let mut map = Vec::new();
        for (key, value) in entries {
            let Some(key) = self.string(key) else { continue };
            if !seen.insert(key.value.clone()) {
                let what = format!("the key {} stands here twice", quoted(&key.value));
                self.mistakes.add(&key.place, what, "keep one of them");
                continue;
            }
            map.extend(self.node(value, deeper).map(|node| (key, node)));
        }
        Some(Value::Map(map))
    }

    /// Escapes such as half a surrogate pair are JSON and no text.
    fn string(&mut self, raw: &RawValue) -> Option<At<String>> {
        let place = self.lines.place(self.offset(raw));
        match serde_json::from_str(raw.get()) {
            Ok(value) => Some(At { value, place }),
            Err(_) => {
                self.mistakes.add(&place, "it is no text: an escape in it stands for no character", "");
                None
            }
        }
    }

    /// Where a part of the text begins in it.
    fn offset(&self, raw: &RawValue) -> usize {
        raw.get().as_ptr() as usize - self.text.as_ptr() as usize
    }
}

/// The entries of an object in their order, repeats included.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Vec<(&'de RawValue, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Each).map(Entries).map_err(D::Error::custom)
    }
}
