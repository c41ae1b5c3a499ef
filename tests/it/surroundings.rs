//! What stands around a sandbox on the host, and is not to be found, used or changed from inside: sockets, standard streams,
//! mounts, terminals, processes, other users.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::cases;
use crate::escape::{python, refused};
use crate::sandbox::{Run, code};

cases![
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
    minus_one_is_no_user,
    host_processes_are_out_of_sight,
];

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
    is_out_of_reach(run, &path, &listener);
}

/// `/proc/net/unix` has the name that it was bound by, and that is gone.
fn renamed_unix_socket() {
    let run = Run::new();
    let (bound, path) = (run.home().join("bound.sock"), run.home().join("renamed.sock"));
    let listener = UnixListener::bind(&bound).unwrap();
    fs::rename(bound, &path).unwrap();
    is_out_of_reach(run, &path, &listener);
}

#[track_caller]
fn is_out_of_reach(run: Run, path: &Path, listener: &UnixListener) {
    let attempt = "import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError as error:
    print('refused:', error)";
    let path = path.display().to_string();
    run.command(&["/usr/bin/python3", "-c", attempt, &path]).run().expect_code(0).expect_stdout("refused:");
    assert_nobody_came(listener);
}

#[track_caller]
fn assert_nobody_came(listener: &UnixListener) {
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody connected");
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
pub struct Bound(PathBuf);

impl Bound {
    pub fn new(source: &Path, target: PathBuf) -> Self {
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

fn host_processes_are_out_of_sight() {
    let output = Run::new().script("ls /proc | grep -c '^[0-9]'; cat /proc/*/cmdline | tr '\\0' ' '").run();
    assert!(!output.stdout.contains("target") || output.stdout.len() < 4000, "{output:#?}");
    let processes: u32 = output.stdout.lines().next().unwrap().parse().unwrap();
    assert!(processes <= 8, "{output:#?}");
    refused(&format!("os.kill({}, 0) if not os.path.exists('/proc/{0}') else call(-1)", std::process::id()));
}
