"""HTTP/2 by hand (RFC 9113, RFC 7541): frames as bytes, so that nothing puts right what a test means to be wrong."""
import struct

import hpack

from wire import *

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 1, 1, 4, 8, 32
CODES = ["NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
    "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM"]


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    length = len(payload) if length is None else length
    return length.to_bytes(3, "big") + struct.pack("!BBI", kind, flags, stream) + payload


def integer(value, bits, first=0):
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def literal(name, value):
    """A field that no table holds and none keeps."""
    name, value = (text if isinstance(text, bytes) else text.encode("latin-1") for text in (name, value))
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


def block(fields):
    return b"".join(literal(*field) for field in fields)


def fields_of(host, path="/bad", method="GET", *more):
    return [(":method", method), (":scheme", "https"), (":authority", host), (":path", path), *more]


def headers(stream, fields, flags=END_HEADERS | END_STREAM):
    return frame(HEADERS, flags, stream, block(fields))


class Raw:
    """A connection of hand-made frames. It answers SETTINGS and PING and gives windows for what it reads."""

    def __init__(self, host, preface=PREFACE + frame(SETTINGS)):
        self.host, self.stream, self.decoder = host, tls(host, ("h2",)), hpack.Decoder()
        self.statuses, self.resets, self.gone, self.pongs, self.acks, self.settled = {}, {}, None, [], 0, False
        self.send(preface)

    def send(self, *frames):
        try:
            self.stream.sendall(b"".join(frames))
        except OSError:
            pass  # The other side may have ended it, which is read later.

    def step(self):
        """Takes in the next frame; false at the end of the connection."""
        try:
            length, kind, flags, stream = struct.unpack("!IBBI", b"\0" + read_exactly(self.stream, 9))
            payload = read_exactly(self.stream, length)
        except TimeoutError:
            self.gone = self.gone or "silence"
            return False
        except (EOFError, OSError):
            self.gone = self.gone or "end"
            return False
        if kind == SETTINGS and flags & ACK:
            self.acks += 1
        elif kind == SETTINGS:
            self.send(frame(SETTINGS, ACK))
            self.settled = True
        elif kind == PING and flags & ACK:
            self.pongs.append(payload)
        elif kind == PING:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            fields = dict(self.decoder.decode(payload))
            self.statuses.setdefault(stream, int(fields.get(":status", 0)))
        elif kind == DATA and payload:
            self.send(*[frame(WINDOW_UPDATE, 0, of, struct.pack("!I", length)) for of in (0, stream)])
        elif kind == RST_STREAM:
            self.resets[stream] = CODES[struct.unpack("!I", payload)[0]]
        elif kind == GOAWAY:
            self.gone = CODES[struct.unpack("!I", payload[4:8])[0]]
        return True

    def outcome(self, stream=1):
        """What comes of a stream: 'reset CODE', 'status N', or 'connection CODE': 'end' where it ends without a word
        (or a reset overtakes it), 'silence' where nothing comes."""
        while self.gone is None and stream not in self.statuses and stream not in self.resets:
            self.step()
        if stream in self.statuses:
            # A status is not all, where a reset follows it.
            while self.statuses[stream] == 200 and self.gone is None and stream not in self.resets and self.step():
                break
            return f"status {self.statuses[stream]}"
        if stream in self.resets:
            return f"reset {self.resets[stream]}"
        return f"connection {self.gone}"

    def good(self, stream):
        """A plain request, which must go through."""
        self.send(headers(stream, fields_of(self.host, "/good")))
        return self.outcome(stream)

    def ended(self):
        """Whether the connection ends."""
        while self.step():
            pass
        return self.gone not in (None, "silence")
