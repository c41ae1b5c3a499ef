//! What is explained is what is enforced, for random policies.

use super::*;
use crate::policy::{Denial, Entry, Grant, Permit, Question};
use crate::types::{Destination, Host, Scheme};

/// What is explained is what is enforced: the verdict, its code, the rule that decided, and the bindings.
#[test]
fn explain_and_enforcement_agree() {
    let file = Scratch::new("random", "");
    let (mut written, mut permitted, mut by_rule) = (String::new(), 0, 0);
    crate::policy::oracle::samples(150, 20, |text, enforced, facts| {
        if written != text {
            std::fs::write(&file.0, text).unwrap();
            text.clone_into(&mut written);
        }
        let Destination { authority, scheme, .. } = facts.destination;
        let url = format!("{scheme}://{}:{}{}", authority.host, authority.port, facts.path);
        let tcp = *scheme == Scheme::Tcp;
        let subject = if tcp { vec![url.trim_end_matches(facts.path)] } else { vec![facts.method, &url] };
        let o = policy(&[&["explain", "--policy", file.path()], &subject[..]].concat());
        let says = |line: String| assert!(o.out.contains(&(line.clone() + "\n")), "{line}\n{}\n{text}", o.out);
        let permit = |grant| Permit { grant, bindings: Vec::new() };
        let passed = match enforced.entry(facts.destination) {
            Ok(Entry::Relay(grant)) => Some(grant),
            Ok(Entry::Look { other }) if tcp => other,
            Ok(Entry::Look { .. }) | Err(_) if tcp => None,
            Ok(Entry::Look { .. }) | Err(_) => enforced.passes_unread(facts.destination),
        };
        let answer = match passed {
            Some(grant) => Ok(permit(grant)),
            None if tcp => match enforced.destination(facts.destination) {
                // What has to be looked into passes only as what can be read.
                Ok(_) => {
                    assert_eq!(o.code, 1, "{}\n{text}", o.out);
                    return;
                }
                Err(denial) => Err(denial),
            },
            None => enforced.request(facts),
        };
        match answer {
            Ok(permit) => {
                permitted += 1;
                assert_eq!(o.code, 0, "{}\n{text}", o.out);
                let bound = o.out.lines().filter(|line| line.starts_with("binding: ")).count();
                assert_eq!(bound, permit.bindings.len(), "{}\n{text}", o.out);
                if let Grant::Rule { place } = permit.grant {
                    by_rule += 1;
                    says(format!(
                        "decided by: the allow rule at {}",
                        place.to_string().replace("random.toml", file.path())
                    ));
                }
            }
            Err(denial) => {
                assert_eq!(o.code, 1, "{}\n{text}", o.out);
                says(format!("code: {}", denial.code()));
                if let Denial::RuleDenied { rule, .. } = denial {
                    by_rule += 1;
                    says(format!(
                        "decided by: the deny rule at {}",
                        rule.to_string().replace("random.toml", file.path())
                    ));
                }
            }
        }
    });
    assert!(permitted > 500 && by_rule > 100, "{permitted} {by_rule}");
}

/// A name is explained as looked up exactly where the sandbox's DNS would ask for it.
#[test]
fn explain_and_the_resolver_agree() {
    let (mut looked_up, mut closed) = (0, 0);
    crate::policy::oracle::samples(400, 10, |text, enforced, facts| {
        let Host::Name(name) = &facts.destination.authority.host else { return };
        let answer = Question::LookUp(name.clone()).ask(enforced);
        assert_eq!(answer.is_ok(), enforced.may_resolve(name), "{name}: {answer:?}\n{text}");
        match answer {
            Ok(permit) if permit.grant == Grant::NetworkAll => {
                assert_eq!(enforced.network_mode(), crate::policy::NetworkMode::All, "{name}\n{text}");
            }
            Ok(_) => looked_up += 1,
            Err(Denial::RuleDenied { .. }) => closed += 1,
            Err(_) => {}
        }
    });
    assert!(looked_up > 500 && closed > 50, "{looked_up} {closed}");
}
