//! `[[cases]]` → [`Case`]s.

use super::super::case::Case;
use super::super::document::RawCase;
use super::super::explanation::Verdict;
use super::super::mistake::Collector;
use super::super::question::Question;

/// Every case that is whole; what is wrong with the others goes to `mistakes`.
pub(super) fn cases(raw: &[RawCase], mistakes: &mut Collector) -> Vec<Case> {
    raw.iter().filter_map(|raw| case(raw, mistakes)).collect()
}

fn case(raw: &RawCase, mistakes: &mut Collector) -> Option<Case> {
    let question = raw.request.as_ref().and_then(|request| match Question::parse(&request.value) {
        Ok(question) => Some(question),
        Err(error) => {
            let text = error.to_string();
            let (what, hint) = text.rsplit_once("; ").unwrap_or((&text, ""));
            mistakes.add(&request.place, what, hint);
            None
        }
    });
    let expect = match raw.expect.as_ref()?.value.as_str() {
        "permit" => Verdict::Permit,
        "deny" => Verdict::Deny,
        // Reported where it was read.
        _ => return None,
    };
    if let (Verdict::Permit, Some(code)) = (expect, &raw.code) {
        mistakes.add(&code.place, "what is permitted has no code", "take `code` out, or write expect = \"deny\"");
    }
    let code = raw.code.as_ref().map(|code| code.value.clone());
    Some(Case { place: raw.place.clone(), question: question?, expect, code })
}
