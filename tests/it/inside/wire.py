"""What the scripts inside a sandbox share: sockets and TLS by hand, HTTP/1 answers, HTTP/2 streams.

A script calls check() as often as it likes and ends with done(): every mismatch is named, and it exits with 1 then.
"""
import socket, ssl, sys, threading

import h2.config, h2.connection, h2.events, h2.exceptions

h2_errors = h2.exceptions.ProtocolError
PROXY = ("127.0.0.1", 3128)
PATIENCE = 20
_wrong = []


def check(what, got, wanted):
    """Notes a mismatch. `wanted` is a value, or a function of one."""
    fine = wanted(got) if callable(wanted) else got == wanted
    if not fine:
        shown = repr(got)
        _wrong.append(what)
        print(f"WRONG {what}: got {shown[:600]}" + ("" if callable(wanted) else f", wanted {wanted!r}"), flush=True)


def done():
    sys.exit(1 if _wrong else 0)


def attempt(what, work):
    """Runs one part of a script; an exception is a mismatch of that part alone."""
    try:
        return work()
    except Exception as error:
        check(what, f"{type(error).__name__}: {error}", lambda _: False)


def together(*works):
    """Runs parts at the same time."""
    threads = [threading.Thread(target=attempt, args=work) for work in works]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def tcp(host, port=443):
    stream = socket.create_connection((host, port), PATIENCE)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def context(alpn=("http/1.1",)):
    made = ssl.create_default_context()
    if alpn:
        made.set_alpn_protocols(list(alpn))
    return made


def connect(host, port=443):
    """A socket behind a CONNECT that was granted."""
    stream = tcp(*PROXY)
    stream.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    head = read_head(stream)
    assert head.startswith(b"HTTP/1.1 200"), head
    return stream


def tls(host, alpn=("http/1.1",), via=tcp, sni=None):
    return context(alpn).wrap_socket(via(host), server_hostname=sni or host)


def read_head(stream):
    """Up to the empty line, byte by byte, so that nothing behind it is taken."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = stream.recv(1)
        if not byte:
            raise EOFError(f"the stream ended after {head!r}")
        head += byte
    return head


def read_exactly(stream, length):
    read = b""
    while len(read) < length:
        piece = stream.recv(min(65536, length - len(read)))
        if not piece:
            raise EOFError(f"the stream ended after {len(read)} of {length} bytes")
        read += piece
    return read


def read_to_end(stream):
    """Everything until the end; what ended it is no matter."""
    read = b""
    try:
        while piece := stream.recv(65536):
            read += piece
    except (ConnectionError, ssl.SSLError):
        pass
    return read


class Answer:
    """One HTTP/1 answer: status, reason, fields (names in lower case), body, trailers."""

    def __init__(self, stream, method="GET"):
        lines = read_head(stream).decode("latin-1").split("\r\n")
        self.version, status, self.reason = (lines[0].split(" ", 2) + [""])[:3]
        self.status, self.fields, self.trailers = int(status), [], []
        for line in lines[1:-2]:
            name, value = line.split(":", 1)
            self.fields.append((name.lower(), value.strip()))
        self.body = self._body(stream, method)

    def field(self, name):
        return next((value for key, value in self.fields if key == name), None)

    @property
    def code(self):
        return self.field("x-sandbox-proxy-denial")

    def _body(self, stream, method):
        if method == "HEAD" or self.status in (101, 204, 304) or self.status == 100:
            return b""
        if self.field("transfer-encoding") == "chunked":
            body = b""
            while size := chunk_size(stream):
                body += read_exactly(stream, size)
                read_exactly(stream, 2)
            while (line := read_line(stream)):
                name, value = line.split(":", 1)
                self.trailers.append((name.lower(), value.strip()))
            return body
        if self.field("content-length") is not None:
            return read_exactly(stream, int(self.field("content-length")))
        return read_to_end(stream)


def read_line(stream):
    line = b""
    while not line.endswith(b"\r\n"):
        line += read_exactly(stream, 1)
    return line[:-2].decode("latin-1")


def chunk_size(stream):
    return int(read_line(stream), 16)


def request(stream, head, body=b"", method=None):
    """Sends a head (lines without their ends) and gives the answer."""
    stream.sendall(b"\r\n".join(line.encode("latin-1") for line in head) + b"\r\n\r\n" + body)
    return Answer(stream, method or head[0].split(" ")[0])


class H2:
    """An HTTP/2 connection. `strict=False` sends what the library would refuse to send."""

    def __init__(self, stream, strict=True):
        self.stream = stream
        self.answers, self.ended, self.gone = {}, set(), False
        config = h2.config.H2Configuration(
            client_side=True, header_encoding="latin-1", validate_outbound_headers=strict,
            normalize_outbound_headers=strict, validate_inbound_headers=strict)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.stream.sendall(self.h2.data_to_send())

    def send(self, host, path="/", method="GET", fields=(), body=None, end=True, pseudo=None):
        """Opens a stream; the body, if any, ends it unless `end` is false."""
        stream = self.h2.get_next_available_stream_id()
        if pseudo is None:
            pseudo = [(":method", method), (":scheme", "https"), (":authority", host), (":path", path)]
        self.answers[stream] = {"status": None, "fields": [], "body": b"", "trailers": [], "reset": None}
        self.h2.send_headers(stream, pseudo + list(fields), end_stream=end and body is None)
        if body is not None:
            self.data(stream, body, end)
        self.flush()
        return stream

    def data(self, stream, body, end=False):
        if end and not body:
            self.h2.end_stream(stream)
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if not room:
                if self.gone or stream in self.ended:
                    return
                self.step()
                continue
            self.h2.send_data(stream, body[:room], end_stream=end and len(body) <= room)
            body = body[room:]
            self.flush()
        self.flush()

    def step(self):
        """Takes in what comes next; false at the end of the connection."""
        try:
            bytes_in = self.stream.recv(65536)
        except (ConnectionError, ssl.SSLError):
            bytes_in = b""
        if not bytes_in:
            self.gone = True
            return False
        for event in self.h2.receive_data(bytes_in):
            self.take(event)
        self.flush()
        return True

    def take(self, event):
        answer = self.answers.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.ResponseReceived):
            answer["fields"] = event.headers
            answer["status"] = int(dict(event.headers)[":status"])
        elif isinstance(event, h2.events.DataReceived):
            answer["body"] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            answer["trailers"] = event.headers
        elif isinstance(event, h2.events.StreamReset):
            answer["reset"] = event.error_code
            self.ended.add(event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.gone = True

    def answer(self, stream):
        """The whole answer of a stream."""
        while stream not in self.ended and not self.gone:
            self.step()
        return self.answers[stream]

    def until(self, stream, text):
        """Waits until the body so far has a text."""
        while text not in self.answers[stream]["body"] and not self.gone and stream not in self.ended:
            self.step()
        return self.answers[stream]["body"]
