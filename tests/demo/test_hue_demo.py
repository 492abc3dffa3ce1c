"""The short demo: what it says must follow from what it measured, and it must fit into the time there is."""

import colorsys
import dataclasses
import re
from html import unescape
from types import SimpleNamespace

import pytest
import torch

import care
from browser import CHROMIUM, look
from care import demo
from care.augment import policy_named
from care.data import Samples
from care.data.silhouettes import SILHOUETTES
from care.demo import hue, time_budget
from care.demo.lessons import KEEP_HUE, SIMCLR
from care.evaluate import EvaluationSetup
from care.geometry import Euclidean
from care.train import default_config, prepare

CLASSES = tuple(SILHOUETTES)


def plain(n, seed):
    """Pictures of one color each: the hue at random, the brightness by class."""
    labels = torch.arange(n) % len(CLASSES)
    hues = torch.rand(n, generator=torch.Generator().manual_seed(seed))
    colors = [colorsys.hsv_to_rgb(h, 1.0, 0.4 + 0.06 * c) for h, c in zip(hues.tolist(), labels.tolist(), strict=True)]
    images = (255 * torch.tensor(colors)).round().to(torch.uint8)[:, :, None, None].expand(-1, -1, 8, 8).contiguous()
    return Samples(images, labels, CLASSES, {"hue": hues}, name="plain")


def class_of(x):
    """The class, and nothing else: a vector for each."""
    value = x.amax(dim=(1, 2, 3))
    return torch.nn.functional.one_hot(((value - 0.4) / 0.06).round().long().clamp(0, 9), 10).float()


def hue_of(x):
    """The hue as a point of the circle, from red, green and blue: (2R − G − B, √3 (G − B)), normalized."""
    red, green, blue = x.mean((2, 3)).unbind(1)
    return torch.nn.functional.normalize(torch.stack([2 * red - green - blue, 3**0.5 * (green - blue)], 1))


def forgets(x):
    return {"backbone": class_of(x), "embedding": class_of(x)}


def keeps(x):
    return {"backbone": class_of(x), "embedding": torch.cat([0.1 * class_of(x), hue_of(x)], 1)}


def keeps_no_class(x):
    return {"backbone": hue_of(x), "embedding": hue_of(x)}


def measured(embed):
    policy = dataclasses.replace(policy_named("shapes"), size=8)
    setup = EvaluationSetup(
        model="planted", embed=embed, train=plain(200, 1), test=plain(100, 2), policy=policy, policy_name="shapes",
        form=Euclidean(), device=torch.device("cpu"),
    )  # fmt: skip
    numbers, chance, pictures = hue.measure_hue(setup, lambda *words: None)
    config = default_config("shapes", limit=9000, epochs=4)
    return demo.Kept(config, [{"epoch": 1, "info_nce": 1.0}], numbers, chance, pictures)


@pytest.fixture(scope="module")
def planted():
    return {embed.__name__: measured(embed) for embed in (forgets, keeps, keeps_no_class)}


def between(planted, simclr, other, share=1.0):
    return demo.HueDemo({SIMCLR: planted[simclr], KEEP_HUE: planted[other]}, share, 100)


def test_planted_encoders_are_measured_as_what_they_are(planted):
    def values(name):
        return {measure: quantity.value for measure, quantity in planted[name].numbers.items()}

    forgetful, good = values("forgets"), values("keeps")
    assert forgetful["class"] == good["class"] == forgetful["kNN, features"] == 1
    assert good["hue"] > 0.97  # the circle of red, green and blue is not quite that of HSV
    assert good["hue of neighbors"] < 0.02
    assert abs(forgetful["hue"]) < 0.1
    assert forgetful["hue of neighbors"] == pytest.approx(planted["forgets"].chance, abs=0.03)
    assert planted["forgets"].chance == pytest.approx(0.25, abs=0.02)
    assert forgetful["class of neighbors"] == 1
    assert values("keeps_no_class")["class"] < 0.3


@pytest.mark.parametrize(
    ("simclr", "other", "said"),
    [
        ("forgets", "keeps", "SimCLR forgets the hue; with --keep hue it is kept, at no cost that this run shows."),
        ("forgets", "keeps_no_class", r"SimCLR forgets the hue; with --keep hue it is kept, for \d\d.\d points of"),
        ("keeps", "forgets", "Not seen"),
        ("keeps", "keeps", "Not seen"),
    ],
)
def test_the_headline_follows_the_numbers(planted, simclr, other, said):
    assert re.match(said, demo.headline(between(planted, simclr, other)))


def test_three_numbers_in_words(planted):
    classes, hues, neighbors = demo.sentences(between(planted, "forgets", "keeps"))
    assert "100.0 % of 100 test pictures with SimCLR, 100.0 % with --keep hue; no difference" in classes
    assert float(re.search(r"(\d\.\d\d) with --keep hue", hues)[1]) > 0.97
    off, kept, chance = map(int, re.findall(r"(\d+)°", neighbors))
    assert kept <= 7
    assert off == pytest.approx(chance, abs=11)


def test_the_page_opens_with_the_pictures_and_folds_the_rest(planted):
    html = demo.hue_page(between(planted, "forgets", "keeps"), 12.0).html()
    assert html.index("<img") < html.index('class="points"') < html.index("<details>") < html.index("<table>")
    assert "in 12 seconds" in html


def test_less_training_is_said(planted):
    assert demo.shortened(between(planted, "forgets", "keeps")) == ""
    assert "25 % of the pictures" in demo.shortened(between(planted, "forgets", "keeps", 0.25))


@pytest.mark.parametrize(
    ("seconds", "share"), [(20.0, 1), (105.0, 1), (110.0, 0.75), (140.0, 0.5), (170.0, 0.25), (9999.0, 0.25)]
)
def test_what_there_is_time_for(seconds, share):
    """With 150 seconds for training and what takes 0.4 of it: 147, 126.5 and 126 fit, 154, 161 and 153 do not."""
    assert time_budget.affordable(seconds) == share


def test_training_is_foretold_from_a_few_steps(small, tmp_path):
    """The first step takes 10 seconds, all others 2, but for one that takes 6: 8 steps of 3."""
    job = prepare(default_config("chains", limit=64, batch_size=16, epochs=2, device="cpu"), tmp_path / "run")
    times = iter([0.0, 10.0, 12.0, 18.0, 20.0, 22.0])
    assert time_budget.seconds_of(job, lambda: next(times)) == 24
    times = iter([0.0, 10.0, 13.0])
    assert time_budget.seconds_of(job, lambda: next(times), most=11) == 24  # that is enough to see that it is slower


@pytest.mark.parametrize(("together", "threads", "told"), [(20.0, 3, 50.0), (36.0, 1, 100.0), (80.0, 1, 100.0)])
def test_as_many_threads_as_are_surely_faster(monkeypatch, together, threads, told):
    """One thread takes 40 and 60 seconds; three take half of that for the first job, a tenth less, or twice as long."""
    before, asked = torch.get_num_threads(), []

    def seconds_of(job, most=None):
        asked.append(torch.get_num_threads())
        return job.alone if torch.get_num_threads() == 1 else together

    monkeypatch.setattr(time_budget, "seconds_of", seconds_of)
    with time_budget.threads_restored():
        torch.set_num_threads(3)
        assert time_budget.least_seconds([SimpleNamespace(alone=s, total_steps=20) for s in (40.0, 60.0)]) == told
        assert torch.get_num_threads() == threads
    assert asked == [1, 1, 3]
    assert torch.get_num_threads() == before


def test_a_slow_computer_trains_on_less(small, tmp_path, monkeypatch):
    monkeypatch.setattr(hue, "least_seconds", lambda jobs: 1000.0)
    monkeypatch.setattr(hue, "_show", lambda name, job, progress: demo.Kept(job.config, [], {}, 0.25, {}))
    found = demo.demonstrate_hue(
        tmp_path, 0, dataclasses.replace(demo.HUE, settings={**demo.HUE.settings, "limit": 256})
    )
    assert found.share == 0.25
    assert [kept.config.limit for kept in found.encoders.values()] == [64, 64]


def test_a_terminal_of_eighty_columns_shows_it(short):
    out, printed = short
    *lines, path = printed.splitlines()
    assert path == str(out / "report.html")  # as long as it is
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 16
    page = unescape(re.sub(r"</?span[^>]*>", "", (out / "report.html").read_text()))
    assert [line for line in lines if line.startswith("• ")] != []
    for sentence in " ".join(printed.split()).split("• ")[1:3]:
        assert sentence.strip() in page


def test_runs_are_left_like_all_others(short):
    for run in ("shapes-simclr", "shapes-with-keep-hue"):
        encoder = care.load(str(short[0] / run))
        assert encoder(torch.zeros(2, 3, 24, 24)).shape == (2, 80 if "keep" in run else 64)


browsed = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@browsed
@pytest.mark.parametrize("width", [1100, 360], ids=["desktop", "phone"])
def test_the_page_is_whole_in_a_browser(planted, tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(demo.hue_page(between(planted, "forgets", "keeps"), 12.0).html())
    folded = "return [...page.querySelectorAll('details')].map(d => d.open);"
    seen = look(path, tmp_path / "profile", width, act=folded)
    assert (seen.errors, seen.missing, seen.too_wide) == ([], [], 0)
    assert seen.answer == [False, False, False]
