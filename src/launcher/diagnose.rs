//! Why a sandbox could not be made, in words that say how to mend it.

use std::path::PathBuf;

use nix::errno::Errno;

use super::control::{Failure, Layer};

/// A sandbox that could not be made. Nothing of the command has run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// A layer could not be set up.
    #[error("{layer}: {cause}{}", hint_line(hint.as_deref()))]
    Layer {
        /// Which.
        layer: Layer,
        /// What was done, and the system's answer.
        cause: String,
        /// How to mend it, where that is known.
        hint: Option<String>,
    },
    /// The command could not be started: not found, or not executable.
    #[error("{command}: {}", command_cause(*errno))]
    Command {
        /// As it was given.
        command: String,
        /// The system's answer.
        errno: i32,
    },
}

impl LaunchError {
    /// What `run` exits with: 127 for a command that is not there, 126 for one that cannot be run, else 125.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Layer { .. } => 125,
            Self::Command { errno, .. } if is_absence(*errno) => 127,
            Self::Command { .. } => 126,
        }
    }
}

fn is_absence(errno: i32) -> bool {
    [libc::ENOENT, libc::ENOTDIR].contains(&errno)
}

fn command_cause(errno: i32) -> String {
    match errno {
        errno if is_absence(errno) => "not found".to_owned(),
        libc::EACCES => "permission denied".to_owned(),
        errno => Errno::from_raw(errno).desc().to_lowercase(),
    }
}

fn hint_line(hint: Option<&str>) -> String {
    hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default()
}

impl std::fmt::Display for Layer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Identity => "the invoking user",
            Self::Namespaces => "namespaces",
            Self::IdentityMap => "the user namespace's maps",
            Self::Control => "pid 1",
            Self::Proc => "a fresh /proc",
            Self::Loopback => "the sandbox's network",
            Self::Listeners => "the sandbox's listeners",
            Self::Mounts => "the sandbox's file system",
            Self::Privileges => "dropping privileges",
            Self::Landlock => "Landlock",
            Self::Seccomp => "the system call filter",
            Self::Start | Self::Command => "starting the command",
        })
    }
}

/// What a diagnosis looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) max_user_namespaces: Option<u64>,
    pub(super) max_net_namespaces: Option<u64>,
    pub(super) unprivileged_userns_clone: Option<u64>,
    pub(super) apparmor_restricts: Option<u64>,
    /// Whether a system call filter is on this process already, as in a container.
    pub(super) filtered: bool,
    pub(super) program: PathBuf,
}

impl Host {
    /// Reads the settings of this machine.
    pub(super) fn read() -> Self {
        let setting = |name: &str| {
            std::fs::read_to_string(format!("/proc/sys/{name}")).ok().and_then(|text| text.trim().parse().ok())
        };
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let filter = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        Self {
            max_user_namespaces: setting("user/max_user_namespaces"),
            max_net_namespaces: setting("user/max_net_namespaces"),
            unprivileged_userns_clone: setting("kernel/unprivileged_userns_clone"),
            apparmor_restricts: setting("kernel/apparmor_restrict_unprivileged_userns"),
            filtered: filter.is_some_and(|mode| mode.trim() != "0"),
            program: std::env::current_exe().unwrap_or_else(|_| "/usr/local/bin/sandbox-proxy".into()),
        }
    }
}

/// The error for a failure, with a hint where the host's settings explain it.
pub(super) fn explain(failure: Failure, host: &Host) -> LaunchError {
    let Failure { layer, detail, errno } = failure;
    if layer == Layer::Command {
        return LaunchError::Command { command: detail, errno };
    }
    let cause = match errno {
        0 => detail,
        errno => format!("{detail}: {}", Errno::from_raw(errno).desc().to_lowercase()),
    };
    LaunchError::Layer { layer, cause, hint: hint(layer, errno, host) }
}

fn hint(layer: Layer, errno: i32, host: &Host) -> Option<String> {
    if [libc::EMFILE, libc::ENFILE].contains(&errno) {
        return Some("raise the bound on open files: ulimit -n".into());
    }
    match layer {
        Layer::Namespaces => namespaces_hint(errno, host),
        Layer::IdentityMap | Layer::Loopback if is_refusal(errno) => {
            apparmor_hint(host).or_else(|| Some("something denies capabilities in a new user namespace: an AppArmor, SELinux or seccomp policy".into()))
        }
        Layer::Proc => Some(PROC_HINT.into()),
        Layer::Mounts if is_refusal(errno) => apparmor_hint(host),
        Layer::Landlock => Some("boot a kernel with Landlock (CONFIG_SECURITY_LANDLOCK, lsm=landlock); or, as root, start with sudo from an ordinary account, and with a policy that has [files], write disabled = true there".into()),
        Layer::Identity
        | Layer::IdentityMap
        | Layer::Control
        | Layer::Loopback
        | Layer::Listeners
        | Layer::Mounts
        | Layer::Privileges
        | Layer::Seccomp
        | Layer::Start
        | Layer::Command => None,
    }
}

const PROC_HINT: &str = "parts of /proc are masked, as in a container; start the container with \
     `--security-opt systempaths=unconfined` (Docker, Podman), or use the gate of docker/ instead of `run` inside it";

fn is_refusal(errno: i32) -> bool {
    [libc::EPERM, libc::EACCES].contains(&errno)
}

fn namespaces_hint(errno: i32, host: &Host) -> Option<String> {
    let sysctl = |name: &str, value: &str| Some(format!("`{name}` is 0; as root: sysctl -w {name}={value}"));
    if host.max_user_namespaces == Some(0) {
        return sysctl("user.max_user_namespaces", "15000");
    }
    if host.max_net_namespaces == Some(0) {
        return sysctl("user.max_net_namespaces", "15000");
    }
    if host.unprivileged_userns_clone == Some(0) {
        return sysctl("kernel.unprivileged_userns_clone", "1");
    }
    match errno {
        libc::ENOSPC => Some("a bound on namespaces is reached; see `sysctl user` for the max_*_namespaces of this machine".into()),
        libc::EINVAL => Some("the kernel lacks a namespace: it needs CONFIG_USER_NS, CONFIG_NET_NS, CONFIG_PID_NS, CONFIG_IPC_NS, CONFIG_UTS_NS and CONFIG_CGROUPS".into()),
        libc::EPERM | libc::ENOSYS if host.filtered => Some(
            "a system call filter forbids new namespaces, as Docker's default profile does; start the container with \
             `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`, or use the gate of docker/"
                .into(),
        ),
        libc::EPERM => apparmor_hint(host).or_else(|| {
            Some("the process is in a chroot, or a security policy forbids user namespaces; start it elsewhere".into())
        }),
        _ => None,
    }
}

/// Ubuntu's restriction (23.10 and later): the namespace is made, but its capabilities are not.
fn apparmor_hint(host: &Host) -> Option<String> {
    if host.apparmor_restricts.unwrap_or(0) == 0 {
        return None;
    }
    let program = host.program.display();
    Some(format!(
        "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns=1); write this to \
         /etc/apparmor.d/sandbox-proxy and run `apparmor_parser -r /etc/apparmor.d/sandbox-proxy` as root:\n\n\
         abi <abi/4.0>,\nprofile sandbox-proxy {program} flags=(unconfined) {{\n  userns,\n}}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host { max_user_namespaces: Some(9), max_net_namespaces: Some(9), ..Host::default() }
    }

    fn told(layer: Layer, errno: i32, host: &Host) -> String {
        explain(Failure { layer, detail: "x".into(), errno }, host).to_string()
    }

    macro_rules! hints {
        ($($test:ident: $layer:ident, $errno:ident, $change:expr => $word:literal;)*) => {
            $(#[test]
            fn $test() {
                let mut host = host();
                let change: fn(&mut Host) = $change;
                change(&mut host);
                let told = told(Layer::$layer, libc::$errno, &host);
                assert!(told.contains($word) && told.contains("\nhint: "), "{told}");
            })*
        };
    }

    hints! {
        user_namespaces_off: Namespaces, ENOSPC, |host| host.max_user_namespaces = Some(0) => "user.max_user_namespaces";
        network_namespaces_off: Namespaces, ENOSPC, |host| host.max_net_namespaces = Some(0) => "user.max_net_namespaces";
        namespaces_used_up: Namespaces, ENOSPC, |_| () => "bound";
        debian_switch: Namespaces, EPERM, |host| host.unprivileged_userns_clone = Some(0) => "kernel.unprivileged_userns_clone=1";
        container_filter: Namespaces, EPERM, |host| host.filtered = true => "seccomp=unconfined";
        apparmor_at_the_maps: IdentityMap, EPERM, |host| host.apparmor_restricts = Some(1) => "userns,";
        apparmor_at_the_network: Loopback, EPERM, |host| host.apparmor_restricts = Some(1) => "apparmor_parser";
        too_few_descriptors: Listeners, EMFILE, |_| () => "ulimit -n";
        masked_proc: Proc, EPERM, |_| () => "systempaths=unconfined";
    }

    #[test]
    fn commands_that_fail_have_a_shells_codes() {
        let code = |errno| explain(Failure { layer: Layer::Command, detail: "ls".into(), errno }, &host()).exit_code();
        assert_eq!([libc::ENOENT, libc::EACCES, libc::ENOEXEC].map(code), [127, 126, 126]);
        let missing = explain(Failure { layer: Layer::Command, detail: "ls".into(), errno: libc::ENOENT }, &host());
        assert_eq!(missing.to_string(), "ls: not found");
    }
}
