//! Tables of checks that one Python program performs inside, told as JSON rows of a name and what came of it.

use serde_json::Value;

use crate::sandbox::{Output, Run};

/// Runs a Python program inside, with `inside.py` before it; it tells one JSON value.
#[track_caller]
pub fn program(run: Run, code: &str) -> (Value, Output) {
    let output = run.python(&format!("{}{code}", include_str!("inside.py"))).run();
    output.expect_code(0);
    let told = serde_json::from_str(output.stdout.trim()).unwrap_or_else(|error| panic!("{error}\n{output:#?}"));
    (told, output)
}

/// A Python literal of these texts.
pub fn list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| text.as_ref().to_owned()).collect();
    Value::from(texts).to_string()
}

/// The rows that a program told: a name, and what came of it.
pub fn rows(told: &Value) -> Vec<(String, Value)> {
    let row = |row: &Value| (row[0].as_str().unwrap().to_owned(), row[1].clone());
    told.as_array().unwrap().iter().map(row).collect()
}

/// Panics with every row that is not as expected, not with the first alone; and when there is no row.
#[track_caller]
pub fn all_are(told: &Value, expected: impl Fn(&str) -> Value) {
    let rows = rows(told);
    let wrong: Vec<String> = rows
        .iter()
        .filter(|(name, got)| *got != expected(name))
        .map(|(name, got)| format!("{name}: {got}, not {}", expected(name)))
        .collect();
    assert!(wrong.is_empty() && !rows.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
