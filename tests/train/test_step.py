"""A step: gradients are clipped where asked, and `auto` is a precision that the device has."""

import pytest
import torch

from care.train import Config, prepare
from care.train.distributed import Processes
from care.train.state import build_state, precision
from care.train.step import Step
from train.small import small_config, small_data


def test_a_gradient_is_clipped_to_its_norm(tmp_path):
    """A step of SGD without momentum moves the weights by rate × the norm that was chosen, or less."""
    config = small_config(
        small_data(tmp_path / "data"), optimizer="sgd", sgd_momentum=0.0, weight_decay=0.0, clip_gradient=0.1
    )
    job = prepare(config, tmp_path / "run")
    state = build_state(config, job.samples, job.processes)
    before = [p.detach().clone() for p in state.objective.parameters()]
    Step(state, config, job.processes, job.steps_per_epoch)([job.samples.inputs[:16]], 0)
    moved = torch.cat([(p - q).flatten() for p, q in zip(state.objective.parameters(), before, strict=True)]).norm()
    assert state.sums["gradient_norm"] > 0.2
    assert moved.item() == pytest.approx(config.learning_rate * 0.1, rel=1e-3)


@pytest.mark.parametrize(("supported", "dtype"), [(True, torch.bfloat16), (False, torch.float16)])
def test_auto_is_fp16_on_a_gpu_without_bf16(supported, dtype, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: supported)
    config = Config.of(data="shapes")
    assert precision(config, Processes(0, 1, torch.device("cuda"))) == dtype
    assert precision(config, Processes(0, 1, torch.device("cpu"))) == torch.float32
