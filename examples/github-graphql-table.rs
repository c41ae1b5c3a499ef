//! Makes `src/policy/github/graphql/table.txt` from GitHub's published schema and from `classes.txt` beside it:
//!
//! ```sh
//! npm pack @octokit/graphql-schema && tar xf octokit-graphql-schema-*.tgz
//! cargo run --example github-graphql-table -- package/schema.graphql           # writes the table
//! cargo run --example github-graphql-table -- package/schema.graphql --check   # fails if it would be another one
//! ```
//!
//! It fails, and says what to add to `classes.txt`, where a field that could lead to another repository has not been classified by a
//! person, and where an input of an allowed mutation has an id whose meaning is not written down.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

#[path = "github-graphql-table/classes.rs"]
mod classes;
#[path = "github-graphql-table/inputs.rs"]
mod inputs;
#[path = "github-graphql-table/schema.rs"]
mod schema;

use classes::Classes;
use schema::{Kind, Schema};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (file, check) = match arguments.as_slice() {
        [file] => (file, false),
        [file, mode] if mode == "--check" => (file, true),
        _ => {
            eprintln!("usage: github-graphql-table SCHEMA.graphql [--check]");
            return ExitCode::from(2);
        }
    };
    match run(Path::new(file), check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &Path, check: bool) -> Result<(), String> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/policy/github/graphql");
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let schema = Schema::parse(&read(file)?)?;
    let classes = Classes::parse(&read(&home.join("classes.txt"))?)?;
    let mut generator = Generator { schema: &schema, classes: &classes, problems: BTreeSet::new() };
    let table = generator.table();
    if !generator.problems.is_empty() {
        let list: Vec<_> = generator.problems.into_iter().collect();
        return Err(format!("classes.txt does not say what these are:\n{}", list.join("\n")));
    }
    let target = home.join("table.txt");
    if !check {
        return std::fs::write(&target, table).map_err(|error| format!("{}: {error}", target.display()));
    }
    if read(&target)? == table {
        return Ok(());
    }
    Err(format!("{} is not what this schema gives; write it anew, and review the difference", target.display()))
}

struct Generator<'a> {
    schema: &'a Schema,
    classes: &'a Classes,
    problems: BTreeSet<String>,
}

impl Generator<'_> {
    fn table(&mut self) -> String {
        let mut out =
            String::from("# Made by examples/github-graphql-table.rs from the published schema and classes.txt\n");
        let mut mutations = BTreeMap::new();
        for (name, option) in &self.classes.mutations {
            let Some(field) = self.schema.field("Mutation", name) else {
                self.problems.insert(format!("{name}: the schema has no such mutation"));
                continue;
            };
            mutations.insert(name.clone(), (field.target.clone(), option.clone()));
        }
        let _ = writeln!(out, "@ {}", self.named(&self.classes.account));
        let _ = writeln!(out, "& {}", self.named(&self.classes.other));
        let mut roots: Vec<String> = self.classes.roots.clone();
        roots.extend(mutations.values().map(|(payload, _)| payload.clone()));
        for (name, line) in self.reach(&roots, false) {
            let _ = writeln!(out, ": {name} {line}");
        }
        for (name, line) in self.reach(&self.classes.public.clone(), true) {
            let _ = writeln!(out, "~ {name} {line}");
        }
        let inputs = inputs::inputs(self.schema, self.classes, mutations.keys(), &mut self.problems);
        for (name, (payload, option)) in &mutations {
            let input = self.schema.input_of(name).unwrap_or_default();
            let _ = writeln!(out, "> {name} {payload} {option} {input}");
        }
        out + &inputs
    }

    /// Those of the schema only: a name that GitHub has dropped is of no use.
    fn named(&self, names: &BTreeSet<String>) -> String {
        let known: Vec<_> = names.iter().filter(|name| self.schema.types.contains_key(*name)).cloned().collect();
        known.join(" ")
    }

    /// Every type that can be reached from these without leaving the repository (github-scope.md 4.8), and its fields.
    fn reach(&mut self, roots: &[String], public: bool) -> BTreeMap<String, String> {
        let (mut done, mut work) = (BTreeMap::new(), roots.to_vec());
        while let Some(name) = work.pop() {
            let Some(kind) = self.schema.types.get(&name) else {
                self.problems.insert(format!("{name}: the schema has no such type"));
                continue;
            };
            if done.contains_key(&name) {
                continue;
            }
            let mut line = Vec::new();
            for field in kind.fields() {
                let class = self.class(&name, &field.name, &field.target, public);
                if let Class::Same = class {
                    work.push(field.target.clone());
                }
                line.push(match class {
                    Class::Left => continue,
                    Class::Scalar => field.name.clone(),
                    Class::Same => format!("{}={}", field.name, field.target),
                    Class::Account => format!("{}@", field.name),
                    Class::Foreign => format!("{}^", field.name),
                    Class::Project => format!("{}%", field.name),
                    Class::Other => format!("{}&", field.name),
                    Class::Secret => format!("{}!", field.name),
                });
            }
            line.sort();
            // `Node` and `UniformResourceLocatable` are almost everything; what matters of them is reached otherwise.
            if !public && !matches!(name.as_str(), "Node" | "UniformResourceLocatable" | "SearchResultItem") {
                work.extend(self.schema.members(&name).into_iter().filter(|member| self.ordinary(member)));
            }
            done.insert(name, line.join(" "));
        }
        done
    }

    fn class(&mut self, parent: &str, field: &str, target: &str, public: bool) -> Class {
        let path = format!("{parent}.{field}");
        let lists = |list: &BTreeSet<String>| {
            let of = |name: &str| list.contains(&format!("{name}.{field}"));
            of(parent) || self.schema.members(parent).iter().any(|member| of(member))
        };
        if lists(&self.classes.secret) {
            return Class::Secret;
        }
        if lists(&self.classes.foreign) {
            return Class::Foreign;
        }
        if matches!(self.schema.types.get(target), None | Some(Kind::Scalar)) {
            return Class::Scalar;
        }
        let item = self.schema.item(target);
        let result_list = parent.starts_with("SearchResultItem");
        let class = if public {
            // A public type leads to public ones; what leads out of them is left out of the table.
            let out = self.classes.account.contains(&item) || item == "Repository" || item.starts_with("Project");
            if out { Class::Left } else { Class::Same }
        } else if self.classes.account.contains(&item) {
            Class::Account
        } else if item.starts_with("Project") {
            Class::Project
        } else if !result_list && self.is_other(&item) {
            Class::Other
        } else if item == "Repository" && !matches!(field, "repository" | "baseRepository") {
            Class::Foreign
        } else {
            Class::Same
        };
        if !public && matches!(class, Class::Same | Class::Foreign) && self.may_cross(field, &item) {
            let said = self.classes.reviewed.get(&path);
            let (sign, word) = if matches!(class, Class::Same) { ("same", "SAME") } else { ("foreign", "FOREIGN") };
            if said.map(String::as_str) != Some(sign) {
                self.problems.insert(format!("{path} {sign}  # {word}, returns {target}"));
            }
        }
        class
    }

    /// Whether a field by this name that returns this type could be one of another repository (github-scope.md 4.8, at its end).
    fn may_cross(&self, field: &str, item: &str) -> bool {
        const CROSSING: [&str; 6] = ["Issue", "PullRequest", "Repository", "Discussion", "Commit", "Ref"];
        let named = CROSSING.iter().any(|name| name.eq_ignore_ascii_case(field));
        named
            || CROSSING.contains(&item)
            || self.schema.members(item).iter().any(|member| CROSSING.contains(&member.as_str()))
    }

    fn is_other(&self, name: &str) -> bool {
        let marked =
            ["Marketplace", "Sponsors"].iter().any(|start| name.starts_with(start)) || name.ends_with("AuditEntry");
        marked || self.classes.other.contains(name)
    }

    fn ordinary(&self, name: &str) -> bool {
        !self.classes.account.contains(name) && !name.starts_with("Project") && !self.is_other(name) && name != "Query"
    }
}

enum Class {
    Left,
    Scalar,
    Same,
    Account,
    Foreign,
    Project,
    Other,
    Secret,
}
