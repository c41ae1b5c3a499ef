//! Exit codes, signals, the terminal and the streams: as without the launcher.

use nix::sys::signal::{Signal, kill};

use crate::cases;
use crate::sandbox::{Run, code};
use crate::terminal::Terminal;

cases![
    exit_0,
    exit_42,
    killed_is_137,
    terminated_is_143,
    absent_command_is_127,
    directory_as_command_is_126,
    file_without_mode_is_126,
    sigterm_is_forwarded,
    sighup_is_forwarded,
    ctrl_c_is_130,
    ctrl_c_reaches_a_trap,
    ctrl_z_and_fg,
    window_size,
    dev_tty,
    the_terminal_keeps_its_name,
    a_shell_inside_has_job_control,
    hundred_megabytes,
    closed_standard_input,
    orphans_end_with_the_command,
    who_and_where,
    descriptors_are_not_inherited,
    the_environment_is_scrubbed,
];

#[track_caller]
fn exits(script: &str, expected: i32) {
    Run::new().script(script).run().expect_code(expected);
}

fn exit_0() {
    exits("exit 0", 0);
}

fn exit_42() {
    exits("exit 42", 42);
}

fn killed_is_137() {
    exits("kill -KILL $$", 137);
}

fn terminated_is_143() {
    exits("kill -TERM $$", 143);
}

fn absent_command_is_127() {
    Run::new().command(&["no-such-command"]).run().expect_code(127).expect_stderr("no-such-command");
}

fn directory_as_command_is_126() {
    Run::new().command(&["/usr"]).run().expect_code(126).expect_stderr("/usr");
}

fn file_without_mode_is_126() {
    Run::new().file("plain", "text").command(&["./plain"]).run().expect_code(126).expect_stderr("plain");
}

/// A command that says `ready`, traps one signal, says so and exits 9.
const TRAPS: &str = "trap 'echo got it; exit 9' SIGNAL; echo ready; while :; do sleep 0.05; done";

#[track_caller]
fn forwards(signal: Signal, name: &str) {
    let mut terminal = Terminal::start(&Run::new().script(&TRAPS.replace("SIGNAL", name)).to_command());
    terminal.expect("ready");
    kill(terminal.pid(), signal).unwrap();
    terminal.expect("got it");
    assert_eq!(code(terminal.wait()), 9);
}

fn sigterm_is_forwarded() {
    forwards(Signal::SIGTERM, "TERM");
}

fn sighup_is_forwarded() {
    forwards(Signal::SIGHUP, "HUP");
}

fn ctrl_c_is_130() {
    let mut terminal = Terminal::start(&Run::new().script("echo ready; exec sleep 1000").to_command());
    terminal.expect("ready");
    terminal.send("\x03");
    assert_eq!(code(terminal.wait()), 130);
}

fn ctrl_c_reaches_a_trap() {
    let mut terminal = Terminal::start(&Run::new().script(&TRAPS.replace("SIGNAL", "INT")).to_command());
    terminal.expect("ready");
    terminal.send("\x03");
    terminal.expect("got it");
    assert_eq!(code(terminal.wait()), 9);
}

fn ctrl_z_and_fg() {
    let run = Run::new().script("echo rea\"\"dy; read word; echo \"word=$word\"; exit 5");
    let shell = "exec bash --norc --noprofile -i # ";
    let mut terminal = Terminal::start(&run.to_shell(&["bash", "-c"], shell));
    terminal.send(&format!("{}\n", run.to_line()));
    terminal.expect("ready\r\n");
    terminal.send("\x1a");
    terminal.expect("Stopped");
    terminal.expect("bash-");
    terminal.send("fg\n");
    terminal.expect("exit 5'");
    terminal.send("again\n");
    terminal.expect("word=again\r\n");
    terminal.send("echo code=$?\n");
    terminal.expect("code=5\r\n");
    terminal.send("exit 0\n");
    assert_eq!(code(terminal.wait()), 0);
}

fn window_size() {
    let program = "import os, signal
def show(*_):
    size = os.get_terminal_size(0)
    os.write(1, b'size %d %d\\n' % (size.lines, size.columns))
signal.signal(signal.SIGWINCH, show)
show()
input()";
    let mut terminal = Terminal::start(&Run::new().python(program).to_command());
    terminal.expect("size 24 80");
    terminal.resize(33, 111);
    terminal.expect("size 33 111");
    terminal.send("\n");
    assert_eq!(code(terminal.wait()), 0);
}

fn dev_tty() {
    let script = "echo ready > /dev/tty; read word < /dev/tty; echo \"typed $word\" > /dev/tty";
    let mut terminal = Terminal::start(&Run::new().script(script).to_command());
    terminal.expect("ready");
    terminal.send("something\n");
    terminal.expect("typed something");
    assert_eq!(code(terminal.wait()), 0);
}

fn the_terminal_keeps_its_name() {
    let script = "echo \"name=$(tty)\"; echo opened > \"$(tty)\"; tty < /dev/tty";
    let mut terminal = Terminal::start(&Run::new().script(script).to_command());
    terminal.expect(&format!("name={}\r\n", terminal.name()));
    terminal.expect("opened");
    terminal.expect("/dev/tty");
    assert_eq!(code(terminal.wait()), 0);
}

fn a_shell_inside_has_job_control() {
    let mut terminal = Terminal::start(&Run::new().command(&["bash", "--norc", "--noprofile", "-i"]).to_command());
    terminal.expect("bash-");
    // One process without children: a stop in the middle of a vfork would leave its parent waiting. The words are put
    // together, so that the typed line does not look like the answer.
    let job = "import signal as s; s.signal(s.SIGCONT, lambda *_: print('res'+'umed')); print('st'+'arted')";
    terminal.send(&format!("/usr/bin/python3 -uc \"{job}; [s.pause() for _ in iter(int, 1)]\"\n"));
    terminal.expect("started\r\n");
    terminal.send("\x1a");
    terminal.expect("Stopped");
    terminal.expect("bash-");
    terminal.send("fg\n");
    // The shell names the job before it gives it the terminal; the job runs on only after that.
    terminal.expect("resumed\r\n");
    terminal.send("\x03");
    terminal.expect("bash-");
    terminal.send("exit 6\n");
    assert_eq!(code(terminal.wait()), 6);
}

fn hundred_megabytes() {
    let bytes: Vec<u8> = (0..100_000_000u32).map(|at| b'a' + (at.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    let output = Run::new().stdin(bytes.clone()).script("cat; echo done >&2").run();
    assert_eq!((output.code, output.stderr.as_str(), output.stdout.len()), (0, "done\n", bytes.len()));
    assert!(output.stdout.as_bytes() == bytes, "the bytes differ");
}

fn closed_standard_input() {
    let mut command = Run::new().script("echo out; read word || echo end").to_shell(&["sh", "-c"], "exec <&-; ");
    let output = command.output().unwrap();
    assert_eq!((code(output.status), String::from_utf8_lossy(&output.stdout).as_ref()), (0, "out\nend\n"));
}

fn orphans_end_with_the_command() {
    let script = "setsid sh -c 'trap \"\" HUP TERM; while :; do sleep 1; done' & echo started";
    Run::new().script(script).run().expect_code(0).expect_stdout("started");
}

fn who_and_where() {
    let script = "id -u; id -g; umask; pwd; touch mine; stat -c %u mine";
    let run = Run::new().script(script);
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    let expected = format!("{uid}\n{gid}\n0027\n{}\n{uid}\n", run.work().display());
    let output = run.to_shell(&["sh", "-c"], "umask 027; ").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stderr));
}

fn descriptors_are_not_inherited() {
    let run = Run::new().script("ls -l /proc/self/fd; cat <&9");
    let output = run.to_shell(&["bash", "-c"], "exec 9</etc/passwd; ").output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(!shown.contains("passwd") && !shown.contains("root:"), "{shown}");
}

fn the_environment_is_scrubbed() {
    let run = Run::new().env("HTTPS_PROXY", "http://10.0.0.1:1").env("MY_API_KEY", "canary-environment");
    let run = run.env("SSH_AUTH_SOCK", "/nowhere").env("COLORTERM", "truecolor").env("KEPT", "yes");
    let output = run.arg("--keep-env").arg("KEPT").command(&["env"]).run();
    output.expect_code(0).expect_stdout("COLORTERM=truecolor").expect_stdout("KEPT=yes");
    for gone in ["canary-environment", "HTTPS_PROXY", "SSH_AUTH_SOCK"] {
        assert!(!output.stdout.contains(gone), "{gone} is inside\n{output:#?}");
    }
}
