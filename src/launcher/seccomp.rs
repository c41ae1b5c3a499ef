//! The system call filters. They close what namespaces and dropped capabilities leave open, and what only widens the
//! kernel that the command can touch.

use std::collections::BTreeMap;

use nix::errno::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use super::control::{Failure, Layer};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Refused = seccompiler::Error;

/// The filters, ready to be installed.
pub(super) struct Filters(Vec<BpfProgram>);

impl Filters {
    /// Compiles them. `real_root` adds those that keep set-user-ID programs from being made.
    pub(super) fn for_user(real_root: bool) -> Result<Self, Failure> {
        programs(real_root).map(Self).map_err(|error| failed(&error))
    }

    /// Installs them for the calling thread and all it becomes.
    pub(super) fn install(&self) -> Result<(), Failure> {
        self.0.iter().try_for_each(|filter| apply_filter(filter).map_err(|error| failed(&error)))
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::text(Layer::Seccomp, error.to_string())
}

/// One filter has one answer, hence several. Each kills a call made by way of another architecture.
fn programs(real_root: bool) -> Result<Vec<BpfProgram>, Refused> {
    let mut denied = denied_whole();
    denied.extend(denied_by_argument()?);
    // ENOSYS lets callers fall back: libc from clone3, whose flags no filter can read, to clone.
    let mut absent: Rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    if real_root {
        for (call, rules) in denied_mode_bits()? {
            denied.entry(call).or_default().extend(rules);
        }
        absent.insert(libc::SYS_openat2, Vec::new());
    }
    let mut programs = vec![compile(denied, Errno::EPERM)?, compile(absent, Errno::ENOSYS)?];
    programs.extend(x32_filter());
    Ok(programs)
}

fn compile(rules: Rules, answer: Errno) -> Result<BpfProgram, Refused> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(seccompiler::Error::Backend)?;
    let answer = SeccompAction::Errno((answer as i32).cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch).map_err(seccompiler::Error::Backend)?;
    filter.try_into().map_err(seccompiler::Error::Backend)
}

/// Calls that nothing in a sandbox needs.
fn denied_whole() -> Rules {
    /// Not yet in libc for every target: open_tree_attr (Linux 6.15).
    const OPEN_TREE_ATTR: i64 = 467;
    let calls = [
        // a second way to make sockets and connect them
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        // the session keyring is the host's
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        // kernel surface
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_syslog,
        // mounts and namespaces
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_open_tree,
        OPEN_TREE_ATTR,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        libc::SYS_setns,
        // the machine
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_vhangup,
        libc::SYS_nfsservctl,
        libc::SYS_lookup_dcookie,
    ];
    let mut rules: Rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    rules.insert(libc::SYS_kexec_file_load, Vec::new());
    #[cfg(target_arch = "x86_64")]
    rules.extend([libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_uselib].map(|call| (call, Vec::new())));
    rules
}

/// Calls that are denied for some arguments.
fn denied_by_argument() -> Result<Rules, Refused> {
    const NEW_NAMESPACE: [libc::c_int; 7] = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    const TIME_NAMESPACE: u64 = 0x80;
    let namespaces = NEW_NAMESPACE.map(|flag| u64::from(flag.cast_unsigned()));
    let bits = |flags: &[u64]| flags.iter().map(|flag| rule(&[has_bit(0, *flag)?])).collect::<Result<Vec<_>, _>>();
    let mut unshared = bits(&namespaces)?;
    unshared.extend(bits(&[TIME_NAMESPACE])?);
    Ok(BTreeMap::from([
        (libc::SYS_socket, socket_families()?),
        (libc::SYS_socketpair, socket_families()?),
        (libc::SYS_clone, bits(&namespaces)?),
        (libc::SYS_unshare, unshared),
        // Typing into the terminal, which is shared with the launcher's shell. Compared as 32 bits, as the kernel does.
        (libc::SYS_ioctl, vec![rule(&[is(1, libc::TIOCSTI)?])?, rule(&[is(1, libc::TIOCLINUX)?])?]),
    ]))
}

/// Sockets of families other than UNIX, INET, INET6 and NETLINK, and of NETLINK protocols other than ROUTE.
///
/// AF_VSOCK above all: it is no part of the network namespace.
fn socket_families() -> Result<Vec<SeccompRule>, Refused> {
    const ALLOWED: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let others = ALLOWED.iter().map(|family| is_not(0, *family)).collect::<Result<Vec<_>, _>>()?;
    Ok(vec![rule(&others)?, rule(&[is(0, libc::AF_NETLINK)?, is_not(2, libc::NETLINK_ROUTE)?])?])
}

/// Set-user-ID and set-group-ID bits, wherever a call can set them: a program that real root leaves in /tmp would be one
/// for every user outside, where the mount is not nosuid.
fn denied_mode_bits() -> Result<Rules, Refused> {
    const SET_ID: [u64; 2] = [0o4000, 0o2000];
    /// `__O_TMPFILE`, without the O_DIRECTORY that the libc constant holds as well.
    const TMPFILE: u64 = 0o20_000_000;
    let mode = |argument: u8| SET_ID.iter().map(|bit| rule(&[has_bit(argument, *bit)?])).collect::<Result<Vec<_>, _>>();
    // The mode of open counts only when a file may be made; otherwise its register holds anything.
    let opened = |flags: u8| {
        let creating = [u64::from(libc::O_CREAT.cast_unsigned()), TMPFILE];
        let pairs = creating.into_iter().flat_map(|create| SET_ID.map(|bit| (create, bit)));
        pairs
            .map(|(create, bit)| rule(&[has_bit(flags, create)?, has_bit(flags + 1, bit)?]))
            .collect::<Result<Vec<_>, _>>()
    };
    let mut rules = BTreeMap::from([
        (libc::SYS_fchmod, mode(1)?),
        (libc::SYS_fchmodat, mode(2)?),
        (libc::SYS_fchmodat2, mode(2)?),
        (libc::SYS_mkdirat, mode(2)?),
        (libc::SYS_mknodat, mode(2)?),
        (libc::SYS_openat, opened(2)?),
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.extend([
        (libc::SYS_chmod, mode(1)?),
        (libc::SYS_mkdir, mode(1)?),
        (libc::SYS_mknod, mode(1)?),
        (libc::SYS_creat, mode(1)?),
        (libc::SYS_open, opened(1)?),
    ]);
    Ok(rules)
}

fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, Refused> {
    SeccompRule::new(conditions.to_vec()).map_err(seccompiler::Error::Backend)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Refused> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).map_err(seccompiler::Error::Backend)
}

fn has_bit(argument: u8, bit: u64) -> Result<SeccompCondition, Refused> {
    condition(argument, SeccompCmpOp::MaskedEq(bit), bit)
}

fn is(argument: u8, value: impl Into<i128>) -> Result<SeccompCondition, Refused> {
    condition(argument, SeccompCmpOp::Eq, word(value))
}

fn is_not(argument: u8, value: impl Into<i128>) -> Result<SeccompCondition, Refused> {
    condition(argument, SeccompCmpOp::Ne, word(value))
}

fn word(value: impl Into<i128>) -> u64 {
    u64::try_from(value.into()).expect("constants here are positive")
}

/// Kills a call of the x32 interface: it shares the architecture's number with x86-64, so that no other filter tells it,
/// and has system call numbers of its own.
fn x32_filter() -> Option<BpfProgram> {
    const X32_BIT: u32 = 0x4000_0000;
    /// BPF_LD | BPF_W | BPF_ABS; offset 0 of seccomp_data is the call's number.
    const LOAD: u16 = 0x20;
    /// BPF_JMP | BPF_JSET | BPF_K
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    cfg!(target_arch = "x86_64").then(|| {
        vec![
            step(LOAD, 0, 0),
            step(JUMP_IF_SET, 1, X32_BIT),
            step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
            step(RETURN, 0, libc::SECCOMP_RET_KILL_PROCESS),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_compiles() {
        assert!(programs(false).unwrap().iter().all(|program| !program.is_empty()));
        assert!(programs(true).unwrap().iter().all(|program| program.len() < 4096));
    }
}
