//! The launcher's kinds of failure that other sandboxes have had (`known-failures.md`), as far as no other group has them: one way
//! of one kind after the other, tried for real.

use std::fs;
use std::net::{TcpListener, TcpStream};

use nix::sys::signal::{Signal, kill};

use crate::cases;
use crate::internet::internet;
use crate::sandbox::{Output, Run, code, need, program};
use crate::terminal::Terminal;

cases![
    clients_without_any_variable,
    other_transports,
    second_stacks_and_scopes,
    services_of_the_host,
    memory_and_descriptors_of_others,
    variables_steer_nothing,
    a_sandbox_in_a_sandbox,
    datagrams_are_refused_at_once,
    socks_opens_nothing,
    one_sandbox_cannot_use_anothers_proxy,
    nothing_listed_is_nothing_permitted,
    a_policy_that_is_broken_or_replaced_changes_nothing,
    bindings_are_those_of_this_start,
];

/// Tries each line in Python and says what came of it; `calls` and libraries are at hand.
#[track_caller]
fn attempts(run: Run, lines: &str) -> Output {
    let prelude = "
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    answer = libc.syscall(*arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
def attempt(what, work):
    try:
        print(what, 'OPEN', work())
    except OSError as error:
        print(what, 'refused', error)
socket.setdefaulttimeout(2)
";
    let output = run.python(&format!("{prelude}{lines}\nprint('end')")).run();
    output.expect_code(0).expect_stdout("end\n");
    output
}

#[track_caller]
fn all_refused(lines: &str) {
    let output = attempts(Run::new(), lines);
    assert!(!output.stdout.contains("OPEN") && !output.stdout.contains("timed out"), "{output:#?}");
}

#[track_caller]
fn nothing_went_to(address: &str) {
    assert_eq!(internet().sniffer.protocols_to(address), [0u8; 0], "packets left for {address}");
}

/// BL-028
fn clients_without_any_variable() {
    need("curl", "curl");
    let script = "env -i /usr/bin/curl -sSik --noproxy '*' https://11.22.44.60/; env -i /usr/bin/curl -sSi http://11.22.44.60:8080/";
    let output = Run::new().script(script).run();
    assert_eq!(output.expect_code(0).stdout.matches("x-sandbox-proxy-denial").count(), 2, "{output:#?}");
    nothing_went_to("11.22.44.60");
}

/// BL-028
fn other_transports() {
    // SCTP, DCCP, UDP-Lite, multipath TCP, SMC and raw protocols, each as every kind of socket.
    let lines = "for protocol in [132, 33, 136, 262, 256, 47, 50, 89, 255]:
    for family, address in [(socket.AF_INET, ('11.22.44.61', 443)), (socket.AF_INET6, ('2a11:22:44::60', 443))]:
        for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW, 6]:
            def work():
                with socket.socket(family, kind, protocol) as made:
                    made.connect(address)
                    made.send(b'stolen')
                    return made.recv(100)
            attempt(f'{protocol} {kind}', work)";
    // Multipath TCP may be captured as TCP is; what counts is that nothing leaves.
    let output = attempts(Run::new(), lines);
    assert!(!output.stdout.contains("stolen"), "{output:#?}");
    ["11.22.44.61", "2a11:22:44::60"].into_iter().for_each(nothing_went_to);
}

#[track_caller]
fn nobody_came(listener: &TcpListener) {
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody connected");
}

/// BL-029
fn second_stacks_and_scopes() {
    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lines = format!(
        "def tcp(address):
    with socket.create_connection((address, {port})) as made:
        made.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
        got = made.recv(4096)
        assert not got or got.startswith(b'HTTP/1.1 4'), (address, got)
        raise OSError('refused by the proxy')
for address in ['2a11:22:33::1', '::ffff:11.22.33.1', '::1', 'fe80::1%lo', '2a11:22:33::9']:
    attempt(address, lambda: tcp(address))
def datagram(address):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as made:
        made.connect((address, 9999, 0, 1))
        made.send(b'stolen')
        return made.recv(100)
for address in ['ff02::1', 'ff05::2', 'fe80::1', '2a11:22:33::9']:
    attempt(address, lambda: datagram(address))"
    );
    let output = attempts(Run::new(), &lines);
    // A datagram to a group that nobody answers is no way out; it goes nowhere.
    assert!(
        output.stdout.lines().filter(|line| line.contains("OPEN")).all(|line| line.starts_with("ff0")),
        "{output:#?}"
    );
    nobody_came(&listener);
    ["ff02::1", "ff05::2"].into_iter().for_each(nothing_went_to);
}

/// BL-031
fn services_of_the_host() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lines = format!(
        "def ask(address, port):
    with socket.create_connection((address, port)) as made:
        made.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
        got = made.recv(4096)
        assert not got or got.startswith(b'HTTP/1.1 4'), (address, got)
        raise OSError('refused by the proxy')
for address in ['127.0.0.1', '127.0.0.2', '127.1.2.3', '0.0.0.0', '10.0.2.2', '10.0.2.3', '11.22.33.1', '100.64.0.1', '169.254.1.1',
        '192.168.0.1', '172.17.0.1', 'localhost', 'host.internal', 'host.docker.internal', 'host.containers.internal', '_gateway']:
    attempt(address, lambda: ask(address, {port}))"
    );
    for network in ["none", "all"] {
        let output = attempts(Run::new().arg("--network").arg(network), &lines);
        assert!(!output.stdout.contains("OPEN"), "{output:#?}");
        nobody_came(&listener);
    }
}

/// BL-034
fn memory_and_descriptors_of_others() {
    let outside = std::process::id();
    all_refused(&format!(
        "buffer = ctypes.create_string_buffer(64)
vector = struct.pack('PN', ctypes.addressof(buffer), 64)
for process in [1, {outside}, os.getppid()]:
    for name in ['environ', 'mem', 'maps', 'auxv', 'stack', 'syscall', 'fd/0', 'fd/3', 'root/etc/passwd', 'cwd/x', 'map_files/x']:
        attempt(f'{{process}}/{{name}}', lambda: open(f'/proc/{{process}}/{{name}}', 'rb').read(1))
    for name in ['root', 'cwd', 'exe', 'fd', 'ns/net', 'ns/user']:
        attempt(f'{{process}}/{{name}}', lambda: os.readlink(f'/proc/{{process}}/{{name}}') if name != 'fd' else open(f'/proc/{{process}}/fd/0').read(1))
    attempt('process_vm_readv', lambda: call(310, process, vector, 1, struct.pack('PN', 0x1000, 64), 1, 0))
    attempt('process_vm_writev', lambda: call(311, process, vector, 1, struct.pack('PN', 0x1000, 64), 1, 0))
    attempt('ptrace', lambda: call(101, 16, process, 0, 0))
    attempt('pidfd_getfd', lambda: call(438, call(434, process, 0), 0, 0))
    attempt('kcmp', lambda: call(312, os.getpid(), process, 0, 0, 0))"
    ));
}

/// BL-035: nothing but the command line says how a run goes; a key log would undo TLS.
fn variables_steer_nothing() {
    let host = "variables.isolation.allowed.test";
    let run =
        Run::new().allow(host).secret_env("KEY", "canary-of-variables").bind(&format!("{host} X-Api-Key: {{KEY}}"));
    let log = run.outside().join("keys");
    let run =
        run.env("SSLKEYLOGFILE", &log.display().to_string()).env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full");
    let run = run.env("HTTPS_PROXY", "http://11.22.44.62:3128").env("ALL_PROXY", "socks5://11.22.44.62:1080");
    let run = run.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nowhere").env("RES_OPTIONS", "use-vc");
    let output =
        run.script(&format!("curl -sSf https://{host}/status/200; curl -sS https://other.evil.test/; true")).run();
    output.expect_code(0).expect_stdout("status 200").expect_stderr("refused while the command ran");
    assert!(!log.exists() && !output.stderr.contains("canary"), "{output:#?}");
    nothing_went_to("11.22.44.62");
}

/// BL-035: a second launch from inside would have a policy of the command's own.
fn a_sandbox_in_a_sandbox() {
    let run = Run::new().command(&[&program(), "run", "--network", "all", "--", "sh", "-c", "echo INNER"]);
    let output = run.run();
    output.expect_code(125).expect_stderr("namespaces");
    assert!(!output.stdout.contains("INNER"), "{output:#?}");
}

/// BL-103
fn datagrams_are_refused_at_once() {
    all_refused(
        "for port in [80, 123, 443, 784, 853, 1194, 3478, 4500, 5353, 8443, 51820]:
    for family, address in [(socket.AF_INET, '11.22.44.63'), (socket.AF_INET6, '2a11:22:44::59')]:
        def work():
            with socket.socket(family, socket.SOCK_DGRAM) as made:
                made.connect((address, port))
                made.send(b'\\xc3' + bytes(1199))
                made.recv(100)
        attempt(f'{address} {port}', work)",
    );
    ["11.22.44.63", "2a11:22:44::59"].into_iter().for_each(nothing_went_to);
}

/// BL-104: this version speaks no SOCKS; what begins like it ends quickly and opens nothing.
fn socks_opens_nothing() {
    let output = attempts(
        Run::new().arg("--network").arg("all"),
        "def listening():
    return sorted(line.split()[1] for name in ['tcp', 'tcp6', 'udp', 'udp6'] for line in open('/proc/net/' + name).readlines()[1:]
        if line.split()[3] in ['0A', '07'])
before = listening()
for greeting in [b'\\5\\1\\0', b'\\5\\1\\2', b'\\5\\2\\0\\2', b'\\5\\0', b'\\5', b'\\5\\xff', b'\\4\\1\\1\\xbb\\x0b\\x16\\x2c\\x40\\0', b'\\4\\1\\1\\xbb\\0\\0\\0\\1u\\0evil.test\\0']:
    for request in [b'', b'\\5\\3\\0\\1\\0\\0\\0\\0\\0\\0', b'\\5\\2\\0\\1\\x0b\\x16\\x2c\\x40\\1\\xbb', b'\\5\\1\\0\\3\\xff' + b'a' * 255 + b'\\1\\xbb', b'\\5\\1\\0\\5']:
        def work():
            with socket.create_connection(('127.0.0.1', 3128)) as made:
                made.sendall(greeting + request + b'\\r\\n\\r\\n')
                got = b''
                while piece := made.recv(4096):
                    got += piece
                # SOCKS5 is served; what these ask for is not: no method, another command, a name that is none.
                refused = got[:2] == b'\\5\\xff' or got[:2] == b'\\5\\0' and (len(got) == 2 or got[3] != 0)
                assert not got or refused or got.startswith(b'HTTP/1.1 400'), got
                raise OSError('closed')
        attempt('socks', work)
assert listening() == before, (before, listening())",
    );
    assert!(!output.stdout.contains("OPEN"), "{output:#?}");
    nothing_went_to("11.22.44.64");
}

/// BL-037, BL-161
fn one_sandbox_cannot_use_anothers_proxy() {
    let host = "own.isolation.allowed.test";
    let first = Run::new().allow(host).secret_env("KEY", "canary-of-own").bind(&format!("{host} X-Api-Key: {{KEY}}"));
    let work = first.work();
    let script = format!("echo ready; while [ ! -e go ]; do sleep 0.02; done; curl -sSf https://{host}/status/200");
    let running = first.script(&script).start();
    running.wait_for("ready");
    let refused = TcpStream::connect("127.0.0.1:3128").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let ask = format!(
        "exec 2>&1; for proxy in '' http://127.0.0.1:3128 http://[::1]:3128 http://100.64.0.1:3128 socks5h://127.0.0.1:3128; do
            curl -sSik --max-time 5 -x \"$proxy\" https://{host}/; done; true"
    );
    let output = Run::new().script(&ask).run();
    output.expect_code(0).expect_stdout("403");
    assert!(internet().web.requests(host).is_empty(), "{output:#?}");
    fs::write(work.join("go"), "").unwrap();
    running.wait().expect_code(0).expect_stdout("status 200");
    assert_eq!(internet().web.requests(host).len(), 1);
}

/// BL-025: what says nothing permits nothing, and what cannot be read is a mistake.
fn nothing_listed_is_nothing_permitted() {
    let host = "listed.isolation.allowed.test";
    for text in
        ["", "\n", "# nothing\n", "[network]\n", "[network]\nmode = \"none\"\n", "[egress]\n", "[network]\n[egress]\n"]
    {
        let run = Run::new().file("policy.toml", text).arg("--policy").arg("policy.toml");
        let output = run.script(&format!("curl -sSi https://{host}/; curl -sSik https://11.22.44.65/")).run();
        assert_eq!(output.stdout.matches("x-sandbox-proxy-denial").count(), 2, "{text:?} {output:#?}");
    }
    for hosts in [
        "[]",
        "[\"\"]",
        "[\",\"]",
        "[\" \"]",
        "[\"*\"]",
        "[\"a b\"]",
        "[\"alowed,test\"]",
        "[\"http://\"]",
        "\"\"",
        "{}",
    ] {
        let text = format!("[network]\nmode = \"allow\"\nhosts = {hosts}\n");
        let run = Run::new().file("policy.toml", &text).arg("--policy").arg("policy.toml");
        let marker = run.work().join("ran");
        run.script("touch ran").run().expect_code(125).expect_stderr("policy.toml:3");
        assert!(!marker.exists(), "{hosts}");
    }
    assert!(internet().web.requests(host).is_empty());
    nothing_went_to("11.22.44.65");
}

/// BL-026: a run is steered by what was there when it began, and by what it can be sure of since; signals are the command's.
fn a_policy_that_is_broken_or_replaced_changes_nothing() {
    let host = "edited.isolation.allowed.test";
    let run = Run::new();
    let policy = run.outside().join("policy.toml");
    fs::write(&policy, "[network]\nmode = \"none\"\n").unwrap();
    // Not a shell: a signal would end its wait for a line.
    let program = format!(
        "import signal, subprocess, sys
for name in ['SIGHUP', 'SIGUSR1', 'SIGUSR2']:
    signal.signal(getattr(signal, name), lambda *_: None)
print('ready', flush=True)
for line in sys.stdin:
    subprocess.run(['curl', '-sS', '-o', '/dev/null', '-w', '%{{http_code}}\\n', 'https://{host}/'])"
    );
    let run = run.arg("--policy").arg(&policy.display().to_string()).python(&program);
    let mut terminal = Terminal::start(&run.to_command());
    terminal.expect("ready");
    let all = "[network]\nmode = \"all\"\n";
    let edits: [&dyn Fn(); 3] =
        [&|| fs::write(&policy, "[network\n").unwrap(), &|| fs::remove_file(&policy).unwrap(), &|| {
            fs::write(&policy, all).unwrap()
        }];
    for edit in edits {
        edit();
        for signal in [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2].repeat(33) {
            kill(terminal.pid(), signal).unwrap();
        }
        terminal.send("again\n");
        terminal.expect("403\r\n");
    }
    terminal.send("\x04");
    assert_eq!(code(terminal.wait()), 0);
    assert!(internet().web.requests(host).is_empty());
}

/// BL-110: whether a host is looked into and gets its secret is told by this start's policy, every time anew.
fn bindings_are_those_of_this_start() {
    let host = "again.isolation.allowed.test";
    let ask = format!("curl -sSf -H 'X-Api-Key: placeholder' https://{host}/status/200");
    for turn in 0..4 {
        let mut run = Run::new().allow(host);
        if turn % 2 == 1 {
            run = run.secret_env("KEY", "canary-of-again").bind(&format!("{host} X-Api-Key: {{KEY}}"));
        }
        run.script(&ask).run().expect_code(0).expect_stdout("status 200");
    }
    let seen = internet().web.requests(host);
    let keys: Vec<Vec<&str>> = seen.iter().map(|seen| seen.header("x-api-key")).collect();
    assert_eq!(keys, [["placeholder"], ["canary-of-again"], ["placeholder"], ["canary-of-again"]]);
}
