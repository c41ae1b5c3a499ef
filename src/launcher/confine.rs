//! What is taken from pid 1 and from the command: capabilities, new privileges, descriptors, core dumps, system calls.

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::control::{Failure, Layer};
use super::plan::Plan;
use super::seccomp::Filters;
use super::{namespace, root};

/// The newest Landlock interface whose rights are used where the kernel has them.
const LANDLOCK: ABI = ABI::V6;

/// The oldest that has scopes.
const LANDLOCK_SCOPES: i32 = 6;

/// The oldest that keeps a command from sockets in the file system which processes outside have made. Those it makes
/// itself stay in reach, so nothing need be allowed.
const LANDLOCK_SOCKETS: i32 = 9;

/// The oldest that limits truncation, without which a limit on writes is none.
pub(super) const LANDLOCK_FOR_ROOT: i32 = 3;

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

/// What Landlock limits: what real root may write, and for everybody whom signals and abstract sockets reach.
pub(super) fn limit_files(plan: &Plan) -> Result<(), Failure> {
    if plan.real_root { limit_root(plan) } else { scope() }
}

/// Why real root cannot do without Landlock.
pub(super) fn landlock_is_missing() -> Failure {
    let text = "that of Linux 6.2 or later is missing, and without it root could write anywhere";
    Failure::text(Layer::Landlock, text)
}

/// Signals and abstract sockets stay within; the namespaces say so already, this says it again where the kernel can.
fn scope() -> Result<(), Failure> {
    if landlock_version() < LANDLOCK_SCOPES {
        return Ok(());
    }
    let build = || {
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let rules =
            if landlock_version() >= LANDLOCK_SOCKETS { rules.handle_access(AccessFs::ResolveUnix)? } else { rules };
        rules.scope(Scope::from_all(LANDLOCK))?.create()?.restrict_self()
    };
    build().map(drop).map_err(|error| Failure::text(Layer::Landlock, error.to_string()))
}

/// Writes are allowed below the working directory, /tmp and what is private, and nowhere else.
fn limit_root(plan: &Plan) -> Result<(), Failure> {
    let refused = |error: String| Failure::text(Layer::Landlock, error);
    if landlock_version() < LANDLOCK_FOR_ROOT {
        return Err(refused(
            "Landlock of Linux 6.2 or later is missing, and without it root could write anywhere".into(),
        ));
    }
    let writes = AccessFs::from_write(LANDLOCK);
    // Where the kernel does not know it yet, it is left out; no rule allows it anywhere.
    let handled = writes | AccessFs::ResolveUnix;
    let build = || -> Result<RulesetStatus, landlock::RulesetError> {
        let mut rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(handled)?;
        if landlock_version() >= LANDLOCK_SCOPES {
            rules = rules.scope(Scope::from_all(LANDLOCK))?;
        }
        let mut rules = rules.create()?;
        let trees = root::WRITABLE.iter().map(std::ffi::OsStr::new).chain([plan.directory.as_os_str()]);
        for held in trees.filter_map(|tree| PathFd::new(tree).ok()) {
            rules = rules.add_rule(PathBeneath::new(held, writes))?;
        }
        Ok(rules.restrict_self()?.ruleset)
    };
    match build().map_err(|error| refused(error.to_string()))? {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(refused("Landlock was not enforced".into())),
    }
}
