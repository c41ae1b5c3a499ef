//! A policy file of any text, also of GitLab's and srt's: every mistake has a place in the file, what is taken decides alike
//! each time, and what is printed of it says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_proxy::policy::{Dialect, NamedText, PolicyOptions, dialect_of, load, more, toml};
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
    let printed = NamedText { name: "printed.toml".into(), text: toml(&compiled, false) };
    if let Ok(again) = load(std::slice::from_ref(&printed), &PolicyOptions::default()) {
        assert_eq!(toml(&again, false), printed.text);
    }
    // The same file twice says no more than once, but a run is for one project.
    if dialect_of(&files[0]) != Some(Dialect::Gitlab) {
        let twice = [files[0].clone(), files[0].clone()];
        assert!(load(&twice, &PolicyOptions::default()).is_ok());
    }
});
