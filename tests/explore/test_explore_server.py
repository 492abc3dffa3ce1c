"""The server of `care explore`, asked over real sockets, politely and not."""

import http.client
import io
import json
import re
import socket
import threading
import time

import numpy as np
import pytest
from exhibits import embedder, noise, serving, small_gallery
from PIL import Image

from care.explore import Gallery, build_index

QUESTION = {"image": 3, "changes": {"hue": 0.2, "zoom": 0.6}, "models": [0, 1]}
JS = "text/javascript"
JSON = {"Content-Type": "application/json"}
BYTES = {"Content-Type": "application/octet-stream"}


def ask(server, method, path, body=None, headers=None):
    """(status, headers, body) of one request with the token."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.request(method, f"{path}?token={server.token}", body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def send(server, text):
    """The status of a request that no library would write, and all that comes back."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    status = re.match(rb"HTTP/1\.1 (\d+) ", received)
    return int(status[1]) if status else None, received


def request(server, path):
    return f"GET {path}?token={server.token} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode()


def is_one_sentence(data):
    return 0 < len(data) < 300 and data.count(b"\n") == 1 and b"Traceback" not in data and b"<" not in data


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/asking.js", JS), ("/showing.js", JS), ("/app.js", JS), ("/style.css", "text/css")],
)
def test_the_page_and_its_parts_come_with_a_policy(server, path, kind):
    status, headers, body = ask(server, "GET", path)
    assert (status, headers.get_content_type()) == (200, kind)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert b"//" not in body.replace(b"// ", b"")  # no address of another server
    assert b"innerHTML" not in body


def test_about_names_models_and_sliders(server):
    about = json.loads(ask(server, "GET", "/about")[2])
    assert (about["data"], about["images"], about["k"]) == ("noise", 40, 5)
    assert [(m["name"], m["learned_rotation"]) for m in about["models"]] == [("steered", True), ("<i>plain</i>", False)]
    assert [m["embedded"] for m in about["models"]] == [True, True]
    assert {slider["name"] for slider in about["sliders"]} >= {"hue", "zoom", "x", "y", "flip", "gray", "blur"}
    assert {slider["name"] for slider in about["sliders"] if slider["switch"]} == {"flip", "gray"}


def test_about_names_the_class_of_every_picture(server, gallery):
    about = json.loads(ask(server, "GET", "/about")[2])
    assert [about["classes"][label] for label in about["labels"]] == [gallery.kind(n) for n in range(40)]
    assert about["classes"][0] == "<b>red</b>"


@pytest.mark.parametrize("image", [0, 39])
def test_an_image_is_the_image(server, gallery, image):
    status, headers, body = ask(server, "GET", f"/image/{image}.png")
    assert (status, headers.get_content_type()) == (200, "image/png")
    pixels = np.asarray(Image.open(io.BytesIO(body)))
    np.testing.assert_array_equal(pixels, gallery.samples.inputs[image].permute(1, 2, 0).numpy())


def test_an_answer_over_http_is_the_answer(server, gallery):
    status, headers, body = ask(server, "POST", "/answer", json.dumps(QUESTION), JSON)
    assert (status, headers.get_content_type(), headers["Cache-Control"]) == (200, "application/json", "no-store")
    assert json.loads(body) == json.loads(json.dumps(gallery.answer(3, QUESTION["changes"]).to_json()))


def test_many_ask_at_once_on_connections_that_stay_open(server, gallery):
    wanted = {image: gallery.answer(image, {"hue": 0.1}).to_json() for image in range(6)}
    wrong = []

    def one(image):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        for _ in range(3):
            question = {"image": image, "changes": {"hue": 0.1}, "models": [0, 1]}
            connection.request("POST", f"/answer?token={server.token}", json.dumps(question), JSON)
            if json.loads(connection.getresponse().read()) != json.loads(json.dumps(wanted[image])):
                wrong.append(image)
        connection.close()

    threads = [threading.Thread(target=one, args=(image,)) for image in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert wrong == []


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{", JSON),
        (b'{"image": 99, "changes": {}, "models": [0]}', JSON),
        (b'{"image": 3, "changes": {"hue": 7}, "models": [0]}', JSON),
        (b'{"image": 3, "changes": {"<script>": 7}, "models": [0]}', JSON),
        (b'{"photo": 0, "changes": {}, "models": [0]}', JSON),
        (json.dumps(QUESTION), {"Content-Type": "text/plain"}),  # what another page may send without asking
        (json.dumps(QUESTION), {}),
        (json.dumps(QUESTION) + " " * 5000, JSON),
        (json.dumps(QUESTION), {**JSON, "Content-Length": "-1"}),
        (json.dumps(QUESTION), {**JSON, "Content-Length": "1e3"}),
        (json.dumps(QUESTION), {**JSON, "Content-Length": "9999999999999"}),
        (iter([json.dumps(QUESTION).encode()]), JSON),  # in chunks, without a length
    ],
    ids=range(12),
)
def test_nonsense_is_refused_in_one_sentence(server, body, headers):
    status, _, answer = ask(server, "POST", "/answer", body, headers)
    assert status == 400
    assert is_one_sentence(answer)
    assert ask(server, "POST", "/answer", json.dumps(QUESTION), JSON)[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "//etc/passwd",
        "/image/../app.js",
        "/image/../../../etc/passwd.png",
        "/image/%2e%2e/%2e%2e/etc/passwd.png",
        "/image/40.png",
        "/image/-1.png",
        "/image/1e1.png",
        "/image/\u00b2.png",
        "/image/0.png/",
        "/image/999999999999999999999.png",
        "/page.html",
        "/server.py",
        "/answer",
        "file:///etc/passwd",
        "http://127.0.0.1/app.js",
        "*",
        "/\x00",
    ],
)
def test_no_address_leads_to_a_file(server, path):
    status, received = send(
        server, f"GET {path}?token={server.token} HTTP/1.1\nHost: 127.0.0.1:{server.server_port}\n\n"
    )
    assert status == 404
    assert b"root:" not in received
    assert received.endswith(b"\r\n\r\nthere is nothing at this address\n")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "<script>"])
def test_other_methods_are_not_known(server, method):
    status, received = send(server, f"{method} / HTTP/1.1\nHost: 127.0.0.1:{server.server_port}\n\n")
    assert status == 501
    assert b"<" not in received


@pytest.mark.parametrize(
    "lines",
    ["", "Host: evil.example", "Host: evil.example:{port}", "Host: 127.0.0.1", "Host: 127.0.0.1:1",
     "Host: 127.0.0.1:{port}\nHost: evil.example", "Host: 127.0.0.1.evil.example:{port}", "Host: [::1]:{port}",
     "Host: 127.0.0.1:{port}\nOrigin: http://evil.example", "Host: 127.0.0.1:{port}\nOrigin: null",
     "Host: 127.0.0.1:{port}\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors",
     "Host: 127.0.0.1:{port}\nSec-Fetch-Site: same-site",
     "Host: 127.0.0.1:{port}\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: iframe"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/image/0.png", "/about"])
def test_other_names_and_other_pages_are_refused(server, lines, path):
    """DNS rebinding: a page of evil.example whose name leads to 127.0.0.1 a moment later."""
    status, received = send(
        server, f"GET {path}?token={server.token} HTTP/1.1\n{lines.format(port=server.server_port)}\n\n"
    )
    assert status == 403
    assert is_one_sentence(received.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize(
    "lines",
    ["", "\nOrigin: http://127.0.0.1:{port}", "\nOrigin: http://localhost:{port}", "\nSec-Fetch-Site: same-origin",
     "\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document"],  # a link on another page
)  # fmt: skip
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_its_own_names_are_not_refused(server, name, lines):
    host = f"{name}:{server.server_port}{lines.format(port=server.server_port)}"
    text = f"GET /about?token={server.token} HTTP/1.1\nHost: {host}\n\n"
    assert send(server, text)[0] == 200


def test_a_page_of_another_origin_cannot_ask(server):
    assert ask(server, "POST", "/answer", json.dumps(QUESTION), {**JSON, "Origin": "http://evil.example"})[0] == 403


@pytest.mark.parametrize(
    "text",
    ["\n\n", "GET\n\n", "GET / HTTP/9.9\n\n", "\x16\x03\x01\x02\n\n", "GET / HTTP/1.1\nno colon\n\n", "G" * 70_000],
)
def test_what_is_no_request_ends_nothing(server, text):
    status, received = send(server, text)
    assert status in (None, 400, 403, 414, 505)
    assert b"Traceback" not in received
    assert ask(server, "GET", "/about")[0] == 200


def test_who_goes_away_in_the_middle_ends_nothing(server, capfd):
    head = f"POST /answer?token={server.token} HTTP/1.1\nHost: 127.0.0.1:{server.server_port}\n"
    send(server, f'{head}Content-Type: application/json\nContent-Length: 1000\n\n{{"image"')
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(b"GET / HT")
    assert ask(server, "GET", "/about")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_it_listens_on_the_loopback_address_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.server_port), timeout=5)


def test_our_mistakes_are_printed_on_the_terminal_and_not_to_the_browser(capfd):
    samples, broken = noise(), []

    def embed(x):
        if broken:
            raise ValueError("secret detail")
        return {"embedding": x.flatten(1)[:, :6]}

    with serving(Gallery([build_index("a", embedder(samples, embed=embed))])) as server:
        broken.append(True)
        status, _, answer = ask(server, "POST", "/answer", json.dumps({**QUESTION, "models": [0]}), JSON)
    assert status == 500
    assert is_one_sentence(answer)
    assert b"secret" not in answer
    assert "ValueError: secret detail" in capfd.readouterr().err


def test_no_thread_is_left_when_it_ends():
    """Also where a browser keeps its connection open: a thread in a process that ends may bring it down."""
    before = set(threading.enumerate())
    with serving(small_gallery()) as server, socket.create_connection(("127.0.0.1", server.server_port)) as browser:
        browser.sendall(request(server, "/about"))
        assert browser.recv(12) == b"HTTP/1.1 200"
        server.shutdown()
        assert wait_for(lambda: set(threading.enumerate()) - before == set())


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()
