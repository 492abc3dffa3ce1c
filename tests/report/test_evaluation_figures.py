"""Responses, Wahba errors and differences: what is drawn is what was given, read back from the figure."""

import math

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cbook import is_math_text
from matplotlib.colors import to_hex
from matplotlib.text import Text

from care.report import drawing
from care.report.differences import differences_figure
from care.report.responses import response_figure
from care.report.style import GOOD, model_colors, spread, wrapped
from care.report.wahba import wahba_figure

ODD = ["a$x$b", "_under_score", "<tag> & co", r"back\$slash"]


def response(shift=0.0, n=3):
    return {
        "heldout_ratio": [0.5 + shift + 0.1 * i for i in range(n)],
        "heldout_linear": [0.4 + shift + 0.1 * i for i in range(n)],
        "displacement": [0.3 + 0.01 * i for i in range(n)],
        "gamma": [0.01 * 10**i for i in range(n)],
        "gram_error": [1e-4 * 2**i for i in range(n)],
        "wahba": [20.0 + i for i in range(n)],
        "composition_error": [0.9 + 0.01 * i for i in range(n)],
    }


def panels(figure):
    return {ax.get_title(loc="left"): ax for ax in figure.axes}


def dots(ax, marker="o"):
    """Color → the values and the heights of its dots."""
    found = {}
    for line in ax.lines:
        if line.get_marker() == marker:
            found.setdefault(to_hex(line.get_color()), []).extend(
                zip(*(map(float, d) for d in line.get_data()), strict=True)
            )
    return found


def texts(ax):
    return [text.get_text() for text in ax.texts]


def drawn_as_svg(figure, folder):
    """Laid out as it is for users: a name that is read as a formula would fail there, too."""
    drawing.draw(figure, folder / "figure.svg", "svg")
    return (folder / "figure.svg").read_text()


PANELS = {
    "Held-out ratio": "heldout_ratio",
    "Displacement": "displacement",
    "Composition error": "composition_error",
    "Relative equivariance $γ_f$": "gamma",
    "Wahba error $W_f$": "wahba",
    "Gram error": "gram_error",
}


@pytest.mark.parametrize("families", [["all"], ["all", "crop", "color"]], ids=len)
def test_every_response_is_a_dot_in_the_color_of_its_model(families):
    models = {name: {f: response(0.1 * i) for f in families} for i, name in enumerate(["SimCLR", "CARE"])}
    shown = panels(response_figure(models))
    assert set(shown) == set(PANELS)
    for title, measure in PANELS.items():
        for name, color in model_colors(models).items():
            drawn = dots(shown[title])[color]
            assert [x for x, _ in drawn] == [v for f in families for v in models[name][f][measure]]
            assert len({y for _, y in drawn}) == len(families)
    heights = [y for drawn in dots(shown["Held-out ratio"]).values() for _, y in drawn]
    assert len(set(heights)) == 2 * len(families)


def test_means_are_bars_and_numbers():
    ax = panels(response_figure({"m": {"all": response()}}))["Held-out ratio"]
    bars = [list(line.get_xdata()) for line in ax.lines if line.get_linewidth() > 2 and line.get_marker() == "None"]
    assert bars == [[pytest.approx(0.6)] * 2]
    assert texts(ax) == ["0.600"]
    assert dots(ax, "D") == {model_colors(["m"])["m"]: [(pytest.approx(0.5), 0)]}


def test_what_has_a_reference_has_a_dashed_line_at_one():
    dashed = {
        title: [list(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "--"]
        for title, ax in panels(response_figure({"m": {"all": response()}})).items()
    }
    assert dashed == {title: [[1, 1]] if title in ("Held-out ratio", "Composition error") else [] for title in PANELS}


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_an_invariant_response_is_a_word_and_not_a_dot(nothing):
    values = {**response(), "heldout_ratio": [nothing] * 3, "gamma": [0.5, nothing, nothing]}
    shown = panels(response_figure({"m": {"all": values}, "n": {"all": response()}}))
    color = model_colors(["m", "n"])["m"]
    assert not dots(shown["Held-out ratio"]).get(color)
    assert "invariant" in texts(shown["Held-out ratio"])
    assert dots(shown["Relative equivariance $γ_f$"])[color] == [(0.5, 0)]
    assert "0.500 (2 of 3 invariant)" in texts(shown["Relative equivariance $γ_f$"])
    assert shown["Held-out ratio"].get_xlim()[1] > 1


def test_what_was_not_measured_is_not_drawn():
    models = {"m": {"all": response(), "crop": {"wahba": [1.0]}}, "n": {"all": response()}}
    del models["m"]["all"]["composition_error"], models["n"]["all"]["composition_error"]
    shown = panels(response_figure(models))
    assert set(shown) == set(PANELS) - {"Composition error"}
    assert texts(shown["Gram error"]).count("not measured") == 1
    assert "not measured" not in texts(shown["Wahba error $W_f$"])


def test_wahba_has_a_box_per_model_and_one_color_per_augmentation():
    models = {"SimCLR": [5.0, 1.0, 4.0], "CARE": [3.0, 2.0, math.nan], "third": [1.0, None, 2.0]}
    ax, key = wahba_figure(models, ["crop", "flip", "gray"]).axes
    assert len(ax.patches) == 3
    drawn = dots(ax)
    assert sorted(tuple(None if math.isnan(y) else y for _, y in points) for points in drawn.values()) == sorted(
        [(5.0, 3.0, 1.0), (1.0, 2.0, None), (4.0, None, 2.0)], key=str
    )
    assert all([x for x, _ in points] == [0, 1, 2] for points in drawn.values())
    described = dict(zip(texts(key), dots(key), strict=True))
    for i, name in enumerate(["crop", "flip", "gray"]):
        assert [y for _, y in drawn[described[name]]] == [
            pytest.approx(math.nan if v[i] is None else v[i], nan_ok=True) for v in models.values()
        ]
    joined = [line for line in ax.lines if line.get_marker() == "None" and len(line.get_xdata()) == 3]
    assert {to_hex(line.get_color()) for line in joined} == set(drawn)


def test_wahba_names_the_mean_and_the_worst():
    ax, _ = wahba_figure({"m": [1.0, 3.5, None], "n": [None, None, None]}, ["a", "b", "c"]).axes
    assert [t.get_text() for t in ax.get_xticklabels()] == ["m\nmean 2.25\nworst 3.50", "n\nno value"]


def test_many_augmentations_are_not_described():
    _, key = wahba_figure({"m": [float(i) for i in range(100)]}, [str(i) for i in range(100)]).axes
    assert texts(key) == []


def test_differences_point_right_where_the_second_model_is_better():
    rows = [
        ("ratio", -0.2, -0.4, -0.1, "lower", True),
        ("accuracy", 20.0, 10.0, 40.0, "higher", True),
        ("worse", 0.2, 0.1, 0.4, "lower", True),
        ("undecided", 0.1, -0.4, 0.3, "higher", False),
        ("by chance", 0.2, 0.1, 0.4, "higher", False),
    ]
    (ax,) = differences_figure(rows).axes
    lines = [line for line in ax.lines if line.get_marker() == "None"][1:]
    ends = [sorted(map(float, line.get_xdata())) for line in lines]
    assert ends == [pytest.approx(e) for e in ([0.25, 1], [0.25, 1], [-1, -0.25], [-1, 0.75], [0.25, 1])]
    colors = [to_hex(line.get_color()) for line in lines]
    assert colors[0] == colors[1] == to_hex(GOOD)
    assert len(set(colors)) == 3
    assert colors[3] == colors[4]
    middles = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert middles == pytest.approx([0.5, 0.5, -0.5, 0.25, 0.5])
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "ratio ↓", "accuracy ↑", "worse ↓", "undecided ↑", "by chance ↑",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((-0.0261, -0.0312, -0.0208), "−0.026  [−0.031, −0.021]"),
        ((2.07, 1.5, 2.6), "+2.1  [+1.5, +2.6]"),
        ((1200.0, 800.0, 1600.0), "+1200  [+800, +1600]"),
        ((0.0, -0.5, 0.5), "0  [−0.5, +0.5]"),
        ((0.0, 0.0, 0.0), "0  [0, 0]"),
        ((-1.2e-9, -2e-9, -4e-10), "−1.2e−09  [−2.0e−09, −4.0e−10]"),
        ((0.0312, math.nan, math.nan), "+0.031  (no interval)"),
        ((None, None, None), "undefined"),
        ((math.nan, math.nan, math.nan), "undefined"),
    ],
    ids=str,
)
def test_differences_are_written_as_precisely_as_they_are_known(row, text):
    (ax,) = differences_figure([("m", *row, "higher", False)]).axes
    assert text in texts(ax)
    assert (text == "undefined") == (not [line for line in ax.lines if line.get_marker() == "o"])


def test_a_long_title_does_not_cover_what_the_numbers_are():
    figure = differences_figure([("m", 1.0, 0.5, 2.0, "lower", True)], "one model against another: " + "long " * 12)
    FigureCanvasAgg(figure).draw()
    (ax,) = figure.axes
    (heading,) = (text for text in ax.texts if "interval" in text.get_text())
    title = next(t for t in figure.findobj(Text) if "one model" in t.get_text())
    assert title.get_window_extent().x1 > heading.get_window_extent().x0  # or there would be nothing to cover
    assert title.get_window_extent().y0 > heading.get_window_extent().y1
    assert title.get_window_extent().y1 <= figure.bbox.y1


def test_odd_names_are_taken_literally(tmp_path):
    one, two = ({name: dict.fromkeys(families, response()) for name in ODD} for families in (["all"], ["all", "a$x$"]))
    figures = [
        response_figure(one),
        response_figure(two),
        wahba_figure({name: [1.0, 2.0] for name in ODD}, ["a$x$b, _c", "_b"]),
        differences_figure([(name, 1.0, 0.5, 2.0, "lower", True) for name in ODD], "a$x$b − _y"),
    ]
    for figure in figures:
        named = [text for text in map(Text.get_text, figure.findobj(Text)) if text.startswith(("a$x", r"a\$x"))]
        assert named
        assert not any(is_math_text(text) for text in named)
        svg = drawn_as_svg(figure, tmp_path)
        assert "_under_score" in svg
        assert "&lt;tag&gt; &amp; co" in svg


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: response_figure({}), "nothing to draw: pass at least one model"),
        (lambda: response_figure({"m": {}}), "nothing to draw: pass at least one model"),
        (lambda: response_figure({"m": {"all": {"gamma": []}}}), "nothing to draw: pass at least one model"),
        (lambda: wahba_figure({}, ["a"]), "nothing to draw: pass at least one model"),
        (lambda: wahba_figure({"m": [1.0]}, ["a", "b"]), "m has 1 values for 2 augmentations"),
        (lambda: differences_figure([]), "nothing to draw: pass at least one difference"),
    ],
)
def test_nothing_to_draw_is_one_sentence(draw, message):
    with pytest.raises(ValueError, match=message) as error:
        draw()
    assert "\n" not in str(error.value)


def test_every_model_has_a_color_of_its_own():
    names = [str(i) for i in range(30)]
    assert len(set(model_colors(names).values())) == 30
    assert list(model_colors(names[:5]).items()) == list(model_colors(names).items())[:5]


def test_labels_are_moved_apart_and_no_farther():
    assert spread([0.9, 0.1, 0.5], 0.1) == pytest.approx([0.9, 0.1, 0.5])
    assert spread([0.5, 0.5, 0.9], 0.1) == pytest.approx([0.45, 0.55, 0.9])
    moved = spread([1.0, 0.99, 0.98, 0.2], 0.1)
    assert moved == pytest.approx([1.09, 0.99, 0.89, 0.2])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("SimCLR", ["SimCLR"]),
        ("MoCo-v2 + CARE", ["MoCo-v2 +", "CARE"]),
        ("resnet18_care_seed0", ["resnet18_", "care_seed0"]),
        ("unbreakable_at_ten", ["unbreakable_", "at_ten"]),
    ],
)
def test_long_names_are_broken_where_they_can_be(text, lines):
    assert wrapped(text, 10) == "\n".join(lines)
