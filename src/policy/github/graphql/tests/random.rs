//! Random documents: nothing panics, and what is covered is read by a second parser in the same way.

use apollo_parser::Parser;
use apollo_parser::cst::{CstNode, Field};

use super::*;

/// Words that make a document, or nearly one. No comma: behind `...` the other parser takes none.
const WORDS: [&str; 43] = [
    "{",
    "}",
    "{",
    "}",
    "(",
    ")",
    ":",
    "$v",
    "...",
    "... on",
    "Repository",
    "Issue",
    "fragment",
    "query",
    "mutation",
    "on",
    "\"acme\"",
    "\"widget\"",
    "repository(owner:\"acme\",name:\"widget\"){",
    "issue(number:1){",
    "id",
    "a:",
    "title",
    "[",
    "]",
    "1",
    "-1.5e3",
    "null",
    "@include(if:true)",
    "owner{login}",
    "\"\\\"\"",
    "#x\n",
    "=",
    "!",
    "node(id:\"I_known\"){",
    "input:",
    "true",
    "ENUM",
    "$",
    "|",
    "&",
    "\u{e9}",
    "\"\"\"",
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// The names of the fields in the order in which they are written.
fn fields(text: &str) -> Vec<String> {
    let tree = Parser::new(text).parse();
    assert_eq!(tree.errors().map(|error| error.to_string()).collect::<Vec<_>>(), Vec::<String>::new(), "{text}");
    let nodes = tree.document().syntax().descendants().collect::<Vec<_>>();
    nodes.into_iter().filter_map(Field::cast).map(|field| field.name().unwrap().text().to_string()).collect()
}

fn ours(selections: &[document::Selection<'_>], into: &mut Vec<String>) {
    for selection in selections {
        match selection {
            document::Selection::Field(field) => {
                into.push(field.name.to_owned());
                ours(&field.selections, into);
            }
            document::Selection::Inline { selections, .. } => ours(selections, into),
            document::Selection::Spread(_) => {}
        }
    }
}

/// Where a text is a document, a parser that others wrote finds no mistake in it and the same fields.
fn compare(text: &str) -> bool {
    let Ok(document) = Document::parse(text) else { return false };
    let mut found = Vec::new();
    document.operations.iter().for_each(|operation| ours(&operation.selections, &mut found));
    document.fragments.iter().for_each(|fragment| ours(&fragment.selections, &mut found));
    let mut theirs = fields(text);
    // Fragments may stand anywhere between the operations.
    found.sort();
    theirs.sort();
    assert_eq!(found, theirs, "{text}");
    true
}

#[test]
fn random_words_are_judged_without_a_panic() {
    let mut random = Random(1);
    let mut documents = 0;
    for _ in 0..30_000 {
        let mut text = "{".to_owned();
        for _ in 0..random.below(16) {
            text += WORDS[random.below(WORDS.len())];
            text.push(' ');
        }
        let open = text.matches('{').count().saturating_sub(text.matches('}').count());
        text += &"id}".repeat(open);
        documents += usize::from(compare(&text));
        let _ = query(&text);
    }
    assert!(documents > 1_000, "{documents}");
}

#[test]
fn what_gh_sends_is_judged_without_a_panic_when_damaged() {
    let mut random = Random(2);
    for line in include_str!("recorded.jsonl").lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let whole = row["body"]["query"].as_str().unwrap();
        assert!(compare(whole), "{whole}");
        let body = row["body"].to_string().into_bytes();
        for _ in 0..100 {
            let mut damaged = body.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len());
                match random.below(3) {
                    0 => damaged[at] = b"{}()[]\":,\\$.!a0"[random.below(15)],
                    1 => drop(damaged.remove(at)),
                    _ => damaged.truncate(at + 1),
                }
            }
            let _ = check(&damaged, &rules(), &Fake { all: false });
        }
    }
}
