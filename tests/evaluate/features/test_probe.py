import dataclasses
import json
import statistics

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import nn

from care.evaluate.features.logistic import logistic_regression
from care.evaluate.features.probe import (
    IMAGENET100,
    PAPER,
    ProbeResult,
    Probes,
    Protocol,
    evaluate_probes,
    linear_probe,
    shuffled_batches,
    train_probes,
)

ADAM = Protocol("adam", (1e-3, 3e-2), weight_decay=1e-2, epochs=4, batch_size=16, seeds=(3, 0, 7))
SGD = Protocol("sgd", (0.5, 30.0), 1e-3, epochs=6, batch_size=16, milestones=(2, 4), decay=0.3, seeds=(3, 0, 7))


def clusters(generator, n=100, d=6, classes=3, noise=1.0, dtype=torch.float64):
    """Rows of classes in turn, around random centers; even rows of every class are as good as odd ones."""
    labels = torch.arange(n) % classes
    centers = torch.randn(classes, d, generator=generator, dtype=dtype)
    return centers[labels] + noise * torch.randn(n, d, generator=generator, dtype=dtype), labels


def halves(features, labels, m):
    return features[:-m], labels[:-m], features[-m:], labels[-m:]


def untrained(protocol, d, classes):
    """The probes before training: a step of 1e-300 is lost in rounding."""
    frozen = dataclasses.replace(protocol, learning_rates=(1e-300,), epochs=1, milestones=(), weight_decay=0.0)
    zero = torch.zeros(len(protocol.seeds), 1, d, dtype=torch.float64)
    batches = lambda epoch: [(zero, torch.zeros(len(protocol.seeds), 1, dtype=torch.int64))]  # noqa: E731
    return train_probes(batches, d, classes, frozen, seed=5, dtype=torch.float64)


def trained_alone(protocol, rate, start, batches):
    """One probe, as anyone would train it."""
    linear = nn.Linear(*start[0].shape, dtype=torch.float64)
    linear.load_state_dict({"weight": start[0].mT, "bias": start[1]})
    settings = {"lr": rate, "weight_decay": protocol.weight_decay}
    optimizer = (
        torch.optim.Adam(linear.parameters(), **settings)
        if protocol.optimizer == "adam"
        else torch.optim.SGD(linear.parameters(), momentum=protocol.momentum, **settings)
    )
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, protocol.milestones, protocol.decay)
    for epoch in batches:
        for features, labels in epoch:
            optimizer.zero_grad()
            F.cross_entropy(linear(features), labels).backward()
            optimizer.step()
        schedule.step()
    return linear


@pytest.mark.parametrize("protocol", [ADAM, SGD], ids=["adam", "sgd"])
def test_all_at_once_is_each_alone(protocol, generator):
    features, labels = clusters(generator)
    features = 20 * features + 5
    stream = shuffled_batches(features, labels, protocol, seed=5)
    probes, start = train_probes(stream, 6, 3, protocol, seed=5, dtype=torch.float64), untrained(protocol, 6, 3)
    for i, rate in enumerate(protocol.learning_rates):
        for j in range(len(protocol.seeds)):
            batches = [[(x[j], y[j]) for x, y in stream(epoch)] for epoch in range(protocol.epochs)]
            alone = trained_alone(protocol, rate, (start.weight[0, j], start.bias[0, j]), batches)
            torch.testing.assert_close(probes.weight[i, j], alone.weight.mT, rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(probes.bias[i, j], alone.bias, rtol=1e-9, atol=1e-11)


def test_seeds_may_share_batches(generator):
    features, labels = clusters(generator)
    shared = lambda epoch: zip(features.split(30), labels.split(30), strict=True)  # noqa: E731
    repeated = lambda epoch: ((x.expand(3, -1, -1), y.expand(3, -1)) for x, y in shared(epoch))  # noqa: E731
    ours, reference = (train_probes(batches, 6, 3, ADAM, dtype=torch.float64) for batches in (shared, repeated))
    torch.testing.assert_close(ours.weight, reference.weight)
    assert (ours.weight[0, 0] - ours.weight[0, 1]).abs().max() > 0.01


def test_start_is_that_of_a_linear_layer():
    start = untrained(dataclasses.replace(PAPER, seeds=tuple(range(50))), 100, 10)
    for values in (start.weight, start.bias):
        assert values.abs().max() <= 0.1
        assert values.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.1)
        assert len(values.unique()) == values.numel()


def test_every_epoch_visits_every_row_once_in_an_order_of_its_own():
    n, protocol = 50, Protocol(batch_size=16, seeds=(0, 1))
    stream = shuffled_batches(torch.arange(n)[:, None].double(), torch.arange(n), protocol)
    orders = []
    for epoch in range(2):
        batches = list(stream(epoch))
        assert [labels.shape[1] for _, labels in batches] == [16, 16, 16, 2]
        assert all(torch.equal(features[:, :, 0].long(), labels) for features, labels in batches)
        orders += list(torch.cat([labels for _, labels in batches], dim=1))
    assert all(torch.equal(order.sort().values, torch.arange(n)) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 4
    other = next(iter(shuffled_batches(torch.ones(n, 1), torch.arange(n), protocol, seed=1)(0)))[1]
    assert not torch.equal(other[0], orders[0][:16])


def test_converges_to_logistic_regression(generator):
    features, labels = clusters(generator, n=800, noise=1.5)
    rows = halves(features * torch.tensor([1, 3, 10, 1, 1, 1]) + 3, labels, 400)
    protocol = Protocol(learning_rates=(0.1,), weight_decay=0.0, epochs=500, milestones=(300, 400), seeds=(0, 1))
    probes = train_probes(shuffled_batches(*rows[:2], protocol), 6, 3, protocol, dtype=torch.float64)
    result = ProbeResult(protocol.learning_rates, 0, *evaluate_probes(probes, *rows[2:]))
    ours = logistic_regression(*rows[:2], penalty=1e-6)
    theirs = LogisticRegression(C=1e6, max_iter=1000).fit(rows[0].numpy(), rows[1].numpy())
    for weight, bias in zip(probes.weight[0], probes.bias[0], strict=True):
        probabilities = (rows[2] @ weight + bias).softmax(1)
        torch.testing.assert_close(probabilities, ours.scores(rows[2]).softmax(1), rtol=0, atol=2e-3)
    accuracy = theirs.score(rows[2].numpy(), rows[3].numpy())
    assert 0.6 < accuracy < 0.95
    assert result.top1 == pytest.approx((accuracy, accuracy), abs=1.5 / 400)


def test_separable_features_give_all(generator):
    rows = halves(*clusters(generator, n=600, d=20, noise=0.05, dtype=torch.float32), 300)
    result = linear_probe(*rows, dataclasses.replace(PAPER, learning_rates=(1e-2,), epochs=50, batch_size=64))
    assert result.top1 == result.top5 == (1.0,) * 5


@pytest.mark.parametrize("unseen", [0, 2, 5])
def test_a_class_without_training_rows_counts_as_wrong(unseen, generator):
    labels = torch.tensor([k for k in range(3) if k != unseen]).repeat(20)
    features = torch.eye(6)[labels]
    test_labels = torch.cat([labels[:4], torch.tensor([unseen])])
    found = linear_probe(
        features, labels, torch.eye(6)[test_labels], test_labels, Protocol(learning_rates=(0.1,), epochs=50)
    )
    assert found.correct[found.chosen].all(0).tolist() == [True] * 4 + [False]


def test_labels_without_relation_to_features_give_chance(generator):
    features = torch.randn(4000, 5, generator=generator)
    labels = torch.randint(10, (4000,), generator=generator)
    result = linear_probe(*halves(features, labels, 2000), Protocol(epochs=10, seeds=(0,)))
    assert result.mean == pytest.approx(0.1, abs=4 * (0.1 * 0.9 / 2000) ** 0.5)
    assert result.top5[0] == pytest.approx(0.5, abs=4 * (0.5 * 0.5 / 2000) ** 0.5)


def test_a_seed_means_the_same_bits_in_any_company(generator):
    rows = halves(*clusters(generator, noise=3.0, dtype=torch.float32), 50)
    several = linear_probe(*rows, dataclasses.replace(PAPER, epochs=3, batch_size=8, seeds=(0, 1, 2)), seed=4)
    again = linear_probe(*rows, dataclasses.replace(PAPER, epochs=3, batch_size=8, seeds=(2, 0, 1)), seed=4)
    other = linear_probe(*rows, dataclasses.replace(PAPER, epochs=3, batch_size=8, seeds=(0, 1, 2)), seed=5)
    assert torch.equal(several.correct[:, [2, 0, 1]], again.correct)
    assert not torch.equal(several.correct, other.correct)
    stream = shuffled_batches(rows[0], rows[1], ADAM)
    first, second = (train_probes(stream, 6, 3, ADAM) for _ in range(2))
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(first.bias, second.bias)


def test_learning_rate_is_chosen_without_the_test_rows(generator):
    features, labels = clusters(generator, n=1000, noise=1.0)
    train_features, train_labels, test_features, test_labels = halves(features, labels, 300)
    protocol = Protocol(learning_rates=(1e-6, 1e-2, 1e-5), epochs=5, batch_size=64, seeds=(0, 1))
    result = linear_probe(train_features, train_labels, test_features, test_labels, protocol)
    assert result.chosen == 1
    wrong = (test_labels + 1) % 3
    misled = linear_probe(train_features, train_labels, test_features, wrong, protocol)
    assert misled.chosen == 1
    assert misled.mean < 0.3 < result.mean
    alone = linear_probe(
        train_features, train_labels, test_features, test_labels, dataclasses.replace(protocol, learning_rates=(1e-2,))
    )
    assert torch.equal(result.correct[1:2], alone.correct)


def test_learning_rate_is_chosen_on_every_tenth_row_of_each_class(generator):
    # One rate follows the features, the other hardly leaves its random start. Rows that are held out have their labels
    # moved on by one class, so that only the probe that ignores the features is not wrong there. There are features
    # enough to learn those rows by heart, were they trained on.
    features, labels = clusters(generator, n=600, d=1000)
    place = torch.arange(600) // 3
    labels = torch.where(place % 10 == 1, (labels + 1) % 3, labels)
    protocol = Protocol(learning_rates=(1e-2, 1e-7), epochs=10, batch_size=64, seeds=(0, 1))
    result = linear_probe(features, labels, features, labels, protocol)
    assert result.chosen == 1
    unmoved = linear_probe(features, torch.arange(600) % 3, features, labels, protocol)
    assert unmoved.chosen == 0


def test_progress_covers_all_passes(generator):
    rows = halves(*clusters(generator), 50)
    calls = []
    linear_probe(*rows, ADAM, tick=lambda done, total: calls.append((done, total)))
    assert calls == [(done, 8) for done in range(1, 9)]
    calls.clear()
    linear_probe(*rows, Protocol(epochs=2), tick=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


@pytest.mark.parametrize("classes", [3, 5, 20])
def test_guesses_in_blocks_are_those_of_sorted_scores(classes, generator, monkeypatch):
    monkeypatch.setattr("care.evaluate.features.probe.SCORES_AT_ONCE", 7 * 6 * classes + 1)
    weight = torch.randn(2, 3, 4, classes, generator=generator)
    bias = torch.randn(2, 3, classes, generator=generator)
    features, labels = torch.randn(50, 4, generator=generator), torch.randint(classes, (50,), generator=generator)
    correct, correct5 = evaluate_probes(Probes(weight, bias), features, labels)
    for i in range(2):
        for j in range(3):
            scores = F.linear(features, weight[i, j].mT, bias[i, j])
            better = (scores > scores.gather(1, labels[:, None])).sum(1)
            assert torch.equal(correct[i, j], better == 0)
            assert torch.equal(correct5[i, j], better < 5)


def test_result_in_numbers():
    correct = torch.tensor([[[1, 0, 0, 0], [0, 0, 0, 0]], [[1, 1, 1, 0], [1, 0, 0, 0]]]).bool()
    result = ProbeResult((0.1, 0.2), 1, correct, ~correct)
    assert result.top1 == (0.75, 0.25)
    assert result.top5 == (0.25, 0.75)
    assert result.mean == 0.5
    assert result.std == pytest.approx(statistics.stdev([0.75, 0.25]))
    assert ProbeResult((0.1,), 0, correct[:1, :1], correct[:1, :1]).std == 0
    numbers = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert numbers == {
        "top1": [0.75, 0.25], "mean": 0.5, "std": result.std, "top5": [0.25, 0.75],
        "chosen": 1, "learning_rates": [0.1, 0.2],
    }  # fmt: skip


def test_half_precision_features_are_probed_in_float32(generator):
    rows = halves(*clusters(generator, noise=2.0, dtype=torch.float32), 50)
    half = (rows[0].half(), rows[1], rows[2].half(), rows[3])
    full = (half[0].float(), rows[1], half[2].float(), rows[3])
    ours, reference = (linear_probe(*some, Protocol(epochs=3)) for some in (half, full))
    assert torch.equal(ours.correct, reference.correct)


def test_protocols_of_the_paper():
    assert (PAPER.optimizer, PAPER.learning_rates, PAPER.weight_decay) == ("adam", (1e-3,), 1e-6)
    assert (PAPER.epochs, PAPER.batch_size, PAPER.milestones, len(PAPER.seeds)) == (100, 512, (), 5)
    assert (IMAGENET100.optimizer, IMAGENET100.learning_rates, IMAGENET100.decay) == ("sgd", (30.0,), 0.1)
    assert (IMAGENET100.epochs, IMAGENET100.batch_size, IMAGENET100.milestones) == (60, 128, (30, 40, 50))
