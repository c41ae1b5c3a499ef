//! Policies that come with the program. They are files like a user's own, made of rules and cases alone, so that they
//! contradict nothing.

use crate::types::Authority;

use super::compile::NamedText;

/// A policy that is compiled in.
#[derive(Debug)]
pub struct Preset {
    name: &'static str,
    text: &'static str,
    more: More,
}

/// The rules that are not in a preset's own file.
#[derive(Debug)]
enum More {
    None,
    /// One for each line of a list of hosts.
    Hosts(&'static str),
    /// One for each package index that a tool of this machine is configured with.
    Index(Tool),
}

/// A tool that fetches packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Python's.
    Pip,
    /// Node's.
    Npm,
    /// Rust's.
    Cargo,
}

impl Tool {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Npm => "npm",
            Self::Cargo => "cargo",
        }
    }
}

/// A package index that a tool is configured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Where it is.
    pub host: Authority,
    /// It is a git repository, which is read by requests that look like writing.
    pub git: bool,
    /// The setting that names it, for people; nothing of its value.
    pub setting: String,
}

macro_rules! presets {
    ($($name:literal $more:expr;)*) => {
        /// Every preset, in the order in which they are listed.
        pub static PRESETS: &[Preset] =
            &[$(Preset { name: $name, text: include_str!(concat!("../../policies/", $name, ".toml")), more: $more }),*];
    };
}

presets! {
    "github" More::None;
    "gitlab" More::None;
    "bitbucket" More::None;
    "codeberg" More::None;
    "sourcehut" More::None;
    "python" More::Index(Tool::Pip);
    "node" More::Index(Tool::Npm);
    "rust" More::Index(Tool::Cargo);
    "mistral" More::None;
    "openai" More::None;
    "anthropic" More::None;
    "google" More::None;
    "telemetry" More::None;
    "recommended" More::Hosts(include_str!("../../policies/recommended-domains.txt"));
}

/// Where the cases of a preset begin: rules are put in before them.
const CASES: &str = "[[cases]]";

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it permits or denies, in one line.
    pub fn about(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    /// The tool whose package indexes it permits.
    pub fn tool(&self) -> Option<Tool> {
        match self.more {
            More::None | More::Hosts(_) => None,
            More::Index(tool) => Some(tool),
        }
    }

    /// The whole of it as a policy file. `indexes` are those of [`Self::tool`].
    pub fn file(&self, indexes: &[Index]) -> NamedText {
        let rules: String = match self.more {
            More::None => String::new(),
            More::Hosts(list) => hosts_of(list).map(whole_host).collect(),
            More::Index(_) => indexes.iter().map(index_rules).collect(),
        };
        let cases = self.text.find(CASES).unwrap_or(self.text.len());
        let (head, cases) = self.text.split_at(cases);
        NamedText { name: format!("preset {}", self.name), text: format!("{head}{rules}{cases}") }
    }
}

/// The hosts of a list: one a line, `#` begins a remark. A name that a `*.` of the list covers needs no rule of its own.
fn hosts_of(list: &str) -> impl Iterator<Item = &str> {
    let hosts =
        || list.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|host| !host.is_empty());
    let covers = |by: &str, host: &str| by != host && by.strip_prefix('*').is_some_and(|end| host.ends_with(end));
    hosts().filter(move |host| !hosts().any(|by| covers(by, host)))
}

fn whole_host(host: &str) -> String {
    format!("[[network.rules]]\nhost = \"{host}\"\naction = \"allow\"\n\n")
}

/// An index is read; what is published would be another matter.
fn index_rules(index: &Index) -> String {
    let Authority { host, port } = &index.host;
    let begin = format!("[[network.rules]]\nhost = \"{host}\"\nports = [{port}]\naction = \"allow\"\n");
    let mut rules =
        format!("# {}\n{begin}methods = [\"GET\", \"HEAD\"]\nreason = \"package index\"\n\n", index.setting);
    if index.git {
        let git = "methods = [\"POST\"]\npaths = [\"/**/git-upload-pack\"]\nreason = \"package index\"\n\n";
        rules += &format!("{begin}{git}");
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{PolicyOptions, load};

    fn index(host: &str, git: bool) -> Index {
        Index { host: Authority::parse(host, 443).unwrap(), git, setting: "index-url in /etc/pip.conf".to_owned() }
    }

    /// With an index where it takes one. Nothing is warned of, rules and cases are all there is, and every case holds.
    #[test]
    fn every_preset_is_sound() {
        let indexes = [index("index.test:8443", false), index("git.test", true)];
        for preset in PRESETS {
            for indexes in [&[][..], &indexes] {
                let file = preset.file(indexes);
                let compiled = load(std::slice::from_ref(&file), &PolicyOptions::default())
                    .unwrap_or_else(|mistakes| panic!("{mistakes}"));
                let warnings: Vec<_> = compiled.warnings.iter().map(ToString::to_string).collect();
                assert_eq!(warnings, Vec::<String>::new());
                let failures: Vec<_> =
                    compiled.cases.iter().filter_map(|case| case.check(&compiled.policy).err()).collect();
                assert_eq!(failures, []);
                assert!(compiled.cases.len() >= 3, "{}", file.name);
                let table: toml::Table = file.text.parse().unwrap();
                assert_eq!(table.keys().collect::<Vec<_>>(), ["cases", "network"], "{}", file.name);
                assert_eq!(table["network"].as_table().unwrap().keys().collect::<Vec<_>>(), ["rules"]);
                let added = if preset.tool().is_some() { 3 * indexes.len() / 2 } else { 0 };
                assert_eq!(file.text.matches("index.test").count() + file.text.matches("git.test").count(), added);
            }
            assert!(!preset.about().is_empty() && !preset.about().contains('\n'), "{}", preset.name);
        }
    }

    /// They may be joined as one likes, with whatever mode a file has.
    #[test]
    fn presets_contradict_nothing() {
        let files: Vec<_> = PRESETS.iter().map(|preset| preset.file(&[])).collect();
        for mode in ["none", "all", "allow"] {
            let hosts = if mode == "allow" { "hosts = [\"a.test\"]\n" } else { "" };
            let own = NamedText { name: "p.toml".to_owned(), text: format!("[network]\nmode = \"{mode}\"\n{hosts}") };
            let joined = [&[own][..], &files].concat();
            let compiled = load(&joined, &PolicyOptions::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
            // The same host in two of them is no contradiction either, and deny beats allow.
            let place = compiled.policy.rules().as_slice()[0].place().to_string();
            assert_eq!(place, "preset github:3:1");
        }
    }

    #[test]
    fn an_index_is_read_and_not_written() {
        let file = Preset::named("python").unwrap().file(&[index("index.test:8443", false), index("git.test", true)]);
        let compiled = load(&[file], &PolicyOptions::default()).unwrap();
        let asked = |text: &str| {
            let question = crate::policy::Question::parse(text).unwrap();
            question.ask(&compiled.policy).map_or_else(|denial| denial.code(), |_| "permit")
        };
        assert_eq!(asked("GET https://index.test:8443/simple/x/"), "permit");
        assert_eq!(asked("POST https://index.test:8443/legacy/"), "method_not_permitted");
        assert_eq!(asked("GET https://index.test/simple/x/"), "host_not_listed");
        assert_eq!(asked("GET https://git.test/index.git/info/refs"), "permit");
        assert_eq!(asked("POST https://git.test/index.git/git-upload-pack"), "permit");
        assert_eq!(asked("POST https://git.test/index.git/git-receive-pack"), "method_not_permitted");
    }

    #[test]
    fn names_are_found() {
        assert_eq!(Preset::named("python").and_then(Preset::tool), Some(Tool::Pip));
        assert!(Preset::named("pythn").is_none() && Preset::named("").is_none());
    }
}
