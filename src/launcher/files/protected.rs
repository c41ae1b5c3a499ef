//! Files that programs outside obey, which no policy lets a command write: hooks and settings of git, of shells, of editors.
//! What they are: [`crate::policy::files`].

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::policy::files::{PROTECTED_DEPTH, PROTECTED_DIRECTORIES, PROTECTED_FILES};

use super::placeholders::StandIn;
use super::{Around, FilesError};

/// The most directory entries that are looked at.
const ENTRIES: usize = 500_000;

/// What is not looked into: it holds no files of anybody's.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A protected path, and what takes its name where it does not exist.
pub(super) type Protected = (PathBuf, StandIn);

/// Every protected path of a run that may write `trees`: by name where the command starts and in the home, be they there or
/// not; those that exist in the levels below where it starts. Of a directory of git's the hooks, and its settings unless
/// `git_config` permits them.
pub(super) fn paths(around: &Around<'_>, trees: &[&Path], git_config: bool) -> Result<Vec<Protected>, FilesError> {
    let start = around.directory;
    let mut found = Vec::new();
    for directory in [start, around.home] {
        if trees.iter().any(|tree| directory.starts_with(tree)) {
            let names = PROTECTED_FILES.iter().chain(&PROTECTED_DIRECTORIES);
            found.extend(names.map(|name| (directory.join(name), StandIn::Directory)));
        }
    }
    let is_touched = trees.iter().any(|tree| tree.starts_with(start) || start.starts_with(tree));
    if is_touched {
        let mut scan = Scan { git_config, left: ENTRIES, found };
        let scanned = scan.directory(start, 0);
        if scanned.is_err() {
            let (directory, most, depth) = (start.to_owned(), ENTRIES, PROTECTED_DEPTH);
            return Err(FilesError::TooLarge { directory, most, depth });
        }
        found = scan.found;
    }
    Ok(found)
}

struct Scan {
    git_config: bool,
    left: usize,
    found: Vec<Protected>,
}

/// There is more than can be looked at.
struct TooMany;

impl Scan {
    /// A directory that cannot be read holds nothing that can be found; its names are not the command's to change either,
    /// unless it is the user's own, and then it is denied whole.
    fn directory(&mut self, directory: &Path, depth: usize) -> Result<(), TooMany> {
        if KERNEL.iter().any(|kernel| directory == Path::new(kernel)) {
            return Ok(());
        }
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && depth > 0 => {
                self.deny(directory.to_owned());
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        let mut below = Vec::new();
        for entry in entries.flatten() {
            self.left = self.left.checked_sub(1).ok_or(TooMany)?;
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            self.entry(directory, entry.file_name(), is_directory, &mut below);
        }
        if depth == PROTECTED_DEPTH {
            return Ok(());
        }
        below.into_iter().try_for_each(|name| self.directory(&directory.join(name), depth + 1))
    }

    fn entry(&mut self, directory: &Path, name: OsString, is_directory: bool, below: &mut Vec<OsString>) {
        let path = directory.join(&name);
        let plain = name.to_string_lossy().to_ascii_lowercase();
        if plain == ".git" {
            self.repository(&path);
        } else if PROTECTED_FILES.contains(&plain.as_str()) || PROTECTED_DIRECTORIES.contains(&plain.as_str()) {
            self.deny(path);
        } else if plain == ".claude" {
            let parts = PROTECTED_DIRECTORIES.iter().filter_map(|part| part.strip_prefix(".claude/"));
            let parts: Vec<PathBuf> = parts.map(|part| path.join(part)).collect();
            parts.into_iter().filter(|part| part.symlink_metadata().is_ok()).for_each(|part| self.deny(part));
        } else if is_directory && plain != "node_modules" {
            below.push(name);
        }
    }

    fn deny(&mut self, path: PathBuf) {
        self.found.push((path, StandIn::Directory));
    }

    /// `.git`, a directory (or a link to one), or a file that leads to one: of a worktree or a submodule.
    fn repository(&mut self, path: &Path) {
        if path.is_dir() {
            return self.settings(path);
        }
        self.deny(path.to_owned());
        let text = std::fs::read(path).unwrap_or_default();
        let named = text.strip_prefix(b"gitdir:").map(|named| Path::new(OsStr::from_bytes(named.trim_ascii())));
        let Some(directory) = named.zip(path.parent()).map(|(directory, above)| above.join(directory)) else { return };
        self.settings(&directory);
        if directory.join("gitdir").exists() {
            self.deny(directory.join("gitdir"));
        }
        let common = std::fs::read(directory.join("commondir")).unwrap_or_default();
        if !common.is_empty() {
            self.settings(&directory.join(Path::new(OsStr::from_bytes(common.trim_ascii()))));
        }
    }

    /// The repositories of submodules, checked out or not: git outside obeys their hooks and settings. Where there are none yet, none
    /// is made, or one would be waiting for its submodule.
    fn modules(&mut self, modules: &Path, depth: usize) {
        let Ok(entries) = std::fs::read_dir(modules) else {
            if depth == 0 {
                self.deny(modules.to_owned());
            }
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.join("HEAD").exists() {
                self.settings(&path);
            } else if depth < PROTECTED_DEPTH && path.is_dir() {
                self.modules(&path, depth + 1);
            }
        }
    }

    /// Worktrees may lie elsewhere; what leads from them to hooks and settings lies here.
    fn worktrees(&mut self, git: &Path) {
        for entry in std::fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten() {
            for name in ["commondir", "gitdir", "config.worktree"] {
                if entry.path().join(name).symlink_metadata().is_ok() {
                    self.deny(entry.path().join(name));
                }
            }
        }
    }

    /// Hooks, settings, and `commondir` (gitrepository-layout(5)), a file that says where hooks and settings are read from:
    /// one that says "here" takes its name.
    fn settings(&mut self, git: &Path) {
        self.deny(git.join("hooks"));
        if git.join("HEAD").exists() {
            self.found.push((git.join("commondir"), StandIn::Here));
            self.worktrees(git);
            self.modules(&git.join("modules"), 0);
        }
        if self.git_config {
            return;
        }
        self.deny(git.join("config"));
        let config = std::fs::read(git.join("config")).unwrap_or_default().to_ascii_lowercase();
        // Only then it is read.
        if memchr::memmem::find(&config, b"worktreeconfig").is_some() {
            self.found.push((git.join("config.worktree"), StandIn::Nothing));
        }
    }
}
