"""Any header of a store is opened, or refused by one error that names it."""

import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from care.atomic_files import seal
from care.data import open_store
from care.data.store import read_header
from train.small import small_data

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "sha256", "format", "version", "name", "split", "count", "height", "width", "classes",
    "shard_bytes", "block_rows", "blocks_sha256", "labels_sha256", "source", "skipped", "fingerprint",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Path(small_data(tmp_path_factory.mktemp("store") / "data", n=4, pixels=5)) / "train"


def opened(store, text):
    """What the error says, None if there was none; the header is afterwards as it was."""
    file = store / "store.json"
    whole = file.read_bytes()
    file.write_bytes(text)
    try:
        open_store(store)
        read_header(store)
    except ValueError as error:
        return str(error)
    finally:
        file.write_bytes(whole)
    return None


@given(text=st.binary(max_size=200))
def test_any_bytes(store, text):
    assert str(store / "store.json") in opened(store, text)


@given(value=JSON)
def test_any_json(store, value):
    assert str(store / "store.json") in opened(store, json.dumps(value).encode())


@given(name=st.sampled_from(FIELDS), value=JSON, resealed=st.booleans())
def test_any_field(store, name, value, resealed):
    """A field of another value is refused, unless somebody computed the checksum again and the value makes sense."""
    header = json.loads((store / "store.json").read_bytes())
    changed = {**header, name: value} | ({"sha256": "0" * 64} if resealed else {})
    text = json.dumps(changed, indent=1, separators=(",", ":")).encode()
    message = opened(store, seal(text) if resealed else text)
    if not resealed and value != header[name]:
        assert "is not usable" in message
    assert message is None or str(store) in message


@given(at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_any_byte(store, at, byte):
    whole = (store / "store.json").read_bytes()
    place = int(at * len(whole))
    changed = whole[:place] + bytes([byte]) + whole[place + 1 :]
    assert (opened(store, changed) is None) == (changed == whole)
