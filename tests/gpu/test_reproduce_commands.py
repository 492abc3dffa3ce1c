"""`care reproduce` on a GPU at smoke scale: a study of images, and one of point clouds."""

import pytest

from gpu.commands import check_record, invoke, run

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("study", ["proteins", "wahba"])
def test_a_trial_is_carried_out_and_found_again(study, gpu, tmp_path):
    results = tmp_path / "results" / "smoke"
    only = ("--scale", "smoke", "--part", "CARE", "--seed", 0)
    command = ("reproduce", study, *only, "--out", tmp_path / "results", "--runs", tmp_path / "runs")
    run(gpu, *command)
    (kept,) = (results / "trials").glob("*.json")
    check_record(kept)
    assert list((results / study).glob("*.png"))
    written = kept.stat().st_mtime_ns
    assert str(results / study) in invoke(*command, "--device", gpu)
    assert kept.stat().st_mtime_ns == written
