"""Every legal configuration survives its file, and every other one is refused in a sentence."""

import dataclasses
import json
from typing import Literal, get_args, get_origin

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from care.augment import PRESETS
from care.objective.registry import names, setting_names
from care.train import Config

UNICODE = st.text(st.characters(exclude_categories=["Cs"]))  # all but halves of characters: control characters too
POSITIVE = st.floats(1e-300, 1e300)

BASE = {
    "data": UNICODE, "split": UNICODE, "model": UNICODE, "device": st.sampled_from(["auto", "cpu", "mps", "cuda:1"]),
    "limit": st.none() | st.integers(1, 10**30), "validation": st.integers(0, 10**9), "epochs": st.integers(1, 10**30),
    "batch_size": st.sampled_from([2, 64, 1 << 20]), "seed": st.integers(), "learning_rate": st.floats(1e-300, 1e37),
    "weight_decay": st.just(0.0) | POSITIVE, "ema": st.floats(0, 1, exclude_max=True),
    "embedding_dim": st.integers(4, 1 << 16), "head_width": st.integers(1, 1 << 16), "head_depth": st.integers(1, 64),
    "size": st.none() | st.integers(8, 4096), "policy": st.sampled_from([*PRESETS, "rotations"]),
    "compile": st.booleans(), "graph": st.booleans(),
}  # fmt: skip
OWN = {
    "temperature": POSITIVE, "queue": st.just(1 << 20), "teacher_momentum": st.floats(0, 1, exclude_max=True),
    "redundancy": POSITIVE, "variance_weight": POSITIVE, "care_weight": POSITIVE, "chunks": st.just(1),
    "equivariance_policy": st.none() | st.sampled_from(list(PRESETS)), "equivariant_dim": st.just(2),
    "identity_probability": st.floats(0, 1), "augmentation_per": st.sampled_from(["chunk", "batch"]),
    "steering_weight": POSITIVE, "orbit_weight": st.just(0.0) | POSITIVE, "steering_rank": st.integers(2, 512),
}  # fmt: skip
PAIRS = [
    (method, equivariance)
    for method in names("method")
    for equivariance in names("equivariance")
    if method != "none" or equivariance in ("care", "steering")
]
OWN_OF = {
    pair: {name: value for name, value in OWN.items() if name in (*of_method, *of_equivariance)}
    for pair in PAIRS
    for of_method in [setting_names("method", pair[0])]
    for of_equivariance in [setting_names("equivariance", pair[1])]
}


def choices():
    kinds = {field.name: field.type for field in dataclasses.fields(Config)}
    return {name: st.sampled_from(get_args(kind)) for name, kind in kinds.items() if get_origin(kind) is Literal}


@st.composite
def legal(draw):
    method, equivariance = draw(st.sampled_from(PAIRS))
    values = draw(st.fixed_dictionaries(BASE | choices()))
    values |= draw(st.fixed_dictionaries(OWN_OF[method, equivariance]))
    if method == "mocov2":
        values["batch_size"] = max(values["batch_size"], 64)
    if values["optimizer"] in ("sgd", "lars", "muon"):
        values["sgd_momentum"] = draw(st.floats(0, 1, exclude_max=True))
    return {**values, "method": method, "equivariance": equivariance}


@given(legal())
def test_every_legal_configuration_survives_its_file(tmp_path, values):
    config = Config.of(**values)
    file = tmp_path / "config.toml"
    file.write_bytes(config.to_toml().encode())
    assert Config.read(file) == config
    assert {name: value for name, value in config.flat().items() if name in values} == values


@pytest.mark.parametrize(
    "text", ["\x00", "\x1b[31m", "\x7f", 'a"b', "a\\", "a\nb", "a\r\nb", "\u2028", "𝕏", "'''", "#"]
)
def test_strange_names(text):
    config = Config.of(data=text)
    assert Config.from_toml(config.to_toml()) == config


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("text", ["caf\udce9", "\ud800"])
def test_bytes_that_are_no_text_are_refused(text):
    """As the name of a file on a disk may hold them."""
    with pytest.raises(ValueError, match="data must be text in Unicode"):
        Config.of(data=text)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)
)


@pytest.mark.usefixtures("unchecked")
@example(name="head_depth", value=True)
@example(name="head_depth", value=2.0)
@example(name="learning_rate", value=10**400)
@given(name=st.sampled_from(list(Config.of(data="shapes", equivariance="split").flat())), value=VALUES)
def test_any_value_is_taken_or_refused_in_a_sentence(name, value):
    """Taken means that it comes back from the file as it is."""
    try:
        config = Config.of(**{"data": "shapes", "equivariance": "split", name: value})
    except ValueError as error:
        message = str(error)
    else:
        message = None
        assert Config.from_toml(config.to_toml()) == config
        kept = config.flat()[name]
        assert kept == value
        assert type(kept) in (type(value), float)
        assert not isinstance(value, bool) or isinstance(kept, bool)
    assert message is None or ("\n" not in message and len(message) > 20)


@given(st.text(), st.text())
def test_unknown_names_are_refused(name, where):
    toml = f'data = "shapes"\n{json.dumps("x" + name.encode("ascii", "ignore").decode())} = 1\n'
    with pytest.raises(ValueError, match=r"no setting|not valid TOML"):
        Config.from_toml(toml, where)


@given(st.text())
def test_any_text_is_a_configuration_or_one_error(text):
    with pytest.raises(ValueError, match=r"^config\.toml"):
        Config.from_toml(text, "config.toml")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "epochs = " + "9" * 5000, 'data = "x"\nepochs = 1979-05-27'])
def test_toml_made_to_break_its_reader(text):
    with pytest.raises(ValueError, match=r"^config\.toml"):
        Config.from_toml(text, "config.toml")
