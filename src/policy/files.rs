//! What files a sandbox may read and write, and which sockets of the host it may use: the meaning of an srt `filesystem`
//! section, of GitLab's `allow_all_unix_sockets`, and of `[files]`. Only the meaning; paths are looked at by the launcher,
//! which enforces it.

use std::path::{Component, Path, PathBuf};

/// Everything about files. The default one limits nothing and hides every socket of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePolicy {
    /// `None`: the command has the files of its user, but for what is hidden from every sandbox (credential stores above
    /// all). srt's `disabled` says so, and a policy that does not speak of files.
    pub limits: Option<FileLimits>,
    /// Which sockets of the host's programs the command may connect to.
    pub unix_sockets: UnixSockets,
}

/// Which files the command may read and write. The default one permits no write, and to read everything.
///
/// What is the sandbox's own (/run, /dev/shm, a private /tmp, the terminal, /dev/null and its like) can always be written;
/// credential stores are hidden whatever this says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLimits {
    /// Files and trees that may be written. Nothing else may.
    pub allow_write: Vec<FilePath>,
    /// What may not be written though it lies below one of those, or is one. Beats `allow_write` always.
    pub deny_write: Vec<FilePath>,
    /// Files and trees that are hidden: empty and read-only.
    pub deny_read: Vec<FilePath>,
    /// What is shown though it lies below one of those, or is one. Beats `deny_read` but for a denied path below it.
    /// A path of `allow_write` counts as one.
    pub allow_read: Vec<FilePath>,
    /// `false`: `.git/config` of the working directory's repositories may not be written either. What else in
    /// [`PROTECTED_FILES`] and [`PROTECTED_DIRECTORIES`] never may, nor `.git/hooks`.
    pub allow_git_config: bool,
}

/// Files that programs outside obey, so that writing one would be code run there: denied in the working directory and in
/// directories below it, as srt 0.0.83 does (`DANGEROUS_FILES`). Compared without case.
pub const PROTECTED_FILES: [&str; 9] = [
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".zshrc",
    ".zprofile",
    ".profile",
    ".ripgreprc",
    ".mcp.json",
];

/// Directories of that kind (`DANGEROUS_DIRECTORIES`).
pub const PROTECTED_DIRECTORIES: [&str; 4] = [".vscode", ".idea", ".claude/commands", ".claude/agents"];

/// How deep below the working directory those are looked for: srt's `mandatoryDenySearchDepth`, its default.
pub const PROTECTED_DEPTH: usize = 3;

/// The sockets of host programs that lie in the file system. Docker's, an ssh agent's or a session bus's is a way out of
/// any sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UnixSockets {
    /// All hidden that are found.
    #[default]
    Masked,
    /// All but these hidden (srt's `allowUnixSockets`): sockets, or directories in which all are shown.
    Listed(Vec<FilePath>),
    /// None hidden but for those of credential stores (srt's `allowAllUnixSockets`, GitLab's `allow_all_unix_sockets`).
    All,
}

/// A path as a policy has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath {
    base: Base,
    /// Below the base; never absolute. Empty for the base itself.
    rest: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Base {
    Root,
    Home,
    WorkingDirectory,
}

/// Why a text is no path for a policy. The part before `; ` is what is wrong, the rest what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilePathError {
    /// Nothing at all.
    #[error("the path is empty; write `.` for the working directory")]
    Empty,
    /// A null byte, which no path can hold.
    #[error("the path holds a null byte; take it out")]
    Null,
    /// `~user`.
    #[error("`~` stands for the own home alone; write the whole path of another")]
    OtherHome,
    /// A pattern. A path means itself and all below it.
    #[error("a path is no pattern; name the directory, which stands for all that is in it")]
    Pattern,
}

impl FilePath {
    /// Reads an absolute path, one below `~`, or one that is counted from the working directory. A final `/**` is dropped, as
    /// a path stands for all below it anyway.
    ///
    /// # Errors
    /// [`FilePathError`]; `*`, `?` and `[` make a pattern, which [`Self::literal`] takes as they are.
    pub fn parse(text: &str) -> Result<Self, FilePathError> {
        let tree = match text.strip_suffix("/**") {
            Some("") => "/",
            Some(tree) => tree,
            None => text,
        };
        if tree.contains(['*', '?', '[', ']']) {
            return Err(FilePathError::Pattern);
        }
        Self::literal(tree)
    }

    /// The same for a text that is a path whatever characters it holds.
    ///
    /// # Errors
    /// [`FilePathError`], but never [`FilePathError::Pattern`].
    pub fn literal(text: &str) -> Result<Self, FilePathError> {
        if text.is_empty() {
            return Err(FilePathError::Empty);
        }
        if text.contains('\0') {
            return Err(FilePathError::Null);
        }
        let (base, rest) = match text.strip_prefix('~') {
            Some("") => (Base::Home, ""),
            Some(rest) => (Base::Home, rest.strip_prefix('/').ok_or(FilePathError::OtherHome)?),
            None if text.starts_with('/') => (Base::Root, text),
            None => (Base::WorkingDirectory, text),
        };
        let parts = Path::new(rest).components();
        let rest = parts.filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir)).collect();
        Ok(Self { base, rest })
    }

    /// Whether it is this one, or lies below it, as far as their words tell: `..` and links could say otherwise.
    pub fn lies_in(&self, tree: &Self) -> bool {
        let climbs = self.rest.components().any(|part| part == Component::ParentDir);
        self.base == tree.base && self.rest.starts_with(&tree.rest) && (!climbs || self == tree)
    }

    /// How many names it has below what it is counted from.
    pub fn depth(&self) -> usize {
        self.rest.components().count()
    }

    /// Whether it is counted from the home.
    pub fn is_of_home(&self) -> bool {
        self.base == Base::Home
    }

    /// The absolute path, links not followed and `..` left in. Both arguments must be absolute.
    pub fn resolve(&self, home: &Path, working_directory: &Path) -> PathBuf {
        let base = match self.base {
            Base::Root => Path::new("/"),
            Base::Home => home,
            Base::WorkingDirectory => working_directory,
        };
        // `join` of nothing would add a slash.
        if self.rest.as_os_str().is_empty() { base.to_owned() } else { base.join(&self.rest) }
    }
}

impl std::fmt::Display for FilePath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rest = self.rest.display();
        match (self.base, self.rest.as_os_str().is_empty()) {
            (Base::Root, _) => write!(formatter, "/{rest}"),
            (Base::Home, true) => formatter.write_str("~"),
            (Base::Home, false) => write!(formatter, "~/{rest}"),
            (Base::WorkingDirectory, true) => formatter.write_str("."),
            (Base::WorkingDirectory, false) => write!(formatter, "./{rest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! paths {
        ($($test:ident: $text:literal => $expected:expr;)*) => {
            $(#[test]
            fn $test() {
                let expected: Result<&str, FilePathError> = $expected;
                let resolved = FilePath::parse($text).map(|path| path.resolve(Path::new("/home/u"), Path::new("/work")));
                let resolved = resolved.as_ref().map(|path| path.to_str().unwrap()).map_err(|error| *error);
                assert_eq!(resolved, expected);
            })*
        };
    }

    paths! {
        absolute: "/srv/data" => Ok("/srv/data");
        the_root: "/" => Ok("/");
        the_home: "~" => Ok("/home/u");
        the_home_with_a_slash: "~/" => Ok("/home/u");
        below_the_home: "~/.ssh" => Ok("/home/u/.ssh");
        the_working_directory: "." => Ok("/work");
        as_gitlab_writes_it: "./" => Ok("/work");
        below_the_working_directory: "build/out" => Ok("/work/build/out");
        beside_the_working_directory: "../other" => Ok("/work/../other");
        a_tilde_in_a_name: "a~" => Ok("/work/a~");
        slashes_and_dots: "/srv//data/./x/" => Ok("/srv/data/x");
        a_whole_tree: "/srv/**" => Ok("/srv");
        everything: "/**" => Ok("/");
        a_star: "/srv/*.log" => Err(FilePathError::Pattern);
        two_stars_inside: "/srv/**/x" => Err(FilePathError::Pattern);
        a_bare_star: "**" => Err(FilePathError::Pattern);
        a_set: "/srv/[ab]" => Err(FilePathError::Pattern);
        nothing: "" => Err(FilePathError::Empty);
        null: "/a\0b" => Err(FilePathError::Null);
        anothers_home: "~other/x" => Err(FilePathError::OtherHome);
    }

    #[test]
    fn a_literal_may_hold_anything() {
        let path = FilePath::literal("/srv/[a]*").unwrap();
        assert_eq!(
            (path.resolve(Path::new("/h"), Path::new("/w")), path.to_string()),
            ("/srv/[a]*".into(), "/srv/[a]*".into())
        );
    }

    #[test]
    fn a_path_is_shown_as_it_was_meant() {
        let shown = ["~", "~/x/", ".", "x", "/x", "/"].map(|text| FilePath::parse(text).unwrap().to_string());
        assert_eq!(shown, ["~", "~/x", ".", "./x", "/x", "/"]);
    }

    #[test]
    fn nothing_said_is_nothing_written() {
        let limits = FileLimits::default();
        assert!(limits.allow_write.is_empty() && !limits.allow_git_config);
        assert_eq!(FilePolicy::default().unix_sockets, UnixSockets::Masked);
    }
}
