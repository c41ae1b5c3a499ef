//! A host or authority in any spelling: what is taken has one canonical spelling, and no other program takes the text for
//! another address.
#![no_main]

use std::ffi::CString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::types::{Authority, Host};

fuzz_target!(|text: &str| {
    if let Ok(host) = Host::parse(text) {
        is_canonical(&host);
        assert_eq!(Host::parse(&text.to_ascii_uppercase()).as_ref(), Ok(&host), "case matters");
    }
    if let Some(address) = of_others(text) {
        // What everybody else takes for an address is that address, or no host.
        assert!(Host::parse(text).is_ok_and(|host| host == Host::from_ip(address)) || Host::parse(text).is_err());
    }
    let Ok(authority) = Authority::parse(text, 443) else { return };
    assert_ne!(authority.port, 0);
    is_canonical(&authority.host);
    let canonical = authority.to_string();
    assert_eq!(Authority::parse(&canonical, 443).as_ref(), Ok(&authority));
    let to_http = canonical.parse::<http::uri::Authority>().expect("http takes a canonical authority");
    assert_eq!(to_http.host(), authority.host.to_string());
    http::HeaderValue::from_str(&canonical).expect("a canonical authority is a header's value");
});

fn is_canonical(host: &Host) {
    let text = host.to_string();
    assert_eq!(Host::parse(&text).as_ref(), Ok(host), "it is read as itself");
    assert_eq!(Host::parse(&format!("{text}.")).ok().as_ref().unwrap_or(host), host, "a final dot is nothing");
    match host {
        Host::Name(name) => {
            let name = name.as_str();
            assert!(name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.')), "{name}");
            assert!(name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len())), "{name}");
            assert_eq!(of_others(name), None, "{name} is an address to others");
            assert_eq!(text, name);
        }
        Host::Ip(IpAddr::V6(v6)) => assert_eq!(v6.to_ipv4_mapped(), None),
        Host::Ip(IpAddr::V4(_)) => {}
    }
}

/// The address that the standard library or the C library reads out of a text.
fn of_others(text: &str) -> Option<IpAddr> {
    if let Ok(v6) = text.parse::<Ipv6Addr>() {
        return Some(v6.into());
    }
    // inet_aton stops at white space, where the text is no host.
    let plain = CString::new(text).ok().filter(|_| !text.contains(|c: char| c.is_ascii_whitespace()))?;
    let mut address = libc::in_addr { s_addr: 0 };
    // SAFETY: both are valid for the call, and the text ends with its NUL.
    let taken = unsafe { libc_inet_aton(plain.as_ptr(), &mut address) };
    (taken != 0).then(|| Ipv4Addr::from(u32::from_be(address.s_addr)).into())
}

unsafe extern "C" {
    #[link_name = "inet_aton"]
    fn libc_inet_aton(text: *const libc::c_char, address: *mut libc::in_addr) -> libc::c_int;
}
