//! JSON of the sandbox, read in the one way in which every server reads it: no key twice, no byte order mark, nothing behind the
//! end. What two parsers could read differently is refused.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// How deep a document of the sandbox may be nested.
pub const DEPTH: usize = 64;

/// The most keys of one object.
pub const KEYS: usize = 10_000;

/// A JSON value. Texts are borrowed where they have no escapes.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// Any number.
    Number(serde_json::Number),
    /// A string, its escapes resolved.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<Json<'a>>),
    /// An object, in its order. No key is there twice.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// What is wrong, and where, as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSON cannot be read: {0}")]
pub struct JsonError(String);

impl<'a> Json<'a> {
    /// The only value of these bytes.
    ///
    /// # Errors
    /// No JSON (RFC 8259), no UTF-8, a byte order mark, a key twice in one object, more than [`KEYS`] keys in one, more than [`DEPTH`] levels, a number that no 64 bits
    /// can hold, or something behind the value.
    pub fn read(bytes: &'a [u8]) -> Result<Self, JsonError> {
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(JsonError("it begins with a byte order mark".to_owned()));
        }
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let value = Tree { left: DEPTH }.deserialize(&mut deserializer);
        let value = value.and_then(|value| deserializer.end().map(|()| value));
        value.map_err(|error| JsonError(error.to_string().replace(['\r', '\n'], " ")))
    }

    /// The value of a key, where this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries()?.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The string, where it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The number, where it is a whole one that is not negative.
    pub fn whole(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64(),
            Self::Null | Self::Bool(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The items, where it is an array.
    pub fn items(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::Object(_) => None,
        }
    }

    /// Keys and values, where it is an object.
    pub fn entries(&self) -> Option<&[(Cow<'a, str>, Self)]> {
        match self {
            Self::Object(entries) => Some(entries),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => None,
        }
    }
}

/// Reads one value, with so many levels left.
struct Tree {
    left: usize,
}

impl Tree {
    fn below<E: Error>(&self) -> Result<Self, E> {
        let left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| E::custom(format_args!("it is nested deeper than {DEPTH} levels")))?;
        Ok(Self { left })
    }
}

impl<'a> DeserializeSeed<'a> for Tree {
    type Value = Json<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Json<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Tree {
    type Value = Json<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'a>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'a>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'a>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'a>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json<'a>, E> {
        serde_json::Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("a number is too large"))
    }

    fn visit_borrowed_str<E>(self, value: &'a str) -> Result<Json<'a>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'a>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut access: A) -> Result<Json<'a>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.below()?)? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'a>>(self, mut access: A) -> Result<Json<'a>, A::Error> {
        let (mut entries, mut many) = (Vec::<(Cow<'a, str>, Json<'a>)>::new(), HashSet::new());
        while let Some(key) = access.next_key_seed(Key)? {
            // A search through a list is the quicker one while it is short.
            let twice = if entries.len() < FEW {
                entries.iter().any(|(name, _)| *name == key)
            } else {
                if many.is_empty() {
                    many.extend(entries.iter().map(|(name, _)| name.clone()));
                }
                !many.insert(key.clone())
            };
            if twice {
                return Err(A::Error::custom("a key is there twice"));
            }
            if entries.len() == KEYS {
                return Err(A::Error::custom(format_args!("an object has more than {KEYS} keys")));
            }
            let value = access.next_value_seed(self.below()?)?;
            entries.push((key, value));
        }
        Ok(Json::Object(entries))
    }
}

const FEW: usize = 16;

/// A key, borrowed where it can be.
struct Key;

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Cow<'a, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Key {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, value: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Owned(value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read() {
        let text = br#" {"a":[1,-2,1.5,null,true,"x"],"b":{"\u0061":"\u00e9\n"},"c":18446744073709551615} "#;
        let json = Json::read(text).unwrap();
        assert_eq!(json.get("a").and_then(Json::items).map(<[_]>::len), Some(6));
        assert_eq!(json.get("b").and_then(|b| b.get("a")).and_then(Json::text), Some("é\n"));
        assert_eq!(json.get("c").and_then(Json::whole), Some(u64::MAX));
        assert_eq!(json.get("d"), None);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let many = |last: &str| {
            let keys: Vec<_> = (0..40).map(|at| format!("\"k{at}\":0")).collect();
            format!("{{{},\"{last}\":1}}", keys.join(","))
        };
        assert!(Json::read(many("other").as_bytes()).is_ok());
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = format!("{{{}}}", (0..=KEYS).map(|key| format!("\"{key}\":0")).collect::<Vec<_>>().join(","));
        let cases = [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":1}"#,
            r#"[{"b":{"x":[],"x":[]}}]"#,
            &many("k0"),
            &many("k39"),
            "\u{feff}{}",
            "{}{}",
            "{} x",
            "{'a':1}",
            "{\"a\":1,}",
            "// x\n{}",
            "NaN",
            "01",
            "1e999",
            "\"\\ud800\"",
            "\"a\nb\"",
            "",
            &deep,
            &long,
        ];
        for text in cases {
            assert!(Json::read(text.as_bytes()).is_err(), "{}", &text[..text.len().min(60)]);
        }
        assert!(Json::read(b"\"\xff\"").is_err());
    }

    #[test]
    fn sixty_four_levels_are_the_most() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::read(nested(DEPTH).as_bytes()).is_ok());
        assert!(Json::read(nested(DEPTH + 1).as_bytes()).is_err());
    }
}
