"""The page of `care explore` in a real browser, operated by keys and clicks."""

import json
import time

import pytest
from exhibits import noise, observer, serving, small_gallery, some_rotation
from window import BASH, CHROMIUM, Window

from care.explore import ExploreServer, Gallery, fill_bank

pytestmark = pytest.mark.skipif(CHROMIUM is None or BASH is None, reason="chromium is not installed")

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

    def answer(self, body):
        self.questions.append(json.loads(body))
        return super().answer(body)


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
    around = [{"augmented": seen.augmented, "learned_rotation": seen.learned_rotation} for seen in models]
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
    assert window.value("location.hash") == "#image=3&hue=0.3&brightness=0.6"
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
    assert window.value(f"{plain}.querySelector('.note').textContent") == "care steer makes one"
    assert window.value("document.querySelector('article ol.learned-rotation').offsetParent !== null")


def test_an_address_brings_its_state_and_marks_are_on_those_of_the_class_and_on_those_in_both(window, gallery):
    window.value("location.hash = '#image=3&hue=0.05&nonsense=1'")
    window.wait(f"{IDLE} && document.getElementById('what').textContent === 'hue +0.050'")
    seen = gallery.answer(3, {"hue": 0.05}).models[0]
    found, predicted = seen.augmented.neighbors, seen.learned_rotation.neighbors
    both = {n.image for n in found} & {n.image for n in predicted}
    assert 0 < len(both) < 5
    marks = "[...document.querySelectorAll('article:first-child .{}')].map(e => Number(e.parentElement.dataset.image))"
    assert window.value(marks.format("same")) == [n.image for n in (*found, *predicted) if n.same]
    assert window.value(marks.format("shared")) == [n.image for n in (*found, *predicted) if n.image in both]


def test_reset_by_the_keyboard_and_another_picture_by_the_mouse(window, gallery):
    window.value("document.getElementById('reset').focus()")
    window.press("Enter")
    window.wait(f"{IDLE} && document.getElementById('what').textContent === 'No augmentation.'")
    assert window.value(SHOWN) == neighbors(gallery, 3, {})
    chosen = neighbors(gallery, 3, {})[0]["augmented"][1]
    window.click("article .neighbors li:nth-child(2) button")
    window.wait(f"{IDLE} && image === {chosen}")
    assert window.value(SHOWN) == neighbors(gallery, chosen, {})
    assert window.value("document.getElementById('clean').src").endswith(f"/image/{chosen}.png?{window.server.version}")
    window.click("#strip li:nth-child(1) button")
    window.wait(f"{IDLE} && image === {chosen // 24 * 24}")
    assert window.complaints == []


def test_every_control_has_a_name_and_every_picture_a_text(window):
    named = "e => e.labels?.length || e.textContent.trim() || e.querySelector('img')?.alt"
    controls = "[...document.querySelectorAll('input, button')]"
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


def test_only_the_newest_position_is_asked_for_and_a_failure_is_reported(tmp_path):
    """A slow model: thirty moves while it answers are one question."""
    samples, delay = noise(), Delay()
    inside = observer(samples).embed

    def embed(x):
        time.sleep(delay.seconds)
        if delay.broken:
            raise RuntimeError("broken on purpose")
        return inside(x)

    gallery = Gallery([fill_bank("slow", observer(samples, embed=embed), some_rotation())], 5)
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
