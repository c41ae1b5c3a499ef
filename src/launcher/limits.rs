//! What the command may write, by mounts: everything is read-only but the trees that stay open. For real root, and where the
//! policy limits files. Landlock says the same again (`confine.rs`); each closes what the other leaves: Landlock knows
//! nothing of modes and owners, a read-only mount nothing of devices and of descriptors that came from outside.
//!
//! A tree that stays open is covered by a copy of its mount, taken before the pins were made. The pins lie below the cover,
//! where no path meets them, so that names can be exchanged everywhere in the tree; the kernel refuses to rename what is a
//! mount point in any mount all the same.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statvfs::{FsFlags, statvfs};

use super::control::{Failure, Layer};
use super::mountinfo::{self, Mount};
use super::mounts::{bind, c_string, descriptor_path, failed, hold, hold_itself};
use super::namespace;
use super::plan::{Plan, Tree};
use super::private::private_directories;

/// A tree that stays open.
#[derive(Clone, Copy)]
enum Own<'a> {
    /// Real root's working directory. Pid 1 still stands where the launcher did.
    Start(&'a Path),
    /// One that the launcher has looked at.
    Tree(&'a Tree),
    /// The sandbox's own /tmp.
    Private(&'a Path),
}

/// Whether anything but the user's own rights limits what is written.
pub(super) fn is_limited(plan: &Plan) -> bool {
    plan.real_root || plan.files.is_some()
}

fn own_trees(plan: &Plan) -> Vec<Own<'_>> {
    let mut own = match &plan.files {
        Some(files) => files.writable.iter().map(Own::Tree).collect(),
        None => vec![Own::Start(Path::new(&plan.directory))],
    };
    if plan.real_root || plan.private_tmp {
        own.push(Own::Private(Path::new("/tmp")));
    }
    own.sort_by_key(Own::path);
    own
}

/// The trees that stay open, outer ones first.
pub(super) fn own(plan: &Plan) -> Vec<&Path> {
    own_trees(plan).iter().map(Own::path).collect()
}

impl<'a> Own<'a> {
    fn path(&self) -> &'a Path {
        match self {
            Self::Start(path) | Self::Private(path) => path,
            Self::Tree(tree) => tree.path(),
        }
    }

    /// Another sandbox may have put something else in its place after the launcher had looked at it.
    fn check(self, held: &OwnedFd) -> Result<(), Failure> {
        match self {
            Self::Start(path) => check_is_where_it_started(path, held),
            Self::Tree(tree) => check_is_same(tree, held),
            Self::Private(_) => Ok(()),
        }
    }
}

/// What is held has to be the place that the launcher looked at.
pub(super) fn check_is_same(tree: &Tree, held: &OwnedFd) -> Result<(), Failure> {
    let path = tree.path();
    let data = std::fs::metadata(descriptor_path(held)).map_err(|error| failed("looking at", path, &error))?;
    if tree.is(&data) {
        return Ok(());
    }
    let text = format!("{} was replaced while the run started; start again when nothing moves it", path.display());
    Err(Failure::text(Layer::Mounts, text))
}

fn check_is_where_it_started(path: &Path, held: &OwnedFd) -> Result<(), Failure> {
    let identity = |path: &Path| {
        let metadata = std::fs::metadata(path).map_err(|error| failed("looking at", path, &error))?;
        Ok((metadata.dev(), metadata.ino()))
    };
    if identity(Path::new("."))? == identity(&descriptor_path(held))? {
        return Ok(());
    }
    let text = format!(
        "{} is not the directory that the run was started in; start again when nothing moves it",
        path.display()
    );
    Err(Failure::text(Layer::Mounts, text))
}

/// Copies of the mounts of trees that stay open, to be put onto them.
pub(super) struct Covers<'a>(Vec<(Own<'a>, OwnedFd)>);

/// Takes the copies. Nothing where nothing is limited.
pub(super) fn covers(plan: &Plan) -> Result<Covers<'_>, Failure> {
    let mut covers = Vec::new();
    // Of the root there is nothing above by which it could be covered.
    let trees = if is_limited(plan) { own_trees(plan) } else { Vec::new() };
    for own in trees.into_iter().filter(|own| own.path().parent().is_some()) {
        let Some(held) = hold(own.path())? else { continue };
        own.check(&held)?;
        let copy = namespace::copy_mount(held.as_fd()).map_err(|errno| failed("copying", own.path(), &errno.into()))?;
        covers.push((own, copy));
    }
    Ok(Covers(covers))
}

impl Covers<'_> {
    /// Puts them in place, the outer ones first.
    pub(super) fn place(self) -> Result<(), Failure> {
        for (own, copy) in self.0 {
            let path = own.path();
            let gone = || failed("covering", path, &Errno::ENOENT.into());
            let held = hold(path)?.ok_or_else(gone)?;
            own.check(&held)?;
            namespace::attach_mount(copy.as_fd(), held.as_fd())
                .map_err(|errno| failed("covering", path, &errno.into()))?;
        }
        Ok(())
    }
}

/// Makes mounts of what lies in an open tree and may not be written, so that it can neither be renamed nor replaced;
/// [`limit_writes`] makes them read-only.
pub(super) fn deny(plan: &Plan) -> Result<(), Failure> {
    let private = private_directories(plan.runtime_directory.as_deref().map(Path::new), plan.private_tmp);
    for path in plan.files.iter().flat_map(|files| &files.unwritable).map(Path::new) {
        match hold_itself(path)? {
            Some(held) => bind(&held, &descriptor_path(&held))?,
            // What was there is hidden by a directory of the sandbox's own.
            None if private.iter().any(|private| path.starts_with(private)) => {}
            None => return Err(failed("denying", path, &Errno::ENOENT.into())),
        }
    }
    Ok(())
}

/// Every mount there is now.
pub(super) fn mounts() -> Result<Vec<Mount>, Failure> {
    let table = std::fs::read("/proc/self/mountinfo").map_err(|error| failed("reading", "/proc".as_ref(), &error))?;
    Ok(mountinfo::parse(&table))
}

/// Makes every mount read-only but for the trees that stay open and what is private; for real root nosuid and nodev, too.
pub(super) fn limit_writes(plan: &Plan) -> Result<(), Failure> {
    if !is_limited(plan) {
        return Ok(());
    }
    let limits = Limits::of(plan);
    for mount in mounts()? {
        let path = &mount.point;
        let set = limits.flags(&mount);
        match namespace::mount_flags(&c_string(path)?, set, 0, false) {
            // Hidden below another mount, or out of the user's reach (FUSE): out of the command's, too.
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::EINVAL) => {}
            Err(errno) => return Err(failed("limiting", path, &errno.into())),
        }
    }
    limits.denied.iter().try_for_each(|path| check_is_read_only(path))
}

/// A mount that went unseen, say because somebody renamed a directory above it, must not stay open.
fn check_is_read_only(path: &Path) -> Result<(), Failure> {
    match statvfs(path) {
        Ok(data) if data.flags().contains(FsFlags::ST_RDONLY) => Ok(()),
        // Hidden by now.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => Ok(()),
        Ok(_) => Err(failed("denying", path, &Errno::EBUSY.into())),
        Err(errno) => Err(failed("denying", path, &errno.into())),
    }
}

/// How mounts are judged.
struct Limits<'a> {
    own: Vec<&'a Path>,
    denied: Vec<&'a Path>,
    private: Vec<PathBuf>,
    real_root: bool,
}

impl<'a> Limits<'a> {
    fn of(plan: &'a Plan) -> Self {
        let runtime = plan.runtime_directory.as_deref().map(Path::new);
        let private = match plan.real_root {
            true => vec!["/run".into(), "/var/run".into()],
            false => private_directories(runtime, plan.private_tmp),
        };
        let denied = plan.files.iter().flat_map(|files| &files.unwritable).map(Path::new).collect();
        Self { own: own(plan), denied, private, real_root: plan.real_root }
    }

    fn flags(&self, mount: &Mount) -> u64 {
        let mut set = 0;
        if self.real_root {
            set |= libc::MOUNT_ATTR_NOSUID;
            if !mount.point.starts_with("/dev") {
                set |= libc::MOUNT_ATTR_NODEV;
            }
        }
        if !self.is_writable(mount) {
            set |= libc::MOUNT_ATTR_RDONLY;
        }
        set
    }

    /// What is one of the open trees itself, or the sandbox's own. What is bound back below /run is the host's. A mount
    /// below an open tree shows files that lie elsewhere: a user may have meant them, for root they could be the system's.
    /// Of /proc an ordinary user may write what describes the own processes, and no more.
    fn is_writable(&self, mount: &Mount) -> bool {
        let point = mount.point.as_path();
        if point.starts_with("/dev") || self.private.iter().any(|private| private == point) {
            return true;
        }
        if !self.real_root && mount.kind == "proc" && point == Path::new("/proc") {
            return true;
        }
        let is_denied = self.denied.iter().any(|denied| point.starts_with(denied));
        let is_open = match self.real_root {
            true => self.own.contains(&point),
            false => self.own.iter().any(|tree| point.starts_with(tree)),
        };
        is_open && !is_denied && !mount.is_of_the_kernel()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_writable(real_root: bool, kind: &str, point: &str) -> bool {
        let line = format!("22 1 8:1 / {point} rw - {kind} x rw\n");
        let own = vec![Path::new("/work"), Path::new("/tmp")];
        let denied = vec![Path::new("/work/.git/hooks")];
        Limits { own, denied, private: vec!["/run".into()], real_root }
            .is_writable(&mountinfo::parse(line.as_bytes())[0])
    }

    macro_rules! mounts {
        ($($test:ident: $kind:literal on $point:literal => root $root:literal, user $user:literal;)*) => {
            $(#[test]
            fn $test() {
                assert_eq!([is_writable(true, $kind, $point), is_writable(false, $kind, $point)], [$root, $user]);
            })*
        };
    }

    mounts! {
        an_open_tree: "ext4" on "/work" => root true, user true;
        tmp: "tmpfs" on "/tmp" => root true, user true;
        the_private_run: "tmpfs" on "/run" => root true, user true;
        the_private_terminals: "devpts" on "/dev/pts" => root true, user true;
        what_is_denied: "ext4" on "/work/.git/hooks" => root false, user false;
        a_mount_in_what_is_denied: "ext4" on "/work/.git/hooks/x" => root false, user false;
        beside_what_is_denied: "ext4" on "/work/.git/hooks2" => root false, user true;
        the_root: "ext4" on "/" => root false, user false;
        a_mount_below_an_open_tree: "ext4" on "/work/etc" => root false, user true;
        what_is_bound_back: "tmpfs" on "/run/user/0/project" => root false, user false;
        proc: "proc" on "/proc" => root false, user true;
        proc_elsewhere: "proc" on "/work/proc" => root false, user false;
        sysfs_below_an_open_tree: "sysfs" on "/work/sys" => root false, user false;
    }
}
