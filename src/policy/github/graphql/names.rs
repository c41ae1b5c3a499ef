//! Names as numbers, so that the walk compares and looks up numbers: each name of a document is looked up once, however often a fragment
//! is used. The maps of numbers, and of what the table says, have a quick hash without a seed: the bounds of a document leave little room
//! for keys that meet.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::table::TABLE;

/// A name's number: the same for the same name, as far as one document goes. Names of the table have theirs everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameId(u32);

/// The names of the table.
#[derive(Debug, Default)]
pub(super) struct TableNames {
    ids: FxHashMap<&'static str, NameId>,
}

impl TableNames {
    /// The number of a name, which gets one here.
    pub fn add(&mut self, name: &'static str) -> NameId {
        let next = NameId(u32::try_from(self.ids.len()).expect("the table is small"));
        *self.ids.entry(name).or_insert(next)
    }

    pub fn get(&self, name: &str) -> Option<NameId> {
        self.ids.get(name).copied()
    }

    fn count(&self) -> usize {
        self.ids.len()
    }
}

/// The names of a document: those that the table does not have get the numbers behind.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    others: HashMap<&'a str, NameId>,
}

impl<'a> Names<'a> {
    /// The number of a name.
    pub fn id(&mut self, name: &'a str) -> NameId {
        let names = TABLE.names();
        names.get(name).unwrap_or_else(|| {
            // The bounds of a document keep this far below the most that a number can be.
            let next = u32::try_from(names.count() + self.others.len()).unwrap_or(u32::MAX);
            *self.others.entry(name).or_insert(NameId(next))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        let mut names = Names::default();
        let (title, mine, other) = (names.id("title"), names.id("mine"), names.id("other"));
        assert_eq!(TABLE.names().get("title"), Some(title));
        assert_eq!((names.id("mine"), names.id("other")), (mine, other));
        assert!(TABLE.names().get("mine").is_none() && mine != other && mine != title);
        assert!(TABLE.names().ids.values().all(|id| *id != mine && *id != other));
    }
}
