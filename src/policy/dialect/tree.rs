//! What a JSON or YAML file holds, with places: one shape for both, read by [`Reader`], which reports what does not fit.

use super::super::mistake::{At, Collector, Place, Warning, did_you_mean, quoted};

/// How deep lists and mappings may stand in each other: far more than any file of these kinds has.
pub(super) const DEPTH: usize = 32;

/// A value and where it stands.
#[derive(Debug)]
pub(in super::super) struct Node {
    pub(in super::super) place: Place,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// As it is written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// No key stands in it twice.
    Map(Vec<(At<String>, Node)>),
    /// What YAML has besides: an alias, or a value with a tag. It is named, never followed.
    Other(&'static str),
}

impl Node {
    /// The value of a key, where this is a mapping that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|(name, _)| name.value == key).map(|(_, node)| node)
    }

    /// Whether nothing is in it: null, false, or an empty list, mapping or text.
    pub(super) fn is_nothing(&self) -> bool {
        match &self.value {
            Value::Null | Value::Bool(false) => true,
            Value::Text(text) => text.is_empty(),
            Value::List(nodes) => nodes.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            Value::Bool(true) | Value::Number(_) | Value::Other(_) => false,
        }
    }

    fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::Text(_) => "text",
            Value::List(_) => "list",
            Value::Map(_) => "mapping",
            Value::Other(what) => what,
        }
    }
}

/// Reads values of the type that is wanted, and keeps what is wrong.
pub(super) struct Reader<'m> {
    pub(super) mistakes: &'m mut Collector,
    pub(super) warnings: Vec<Warning>,
}

impl<'m> Reader<'m> {
    pub(super) fn new(mistakes: &'m mut Collector) -> Self {
        Self { mistakes, warnings: Vec::new() }
    }

    /// The entries of a mapping.
    pub(super) fn map<'n>(&mut self, node: &'n Node, name: &str) -> &'n [(At<String>, Node)] {
        if let Value::Map(entries) = &node.value {
            return entries;
        }
        self.wrong_type(node, name, "a mapping");
        &[]
    }

    pub(super) fn bool(&mut self, node: &Node, name: &str) -> Option<At<bool>> {
        if let Value::Bool(value) = node.value {
            return Some(At { value, place: node.place.clone() });
        }
        self.wrong_type(node, name, "true or false");
        None
    }

    /// A text, which may be empty.
    pub(super) fn text(&mut self, node: &Node, name: &str) -> Option<At<String>> {
        if let Value::Text(text) = &node.value {
            return Some(At { value: text.clone(), place: node.place.clone() });
        }
        self.wrong_type(node, name, "a text");
        None
    }

    /// A list of texts, which may be empty.
    pub(super) fn texts(&mut self, node: &Node, name: &str) -> Vec<At<String>> {
        if let Value::List(nodes) = &node.value {
            return nodes.iter().filter_map(|node| self.text(node, name)).collect();
        }
        self.wrong_type(node, name, "a list of texts");
        Vec::new()
    }

    pub(super) fn wrong_type(&mut self, node: &Node, name: &str, right: &str) {
        let what = format!("`{name}` cannot be of type {}", node.kind());
        self.mistakes.add(&node.place, what, format!("it takes {right}"));
    }

    pub(super) fn unknown(&mut self, key: &At<String>, before: &str, known: &[&str]) {
        let what = format!("unknown key {}", quoted(&format!("{before}{}", key.value)));
        self.mistakes.add(&key.place, what, did_you_mean(&key.value, known));
    }

    pub(super) fn warn(&mut self, place: &Place, what: impl Into<String>) {
        self.warnings.push(Warning { place: place.clone(), what: what.into() });
    }
}
