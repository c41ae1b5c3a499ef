//! What gh 2.23.0 really sends, recorded from it with a server that answers in the shape of the published schema. EVERYTHING stands for
//! all fields that the command knows.

use super::*;

/// Commands of which a request is refused: what they ask is not the repository's own.
const REFUSED: [(&str, Code); 15] = [
    ("gh repo view acme/widget --json EVERYTHING", Code::ForeignObject),
    ("gh pr create --title t --body b --head feature --base main --project s", Code::ForeignObject),
    ("gh pr create --title t --body b --head feature --base main --project s", Code::ForeignObject),
    ("gh pr create --title t --body b --head feature --base main --project s", Code::NotAllowed),
    ("gh pr edit 1 --title t --add-label bug --add-assignee acme --add-reviewer acme --milestone s", Code::OptionOff),
    ("gh issue create --title t --body b --project s", Code::NotAllowed),
    ("gh issue edit 1 --add-project s", Code::NotAllowed),
    ("gh issue delete 1 --yes", Code::OptionOff),
    ("gh issue transfer 1 acme/other", Code::RepoNotAllowed),
    ("gh issue transfer 1 acme/other", Code::NotAllowed),
    ("gh repo list acme", Code::ForeignObject),
    ("gh repo create acme/new --private", Code::NotAllowed),
    ("gh gist list", Code::ForeignObject),
    ("gh status", Code::NotAllowed),
    ("gh repo list", Code::ForeignObject),
];

#[test]
fn every_command_gets_the_verdict_it_should() {
    let (mut refusals, mut allowed) = (Vec::new(), 0);
    for line in include_str!("recorded.jsonl").lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let command = row["command"].as_str().unwrap().to_owned();
        match judge(&row["body"].to_string(), &merging()) {
            Ok(Answer::Covered(_)) => allowed += 1,
            Ok(Answer::Unknown(ids)) => panic!("{command}: {ids:?}"),
            Err(refused) => refusals.push((command, refused.code)),
        }
    }
    let refusals: Vec<_> = refusals.iter().map(|(command, code)| (command.as_str(), *code)).collect();
    assert_eq!(refusals, REFUSED);
    assert_eq!(allowed, 80);
}
