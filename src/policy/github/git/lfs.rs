//! git-lfs: what is asked of the batch API, and which URLs its answer names (git-lfs `docs/api/batch.md`).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::denial::{Code, OutOfScope};

/// The longest body of a request, in bytes.
const REQUEST_MAX: usize = 4 << 20;
/// The longest answer that is read, in bytes; links to storage are long.
const ANSWER_MAX: usize = 16 << 20;
/// The most objects of one answer; git-lfs asks for 100.
const OBJECTS_MAX: usize = 10_000;
/// The longest a URL may be used after an answer named it.
const LIFE_MAX: Duration = Duration::from_secs(3600);
/// How long it may where the answer does not say.
const LIFE: Duration = Duration::from_secs(900);

/// What objects are asked for. The ref that a request names as well is not checked by GitHub, so that it narrows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To read them.
    Download,
    /// To write them.
    Upload,
}

/// A URL that an answer names, and may be asked for because it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The URL, https, as the answer has it.
    pub url: String,
    /// The one method that it is for: GET for downloads, PUT for uploads, POST for the check after one.
    pub method: &'static str,
    /// For how long, at most an hour; zero where it is over already.
    pub life: Duration,
}

/// Reads a request to `…/info/lfs/objects/batch`.
///
/// # Errors
/// [`Code::Malformed`] for what is no such request, has a key twice (capitals or not), or is over 4 MiB.
pub fn request(body: &[u8]) -> Result<Operation, OutOfScope> {
    if body.len() > REQUEST_MAX {
        return Err(malformed("it is over 4 MiB"));
    }
    let mut fields: Fields = parse(body)?;
    match fields.take::<String>("operation")?.as_deref() {
        Some("download") => Ok(Operation::Download),
        Some("upload") => Ok(Operation::Upload),
        Some(_) | None => Err(malformed("its operation is neither download nor upload")),
    }
}

/// The URLs that an answer names, read at `now`. Those that are no https URL, and actions that git-lfs does not know, are left out:
/// what is not in the list is refused later.
///
/// # Errors
/// [`Code::Malformed`] for what is no such answer or is too long to be read.
pub fn capabilities(answer: &[u8], now: OffsetDateTime) -> Result<Vec<Capability>, OutOfScope> {
    if answer.len() > ANSWER_MAX {
        return Err(malformed("the answer is over 16 MiB"));
    }
    let mut fields: Fields = parse(answer)?;
    let objects: Vec<Fields> = fields.take("objects")?.unwrap_or_default();
    if objects.len() > OBJECTS_MAX {
        return Err(malformed("the answer has more than 10000 objects"));
    }
    let mut found = Vec::new();
    for mut object in objects {
        let Some(mut actions) = object.take::<Option<Fields>>("actions")?.flatten() else { continue };
        for (name, method) in [("download", "GET"), ("upload", "PUT"), ("verify", "POST")] {
            if let Some(action) = actions.take::<Option<Fields>>(name)?.flatten() {
                found.extend(capability(action, method, now)?);
            }
        }
    }
    Ok(found)
}

fn capability(mut action: Fields, method: &'static str, now: OffsetDateTime) -> Result<Option<Capability>, OutOfScope> {
    let Some(url) = action.take::<String>("href")? else { return Ok(None) };
    let seconds: Option<i64> = action.take::<Option<i64>>("expires_in")?.flatten();
    let at: Option<String> = action.take::<Option<String>>("expires_at")?.flatten();
    // As git-lfs does: the seconds, where there are any, are what counts.
    let life = match (seconds.filter(|&seconds| seconds != 0), at.as_deref().filter(|at| !at.is_empty())) {
        (Some(seconds), _) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
        (None, Some(at)) => {
            let at = OffsetDateTime::parse(at, &Rfc3339).map_err(|_| malformed("expires_at is no time"))?;
            Duration::try_from(at - now).unwrap_or_default()
        }
        (None, None) => LIFE,
    };
    let https = url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    Ok(https.then(|| Capability { url, method, life: life.min(LIFE_MAX) }))
}

/// An object of JSON in which no key is there twice, whatever its capitals: readers do not agree which one counts.
#[derive(Debug, Default)]
struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    /// The value of a key, or none where it is missing.
    fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, OutOfScope> {
        self.0.remove(key).map(|raw| parse(raw.get().as_bytes())).transpose()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = BTreeMap::new();
                let mut folded = std::collections::HashSet::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if !folded.insert(key.to_lowercase()) {
                        return Err(A::Error::custom("a key is there twice"));
                    }
                    fields.insert(key, value);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, OutOfScope> {
    serde_json::from_slice(json).map_err(malformed)
}

fn malformed(why: impl fmt::Display) -> OutOfScope {
    OutOfScope::new(Code::Malformed, format!("this git-lfs batch cannot be checked: {why}"))
}

#[cfg(test)]
mod tests;
