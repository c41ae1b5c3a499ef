//! What is taken from pid 1 and from the command: capabilities, new privileges, descriptors, core dumps, system calls.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::control::{Failure, Layer};
use super::plan::{HostSockets, Plan};
use super::seccomp::Filters;
use super::{limits, mounts, namespace, private, root, streams};

/// The newest Landlock interface whose rights are used where the kernel has them.
const LANDLOCK: ABI = ABI::V6;

/// The oldest that has scopes.
const LANDLOCK_SCOPES: i32 = 6;

/// The oldest that keeps a command from sockets in the file system which processes outside have made. Those it makes
/// itself stay in reach, so nothing need be allowed.
const LANDLOCK_SOCKETS: i32 = 9;

/// The oldest that limits truncation, without which a limit on writes is none.
pub(super) const LANDLOCK_FOR_WRITES: i32 = 3;

/// What an ordinary user may always write: the nodes that every program expects, terminals, and what /proc says of the own
/// processes, of which there are no others in it.
const USUAL: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/proc",
];

/// Gives up every capability, and the ways to get one back. The bounding set, too: a program with file capabilities
/// would find them there.
pub(super) fn drop_privileges() -> Result<(), Failure> {
    // SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP, SECBIT_NO_CAP_AMBIENT_RAISE, each with its lock, and SECBIT_KEEP_CAPS_LOCKED
    const SECUREBITS: libc::c_ulong = 0b1110_1111;
    let failed = |what: &'static str| move |errno| Failure::new(Layer::Privileges, what, errno);
    namespace::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong, 0)
        .map_err(failed("clearing the ambient capabilities"))?;
    for capability in 0..=last_capability() {
        namespace::prctl(libc::PR_CAPBSET_DROP, capability, 0).map_err(failed("dropping the bounding set"))?;
    }
    namespace::prctl(libc::PR_SET_SECUREBITS, SECUREBITS, 0).map_err(failed("locking the securebits"))?;
    namespace::clear_capabilities().map_err(failed("dropping the capabilities"))?;
    prctl::set_no_new_privs().map_err(failed("setting no_new_privs"))
}

/// The highest capability that this kernel knows.
fn last_capability() -> libc::c_ulong {
    let told = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap");
    told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(40)
}

/// No core dumps, neither of the launcher nor of the command: they hold memory.
pub(super) fn no_core_dumps() -> Result<(), nix::errno::Errno> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
}

/// Raises the soft bound on open descriptors to the hard one, and answers with the bound that holds now.
pub(super) fn raise_descriptor_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

/// The Landlock interface that the kernel offers; 0 where it has none.
pub fn landlock_version() -> i32 {
    namespace::landlock_version()
}

/// Limits the calling process for good. The order is that of the layers: Landlock needs system calls that the filters
/// then refuse.
pub(super) fn limit_command(plan: &Plan, filters: &Filters) -> Result<(), Failure> {
    no_core_dumps().map_err(|errno| Failure::new(Layer::Privileges, "forbidding core dumps", errno))?;
    limit_files(plan)?;
    filters.install()
}

/// What Landlock limits: what real root may write, and anybody whose policy limits files; for everybody whom signals and
/// abstract sockets reach.
pub(super) fn limit_files(plan: &Plan) -> Result<(), Failure> {
    if limits::is_limited(plan) { limit_writes(plan) } else { scope(plan) }
}

/// Why real root, and a policy that limits files, cannot do without Landlock.
pub(super) fn landlock_is_missing() -> Failure {
    let text = "that of Linux 6.2 or later is missing, and without it root, and a command whose policy limits files, could write \
                where they must not";
    Failure::text(Layer::Landlock, text)
}

fn refused(error: &dyn std::fmt::Display) -> Failure {
    Failure::text(Layer::Landlock, error.to_string())
}

/// Signals and abstract sockets stay within; the namespaces say so already, this says it again where the kernel can.
fn scope(plan: &Plan) -> Result<(), Failure> {
    if landlock_version() < LANDLOCK_SCOPES {
        return Ok(());
    }
    let limits_sockets = landlock_version() >= LANDLOCK_SOCKETS && plan.sockets != HostSockets::All;
    let build = || {
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let rules = if limits_sockets { rules.handle_access(AccessFs::ResolveUnix)? } else { rules };
        let mut rules = rules.scope(Scope::from_all(LANDLOCK))?.create()?;
        if limits_sockets {
            rules = open_sockets(rules, plan)?;
        }
        rules.restrict_self()
    };
    build().map(drop).map_err(|error| refused(&error))
}

/// Lets the command connect to the sockets that the policy names.
fn open_sockets(mut rules: RulesetCreated, plan: &Plan) -> Result<RulesetCreated, RulesetError> {
    let listed = match &plan.sockets {
        HostSockets::Listed(paths) => paths.as_slice(),
        HostSockets::Masked | HostSockets::All => &[],
    };
    for held in listed.iter().filter_map(|path| PathFd::new(path).ok()) {
        rules = rules.add_rule(PathBeneath::new(held, AccessFs::ResolveUnix))?;
    }
    Ok(rules)
}

/// Writes are allowed below the trees that stay open and what is private, and nowhere else.
fn limit_writes(plan: &Plan) -> Result<(), Failure> {
    if landlock_version() < LANDLOCK_FOR_WRITES {
        return Err(landlock_is_missing());
    }
    let opened = open_places(plan)?;
    // What the kernel does not know yet is left out.
    let mut handled = AccessFs::from_write(LANDLOCK);
    if plan.sockets != HostSockets::All {
        handled |= AccessFs::ResolveUnix;
    }
    let build = || -> Result<RulesetStatus, RulesetError> {
        let mut rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(handled)?;
        if landlock_version() >= LANDLOCK_SCOPES {
            rules = rules.scope(Scope::from_all(LANDLOCK))?;
        }
        let mut rules = rules.create()?;
        for (held, rights) in opened {
            rules = rules.add_rule(PathBeneath::new(held, rights))?;
        }
        if plan.sockets != HostSockets::All {
            rules = open_sockets(rules, plan)?;
        }
        Ok(rules.restrict_self()?.ruleset)
    };
    match build().map_err(|error| refused(&error))? {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(refused(&"it was not enforced")),
    }
}

type Opened = (OwnedFd, BitFlags<AccessFs>);

/// Where writing stays allowed, each with the rights that make sense there.
fn open_places(plan: &Plan) -> Result<Vec<Opened>, Failure> {
    let mut opened = Vec::new();
    for path in limits::own(plan) {
        let Some(held) = mounts::hold(path)? else { continue };
        if let Some(tree) = plan.files.iter().flat_map(|files| &files.writable).find(|tree| tree.path() == path) {
            limits::check_is_same(tree, &held)?;
        }
        opened.push(with_rights(held, path)?);
    }
    let runtime = plan.runtime_directory.as_deref().map(Path::new);
    let private = private::private_directories(runtime, plan.private_tmp);
    let usual = if plan.real_root { root::WRITABLE.as_slice() } else { &USUAL };
    for path in usual.iter().map(Path::new).chain(private.iter().map(PathBuf::as_path)) {
        if let Some(held) = mounts::hold(path)? {
            opened.push(with_rights(held, path)?);
        }
    }
    if plan.files.is_some() {
        opened.extend(streams::written().into_iter().map(|stream| (stream, AccessFs::WriteFile | AccessFs::Truncate)));
    }
    Ok(opened)
}

/// Of a file those rights that are a file's; the kernel refuses others.
fn with_rights(held: OwnedFd, path: &Path) -> Result<Opened, Failure> {
    let data = std::fs::metadata(mounts::descriptor_path(&held));
    let is_directory = data.map_err(|error| Failure::io(Layer::Landlock, path.display().to_string(), &error))?.is_dir();
    let rights = AccessFs::from_write(LANDLOCK);
    Ok((held, if is_directory { rights } else { rights & AccessFs::from_file(LANDLOCK) }))
}
