//! A path that gets the secret of a path's binding lies below it, whichever way a server reads it.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::policy::{Policy, PolicyOptions, load};
use sandbox_proxy::types::{Authority, Destination, RequestFacts, Scheme};

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let options = PolicyOptions {
        allow: vec!["api.test".into()],
        bind: vec!["api.test/v1/ Authorization: {KEY}".into()],
        secret: vec!["KEY=env:KEY".into()],
        ..PolicyOptions::default()
    };
    load(&[], &options).expect("a policy").policy
});

static DESTINATION: LazyLock<Destination> = LazyLock::new(|| Destination {
    authority: Authority::parse("api.test", 443).expect("an authority"),
    scheme: Scheme::Https,
    dialled: None,
});

fuzz_target!(|path: &str| {
    // What http takes for the beginning of a query or fragment is no part of a path.
    if path.contains(['?', '#']) {
        return;
    }
    let facts = RequestFacts { destination: &DESTINATION, method: "GET", path };
    let Ok(permit) = POLICY.request(&facts) else { return };
    if permit.bindings.is_empty() {
        return;
    }
    // A server that decodes nothing has no `/v1/` behind `/%76%31/`; every other one decodes once at least.
    let mut decoded = decode(path.as_bytes());
    loop {
        for slashes in [false, true] {
            let read = normal(&decoded, slashes);
            assert!(read.starts_with("/v1/"), "{path:?} is read as {read:?}");
        }
        let again = decode(&decoded);
        if again == decoded {
            break;
        }
        decoded = again;
    }
});

fn decode(path: &[u8]) -> Vec<u8> {
    let digit = |at: usize| path.get(at).and_then(|&b| char::from(b).to_digit(16));
    let (mut out, mut at) = (Vec::new(), 0);
    while at < path.len() {
        match (path[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// As a lenient server reads it: backslashes are slashes, parameters and a query or fragment that were encoded are cut off, dot segments are resolved, and, where it
/// does that, repeated slashes are one.
fn normal(path: &[u8], merge_slashes: bool) -> String {
    let text = String::from_utf8_lossy(path).replace('\\', "/");
    let text = text.split(['\0', '?', '#']).next().unwrap_or_default();
    let mut kept = Vec::<&str>::new();
    for segment in text.split('/').skip(1) {
        match segment.split(';').next().unwrap_or_default() {
            "." => {}
            ".." => drop(kept.pop()),
            "" if merge_slashes => {}
            plain => kept.push(plain),
        }
    }
    let ends = ["/", "/.", "/.."].iter().any(|end| text.ends_with(end));
    let end = if ends && !kept.ends_with(&[""]) { "/" } else { "" };
    format!("/{}{end}", kept.join("/"))
}
