"""A learned rotation on a GPU: fitted by `care steer`, used by `care retrieve`, shown by `care explore`."""

import json
import signal
import urllib.request

import pytest

from gpu.commands import CARE, QUICK, SMALL, check_record, run, start

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def steered(gpu, photos, tmp_path_factory):
    """The folder of a run of CARE with a learned rotation."""
    folder = tmp_path_factory.mktemp("steered") / "care"
    run(gpu, "train", "--data", photos, *SMALL, *CARE, "--epochs", 1, "--out", folder)
    run(gpu, "steer", folder, *QUICK, "--rank", 8)
    return folder


def test_steer(steered):
    record = check_record(steered / "steering" / "steering.json")
    assert {"all", "crop", "hue"} <= set(record["families"])
    assert (steered / "steering" / "steering.png").stat().st_size > 3000


def test_retrieve(steered, gpu):
    output = run(gpu, "retrieve", steered, "--make", "hue=+0.1", "--queries", 10, "--k", 3)
    assert "R(θ) f(q), learned rotation" in output
    check_record(steered / "retrieval" / "retrieval.json")


def ask(address, question):
    """The answer of the explorer to a question of its page."""
    origin, _, token = address.partition("/?")
    headers = {"Content-Type": "application/json", "Origin": origin}
    request = urllib.request.Request(f"{origin}/answer?{token}", json.dumps(question).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_explore_answers_until_it_is_interrupted(steered, gpu):
    with start("explore", steered, "timm/test_resnet@random", "--k", 3, "--device", gpu) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("http://127.0.0.1:"), process.stderr.read()
            address = line.split()[0]
            answer = ask(address, {"image": 3, "changes": {"hue": 0.2}, "models": [0, 1]})
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    first, other = answer["models"]
    assert other["name"] == "test_resnet@random"
    assert len(first["learned_rotation"]["neighbors"]) == 3
