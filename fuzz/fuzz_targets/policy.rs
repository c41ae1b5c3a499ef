//! A policy file of any text: every mistake has a place in the file, and what is taken decides alike each time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::policy::{NamedText, PolicyOptions, load, more};
use sandbox_proxy::types::{Authority, Destination, RequestFacts, Scheme};

fuzz_target!(|text: &str| {
    let files = [NamedText { name: "policy.toml".into(), text: text.into() }];
    let compiled = match load(&files, &PolicyOptions::default()) {
        Ok(compiled) => compiled,
        Err(mistakes) => {
            assert!(mistakes.to_string().contains("policy.toml"), "{mistakes}");
            return;
        }
    };
    let words = text.split(|c: char| c.is_whitespace() || "\"'[],=".contains(c)).take(64);
    for authority in words.filter_map(|word| Authority::parse(word, 443).ok()) {
        for scheme in [Scheme::Https, Scheme::Http, Scheme::Tcp] {
            let destination = Destination { authority: authority.clone(), scheme, dialled: None };
            let facts = RequestFacts { destination: &destination, method: "GET", path: "/v1/x" };
            let request = compiled.policy.request(&facts);
            assert_eq!(request, compiled.policy.request(&facts));
            assert!(request.is_err() || compiled.policy.destination(&destination).is_ok(), "{authority}");
        }
    }
    assert_eq!(more(&compiled, &compiled), [], "no policy is more than itself");
    // The same file twice says no more than once.
    let twice = [files[0].clone(), files[0].clone()];
    assert!(load(&twice, &PolicyOptions::default()).is_ok());
});
