"""What the tests' Python programs share inside a sandbox: connections of every kind, HTTP/1.1, HTTP/2 and DNS by hand,
so that nothing between the test and the wire puts right what the test means to be wrong."""
import http.client
import json
import os
import socket
import ssl
import struct
import sys

socket.setdefaulttimeout(20)


def answer(sock):
    """The next HTTP/1 response as [status, denial code or None, body]; ['closed', None, ''] where there is none."""
    try:
        response = http.client.HTTPResponse(sock)
        response.begin()
        body = response.read().decode("utf-8", "replace")
        return [response.status, response.getheader("x-sandbox-proxy-denial"), body]
    except (OSError, http.client.HTTPException):
        return ["closed", None, ""]


def proxy():
    """A connection to the explicit proxy."""
    return socket.create_connection(("127.0.0.1", 3128))


def connect(host, port=443):
    """CONNECT: the socket, or the refusal as [status, code, body]."""
    sock = proxy()
    sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode("utf-8", "surrogateescape"))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)
        if not byte:
            return ["closed", None, ""]
        head += byte
    status = int(head.split()[1])
    if status == 200:
        return sock
    code = [line.split(b":")[1].strip() for line in head.split(b"\r\n") if line.startswith(b"x-sandbox-proxy-denial")]
    return [status, code[0].decode() if code else None, head.decode("latin-1")]


def tls(sock, sni, alpn="http/1.1", verify=False):
    """TLS with any name in the handshake, or none."""
    # Reading the authorities takes longer than the handshake.
    context = ssl.create_default_context() if verify else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    context.set_alpn_protocols([alpn])
    return context.wrap_socket(sock, server_hostname=sni)


def ask(sock, *lines):
    """One HTTP/1 request, written as given."""
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape"))
    return answer(sock)


def through_proxy(url, host, *lines):
    """An absolute request target at the explicit proxy, on a connection of its own."""
    with proxy() as sock:
        return ask(sock, f"GET {url} HTTP/1.1", f"Host: {host}", *lines)


def frame(kind, flags, stream, payload):
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field that no table holds (RFC 7541 section 6.2.2), for values of up to 126 bytes."""
    name, value = name.encode(), value.encode()
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def h2(sock, requests):
    """Sends each list of header fields as a stream of its own; the status of each, 'reset' or 'closed'."""
    settings = struct.pack("!HI", 1, 0)  # no dynamic table, so that a status is to be read by itself
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, settings))
    for index, fields in enumerate(requests):
        sock.sendall(frame(1, 5, 2 * index + 1, b"".join(literal(*field) for field in fields)))
    found = {}
    reader = sock.makefile("rb")
    while len(found) < len(requests):
        try:
            head = reader.read(9)
        except OSError:
            break
        if len(head) < 9:
            break
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream, payload = int.from_bytes(head[5:], "big"), reader.read(int.from_bytes(head[:3], "big"))
        if kind == 4 and not flags & 1:
            sock.sendall(frame(4, 1, 0, b""))
        elif kind == 1 and stream not in found:
            found[stream] = status(payload)
        elif kind == 3:
            found[stream] = "reset"
    return [found.get(2 * index + 1, "closed") for index in range(len(requests))]


def status(block):
    """`:status`, which comes first in every block."""
    while block[0] & 0xE0 == 0x20:  # a change of the table's size
        block = block[1:]
    if block[0] & 0x80:
        return {0x88: 200, 0x89: 204, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}.get(block[0], "unknown")
    length = block[1] & 0x7F
    text = block[2 : 2 + length]
    if not block[1] & 0x80:
        return int(text)
    bits = "".join(f"{byte:08b}" for byte in text)
    digits = ["00000", "00001", "00010", "011001", "011010", "011011", "011100", "011101", "011110", "011111"]
    number = ""
    while len(number) < 3:
        digit = next(value for value, code in enumerate(digits) if bits.startswith(code))
        number, bits = number + str(digit), bits[len(digits[digit]) :]
    return int(number)


def h2_get(authority, path="/echo", *fields):
    """The fields of a plain request; others may be added or taken away by the test."""
    pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", authority), (":path", path)]
    return [*pseudo, *fields]


def question(name, kind, klass=1, number=0x1234, flags=0x0100, edns=False):
    """A DNS query."""
    labels = b"".join(bytes([len(label)]) + label for label in name.encode().split(b".") if label)
    head = struct.pack("!6H", number, flags, 1, 0, 0, int(edns))
    additional = b"\0" + struct.pack("!HHIH", 41, 4096, 0, 0) if edns else b""
    return head + labels + b"\0" + struct.pack("!HH", kind, klass) + additional


def behind_name(reply, at):
    """Where the name that begins here ends, be it written out or a pointer."""
    while reply[at] and reply[at] & 0xC0 != 0xC0:
        at += 1 + reply[at]
    return at + (2 if reply[at] else 1)


def parsed(reply):
    """id, rcode, TC bit, the question's bytes, the addresses of the answer, whether there is an OPT, and the length."""
    number, flags, questions, answers, _, additional = struct.unpack("!6H", reply[:12])
    at = 12
    for _ in range(questions):
        at = behind_name(reply, at) + 4
    asked, addresses = reply[12:at], []
    for _ in range(answers):
        at = behind_name(reply, at)
        kind, _, _, length = struct.unpack("!HHIH", reply[at : at + 10])
        data = reply[at + 10 : at + 10 + length]
        addresses.append(socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, data))
        at += 10 + length
    return {
        "id": number,
        "rcode": flags & 15,
        "cut": bool(flags & 0x0200),
        "response": bool(flags & 0x8000),
        "asked": asked.hex(),
        "addresses": addresses,
        "opt": bool(additional) and b"\0\0\x29" in reply[at:],
        "length": len(reply),
    }


def dns_udp(query, server="11.22.33.53", timeout=20):
    """The answer over UDP, and whether it came from the address asked; None where none comes in time."""
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.sendto(query, (server, 53))
        try:
            reply, peer = sock.recvfrom(4096)
        except OSError:
            return None
        return {**parsed(reply), "same_address": peer[0] == server}


def dns_tcp(queries, server="11.22.33.53"):
    """The answers over one TCP connection to questions that are sent at once."""
    with socket.create_connection((server, 53)) as sock:
        sock.sendall(b"".join(struct.pack("!H", len(query)) + query for query in queries))
        reader, replies = sock.makefile("rb"), []
        for _ in queries:
            length = reader.read(2)
            if len(length) < 2:
                break
            replies.append(parsed(reader.read(int.from_bytes(length, "big"))))
        return replies


def tell(value):
    """What the test reads."""
    print(json.dumps(value), flush=True)


