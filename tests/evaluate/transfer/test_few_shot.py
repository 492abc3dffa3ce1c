"""Few-shot tasks: drawn as they should be, and solved as scikit-learn solves each of them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from care.evaluate.transfer import few_shot as module
from care.evaluate.transfer.few_shot import QUERIES, WAYS, draw_tasks, few_shot, too_few_images


def clusters(generator, sizes, d=12, noise=1.0):
    """Rows around a random center per class, with so many rows of each class, in a random order."""
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    centers = torch.randn(len(sizes), d, generator=generator)
    return centers[labels] + noise * torch.randn(len(labels), d, generator=generator), labels


def drawn(labels, shots, tasks, seed=0):
    """The tasks that `few_shot` draws."""
    generator = module.generator_for("cpu", seed, "few-shot", shots)
    return draw_tasks(*module._members(labels, shots + QUERIES), tasks, shots, generator)


@pytest.mark.parametrize("shots", [1, 5])
@pytest.mark.parametrize("d", [3, 40])
def test_every_task_is_solved_as_scikit_learn_solves_it(shots, d, generator):
    """With fewer features than images, and with more."""
    features, labels = clusters(generator, [22] * 6, d, noise=0.7)
    found = few_shot(features, labels, shots, tasks=4)
    unit = F.normalize(features.double()).numpy()
    for task, rows in enumerate(drawn(labels, shots, 4)):
        support, queries = (part.flatten().numpy() for part in rows.split([shots, QUERIES], dim=1))
        y, answers = np.arange(WAYS).repeat(shots), np.arange(WAYS).repeat(QUERIES)
        logistic = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-10).fit(unit[support], y)
        assert logistic.score(unit[queries], answers) == pytest.approx(found["logistic"][task].item())
        means = unit[support].reshape(WAYS, shots, d).mean(1)
        centroid = KNeighborsClassifier(1).fit(means, np.arange(WAYS))
        assert centroid.score(unit[queries], answers) == pytest.approx(found["centroid"][task].item())


def test_probabilities_are_those_of_scikit_learn(generator):
    unit = F.normalize(torch.randn(3, 25 + 80, 16, generator=generator).double(), dim=2)
    support, queries = unit[:, :25], unit[:, 25:]
    scores = module.logistic_scores(support @ support.mT, queries @ support.mT)
    for task in range(3):
        theirs = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12)
        theirs.fit(support[task].numpy(), np.arange(5).repeat(5))
        ours = scores[task].softmax(1).numpy()
        np.testing.assert_allclose(ours, theirs.predict_proba(queries[task].numpy()), atol=1e-5)


def test_tasks_have_different_classes_and_different_images(generator):
    _, labels = clusters(generator, [21, 21, 30, 5, 40, 25, 20, 22])
    rows = drawn(labels, 5, 200)
    classes = labels[rows]
    assert rows.shape == (200, WAYS, 5 + QUERIES)
    assert (classes == classes[:, :, :1]).all()
    assert all(len(set(of_task[:, 0].tolist())) == WAYS for of_task in classes)
    assert all(len(set(of_task.flatten().tolist())) == rows[0].numel() for of_task in rows)
    assert set(classes.unique().tolist()) == {0, 1, 2, 4, 5, 7}  # the others have fewer than 21 images
    assert len(rows.unique()) == 21 + 21 + 30 + 40 + 25 + 22


def test_classes_and_images_are_drawn_equally_often(generator):
    """Within four standard deviations of what 2,000 fair draws give."""
    _, labels = clusters(generator, [17, 40, 17, 17, 17, 17, 17, 17, 17, 17])
    classes = labels[drawn(labels, 1, 2000)][:, :, 0]
    assert ((torch.bincount(classes.flatten()) - 1000).abs() < 4 * (2000 * 0.25) ** 0.5).all()


def test_chance_and_certainty(generator):
    features, labels = clusters(generator, [20] * 5)
    for name, accuracy in few_shot(torch.randn(100, 8, generator=generator), labels, 1, tasks=200).items():
        assert accuracy.mean().item() == pytest.approx(0.2, abs=0.03), name
    for name, accuracy in few_shot(F.one_hot(labels).float(), labels, 1, tasks=20).items():
        assert accuracy.min() == 1, name
    both = few_shot(features, labels, 1, tasks=30), few_shot(features, labels, 1, tasks=30)
    assert torch.equal(both[0]["logistic"], both[1]["logistic"])


def test_too_few_images_or_classes_are_said_in_a_sentence(generator):
    _, labels = clusters(generator, [20, 20, 20, 20, 20])
    assert too_few_images(labels, 1) is None
    assert too_few_images(labels, 5) == "tasks of 5 ways and 5 shots need 5 classes of 21 images each: there are 0"
    with pytest.raises(ValueError, match="need 5 classes of 17 images each: there are 4"):
        few_shot(torch.zeros(80, 2), torch.arange(4).repeat(20), 1)
