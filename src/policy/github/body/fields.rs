//! The fields of a JSON body, of which no two readers can have different ideas.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::super::denial::OutOfScope;
use super::super::route::Shown;
use super::super::target::malformed;

/// The longest body that is read for a check, in bytes.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// The most keys of one object.
const MAX_KEYS: usize = 10_000;

/// A value of the outermost object; what is inside a nested one is not kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    /// A list, an object, or a number that is no whole one.
    Other,
}

/// The outermost object of a body, by key; none of a body that is another value.
pub(super) type Fields = BTreeMap<String, Value>;

/// Reads a body of JSON, in which a key of one object may not be there twice, on any level. No body at all is an object without fields.
pub(super) fn read(body: &[u8]) -> Result<Option<Fields>, OutOfScope> {
    if body.len() > MAX_BODY {
        return Err(malformed(format!("the body is longer than {MAX_BODY} bytes")));
    }
    if body.is_empty() {
        return Ok(Some(Fields::new()));
    }
    if body.starts_with(&[0xef, 0xbb, 0xbf]) {
        return Err(malformed("the body begins with a byte order mark"));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = Outermost.deserialize(&mut reader).and_then(|fields| reader.end().map(|()| fields));
    read.map_err(|error| malformed(format!("the body is not JSON that can be checked: {}", Shown(&error.to_string()))))
}

struct Outermost;

impl<'de> DeserializeSeed<'de> for Outermost {
    type Value = Option<Fields>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Outermost {
    type Value = Option<Fields>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Kept)?;
            if fields.len() == MAX_KEYS {
                return Err(A::Error::custom("an object has too many keys"));
            }
            if fields.insert(key, value).is_some() {
                return Err(A::Error::custom("an object has a key twice"));
            }
        }
        Ok(Some(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Kept.visit_seq(list).map(|_| None)
    }
}

/// Any value; what is nested is only looked through.
struct Kept;

impl<'de> DeserializeSeed<'de> for Kept {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kept {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        while list.next_element_seed(Self)?.is_some() {}
        Ok(Value::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(Self)?;
            if keys.len() == MAX_KEYS {
                return Err(A::Error::custom("an object has too many keys"));
            }
            if !keys.insert(key) {
                return Err(A::Error::custom("an object has a key twice"));
            }
        }
        Ok(Value::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_two_readings_is_refused() {
        let deep = "[".repeat(10_000);
        let many = format!("{{{}}}", (0..=MAX_KEYS).map(|key| format!("\"{key}\":0")).collect::<Vec<_>>().join(","));
        let cases = [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"x":[{"a":{"b":1,"b":1}}]}"#,
            r#"[{"a":1,"a":2}]"#,
            "\u{feff}{}",
            "{} {}",
            "{\"a\":1,}",
            "{'a':1}",
            "7",
            " ",
            "a=b",
            &deep,
            &many,
        ];
        for body in cases {
            assert!(read(body.as_bytes()).is_err(), "{}", &body[..body.len().min(60)]);
        }
        assert!(read(b"{\"a\":\"\xff\"}").is_err());
        let quoted = read(format!("\"{}\"", "a".repeat(100_000)).as_bytes()).unwrap_err();
        assert!(quoted.message.len() < 300, "{}", quoted.message.len());
        assert!(read(&vec![b' '; MAX_BODY + 1]).is_err());
    }

    #[test]
    fn fields_are_those_of_the_outermost_object() {
        let fields = read(br#"{"a":"x","b":1,"c":true,"d":null,"e":{"a":2},"f":-1,"g":1.0}"#).unwrap().unwrap();
        let expected = [
            ("a", Value::Text("x".to_owned())),
            ("b", Value::Number(1)),
            ("c", Value::Bool(true)),
            ("d", Value::Null),
            ("e", Value::Other),
            ("f", Value::Other),
            ("g", Value::Other),
        ];
        assert!(fields.into_iter().eq(expected.into_iter().map(|(key, value)| (key.to_owned(), value))));
        assert_eq!(read(b"").unwrap(), Some(Fields::new()));
        assert_eq!(read(b"[1]").unwrap(), None);
    }
}
