"""Runs a command on a kernel that seems to lack a part of nf_tables: python3 -c … WHICH COMMAND [ARG]…

Each time that something below the command opens a socket to nf_tables, this process is asked (seccomp's user notification)
and lets it be opened, or answers as a kernel without it does. WHICH is a word for each such socket in turn, "yes" or "no",
joined by commas; the last one holds for all that follow. It ends with the command's own code.
"""
import array
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import sys

AF_NETLINK, NETLINK_NETFILTER = 16, 12
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
SYS_SOCKET = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1


def filtered():
    """Puts this process under the filter; the descriptor to be asked on."""
    load, equal, give = 0x20, 0x15, 0x06
    ask, allow = 0x7FC00000, 0x7FFF0000
    steps = [(load, 0, 0, 0), (equal, 0, 5, SYS_SOCKET), (load, 0, 0, 16), (equal, 0, 3, AF_NETLINK),
             (load, 0, 0, 32), (equal, 0, 1, NETLINK_NETFILTER), (give, 0, 0, ask), (give, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    set_filter, new_listener, no_new_privileges = 1, 8, 38
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    listener = libc.syscall(SYS_SECCOMP, set_filter, new_listener, program)
    assert listener >= 0, os.strerror(ctypes.get_errno())
    return listener


def answer(listener, opened):
    """Takes one question and lets the socket be opened, or not. False when nobody is left to ask."""
    question = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, question)
    except OSError as error:
        return error.errno != errno.ENOENT
    number = struct.unpack_from("Q", question)[0]
    fields = (0, 0, CONTINUE) if opened else (0, -errno.EPROTONOSUPPORT, 0)
    try:
        fcntl.ioctl(listener, SEND, bytearray(struct.pack("QqiI", number, *fields)))
    except OSError:
        pass  # who asked has ended
    return True


ours, theirs = socket.socketpair()
child = os.fork()
if child == 0:
    rights = array.array("i", [filtered()])
    theirs.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    os.closerange(3, 256)
    os.execvp(sys.argv[2], sys.argv[2:])
_, [(_, _, descriptor)], _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
listener = struct.unpack("i", descriptor)[0]
turns = sys.argv[1].split(",")
poll = select.poll()
poll.register(listener, select.POLLIN)
while not any(events & select.POLLHUP for _, events in poll.poll()):
    if not answer(listener, turns[0] == "yes"):
        break
    turns = turns[1:] or turns
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
