"""Cosines, spectra and neighbors: what is drawn is what was given, read back from the figure."""

import math

import numpy as np
import pytest
import torch
from matplotlib.cbook import is_math_text
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch
from matplotlib.text import Text

from care.report import drawing
from care.report.cosines import cosine_figure, positive_cosine_figure
from care.report.neighbors import neighbors_figure
from care.report.responses import response_figure
from care.report.spectrum import spectrum_figure
from care.report.style import model_colors

ODD = ["a$x$b", "_under_score", "<tag> & co", "plain"]


def save(figure, folder):
    for ending in ("png", "svg"):
        drawing.draw(figure, folder / f"figure.{ending}", ending)
        assert (folder / f"figure.{ending}").stat().st_size > 2000


def steps(ax):
    return [patch for patch in ax.patches if isinstance(patch, StepPatch)]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def circle(names, generator, augmentations=4, n=500):
    return {
        name: (
            torch.randn(augmentations, 1, generator=generator) + torch.randn(1, n, generator=generator) / (2 + i)
        ).cos()
        for i, name in enumerate(names)
    }


def test_densities_are_histograms_over_the_same_bins(generator):
    models = circle(["SimCLR", "CARE"], generator)
    lowest = math.floor(10 * min(c.min().item() for c in models.values())) / 10
    *left, _ = cosine_figure(models).axes
    for ax, (name, cosines) in zip(left, models.items(), strict=True):
        pooled, *single = steps(ax)
        assert pooled.get_fill()
        assert {to_hex(patch.get_edgecolor()) for patch in single} == {model_colors(models)[name]}
        for patch, values in zip([pooled, *single], [cosines.flatten(), *cosines], strict=True):
            theirs, edges = np.histogram(values.double(), bins=50, range=(lowest, 1), density=True)
            np.testing.assert_allclose(patch.get_data().values, theirs, atol=1e-9)
            np.testing.assert_allclose(patch.get_data().edges, edges, atol=1e-9)
            assert max(theirs) <= ax.get_ylim()[1]
        assert ax.get_xlim() == (lowest, 1)
        assert ax.get_title(loc="right") == f"mean σ² {np.var(cosines.double().numpy(), axis=1).mean():#.3g}"


@pytest.mark.parametrize(
    ("least", "low"),
    [(0.55, 0.5), (0.5, 0.5), (-0.31, -0.4), (0.97, 0.9), (1.0, 0.9), (-1.0, -1.0), (-1.0000001, -1.0)],
    ids=str,
)
def test_cosines_are_drawn_from_the_tenth_below_the_least_of_any_model(least, low):
    narrow, wide = torch.tensor([0.98, 0.99, 1.0]).double(), torch.tensor([least, 1.0, 1.0]).double()
    *left, _ = cosine_figure({"narrow": narrow[None], "wide": wide[None]}).axes
    panels = left + positive_cosine_figure({"narrow": narrow, "wide": wide}, {}).axes
    for ax in panels:
        assert ax.get_xlim() == (low, 1)
        for patch in steps(ax):
            np.testing.assert_allclose(patch.get_data().edges, np.linspace(low, 1, 51), atol=1e-9)
    assert all(sum(steps(ax)[0].get_data().values) == pytest.approx(1) for ax in panels[2:])


def test_the_mean_is_written_above_the_histogram(generator):
    figure = positive_cosine_figure({"m": torch.rand(200, generator=generator)}, {})
    figure.draw_without_rendering()
    (ax,) = figure.axes
    highest = ax.transData.transform((0, max(steps(ax)[0].get_data().values)))[1]
    assert ax.texts[0].get_window_extent().y0 > highest


def test_the_variances_of_an_augmentation_are_joined(generator):
    models = circle(["SimCLR", "CARE", "third"], generator)
    ax = cosine_figure(models).axes[-1]
    expected = np.stack([np.var(c.double().numpy(), axis=1) for c in models.values()])
    joined = [line.get_xdata() for line in ax.lines if to_hex(line.get_color()) == to_hex("0.8")]
    np.testing.assert_allclose(joined, expected.T)
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose([line.get_xdata() for line in dots], expected)
    assert [to_hex(line.get_color()) for line in dots] == list(model_colors(models).values())
    assert [set(line.get_ydata()) for line in dots] == [{0}, {1}, {2}]


@pytest.mark.parametrize("augmentations", [1, 3])
def test_one_angle_for_all_points_has_no_variance(augmentations, tmp_path):
    figure = cosine_figure({"exact": torch.full((augmentations, 10), 0.5)})
    assert figure.axes[0].get_title(loc="right") == "mean σ² 0"
    save(figure, tmp_path)


def test_positive_cosines_are_shares_of_all_pairs(generator):
    cosines = {f"m{i}": torch.rand(1000, generator=generator) * 1.5 - 0.5 for i in range(5)}
    curves = {"m1": [(1, 0.5), (2, None), (3, 0.75)], "m4": [(1, math.nan)], "m3": []}
    *panels, last = positive_cosine_figure(cosines, curves).axes
    for ax, (name, values) in zip(panels, cosines.items(), strict=True):
        (patch,) = steps(ax)
        theirs, _ = np.histogram(values, bins=50, range=(-0.5, 1))
        np.testing.assert_allclose(patch.get_data().values, theirs / 1000, atol=1e-9)
        assert to_hex(patch.get_facecolor()) == model_colors(cosines)[name]
        assert f"mean {values.double().mean():#.3g}" in texts(ax)
    (line,) = last.lines
    assert [list(d) for d in line.get_data()] == [[1, 3], [0.5, 0.75]]
    assert to_hex(line.get_color()) == model_colors(cosines)["m1"]
    assert texts(last) == ["m1"]


def test_rounding_beyond_one_is_counted():
    ax = positive_cosine_figure({"m": torch.tensor([1.0000001, -1.0000001])}, {}).axes[0]
    values = steps(ax)[0].get_data().values
    assert (values[0], values[-1], sum(values)) == (0.5, 0.5, 1.0)


@pytest.mark.parametrize("curve", [{}, {"m": [(1, None)]}], ids=str)
def test_without_a_curve_there_is_no_panel_for_it(curve):
    assert len(positive_cosine_figure({"m": torch.zeros(3)}, curve).axes) == 1


def test_curves_alone(tmp_path):
    figure = positive_cosine_figure({}, {"m": [(0, 0.1), (1, 0.3)]})
    assert len(figure.axes) == 1
    save(figure, tmp_path)


def test_spectra_are_drawn_relative_to_the_first():
    (ax,) = spectrum_figure({"m": [1.0, 4.0, 2.0, 0.0], "flat": [3.0] * 3, "dead": [0.0, 0.0]}).axes
    assert [list(line.get_ydata()) for line in ax.lines] == [[1, 0.5, 0.25], [1, 1, 1], []]
    assert [list(line.get_xdata()) for line in ax.lines] == [[1, 2, 3], [1, 2, 3], []]
    assert texts(ax)[1:] == ["flat\neffective rank 3.00 of 3 singular values", "dead\ncollapsed"]
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[0] <= 0.25


def test_a_model_has_one_color_in_every_figure(generator):
    names = ["SimCLR", "CARE", "third"]
    cosines = circle(names, generator)
    spectrum = spectrum_figure({name: [2.0, 1.0] for name in names}).axes[0]
    densities = cosine_figure(cosines).axes[:3]
    histograms = positive_cosine_figure({n: c[0] for n, c in cosines.items()}, {"third": [(1, 0.5)]}).axes
    responses = response_figure({n: {"all": {"wahba": [1.0]}} for n in names}).axes[0]
    colors = list(model_colors(names).values())
    assert [to_hex(line.get_color()) for line in spectrum.lines] == colors
    assert [to_hex(steps(ax)[1].get_edgecolor()) for ax in densities] == colors
    assert [to_hex(steps(ax)[0].get_facecolor()) for ax in histograms[:3]] == colors
    assert to_hex(histograms[3].lines[0].get_color()) == colors[2]
    assert [to_hex(line.get_color()) for line in responses.lines if line.get_marker() == "o"] == colors


def test_odd_names_can_be_saved(generator, tmp_path):
    cosines = circle(ODD, generator)
    pictures = torch.zeros(1, 2, 3, 8, 8, dtype=torch.uint8)
    figures = [
        cosine_figure(cosines),
        positive_cosine_figure({n: c[0] for n, c in cosines.items()}, {n: [(1, 0.5)] for n in ODD}),
        spectrum_figure({name: [2.0, 1.0] for name in ODD}),
        neighbors_figure(pictures[:, 0], pictures[:, 0], dict.fromkeys(ODD, pictures)),
    ]
    for figure, times in zip(figures, (1, 2, 1, 1), strict=True):
        named = [text.get_text() for text in figure.findobj(Text) if text.get_text().startswith("a")]
        assert len(named) == times
        assert not any(is_math_text(text) for text in named)
        drawing.draw(figure, tmp_path / "figure.svg", "svg")


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: cosine_figure({}), "nothing to draw"),
        (lambda: cosine_figure({"m": torch.zeros(2, 0)}), "the cosines of m must be one or more finite numbers"),
        (lambda: cosine_figure({"m": torch.full((1, 2), math.nan)}), "the cosines of m must be one or more finite"),
        (lambda: cosine_figure({"m": torch.zeros(2, 3), "n": torch.zeros(1, 3)}), "different numbers of augmentations"),
        (lambda: positive_cosine_figure({}, {}), "nothing to draw"),
        (lambda: positive_cosine_figure({"m": torch.zeros(0)}, {}), "the cosines of m must be one or more finite"),
        (lambda: spectrum_figure({}), "nothing to draw"),
        (lambda: spectrum_figure({"m": []}), "nothing to draw"),
        (lambda: neighbors_figure(*[torch.zeros(1, 3, 2, 2, dtype=torch.uint8)] * 2, {}), "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(draw, message, unchecked):
    with pytest.raises(ValueError, match=message) as error:
        draw()
    assert "\n" not in str(error.value)
