"""`care.measure` on encoders whose response to augmentations is known beforehand."""

import json
import math

import pytest
import torch
from responding import FLIPS, clouds, flatten, lengths, pictures

import care
from care.augment import ImagePolicy, PointPolicy
from care.evaluate.effects.effect import effect_of, family_measures
from care.evaluate.effects.measurement import Measurement
from care.geometry import Euclidean, Minkowski, Symplectic, form_of


def scrambled(clouds):
    """An encoder whose output for a rotated cloud has nothing to do with that for the cloud."""
    W = torch.randn(24, 16, generator=torch.Generator().manual_seed(1))
    return torch.cos(1000 * clouds.flatten(1) @ W)


def test_an_equivariant_encoder_of_clouds_has_no_error():
    m = care.measure(flatten, clouds(), PointPolicy(), augmentations=3)
    for name in ("heldout_ratio", "composition_error", "gamma", "gram_error"):
        assert getattr(m, name).mean < 1e-9, name
    assert m.families["all"].heldout_linear.mean < 1e-6
    assert m.wahba.mean < 1e-3
    assert m.displacement.mean > 1
    assert m.families["all"].in_words() == "a rotation"


def test_an_encoder_that_scrambles_is_no_rotation():
    m = care.measure(scrambled, clouds(1000), PointPolicy(), augmentations=3)
    assert 0.95 < m.heldout_ratio.mean < 1.1
    assert 0.95 < m.composition_error.mean < 1.1
    assert m.families["all"].in_words() == "no rotation"


def test_an_encoder_that_sees_the_augmentation_and_not_the_image_is_called_that():
    """It encodes whether a picture is gray, and next to nothing else of it."""

    def is_gray(x):
        return torch.stack([x.std(1).mean((1, 2)), 0.3 + 0 * x[:, 0, 0, 0], 0.1 * x[:, 0, 0, 0]], dim=1)

    policy = ImagePolicy(size=12, kernel_size=1).only("gray").certain()
    pictures = torch.rand(400, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    gray = care.measure(is_gray, pictures, policy, augmentations=2).families["gray"]
    assert gray.heldout_ratio.mean < 0.05
    assert gray.unexplained.mean > 0.95
    assert gray.in_words() == "the same for all images"


def test_an_augmentation_that_sends_all_images_to_one_point_is_no_rotation_of_them():
    """It encodes the colors alone, so that all gray pictures are one point, which a rotation misses."""

    def colors(x):
        means = x.mean((2, 3))
        return torch.stack([means[:, 0] - means[:, 1], means[:, 1] - means[:, 2], 0.1 + 0 * means[:, 0]], dim=1)

    policy = ImagePolicy(size=12, kernel_size=1).only("gray").certain()
    tints = torch.rand(400, 3, 1, 1, generator=torch.Generator().manual_seed(0))
    gray = care.measure(colors, tints.expand(-1, -1, 12, 12), policy, augmentations=2).families["gray"]
    assert gray.displacement.mean > 0.5
    assert gray.unexplained.mean > 100
    assert gray.in_words() in ("the same for all images", "no rotation")


def test_a_dead_network_has_collapsed():
    m = care.measure(lambda x: 0 * x.flatten(1), pictures(60), FLIPS, augmentations=2)
    assert m.collapse["alignment"] == 0
    assert -1e-6 < m.collapse["gaussian_uniformity"] <= 0
    constant = care.measure(lambda x: 0 * x.flatten(1) + 0.3, pictures(60), FLIPS, augmentations=2).collapse
    assert constant["alignment"] >= 0
    assert -1e-6 < constant["gaussian_uniformity"] <= 0


def test_an_invariant_encoder_is_called_invariant():
    m = care.measure(lengths, clouds(), PointPolicy(), augmentations=3)
    assert math.isnan(m.heldout_ratio.mean)
    assert math.isnan(m.gamma.mean)
    assert m.families["all"].in_words() == "invariant"
    assert "invariant" in m.table()
    assert m.to_json()["families"]["all"]["heldout_ratio"] == [None] * 3
    assert m.heldout_ratio.mean != 0


def test_what_hardly_moves_has_no_ratio_and_outweighs_nothing():
    """Half of the blurs are of a width at which they change nothing that could be seen."""
    blurs = ImagePolicy(size=6, kernel_size=3, sigma=(0.01, 0.6)).only("blur").certain()
    m = care.measure(flatten, pictures(200), blurs, augmentations=12, families=False)
    moved = torch.tensor(m.displacement.values)
    assert 0 < (moved < 0.01).sum() < 12
    for measure in (m.gamma, m.heldout_ratio):
        assert torch.equal(torch.tensor(measure.values).isnan(), moved < 0.01)
    assert m.gamma.mean < 100
    again = Measurement.from_json(
        m.to_json() | {"families": {"all": m.families["all"].to_json() | {"gamma": [1.0] * 12}}}
    )
    assert len(again.gamma.known) == len(m.gamma.known)  # as an earlier version kept it


def test_few_images_and_the_size_of_views_are_told():
    few, many = (care.measure(flatten, pictures(n), FLIPS, augmentations=1, families=False) for n in (400, 432))
    told = " ".join(str(few).split())  # wrapped at words
    assert "d = 108, rotations of the 100 leading directions" in told
    F = torch.nn.functional.normalize(flatten(pictures(400) / 255.0), dim=1)
    U = torch.linalg.svd(torch.cat([F, F.unflatten(1, (3, 6, 6)).flip(3).flatten(1)])).Vh[:100]  # all are flipped
    held = (F @ U.mT - (F @ U.mT).mean(0)).square().sum() / (F - F.mean(0)).square().sum()
    assert f"The 100 leading directions, in which rotations were fitted, hold {100 * held:.0f} % of" in told
    assert "leading directions" not in str(many)
    assert "views of 6 pixels" in str(many)


def test_a_reflection_is_no_rotation():
    """Flipping 3×3 pixels of 3 channels swaps 9 pairs: an odd permutation, of determinant −1."""
    policy = ImagePolicy(size=3, kernel_size=1).only("flip").certain()
    m = care.measure(flatten, pictures(size=3), policy, augmentations=2)
    assert m.families["flip"].heldout_ratio.mean > 0.01


def test_too_few_images_are_no_verdict():
    """20 images can tell 5 of 108 directions, which do not hold nine tenths of the pictures; 40 times as many can."""
    few = care.measure(flatten, pictures(20), FLIPS, augmentations=1, families=False)
    assert few.rank == 5
    assert few.images_needed == 432
    assert "too few images to tell, 432 are needed" in str(few)
    assert "20 images suffice to fit rotations of 5 directions" in str(few)
    assert few.to_json()["families"]["all"]["in_words"].startswith("too few")
    many = care.measure(flatten, pictures(800), FLIPS, augmentations=1, families=False)
    assert many.images_needed is None
    assert "too few" not in str(many)


def test_the_rank_can_be_chosen():
    m = care.measure(flatten, pictures(800), FLIPS, augmentations=1, families=False, rank=30)
    assert (m.rank, m.dimension) == (30, 108)
    whole = care.measure(flatten, pictures(800), FLIPS, augmentations=1, families=False)
    assert whole.heldout_ratio.mean < m.heldout_ratio.mean


def test_what_an_earlier_version_did_not_measure_is_not_known():
    m = care.measure(flatten, clouds(50), PointPolicy(), augmentations=2)
    record = m.to_json()
    del record["families"]["all"]["heldout_linear"]
    earlier = Measurement.from_json(record)
    assert earlier.families["all"].heldout_linear.values == ()
    assert earlier.heldout_ratio == m.heldout_ratio
    assert "–" in earlier.table()


def turned_in_another_frame(form):
    """Two points of a cloud as coordinates of the form's space, seen from a frame that is no rotation away.

    Rotating the cloud by R is (q, p) → (Rq, Rp), or (t, s) → (t, Rs): isometries, in any frame.
    """
    M = form.random_element(6 if form.name == "symplectic" else 4, torch.Generator().manual_seed(3), 1.0).float()

    def encode(x):
        points = x[:, :2].flatten(1) if form.name == "symplectic" else torch.nn.functional.pad(x[:, 0], (1, 0))
        return form.embed(points) @ M.T

    return encode


@pytest.mark.parametrize("form", [Minkowski(), Symplectic()], ids=lambda form: form.name)
def test_isometries_of_another_form_are_found_with_it_and_not_without(form):
    encode = turned_in_another_frame(form)
    m = care.measure(encode, clouds(), PointPolicy(), augmentations=2, form=form)
    for name in ("heldout_ratio", "composition_error", "gamma", "gram_error"):
        assert max(getattr(m, name).values) < 1e-6, name
    euclidean = care.measure(encode, clouds(), PointPolicy(), augmentations=2)
    assert min(euclidean.heldout_ratio.values) > 0.01
    assert euclidean.length is None
    assert euclidean.families["all"].heldout_linear.known
    assert str(m.families["all"].heldout_linear) == "–"  # a linear map does not stay in the space of the form
    assert m.length == pytest.approx(encode(clouds()).norm(dim=1).mean().item())
    assert (m.strength is None) == (form.name == "minkowski")
    assert Measurement.from_json(json.loads(json.dumps(m.to_json()))) == m


def test_families_are_told_apart():
    """An encoder that keeps the mean color of a picture does not see flips, and rotates by none of the others."""
    m = care.measure(lambda x: x.mean((2, 3)) - 0.4, pictures(), ImagePolicy(size=6), augmentations=2)
    assert list(m.families) == ["all", "crop", "flip", "color", "gray", "blur", "hue"]
    assert m.families["flip"].in_words() == "invariant"
    assert m.families["color"].displacement.mean > 0.05
    assert len(m.families["gray"].gamma.values) == 1
    assert m.families["gray"].composition_error.values == ()


def test_a_composition_that_nearly_undoes_itself_does_not_outweigh_the_others():
    measures = {"displacement": torch.tensor(1.0)}
    pairs = [torch.tensor([[0.1], [1.0]])] * 9 + [torch.tensor([[0.1], [1e-3]])]  # whose own ratio is 100
    response = family_measures(["a"], [measures], pairs)
    assert response.composition_error.mean == pytest.approx(1.0 / 9.001)
    assert max(response.composition_error.values) < 0.3
    still = family_measures(["a"], [measures], [torch.tensor([[1e-6], [1e-5]])])
    assert str(still.composition_error) == "invariant"


@pytest.mark.parametrize("form", [Euclidean(), Minkowski(), Symplectic()], ids=lambda form: form.name)
def test_the_measures_are_those_of_geometry(form):
    policy, x = ImagePolicy(size=6, kernel_size=1), pictures()
    W = torch.randn(108, 4, generator=torch.Generator().manual_seed(0))
    drawn = []

    def model(images):
        drawn.append(images)
        return images.flatten(1) @ W

    m = care.measure(model, x, policy, augmentations=2, families=False, batch_size=len(x), form=form)
    F, F_a, F_b, F_ba, F_a2, F_b2, F_ba2 = (form.embed(images.flatten(1) @ W) for images in drawn[:7])
    group = "SO" if form.name == "euclidean" else form.group
    torch.testing.assert_close(drawn[0], x / 255)
    assert m.gamma.values[0] == pytest.approx(care.geometry.relative_equivariance(F, F_a, form=form).item())
    assert m.wahba.values[1] == pytest.approx(care.geometry.wahba_error(F, F_a2, group).item())
    assert m.heldout_ratio.values[0] == pytest.approx(care.geometry.heldout_ratio(F, F_a, group).item())
    assert m.displacement.values[0] == pytest.approx(care.geometry.displacement(F, F_a, form).item())
    moved = [form_of(group).squared_distance(F, points).sum() for points in (F_ba, F_ba2)]
    pairs = (F_a, F_b, F_ba), (F_a2, F_b2, F_ba2)
    errors = [care.geometry.composition_error(F, *p, group) * m for p, m in zip(pairs, moved, strict=True)]
    assert m.composition_error.mean == pytest.approx((sum(errors) / sum(moved)).item())
    cosine = torch.nn.functional.cosine_similarity(F, F_a)
    assert m.families["all"].cosine.values[0] == pytest.approx(cosine.mean().item(), abs=1e-6)
    assert m.families["all"].cosine_variance.values[0] == pytest.approx(cosine.numpy().var(), abs=1e-6)
    assert m.spectrum[0] == pytest.approx(torch.linalg.matrix_norm(F - F.mean(0), 2).item() / 20)
    assert m.collapse == {
        "rankme": pytest.approx(care.geometry.rankme(drawn[0].flatten(1) @ W).item()),
        "effective_rank": pytest.approx(care.geometry.effective_rank(care.geometry.spectrum(F)).item(), rel=1e-5),
        "alignment": pytest.approx(care.geometry.alignment(F, torch.stack([F_a, F_a2])).mean().item(), abs=1e-5),
        "gaussian_uniformity": pytest.approx(care.geometry.gaussian_uniformity(F).item(), rel=1e-5),
    }


@pytest.mark.parametrize("n", [8, 30])
def test_w_f_is_over_all_rotations_however_few_images_there_are(n, generator):
    """In 12 dimensions, of which so few images say little: the paper's W_f fits them all the same."""
    F, F_a = Euclidean().embed(torch.randn(2, n, 12, generator=generator))
    found = effect_of(F, F_a, Euclidean()).measures["wahba"]
    assert found.item() == pytest.approx(care.geometry.wahba_error(F, F_a).item(), rel=1e-4, abs=1e-3)
