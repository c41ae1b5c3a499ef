//! The namespaces: "host", where sandboxes start, and "internet", joined by one veth pair.
//!
//! Addresses are of public ranges, since the product rightly refuses private ones and those of its own host.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};

use caps::{CapSet, Capability};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Gid, Uid};

/// The upstream for everything that a test does not place elsewhere.
pub const WEB: &str = "11.22.33.9";
/// A second upstream address: blocked and evil names live here.
pub const OTHER: &str = "11.22.33.10";
/// An upstream that speaks HTTP/1.1 only: every name below `h1.test`.
pub const WEB_HTTP1: &str = "11.22.44.11";
/// The name server.
pub const DNS: &str = "11.22.33.53";

/// Addresses next to the ranges that the product blocks, and parts of those that are public: they are the internet's, and
/// nobody listens there.
pub const NEIGHBOURS: &[&str] = &[
    "1.0.0.0",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.0.3.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "203.0.114.0",
    "223.255.255.255",
    "168.63.129.17",
    "2001:4:112::1",
    "2001:20::1",
    "2001:3::1",
    "2001:200::1",
    "2001:db7::1",
    "2001:db9::1",
    "3fff:1000::1",
    "5eff:ffff::1",
    "5f01::1",
    "64:ff9b::11.22.44.1",
    "2002:b16:2c01::1",
    "101::1",
];

/// What the host's hosts file says beside what it said before.
pub const HOSTS_FILE: [(&str, &str); 3] = [
    (WEB, "public.hosts-file.test"),
    ("10.1.2.6", "private.hosts-file.test"),
    ("127.0.0.1", "loopback.hosts-file.test"),
];

struct Rig {
    internet: File,
    base: PathBuf,
}

static RIG: OnceLock<Rig> = OnceLock::new();

/// Enters the namespaces. To be called once, before any thread exists.
pub fn enter() {
    let (uid, gid) = (Uid::current(), Gid::current());
    if uid.is_root() {
        unshare(CloneFlags::CLONE_NEWNS).expect("root may make a mount namespace");
    } else {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
            .expect("user namespaces are off: set user.max_user_namespaces and kernel.unprivileged_userns_clone");
        fs::write("/proc/self/setgroups", "deny").unwrap();
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).unwrap();
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).unwrap();
    }
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("make the mounts private");
    let internet = new_network();
    let host = new_network();
    ip(&host_lines(&internet));
    setns(&internet, CloneFlags::CLONE_NEWNET).unwrap();
    ip(&internet_lines());
    setns(&host, CloneFlags::CLONE_NEWNET).unwrap();
    let base = PathBuf::from(format!("/var/tmp/sandbox-proxy-it-{}", std::process::id()));
    let _ = fs::remove_dir_all(&base);
    fs::create_dir(&base).expect("make the directory of the tests under /var/tmp");
    extend_hosts_file(&base);
    assert!(RIG.set(Rig { internet, base }).is_ok(), "the rig is entered once");
}

fn extend_hosts_file(base: &Path) {
    let lines: String = HOSTS_FILE.iter().map(|(address, name)| format!("{address} {name}\n")).collect();
    let file = base.join("hosts");
    fs::write(&file, fs::read_to_string("/etc/hosts").unwrap_or_default() + "\n" + &lines).unwrap();
    mount(Some(&file), "/etc/hosts", None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("bind a hosts file");
}

/// A directory of the tests' own, outside of every working directory of a sandbox.
pub fn base() -> &'static Path {
    &rig().base
}

/// Removes what the tests wrote, and before it what they have mounted there.
pub fn remove_files() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points =
        mounts.lines().filter_map(|line| line.split(' ').nth(4)).filter(|point| Path::new(point).starts_with(base()));
    for point in points.collect::<Vec<_>>().into_iter().rev() {
        let _ = umount2(point, MntFlags::MNT_DETACH);
    }
    if let Err(error) = fs::remove_dir_all(base()) {
        eprintln!("{} is left behind: {error}", base().display());
    }
}

/// Runs `work` on a thread of the internet: sockets that it makes belong there.
pub fn in_internet<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::spawn(move || {
        setns(&rig().internet, CloneFlags::CLONE_NEWNET).expect("enter the internet");
        work()
    })
}

fn rig() -> &'static Rig {
    RIG.get().expect("enter() comes first")
}

fn new_network() -> File {
    unshare(CloneFlags::CLONE_NEWNET).expect("make a network namespace");
    File::open("/proc/thread-self/ns/net").unwrap()
}

fn host_lines(internet: &File) -> String {
    let peer = format!("/proc/{}/fd/{}", std::process::id(), internet.as_raw_fd());
    format!(
        "link set lo up\n\
         link add host0 type veth peer name inet0 netns {peer}\n\
         addr add 11.22.33.1/24 dev host0\n\
         addr add 2a11:22:33::1/64 dev host0 nodad\n\
         link set host0 up\n\
         route add default via {WEB}\n\
         route add ::/0 via 2a11:22:33::9\n"
    )
}

/// An address of the internet that no other test has.
pub fn fresh_address() -> String {
    static LAST: AtomicU8 = AtomicU8::new(1);
    let taken = |last: u8| last.checked_add(1);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).expect("there are enough addresses");
    format!("11.22.46.{last}")
}

/// All of `11.22.44.0/24` and of [`fresh_address`] is local there, and `2a11:22:44::1` to `::64` (decimal digits).
fn internet_lines() -> String {
    let mut lines = String::from("link set lo up\n");
    for v4 in [WEB, OTHER, DNS] {
        lines += &format!("addr add {v4}/24 dev inet0\n");
    }
    for v6 in ["2a11:22:33::9", "2a11:22:33::10", "2a11:22:33::53"] {
        lines += &format!("addr add {v6}/64 dev inet0 nodad\n");
    }
    for own in ["169.254.169.254/32", "169.254.170.2/32", "10.1.2.3/32", "10.1.2.9/32", "10.1.2.10/32", "10.1.2.130/32"]
    {
        lines += &format!("addr add {own} dev lo\n");
    }
    lines += "link set inet0 up\nroute add local 11.22.44.0/24 dev lo\nroute add local 11.22.46.0/24 dev lo\n";
    for address in NEIGHBOURS {
        let length = if address.contains(':') { 128 } else { 32 };
        lines += &format!("route add local {address}/{length} dev lo\n");
    }
    (1..=64).for_each(|host| lines += &format!("addr add 2a11:22:44::{host}/128 dev lo nodad\n"));
    lines
}

fn ip(lines: &str) {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").stdin(Stdio::piped());
    let mut child = spawn_with_capabilities(&mut command).expect("ip is missing: apt-get install iproute2");
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "ip refused one of:\n{lines}");
}

/// Starts a command that has our capabilities over the namespaces of the tests: what starts later has none.
pub fn spawn_with_capabilities(command: &mut Command) -> std::io::Result<Child> {
    let lent = [Capability::CAP_NET_ADMIN, Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_PTRACE];
    for capability in lent {
        caps::raise(None, CapSet::Inheritable, capability).expect("hold the capability");
        caps::raise(None, CapSet::Ambient, capability).expect("lend the capability");
    }
    let child = command.spawn();
    caps::clear(None, CapSet::Ambient).unwrap();
    caps::clear(None, CapSet::Inheritable).unwrap();
    child
}
