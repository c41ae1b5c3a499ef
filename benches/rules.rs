//! What a decision costs with 10 rules and with 100,000: `cargo bench --bench rules`. The figures of one run are to be
//! compared with each other only.

use criterion::{Criterion, criterion_group, criterion_main};
use sandbox_proxy::policy::{NamedText, PolicyOptions, load};
use sandbox_proxy::types::{Authority, Destination, RequestFacts, Scheme};

/// Half of them for exact hosts, half for patterns; every tenth denies.
fn document(rules: usize) -> String {
    let mut text = "network.rules = [\n".to_owned();
    for rule in 0..rules {
        let star = if rule % 2 == 0 { "" } else { "*." };
        let rest = if rule % 10 == 9 {
            "action = \"deny\""
        } else {
            "action = \"allow\", methods = [\"GET\"], paths = [\"/v1/**\"]"
        };
        text += &format!("{{ host = \"{star}h{rule}.example.com\", {rest} }},\n");
    }
    text + "]\n"
}

fn decide(c: &mut Criterion) {
    for rules in [10, 1_000, 100_000] {
        let file = NamedText { name: "bench.toml".to_owned(), text: document(rules) };
        let policy = load(&[file], &PolicyOptions::default()).expect("the rules are good").policy;
        for (what, host, permitted) in [
            ("exact", "h2.example.com", true),
            ("pattern", "a.b.h3.example.com", true),
            ("denied", "a.h9.example.com", false),
            ("unlisted", "a.b.unlisted.example.com", false),
        ] {
            let authority = Authority::parse(host, 443).expect("a host");
            let destination = Destination { authority, scheme: Scheme::Https, dialled: None };
            let facts = RequestFacts { destination: &destination, method: "GET", path: "/v1/models/x" };
            assert_eq!(policy.request(&facts).is_ok(), permitted, "{host}");
            c.bench_function(&format!("{what}, {rules} rules"), |b| b.iter(|| policy.request(&facts)));
        }
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
