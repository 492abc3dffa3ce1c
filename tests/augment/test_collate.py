"""A DataLoader hands over pictures with augmentations of their own: per sample, per chunk, never the same twice."""

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import care
from care.augment import AugmentedBatch, ChunkCollate, apply

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # forks, on newer Pythons

POLICY = care.augment.simclr(size=8)


@pytest.fixture(scope="module")
def pictures():
    return torch.randint(256, (24, 3, 10, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def loader(pictures, workers=0, collate=None, **settings):
    labels = torch.arange(len(pictures))
    collate = collate or ChunkCollate(POLICY, 3)
    generator = torch.Generator().manual_seed(5)
    return DataLoader(
        TensorDataset(pictures, labels), 6, num_workers=workers, collate_fn=collate, generator=generator, **settings
    )


def numbers(batches):
    """What was drawn for every batch."""
    return [torch.stack([p.to_vector() for p in (*b.per_sample, *b.per_chunk)]) for b in batches]


def all_differ(drawn):
    return all(not torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])


def test_the_views_are_those_of_the_parameters(pictures):
    batch = next(iter(loader(pictures)))
    assert torch.equal(batch.images, pictures[:6])
    assert batch.labels.tolist() == list(range(6))
    per_sample, per_chunk = batch.views()
    assert len(batch.per_sample) == len(batch.per_chunk) == len(per_sample) == len(per_chunk) == 2
    for view, parameters in zip((*per_sample, *per_chunk), (*batch.per_sample, *batch.per_chunk), strict=True):
        assert torch.equal(view, apply(pictures[:6], parameters))


def test_neighbors_share_an_augmentation_only_per_chunk(pictures):
    batch = next(iter(loader(pictures)))
    for parameters in batch.per_chunk:
        rows = parameters.to_vector()
        assert torch.equal(rows[0::2], rows[1::2])
        assert len(rows.unique(dim=0)) == 3
    for parameters in batch.per_sample:
        assert len(parameters.to_vector().unique(dim=0)) == 6


def test_every_batch_of_every_epoch_has_its_own_and_the_same_again(pictures):
    first, again = (loader(pictures) for _ in range(2))
    drawn = numbers([*first, *first])
    assert len(drawn) == 8
    assert all_differ(drawn)
    assert all(map(torch.equal, drawn, numbers([*again, *again])))
    assert not torch.equal(drawn[0], numbers(loader(pictures, collate=ChunkCollate(POLICY, 3, seed=1)))[0])


def test_the_number_of_workers_does_not_matter(pictures):
    one, two = (loader(pictures, workers=workers) for workers in (1, 2))
    drawn = numbers([*one, *one])
    assert all_differ(drawn)
    assert all(map(torch.equal, drawn, numbers([*two, *two])))


def test_workers_that_stay_do_not_repeat_themselves(pictures):
    stays = loader(pictures, workers=2, persistent_workers=True)
    assert all_differ(numbers([*stays, *stays]))


def test_other_numbers_of_views_and_another_policy(pictures):
    hue = care.augment.hue_only(size=8)
    collate = ChunkCollate(POLICY, 2, views=1, chunk_views=3, chunk_policy=hue)
    batch = collate(list(pictures[:4]))
    assert (len(batch.per_sample), len(batch.per_chunk), batch.labels) == (1, 3, None)
    assert all((p.hue != 0).all() and (p.brightness == 1).all() for p in batch.per_chunk)
    assert len(ChunkCollate(POLICY, 7, chunk_views=0)(list(pictures[:4]))) == 4


def test_pictures_of_pillow_are_the_same(pictures):
    as_pil = [Image.fromarray(picture.permute(1, 2, 0).numpy()) for picture in pictures[:6]]
    left, right = (ChunkCollate(POLICY, 3)(items) for items in (as_pil, list(pictures[:6])))
    assert torch.equal(left.images, right.images)
    assert torch.equal(left.views()[0][0], right.views()[0][0])


def test_a_batch_can_be_moved(pictures):
    batch = next(iter(loader(pictures)))
    moved = batch.to("meta")
    assert isinstance(moved, AugmentedBatch)
    tensors = [moved.images, moved.labels, *(p.hue for p in (*moved.per_sample, *moved.per_chunk))]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([torch.zeros(3, 8, 8)] * 5, r"a batch of 5 does not fall into 3 chunks.*drop_last=True"),
        ([torch.zeros(3, 8, 8), torch.zeros(3, 8, 9), torch.zeros(3, 8, 8)], "differ in size"),
        (["a", "b", "c"], "PIL images or tensors"),
    ],
)
def test_mistakes(items, message):
    with pytest.raises(ValueError, match=message):
        ChunkCollate(POLICY, 3)(items)


@pytest.mark.parametrize("label", [0.7, [0.0, 1.0, 1.0], 3])
def test_labels_are_collated_as_by_torch(pictures, label):
    batch = ChunkCollate(POLICY, 3)([(picture, torch.tensor(label)) for picture in pictures[:6]])
    assert torch.equal(batch.labels, torch.tensor([label] * 6))
