//! Bindings to the Mistral API, and placeholders.

use super::super::binding::Binding;
use super::super::document::{Document, RawMistralApi, RawPlaceholder, RawSecret};
use super::super::mistake::{At, Collector, quoted};
use super::super::mistral::{MistralApiBinding, MistralApiError};
use super::super::source::SecretSource;
use super::{PlaceholderSpec, declare, undeclared};

/// The bindings to the API. The secret `MISTRAL_API_KEY` comes from the variable of that name, unless something else is declared.
pub(super) fn bindings(document: &mut Document, mistakes: &mut Collector) -> Vec<At<Binding>> {
    let raw = std::mem::take(&mut document.mistral_apis);
    let mut bindings = Vec::new();
    for raw in &raw {
        let Some(binding) = binding(raw, mistakes) else { continue };
        let name = binding.secret_name().to_owned();
        match &raw.secret_name {
            _ if document.secret_names.contains(&name) => {}
            Some(named) if name != MistralApiBinding::SECRET => {
                mistakes.add(&named.place, undeclared(&name), declare(&name));
                continue;
            }
            Some(_) | None => {
                document.secret_names.insert(name.clone());
                document.secrets.push(RawSecret {
                    name: At { value: name, place: raw.place.clone() },
                    source: SecretSource::Env(MistralApiBinding::KEY_VARIABLE.to_owned()),
                    place: raw.place.clone(),
                    needs: Vec::new(),
                });
            }
        }
        bindings.push(At { value: binding.into_binding(), place: raw.place.clone() });
    }
    bindings
}

fn binding(raw: &RawMistralApi, mistakes: &mut Collector) -> Option<MistralApiBinding> {
    let mut binding = Some(MistralApiBinding::new());
    let mut take = |made: Result<MistralApiBinding, MistralApiError>, at: &At<String>| {
        made.map_err(|error| mistakes.add_error(at, &error)).ok()
    };
    for (at, with) in [
        (&raw.host, MistralApiBinding::with_host as fn(MistralApiBinding, &str) -> _),
        (&raw.secret_name, MistralApiBinding::with_secret_name),
        (&raw.run_as, MistralApiBinding::with_run_as),
    ] {
        if let Some(at) = at {
            binding = take(with(binding?, &at.value), at);
        }
    }
    match raw.ttl {
        Some(ttl) => {
            let shown = At { value: ttl.as_secs().to_string(), place: raw.place.clone() };
            take(binding?.with_ttl_seconds(ttl.as_secs()), &shown)
        }
        None => binding,
    }
}

/// Every variable of the sandbox that holds a placeholder.
pub(super) fn placeholders(
    document: &Document,
    mistral_apis: &[At<Binding>],
    mistakes: &mut Collector,
) -> Vec<PlaceholderSpec> {
    let of_api = mistral_apis.iter().map(|binding| RawPlaceholder {
        secret: At { value: binding.value.secret_name().to_owned(), place: binding.place.clone() },
        variable: At { value: MistralApiBinding::KEY_VARIABLE.to_owned(), place: binding.place.clone() },
    });
    let mut found = Vec::<PlaceholderSpec>::new();
    for placeholder in document.placeholders.iter().chain(&of_api.collect::<Vec<_>>()) {
        let RawPlaceholder { secret, variable } = placeholder;
        if !document.secret_names.contains(&secret.value) {
            mistakes.add(&secret.place, undeclared(&secret.value), declare(&secret.value));
            continue;
        }
        if !is_variable(&variable.value) {
            let what = format!("{} cannot be the variable of a placeholder", quoted(&variable.value));
            mistakes.add(
                &variable.place,
                what,
                "name one such as API_KEY, and none that steers programs, such as PATH",
            );
            continue;
        }
        match found.iter().find(|known| known.variable == variable.value) {
            None => found.push(PlaceholderSpec { secret: secret.value.clone(), variable: variable.value.clone() }),
            Some(known) if known.secret == secret.value => {}
            Some(known) => {
                let what =
                    format!("{} cannot stand for the secrets {} and {}", variable.value, known.secret, secret.value);
                mistakes.add(&variable.place, what, "give each secret a variable of its own");
            }
        }
    }
    found
}

/// A portable name (POSIX, Environment Variable Definition), and none of those by which programs are found, loaded or led
/// elsewhere.
fn is_variable(name: &str) -> bool {
    const STEERING: [&str; 12] =
        ["PATH", "HOME", "SHELL", "USER", "LOGNAME", "PWD", "TMPDIR", "TERM", "IFS", "ENV", "BASH_ENV", "NODE_OPTIONS"];
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = (1..=256).contains(&name.len()) && name.bytes().all(is_word) && !name.as_bytes()[0].is_ascii_digit();
    let capitals = name.to_ascii_uppercase();
    let steers = STEERING.contains(&capitals.as_str())
        || ["LD_", "PYTHON", "JAVA_", "SSL_CERT_", "GIT_"].iter().any(|prefix| capitals.starts_with(prefix))
        || capitals.ends_with("_PROXY");
    is_name && !steers
}
