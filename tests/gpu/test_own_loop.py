"""Logging within epochs, and batches for one's own loop: right on a GPU, and the host does not wait for it."""

import pytest
import torch
from torch.utils.data import DataLoader

from care import augment
from care.train import Config, Progress
from care.train.step_means import StepMeans

pytestmark = pytest.mark.gpu


class Kept(Progress):
    def __init__(self):
        self.records = []

    def means(self, record):
        self.records.append(record)


def test_means_over_steps_do_not_wait(no_waiting):
    kept, config = Kept(), Config.of(data="shapes", epochs=1, batch_size=64)
    means, values = StepMeans(5, kept), torch.rand(20, dtype=torch.float64, device="cuda")
    sums = {"loss": torch.zeros((), dtype=torch.float64, device="cuda")}
    with no_waiting():
        for step in range(1, 21):
            sums["loss"].add_(values[step - 1])
            means.step(0, step, 20, config, sums)
    means.epoch({"epoch": 1})
    assert [record["step"] for record in kept.records] == [5, 10, 15, 20]
    expected = values.view(4, 5).mean(1).tolist()
    assert [record["loss"] for record in kept.records] == pytest.approx(expected)
    assert all(record["samples_per_second"] > 0 for record in kept.records)


def test_views_of_a_pinned_batch_are_those_of_the_cpu():
    pictures = torch.randint(256, (16, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    collate = augment.ChunkCollate(augment.simclr(size=32), chunks=4)
    (batch,) = DataLoader(list(pictures), batch_size=16, collate_fn=collate, pin_memory=True)
    assert batch.images.is_pinned()
    assert all(parameters.hue.is_pinned() for parameters in (*batch.per_sample, *batch.per_chunk))
    there = batch.to("cuda", non_blocking=True).views()
    for on_gpu, on_cpu in zip(sum(there, ()), sum(batch.views(), ()), strict=True):
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=0, atol=1e-3)
