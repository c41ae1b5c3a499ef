//! What is read of a body.

use std::borrow::Cow;

use super::super::denial::OutOfScope;
use super::super::json::Json;
use super::super::route::Shown;
use super::super::target::malformed;
use super::MAX_BODY;

/// A body, as nobody can read it in another way. No body at all is an object without fields.
pub(super) fn read(body: &[u8]) -> Result<Json<'_>, OutOfScope> {
    if body.len() > MAX_BODY {
        return Err(malformed(format!("the body is longer than {MAX_BODY} bytes")));
    }
    if body.is_empty() {
        return Ok(Json::Object(Vec::new()));
    }
    let quoted = |error: &dyn std::fmt::Display| malformed(Shown(&error.to_string()).to_string());
    Json::read(body).map_err(|error| quoted(&error))
}

/// The fields of the outermost object.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [(Cow<'a, str>, Json<'a>)]);

impl<'a> Fields<'a> {
    pub(super) fn get(self, key: &str) -> Option<&'a Json<'a>> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// A text; none where the key is not there or null.
    pub(super) fn text(self, key: &str) -> Result<Option<&'a str>, OutOfScope> {
        match self.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(Json::Bool(_) | Json::Number(_) | Json::List(_) | Json::Object(_)) => {
                Err(malformed(format!("`{key}` in the body is no text")))
            }
        }
    }

    pub(super) fn needed(self, key: &str) -> Result<&'a str, OutOfScope> {
        self.text(key)?.ok_or_else(|| malformed(format!("the body has no `{key}`")))
    }

    pub(super) fn flag(self, key: &str) -> Result<Option<bool>, OutOfScope> {
        match self.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Bool(flag)) => Ok(Some(*flag)),
            Some(Json::Text(_) | Json::Number(_) | Json::List(_) | Json::Object(_)) => {
                Err(malformed(format!("`{key}` in the body is not true or false")))
            }
        }
    }
}
