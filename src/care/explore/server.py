"""The server of `care explore`, for browsers on this machine only.

It listens on the loopback address. Other users of the machine can reach that, too, but do not know the token, a random
number in the address of the page that is new at every start. Another website that is open in a browser on this machine
could still send requests here: those for another host name (DNS rebinding) or from another origin are refused. No part
of an address is used as the path of a file: the addresses are a fixed list, and everything they serve is in memory.
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
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from care.explore.answers import data_address, png
from care.explore.gallery import Gallery
from care.explore.photos import Photos
from care.explore.question import SLIDERS, read_model, read_question
from care.explore.requests import LARGEST_PHOTO, Handler, Refused, Response
from care.tables import visible

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 32  # a browser opens six
FULL = f"care explore has {MOST_CONNECTIONS} connections open, and takes no more: close a page of it\n".encode()
TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(FULL), FULL)
)

SCRIPT = "text/javascript; charset=utf-8"
PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/asking.js": ("asking.js", SCRIPT),
    "/showing.js": ("showing.js", SCRIPT),
    "/app.js": ("app.js", SCRIPT),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
}
IMAGE = re.compile(r"/image/([0-9]{1,9})\.png")


class ExploreServer(ThreadingHTTPServer):
    """Binds its port at once, so that a port in use is reported before the images are embedded."""

    daemon_threads = False  # a daemon thread may crash the process at its end: `server_close` waits for all threads

    def __init__(self, port: int = 0) -> None:
        self.connections: set[Any] = set()
        try:
            super().__init__((LOOPBACK, port), Handler)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ValueError(f"port {port} cannot be used ({reason}): choose another `port`, or 0 for any") from error
        self.token = secrets.token_hex(16)
        self.pages = {path: Response(self._file(name), kind) for path, (name, kind) in PAGES.items()}
        self.one_at_a_time, self.one_embedding = threading.Lock(), threading.Lock()
        self.progress: tuple[str, int, int] | None = None

    def server_bind(self) -> None:
        """Bind the port without the standard library's lookup of this machine's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.socket.getsockname()[1]

    @property
    def hosts(self) -> set[str]:
        """The host names under which this server answers."""
        names = {LOOPBACK, "localhost"}
        return {f"{name}:{self.server_port}" for name in names} | (names if self.server_port == 80 else set())

    @property
    def address(self) -> str:
        """The address of the page, with the token that it needs."""
        return f"http://{LOOPBACK}:{self.server_port}/?token={self.token}"

    def serve(self, gallery: Gallery) -> None:
        """Answer requests, also those that came before, until `shutdown` or an interrupt."""
        self.gallery, self.photos = gallery, Photos(min(gallery.samples.input_shape))
        try:
            self.serve_forever()
        finally:
            self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread, and remember that it is open; turn away one too many."""
        if len(self.connections) >= MOST_CONNECTIONS:
            self._turn_away(request)
            return
        self.connections.add(request)
        super().process_request(request, client_address)

    def _turn_away(self, request: Any) -> None:
        """Send the refusal and close, after reading the request: if it were left unread, the refusal would be lost."""
        with contextlib.suppress(OSError):
            request.settimeout(0.1)
            request.sendall(TURNED_AWAY)
            request.shutdown(socket.SHUT_WR)
            request.recv(1 << 16)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection, and close it."""
        self.connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Close the connections that browsers keep open, and wait for the threads that answered them."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes the connection is no error; everything else is printed on the terminal."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def get(self, path: str) -> Response:
        """The page and its parts, facts about the gallery, the progress of an embedding, or an image by its number."""
        if path in self.pages:
            return self.pages[path]
        if path == "/about":
            return _json(self._about())
        if path == "/progress":
            return _json({"progress": self.progress})
        if (found := IMAGE.fullmatch(path)) and (image := int(found[1])) < len(self.gallery):
            return Response(png(self.gallery.view(image, {})), "image/png", kept=True)
        raise Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")

    def post(self, path: str, body: bytes) -> Response:
        """Answer a question, keep a photo, or let a model embed the images."""
        answers: dict[str, Callable[[bytes], dict[str, Any]]] = {
            "/answer": self._answer,
            "/photo": self._photo,
            "/embed": self._embed,
        }
        return _json(answers[path](body))

    def _answer(self, body: bytes) -> dict[str, Any]:
        with _users_mistakes():
            question = read_question(body, len(self.gallery), self.gallery.indexes)
            query = self.photos[question.number] if question.is_photo else question.number
        with self.one_at_a_time:  # two networks at once would slow each other down
            return self.gallery.answer(query, question.changes, question.models).to_json()

    def _photo(self, body: bytes) -> dict[str, Any]:
        with _users_mistakes(), self.one_at_a_time:
            number = self.photos.add(body)
        return {"photo": number, "view": data_address(self.gallery.view(self.photos[number], {}))}

    def _embed(self, body: bytes) -> dict[str, Any]:
        """Let a model embed the images; questions to other models are answered meanwhile."""
        with _users_mistakes():
            model = read_model(body, len(self.gallery.models))
        with _users_mistakes(), self.one_embedding:
            try:
                self.gallery.embed(model, self._watch)
            finally:
                self.progress = None
        return self._model(model)

    def _watch(self, stage: str, done: int, total: int) -> None:
        self.progress = (stage, done, total)

    def _about(self) -> dict[str, Any]:
        gallery, samples = self.gallery, self.gallery.samples
        return {
            "data": samples.name,
            "images": len(gallery),
            "classes": [visible(name) for name in samples.classes],
            "labels": samples.labels.tolist(),
            "k": gallery.k,
            "largest_photo": LARGEST_PHOTO,
            "models": [self._model(number) for number in range(len(gallery.models))],
            "sliders": [{**dataclasses.asdict(slider), "switch": slider.switch} for slider in SLIDERS],
        }

    def _model(self, number: int) -> dict[str, Any]:
        model, index = self.gallery.models[number], self.gallery.indexes.get(number)
        rotated = index is not None and index.rotation is not None
        note = self.gallery.note(index or model)
        return {"name": model.name, "embedded": index is not None, "learned_rotation": rotated, "note": note}

    def _file(self, name: str) -> bytes:
        """A file of the page, with the token in the addresses that it loads."""
        return files("care.explore").joinpath(name).read_bytes().replace(b"{{token}}", self.token.encode())


@contextlib.contextmanager
def _users_mistakes() -> Iterator[None]:
    """Turn a ValueError into a response that tells the browser what is wrong."""
    try:
        yield
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, " ".join(str(error).split())) from error


def _json(value: dict[str, Any]) -> Response:
    return Response(json.dumps(value, allow_nan=False).encode(), "application/json")
