//! The inputs of the allowed mutations, with what each id in them stands for.

use std::collections::{BTreeMap, BTreeSet};

use super::classes::Classes;
use super::schema::{Kind, Schema};

/// One line for each input type that an allowed mutation takes.
pub fn inputs<'a>(
    schema: &Schema,
    classes: &Classes,
    mutations: impl Iterator<Item = &'a String>,
    problems: &mut BTreeSet<String>,
) -> String {
    let mut work: Vec<String> = mutations.filter_map(|name| schema.input_of(name)).map(str::to_owned).collect();
    let mut done = BTreeMap::new();
    while let Some(name) = work.pop() {
        if done.contains_key(&name) {
            continue;
        }
        let mut line = Vec::new();
        for field in schema.types.get(&name).map(Kind::fields).unwrap_or_default() {
            let path = format!("{name}.{}", field.name);
            let said = classes.positions.get(&path);
            let position = said.or_else(|| classes.positions.get(&field.name).filter(|_| field.target == "ID"));
            let sign = match position.map(String::as_str) {
                Some("repository") => "+",
                Some("account") => "@",
                Some("project") => "%",
                Some("closed") => "!",
                Some("named") => "~",
                Some("free") => "",
                Some(word) => {
                    problems.insert(format!("{path}: `{word}` is no position"));
                    continue;
                }
                None if matches!(schema.types.get(&field.target), Some(Kind::Input(_))) => {
                    work.push(field.target.clone());
                    line.push(format!("{}={}", field.name, field.target));
                    continue;
                }
                None if field.target == "ID" => {
                    problems.insert(format!("{path}: an id of what?"));
                    continue;
                }
                None => "",
            };
            line.push(format!("{}{sign}", field.name));
        }
        line.sort();
        done.insert(name, line.join(" "));
    }
    done.iter().map(|(name, line)| format!("< {name} {line}\n")).collect()
}
