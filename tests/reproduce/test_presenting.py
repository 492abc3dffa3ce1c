"""Tables and figures of every study, from outcomes with planted numbers."""

import copy
import dataclasses
import functools
import statistics

import pytest
import scipy.stats

from care.evaluate import Evaluation
from care.evaluate.comparison.quantities import ACTED_ON
from care.evaluate.evaluation import ESTIMATORS
from care.report.drawing import draw
from care.reproduce import (
    STUDIES,
    Outcome,
    Runner,
    run_trials,
    scale_named,
    study_named,
)
from care.reproduce.paper import PROBES
from care.reproduce.presentation import COMPOSITION, KNN, PROBE, Presentation, cell, compared, marked, measured_table
from coarse_drawing import coarse_drawing


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A real outcome on small images, and one on point clouds, in the form and with the measures of `groups`.

    Networks that decode learn for a few epochs.
    """
    folder = tmp_path_factory.mktemp("runner")
    runner = Runner(folder / "runs", folder / "kept", device="cpu")
    images = trials_of("wahba", "smoke")[0]
    images = dataclasses.replace(images, config=images.config.replace(size=12, epochs=1, limit=96))
    (clouds, _) = (trial for trial in trials_of("groups", "smoke") if trial.label == "chains: CARE, symplectic")
    measures, small = dataclasses.replace(clouds.measures, probe="paper"), {"embedding_dim": 8, "epochs": 1}
    clouds = dataclasses.replace(clouds, config=clouds.config.replace(**small), measures=measures)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("care.evaluate.decoding.network.EPOCHS", 3)
        found = run_trials([images, clouds], runner, lambda *words: None)
    return dict(zip(("images", "clouds"), found, strict=True))


def planted(outcome, trial, probe):
    record = {**outcome.evaluation.record, "probe": {**outcome.evaluation.record["probe"], "mean": probe}}
    return dataclasses.replace(outcome, trial=trial, evaluation=Evaluation(record, outcome.evaluation.arrays))


@functools.cache
def trials_of(name, scale):
    return STUDIES[name].trials(scale_named(scale))


def all_planted(name, pictures, scale="smoke"):
    outcome = pictures["clouds" if name == "proteins" else "images"]
    return [planted(outcome, t, 0.5 + 0.01 * i) for i, t in enumerate(trials_of(name, scale))]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_table_a_figure_and_words(name, pictures, tmp_path):
    """With several seeds of its first trials, and one of the others."""
    planted = all_planted(name, pictures)
    outcomes = [*planted[:4], *(outcome for outcome in planted[4:] if outcome.trial.config.seed == 0)]
    presented = STUDIES[name].present(outcomes)
    assert {row[0] for row in presented.rows} == {outcome.trial.label for outcome in outcomes}
    assert all(len(row) == len(presented.header) for row in presented.rows)
    assert presented.remarks
    assert presented.figures
    with coarse_drawing():
        for title, figure in presented.figures.items():
            draw(figure, tmp_path / f"{title}.png", "png")
    assert presented.markdown().count("\n|") >= len(presented.rows)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_shown_from_what_is_kept(name, pictures):
    """Without arrays and without run folders: some pictures are missing then, the table is not. Of what is done."""
    done = all_planted(name, pictures)[:4]
    outcomes = [Outcome(o.trial, Evaluation(o.evaluation.record, {}), o.log, o.made) for o in done]
    assert len(STUDIES[name].present(outcomes).rows) == len({o.trial.label for o in done})


def test_cells_are_means_and_deviations_over_seeds(pictures):
    trials = scale_named("small").trials("CARE", "cifar10")
    group = [planted(pictures["images"], t, p) for t, p in zip(trials, (0.90, 0.91, 0.935), strict=True)]
    probes = (90, 91, 93.5)
    assert cell(group, PROBE) == f"{statistics.fmean(probes):.2f} ± {statistics.stdev(probes):.1f}"
    assert cell(group[:1], PROBE) == "90.00"
    header, rows = measured_table(group)
    assert rows[0][header.index("seeds")] == "3"


def test_a_difference_is_told_with_its_interval_over_seeds(pictures):
    scale = scale_named("small")
    trials = [*scale.trials("SimCLR", "cifar10"), *scale.trials("CARE", "cifar10", equivariance="care")]
    probes = (0.80, 0.81, 0.85, 0.83, 0.85, 0.87)
    outcomes = [planted(pictures["images"], t, p) for t, p in zip(trials, probes, strict=True)]
    half = scipy.stats.t.ppf(0.975, 2) * scipy.stats.sem([3, 4, 2])  # seed by seed: what a seed does to both cancels
    words = compared(outcomes, "SimCLR", "CARE", PROBE, "Probe")
    interval = f"95 %: {3 - half:+.3g} to {3 + half:+.3g}, Student's t over 3 seeds"
    assert words == f"Probe: CARE +3 points against SimCLR ({interval})."
    two = compared(outcomes[:5], "SimCLR", "CARE", PROBE, "Probe")
    assert two == "Probe: CARE +3.5 points against SimCLR (2 seeds, too few for an interval)."
    one = compared(outcomes[:4], "SimCLR", "CARE", PROBE, "Probe")
    assert one == "Probe: CARE +3 points against SimCLR (one seed)."
    assert compared(outcomes[:3], "SimCLR", "CARE", PROBE, "Probe") == "SimCLR and CARE are not both done yet."
    missing = compared(outcomes, "SimCLR", "CARE", ("equivariant", "mass"), "Mass")
    assert "not measured for both SimCLR and CARE" in missing


def test_cells_of_several_dimensions_say_so(pictures):
    """7 coordinates of a split embedding beside all of another."""
    first, second = all_planted("wahba", pictures)[:2]
    assert "d = " not in str(measured_table([first, second])[1])
    record = copy.deepcopy(first.evaluation.record)
    for measured in record["measurements"].values():
        measured["dimension"] = 7
    other = dataclasses.replace(second, evaluation=Evaluation(record, {}))
    header, rows = measured_table([first, other])
    ratio = header.index("held-out ratio")
    before = first.evaluation.measurement("embedding").dimension
    assert [row[ratio].split(" (")[1] for row in rows] == [f"d = {before})", "d = 7)"]
    assert "d = " not in rows[0][header.index("linear probe (paper) %")]


def test_what_is_missing_is_said_once(pictures):
    """`keeping-color` compares seven quantities of six pairs; with SimCLR alone none of them."""
    outcomes = [o for o in all_planted("keeping-color", pictures) if o.trial.label == "SimCLR"]
    remarks = STUDIES["keeping-color"].present(outcomes).remarks
    assert len(remarks) == len(set(remarks)) == 6
    assert all(remark.endswith("are not both done yet.") for remark in remarks)


def test_the_papers_numbers_stand_beside_ours_where_the_data_are_the_papers(pictures):
    presented = study_named("linear-probe").present(all_planted("linear-probe", pictures, "paper"))
    column = presented.header.index("the paper, ResNet-50")
    shown = {row[0]: row[column] for row in presented.rows}
    assert shown["cifar10: CARE"] == "91.92 ± 0.12"
    assert shown["stl10: MoCo-v2"] == "–"
    assert sum(cell != "–" for cell in shown.values()) == sum(map(len, PROBES.values()))
    smoke = study_named("linear-probe").present(all_planted("linear-probe", pictures)[:2])
    assert {row[column] for row in smoke.rows} == {"–"}


def test_the_paper_scale_has_the_papers_settings():
    trials = {t.label: t.config for t in study_named("linear-probe").trials(scale_named("paper"))}
    care = trials["cifar10: CARE"]
    assert (care.model, care.epochs, care.flat()["chunks"]) == ("resnet50", 400, 16)
    assert care.flat()["care_weight"] == pytest.approx(0.01 * 2 * 15)
    assert trials["imagenet100: CARE-MoCo-v2"].flat()["care_weight"] == pytest.approx(0.01 * 2 * 63)
    assert trials["imagenet100: CARE"].batch_size == 512
    assert {t.config.model for t in study_named("circle").trials(scale_named("paper"))} == {"resnet18"}


def test_seeds_and_shared_runs():
    """Figures of the same two encoders train them once, and the table's first seed is theirs."""
    small = scale_named("small")
    names = ("wahba", "relative-equivariance", "composition")
    slugs = [{t.slug for t in STUDIES[name].trials(small)} for name in names]
    assert slugs[0] == slugs[1] == slugs[2] <= {t.slug for t in STUDIES["linear-probe"].trials(small)}
    sweeps = ("lambda-sweep", "split-sweep", "recipe-sweep")
    validated = [t.config.validation for name in sweeps for t in STUDIES[name].trials(small)]
    assert min(validated) == 500


def test_peers_cost_the_same():
    """The quarter turns of E-SSL have a quarter of the pixels each, and EquiMod sees the picture, too."""
    epochs = {trial.label: trial.config.epochs for trial in STUDIES["peers"].trials(scale_named("small"))}
    views = {"SimCLR": 2, "SimCLR, four views": 4, "AugSelf": 2, "EquiMod": 3, "E-SSL": 2 + 4 / 4, "CARE": 4}
    assert all(abs(epochs[label] * count - 100) <= count / 2 for label, count in views.items())


def test_every_form_is_measured_in_every_group(pictures):
    """A training on clouds: its own group is the one that it was trained for."""
    trials = [t for t in trials_of("groups", "smoke") if t.label == "chains: CARE, symplectic"]
    assert [t.config.seed for t in trials] == [0, 1]
    outcome = pictures["clouds"]
    assert outcome.trial.config == trials[0].config.replace(embedding_dim=8, epochs=1)
    presented = STUDIES["groups"].present([outcome])
    shown = dict(zip(presented.header, presented.rows[0], strict=True))
    assert shown["held-out ratio, own group"] == shown["in Sp"] != shown["in SO"]
    assert float(shown["strength of ω"]) > 0
    assert "–" not in [shown[f"in {group}"] for group in ("SO", "Lorentz", "Sp")]
    assert set(presented.figures) == {"groups-chains", "probes-chains"}
    assert "strength" in outcome.log[-1]


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="did you mean lambda-sweep"):
        study_named("lamda-sweep")
    with pytest.raises(ValueError, match="scale must be one of smoke, small, long, deep, paper"):
        scale_named("huge")


def measured_before(outcome):
    """The same, as an earlier version kept it."""
    record = copy.deepcopy(outcome.evaluation.record)
    record["about"].pop("estimators", None)
    for measured in record["measurements"].values():
        for family in measured["families"].values():
            del family["unexplained"]
    return dataclasses.replace(outcome, evaluation=Evaluation(record, {}))


def with_knn(outcome, accuracy):
    record = {**outcome.evaluation.record, "knn": {"200": accuracy}}
    return dataclasses.replace(outcome, evaluation=Evaluation(record, {}))


def test_numbers_of_two_versions_are_not_mixed(pictures):
    """Of seeds that were measured again, and of pairs of which both were: by what all versions share, of all."""
    scale = scale_named("small")
    trials = [*scale.trials("SimCLR", "cifar10"), *scale.trials("CARE", "cifar10", equivariance="care")]
    outcomes = [with_knn(planted(pictures["images"], t, 0.5), 0.1 * i) for i, t in enumerate(trials)]
    mixed = [measured_before(o) if i in (1, 2, 4) else o for i, o in enumerate(outcomes)]
    assert cell(mixed[:3], KNN) == "0.00"
    assert cell(mixed[3:], KNN).startswith("40.00 ± ")  # seeds 0 and 2, with 0.3 and 0.5
    assert compared(mixed, "SimCLR", "CARE", KNN, "kNN") == "kNN: CARE +30 points against SimCLR (one seed)."
    assert "3 seeds" in compared(mixed, "SimCLR", "CARE", PROBE, "Probe")
    before = [measured_before(o) if i in (0, 1, 2, 4) else o for i, o in enumerate(outcomes)]
    assert compared(before, "SimCLR", "CARE", KNN, "kNN") == "kNN: CARE +30 points against SimCLR (one seed)."  # seed 1


def test_what_an_earlier_version_measured_is_marked(pictures):
    first, second = all_planted("wahba", pictures)[:2]
    presented = STUDIES["wahba"].present([first, second])
    assert marked(presented, [first, second]) == presented
    earlier = measured_before(first)
    said = marked(presented, [earlier, second]).remarks[len(presented.remarks) :]
    assert [remark.split(": ")[1].split(",")[0].split(".")[0] for remark in said] == [
        "measured by an earlier version",
        "held-out ratios and unexplained variance are of an estimator that differs little with many images per "
        "dimension",
    ]


def of_version(outcome, version):
    record = copy.deepcopy(outcome.evaluation.record)
    record["about"]["estimators"] = version
    return dataclasses.replace(outcome, evaluation=Evaluation(record, {}))


def test_a_cell_has_the_newest_estimator_that_any_seed_has(pictures):
    """Held-out ratios changed with versions 2, 6 and 7: those of 2 and of 5 are alike, the others are not."""
    trials = scale_named("small").trials("SimCLR", "cifar10")
    first, second, third = (planted(copy.deepcopy(pictures["images"]), trial, 0.5) for trial in trials)
    ratio = (ACTED_ON, "held-out ratio")
    alone = cell([third], ratio)
    assert cell([of_version(first, 1), of_version(second, 5), third], ratio) == alone
    assert all(cell([of_version(first, before), third], ratio) == alone for before in (1, 5, 6))
    alike = cell([of_version(first, 2), of_version(second, 5)], ratio)
    assert "±" in alike
    assert cell([of_version(first, 2), of_version(second, 5), of_version(third, 1)], ratio) == alike


def test_only_compositions_changed_with_the_third_version(pictures):
    """The second version has unbiased ratios, and every composition divided by its own displacement."""
    trials = scale_named("small").trials("SimCLR", "cifar10")
    first, second = (planted(copy.deepcopy(pictures["images"]), trial, 0.5) for trial in trials[:2])
    second.evaluation.record["about"].pop("estimators")
    assert (first.evaluation.estimators, second.evaluation.estimators) == (ESTIMATORS, 2)
    assert "±" in cell([of_version(first, 5), second], (ACTED_ON, "held-out ratio"))
    assert "±" not in cell([first, second], COMPOSITION)
    table = Presentation(["", "composition error"], [], {})
    assert marked(table, [first, second]).remarks[-1].startswith("All: composition errors are means of ratios")
    assert marked(Presentation(["", "probe"], [], {}), [first, second]).remarks == ()
