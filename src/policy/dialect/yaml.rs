//! YAML 1.2 with places. Aliases are named and never followed, so a file cannot grow when it is read; a key that stands
//! twice is a mistake.

use std::collections::HashSet;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::super::lines::Lines;
use super::super::mistake::{At, Collector, Place, quoted};
use super::tree::{DEPTH, Node, Value};

/// Reads a text of one document; `None` when it is no YAML, which is in `mistakes` then.
pub(super) fn read(text: &str, lines: &Lines<'_>, mistakes: &mut Collector) -> Option<Node> {
    let mut builder = Builder { lines, mistakes, open: Vec::new(), documents: 0, root: None };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.event(event, &span.start)?,
            Err(error) => {
                let place = builder.place(error.marker());
                let (what, hint) = explained(&error);
                builder.mistakes.add(&place, what, hint);
                return None;
            }
        }
    }
    let empty = || Node { place: lines.at(1, 1), value: Value::Null };
    Some(builder.root.unwrap_or_else(empty))
}

/// A host pattern without quotes begins like an alias, which is what people run into.
fn explained(error: &ScanError) -> (String, &'static str) {
    if error.info().contains("unknown anchor") || error.info().contains("alias") {
        let what = "what begins with `*` is an alias in YAML, and there is none of this name".to_owned();
        return (what, "put a host pattern in quotes: \"*.example.com\"");
    }
    (format!("not valid YAML: {}", error.info()), "")
}

/// A list or mapping that has not ended yet.
struct Open {
    place: Place,
    tagged: bool,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map { entries: Vec<(At<String>, Node)>, seen: HashSet<String>, key: Option<Node> },
}

struct Builder<'a> {
    lines: &'a Lines<'a>,
    mistakes: &'a mut Collector,
    open: Vec<Open>,
    documents: usize,
    root: Option<Node>,
}

impl Builder<'_> {
    /// Takes the next event; `None` when nothing more is to be read.
    fn event(&mut self, event: Event<'_>, at: &Marker) -> Option<()> {
        let place = self.place(at);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.mistakes.add(&place, "a second document begins here", "write all of it as one document");
                    return None;
                }
            }
            Event::Alias(_) => self.add(Node { place, value: Value::Other("alias") }),
            Event::Scalar(text, style, _, tag) => {
                let value = match (is_foreign(tag.as_deref()), style) {
                    (true, _) => Value::Other("value with a tag"),
                    (false, ScalarStyle::Plain) if tag.is_none() => plain(&text),
                    (false, _) => Value::Text(text.into_owned()),
                };
                self.add(Node { place, value });
            }
            Event::SequenceStart(_, tag) => self.begin(place, tag.as_deref(), Kind::List(Vec::new()))?,
            Event::MappingStart(_, tag) => {
                let kind = Kind::Map { entries: Vec::new(), seen: HashSet::new(), key: None };
                self.begin(place, tag.as_deref(), kind)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
        Some(())
    }

    fn begin(&mut self, place: Place, tag: Option<&Tag>, kind: Kind) -> Option<()> {
        if self.open.len() >= DEPTH {
            self.mistakes.add(&place, format!("lists and mappings stand more than {DEPTH} deep in each other"), "");
            return None;
        }
        self.open.push(Open { place, tagged: is_foreign(tag), kind });
        Some(())
    }

    fn end(&mut self) {
        let Some(Open { place, tagged, kind }) = self.open.pop() else { return };
        let value = match kind {
            Kind::List(_) | Kind::Map { .. } if tagged => Value::Other("value with a tag"),
            Kind::List(nodes) => Value::List(nodes),
            Kind::Map { entries, .. } => Value::Map(entries),
        };
        self.add(Node { place, value });
    }

    /// Puts a whole node where it belongs.
    fn add(&mut self, node: Node) {
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(Kind::List(nodes)) => nodes.push(node),
            Some(Kind::Map { key: key @ None, .. }) => *key = Some(node),
            Some(Kind::Map { entries, seen, key: key @ Some(_) }) => {
                let Some(key) = key.take() else { return };
                let place = key.place;
                match key.value {
                    Value::Text(value) | Value::Number(value) if seen.insert(value.clone()) => {
                        entries.push((At { value, place }, node));
                    }
                    Value::Text(value) | Value::Number(value) => {
                        let what = format!("the key {} stands here twice", quoted(&value));
                        self.mistakes.add(&place, what, "keep one of them");
                    }
                    Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) | Value::Other(_) => {
                        self.mistakes.add(
                            &place,
                            "a key is a text",
                            "write a name, in quotes where YAML reads it otherwise",
                        );
                    }
                }
            }
        }
    }

    fn place(&self, at: &Marker) -> Place {
        self.lines.at(at.line().max(1), at.col() + 1)
    }
}

/// Any tag but that of a text.
fn is_foreign(tag: Option<&Tag>) -> bool {
    tag.is_some_and(|tag| !(tag.is_yaml_core_schema() && tag.suffix == "str"))
}

/// A scalar without quotes, by the core schema of YAML 1.2 (section 10.3.2): `yes` and `on` are texts.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    match (text.strip_prefix("0o"), text.strip_prefix("0x")) {
        (Some(octal), _) => digits(octal, 8),
        (_, Some(hexadecimal)) => digits(hexadecimal, 16),
        (None, None) if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") => true,
        (None, None) => {
            let begins = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            begins && unsigned.parse::<f64>().is_ok()
        }
    }
}
