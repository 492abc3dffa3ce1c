"""Every legal configuration survives its file, and every other one is refused in a sentence."""

import dataclasses
import json
from typing import Literal, get_args, get_origin

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from care.augment import PRESETS
from care.train import Config

UNICODE = st.text(st.characters(exclude_categories=["Cs"]))  # all but halves of characters: control characters too
POSITIVE = st.floats(1e-300, 1e300)

BASE = {
    "data": UNICODE, "split": UNICODE, "model": UNICODE, "device": UNICODE,
    "limit": st.none() | st.integers(1, 10**30), "validation": st.integers(0, 10**9), "epochs": st.integers(1, 10**30),
    "batch_size": st.sampled_from([2, 64, 1 << 20]), "seed": st.integers(), "learning_rate": st.floats(1e-300, 1e37),
    "weight_decay": st.just(0.0) | POSITIVE, "temperature": POSITIVE, "momentum": st.floats(0, 1, exclude_max=True),
    "ema": st.floats(0, 1, exclude_max=True), "identity": st.floats(0, 1), "embedding": st.integers(2, 1 << 16),
    "head_width": st.integers(1, 1 << 16), "head_depth": st.integers(1, 64), "size": st.none() | st.integers(8, 4096),
    "policy": st.sampled_from([*PRESETS, "rotations"]), "compile": st.booleans(), "graph": st.booleans(),
    "equivariance": POSITIVE, "chunks": st.just(1), "sgd_momentum": st.floats(0, 1, exclude_max=True),
}  # fmt: skip


def choices():
    fields = {field.name: field.type for field in dataclasses.fields(Config)}
    words = {name: st.sampled_from(get_args(kind)) for name, kind in fields.items() if get_origin(kind) is Literal}
    return {name: value for name, value in words.items() if name != "method"}


def legal(values):
    """The same, without what goes with two views only, or with four."""
    two = {"shared_by": "chunk", "chunk_policy": values["policy"]}
    return values | (two if values["views"] == 2 else {"chunked_views": 2})


@given(st.fixed_dictionaries(BASE | choices()).map(legal))
def test_every_legal_configuration_survives_its_file(tmp_path, values):
    config = Config(**values)
    file = tmp_path / "config.toml"
    file.write_bytes(config.to_toml().encode())
    assert Config.read(file) == config
    assert config.to_toml().count("\n") == sum(value is not None for value in dataclasses.asdict(config).values())


@pytest.mark.parametrize(
    "text", ["\x00", "\x1b[31m", "\x7f", 'a"b', "a\\", "a\nb", "a\r\nb", "\u2028", "𝕏", "'''", "#"]
)
def test_strange_names(text):
    config = Config(data=text)
    assert Config.from_toml(config.to_toml()) == config


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("text", ["caf\udce9", "\ud800"])
def test_bytes_that_are_no_text_are_refused(text):
    """As the name of a file on a disk may hold them."""
    with pytest.raises(ValueError, match="data must be text in Unicode"):
        Config(data=text)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)
)


@pytest.mark.usefixtures("unchecked")
@example(name="chunked_views", value=True)
@example(name="views", value=2.0)
@example(name="learning_rate", value=10**400)
@given(name=st.sampled_from([field.name for field in dataclasses.fields(Config)]), value=VALUES)
def test_any_value_is_taken_or_refused_in_a_sentence(name, value):
    """Taken means that it comes back from the file as it is."""
    try:
        config = Config(**{"data": "shapes", name: value})
    except ValueError as error:
        message = str(error)
    else:
        message = None
        assert Config.from_toml(config.to_toml()) == config
        kept = getattr(config, name)
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
