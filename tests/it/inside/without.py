"""Runs a command on a kernel that seems to lack a system call: python3 -c … NUMBER COMMAND [ARG]…"""
import ctypes
import os
import struct
import sys

load, equal, give = 0x20, 0x15, 0x06
absent, allow = 0x00050000 | 38, 0x7FFF0000
steps = [(load, 0, 0, 0), (equal, 0, 1, int(sys.argv[1])), (give, 0, 0, absent), (give, 0, 0, allow)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
no_new_privileges, set_filter, by_program = 38, 22, 2
assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
assert libc.prctl(set_filter, by_program, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[2], sys.argv[2:])
