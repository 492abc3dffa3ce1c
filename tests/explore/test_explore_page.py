"""The page of `care explore` in a real browser, operated by keys and clicks."""

import io
import json
import time

import numpy as np
import pytest
from exhibits import PIXELS, embedder, noise, serving, small_gallery, some_rotation
from PIL import Image
from window import BASH, CHROMIUM, Window

from care.augment import simclr
from care.explore import ExploreServer, Gallery, LazyIndex, build_index, read_photo
from care.explore.answers import data_address

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or BASH is None, reason="chromium is not installed"),
]

SHOWN = """[...document.querySelectorAll('article')].map(model => Object.fromEntries(
  [...model.querySelectorAll('.neighbors')].map(list => [
    list.dataset.point, [...list.querySelectorAll('button')].map(tile => Number(tile.dataset.image))])))"""
IDLE = """document.getElementById('time').textContent && !asking && !wanted
  && [...document.images].every(picture => picture.complete)"""


class Listening(ExploreServer):
    """Remembers the questions that it was asked."""

    def __init__(self):
        super().__init__()
        self.questions = []

    def post(self, path, body):
        if path == "/answer":
            self.questions.append(json.loads(body))
        return super().post(path, body)


class Delay:
    """What can be switched on to make a model slow, or to break it."""

    seconds, broken = 0.0, False


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tmp_path_factory.mktemp("chromium")


@pytest.fixture(scope="module")
def gallery():
    return small_gallery()


@pytest.fixture(scope="module")
def window(gallery, profile):
    with serving(gallery, Listening()) as server, Window(profile, server.address + "#image=3") as window:
        window.server = server
        yield window


def neighbors(gallery, image, changes):
    """What should be shown, from the answer in Python."""
    models = gallery.answer(image, changes).models
    points = ("clean", "augmented", "learned_rotation")
    around = [{point: getattr(seen, point) for point in points} for seen in models]
    return [{n: [x.image for x in a.neighbors] for n, a in places.items() if a} for places in around]


def test_moving_sliders_by_keys_changes_the_neighbors(window, gallery):
    window.wait(IDLE)
    assert window.value(SHOWN) == neighbors(gallery, 3, {})
    assert window.value("document.getElementById('what').textContent") == "No augmentation."
    before = window.value("document.getElementById('augmented').src")
    window.value("document.getElementById('slider-hue').focus()")
    window.press("ArrowRight", 30)
    window.value("document.getElementById('slider-brightness').focus()")
    window.press("ArrowLeft", 40)
    window.wait(f"{IDLE} && document.getElementById('what').textContent === 'brightness ×0.60, hue +0.300'")
    found = neighbors(gallery, 3, {"hue": 0.3, "brightness": 0.6})
    assert window.value(SHOWN) == found
    assert found != neighbors(gallery, 3, {})
    assert window.value("document.getElementById('augmented').src") != before
    assert window.value("location.hash") == "#image=3&hue=0.3&brightness=0.6&models=0-1"
    assert window.value("document.getElementById('slider-hue').getAttribute('aria-valuetext')") == "+0.30"
    assert window.complaints == []


def test_numbers_are_those_of_the_answer(window, gallery):
    seen = gallery.answer(3, {"hue": 0.3, "brightness": 0.6}).models[0]
    rows = window.value("[...document.querySelector('tbody').rows].map(r => [...r.cells].map(c => c.textContent))")
    around = (seen.clean, seen.learned_rotation, seen.augmented)
    assert rows[0][1:] == [f"{a.cosine:.3f}" for a in around]
    assert rows[1][1:] == [f"{a.shared} of 5" for a in around]
    assert rows[2][1:] == [f"{a.same} of 5" for a in around]
    assert rows[3][1:] == [f"{a.hue_distance:.2f}" for a in around]


def test_names_are_text_and_never_markup(window):
    """The names of classes and models hold tags."""
    assert window.value("document.querySelectorAll('article h2 *, .kind *, #kind *').length") == 0
    assert window.value("document.querySelectorAll('article h2')[1].textContent") == "<i>plain</i>"
    assert "<b>red</b>" in window.value("[...document.querySelectorAll('.kind')].map(e => e.textContent).join()")


def test_a_model_without_a_rotation_shows_the_truth_and_says_how_to_get_one(window):
    plain = "document.querySelectorAll('article')[1]"
    assert window.value(f"{plain}.querySelectorAll('.learned-rotation').length") == 0
    assert window.value(f"{plain}.querySelector('.about').textContent") == "care steer makes one"
    assert window.value("document.querySelector('article .learned-rotation ol').offsetParent !== null")


def test_an_address_brings_its_state_and_marks_are_on_those_of_the_class_and_on_those_in_both(window, gallery):
    window.value("location.hash = '#image=3&hue=0.05&nonsense=1'")
    window.wait(f"{IDLE} && document.getElementById('what').textContent === 'hue +0.050'")
    seen = gallery.answer(3, {"hue": 0.05}).models[0]
    before, predicted, found = (p.neighbors for p in (seen.clean, seen.learned_rotation, seen.augmented))
    truth = {n.image for n in found}
    assert 0 < len(truth & {n.image for n in predicted}) < 5
    marks = "[...document.querySelectorAll('article:first-child .{}')].map(e => Number(e.parentElement.dataset.image))"
    assert window.value(marks.format("same")) == [n.image for n in (*before, *found, *predicted) if n.same]
    assert window.value(marks.format("shared")) == [n.image for n in (*before, *predicted) if n.image in truth]


def test_reset_by_the_keyboard_and_another_picture_by_the_mouse(window, gallery):
    window.value("document.getElementById('reset').focus()")
    window.press("Enter")
    window.wait(f"{IDLE} && document.getElementById('what').textContent === 'No augmentation.'")
    assert window.value(SHOWN) == neighbors(gallery, 3, {})
    chosen = neighbors(gallery, 3, {})[0]["clean"][1]
    window.click("article .neighbors li:nth-child(2) button")
    window.wait(f"{IDLE} && image === {chosen}")
    assert window.value(SHOWN) == neighbors(gallery, chosen, {})
    assert window.value("document.getElementById('clean').src").endswith(
        f"/image/{chosen}.png?token={window.server.token}"
    )
    window.click("#strip li:nth-child(1) button")
    window.wait(f"{IDLE} && image === {chosen // 24 * 24}")
    assert window.complaints == []


def test_switches_are_boxes_to_check(window, gallery):
    window.value("location.hash = '#image=3'")
    window.wait(f"{IDLE} && image === 3 && document.getElementById('what').textContent === 'No augmentation.'")
    window.click("#slider-flip")
    window.click("#slider-gray")
    window.wait(f"{IDLE} && document.getElementById('what').textContent === 'flip, gray'")
    assert window.value(SHOWN) == neighbors(gallery, 3, {"flip": 1.0, "gray": 1.0})
    assert window.value("location.hash") == "#image=3&flip=1&gray=1&models=0-1"
    window.click("#slider-flip")
    window.wait(f"{IDLE} && document.getElementById('what').textContent === 'gray'")


def test_pictures_of_a_class_are_chosen_by_its_name(window, gallery):
    names = window.value("[...document.getElementById('class').options].map(o => o.textContent)")
    assert names == ["any", *gallery.samples.classes]
    window.value("(s => (s.value = '1', s.dispatchEvent(new Event('change'))))(document.getElementById('class'))")
    window.wait(f"{IDLE} && image === 1")
    strip = "[...document.querySelectorAll('#strip li:not([hidden]) button')]"
    shown = [n for n in range(40) if gallery.kind(n) == "green & blue"]
    assert window.value(f"{strip}.map(b => Number(b.dataset.image))") == shown
    assert window.value(f"{strip}[1].title") == "picture 4, green & blue"
    assert window.value("document.getElementById('kind').textContent") == "green & blue"
    window.value("choose(0)")  # of another class: all are shown again
    window.wait(f"{IDLE} && image === 0 && document.getElementById('class').value === ''")


def test_a_photo_of_ones_own_gets_neighbors(window, gallery, tmp_path):
    pixels = np.random.default_rng(5).integers(256, size=(20, 30, 3), dtype=np.uint8)
    file = tmp_path / "mine.png"
    Image.fromarray(pixels).save(file)
    window.value("location.hash = '#image=3&hue=0.3'")
    window.wait(f"{IDLE} && image === 3")
    window.choose_file("#photo", file)
    window.wait(f"{IDLE} && image === null && document.getElementById('kind').textContent === 'your photo'")
    photo = read_photo(file.read_bytes(), PIXELS)
    assert window.value(SHOWN) == neighbors(gallery, photo, {"hue": 0.3})
    assert window.value("document.getElementById('clean').src") == data_address(gallery.view(photo, {}))
    assert window.value("document.getElementById('augmented').src") == data_address(gallery.view(photo, {"hue": 0.3}))
    window.click("article .neighbors li:nth-child(1) button")
    window.wait(f"{IDLE} && image === {neighbors(gallery, photo, {'hue': 0.3})[0]['clean'][0]}")


def test_a_photo_that_is_dropped_is_taken_and_one_that_is_none_is_reported(window, gallery):
    drop = """(async bytes => {{
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], "dropped.png"));
      document.body.dispatchEvent(new DragEvent("drop", {{ bubbles: true, cancelable: true, dataTransfer: data }}));
    }})({})"""
    file = io.BytesIO()
    Image.new("RGB", (9, 9), (200, 30, 30)).save(file, "PNG")
    window.value(drop.format(list(file.getvalue())))
    window.wait(f"{IDLE} && image === null")
    photo = read_photo(file.getvalue(), PIXELS)
    window.wait(f"{IDLE} && document.getElementById('clean').src === '{data_address(gallery.view(photo, {}))}'")
    assert window.complaints == []
    window.value(drop.format(list(b"nothing")))
    window.wait("document.getElementById('wrong').textContent.includes('cannot be read as a picture')")
    window.complaints.clear()  # Chromium reports the 400, too
    window.value("choose(3)")
    window.wait(f"{IDLE} && document.getElementById('wrong').textContent === ''")


def test_models_are_hidden_and_shown_again(window, gallery):
    window.value("location.hash = '#image=3&models=0-1'")
    window.wait(f"{IDLE} && image === 3")
    visible = "[...document.querySelectorAll('article')].map(a => a.offsetParent !== null)"
    window.click("#compare label:nth-of-type(1) input")
    window.wait(f"{IDLE} && location.hash === '#image=3&models=1'")
    assert window.value(visible) == [False, True]
    assert window.server.questions[-1]["models"] == [1]
    window.click("#compare label:nth-of-type(1) input")
    window.wait(f"{IDLE} && location.hash === '#image=3&models=0-1'")
    assert window.value(visible) == [True, True]
    assert window.value(SHOWN) == neighbors(gallery, 3, {})


def test_every_control_has_a_name_and_every_picture_a_text(window):
    named = "e => e.labels?.length || e.textContent.trim() || e.querySelector('img')?.alt"
    controls = "[...document.querySelectorAll('input, button, select')]"
    assert window.value(f"{controls}.length") > 40
    assert window.value(f"{controls}.filter(e => !({named})(e)).map(e => e.outerHTML)") == []
    assert window.value("[...document.images].filter(i => i.offsetParent && !i.alt).length") == 0


@pytest.mark.parametrize("width", [1280, 400], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_readable(window, width, scheme):
    window.shape(width, 800, scheme)
    window.wait(IDLE)
    assert window.value("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    ink, paper = window.value("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    light = [sum(map(int, color[4:-1].split(","))) for color in (ink, paper)]
    assert (light[1] > light[0] + 400) if scheme == "light" else (light[0] > light[1] + 400)


def test_a_run_that_is_offered_is_embedded_when_it_is_chosen(tmp_path):
    samples = noise()

    def build(progress):
        return build_index("later", embedder(samples, size=8, seed=1), progress=progress)

    def broken(_):
        raise ValueError("its weights are gone")

    first = build_index("first", embedder(samples))
    gallery = Gallery([first, LazyIndex("later", simclr(8), build), LazyIndex("broken", simclr(8), broken)], 5)
    with serving(gallery) as server, Window(tmp_path / "profile", server.address) as window:
        window.wait(IDLE)
        assert window.value("[...document.querySelectorAll('#compare input')].map(i => i.checked)") == [
            True,
            False,
            False,
        ]
        assert window.value(SHOWN) == neighbors(gallery, 0, {})
        window.click("#compare label:nth-of-type(2) input")
        window.wait(f"{IDLE} && document.querySelectorAll('article').length === 2")
        window.wait(f"{IDLE} && location.hash === '#image=0&models=0-1'")
        assert set(gallery.indexes) == {0, 1}
        assert window.value(SHOWN) == neighbors(gallery, 0, {})
        window.click("#compare label:nth-of-type(3) input")
        window.wait("document.getElementById('wrong').textContent.includes('its weights are gone')")
        assert window.value("[...document.querySelectorAll('#compare input')].map(i => i.checked)") == [
            True,
            True,
            False,
        ]


def test_only_the_newest_position_is_asked_for_and_a_failure_is_reported(tmp_path):
    """A slow model: thirty moves while it answers are one question."""
    samples, delay = noise(), Delay()
    inside = embedder(samples).embed

    def embed(x):
        time.sleep(delay.seconds)
        if delay.broken:
            raise RuntimeError("broken on purpose")
        return inside(x)

    gallery = Gallery([build_index("slow", embedder(samples, embed=embed), some_rotation())], 5)
    with serving(gallery, Listening()) as server, Window(tmp_path / "profile", server.address) as window:
        window.wait(IDLE)
        delay.seconds = 1.0
        before = len(server.questions)
        window.value("document.getElementById('slider-hue').focus()")
        window.press("ArrowRight", 30)
        window.wait(f"{IDLE} && document.getElementById('what').textContent === 'hue +0.300'")
        asked = [question["changes"] for question in server.questions[before:]]
        assert len(asked) <= 5
        assert asked[-1] == {"hue": 0.3}
        delay.seconds, delay.broken = 0.0, True
        window.press("ArrowRight")
        window.wait("document.getElementById('wrong').textContent.includes('the terminal it was started in says why')")
        delay.broken = False
        window.press("ArrowRight")
        window.wait(f"{IDLE} && document.getElementById('wrong').textContent === ''")
        assert window.value(SHOWN) == neighbors(gallery, 0, {"hue": 0.32})
