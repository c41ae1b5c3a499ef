//! SOCKS5 messages: what is read of the beginning of a message is what is read of all of it, and no more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::proxy::capture::socks5::{Method, greeting, login, request};
use sandbox_proxy::types::Host;

fuzz_target!(|bytes: &[u8]| {
    agree(bytes, |bytes| greeting(bytes, Method::None).map(|read| read.map(|len| ((), len))));
    agree(bytes, |bytes| greeting(bytes, Method::Password).map(|read| read.map(|len| ((), len))));
    agree(bytes, |bytes| login(bytes).map(|read| read.map(|(login, len)| (format!("{login:?}"), len))));
    agree(bytes, request);
    if let Ok(Some((authority, _))) = request(bytes) {
        assert_ne!(authority.port, 0);
        assert_eq!(Host::parse(&authority.host.to_string()).as_ref(), Ok(&authority.host), "it is canonical");
    }
});

/// Each beginning is either not whole yet, or says what the whole says.
fn agree<T, E>(bytes: &[u8], read: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>)
where
    T: PartialEq + std::fmt::Debug,
    E: PartialEq + std::fmt::Debug,
{
    let whole = read(bytes);
    for len in 0..bytes.len() {
        match read(&bytes[..len]) {
            Ok(None) => {}
            some => assert_eq!(some, whole, "{len} bytes of it"),
        }
    }
    if let Ok(Some((_, len))) = whole {
        assert!((1..=bytes.len()).contains(&len));
    }
}
