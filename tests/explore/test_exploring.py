"""Answers against the literal computation: embed the changed image, sort all cosines."""

import dataclasses
import json
import time

import numpy as np
import pytest
import torch
from exhibits import CPU, PIXELS, embedder, matrix_of, noise, small_gallery, some_rotation
from scipy.linalg import expm

from care.augment import PointPolicy, apply, identity, simclr
from care.augment.coordinates import IMAGE_NAMES
from care.data import Samples
from care.evaluate import Embedder
from care.evaluate.retrieval.hue import Hues, mean_hue
from care.evaluate.retrieval.neighbors import retrieval_measures
from care.explore import SLIDERS, Gallery, Index, LazyIndex, build_index
from care.models.small_resnet import SmallResNet

CHANGES = {"hue": 0.2, "brightness": 0.5}
K = 5


@pytest.fixture(scope="module")
def gallery():
    return small_gallery(K)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def embedded(views, size, seed):
    """f of views in double precision, without any of the code that is tested."""
    flat = views.double().flatten(1).numpy() - 0.5
    return unit(flat @ matrix_of(size, seed).double().numpy())


def changed_view(samples, image, size):
    """The image under CHANGES, by hand: `identity` has the order brightness, contrast, saturation, hue."""
    unchanged = identity(1, (PIXELS, PIXELS), size)
    a = dataclasses.replace(unchanged, hue=torch.tensor([0.2]), brightness=torch.tensor([0.5]))
    return apply(samples.inputs[image : image + 1], a)


def nearest(F, z, image):
    order = [row for row in np.argsort(-(F @ z), kind="stable") if row != image]
    return [int(row) for row in order[:K]]


def predicted(z):
    """R(θ) z with R(θ) = I + B (exp(Σ θ_k A_k) − I) Bᵀ, by SciPy's exponential."""
    s = some_rotation()
    theta = np.zeros(len(IMAGE_NAMES))
    theta[IMAGE_NAMES.index("hue")], theta[IMAGE_NAMES.index("brightness")] = 0.2, np.log(0.5)
    B, A = s.basis.double().numpy(), s.generators.double().numpy()
    return z + B @ (expm(np.tensordot(theta, A, 1)) - np.eye(B.shape[1])) @ (B.T @ z)


@pytest.mark.parametrize(("model", "size", "seed"), [(0, PIXELS, 0), (1, 8, 1)], ids=["steered", "plain"])
@pytest.mark.parametrize("image", [0, 7, 39])
def test_an_answer_is_the_literal_one(gallery, model, size, seed, image):
    samples = gallery.samples
    seen = gallery.answer(image, CHANGES).models[model]
    F = embedded(apply(samples.inputs, identity(len(samples), samples.input_shape, size)), size, seed)
    augmented = embedded(changed_view(samples, image, size), size, seed)[0]
    points = {"clean": F[image], "augmented": augmented} | (
        {"learned_rotation": predicted(F[image])} if model == 0 else {}
    )
    assert (seen.learned_rotation is None) == (model == 1)
    for name, z in points.items():
        around = getattr(seen, name)
        wanted = nearest(F, z, image)
        assert [n.image for n in around.neighbors] == wanted
        np.testing.assert_allclose([n.cosine for n in around.neighbors], F[wanted] @ z, atol=1e-5)
        assert around.cosine == pytest.approx(z @ augmented, abs=1e-5)
        assert around.shared == len(set(wanted) & set(nearest(F, augmented, image)))
        assert around.same == sum(samples.labels[row] == samples.labels[image] for row in wanted)
        assert [n.kind for n in around.neighbors] == [samples.classes[samples.labels[row]] for row in wanted]


def test_numbers_are_those_of_the_retrieval(gallery):
    """Which measures all queries at once, the color of the results among them."""
    index, queries = gallery.indexes[0], torch.arange(12)
    labels = gallery.samples.labels
    views = torch.cat([changed_view(gallery.samples, int(image), PIXELS) for image in queries])
    F_a = index.embedder.embed(views)["embedding"]
    found = retrieval_measures(index.F, queries, F_a, index.hues, mean_hue(views), labels, K)
    for image in queries.tolist():
        seen = gallery.answer(image, CHANGES).models[0]
        assert seen.clean.shared / K == pytest.approx(float(found.per_query["overlap"][image]))
        for name, around in (("", seen.augmented), ("_before", seen.clean)):
            assert around.same / K == pytest.approx(float(found.per_query[f"class_precision{name}"][image]))
            distance = float(found.per_query[f"hue_distance{name}"][image])
            if np.isnan(distance):
                assert around.hue_distance is None
            else:
                assert around.hue_distance == pytest.approx(distance, abs=1e-5)


def test_a_photo_is_answered_as_the_same_image_would_be(gallery):
    """Image 7 sent as a photo: its own image is then its nearest neighbor, and the others follow."""
    photo = gallery.samples.inputs[7]
    as_image, as_photo = gallery.answer(7, CHANGES), gallery.answer(photo, CHANGES)
    assert (as_photo.image, as_photo.kind) == (None, None)
    assert torch.equal(as_photo.view, as_image.view)
    for photo_model, image_model in zip(as_photo.models, as_image.models, strict=True):
        assert photo_model.clean.neighbors[0].image == 7
        assert photo_model.clean.neighbors[0].cosine == pytest.approx(1, abs=1e-5)
        others = [n.image for n in photo_model.clean.neighbors[1:]]
        assert others == [n.image for n in image_model.clean.neighbors[:-1]]
        assert photo_model.augmented.cosine == pytest.approx(1, abs=1e-5)
        assert photo_model.clean.cosine == pytest.approx(image_model.clean.cosine, abs=1e-5)
        assert photo_model.augmented.same is None


def test_a_photo_may_have_another_size_than_the_images(gallery):
    larger = gallery.samples.inputs[7].repeat_interleave(2, 1).repeat_interleave(2, 2)
    seen = gallery.answer(larger, {}, models=[0]).models[0]
    assert seen.clean.neighbors[0].image == 7  # reduced by two, but for the antialiasing, it is what it was
    assert seen.clean.neighbors[0].cosine > 0.9 > seen.clean.neighbors[1].cosine


def test_a_blur_is_as_wide_for_every_model_as_in_the_picture(gallery):
    """σ = 2 of the 12 pixels that are shown are 4/3 of the 8 that the second model gets."""
    samples = gallery.samples
    view = gallery.view(7, {"blur": 2.0})
    shown = dataclasses.replace(
        identity(1, (PIXELS, PIXELS), PIXELS), blur=torch.tensor([True]), sigma=torch.tensor([2.0]), kernel_size=13
    )
    wanted = 255 * apply(samples.inputs[7:8], shown)[0].numpy()
    np.testing.assert_array_equal(view.numpy(), np.rint(wanted).astype(np.uint8))
    small = dataclasses.replace(
        identity(1, (PIXELS, PIXELS), 8), blur=torch.tensor([True]), sigma=torch.tensor([4 / 3]), kernel_size=9
    )
    F = embedded(apply(samples.inputs, identity(len(samples), samples.input_shape, 8)), 8, 1)
    z = embedded(apply(samples.inputs[7:8], small), 8, 1)[0]
    assert [n.image for n in gallery.answer(7, {"blur": 2.0}).models[1].augmented.neighbors] == nearest(F, z, 7)


def test_a_rotation_that_was_not_fitted_to_a_change_says_so():
    samples, rotation = noise(), some_rotation()
    generators = rotation.generators.clone()
    generators[IMAGE_NAMES.index("flip")] = 0
    rotation = dataclasses.replace(rotation, generators=generators)
    seen = Gallery([build_index("a", embedder(samples), rotation)], K)
    assert "no generator for flip" in seen.answer(0, {"flip": 1.0}).models[0].caveats[0]
    assert seen.answer(0, {}).models[0].caveats == ()


def test_a_lazy_index_is_built_when_it_is_chosen_and_then_answers_as_if_it_always_had():
    samples, filled = noise(), []

    def build(progress):
        filled.append(True)
        return build_index("later", embedder(samples, size=8, seed=1), progress=progress)

    first = build_index("first", embedder(samples))
    gallery = Gallery([first, LazyIndex("later", simclr(8), build)], K)
    assert [model.name for model in gallery.answer(3, CHANGES).models] == ["first"]
    gallery.embed(0)
    assert filled == []
    gallery.embed(1)
    gallery.embed(1)
    assert filled == [True]
    whole = Gallery([first, build_index("later", embedder(samples, size=8, seed=1))], K)
    assert gallery.answer(3, CHANGES).models == whole.answer(3, CHANGES).models
    assert gallery.answer(3, CHANGES, models=[1]).models == whole.answer(3, CHANGES).models[1:]


def test_a_lazy_index_of_other_images_is_refused():
    gallery = Gallery(
        [build_index("a", embedder(noise())), LazyIndex("b", simclr(8), lambda _: build_index("b", embedder(noise())))]
    )
    with pytest.raises(ValueError, match="a and b were given different images"):
        gallery.embed(1)
    assert set(gallery.indexes) == {0}


def test_without_a_change_all_three_points_are_one(gallery):
    answer = gallery.answer(4, {})
    assert answer.what == "identity"
    assert torch.equal(answer.view, gallery.samples.inputs[4])
    for seen in answer.models:
        for around in (seen.clean, seen.learned_rotation or seen.clean, seen.augmented):
            assert around.cosine == pytest.approx(1, abs=1e-5)
            assert around.shared == K


def test_the_picture_is_the_augmented_one(gallery):
    view = gallery.answer(1, CHANGES).view
    wanted = 255 * changed_view(gallery.samples, 1, PIXELS)[0].numpy()
    np.testing.assert_array_equal(view.numpy(), np.rint(wanted).astype(np.uint8))


def test_models_that_see_different_parts_of_a_picture_each_get_their_own():
    """One sees all 12 × 12 pixels, the other the central 6 × 6, as they are: a slice."""
    samples, half = noise(), dataclasses.replace(simclr(6), center=0.5)
    small = dataclasses.replace(embedder(samples, size=6, seed=1), policy=half)
    both = Gallery([build_index("half", small, note="A note."), build_index("whole", embedder(samples))], K)
    F = embedded(samples.inputs[:, :, 3:9, 3:9] / 255, 6, 1)
    z = embedded(changed_view(samples, 7, PIXELS)[:, :, 3:9, 3:9], 6, 1)[0]
    answer = both.answer(7, CHANGES)
    assert [n.image for n in answer.models[0].clean.neighbors] == nearest(F, F[7], 7)
    assert [n.image for n in answer.models[0].augmented.neighbors] == nearest(F, z, 7)
    assert answer.models[1] == Gallery([both.indexes[1]], K).answer(7, CHANGES).models[0]
    assert torch.equal(both.answer(7, {}).view, samples.inputs[7])  # shown: the one that sees most
    assert [both.note(index) for index in both.models] == ["A note. This model sees the central 0.5 of a picture.", ""]


def test_gray_has_no_hue_and_no_label_has_no_class():
    samples = noise()
    unknown = dataclasses.replace(samples, labels=torch.full_like(samples.labels, -1))
    seen = small_gallery(samples=unknown).answer(2, CHANGES).models[0].augmented  # 2 is gray
    assert seen.hue_distance is None
    assert seen.same is None
    assert {(n.kind, n.same, n.hue_distance) for n in seen.neighbors} == {(None, None, None)}


def test_answers_are_json_without_nan(gallery):
    for image in range(6):
        text = json.dumps(gallery.answer(image, {"zoom": 0.5, "x": 0.2}).to_json(), allow_nan=False)
        assert len(json.loads(text)["models"]) == 2


def test_a_bank_does_not_depend_on_the_batches():
    reported = []
    at_once = build_index("a", embedder(noise()))
    parts = build_index("a", embedder(noise(), batch_size=7), progress=lambda *words: reported.append(words))
    torch.testing.assert_close(parts.F, at_once.F)
    torch.testing.assert_close(parts.hues.angle, at_once.hues.angle)
    assert reported[-1] == ("embedding by a", 40, 40)
    assert len(reported) == 6


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_explored_is_said():
    samples = noise()
    index = build_index("a", embedder(samples))
    clouds = Samples(torch.randn(30, 8, 3), torch.zeros(30, dtype=torch.long), ("c",), name="clouds")
    with pytest.raises(ValueError, match="only images can be explored, and clouds holds point clouds"):
        build_index("a", Embedder(lambda x: {"mean": x.mean(1)}, clouds, PointPolicy(), "rotations", CPU))
    with pytest.raises(ValueError, match="a and b were given different images"):
        Gallery([index, build_index("b", embedder(noise()))])
    with pytest.raises(ValueError, match="the learned rotation of a is of 9 dimensions, and its embeddings have 6"):
        build_index("a", embedder(samples), some_rotation(d=9))
    with pytest.raises(ValueError, match="none of the models has embedded the images"):
        Gallery([LazyIndex("b", simclr(8), lambda _: index)])
    for k in (0, 40):
        with pytest.raises(ValueError, match="k must be between 1 and the 39 other images"):
            Gallery([index], k)
    with pytest.raises(ValueError, match="there are images 0 to 39, got 40"):
        Gallery([index]).answer(40, {})


@pytest.mark.parametrize("slider", SLIDERS, ids=lambda slider: slider.name)
def test_every_slider_works_over_its_whole_way(gallery, slider):
    """Both ends are changes that exist, each makes another picture, and the start makes none."""
    ends = [{} if end == slider.start else {slider.name: end} for end in (slider.low, slider.start, slider.high)]
    views = [gallery.view(0, {"zoom": 0.5, **end}) for end in ends]
    same = [torch.equal(views[1], view) for view in views]
    assert same == [slider.start == slider.low, True, slider.start == slider.high]


def test_ten_thousand_images_are_answered_within_100_ms():
    """Of a core, with a small network, embeddings of 128 dimensions and a learned rotation."""
    n, d, generator = 10_000, 128, torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (n, 3, 32, 32), dtype=torch.uint8, generator=generator)
    samples = Samples(pixels, torch.arange(n) % 10, tuple("abcdefghij"))
    network = SmallResNet()
    network = torch.nn.Sequential(network, torch.nn.Linear(network.num_features, d)).eval().requires_grad_(False)
    observed = embedder(samples, size=32, embed=lambda x: {"embedding": network(x)})
    F = torch.nn.functional.normalize(torch.randn(n, d, generator=generator))
    hues = Hues(torch.rand(n, generator=generator), torch.rand(n, generator=generator))
    gallery = Gallery([Index("a", observed, observed.policy, F, hues, some_rotation(d, m=64))])
    seconds = []
    for image in range(10):
        started = time.process_time()
        gallery.answer(image, CHANGES).to_json()
        seconds.append(time.process_time() - started)
    assert sorted(seconds)[5] < 0.1
