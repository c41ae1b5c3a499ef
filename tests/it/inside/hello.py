"""ClientHellos by hand (RFC 5246, RFC 6066), of TLS 1.2, so that the certificate comes back in clear."""
import os, struct

from wire import *


def extension(kind, body):
    return struct.pack("!HH", kind, len(body)) + body


def names(*entries):
    """server_name: each entry is a name, or a pair of name type and name."""
    pairs = [entry if isinstance(entry, tuple) else (0, entry) for entry in entries]
    listed = b"".join(struct.pack("!BH", kind, len(name)) + name for kind, name in pairs)
    return extension(0, struct.pack("!H", len(listed)) + listed)


GROUPS = extension(10, b"\0\4\0\x1d\0\x17")
USUAL = [GROUPS, extension(11, b"\1\0"), extension(13, b"\0\4\4\3\x08\4"), extension(23, b""), extension(0xFF01, b"\0")]
SUITES = b"\xc0\x2b\xc0\x2f"


def hello(*extensions, usual=USUAL, suites=SUITES, version=0x0303, session=b"", compression=b"\0", behind=b""):
    """The handshake message; `behind` stands after the extensions, where nothing belongs."""
    listed = b"".join([*extensions, *usual])
    body = struct.pack("!H", version) + os.urandom(32) + bytes([len(session)]) + session
    body += struct.pack("!H", len(suites)) + suites + bytes([len(compression)]) + compression
    body += struct.pack("!H", len(listed)) + listed + behind
    return b"\1" + len(body).to_bytes(3, "big") + body


def records(message, *sizes, version=0x0301, kind=22):
    """The message in records of these sizes and of at most 16 KB for the rest."""
    pieces = []
    for size in [*sizes, *[16384] * (1 + len(message) // 16384)]:
        if message or not pieces:
            pieces.append(message[:size])
            message = message[size:]
    return b"".join(struct.pack("!BHH", kind, version, len(piece)) + piece for piece in pieces)


def served(stream):
    """The names of the certificate that answers a hello; 'alert N' or 'closed' where none comes."""
    handshake = b""
    try:
        while True:
            kind, _, length = struct.unpack("!BHH", read_exactly(stream, 5))
            piece = read_exactly(stream, length)
            if kind == 21:
                return f"alert {piece[1]}"
            handshake += piece
            at = 0
            while len(handshake) >= at + 4 + int.from_bytes(handshake[at + 1 : at + 4], "big"):
                if handshake[at] == 11:
                    return alternative_names(handshake[at:])
                at += 4 + int.from_bytes(handshake[at + 1 : at + 4], "big")
    except (EOFError, ConnectionError):
        return "closed"


def alternative_names(certificate):
    """The subjectAltName, whose lengths here are of one byte each."""
    at = certificate.index(b"\x06\x03\x55\x1d\x11") + 5
    at += 3 if certificate[at] == 1 else 0
    listed, found = certificate[at + 4 : at + 4 + certificate[at + 3]], []
    while listed:
        kind, length = listed[0], listed[1]
        found.append(listed[2 : 2 + length].decode() if kind == 0x82 else socket.inet_ntoa(listed[2 : 2 + length]))
        listed = listed[2 + length :]
    return " ".join(found)


def answer_to(via, host, flight):
    """What a first flight gets; a list of pieces goes out piece by piece."""
    with via(host) as stream:
        try:
            for piece in flight if isinstance(flight, list) else [flight]:
                stream.sendall(piece)
        except OSError:
            pass
        return served(stream)
