"""A GitHub of the tests: the host name picks the behaviour, a credential decides what may be seen.

    python3 server.py DIRECTORY CERTIFICATE KEY SCHEMA

Standard input is the listening socket, standard output a stream of levers: one JSON object a line, one answer a line;
its end ends the server. Every request is a line of DIRECTORY/requests.jsonl before it is answered."""

import json
import os
import socket
import socketserver
import ssl
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler

import gitweb
import graph
import hosts
import levers
import rest
import rest_app
import storage
from answers import Refusal, Request, message
from world import World

BODY_HEAD = 8192


class Log:
    """The requests as they came, in a file that the tests read."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.lock = threading.Lock()

    def write(self, row):
        with self.lock:
            self.file.write(json.dumps(row) + "\n")
            self.file.flush()


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener, tls, world, log):
        super().__init__(None, Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.tls, self.world, self.log = listener, tls, world, log

    def finish_request(self, request, client_address):
        request.settimeout(120)
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            stream = self.tls.wrap_socket(request, server_side=True)
        except (ssl.SSLError, OSError):
            return
        self.RequestHandlerClass(stream, client_address, self)
        try:
            stream.unwrap()
        except (ssl.SSLError, OSError, ValueError):
            pass

    def handle_error(self, request, client_address):
        kind = sys.exc_info()[0]
        if kind and not issubclass(kind, (OSError, ssl.SSLError)):
            traceback.print_exc()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "GitHub.com"
    sys_version = ""

    def handle_any(self):
        try:
            body = self.read_body()
        except ValueError:
            self.close_connection = True
            return self.send(message(400, "the body is not framed"))
        host = (self.headers.get("Host") or "").split(":")[0].lower()
        request = Request(self.command, host, self.path, self.headers, body)
        self.server.log.write({
            "method": self.command,
            "host": host,
            "target": self.path,
            "authorization": self.headers.get_all("Authorization") or [],
            "credential": request.credential(),
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "body": body[:BODY_HEAD].decode("utf-8", "replace"),
            "length": len(body),
            "time": time.time(),
        })
        self.send(answer(self.server.world, request))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any

    def read_body(self):
        if "chunked" not in (self.headers.get("Transfer-Encoding") or "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(pieces)

    def send(self, reply):
        self.send_response(reply.status)
        bare = reply.status in (204, 304)
        names = {name.lower() for name, _ in reply.headers}
        for name, value in reply.headers:
            self.send_header(name, value)
        if not bare and "content-length" not in names:
            self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("X-GitHub-Request-Id", "FA4E:1")
        self.end_headers()
        if self.command != "HEAD" and not bare:
            self.wfile.write(reply.body)

    def log_message(self, *_):
        pass


def answer(world, request):
    """What GitHub says to a request."""
    family = hosts.place(request)
    try:
        world.faults.apply(request)
        return {
            "api": rest.serve,
            "graphql": graph.serve,
            "uploads": rest.serve_upload,
            "web": gitweb.serve,
            "raw": gitweb.serve_raw,
            "media": gitweb.serve_media,
            "codeload": gitweb.serve_codeload,
            "lfs": storage.serve_lfs,
            "storage": storage.serve,
            "app": rest_app.serve,
        }.get(family, lambda *_: message(404, "no such host here"))(world, request)
    except Refusal as refusal:
        return refusal.answer
    except Exception:
        traceback.print_exc()
        return message(500, "the fake failed: " + traceback.format_exc().splitlines()[-1])


def main():
    directory, certificate, key, schema = sys.argv[1:]
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    tls.set_alpn_protocols(["http/1.1"])
    world = World(directory)
    graph.schema_file = schema
    listener = socket.socket(fileno=0)
    log = Log(os.path.join(directory, "requests.jsonl"))
    threading.Thread(target=Server(listener, tls, world, log).serve_forever, daemon=True).start()
    levers.obey(world, socket.socket(fileno=1))
    os._exit(0)


if __name__ == "__main__":
    main()
