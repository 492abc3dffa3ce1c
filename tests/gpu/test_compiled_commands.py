"""`care train --compile` on a GPU, in a process of its own: from the first step to the end, and as without it."""

import pytest

from gpu.commands import CARE, SMALL, alone, check_run, run

pytestmark = pytest.mark.gpu


CHOSEN = {
    "CARE": (),
    "MoCo-v2 and CARE": ("--method", "mocov2", "--queue", 64),
    "split at a layer, for two families, on half of each chunk": (
        "--equivariance", "split", "--equivariant-dim", 4, "--equivariant-layer", "layer2",
        "--equivariance-policy", "hue_only,crop_only", "--equivariance-fraction", 0.5,
    ),
    "what --keep adds": (
        "--equivariance", "split", "--equivariant-dim", 4, "--equivariant-layer", "layer2", "--stop-gradient",
        "--equivariance-policy", "hue_only", "--augself-weight", 0.05,
    ),
}  # fmt: skip


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_compiled_it_trains_as_without(chosen, gpu, photos, tmp_path):
    """Replayed as a graph, too: the same losses but for the rounding, since fused kernels add in another order."""
    command = ("train", "--data", photos, *SMALL, *CARE, *chosen, "--precision", "fp32", "--learning-rate", 1e-4)
    alone(*command, "--compile", "--device", gpu, "--out", tmp_path / "compiled")
    run(gpu, *command, "--out", tmp_path / "plain")
    compiled, plain = (check_run(tmp_path / name, gpu) for name in ("compiled", "plain"))
    assert [record["loss"] for record in compiled] == pytest.approx([record["loss"] for record in plain], rel=1e-2)
