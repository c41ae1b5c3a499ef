//! srt's `filesystem`, and its `allowUnixSockets`, whose paths are of the same kind.

use super::super::super::document::RawFiles;
use super::super::super::files::{FilePath, PROTECTED_DEPTH, UnixSockets};
use super::super::super::mistake::At;
use super::super::tree::{Node, Value};
use super::Srt;

const KEYS: [&str; 6] = ["disabled", "denyRead", "allowRead", "allowWrite", "denyWrite", "allowGitConfig"];

impl Srt<'_> {
    pub(super) fn filesystem(&mut self, filesystem: &Node) {
        let mut files = RawFiles::default();
        files.given.push(At { value: (), place: filesystem.place.clone() });
        for (key, node) in self.reader.map(filesystem, "filesystem") {
            let name = format!("filesystem.{}", key.value);
            match key.value.as_str() {
                "disabled" => files.disabled.extend(self.reader.bool(node, &name)),
                "denyRead" => files.deny_read = self.paths(node, &name),
                "allowRead" => files.allow_read = self.paths(node, &name),
                "allowWrite" => files.allow_write = self.paths(node, &name),
                "denyWrite" => files.deny_write = self.paths(node, &name),
                "allowGitConfig" => files.allow_git_config.extend(self.reader.bool(node, &name)),
                _ => self.reader.unknown(key, "filesystem.", &KEYS),
            }
        }
        self.required(filesystem, "filesystem.", &["denyRead", "allowWrite", "denyWrite"]);
        if files.disabled.iter().any(|flag| flag.value) {
            // srt does not look at them then.
            files = RawFiles { given: files.given, disabled: files.disabled, ..RawFiles::default() };
        }
        let unix_sockets = std::mem::take(&mut self.document.files.unix_sockets);
        self.document.files = RawFiles { unix_sockets, ..files };
    }

    /// Sockets, or directories of them. srt reads this key on macOS alone, where it is the same.
    pub(super) fn sockets(&mut self, node: &Node) {
        let paths = self.paths(node, "network.allowUnixSockets");
        if !paths.is_empty() {
            let place = node.place.clone();
            let paths = paths.into_iter().map(|path| path.value).collect();
            self.document.files.unix_sockets.push(At { value: UnixSockets::Listed(paths), place });
        }
    }

    /// How deep protected files are looked for. Deeper than was asked for protects more.
    pub(super) fn depth(&mut self, node: &Node) {
        let depth = match &node.value {
            Value::Number(number) => number.parse::<usize>().ok().filter(|depth| (1..=10).contains(depth)),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Other(_) => None,
        };
        match depth {
            None => self.reader.wrong_type(node, "mandatoryDenySearchDepth", "a number from 1 to 10"),
            Some(depth) if depth <= PROTECTED_DEPTH => {}
            Some(_) => {
                let hint = format!("write at most {PROTECTED_DEPTH}, and deny deeper files by `filesystem.denyWrite`");
                self.reader.mistakes.add(&node.place, "`mandatoryDenySearchDepth` cannot be honoured", hint);
            }
        }
    }

    /// A list of paths, each a text or `{"path": …, "literal": true}`.
    fn paths(&mut self, node: &Node, name: &str) -> Vec<At<FilePath>> {
        let Value::List(nodes) = &node.value else {
            self.reader.wrong_type(node, name, "a list of paths");
            return Vec::new();
        };
        nodes.iter().filter_map(|node| self.path(node, name)).collect()
    }

    fn path(&mut self, node: &Node, name: &str) -> Option<At<FilePath>> {
        let (text, path) = match (&node.value, marked_literal(node)) {
            (Value::Text(text), _) => (text, FilePath::parse(text)),
            (_, Some(text)) => (text, FilePath::literal(text)),
            (_, None) => {
                self.reader.wrong_type(node, name, "a path, or {\"path\": \"…\", \"literal\": true}");
                return None;
            }
        };
        if let Err(error) = &path {
            self.reader.mistakes.add_error(&At { value: text.clone(), place: node.place.clone() }, error);
        }
        Some(At { value: path.ok()?, place: node.place.clone() })
    }
}

/// The path of `{"path": …, "literal": true}`; another key makes it something else, as in srt.
fn marked_literal(node: &Node) -> Option<&String> {
    let Value::Map(entries) = &node.value else { return None };
    match (&node.get("path")?.value, &node.get("literal")?.value, entries.len()) {
        (Value::Text(path), Value::Bool(true), 2) => Some(path),
        (_, _, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{FileLimits, FilePolicy, NamedText, PolicyOptions, load};

    fn load_files(text: String) -> Result<FilePolicy, String> {
        let file = NamedText { name: "p".to_owned(), text };
        load(&[file], &PolicyOptions::default()).map(|compiled| compiled.files).map_err(|mistakes| mistakes.to_string())
    }

    /// Of settings with these members of `filesystem` and these before them.
    fn files(filesystem: &str, before: &str) -> Result<FilePolicy, String> {
        load_files(format!(
            r#"{{{before} "network": {{"allowedDomains": [], "deniedDomains": []}}, "filesystem": {{{filesystem}}}}}"#
        ))
    }

    fn paths(texts: &[&str]) -> Vec<FilePath> {
        texts.iter().map(|text| FilePath::literal(text).unwrap()).collect()
    }

    #[test]
    fn limits_are_what_is_written() {
        let text = r#""denyRead": ["~/.ssh", {"path": "/srv/[a]*", "literal": true}], "allowRead": ["~/.ssh/config"],
            "allowWrite": ["./", "/tmp"], "denyWrite": [".env"], "allowGitConfig": true"#;
        let limits = files(text, "").unwrap().limits;
        let want = FileLimits {
            deny_read: paths(&["~/.ssh", "/srv/[a]*"]),
            allow_read: paths(&["~/.ssh/config"]),
            allow_write: paths(&[".", "/tmp"]),
            deny_write: paths(&[".env"]),
            allow_git_config: true,
        };
        assert_eq!(limits, Some(want));
    }

    #[test]
    fn empty_lists_permit_no_write_and_disabled_limits_nothing() {
        let empty = r#""denyRead": [], "allowWrite": [], "denyWrite": []"#;
        let limits = |text: &str| files(text, "").unwrap().limits;
        assert_eq!(limits(empty), Some(FileLimits::default()));
        assert_eq!(limits(&format!("\"disabled\": false, {empty}")), Some(FileLimits::default()));
        assert_eq!(limits(r#""denyRead": ["/x"], "allowWrite": ["."], "denyWrite": [".env"], "disabled": true"#), None);
    }

    #[test]
    fn what_is_no_path_is_told() {
        let told = |entry: &str| {
            files(&format!(r#""denyRead": [{entry}], "allowWrite": [], "denyWrite": []"#), "").map(drop).unwrap_err()
        };
        let form = "it takes a path, or {\"path\": \"…\", \"literal\": true}";
        for entry in [
            "1",
            "null",
            "{}",
            r#"{"path": "/x"}"#,
            r#"{"path": "/x", "literal": false}"#,
            r#"{"literal": true, "path": 1}"#,
            r#"{"path": "/x", "literal": true, "more": 1}"#,
        ] {
            assert!(
                told(entry).contains("`filesystem.denyRead` cannot be of type") && told(entry).ends_with(form),
                "{entry}"
            );
        }
        assert!(
            told("\"/srv/*.log\"").starts_with("p:1:87: \"/srv/*.log\": a path is no pattern"),
            "{}",
            told("\"/srv/*.log\"")
        );
        assert!(told("\"\"").contains("the path is empty"));
        let unknown =
            files(r#""denyRead": [], "allowWrite": [], "denyWrite": [], "denyreads": []"#, "").map(drop).unwrap_err();
        assert!(
            unknown.ends_with("unknown key \"filesystem.denyreads\"\n  hint: did you mean `denyRead`?"),
            "{unknown}"
        );
    }

    #[test]
    fn protected_files_are_looked_for_three_deep() {
        let lists = r#""denyRead": [], "allowWrite": [], "denyWrite": []"#;
        let depth = |depth: &str| files(lists, &format!("\"mandatoryDenySearchDepth\": {depth},")).map(drop);
        for fine in ["1", "3"] {
            assert_eq!(depth(fine), Ok(()));
        }
        assert!(depth("4").unwrap_err().starts_with("p:1:30: `mandatoryDenySearchDepth` cannot be honoured"));
        for wrong in ["0", "11", "1.5", "\"3\""] {
            assert!(depth(wrong).unwrap_err().contains("it takes a number from 1 to 10"), "{wrong}");
        }
    }

    #[test]
    fn sockets_are_listed_or_all() {
        let sockets = |member: &str| {
            let text = format!(
                r#"{{"network": {{"allowedDomains": [], "deniedDomains": [], {member}}},
                "filesystem": {{"disabled": true, "denyRead": [], "allowWrite": [], "denyWrite": []}}}}"#
            );
            load_files(text).unwrap().unix_sockets
        };
        assert_eq!(sockets(r#""allowAllUnixSockets": true"#), UnixSockets::All);
        assert_eq!(sockets(r#""allowAllUnixSockets": false"#), UnixSockets::Masked);
        assert_eq!(sockets(r#""allowUnixSockets": []"#), UnixSockets::Masked);
        assert_eq!(
            sockets(r#""allowUnixSockets": ["/run/x.sock", "~/y"]"#),
            UnixSockets::Listed(paths(&["/run/x.sock", "~/y"]))
        );
    }
}
