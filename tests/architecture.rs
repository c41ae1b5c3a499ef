//! The direction of imports: a module uses itself and lower layers, never a sibling, never what stands above it.
//! Only `launcher/namespace.rs` may be unsafe.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// The layers of DESIGN section 3, lowest first.
const LAYERS: &[&[&str]] = &[
    &["types", "telemetry", "shutdown"],
    &["policy", "config"],
    &["dns", "tls", "trust", "credentials", "audit"],
    &["store", "sandboxes"],
    &["proxy", "admin", "launcher"],
    &["app"],
    &["cli"],
];

/// The one file that may say `unsafe`: making namespaces has no safe interface.
const UNSAFE: &str = "launcher/namespace.rs";

#[test]
fn imports_point_down() {
    let wrong: Vec<String> = sources().iter().flat_map(|(path, text)| wrong_arrows(path, text)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_in_one_file() {
    let says_unsafe = |(path, text): &(PathBuf, String)| {
        let code = without_comments(text).replace("unsafe_code", "");
        let allows = without_comments(text).contains("allow(unsafe_code");
        (path != Path::new(UNSAFE) && (allows || words(&code).any(|word| word == "unsafe"))).then(|| path.clone())
    };
    assert_eq!(sources().iter().filter_map(says_unsafe).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

#[test]
fn a_wrong_arrow_is_seen() {
    let wrong = |path: &str, text: &str| wrong_arrows(Path::new(path), text).len();
    assert_eq!(wrong("policy/address.rs", "use crate::types::HostName;\nuse crate::policy::verdict;"), 0);
    assert_eq!(wrong("policy/address.rs", "use crate::dns::Resolver;"), 1);
    assert_eq!(wrong("dns.rs", "let ca = crate::tls::Ca::new();"), 1);
    assert_eq!(wrong("proxy/mod.rs", "use crate::{policy::{self, decide}, launcher::Plan, app};"), 2);
    assert_eq!(wrong("launcher/plan.rs", "use super::super::proxy::State;"), 1);
    assert_eq!(wrong("proxy/mod.rs", "// as crate::launcher does\nuse crate::dns;"), 0);
    assert_eq!(wrong("cli/run.rs", "use crate::{app::App, launcher, proxy, audit};"), 0);
    assert_eq!(wrong("stray.rs", ""), 1);
}

/// What is wrong in a file, each as one line that names the file and the arrow.
fn wrong_arrows(path: &Path, text: &str) -> Vec<String> {
    let top = path.components().next().map(|part| part.as_os_str().to_string_lossy().replace(".rs", ""));
    let top = top.unwrap_or_default();
    if ["lib", "main"].contains(&top.as_str()) {
        return Vec::new();
    }
    let Some(own) = layer(&top) else {
        return vec![format!("src/{}: give the module {top} a layer in tests/architecture.rs", path.display())];
    };
    let may = |used: &str| used == top || layer(used).is_none_or(|layer| layer < own);
    let used = used_modules(&without_comments(text));
    let wrong = used.into_iter().filter(|used| !may(used));
    wrong.map(|used| format!("src/{}: {top} may not use {used}", path.display())).collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The modules of the crate's root that a text names, after `crate::` or a chain of `super::`.
fn used_modules(code: &str) -> Vec<String> {
    let from_root = code.split("crate::").skip(1);
    let from_above = code.split("super::super::").skip(1);
    from_root.chain(from_above).flat_map(first_names).collect()
}

/// `a` of `a::b`, and `a`, `c` of `{a::b, c}`.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return words(path).next().map(str::to_owned).into_iter().collect();
    };
    let (mut depth, mut names, mut fresh) = (0, Vec::new(), true);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            _ if fresh && !character.is_whitespace() => {
                names.extend(words(&group[at..]).next().map(str::to_owned));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_alphanumeric() && character != '_').filter(|word| !word.is_empty())
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.collect::<Vec<_>>().join("\n")
}

/// Every file below `src`, with its path from there.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut directories, mut files) = (vec![root.clone()], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => directories.push(path),
                Some(extension) if extension == "rs" => {
                    files.push((path.strip_prefix(&root).unwrap().to_owned(), fs::read_to_string(&path).unwrap()));
                }
                _ => {}
            }
        }
    }
    files
}
