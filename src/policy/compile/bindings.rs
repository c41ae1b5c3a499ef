//! Bindings of what was written.

use std::collections::BTreeSet;

use crate::types::{Authority, Destination, Scheme};

use super::super::Policy;
use super::super::binding::{Binding, BindingError, Field, Placement};
use super::super::document::RawBinding;
use super::super::egress::EgressMode;
use super::super::mistake::{At, Collector, Warning};
use super::{PlaceholderSpec, declare, undeclared};

/// The fields that name secrets.
const SECRETS: [Field; 5] =
    [Field::SecretName, Field::UserSecret, Field::Certificate, Field::AccessKeyId, Field::SessionToken];

/// The bindings, with those that are ready; what contradicts each other is a mistake.
pub(super) fn bindings(
    raw: &[RawBinding],
    ready: Vec<At<Binding>>,
    declared: &BTreeSet<String>,
    mistakes: &mut Collector,
) -> Vec<At<Binding>> {
    let named = raw.iter().flat_map(|raw| SECRETS.map(|field| raw.get(field)));
    for name in named.flatten().filter(|name| !declared.contains(&name.value)) {
        mistakes.add(&name.place, undeclared(&name.value), declare(&name.value));
    }
    let written: Vec<_> =
        raw.iter().filter_map(|raw| Some(At { value: binding(raw, mistakes)?, place: raw.place.clone() })).collect();
    let mut bindings = Vec::<At<Binding>>::new();
    for At { value, place } in written.into_iter().chain(ready) {
        let mut earlier = bindings.iter().filter(|earlier| earlier.value.collides_with(&value));
        match earlier.next() {
            None => bindings.push(At { value, place }),
            Some(earlier) if earlier.value == value => {}
            Some(earlier) => {
                let what = format!(
                    "both this binding (paths {}…) and the one at {} (paths {}…) would set {} of one request to {}",
                    value.path_prefix(),
                    earlier.place,
                    earlier.value.path_prefix(),
                    value.placement(),
                    value.host(),
                );
                mistakes.add(
                    &place,
                    what,
                    "keep one of them, or give them path prefixes of which none begins the other",
                );
            }
        }
    }
    agree_on_scrubbing(&bindings, mistakes);
    bindings
}

/// A value is searched for in all of a host's responses, or in none.
fn agree_on_scrubbing(bindings: &[At<Binding>], mistakes: &mut Collector) {
    for (index, At { value: binding, place }) in bindings.iter().enumerate() {
        let differs = |earlier: &Binding| earlier.host() == binding.host() && earlier.scrub() != binding.scrub();
        let shared = |earlier: &At<Binding>| binding.secrets().find(|secret| earlier.value.uses(secret));
        let mut differing = bindings[..index].iter().filter(|earlier| differs(&earlier.value));
        if let Some((earlier, secret)) = differing.find_map(|earlier| Some((earlier, shared(earlier)?))) {
            let what = format!(
                "responses of {} are searched for the secret {} by one of this binding and the one at {}, and not by the other",
                binding.host(),
                secret,
                earlier.place
            );
            mistakes.add(place, what, "write scrub = false in both or in neither");
        }
    }
}

fn binding(raw: &RawBinding, mistakes: &mut Collector) -> Option<Binding> {
    let text = |field| raw.get(field).map(|at| at.value.as_str());
    let binding = Binding::from_fields(raw.kind, text, |field, error: BindingError| {
        if let Some(at) = raw.get(field) {
            mistakes.add_error(at, &error);
        }
    });
    binding.map(|binding| binding.with_scrub(raw.scrub.as_ref().is_none_or(|scrub| scrub.value)))
}

/// Without a placeholder, nothing says which segment of a path is meant, and a client has nothing to sign with.
pub(super) fn placeholders_are_there(
    bindings: &[At<Binding>],
    placeholders: &[PlaceholderSpec],
    mistakes: &mut Collector,
) {
    for At { value: binding, place } in bindings {
        let secret = binding.secret_name();
        let (needed, why) = match binding.placement() {
            Placement::PathSegment { .. } => (vec![secret], "whose place in the path it could take"),
            Placement::AwsSigv4 { access_key_id, .. } => {
                (vec![access_key_id.as_str(), secret], "which a client could sign with")
            }
            Placement::Header { .. }
            | Placement::QueryParameter { .. }
            | Placement::Basic { .. }
            | Placement::Cookie { .. }
            | Placement::ClientCertificate { .. } => continue,
        };
        let is_missing = |secret: &&str| !placeholders.iter().any(|placeholder| placeholder.secret == *secret);
        for secret in needed.into_iter().filter(is_missing) {
            let what = format!("the secret {secret} has no placeholder, {why}");
            mistakes.add(place, what, format!("write placeholders = [\"VARIABLE\"] in [secrets.{secret}]"));
        }
    }
}

/// Warns of bindings that are not used, and of those whose secret can come back.
pub(super) fn warn(policy: &Policy, bindings: &[At<Binding>], warnings: &mut Vec<Warning>) {
    for binding in bindings {
        let host = binding.value.host();
        if !binding.value.scrub() {
            let secret = binding.value.secret_name();
            let what = format!(
                "responses of {host} are not searched for the secret {secret}, so they can show it to the sandbox"
            );
            warnings.push(Warning { place: binding.place.clone(), what });
        }
        let destination = Destination { authority: host.clone(), scheme: Scheme::Https, dialled: None };
        let Err(denial) = policy.destination(&destination) else { continue };
        let what = match (denial.rule(), policy.egress().mode()) {
            (Some(rule), _) => format!("the deny rule at {rule} closes {host}, so this binding is not used"),
            (None, EgressMode::BlockAll) => unused_binding(host, ""),
            (None, EgressMode::AllowAll | EgressMode::Custom) => {
                unused_binding(host, ", except on connections to an address that egress permits")
            }
        };
        warnings.push(Warning { place: binding.place.clone(), what });
    }
}

fn unused_binding(host: &Authority, but: &str) -> String {
    format!("the network does not permit {host}, and a binding does not either: it is not used{but}")
}
