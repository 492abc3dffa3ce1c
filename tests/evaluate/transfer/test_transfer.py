"""Transfer of planted features: what is known of the labels beforehand is found, and nothing is fitted to test."""

import json

import pytest
import torch
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

from care.augment import ImagePolicy
from care.data import Samples
from care.evaluate import Downstream, Transfer, measure_transfer
from care.evaluate.transfer.classifier import fit_classifier
from care.evaluate.transfer.downstream import check_names, load_downstream
from care.evaluate.transfer.labels import accuracies, class_weights, stratified
from care.evaluate.transfer.result import transfer_figure_of, transfer_quantities, transfer_table

POLICY = ImagePolicy(size=4)
CLASSES = tuple("abcdef")


def pictures(n, seed, noise=25.0, weights=(1, 1, 1, 1, 1, 1)):
    """Plain pictures of six gray levels, 40 apart, with noise, in classes of these relative sizes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor(weights, dtype=torch.float), n, replacement=True, generator=generator)
    levels = 25 + 40 * labels + noise * torch.randn(n, generator=generator)
    images = levels.clamp(0, 255).to(torch.uint8)[:, None, None, None].expand(-1, 3, 4, 4).contiguous()
    return Samples(images, labels, CLASSES, name="levels")


def levels(images):
    """The gray level, and a number that tells nothing of it."""
    level = images[:, :1, 0, 0]
    return torch.cat([level, torch.cos(1e4 * level)], dim=1)


@pytest.fixture(scope="module")
def downstream():
    return Downstream("levels", pictures(300, 0), pictures(200, 1), pictures(100, 2))


@pytest.fixture(scope="module")
def measured(downstream):
    return measure_transfer(levels, [downstream], POLICY, tasks=100, name="by level")


def bayes(samples):
    """The accuracy of the best rule: the nearest level."""
    nearest = ((samples.inputs[:, 0, 0, 0].float() - 25) / 40).round().clamp(0, 5)
    return (nearest == samples.labels).double().mean().item()


def test_the_best_rule_is_found(measured, downstream):
    found = measured.data["levels"]
    assert found["all_labels"]["top1"] == pytest.approx(bayes(downstream.test), abs=0.06)
    assert found["all_labels"]["penalty"] > 0
    assert 0.15 < found["few_labels"]["1 %"]["top1_mean"] <= found["few_labels"]["10 %"]["top1_mean"] + 0.05
    assert found["few_labels"]["10 %"]["top1_mean"] <= found["all_labels"]["top1"] + 0.02
    assert 0.2 < found["few_shot"]["1"]["logistic"]["mean"] < found["few_shot"]["5"]["logistic"]["mean"]


def test_numbers_are_those_of_the_arrays(measured):
    found, arrays = measured.data["levels"], measured.arrays
    labels, correct = arrays["levels/labels"], arrays["levels/all"]
    assert found["all_labels"]["top1"] == pytest.approx(correct.double().mean().item())
    tasks = arrays["levels/5-shot/logistic"]
    assert len(tasks) == 100
    assert found["few_shot"]["5"]["logistic"]["interval"] == pytest.approx(1.96 * tasks.numpy().std() / 10)
    for name, few in found["few_labels"].items():
        by_seed = arrays[f"levels/{name}"].double().mean(1)
        assert few["top1"] == pytest.approx(by_seed.tolist())
        assert few["top1_std"] == pytest.approx(by_seed.numpy().std(ddof=1))
    assert len(labels) == len(correct) == 200


def test_few_labels_are_few():
    train = pictures(1050, 3, weights=(30, 30, 20, 10, 9, 1))
    few = measure_transfer(levels, [Downstream("levels", train, pictures(50, 4))], POLICY, tasks=0)
    found = few.data["levels"]["few_labels"]
    counts = torch.bincount(train.labels)
    assert found["10 %"]["images"] == sum(max(1, round(0.1 * n)) for n in counts.tolist())
    assert found["1 %"]["images"] == sum(max(1, round(0.01 * n)) for n in counts.tolist())
    assert found["1 %"]["validation"] == [None] * 3  # too few rows to hold any out
    assert all(found["10 %"]["validation"])


def test_labels_of_test_change_nothing_but_the_score(downstream):
    """The predictions on a permuted test split are those on the test split, permuted."""
    order = torch.randperm(200, generator=torch.Generator().manual_seed(5))
    other = Downstream("levels", downstream.train, downstream.test.take(order), downstream.validation)
    found = [measure_transfer(levels, [one], POLICY, tasks=0).arrays for one in (downstream, other)]
    for name in ("levels/all", "levels/10 %"):
        assert torch.equal(found[0][name][..., order], found[1][name])


def test_validation_chooses_and_is_then_fitted_to():
    """The accuracy that chose is on rows not fitted to, whose labels contradict the others; afterwards they count."""
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(200, 2, generator=generator), torch.arange(200) % 2
    X[:, 0] += 8 * y
    heldout = torch.arange(200) < 150
    flipped = fit_classifier(X, torch.where(heldout, 1 - y, y), heldout)
    assert flipped.validation < 0.55
    assert (flipped.predict(X) == y).double().mean() < 0.1  # three quarters of all rows are flipped


def test_with_few_rows_the_penalty_is_one_for_unit_length():
    generator = torch.Generator().manual_seed(0)
    X, y = 7 * torch.randn(30, 5, generator=generator) + 3, torch.arange(30) % 3
    few = fit_classifier(X, y, stratified(y, 0.2, 0, leave_one=True))
    assert few.validation is None
    assert few.penalty == pytest.approx((X - X.mean(0)).square().sum(1).mean().item(), rel=1e-5)


def test_stratified_parts_are_those_of_scikit_learn_in_size():
    labels = pictures(1000, 0, weights=(30, 30, 20, 10, 5, 5)).labels
    chosen = stratified(labels, 0.2, 0, "x")
    _, theirs = train_test_split(labels.numpy(), test_size=0.2, stratify=labels.numpy(), random_state=0)
    ours, theirs = torch.bincount(labels[chosen]), torch.bincount(torch.from_numpy(theirs))
    assert ((ours - theirs).abs() <= 1).all()
    assert torch.equal(chosen, stratified(labels, 0.2, 0, "x"))
    assert not torch.equal(chosen, stratified(labels, 0.2, 1, "x"))
    single = torch.tensor([0, 1, 1, 2, 2, 2])
    assert torch.bincount(single[stratified(single, 0.01, 0)]).tolist() == [1, 1, 1]
    assert torch.bincount(single[stratified(single, 0.9, 0, leave_one=True)]).tolist() == [0, 1, 2]


def test_mean_per_class_is_scikit_learns_balanced_accuracy():
    labels = pictures(500, 0, weights=(30, 30, 20, 10, 5, 5)).labels
    guesses = torch.where(torch.arange(500) % 3 == 0, 0, labels)
    found = accuracies(guesses == labels, labels)
    assert found["mean_per_class"] == pytest.approx(balanced_accuracy_score(labels.numpy(), guesses.numpy()))
    assert class_weights(labels).mean().item() == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "measure"),
    [("flowers102", "mean_per_class"), ("oxford-pets", "mean_per_class"), ("cifar10", "top1"), ("carpets", "top1")],
)
def test_what_is_customary(name, measure):
    train, test = pictures(60, 0), pictures(60, 1)
    assert Downstream(name, train, test).customary == measure


def test_a_table_over_models_and_data_sets(downstream):
    flowers = Downstream("flowers", downstream.train, pictures(40, 3))
    one = measure_transfer(levels, [downstream, flowers], POLICY, tasks=5, few_labels=False)
    found = {"levels": one, "same": one}
    table = transfer_table(found)
    assert "levels: 6 classes, top-1" in table
    assert "flowers: 6 classes, mean per class" in table
    top1, per_class = (found["levels"].data[name]["all_labels"] for name in ("levels", "flowers"))
    assert f"{100 * top1['top1']:.2f} %" in table
    assert f"{100 * per_class['mean_per_class']:.2f} %" in table
    assert one.left_out() == [
        "flowers: tasks of 5 ways and 1 shots need 5 classes of 17 images each: there are 0",
    ]
    figure = transfer_figure_of(found)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["levels (top-1)", "flowers (mean per class)"]


def test_saved_and_read_again(measured, tmp_path):
    measured.save(tmp_path)
    again = Transfer.load(tmp_path)
    assert again.record == json.loads(json.dumps(measured.record))
    assert str(again) == str(measured)
    (tmp_path / "transfer.json").write_text((tmp_path / "transfer.json").read_text().replace("by level", "by lovel"))
    with pytest.raises(ValueError, match=r"transfer.json is damaged.*run care transfer again"):
        Transfer.load(tmp_path)
    with pytest.raises(ValueError, match=r"nowhere holds no transfer: transfer.json is missing, care transfer makes"):
        Transfer.load(tmp_path / "nowhere")


def test_quantities_are_means_of_their_units(measured, downstream):
    flowers = measure_transfer(levels, [Downstream("flowers", downstream.train, downstream.test)], POLICY, tasks=5)
    for one, count in ((measured, 5), (flowers, 5)):
        found = transfer_quantities(one)
        assert len(found) == count
        for quantity in found:
            assert quantity.units.mean().item() == pytest.approx(quantity.value), quantity.name


def test_mistakes_take_a_sentence(downstream, tmp_path):
    unlabeled = Samples(downstream.test.inputs, torch.full((200,), -1), CLASSES)
    with pytest.raises(ValueError, match="levels has samples without a class in test: there is nothing to classify"):
        Downstream("levels", downstream.train, unlabeled)
    other = Samples(downstream.test.inputs, downstream.test.labels, tuple("ABCDEF"))
    with pytest.raises(ValueError, match="other classes in test than in train"):
        Downstream("levels", downstream.train, other)
    with pytest.raises(ValueError, match="levels is given twice"):
        check_names([downstream, downstream])
    with pytest.raises(ValueError, match="at least one data set"):
        measure_transfer(levels, [])
    with pytest.raises(ValueError, match="no data set is called"):
        load_downstream("nowhere", root=tmp_path)


def test_generated_data_sets_have_no_validation_split():
    chains = load_downstream("chains", images=30)
    assert (chains.validation, len(chains.train), len(chains.test)) == (None, 30, 30)
