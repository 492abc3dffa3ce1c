"""What the demo says must follow from what it measured, and its page must be whole in a real browser."""

import dataclasses
import json
import math
import re
from html import unescape

import pytest
import torch
from matplotlib.figure import Figure

from browser import CHROMIUM, look
from care import demo
from care.demo.claims import CLAIMS
from care.demo.numbers import GAMMA, HELDOUT, HUE, LOGISTIC
from care.demo.story import tally
from care.evaluate import EvaluationSettings
from care.evaluate.comparison.quantities import Quantity
from care.evaluate.effects.orbits import ANGLES, orbits
from care.report.page import Page, Picture, Section

SHAPES = ("shapes-simclr", "shapes-care", "shapes-care-split-embedding")
CHAINS = ("chains-simclr", "chains-care", "chains-care-split-embedding")
RUNS = (*SHAPES, *CHAINS)


def evaluation(out, run):
    return json.loads((out / run / "evaluation" / "evaluation.json").read_text())


def of_equivariance_loss(record):
    """The measurement of what the equivariance loss acts on."""
    return record["measurements"].get("equivariant") or record["measurements"]["embedding"]


def mean(values):
    return sum(values) / len(values)


@pytest.mark.long
def test_the_tables_have_what_the_evaluations_have(shown):
    """Encoder by encoder, in the terminal and on the page, from the JSON that was saved."""
    out, printed = shown
    page = unescape((out / "report.html").read_text())
    names = [f"{data}: {name}" for data in ("shapes", "chains") for name in ("SimCLR", "CARE", "CARE, split embedding")]
    across = [columns for block in re.split(r"(?m)^ *(?=shapes|chains)", printed)[1:] for columns in tall(block)]
    for run, name, in_terminal in zip(RUNS, names, across, strict=True):
        record = evaluation(out, run)
        family = of_equivariance_loss(record)["families"]["all"]
        right = [record["logistic"]["accuracy"], record["knn"]["20"]]
        rest = [mean(family[k]) for k in ("displacement", "heldout_ratio", "composition_error", "gamma", "wahba")]
        hue = [record["factors"]["backbone"]["hue"]] if "shapes" in run else []
        row = re.sub("<.*?>", " ", re.search(rf'<th scope="row">{re.escape(name)}.*?</tr>', page)[0])
        on_page = re.sub(r"^, λ = \S+", "", row.partition(name)[2].strip())
        for text in (in_terminal, on_page):
            numbers = [float(x) for x in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)]
            assert numbers == pytest.approx([*(100 * x for x in right), *hue, *rest], rel=0.006, abs=0.06)


def tall(block):
    """The three columns of numbers of a table in the terminal, each as a text."""
    rows = [
        line for line in block.splitlines() if any(column.title.replace("\xa0", " ") in line for column in demo.COLUMNS)
    ]
    assert len(rows) == len(demo.COLUMNS)
    cells = [re.findall(r"(\S+(?: %)?)", line)[-3:] for line in rows]
    return [" ".join(column) for column in zip(*cells, strict=True)]


@pytest.mark.long
def test_each_column_is_explained_in_a_sentence(shown):
    page = unescape((shown[0] / "report.html").read_text())
    for column in demo.COLUMNS:
        assert column.meaning in page
        assert column.meaning.endswith(".")


@pytest.mark.long
def test_every_verdict_is_printed_and_on_the_page(shown):
    """The page has the numbers of each, the terminal its words."""
    out, printed = shown
    page, count = unescape((out / "report.html").read_text()), sum(map(len, CLAIMS.values()))
    marks = re.findall(r"^([✓✗?]) (?!seen)", printed, flags=re.M)
    assert len(marks) == count == 13
    assert re.findall(r"<li><span>([✓✗?])</span>", page) == marks
    words = " ".join(printed.split())
    assert all(claim.words in words for claims in CLAIMS.values() for claim in claims)


@pytest.mark.long
def test_eighty_columns_hold_everything(shown):
    *lines, path = shown[1].splitlines()
    assert path == str(shown[0] / "report.html")  # as long as it is
    assert max(map(len, lines)) <= 80


@pytest.mark.long
def test_the_equivariance_loss_makes_rotations(shown):
    """40 steps on point clouds: with the loss, one rotation explains unseen clouds better, and γ_f is halved."""
    simclr, *cares = (of_equivariance_loss(evaluation(shown[0], run))["families"]["all"] for run in CHAINS)
    for care in cares:
        assert mean(care["heldout_ratio"]) < mean(simclr["heldout_ratio"]) / 2
        assert mean(care["composition_error"]) < mean(simclr["composition_error"]) / 2
        assert mean(care["gamma"]) < mean(simclr["gamma"]) / 2


@pytest.mark.long
@pytest.mark.parametrize(("runs", "policy"), [(SHAPES, "shapes"), (CHAINS, "rotations")])
def test_all_encoders_are_measured_under_the_same_augmentations(shown, runs, policy):
    """Also the one whose equivariance loss sees nothing but hues."""
    assert {evaluation(shown[0], run)["about"]["policy"] for run in runs} == {policy}


@pytest.mark.long
def test_runs_can_be_used_like_all_others(shown):
    out, _ = shown
    for run in RUNS:
        assert {"config.toml", "log.jsonl", "model.safetensors", "evaluation"} <= {
            f.name for f in (out / run).iterdir()
        }


def test_a_second_demo_replaces_the_first(small, tmp_path):
    chains = dataclasses.replace(
        small["chains"],
        settings={**small["chains"].settings, "limit": 64, "epochs": 1},
        encoders={"CARE": small["chains"].encoders["CARE"]},
    )

    def measured(seed):
        found = demo.demonstrate(
            tmp_path, seed, [chains], EvaluationSettings(images=40, augmentations=2, probe="none", logistic=False)
        )
        return found["chains"]["CARE"].evaluation.record["measurements"]

    first = measured(0)
    (tmp_path / "chains-care" / "left.txt").write_text("from before")
    (tmp_path / "mine.txt").write_text("not of the demo")
    assert measured(1) != first
    assert not (tmp_path / "chains-care" / "left.txt").exists()
    assert (tmp_path / "mine.txt").exists()
    assert measured(0) == first


def quantity(column, value, units=None):
    better = {"↓": "lower", "↑": "higher"}[column.title[-1]]
    units = None if units is None else torch.tensor(units, dtype=torch.float64)
    return Quantity(column.group, column.quantity, value, better, units, percent=column is LOGISTIC)


def claim(column, demand):
    return demo.Claim(column, "it is so", demand)


@pytest.mark.parametrize(
    ("column", "demand", "before", "after", "seen"),
    [
        (GAMMA, "halved", 1.0, 0.4, True),
        (GAMMA, "halved", 1.0, 0.6, False),
        (GAMMA, "halved", 1.0, 1.2, False),
        (HUE, "better", 0.3, 0.4, True),
        (HUE, "better", 0.4, 0.3, False),
        (HELDOUT, "better", 0.3, 0.4, False),
        (HELDOUT, "better", 0.4, 0.3, True),
        (HELDOUT, "nearly exact", 0.9, 0.09, True),
        (HELDOUT, "nearly exact", 0.9, 0.11, False),
        (LOGISTIC, "not worse", 0.4, 0.41, True),
        (LOGISTIC, "not worse", 0.4, 0.3, False),
        (HELDOUT, "better", 0.4, math.nan, None),
        (HUE, "better", None, 0.4, None),
    ],
)
def test_verdicts_follow_the_numbers(column, demand, before, after, seen):
    verdict = demo.judge(claim(column, demand), quantity(column, before), quantity(column, after))
    assert verdict.seen is seen
    words = {True: "Seen: it is so.", False: "Not seen: it is so.", None: "No verdict: it is so."}
    assert verdict.sentence.startswith(words[seen])


def test_small_differences_without_an_interval_are_no_evidence():
    for before, after in ((0.699, 0.706), (0.706, 0.699)):
        verdict = demo.judge(claim(HUE, "better"), quantity(HUE, before), quantity(HUE, after))
        assert verdict.seen is None
        assert verdict.sentence.startswith("Not significant")


def test_differences_that_are_not_significant_are_called_so():
    """100 units that differ by ±1 around a tiny mean, then by about 0.5."""
    noise = torch.linspace(-1, 1, 100).tolist()
    one = quantity(HELDOUT, 0.5, [0.5] * 100)
    other = quantity(HELDOUT, 0.499, [0.499 + x for x in noise])
    clear = quantity(HELDOUT, 0.0, [x / 10 for x in noise])
    assert demo.judge(claim(HELDOUT, "better"), one, other).seen is None
    assert demo.judge(claim(HELDOUT, "better"), one, clear).seen is True
    assert demo.judge(claim(HELDOUT, "better"), clear, one).seen is False
    # Half of it must be significant: 0.24 of 0.5, with and without noise.
    assert demo.judge(claim(HELDOUT, "halved"), one, quantity(HELDOUT, 0.24, [0.24 + x for x in noise])).seen is None
    assert demo.judge(claim(HELDOUT, "halved"), one, quantity(HELDOUT, 0.24, [0.24] * 100)).seen is True
    # "Not worse" is undecided where worse is not significant; better by however little is, clearly worse is not.
    assert demo.judge(claim(HELDOUT, "not worse"), other, one).seen is None
    assert demo.judge(claim(HELDOUT, "not worse"), one, other).seen is True
    assert demo.judge(claim(HELDOUT, "not worse"), clear, one).seen is False
    low, high = re.search(
        r"between (\S+) and (\S+) at", demo.judge(claim(HELDOUT, "better"), one, clear).sentence
    ).groups()
    assert float(low) < -0.5 < float(high)


def test_only_what_is_seen_is_counted():
    verdicts = [demo.Verdict(claim(HUE, "better"), seen, "") for seen in (True, False, None)]
    assert tally(verdicts) == "1 of 3 claims"
    assert tally(verdicts[:1] * 3) == "all 3 claims"
    assert [verdict.mark for verdict in verdicts] == ["✓", "✗", "?"]


def test_orbits_go_once_around_the_vertical_axis(generator):
    """An encoder that rotates with its input, the direction to the first point: its orbits are known."""
    clouds = torch.randn(3, 5, 3, generator=generator)
    found = orbits(lambda x: {"embedding": x[:, 0]}, clouds)
    x, y, z = torch.nn.functional.normalize(clouds[:, 0], dim=1).unbind(1)
    for k in range(ANGLES):
        angle = math.radians(5 * k)
        rotated = (math.cos(angle) * x - math.sin(angle) * y, math.sin(angle) * x + math.cos(angle) * y, z)
        assert (found[:, k] - torch.stack(rotated, dim=1)).abs().max() < 1e-5


browsed = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tmp_path_factory.mktemp("chromium")


@pytest.fixture
def simple(tmp_path):
    """A page with one picture."""
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot([0, 1], [0, 1])
    path = tmp_path / "page.html"
    path.write_text(Page("title", "lead", [Section("section", [Picture(figure, "a line")])]).html())
    return path


@pytest.mark.long
@browsed
@pytest.mark.parametrize("width", [1100, 360], ids=["desktop", "phone"])
def test_the_page_shows_all_and_complains_about_nothing(shown, profile, width):
    seen = look(shown[0] / "report.html", profile, width)
    assert seen.errors == []
    assert seen.missing == []
    assert len(seen.pictures) == 8
    assert all(text for text, _ in seen.pictures)
    assert seen.too_wide == 0  # tables and figures that are wider can be moved sideways, the page cannot


@browsed
def test_a_good_page_passes(simple, profile):
    seen = look(simple, profile)
    assert (seen.errors, seen.missing, len(seen.pictures)) == ([], [], 1)


@browsed
def test_a_broken_picture_is_seen(simple, profile):
    text = simple.read_text()
    start = text.index("base64,") + len("base64,")
    simple.write_text(text[:start] + "AAAA" + text[text.index('"', start) :])
    assert look(simple, profile).missing == ["a line"]


@browsed
@pytest.mark.parametrize(
    "bad",
    ["<script>undefined_function()</script>", '<img src="https://example.org/a.png">', '<img src="gone.png">'],
    ids=["script", "elsewhere", "file"],
)
def test_what_the_page_may_not_do_is_seen(simple, profile, bad):
    """A script is refused, and so is a picture that is not in the file: both are reported on the console."""
    simple.write_text(simple.read_text().replace("</main>", f"{bad}</main>"))
    assert look(simple, profile).errors


@browsed
def test_an_error_of_a_script_is_seen(simple, profile):
    """Where a page lets scripts run."""
    text = simple.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    simple.write_text(text.replace("</main>", "<script>undefined_function()</script></main>"))
    assert any("undefined_function is not defined" in error for error in look(simple, profile).errors)
