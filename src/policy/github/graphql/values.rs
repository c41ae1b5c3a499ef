//! Arguments of a field with the variables filled in.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use super::super::denial::OutOfScope;
use super::super::json::Json;
use super::document::{Value, Variable};
use super::words::{malformed, quoted};

/// How many values the checked arguments of a document may have, each counted where it is used.
const VALUES: usize = 200_000;

/// The variables of one operation: what it declares, and what the request gives.
pub(super) struct Variables<'d> {
    declared: HashMap<&'d str, &'d Variable<'d>>,
    given: HashMap<&'d str, &'d Json<'d>>,
    left: Cell<usize>,
}

/// A value, wherever in the request it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Input<'d> {
    Null,
    Bool(bool),
    Number,
    Text(Cow<'d, str>),
    Enum(&'d str),
    List(Vec<Input<'d>>),
    Object(Vec<(&'d str, Input<'d>)>),
}

impl<'d> Variables<'d> {
    pub fn new(given: &'d [(Cow<'d, str>, Json<'d>)]) -> Self {
        let given = given.iter().map(|(name, value)| (name.as_ref(), value)).collect();
        Self { declared: HashMap::new(), given, left: Cell::new(VALUES) }
    }

    /// Goes on to an operation.
    pub fn declare(&mut self, declared: &'d [Variable<'d>]) {
        self.declared = declared.iter().map(|variable| (variable.name, variable)).collect();
    }

    /// A value; none where it is a variable that nobody gave and that has no default.
    ///
    /// # Errors
    /// A variable that the operation does not declare, and a string with an escape that parsers read differently.
    pub fn resolve(&self, value: &'d Value<'d>) -> Result<Option<Input<'d>>, OutOfScope> {
        self.count()?;
        Ok(Some(match value {
            Value::Null => Input::Null,
            Value::Bool(value) => Input::Bool(*value),
            Value::Number => Input::Number,
            Value::Enum(name) => Input::Enum(name),
            Value::Text(raw) => Input::Text(unescape(raw)?),
            Value::Variable(name) => return self.variable(name),
            Value::List(items) => {
                let items = items.iter().map(|item| Ok(self.resolve(item)?.unwrap_or(Input::Null)));
                Input::List(items.collect::<Result<_, OutOfScope>>()?)
            }
            Value::Object(entries) => {
                let mut object = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    if let Some(value) = self.resolve(value)? {
                        object.push((*key, value));
                    }
                }
                Input::Object(object)
            }
        }))
    }

    fn variable(&self, name: &str) -> Result<Option<Input<'d>>, OutOfScope> {
        let declared = self.declared.get(name);
        let declared =
            declared.ok_or_else(|| malformed(format!("the variable `${}` is not declared", quoted(name))))?;
        if let Some(value) = self.given.get(name) {
            return self.input(value).map(Some);
        }
        // A default has no variables in it.
        declared.default.as_ref().map_or(Ok(None), |default| self.resolve(default))
    }

    fn input(&self, json: &'d Json<'d>) -> Result<Input<'d>, OutOfScope> {
        self.count()?;
        Ok(match json {
            Json::Null => Input::Null,
            Json::Bool(value) => Input::Bool(*value),
            Json::Number(_) => Input::Number,
            Json::Text(text) => Input::Text(Cow::Borrowed(text)),
            Json::List(items) => Input::List(items.iter().map(|item| self.input(item)).collect::<Result<_, _>>()?),
            Json::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| Ok((key.as_ref(), self.input(value)?)));
                Input::Object(entries.collect::<Result<_, OutOfScope>>()?)
            }
        })
    }

    fn count(&self) -> Result<(), OutOfScope> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.ok_or_else(|| malformed(format!("the arguments have more than {VALUES} values")))?);
        Ok(())
    }
}

impl<'d> Input<'d> {
    /// The string, where it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number | Self::Enum(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The name of an enum's value, which a variable gives as a string.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Enum(name) => Some(name),
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The value of a key; none where it is null, too.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let found = self.entries()?.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        found.filter(|value| **value != Self::Null)
    }

    pub fn entries(&self) -> Option<&[(&'d str, Self)]> {
        match self {
            Self::Object(entries) => Some(entries),
            Self::Null | Self::Bool(_) | Self::Number | Self::Text(_) | Self::Enum(_) | Self::List(_) => None,
        }
    }

    /// The items of a list. GraphQL takes a single value for a list of one.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Null => &[],
            Self::Bool(_) | Self::Number | Self::Text(_) | Self::Enum(_) | Self::Object(_) => {
                std::slice::from_ref(self)
            }
        }
    }
}

/// A string's value. The escapes are those of the specification that every parser agrees on; for others there are variables.
fn unescape(raw: &str) -> Result<Cow<'_, str>, OutOfScope> {
    if !raw.contains('\\') {
        return Ok(Cow::Borrowed(raw));
    }
    let (mut text, mut chars) = (String::with_capacity(raw.len()), raw.chars());
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        text.push(match (c, escaped) {
            ('\\', Some(plain @ ('"' | '\\' | '/'))) => plain,
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('t')) => '\t',
            ('\\', _) => {
                return Err(malformed("a string has an escape that is not served here; give the text as a variable"));
            }
            (plain, _) => plain,
        });
    }
    Ok(Cow::Owned(text))
}
