"""The server of `care explore`, for browsers on this machine only.

It listens on the loopback address. A page from elsewhere that a browser on this machine shows could still send requests
here: those for another host name (DNS rebinding) or from another origin are refused. No part of an address is used as
the path of a file: there are six addresses, and all that they serve is in memory.
"""

import contextlib
import dataclasses
import json
import re
import secrets
import socket
import socketserver
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from care.explore.gallery import Gallery, png
from care.explore.question import SLIDERS, read_question

LOOPBACK = "127.0.0.1"
LARGEST_BODY = 4096  # bytes; a question has a few hundred
LARGEST_LEFTOVER = 1 << 20  # bytes that a refused request may still send
SECONDS_OF_SILENCE = 60  # before a connection is closed

PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
}
IMAGE = re.compile(r"/image/([0-9]{1,9})\.png")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Response:
    """What is sent back. The browser may cache it for good where `kept`."""

    data: bytes
    kind: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    kept: bool = False


class Refused(Exception):
    """A request that is refused, with the reason as a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ExploreServer(ThreadingHTTPServer):
    """Binds its port at once, so that a port that is in use is reported before the images are embedded."""

    daemon_threads = False  # one that is left when the process ends may bring it down: `server_close` waits for all

    def __init__(self, port: int = 0) -> None:
        self.connections: set[Any] = set()
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ValueError(f"port {port} cannot be used ({reason}): choose another --port, or 0 for any") from error
        self.pages = {path: Response(_file(name), kind) for path, (name, kind) in PAGES.items()}
        self.version = secrets.token_hex(4)  # in the addresses of images, which differ from run to run
        self.one_at_a_time = threading.Lock()
        self.gallery: Gallery | None = None

    def server_bind(self) -> None:
        """Without the standard library's lookup of this machine's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.socket.getsockname()[1]

    @property
    def hosts(self) -> set[str]:
        """The host names under which this server answers."""
        names = {LOOPBACK, "localhost"}
        return {f"{name}:{self.server_port}" for name in names} | (names if self.server_port == 80 else set())

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def serve(self, gallery: Gallery) -> None:
        """Answer until `shutdown` or an interrupt. Requests that came before wait until then."""
        self.gallery = gallery
        try:
            self.serve_forever()
        finally:
            self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection, in a thread, and know that it is open."""
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The connection is done with."""
        self.connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Hang up on browsers, which keep connections open, and wait for the threads that answered them."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes the connection is no error; everything else is printed on the terminal."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def get(self, path: str) -> Response:
        """The page, its parts, what it is about, and the images by their numbers."""
        assert self.gallery is not None
        if path in self.pages:
            return self.pages[path]
        if path == "/about":
            return _json(self._about(self.gallery))
        if (found := IMAGE.fullmatch(path)) and (image := int(found[1])) < len(self.gallery):
            return Response(png(self.gallery.view(image, {})), "image/png", kept=True)
        raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")

    def answer(self, body: bytes) -> Response:
        """The answer to a question."""
        assert self.gallery is not None
        try:
            question = read_question(body, len(self.gallery))
        except ValueError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        with self.one_at_a_time:  # two networks at once would both be slower
            return _json(self.gallery.answer(question.image, question.changes).to_json())

    def _about(self, gallery: Gallery) -> dict[str, Any]:
        models = [
            {"name": b.name, "learned_rotation": b.rotation is not None, "note": gallery.note(b)} for b in gallery.banks
        ]
        sliders = [dataclasses.asdict(slider) for slider in SLIDERS]
        about = {"data": gallery.samples.name, "images": len(gallery), "k": gallery.k, "version": self.version}
        return {**about, "models": models, "sliders": sliders}


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "care", ""
    timeout = SECONDS_OF_SILENCE
    disable_nagle_algorithm = True  # or else the body waits 40 ms for the browser to confirm the headers

    def do_GET(self) -> None:
        """Something to show."""
        self._respond(lambda: self.server.get(self.path.partition("?")[0]))

    def do_POST(self) -> None:
        """A question."""
        self._respond(lambda: self.server.answer(self._body()))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses, in our form: a sentence, and nothing of the request in it."""
        self.close_connection = True
        self._send(Response(f"{HTTPStatus(code).phrase.lower()}\n".encode(), status=HTTPStatus(code)))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: the terminal is for the reader."""

    def _respond(self, work: Callable[[], Response]) -> None:
        try:
            check_origin(self.headers, self.server.hosts)
            response = work()
        except Refused as refused:
            response = Response(f"{refused}\n".encode(), status=refused.status)
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            traceback.print_exc()
            sentence = b"care could not answer this: the terminal it was started in says why\n"
            response = Response(sentence, status=HTTPStatus.INTERNAL_SERVER_ERROR)
        self.close_connection = self.close_connection or response.status != HTTPStatus.OK
        self._send(response)
        if response.status != HTTPStatus.OK:
            self._discard()

    def _discard(self) -> None:
        """Read on for a moment what a refused request still sends: a connection cut off would take the sentence along.

        It must not be taken for the next request either.
        """
        with contextlib.suppress(OSError):  # it may have gone away already, or stay silent
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            for _ in range(LARGEST_LEFTOVER // 4096):
                if not self.connection.recv(4096):
                    return

    def _body(self) -> bytes:
        if self.path != "/answer":
            raise Refused(HTTPStatus.NOT_FOUND, "questions go to /answer")
        if self.headers.get_content_type() != "application/json":
            raise Refused(HTTPStatus.BAD_REQUEST, "a question is sent as application/json")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,9}", length) or int(length) > LARGEST_BODY:
            raise Refused(HTTPStatus.BAD_REQUEST, f"a question has a Content-Length of at most {LARGEST_BODY}")
        return self.rfile.read(int(length))

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header("Content-Length", str(len(response.data)))
        self.send_header("Cache-Control", "private, max-age=31536000, immutable" if response.kept else "no-store")
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.data)


def check_origin(headers: Message, hosts: set[str]) -> None:
    """`Refused` unless the request calls this server by its own name, and comes from its own page or from no page."""
    if len(named := headers.get_all("Host", [])) != 1 or named[0].lower() not in hosts:
        raise Refused(HTTPStatus.FORBIDDEN, f"this server is called {sorted(hosts)[0]}, and answers to no other name")
    if not {origin.lower() for origin in headers.get_all("Origin", [])} <= {f"http://{host}" for host in hosts}:
        raise Refused(HTTPStatus.FORBIDDEN, "other pages may not ask this server anything")


def _json(value: dict[str, Any]) -> Response:
    return Response(json.dumps(value, allow_nan=False).encode(), "application/json")


def _file(name: str) -> bytes:
    return files("care.explore").joinpath(name).read_bytes()
