//! Files of ours in place of the system's: resolver settings, hosts, certificate bundles.
//!
//! Not by binding over the file: when the host renames a new file over it (`update-ca-certificates`, NetworkManager), the
//! kernel detaches such a mount and the command sees the host's. The *directory* is replaced instead, by a read-only
//! overlay of our files on top of the host's, which no change of an entry below can detach. Where the kernel refuses an
//! overlay (before Linux 5.11, or when other mounts lie below, as in containers) the directory becomes a private one in
//! which each of the host's entries is bound.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use super::control::{Failure, Layer};
use super::mounts::{bind, descriptor_path, failed, hold, is_private_file, made, tmpfs};
use super::plan::{Plan, hosts_file, name_service_file, resolver_file};

/// A directory whose entries are partly ours.
pub(super) struct Override {
    directory: PathBuf,
    /// Our files, in the shape of the directory.
    ours: PathBuf,
}

/// Writes every file of ours to the stage, and answers which directories to replace.
pub(super) fn prepare(plan: &Plan, contents: &File, stage: &Path) -> Result<Vec<Override>, Failure> {
    let etc = Path::new("/etc");
    let name_service = std::fs::read_to_string(etc.join("nsswitch.conf")).unwrap_or_default();
    let own = [
        (etc.join("resolv.conf"), resolver_file()),
        (etc.join("nsswitch.conf"), name_service_file(&name_service)),
        (etc.join("hosts"), hosts_file(&plan.host_name)),
        (etc.join("hostname"), format!("{}\n", plan.host_name)),
    ];
    let mut trees: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for (path, content) in own {
        write_below(&place(&path, stage, &mut trees)?, content.as_bytes())?;
    }
    for placed in &plan.placed {
        let mut written: Option<PathBuf> = None;
        for path in &placed.paths {
            let target = place(Path::new(path), stage, &mut trees)?;
            match &written {
                None => copy_below(&target, contents, placed.length)?,
                // The stage is one file system, so a second name costs nothing.
                Some(first) => link_below(first, &target)?,
            }
            written.get_or_insert(target);
        }
    }
    Ok(trees.into_iter().map(|(directory, ours)| Override { directory, ours }).collect())
}

/// Where on the stage a file of ours is made: in its own place below the private directory, else in a tree in the shape of
/// the directory that it will cover.
fn place(path: &Path, stage: &Path, trees: &mut BTreeMap<PathBuf, PathBuf>) -> Result<PathBuf, Failure> {
    if is_private_file(path) {
        return Ok(path.to_owned());
    }
    let etc = Path::new("/etc");
    let path = resolved(path)?;
    let directory = if path.starts_with(etc) { etc } else { path.parent().unwrap_or(etc) };
    let count = trees.len();
    let ours = trees.entry(directory.to_owned()).or_insert_with(|| stage.join(format!("override-{count}")));
    let inside = path.strip_prefix(directory).map_err(|_| misplaced(&path))?;
    Ok(ours.join(inside))
}

/// The path with the links of its directory followed; the file itself may be a link, and is replaced as such.
fn resolved(path: &Path) -> Result<PathBuf, Failure> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(misplaced(path)) };
    let parent = parent.canonicalize().map_err(|error| failed("replacing", path, &error))?;
    Ok(parent.join(name))
}

fn misplaced(path: &Path) -> Failure {
    Failure::text(Layer::Mounts, format!("{} cannot be put in place of a file", path.display()))
}

fn write_below(path: &Path, content: &[u8]) -> Result<(), Failure> {
    make_parent(path)?;
    made(path, std::fs::write(path, content))
}

/// The kernel copies; the bytes never pass through this process.
fn copy_below(path: &Path, contents: &File, length: u64) -> Result<(), Failure> {
    make_parent(path)?;
    let copied = File::create(path).and_then(|mut file| std::io::copy(&mut contents.take(length), &mut file));
    made(path, copied.and_then(|copied| if copied == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }))
}

fn link_below(first: &Path, path: &Path) -> Result<(), Failure> {
    make_parent(path)?;
    made(path, std::fs::hard_link(first, path))
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().ok_or_else(|| misplaced(path))?;
    made(parent, std::fs::create_dir_all(parent))
}

impl Override {
    /// Replaces the directory.
    pub(super) fn mount(self) -> Result<(), Failure> {
        let directory = &self.directory;
        let Some(host) = hold(directory)? else {
            return Err(failed("replacing", directory, &std::io::ErrorKind::NotFound.into()));
        };
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_RDONLY;
        let layers = format!("lowerdir={}:{},userxattr", self.ours.display(), descriptor_path(&host).display());
        match mount(Some("overlay"), directory, Some("overlay"), flags, Some(layers.as_str())) {
            Ok(()) => Ok(()),
            Err(_) => self.bind_entries(&host),
        }
    }

    /// The long way: a private directory with every entry of the host's bound into it, and ours on top.
    fn bind_entries(&self, host: &OwnedFd) -> Result<(), Failure> {
        let Self { directory, ours } = self;
        // Under its own name the directory will be covered; through the descriptor it stays in reach.
        let host = descriptor_path(host);
        let Some(ours_held) = hold(ours)? else { return Err(misplaced(ours)) };
        tmpfs(directory, "mode=755")?;
        fill(directory, &host, &descriptor_path(&ours_held))?;
        let none: Option<&str> = None;
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(none, directory.as_path(), none, flags, none).map_err(|errno| failed("sealing", directory, &errno.into()))
    }
}

/// Fills an empty directory with what `host` and `ours` have; where both have a directory, with what both have in it.
fn fill(directory: &Path, host: &Path, ours: &Path) -> Result<(), Failure> {
    let mine = entries(ours)?;
    for name in &mine {
        let (target, source) = (directory.join(name), ours.join(name));
        if source.is_dir() {
            made(&target, std::fs::create_dir(&target))?;
            fill(&target, &host.join(name), &source)?;
        } else {
            made(&target, std::fs::copy(&source, &target).map(drop))?;
        }
    }
    if !host.is_dir() {
        return Ok(());
    }
    for name in entries(host)? {
        if !mine.contains(&name) {
            give(&directory.join(&name), &host.join(&name))?;
        }
    }
    Ok(())
}

/// Puts one entry of the host's in place.
fn give(target: &Path, source: &Path) -> Result<(), Failure> {
    let Ok(metadata) = source.symlink_metadata() else { return Ok(()) };
    if metadata.is_symlink() {
        let link = std::fs::read_link(source).and_then(|link| symlink(link, target));
        return made(target, link);
    }
    let Some(held) = hold(source)? else { return Ok(()) };
    let place = if metadata.is_dir() { std::fs::create_dir(target) } else { std::fs::write(target, "") };
    made(target, place)?;
    bind(&held, target)
}

fn entries(directory: &Path) -> Result<Vec<std::ffi::OsString>, Failure> {
    let listed = std::fs::read_dir(directory).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<std::io::Result<Vec<_>>>()
    });
    listed.map_err(|error| failed("listing", directory, &error))
}
