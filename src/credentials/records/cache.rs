//! A bounded memory of what was learned.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::SystemTime;

/// As many entries as it may hold, each until its time; where there is no room, those go that were not asked for longest. Half of
/// them are moved at a time, so that an insertion costs the same at any size.
pub(super) struct Cache<K, V> {
    half: usize,
    young: HashMap<K, (V, SystemTime)>,
    old: HashMap<K, (V, SystemTime)>,
}

impl<K: Eq + Hash, V: Copy> Cache<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { half: most / 2, young: HashMap::new(), old: HashMap::new() }
    }

    pub(super) fn insert(&mut self, key: K, value: V, until: SystemTime) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, (value, until));
    }

    /// Forgets the values of which this holds.
    pub(super) fn forget(&mut self, holds: impl Fn(&V) -> bool) {
        self.young.retain(|_, (value, _)| !holds(value));
        self.old.retain(|_, (value, _)| !holds(value));
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, now: SystemTime) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if let Some((found, (value, until))) = self.old.remove_entry(key)
            && !self.young.contains_key(key)
        {
            self.insert(found, value, until);
        }
        let (value, until) = self.young.get(key)?;
        (now < *until).then_some(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_holds_no_more_than_it_may_and_keeps_what_is_asked_for() {
        let (now, until) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_secs(60));
        let mut cache = Cache::new(100);
        for number in 0..10_000_u32 {
            cache.insert(number, number, until);
            assert!(cache.young.len() + cache.old.len() <= 100);
            assert_eq!(cache.get(&0, now), Some(0), "{number}");
        }
        assert_eq!((cache.get(&9_999, now), cache.get(&5, now)), (Some(9_999), None));
    }

    #[test]
    fn what_has_ended_is_not_found_and_what_is_new_counts() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut cache = Cache::new(4);
        cache.insert("a", 1, at(10));
        assert_eq!((cache.get("a", at(9)), cache.get("a", at(10))), (Some(1), None));
        cache.insert("b", 1, at(10));
        cache.insert("c", 1, at(10));
        cache.insert("a", 2, at(20));
        assert_eq!(cache.get("a", at(15)), Some(2));
    }
}
