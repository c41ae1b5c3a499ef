//! What a sandbox is to be: everything pid 1 needs to know, decided outside and before. Pure, and so testable without
//! privileges.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Where files of the launcher's own lie inside. Read-only there, and gone with the sandbox.
pub const PRIVATE_DIRECTORY: &str = "/run/sandbox-proxy";

/// Everything about one run. Paths are `OsString` because they need not be UTF-8 and travel to pid 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The program, looked up in the `PATH` of `environment`, and its arguments. Not empty.
    pub command: Vec<OsString>,
    /// The working directory, absolute.
    pub directory: OsString,
    /// The whole environment of the command.
    pub environment: Vec<(OsString, OsString)>,
    /// The host name inside; `/etc/hosts` knows it.
    pub host_name: String,
    /// The ports to listen on where nf_tables is missing: those the policy names.
    pub ports: Vec<u16>,
    /// Files to put in place before the command starts.
    pub placed: Vec<Placed>,
    /// What the command must not see: a directory becomes an empty one, anything else an empty file.
    pub masks: Vec<OsString>,
    /// Directories that must keep their names: see [`super::pins()`].
    pub pins: Vec<OsString>,
    /// Files that must stay as they are, such as the policy: read-only inside, and not to be replaced.
    pub unchanged: Vec<OsString>,
    /// `$XDG_RUNTIME_DIR`, which becomes an empty directory of the sandbox's own.
    pub runtime_directory: Option<OsString>,
    /// Directories under /run that the command needs nevertheless: those of `PATH`, and the working directory.
    pub kept: Vec<OsString>,
    /// Whether /tmp is the sandbox's own, too.
    pub private_tmp: bool,
    /// The command runs as the real root of this machine: writes are limited as DESIGN 8 says.
    pub real_root: bool,
    /// What the policy says about files. `None`: the user's rights hold, and real root's limits.
    pub files: Option<FilePlan>,
    /// The sockets of the host that the command may connect to.
    pub sockets: HostSockets,
}

/// Which files may be written and seen. Every path is resolved, absolute and exists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePlan {
    /// Files and trees that may be written; none lies in another, nor in one of `unwritable`.
    pub(super) writable: Vec<Tree>,
    /// What lies in those and may not.
    pub(super) unwritable: Vec<OsString>,
    /// What is hidden.
    pub(super) masked: Vec<OsString>,
    /// What is shown though it lies in one of those.
    pub(super) shown: Vec<Tree>,
}

/// A place that is to be the very one that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tree {
    pub(super) path: OsString,
    device: u64,
    inode: u64,
}

/// Which sockets in the file system the host's programs share with the command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostSockets {
    /// None.
    #[default]
    Masked,
    /// These sockets, and those in these directories; resolved.
    Listed(Vec<OsString>),
    /// All.
    All,
}

impl Tree {
    pub(super) fn new(path: &Path) -> std::io::Result<Self> {
        let data = path.metadata()?;
        Ok(Self { path: path.as_os_str().to_owned(), device: data.dev(), inode: data.ino() })
    }

    pub(super) fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Whether this is the place, whatever stands at its path by now.
    pub(super) fn is(&self, data: &Metadata) -> bool {
        (data.dev(), data.ino()) == (self.device, self.inode)
    }
}

impl FilePlan {
    /// Whether a path is hidden: the innermost of what is masked and what is shown decides.
    pub(super) fn hides(&self, path: &Path) -> bool {
        let length = |place: &Path| path.starts_with(place).then(|| place.components().count());
        let masked = self.masked.iter().filter_map(|place| length(Path::new(place))).max();
        let shown = self.shown.iter().filter_map(|tree| length(tree.path())).max();
        masked > shown
    }

    /// What may be written.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        self.writable.iter().map(Tree::path)
    }

    /// The mask that hides a path.
    pub fn mask_of(&self, path: &Path) -> Option<&Path> {
        self.masked.iter().map(Path::new).filter(|mask| path.starts_with(mask)).max().filter(|_| self.hides(path))
    }

    /// Everything that must keep its name for the limits to hold.
    pub fn named(&self) -> impl Iterator<Item = &Path> {
        self.unwritable.iter().chain(&self.masked).map(Path::new)
    }
}

/// A file with content of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Where it is to be found, absolute: below [`PRIVATE_DIRECTORY`], or over files of the system, whose directories must
    /// exist. Not empty.
    pub(super) paths: Vec<OsString>,
    /// Travels beside the plan, not in it.
    #[serde(skip)]
    pub(super) content: Vec<u8>,
    pub(super) length: u64,
}

impl Placed {
    /// Has `content` at each of the paths.
    pub fn new(paths: Vec<OsString>, content: Vec<u8>) -> Self {
        Self { paths, length: content.len() as u64, content }
    }
}

/// Why an environment could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// The name of `--keep-env` cannot be one.
    #[error("--keep-env {0:?}: a variable's name is not empty and holds no `=`; give the name alone")]
    BadName(String),
}

/// The list of `policies/environment.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scrub {
    /// Names that are kept; a final `*` stands for any rest.
    keep: Vec<String>,
    /// Names that are not, whatever `keep` says; `*` at either end.
    never: Vec<String>,
}

/// The environment that the command may inherit: what `policies/environment.toml` lists, and `keep`, which a person
/// named, and so holds even against the list of what is never kept.
///
/// `names` are those of the environment; `read` is asked only for the values of names that pass. A value with a URL that
/// holds credentials passes only by `keep`.
///
/// # Errors
///
/// [`EnvironmentError::BadName`].
pub fn environment(
    names: &[OsString],
    keep: &[String],
    read: &dyn Fn(&OsStr) -> Option<OsString>,
) -> Result<BTreeMap<OsString, OsString>, EnvironmentError> {
    if let Some(bad) = keep.iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(EnvironmentError::BadName(bad.clone()));
    }
    let scrub: Scrub =
        toml::from_str(include_str!("../../policies/environment.toml")).expect("compiled in, and tested");
    let mut kept = BTreeMap::new();
    for name in names {
        let asked = keep.iter().any(|wanted| OsStr::new(wanted) == name);
        let listed = || name.to_str().is_some_and(|name| scrub.lists(name));
        if !asked && !listed() {
            continue;
        }
        if let Some(value) = read(name).filter(|value| asked || !holds_url_credentials(value.as_bytes())) {
            kept.insert(name.clone(), value);
        }
    }
    Ok(kept)
}

impl Scrub {
    /// Case counts for nothing, since `https_proxy` and `HTTPS_PROXY` are one thing to most programs.
    fn lists(&self, name: &str) -> bool {
        let name = name.to_ascii_uppercase();
        self.keep.iter().any(|pattern| matches(pattern, &name))
            && !self.never.iter().any(|pattern| matches(pattern, &name))
    }
}

/// Whether a name in capitals is what the pattern, which is too, stands for; `*` at its start or end stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(rest), Some(_)) => name.contains(rest.trim_end_matches('*')),
        (Some(rest), None) => name.ends_with(rest),
        (None, Some(rest)) => name.starts_with(rest),
        (None, None) => name == pattern,
    }
}

/// Whether some URL in `text` has a user part.
pub(super) fn holds_url_credentials(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(start) = memchr::memmem::find(rest, b"://") {
        rest = &rest[start + 3..];
        let end = rest.iter().position(|byte| b"/?#\"' \t\r\n,".contains(byte)).unwrap_or(rest.len());
        if rest[..end].contains(&b'@') {
            return true;
        }
    }
    false
}

/// `/etc/hosts` inside: localhost and the host name, nothing of the host's.
pub(super) fn hosts_file(host_name: &str) -> String {
    format!("127.0.0.1\tlocalhost {host_name}\n::1\tlocalhost ip6-localhost ip6-loopback {host_name}\n")
}

/// `/etc/resolv.conf` inside. Any nameserver would reach ours; this one does not make clients think of a cache of the
/// host's. EDNS lets an answer be as long as DNS over UDP allows.
pub(super) fn resolver_file() -> String {
    format!("nameserver {}\noptions edns0\n", super::network::OWN_IPV4)
}

/// `/etc/nsswitch.conf` inside: the host's, but names come from the hosts file and DNS alone. Other sources (resolve,
/// mdns, mymachines) ask daemons of the host over sockets.
pub(super) fn name_service_file(original: &str) -> String {
    let others = original.lines().filter(|line| !line.trim_start().starts_with("hosts:"));
    others.chain(["hosts: files dns"]).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn scrubbed(variables: &[(&str, &str)], keep: &[&str]) -> Vec<String> {
        let names: Vec<OsString> = variables.iter().map(|(name, _)| name.into()).collect();
        let keep: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
        let read = |name: &OsStr| variables.iter().find(|(known, _)| name == *known).map(|(_, value)| value.into());
        let kept = environment(&names, &keep, &read).unwrap();
        kept.into_keys().map(|name| name.into_string().unwrap()).collect()
    }

    macro_rules! scrubs {
        ($($test:ident: $name:literal = $value:literal, keep $keep:expr => $kept:literal;)*) => {
            $(#[test]
            fn $test() {
                let kept = scrubbed(&[($name, $value)], &$keep);
                assert_eq!(kept == [$name], $kept, "{kept:?}");
            })*
        };
    }

    scrubs! {
        path_is_kept: "PATH" = "/bin", keep [] => true;
        any_locale_is_kept: "LC_MESSAGES" = "C", keep [] => true;
        toolchain_home_is_kept: "CARGO_HOME" = "/c", keep [] => true;
        unknown_is_dropped: "DEMO" = "x", keep [] => false;
        unknown_is_kept_on_request: "DEMO" = "x", keep ["DEMO"] => true;
        token_is_dropped: "GH_TOKEN" = "x", keep [] => false;
        lower_case_proxy_is_dropped: "https_proxy" = "http://p", keep [] => false;
        never_beats_keep_pattern: "LC_API_KEY" = "x", keep [] => false;
        agent_is_dropped: "SSH_AUTH_SOCK" = "/tmp/a", keep [] => false;
        preload_is_dropped: "LD_PRELOAD" = "/tmp/a.so", keep [] => false;
        index_url_is_kept: "PIP_INDEX_URL" = "https://index.test/simple", keep [] => true;
        index_url_with_credentials_is_dropped: "PIP_INDEX_URL" = "https://u:p@index.test/simple", keep [] => false;
        second_url_with_credentials_is_dropped: "PIP_EXTRA_INDEX_URL" = "https://a.test https://t@b.test/", keep [] => false;
        credentials_are_kept_on_request: "PIP_INDEX_URL" = "https://u:p@index.test/", keep ["PIP_INDEX_URL"] => true;
        an_at_in_a_path_is_no_credential: "PIP_INDEX_URL" = "https://index.test/@scope", keep [] => true;
    }

    #[test]
    fn the_list_is_in_capitals() {
        let list: Scrub = toml::from_str(include_str!("../../policies/environment.toml")).unwrap();
        assert!(list.keep.iter().chain(&list.never).all(|pattern| *pattern == pattern.to_ascii_uppercase()));
    }

    #[test]
    fn values_of_dropped_names_are_never_read() {
        let names = ["SECRET_THING".into(), "PATH".into()];
        let read = |name: &OsStr| {
            assert_eq!(name, "PATH");
            Some("/bin".into())
        };
        assert_eq!(environment(&names, &[], &read).unwrap().len(), 1);
    }

    #[test]
    fn a_value_given_to_keep_env_is_refused() {
        let refused = environment(&[], &["A=b".to_owned()], &|_| None);
        assert_eq!(refused, Err(EnvironmentError::BadName("A=b".to_owned())));
    }

    #[test]
    fn only_the_hosts_line_of_nsswitch_changes() {
        let inside = name_service_file("passwd: files systemd\n hosts: mymachines resolve\nnetgroup: nis\n");
        assert_eq!(inside, "passwd: files systemd\nnetgroup: nis\nhosts: files dns\n");
    }

    #[test]
    fn the_innermost_decides_what_is_hidden() {
        let tree = |path: &str| Tree { path: path.into(), device: 0, inode: 0 };
        let plan = FilePlan {
            masked: vec!["/a".into(), "/a/b/c".into()],
            shown: vec![tree("/a/b"), tree("/a/b/c/d")],
            ..FilePlan::default()
        };
        let hidden = ["/", "/ab", "/a", "/a/x", "/a/b", "/a/b/x", "/a/b/c", "/a/b/c/x", "/a/b/c/d"];
        let answers = hidden.map(|path| plan.hides(Path::new(path)));
        assert_eq!(answers, [false, false, true, true, false, false, true, true, false]);
        assert_eq!(plan.mask_of(Path::new("/a/b/c/x")), Some(Path::new("/a/b/c")));
        assert_eq!(plan.mask_of(Path::new("/a/b/x")), None);
    }

    #[test]
    fn a_plan_travels_whole() {
        let plan = Plan {
            command: vec![OsStr::from_bytes(b"\xff").to_owned()],
            directory: "/".into(),
            environment: vec![("A".into(), "b".into())],
            host_name: "h".to_owned(),
            ports: vec![443],
            placed: vec![
                Placed::new(vec!["/a".into(), "/d".into()], b"one\ntwo".to_vec()),
                Placed::new(vec!["/b".into()], Vec::new()),
                Placed::new(vec!["/c".into()], vec![0, 255]),
            ],
            masks: vec!["/m".into()],
            pins: vec!["/p".into()],
            unchanged: vec!["/u".into()],
            runtime_directory: None,
            kept: Vec::new(),
            private_tmp: false,
            real_root: true,
            files: Some(FilePlan { masked: vec!["/x".into()], ..FilePlan::default() }),
            sockets: HostSockets::Listed(vec!["/s".into()]),
        };
        let (memory, length) = crate::launcher::control::write_plan(&plan).unwrap();
        let (mut read, mut contents) = crate::launcher::control::read_plan(memory, length).unwrap();
        for placed in &mut read.placed {
            std::io::Read::take(&mut contents, placed.length).read_to_end(&mut placed.content).unwrap();
        }
        assert_eq!(read, plan);
    }
}
