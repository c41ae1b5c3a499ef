//! What a sandbox must not see: credential stores, sockets of the host.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, SFlag, fstatat};
use serde::Deserialize;

use super::homes::Home;
use super::pins::links;
use super::plan::holds_url_credentials;

/// Larger files are taken to hold credentials without a look.
const CLEAN_FILE_LIMIT: u64 = 1024 * 1024;

/// The most entries looked at in one root of [`stray_sockets`].
const STRAY_ENTRIES: usize = 4096;

/// `policies/credential-paths.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stores {
    store: Vec<Store>,
}

/// One program's credentials.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    name: String,
    /// Masked where they exist.
    #[serde(default)]
    paths: Vec<String>,
    /// Settings that may hold credentials: masked unless a look into them shows none.
    #[serde(default)]
    unless_clean: Vec<String>,
}

/// Where credential stores are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorePaths {
    /// What is to be masked, symbolic links resolved.
    pub masks: Vec<PathBuf>,
    /// The links by which it is found.
    pub links: Vec<PathBuf>,
}

/// A variable points a credential store at a directory that the command itself needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the credentials of {store} lie in {}, which holds {}; masking it would hide that too: move the credentials or \
     start elsewhere",
    path.display(),
    needed.display()
)]
pub struct MaskError {
    store: String,
    path: PathBuf,
    needed: PathBuf,
}

/// Every credential store that exists.
///
/// `homes` are all that programs may take for the user's: that of the environment and that of passwd; for root those of
/// everybody. `variable` reads one variable of the launcher's environment; `needed` are directories that must stay visible:
/// the home and the working directory.
///
/// # Errors
///
/// [`MaskError`] when a store is, or holds, one of `needed`.
pub fn credential_paths(
    homes: &[&Path],
    uid: u32,
    needed: &[PathBuf],
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<StorePaths, MaskError> {
    let stores: Stores =
        toml::from_str(include_str!("../../policies/credential-paths.toml")).expect("compiled in, and tested");
    let homes: Vec<Home<'_>> = homes.iter().filter_map(|home| Home::with_stores(home, &may_begin_a_store)).collect();
    let mut found = StorePaths::default();
    // A home may be named twice, and a variable's default is often what another pattern says.
    let mut seen = HashSet::new();
    for store in stores.store {
        let always = store.paths.iter().map(|pattern| (pattern, false));
        for (pattern, may_be_clean) in always.chain(store.unless_clean.iter().map(|pattern| (pattern, true))) {
            let pattern = pattern.replace("{uid}", &uid.to_string());
            let mut places = expand(&pattern, &homes, variable);
            places.retain(|path| seen.insert((path.clone(), may_be_clean)));
            for (written, path) in places.iter().flat_map(|path| existing(path)) {
                if let Some(needed) = needed.iter().find(|needed| needed.starts_with(&path)) {
                    return Err(MaskError { store: store.name, path, needed: needed.clone() });
                }
                found.links.extend(links(&written, &path));
                if !(may_be_clean && is_clean(&path)) {
                    found.masks.push(path);
                }
            }
        }
    }
    found.masks.sort();
    found.masks.dedup();
    Ok(found)
}

/// Whether a name in a home can be the first of a store's path: hidden ones, and two more.
fn may_begin_a_store(name: &[u8]) -> bool {
    name.starts_with(b".") || [b"_netrc".as_slice(), b"snap"].contains(&name)
}

/// The places a pattern stands for: `~`, `$VARIABLE` (a list, where it holds colons) and plain absolute paths. Nothing,
/// when its variable is not set, or when it is plain that a home has no such name.
fn expand(pattern: &str, homes: &[Home<'_>], variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let (first, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let bases = match first.strip_prefix('$') {
        Some(name) => match variable(name).filter(|value| !value.is_empty()) {
            Some(value) => {
                value.as_bytes().split(|byte| *byte == b':').map(|part| OsStr::from_bytes(part).into()).collect()
            }
            None => default_base(name).map(|below| places(homes, below)).unwrap_or_default(),
        },
        None if first == "~" => return places(homes, rest),
        None => vec![PathBuf::from("/")],
    };
    let absolute = bases.into_iter().filter(|base: &PathBuf| base.is_absolute());
    absolute.map(|base| if rest.is_empty() { base } else { base.join(rest) }).collect()
}

/// Where it may be in each home.
fn places(homes: &[Home<'_>], below: &str) -> Vec<PathBuf> {
    homes.iter().filter(|home| home.may_hold(below)).map(|home| home.path.join(below)).collect()
}

/// The XDG Base Directory Specification's defaults, and the two toolchains that have one.
fn default_base(name: &str) -> Option<&'static str> {
    Some(match name {
        "XDG_CONFIG_HOME" => ".config",
        "XDG_DATA_HOME" => ".local/share",
        "XDG_STATE_HOME" => ".local/state",
        "XDG_CACHE_HOME" => ".cache",
        "CARGO_HOME" => ".cargo",
        "GRADLE_USER_HOME" => ".gradle",
        _ => return None,
    })
}

/// What of a path exists, as it is written and resolved. A `*` that ends the last component stands for any rest of the name.
fn existing(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let resolved = |path: &Path| path.canonicalize().ok().map(|resolved| (path.to_owned(), resolved));
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let (Some(prefix), Some(parent)) = (name.strip_suffix(b"*"), path.parent()) else {
        // One call tells that most of them are not there; resolving takes one for each component.
        return path.symlink_metadata().ok().and_then(|_| resolved(path)).into_iter().collect();
    };
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix));
    named.filter_map(|entry| resolved(&entry.path())).collect()
}

/// Whether a settings file plainly holds no credential. In doubt it does.
fn is_clean(path: &Path) -> bool {
    const SIGNS: [&[u8]; 7] = [b"_auth", b"token", b"password", b"passwd", b"secret", b"credential", b"extraheader"];
    let short = path.metadata().is_ok_and(|data| data.is_file() && data.len() <= CLEAN_FILE_LIMIT);
    let Some(text) = short.then(|| std::fs::read(path).ok()).flatten() else { return false };
    let text = text.to_ascii_lowercase();
    !holds_url_credentials(&text) && SIGNS.iter().all(|sign| memchr::memmem::find(&text, sign).is_none())
}

/// The sockets in the file system that `table`, the text of `/proc/net/unix`, names.
///
/// The network namespace does not keep the command from them. A snapshot: a socket that appears later in a directory that
/// the command sees is not in it. Only what is a socket counts, so a name with a line break in it can hide nothing else.
pub fn host_sockets(table: &[u8]) -> Vec<PathBuf> {
    let names = table.split(|byte| *byte == b'\n').skip(1).filter_map(socket_name);
    let mut found: Vec<PathBuf> = names.filter_map(resolve_socket).collect();
    found.sort();
    found.dedup();
    found
}

/// The absolute name at the end of a line; it may itself hold blanks. Abstract names begin with `@`.
fn socket_name(line: &[u8]) -> Option<&Path> {
    let mut rest = line;
    // Num RefCount Protocol Flags Type St Inode, padded with blanks, then one blank and the name.
    for _ in 0..7 {
        rest = rest.trim_ascii_start();
        rest = &rest[rest.iter().position(|byte| *byte == b' ')?..];
    }
    let name = rest.get(1..)?;
    name.starts_with(b"/").then(|| Path::new(OsStr::from_bytes(name)))
}

fn resolve_socket(name: &Path) -> Option<PathBuf> {
    let directory = name.parent()?.canonicalize().ok()?;
    let Some(Component::Normal(file)) = name.components().next_back() else { return None };
    let path = directory.join(file);
    path.symlink_metadata().ok()?.file_type().is_socket().then_some(path)
}

/// Sockets in and shortly below `roots`, by a walk: one that was bound by a relative name, linked, renamed or made in another
/// network namespace is not in `/proc/net/unix` by its path. Two levels deep, no more than 4,096 entries a root, links not
/// followed. A snapshot too.
pub fn stray_sockets(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut roots: Vec<&PathBuf> = roots.iter().collect();
    roots.sort();
    roots.dedup();
    let mut found = Vec::new();
    for root in roots {
        let Ok(mut top) = Dir::open(root.as_path(), LOOK, Mode::empty()) else { continue };
        let mut left = STRAY_ENTRIES;
        let below = sockets_in(&mut top, root, &mut left, &mut found);
        // What lies directly in the root comes first, so that a large directory in it cannot hide it.
        for name in below {
            if let Ok(mut directory) = Dir::openat(&top, name.as_c_str(), LOOK | OFlag::O_NOFOLLOW, Mode::empty()) {
                sockets_in(&mut directory, &root.join(OsStr::from_bytes(name.to_bytes())), &mut left, &mut found);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

const LOOK: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC).union(OFlag::O_NONBLOCK);

/// Notes the sockets in one directory; answers with the names of the directories in it. A home has thousands of entries, and
/// the command waits for this: the type comes with an entry, so only what counts is given memory.
fn sockets_in(directory: &mut Dir, path: &Path, left: &mut usize, found: &mut Vec<PathBuf>) -> Vec<CString> {
    let (mut below, mut untold) = (Vec::new(), Vec::new());
    let mut note = |kind: Type, name: &CStr| match kind {
        Type::Socket => found.push(path.join(OsStr::from_bytes(name.to_bytes()))),
        Type::Directory if ![c".", c".."].contains(&name) => below.push(name.to_owned()),
        Type::Directory | Type::Fifo | Type::CharacterDevice | Type::BlockDevice | Type::File | Type::Symlink => {}
    };
    for entry in directory.iter().flatten().take(*left) {
        *left -= 1;
        match entry.file_type() {
            Some(kind) => note(kind, entry.file_name()),
            // A few file systems do not tell.
            None => untold.push(entry.file_name().to_owned()),
        }
    }
    for name in untold {
        let looked = fstatat(&*directory, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        match looked.map(|data| SFlag::from_bits_truncate(data.st_mode) & SFlag::S_IFMT) {
            Ok(SFlag::S_IFSOCK) => note(Type::Socket, &name),
            Ok(SFlag::S_IFDIR) => note(Type::Directory, &name),
            Ok(_) | Err(_) => {}
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A directory that goes with the test.
    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("masks-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path.canonicalize().unwrap())
        }

        fn file(&self, path: &str, content: &str) -> PathBuf {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
            path
        }

        fn masks(&self, variables: &[(&str, &str)]) -> Result<Vec<PathBuf>, MaskError> {
            let read = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            let masks = credential_paths(&[&self.0], 1, &[self.0.clone(), self.0.join("work")], &read)?;
            Ok(masks.masks.into_iter().filter(|path| path.starts_with(&self.0)).collect())
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn directories_and_files_that_exist_are_masked() {
        let home = Home::new("plain");
        home.file(".ssh/id", "");
        let netrc = home.file(".netrc", "");
        home.file(".bashrc", "");
        assert_eq!(home.masks(&[]).unwrap(), [netrc, home.0.join(".ssh")]);
    }

    /// Else the look at a home's names would pass over the home.
    #[test]
    fn every_store_begins_as_expected() {
        let stores: Stores = toml::from_str(include_str!("../../policies/credential-paths.toml")).unwrap();
        let patterns = stores.store.into_iter().flat_map(|store| store.paths.into_iter().chain(store.unless_clean));
        let bases = patterns.flat_map(|pattern| expand(&pattern, &[super::Home::unseen(Path::new("/h"))], &|_| None));
        let below: Vec<PathBuf> = bases.filter_map(|path| Some(path.strip_prefix("/h").ok()?.to_owned())).collect();
        let first = |path: &PathBuf| path.iter().next().unwrap().as_bytes().to_vec();
        let odd: Vec<&PathBuf> = below.iter().filter(|path| !may_begin_a_store(&first(path))).collect();
        assert!(below.len() > 100 && odd.is_empty(), "{} {odd:?}", below.len());
    }

    #[test]
    fn every_home_is_looked_into() {
        let (home, other) = (Home::new("first"), Home::new("second"));
        let keys = [home.file(".ssh/id", ""), other.file(".ssh/id", "")].map(|key| key.parent().unwrap().to_owned());
        let masks = credential_paths(&[&home.0, &other.0], 1, &[], &|_| None).unwrap().masks;
        assert!(keys.iter().all(|key| masks.contains(key)), "{masks:?}");
    }

    #[test]
    fn links_are_resolved_first() {
        let home = Home::new("link");
        home.file("dotfiles/aws/credentials", "");
        symlink("dotfiles/aws", home.0.join(".aws")).unwrap();
        assert_eq!(home.masks(&[]).unwrap(), [home.0.join("dotfiles/aws")]);
        let links = credential_paths(&[&home.0], 1, &[], &|_| None).unwrap().links;
        assert!(links.contains(&home.0.join(".aws")), "{links:?}");
    }

    #[test]
    fn base_directories_and_variables_are_followed() {
        let home = Home::new("xdg");
        let other = home.file("conf/gh/hosts.yml", "");
        let kube = home.file("elsewhere/kube", "");
        let variables = [("XDG_CONFIG_HOME", home.0.join("conf")), ("KUBECONFIG", kube.clone())];
        let variables: Vec<_> = variables.iter().map(|(name, path)| (*name, path.to_str().unwrap())).collect();
        assert_eq!(home.masks(&variables).unwrap(), [other.parent().unwrap(), &kube]);
    }

    #[test]
    fn settings_are_masked_only_when_they_hold_credentials() {
        let home = Home::new("clean");
        home.file(".config/pip/pip.conf", "[global]\nindex-url = https://index.test/simple\n");
        let npmrc = home.file(".npmrc", "//registry.test/:_authToken=x\n");
        assert_eq!(home.masks(&[]).unwrap(), [npmrc]);
    }

    #[test]
    fn a_store_that_holds_the_working_directory_is_refused() {
        let home = Home::new("holds");
        home.file("work/x", "");
        let refused = home.masks(&[("GNUPGHOME", home.0.to_str().unwrap())]).unwrap_err();
        assert!(refused.to_string().contains("gnupg"), "{refused}");
    }

    #[test]
    fn stray_sockets_are_found_two_levels_deep() {
        let home = Home::new("stray");
        home.file("a/b/c/plain", "");
        let sockets = ["top", "a/one", "a/b/two"].map(|name| home.0.join(name));
        let _listeners = sockets.each_ref().map(|socket| UnixListener::bind(socket).unwrap());
        symlink(&sockets[2], home.0.join("a/link")).unwrap();
        assert_eq!(stray_sockets(&[home.0.clone(), home.0.clone()]), [home.0.join("a/one"), home.0.join("top")]);
        assert!(stray_sockets(&[home.0.join("absent")]).is_empty());
    }

    #[test]
    fn sockets_are_found_with_blanks_in_their_names_and_without_impostors() {
        let home = Home::new("sockets");
        let socket = home.0.join("a b");
        let _listener = UnixListener::bind(&socket).unwrap();
        let plain = home.file("plain", "");
        let line = |name: &Path| format!("0000: 00000002 00000000 00010000 0001 01 12345 {}\n", name.display());
        let table = [
            "Num Path\n".to_owned(),
            line(&socket),
            line(&plain),
            line(Path::new("@abstract")),
            line(Path::new("rel")),
        ];
        assert_eq!(host_sockets(table.concat().as_bytes()), [socket]);
    }
}
