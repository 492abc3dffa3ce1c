"""When a run is compiled, and that the compilers are started before the network is made."""

import sys
from importlib.util import find_spec

import pytest

from care.train import compiling, default_config, distributed, job
from care.train.compiling import SAMPLES_WORTH_COMPILING, compiles, forget_compiled, start_compilers


def test_on_a_cpu_only_what_was_chosen_is_compiled():
    processes = distributed.start("cpu")
    assert not compiles(default_config("x"), processes, SAMPLES_WORTH_COMPILING)
    assert compiles(default_config("x", compile=True), processes, 1)


def test_torchs_pool_is_where_it_is_looked_for(monkeypatch):
    """Importing it takes seconds and starts processes: here it is only looked for."""
    monkeypatch.setattr(compiling, "import_module", lambda name: found.append(find_spec(name)))
    found: list = []
    start_compilers()
    assert found[0] is not None


@pytest.mark.parametrize("compiled", [True, False])
def test_compilers_start_before_the_network_is_made(monkeypatch, tmp_path, compiled):
    said = []
    monkeypatch.setattr(job, "start_compilers", lambda: said.append("compilers"))
    monkeypatch.setattr(job, "check_objective", lambda *_, **__: said.append("network"))
    config = default_config("shapes", model="test_resnet", limit=64, batch_size=64, compile=compiled)
    prepared = job.prepare(config, tmp_path / "run")
    if prepared.lock is not None:
        prepared.lock.release()
    assert said == (["compilers", "network"] if compiled else ["network"])


def test_where_nothing_was_compiled_nothing_is_loaded_to_forget_it(monkeypatch):
    forgotten = []
    monkeypatch.setattr(compiling.torch.compiler, "reset", lambda: forgotten.append(1))
    monkeypatch.delitem(sys.modules, "torch._inductor.compile_fx", raising=False)
    forget_compiled()
    assert not forgotten
    monkeypatch.setitem(sys.modules, "torch._inductor.compile_fx", None)
    forget_compiled()
    assert forgotten
