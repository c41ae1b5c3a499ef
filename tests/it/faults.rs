//! Every step of the launcher made to fail, one at a time (BL-032): the run must stop with 125 and name the layer, and the command must
//! not have run. A system call filter that the launcher inherits does it.

use std::fs;
use std::process::Command;

use crate::cases;
use crate::sandbox::{Run, code};

cases![a_step_that_fails_stops_the_start];

/// Installs a filter by the rules in its first word, then becomes the rest. A rule is `number:argument:test:value:errno`; the
/// test is `eq`, `set` (any of the bits) or `any`.
const FILTER: &str = "
import ctypes, os, struct, sys
def instruction(code, yes, no, value): return struct.pack('HBBI', code, yes, no, value)
program = b''
for rule in sys.argv[1].split():
    number, argument, test, value, errno = rule.split(':')
    block = [instruction(0x06, 0, 0, 0x50000 | int(errno))]
    if test != 'any':
        jump = 0x15 if test == 'eq' else 0x45
        block = [instruction(0x20, 0, 0, 16 + 8 * int(argument)), instruction(jump, 0, 1, int(value, 0))] + block
    program += instruction(0x20, 0, 0, 0) + instruction(0x15, 0, len(block), int(number)) + b''.join(block)
program += instruction(0x06, 0, 0, 0x7fff0000)
code = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(program) // 8, ctypes.addressof(code)))) == 0
os.execvp(sys.argv[2], sys.argv[2:])
";

/// What fails, by which rule of the filter (numbers of x86-64), and the layer that must be named.
const FAULTS: &[(&str, &str, &str)] = &[
    ("a socket pair", "53:0:any:0:24", "namespaces"),
    ("clone", "435:0:any:0:38 56:0:set:0x10000000:1", "namespaces"),
    ("netlink", "41:0:eq:16:1", "the sandbox's network"),
    ("sockets", "41:0:eq:2:1", "the sandbox's"),
    ("IPv6 sockets", "41:0:eq:10:1", "the sandbox's"),
    ("listen", "50:0:any:0:1", "the sandbox's listeners"),
    ("bind", "49:0:any:0:98", "the sandbox's"),
    ("a fresh /proc", "165:3:eq:14:1", "a fresh /proc"),
    ("private mounts", "165:3:set:0x40000:1", "the sandbox's file system"),
    ("tmpfs", "165:3:eq:6:1", "the sandbox's file system"),
    ("binds", "165:3:set:0x1000:1", "the sandbox's file system"),
    ("sealing", "165:3:set:0x20:1", "the sandbox's file system"),
    ("attributes of mounts", "442:0:any:0:1", "the sandbox's file system"),
    ("the host name", "170:0:any:0:1", "the sandbox's file system"),
    ("the working directory", "80:0:any:0:13", "the sandbox's file system"),
    ("the plan", "319:0:any:0:1", "pid 1"),
    ("ties to the launcher", "157:0:eq:1:1", "dropping privileges"),
    ("hiding memory", "157:0:eq:4:1", "dropping privileges"),
    ("no_new_privs", "157:0:eq:38:1", "dropping privileges"),
    ("the bounding set", "157:0:eq:24:1", "dropping privileges"),
    ("the ambient set", "157:0:eq:47:1", "dropping privileges"),
    ("securebits", "157:0:eq:28:1", "dropping privileges"),
    ("capabilities", "126:0:any:0:1", "dropping privileges"),
    ("core dumps", "302:1:eq:4:1", "dropping privileges"),
    ("descriptors", "436:0:any:0:1", "dropping privileges"),
    ("Landlock", "446:0:any:0:1", "Landlock"),
    ("the filter", "317:0:eq:1:1 157:0:eq:22:1", "the system call filter"),
    ("the command's process", "435:0:any:0:38 56:0:eq:17:11", "starting the command"),
    ("threads", "435:0:any:0:38 56:0:set:0x10000:11", ""),
];

fn a_step_that_fails_stops_the_start() {
    let mut wrong = Vec::new();
    for (step, rules, layer) in FAULTS {
        let run = Run::new().script("touch ran; echo RAN");
        let direct = run.to_command();
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", FILTER, rules]).arg(direct.get_program()).args(direct.get_args());
        command.current_dir(run.work()).env_clear();
        command.envs(direct.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let ran = run.work().join("ran").exists() || !output.stdout.is_empty();
        if code(output.status) != 125 || ran || !said.starts_with("sandbox-proxy: ") || !said.contains(layer) {
            wrong.push(format!("{step}: {} {ran} {said}", code(output.status)));
        }
        let _ = fs::remove_dir_all(run.outside());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
