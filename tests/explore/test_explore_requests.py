"""Who may ask `care explore`, how many at once, and what a photo of one's own may be: over real sockets."""

import contextlib
import io
import json
import socket
import threading

import numpy as np
import pytest
from exhibits import PIXELS, embedder, noise, serving
from PIL import Image
from test_explore_server import BYTES, JSON, ask, is_one_sentence, request, send, wait_for

from care.augment import simclr
from care.data.readers.decoding import decode
from care.explore import Gallery, LazyIndex, build_index, read_photo
from care.explore.photos import MOST_PHOTOS
from care.explore.requests import LARGEST_PHOTO
from care.explore.server import MOST_CONNECTIONS


def picture(size=(40, 30), kind="PNG", seed=0, **options):
    """The bytes of a file of noise."""
    pixels = np.random.default_rng(seed).integers(256, size=(size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def blank(size):
    """The bytes of a large file in a moment."""
    file = io.BytesIO()
    Image.new("1", size).save(file, "PNG")
    return file.getvalue()


# ---- the token


@pytest.mark.parametrize(
    "query",
    ["", "?", "?token=", "?token=0", "?Token={token}", "?token={token}x", "?token={token}&token={token}",
     "#token={token}", "?token=%ff", "?other={token}"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/app.js", "/about", "/image/0.png", "/nowhere"])
def test_nothing_is_shown_without_the_token(server, path, query):
    host = f"Host: 127.0.0.1:{server.server_port}"
    status, received = send(server, f"GET {path}{query.format(token=server.token)} HTTP/1.1\n{host}\n\n")
    assert status == 403
    assert is_one_sentence(received.partition(b"\r\n\r\n")[2])
    assert server.token.encode() not in received


def test_no_question_is_answered_without_the_token(server):
    body = json.dumps({"image": 0, "changes": {}, "models": [0]})
    head = f"POST /answer HTTP/1.1\nHost: 127.0.0.1:{server.server_port}\nContent-Type: application/json\n"
    assert send(server, f"{head}Content-Length: {len(body)}\n\n{body}")[0] == 403


def test_the_address_has_the_token_and_the_page_passes_it_on(server):
    assert server.address == f"http://127.0.0.1:{server.server_port}/?token={server.token}"
    page = ask(server, "GET", "/")[2].decode()
    assert page.count(f"?token={server.token}") == 4  # a style and three scripts
    assert "{{" not in page


def test_every_server_has_a_token_of_its_own(gallery, server):
    with serving(gallery) as other:
        assert other.token != server.token
        assert len(other.token) == 32


# ---- connections


def test_one_connection_too_many_is_turned_away_with_a_sentence(gallery):
    with serving(gallery) as server, contextlib.ExitStack() as stack:
        where = ("127.0.0.1", server.server_port)
        taken = [stack.enter_context(socket.create_connection(where)) for _ in range(MOST_CONNECTIONS)]
        for connection in taken:
            connection.sendall(request(server, "/about"))
            assert connection.recv(12) == b"HTTP/1.1 200"
        with socket.create_connection(where, timeout=20) as one_more:
            one_more.sendall(request(server, "/about"))
            received = b"".join(iter(lambda: one_more.recv(1 << 16), b""))
        head, _, sentence = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert is_one_sentence(sentence)
        taken[0].close()
        assert wait_for(lambda: len(server.connections) < MOST_CONNECTIONS)
        assert ask(server, "GET", "/about")[0] == 200


# ---- photos


def test_a_photo_is_the_square_that_prepare_makes_of_it(tmp_path):
    """Pictures of every kind, upright: the decoder of `care data prepare` is the reference."""
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    kinds = {"a.png": picture(), "b.jpg": picture((30, 44), "JPEG"), "c.jpg": picture(kind="JPEG", exif=exif)}
    for name, data in kinds.items():
        (tmp_path / name).write_bytes(data)
        np.testing.assert_array_equal(read_photo(data, 24).numpy(), decode(tmp_path / name, 24))


def test_a_photo_is_asked_about(server, gallery):
    status, _, body = ask(server, "POST", "/photo", picture(), BYTES)
    assert status == 200
    sent = json.loads(body)
    question = {"photo": sent["photo"], "changes": {"hue": 0.2}, "models": [1]}
    answer = json.loads(ask(server, "POST", "/answer", json.dumps(question), JSON)[2])
    photo = read_photo(picture(), PIXELS)
    wanted = gallery.answer(photo, {"hue": 0.2}, models=[1])
    assert answer == json.loads(json.dumps(wanted.to_json()))
    assert sent["view"] == gallery.answer(photo, {}).to_json()["view"]


def test_the_newest_photos_are_kept(gallery):
    with serving(gallery) as server:
        numbers = [
            json.loads(ask(server, "POST", "/photo", picture((8, 8), seed=n), BYTES)[2])["photo"]
            for n in range(MOST_PHOTOS + 1)
        ]
        question = {"changes": {}, "models": [0]}
        status, _, answer = ask(server, "POST", "/answer", json.dumps({"photo": numbers[0], **question}), JSON)
        assert (status, is_one_sentence(answer)) == (400, True)
        assert b"drop it in again" in answer
        assert ask(server, "POST", "/answer", json.dumps({"photo": numbers[1], **question}), JSON)[0] == 200


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", b"cannot be read as a picture"),
        (b"not a picture", b"cannot be read as a picture"),
        (picture()[:200], b"cannot be read as a picture"),
        (b"%PDF-1.4 ...", b"cannot be read as a picture"),
        (blank((7100, 7100)), b"at most 50 megapixels"),
    ],
    ids=["empty", "text", "broken", "of another kind", "too many pixels"],
)
def test_what_is_no_photo_is_refused_in_one_sentence(server, data, words):
    status, _, answer = ask(server, "POST", "/photo", data, BYTES)
    assert status == 400
    assert is_one_sentence(answer)
    assert words in answer


def test_a_file_that_is_too_large_is_refused_before_it_is_read(server):
    head = f"POST /photo?token={server.token} HTTP/1.1\nHost: 127.0.0.1:{server.server_port}\n"
    kind = "Content-Type: application/octet-stream\n"
    status, received = send(server, f"{head}{kind}Content-Length: {LARGEST_PHOTO + 1}\n\n")
    assert status == 400
    assert b"at most 32000000" in received


def test_a_form_of_another_page_cannot_send_a_photo(server):
    assert ask(server, "POST", "/photo", picture(), {"Content-Type": "multipart/form-data"})[0] == 400


# ---- models that are chosen later


def test_a_model_is_chosen_while_others_answer():
    samples, go, asked = noise(), threading.Event(), threading.Event()

    def build(progress):
        progress("embedding by later", 7, 40)
        asked.set()
        assert go.wait(20)
        return build_index("later", embedder(samples, seed=1), note="of its own", progress=progress)

    with serving(
        Gallery([build_index("first", embedder(samples)), LazyIndex("later", simclr(PIXELS), build)])
    ) as server:
        question = {"image": 3, "changes": {}, "models": [1]}
        assert ask(server, "POST", "/answer", json.dumps(question), JSON)[0] == 400
        found = []
        choosing = threading.Thread(target=lambda: found.append(ask(server, "POST", "/embed", b'{"model": 1}', JSON)))
        choosing.start()
        assert asked.wait(20)
        assert json.loads(ask(server, "GET", "/progress")[2]) == {"progress": ["embedding by later", 7, 40]}
        assert ask(server, "POST", "/answer", json.dumps({**question, "models": [0]}), JSON)[0] == 200
        go.set()
        choosing.join(20)
        assert found[0][0] == 200
        about = {"name": "later", "embedded": True, "learned_rotation": False, "note": "of its own"}
        assert json.loads(found[0][2]) == about
        assert json.loads(ask(server, "GET", "/progress")[2]) == {"progress": None}
        assert ask(server, "POST", "/answer", json.dumps(question), JSON)[0] == 200


def test_a_model_that_cannot_be_loaded_says_why_and_may_be_chosen_again():
    samples = noise()

    def build(_):
        raise ValueError("its weights are gone:\nhas the run been moved?")

    with serving(Gallery([build_index("first", embedder(samples)), LazyIndex("gone", simclr(8), build)])) as server:
        for _ in range(2):
            status, _, answer = ask(server, "POST", "/embed", b'{"model": 1}', JSON)
            assert (status, answer) == (400, b"its weights are gone: has the run been moved?\n")
        assert ask(server, "POST", "/embed", b'{"model": 2}', JSON)[0] == 400
