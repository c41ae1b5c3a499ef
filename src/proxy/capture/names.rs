//! Addresses made up for names that get no real one.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::types::HostName;

/// The first address of 198.18.0.0/15 (RFC 2544), which is nobody's on the internet.
const BASE: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// Names remembered at a time; the oldest one's address goes to the next new name. A connection to an address that has
/// changed hands is for the new name, so its TLS handshake or Host disagrees and it is refused.
const NAMES: usize = 16 * 1024;

/// Which name an address of the sandbox's own stands for.
#[derive(Debug, Default)]
pub struct Synthetic {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_name: HashMap<HostName, u32>,
    by_offset: HashMap<u32, HostName>,
    order: VecDeque<HostName>,
}

impl Synthetic {
    /// The address of a name, the same one while it is remembered.
    pub fn address(&self, name: &HostName) -> Ipv4Addr {
        let mut inner = self.lock();
        if let Some(&offset) = inner.by_name.get(name) {
            return Ipv4Addr::from(BASE + offset);
        }
        let recycled = if inner.order.len() < NAMES { None } else { inner.order.pop_front() };
        let offset = recycled.and_then(|old| inner.by_name.remove(&old)).unwrap_or(inner.order.len() as u32 + 1);
        inner.by_name.insert(name.clone(), offset);
        inner.by_offset.insert(offset, name.clone());
        inner.order.push_back(name.clone());
        Ipv4Addr::from(BASE + offset)
    }

    /// The name that an address stands for.
    pub fn name(&self, address: IpAddr) -> Option<HostName> {
        let IpAddr::V4(v4) = address else { return None };
        let offset = u32::from(v4).checked_sub(BASE)?;
        self.lock().by_offset.get(&offset).cloned()
    }

    /// Nothing here panics half-way, so a poisoned lock still holds good maps.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(i: usize) -> HostName {
        HostName::parse(&format!("n{i}.test")).unwrap()
    }

    #[test]
    fn a_name_keeps_its_address() {
        let names = Synthetic::default();
        let first = names.address(&name(1));
        assert_eq!(first, Ipv4Addr::new(198, 18, 0, 1));
        assert_ne!(names.address(&name(2)), first);
        assert_eq!(names.address(&name(1)), first);
        assert_eq!(names.name(first.into()), Some(name(1)));
        assert_eq!(names.name(Ipv4Addr::new(198, 18, 9, 9).into()), None);
        assert_eq!(names.name(Ipv4Addr::new(1, 1, 1, 1).into()), None);
    }

    #[test]
    fn the_oldest_name_makes_room() {
        let names = Synthetic::default();
        let first = names.address(&name(0));
        for i in 1..=NAMES {
            names.address(&name(i));
        }
        assert_eq!(names.name(first.into()), Some(name(NAMES)));
        let inner = names.lock();
        assert_eq!((inner.by_name.len(), inner.by_offset.len(), inner.order.len()), (NAMES, NAMES, NAMES));
        assert!(inner.by_offset.keys().all(|&offset| offset < 1 << 17));
    }
}
