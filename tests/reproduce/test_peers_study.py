"""The study of the peers: one recipe, equal compute, and weights that a rule chooses on validation images."""

import copy
import functools
import json
from pathlib import Path

import pytest

from care.evaluate import Evaluation, Transfer
from care.evaluate.evaluation import ESTIMATORS
from care.objective import view_plan, views_cost
from care.objective.registry import find
from care.reproduce import STUDIES, Outcome, scale_named
from care.reproduce.studies import peers, peers_cifar100, peers_flowers, peers_weights

SMALL = scale_named("small")
KEPT = Path(__file__).parents[2] / "results/small/trials/cifar10-resnet18-simclr-100-seed1-7ec12cb1.json"
RECORD = json.loads(KEPT.read_text())["evaluation"]


def outcome(trial, probe, hue, flowers=None):
    """What came of a trial: a tuned probe on 5,000 images, R² of the hue, and an accuracy on Flowers-102."""
    record = copy.deepcopy(RECORD)
    record["about"] |= {"estimators": ESTIMATORS, "test_images": 5000}
    record["logistic"]["accuracy"], record["decoding_network"]["backbone"]["hue"] = probe, hue
    about = {"customary": "mean_per_class", "all_labels": {"mean_per_class": flowers, "top1": 0.0}}
    transfer = None if flowers is None else Transfer({"data": {"flowers102": about}}, {})
    return Outcome(trial, Evaluation(record, {}), [], {"samples_per_second": 1e4}, transfer=transfer)


@functools.cache
def trials_of(study):
    return study.trials(SMALL)


def first_trials(study):
    return {trial.label: trial for trial in reversed(trials_of(study))}


def changed_trials():
    """Of the peers, as the test has changed them."""
    return {trial.label: trial for trial in reversed(peers.trials(SMALL))}


def test_a_teacher_costs_a_third_of_what_it_sees():
    """A forward pass, where training is a forward pass and a backward one of twice the work."""
    found = {label: trial.config for label, trial in first_trials(peers).items()}
    costs = {"SimCLR": 2, "MoCo-v3": 2 + 2 / 3, "EquiMod": 3, "E-SSL": 3, "CARE": 4, "DCL": 2}
    for label, cost in costs.items():
        assert found[label].views_a_step == pytest.approx(cost)
        assert found[label].epochs == round(100 / cost)
        assert found[label].batch_size * cost == pytest.approx(512, rel=0.07)
    longer = {trial.label: trial.config.epochs for trial in peers.trials(scale_named("long"))}
    assert (longer["SimCLR"], longer["CARE"]) == (200, 100)
    moco = find("method", "mocov2")
    plan = view_plan(SMALL.config("cifar10", method="mocov2"), 256)
    assert views_cost(plan, moco, moco.Settings()) == pytest.approx(1 + 1 / 3)


def test_one_recipe_for_all_and_the_loss_of_each_its_own(monkeypatch):
    before = {trial.slug for trial in first_trials(peers).values()}
    recipe = {"optimizer": "sgd", "learning_rate": 0.12, "batch_size": 512, "epochs": 50, "temperature": 0.3}
    monkeypatch.setattr(peers, "RECIPE", recipe)
    changed = changed_trials()
    found = {label: trial.config.flat() for label, trial in changed.items()}
    assert {(c["optimizer"], c["learning_rate"]) for c in found.values()} == {("sgd", 0.12)}
    assert [found[label]["batch_size"] for label in ("SimCLR", "CARE", "E-SSL")] == [512, 256, 352]
    own = {"MoCo-v3": 0.2, "MoCo-v3, keep hue": 0.2, "DCL": 0.1}
    for label, config in found.items():
        assert config["temperature"] == own.get(label.removesuffix(peers.SMALLER), 0.3)
    assert (found["SimCLR"]["epochs"], found["CARE"]["epochs"]) == (50, 25)
    assert not before & {trial.slug for trial in changed.values()}
    assert {t.config.epochs for t in peers.trials(scale_named("smoke")) if t.label == "CARE"} == {1}


def test_weights_that_were_chosen_are_trained_with(monkeypatch):
    usual = {label: c.config.flat() for label, c in first_trials(peers).items()}
    assert {label: usual[label][name] for label, name in peers.WEIGHTS.items()} == {
        "Hard negatives": 1, "AugSelf": 0.05, "EquiMod": 1, "E-SSL": 0.4, "Steerable": 1, "DUET": 10, "LooC": 1,
        "STL": 1, "SIE": 4.5, "CARE": 3, "CARE, all views compared": 3,
    }  # fmt: skip
    monkeypatch.setattr(peers, "CHOSEN", {"AugSelf": 7.0, "CARE": 5.0})
    found = {label: c.config.flat() for label, c in changed_trials().items()}
    changed = {label for label in found if found[label] != usual[label]}
    assert changed == {"AugSelf", "AugSelf, 24 px", "CARE", "CARE, 24 px"}
    assert (found["AugSelf"]["augself_weight"], found["CARE"]["care_weight"]) == (7, 5)
    assert found["AugSelf, 24 px"]["augself_weight"] == 7


def test_every_weight_is_tried_on_validation_images_at_equal_compute():
    trials = trials_of(peers_weights)
    assert {t.config.validation for t in trials} == {500}
    assert [t.label for t in trials if t.label.startswith("E-SSL")] == ["E-SSL, 0.133", "E-SSL, 0.4", "E-SSL, 1.2"]
    assert len(trials) == 1 + 3 * len(peers.WEIGHTS) == len({t.slug for t in trials})
    assert all(abs(t.config.epochs * t.config.views_a_step - 20) <= 2 for t in trials)
    assert not any(t.transfer for t in trials)


def test_the_rule_takes_what_keeps_most_among_those_as_good_as_the_best():
    """One standard error of 80 % of 5,000 images is 0.57 points: 79.5 % is as good as 80 %, 79.4 % is not."""
    trials = {t.label: t for t in trials_of(peers_weights)}
    small, usual, large = (trials[f"AugSelf, {weight}"] for weight in ("0.0167", "0.05", "0.15"))

    def chosen(*numbers):
        planted = [outcome(t, *pair) for t, pair in zip((small, usual, large), numbers, strict=True)]
        (weights,) = peers_weights.by_method(planted).values()
        return peers_weights.chosen(weights)

    assert chosen((0.80, 0.1), (0.795, 0.3), (0.70, 0.9)) == 0.05
    assert chosen((0.80, 0.1), (0.794, 0.3), (0.70, 0.9)) == 0.0167
    assert chosen((0.70, 0.9), (0.795, 0.2), (0.80, 0.3)) == 0.15
    assert chosen((0.80, 0.4), (0.80, float("nan")), (0.80, 0.1)) == 0.0167


def test_what_is_chosen_can_be_put_into_the_study():
    trials = {t.label: t for t in trials_of(peers_weights)}
    labels = ("SimCLR", "AugSelf, 0.0167", "AugSelf, 0.05", "AugSelf, 0.15", "CARE, 3", "CARE, all views compared, 3")
    planted = [outcome(trials[label], 0.8, 0.1 * i) for i, label in enumerate(labels)]
    presented = STUDIES["peers-weights"].present(planted)
    assert presented.remarks == (
        "AugSelf: augself_weight 0.15, at the edge of what was tried.",
        "CARE: 1 of 3 weights are done, none is chosen.",
        "CARE, all views compared: 1 of 3 weights are done, none is chosen.",
        "CHOSEN = {'AugSelf': 0.15}",
    )
    assert [row[0] for row in presented.rows] == list(labels)
    (ax,) = presented.figures["peers-weights"].axes
    assert {text.get_text() for text in ax.texts} == {"AugSelf", "CARE", "CARE, all views compared", "SimCLR"}


def test_the_table_shows_transfer_where_it_was_measured():
    trials = first_trials(peers)
    planted = [outcome(trials["SimCLR"], 0.8, 0.1, flowers=0.345), outcome(trials["CARE"], 0.8, 0.1)]
    presented = STUDIES["peers"].present(planted)
    column = presented.header.index("Flowers-102 %")
    assert [row[column] for row in presented.rows] == ["34.50", "–"]
    assert {"peers", "peers-flowers102"} == set(presented.figures)
    said = [remark for remark in presented.remarks if "was not prepared" in remark]
    assert [(s.split()[0], s.rpartition(": ")[2]) for s in said] == [
        ("Flowers-102", "CARE."), ("CIFAR-100", "SimCLR, CARE."),
    ]  # fmt: skip
    assert trials["SimCLR"].transfer == ("flowers102", "cifar100")
    assert trials["SimCLR"].measures.probe == "none"


def test_on_cifar100_nothing_is_changed_but_the_data():
    trials, before = first_trials(peers_cifar100), first_trials(peers)
    assert list(trials) == [label for label in before if label in peers_cifar100.LABELS]
    for label, trial in trials.items():
        assert trial.config.replace(data="cifar10") == before[label].config
        assert trial.measures == before[label].measures
        assert trial.transfer == ("flowers102", "cifar10")
    presented = STUDIES["peers-cifar100"].present([outcome(trials["SimCLR"], 0.5, 0.1, flowers=0.4)])
    assert {"Flowers-102 %", "CIFAR-10 %"} <= set(presented.header)
    assert set(presented.figures) == {"peers-cifar100", "peers-cifar100-flowers102"}


def test_on_flowers_only_the_data_the_network_and_the_length_are_others():
    """Settings of methods are those on CIFAR-10; as many pixels go through the network, in as many steps. MoCo-v3 has
    SimCLR's head: its published one is larger than this network."""
    before, shown = first_trials(peers), {label + peers.SMALLER for label in peers_flowers.LABELS}
    trials = first_trials(peers_flowers)
    assert set(trials) == shown
    others = {"data", "split", "validation", "model", "size", "epochs", "batch_size"}
    for label, trial in trials.items():
        own, theirs = trial.config.flat(), before[label].config.flat()
        head = {"embedding_dim", "head_width", "head_last_batchnorm"} if label.startswith("MoCo") else set()
        assert {name for name in own if own[name] != theirs[name]} == others | head
        pixels = trial.config.views_a_step * trial.config.batch_size
        assert pixels == pytest.approx(2 * 144, rel=0.09)
        assert pixels / trial.config.batch_size * trial.config.epochs == pytest.approx(2 * 30, rel=0.02)
    presented = STUDIES["peers-flowers"].present([outcome(trials["SimCLR, 24 px"], 0.5, 0.1)])
    assert set(presented.figures) == {"peers-flowers"}
    assert presented.header[1:4] == ["views a step", "samples/s", "tuned probe %"]


def test_differences_are_of_what_has_several_seeds():
    """Every quantity of a method with three of them, paired by seed; one seed decides nothing, and is named once."""
    alone = ("DCL", "CARE, split: hue, from the middle")
    three = {label: [t for t in trials_of(peers) if t.label == label] for label in ("SimCLR", "AugSelf")}
    done = [outcome(t, 0.80 + 0.01 * k, 0.1, 0.5) for k, t in enumerate(three["SimCLR"])]
    done += [outcome(t, 0.82 + 0.015 * k, 0.7, 0.6) for k, t in enumerate(three["AugSelf"])]
    done += [outcome(first_trials(peers)[label], 0.9, 0.1, 0.5) for label in alone]
    said = peers.present(done).remarks
    assert said[0].startswith("Tuned probe: AugSelf +2.5 points against SimCLR (95 %: +1.26 to +3.74, Student")
    measured = ["kNN-200", "Flowers-102", "R² of hue by a network"]  # not CIFAR-100, nor neighbors of z
    assert [remark.partition(":")[0] for remark in said[1:4]] == measured
    assert said[4] == "One seed, which decides nothing: DCL; CARE, split: hue, from the middle."


def compared_probes(planted):
    """What is said of the tuned probes of labels with these, in three seeds of each."""
    done = [outcome(t, planted[t.label] + 0.001 * t.config.seed, 0.1) for t in trials_of(peers) if t.label in planted]
    return [said.split(" (")[0] for said in peers.present(done).remarks if said.startswith("Tuned probe")]


def test_what_is_kept_is_also_compared_with_as_many_views_alone_and_with_peers():
    planted = {"SimCLR": 0.80, "SimCLR, four views": 0.82, "keep hue": 0.83, "AugSelf": 0.81}
    assert compared_probes(planted) == [
        "Tuned probe: SimCLR, four views +2 points against SimCLR",
        "Tuned probe: keep hue +3 points against SimCLR",
        "Tuned probe: AugSelf +1 points against SimCLR",
        "Tuned probe: keep hue +1 points against SimCLR, four views",
        "Tuned probe: keep hue +2 points against AugSelf",
    ]


def test_methods_are_compared_at_the_same_size_of_views():
    """With smaller views against SimCLR with smaller views, and every size of a method against the other."""
    planted = {"SimCLR": 0.80, "AugSelf": 0.81, "SimCLR, 24 px": 0.84, "AugSelf, 24 px": 0.86}
    assert compared_probes(planted) == [
        "Tuned probe: AugSelf +1 points against SimCLR",
        "Tuned probe: AugSelf, 24 px +2 points against SimCLR, 24 px",
        "Tuned probe: AugSelf, 24 px +5 points against AugSelf",
        "Tuned probe: SimCLR, 24 px +4 points against SimCLR",
    ]


def test_of_smaller_views_alone_nothing_is_said_of_others():
    planted = {"SimCLR, 24 px": 0.84, "AugSelf, 24 px": 0.86, "keep hue, 24 px": 0.85}
    assert compared_probes(planted) == [
        "Tuned probe: keep hue, 24 px +1 points against SimCLR, 24 px",
        "Tuned probe: AugSelf, 24 px +2 points against SimCLR, 24 px",
        "Tuned probe: keep hue, 24 px -1 points against AugSelf, 24 px",
    ]
    trials = first_trials(peers)
    for labels, across in ((planted, "R² of hue, by a network → "), ((*planted, "DCL"), "○ trained on views of 32 px")):
        presented = peers.present([outcome(trials[label], 0.8, 0.1) for label in labels])
        assert across in presented.figures["peers"].axes[0].get_xlabel()
        assert ("○" in across) == ("○" in presented.figures["peers"].axes[0].get_xlabel())
        assert not any("not both done" in remark for remark in presented.remarks)


def test_smaller_views_put_as_many_pixels_through_the_network_in_as_many_steps():
    found = {label: trial.config for label, trial in first_trials(peers).items()}
    at_full_size = [label for label in found if not label.endswith(peers.SMALLER)]
    assert len(found) == 2 * len(at_full_size)
    for label in at_full_size:
        large, small = found[label], found[label + peers.SMALLER]
        assert small.train_size == 24
        assert small.views_a_step == pytest.approx(large.views_a_step * (24 / 32) ** 2)
        assert small.epochs * small.views_a_step == pytest.approx(large.epochs * large.views_a_step, rel=0.03)
        assert small.batch_size * small.views_a_step == pytest.approx(large.batch_size * large.views_a_step, rel=0.13)
