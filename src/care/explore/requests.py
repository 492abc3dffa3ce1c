"""HTTP for `care explore`: who may ask, what a request may be, and how a response is written."""

import contextlib
import hmac
import re
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol
from urllib.parse import parse_qs

LARGEST_QUESTION = 4096  # bytes; one has a few hundred
LARGEST_PHOTO = 32_000_000  # bytes
LARGEST_LEFTOVER = 1 << 20  # bytes that a refused request may still send
SECONDS_OF_SILENCE = 60  # before a connection is closed

# Address → (content type of its body, its largest length). Browsers let no page of another site send these types
# without asking this server first.
BODIES = {
    "/answer": ("application/json", LARGEST_QUESTION),
    "/embed": ("application/json", LARGEST_QUESTION),
    "/photo": ("application/octet-stream", LARGEST_PHOTO),
}

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Response:
    """An HTTP response. If `kept`, the browser may cache it for good."""

    data: bytes
    kind: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    kept: bool = False


class Refused(Exception):
    """A request that is refused, with the reason as a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Answering(Protocol):
    """The server behind the requests: the host names and the token that it accepts, and its responses."""

    token: str

    @property
    def hosts(self) -> set[str]:
        """The host names under which it answers."""

    def get(self, path: str) -> Response:
        """The response to a GET request, such as a page or an image."""

    def post(self, path: str, body: bytes) -> Response:
        """The response to a POST request, a question."""


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: Answering  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "care", ""
    timeout = SECONDS_OF_SILENCE
    disable_nagle_algorithm = True  # or else the body waits 40 ms for the browser to confirm the headers

    def do_GET(self) -> None:
        """Answer a GET request."""
        self._respond(self.server.get)

    def do_POST(self) -> None:
        """Answer a POST request."""
        self._respond(lambda path: self.server.post(path, self._body(path)))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses, in our form: a sentence, and nothing of the request in it."""
        self.close_connection = True
        self._send(Response(f"{HTTPStatus(code).phrase.lower()}\n".encode(), status=HTTPStatus(code)))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal is for the user."""

    def _respond(self, work: Callable[[str], Response]) -> None:
        try:
            path, _, query = self.path.partition("?")
            check_origin(self.headers, self.server.hosts)
            check_token(query, self.server.token)
            response = work(path)
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
        """Read the rest of a refused request for a moment: if the connection were cut, the response would be lost.

        The rest must not be taken for the next request either.
        """
        with contextlib.suppress(OSError):  # the browser may have gone already, or stay silent
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            for _ in range(LARGEST_LEFTOVER // 4096):
                if not self.connection.recv(4096):
                    return

    def _body(self, path: str) -> bytes:
        if path not in BODIES:
            raise Refused(HTTPStatus.NOT_FOUND, f"questions go to {', '.join(BODIES)}")
        kind, largest = BODIES[path]
        if self.headers.get_content_type() != kind:
            raise Refused(HTTPStatus.BAD_REQUEST, f"what is sent to {path} is {kind}")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,9}", length) or int(length) > largest:
            raise Refused(HTTPStatus.BAD_REQUEST, f"what is sent to {path} has a Content-Length of at most {largest}")
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
    """`Refused` unless the request calls this server by its own name, and comes from its own page or from no page.

    For a request without Origin, such as for a picture, the browser says in Sec-Fetch-Site where it comes from. A link
    on another page may be followed, since that page cannot see the response.
    """
    if len(named := headers.get_all("Host", [])) != 1 or named[0].lower() not in hosts:
        raise Refused(HTTPStatus.FORBIDDEN, f"this server is called {sorted(hosts)[0]}, and answers to no other name")
    origins = {origin.lower() for origin in headers.get_all("Origin", [])}
    elsewhere = set(headers.get_all("Sec-Fetch-Site", [])) - {"same-origin", "none"}
    followed = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    if not origins <= {f"http://{host}" for host in hosts} or (elsewhere and not followed):
        raise Refused(HTTPStatus.FORBIDDEN, "other pages may not ask this server anything")


def check_token(query: str, token: str) -> None:
    """`Refused` unless the address has the token, which only those who see the terminal know."""
    given = parse_qs(query).get("token", [])
    if len(given) != 1 or not hmac.compare_digest(given[0].encode(), token.encode()):
        raise Refused(
            HTTPStatus.FORBIDDEN, "this address lacks the token: open the whole address that care explore has printed"
        )
