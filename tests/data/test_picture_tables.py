"""Pictures in tables, as the library `datasets` writes them, and what is told of tables that are none."""

import sys

import pytest
from on_disk import WRITERS, encoded, number_of, table, write_arrow, write_parquet

from care.data.streamed import tables
from care.data.streamed.opening import open_pictures

SIDE = 8


def test_tables_of_other_shapes(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = pa.table({"id": [1, 2], "jpg": [encoded(0), encoded(1)]})
    pq.write_table(plain, tmp_path / "a.parquet")
    samples = open_pictures(tmp_path, "train", SIDE)
    assert (samples.classes, samples.labels.tolist()) == ((), [-1, -1])
    assert sorted(number_of(samples.inputs)) == [0, 1]
    pq.write_table(table([0, 1], names=False), tmp_path / "a.parquet")
    assert open_pictures(tmp_path, "train", SIDE).classes == ("0", "1")
    pq.write_table(pa.table({"text": ["no", "picture"]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="has no column of pictures, only text: expected image"):
        open_pictures(tmp_path, "train", SIDE)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_table_that_is_damaged_or_of_another_shape_is_named(kind, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = WRITERS[kind](tmp_path, 8)
    *_, last = sorted(folder.rglob(f"*.{kind}"))
    last.write_bytes(last.read_bytes()[:700])
    with pytest.raises(ValueError, match=rf"{last.name} cannot be read as a table of pictures like the first file: \w"):
        open_pictures(folder, "train", SIDE)
    tables._record_batches.cache_clear()
    other = pa.table({"picture": [encoded(0)]})
    if kind == "parquet":
        pq.write_table(other, last)
    else:
        with pa.ipc.new_stream(last, other.schema) as file:
            file.write_table(other)
    with pytest.raises(ValueError, match=rf"{last.name} cannot be read as a table .*image"):
        open_pictures(folder, "train", SIDE)


def test_an_arrow_stream_that_is_cut_between_two_batches_is_named(tmp_path):
    folder = write_arrow(tmp_path, 16)
    *_, last = sorted(folder.rglob("*.arrow"))
    stream = last.read_bytes()
    ends = [at for at in range(8, len(stream), 8) if _is_read(stream[:at])]
    assert len(ends) == 3  # after the schema, and after either batch
    for end in ends:
        last.write_bytes(stream[:end])
        with pytest.raises(ValueError, match=rf"{last.name} cannot be read as a table .*: it is truncated, .* copy"):
            open_pictures(folder, "train", SIDE)


def _is_read(stream):
    """Whether Arrow itself takes this for a stream."""
    import pyarrow as pa

    try:
        list(pa.ipc.open_stream(stream))
    except (pa.ArrowInvalid, OSError):
        return False
    return True


def test_arrow_streams_of_before_2019_are_read(tmp_path):
    """They have no mark before every message, and none at their end that tells them from one that is cut."""
    import pyarrow as pa

    rows, old = table([0, 1]), pa.ipc.IpcWriteOptions(use_legacy_format=True)
    with pa.ipc.new_stream(tmp_path / "a.arrow", rows.schema, options=old) as file:
        file.write_table(rows)
    assert len(open_pictures(tmp_path, "train", SIDE)) == 2


def test_an_arrow_stream_without_rows_is_told(tmp_path):
    import pyarrow as pa

    with pa.ipc.new_stream(tmp_path / "a.arrow", pa.schema([("image", pa.binary())])):
        pass
    with pytest.raises(ValueError, match=r"a\.arrow and 0 other files hold no rows"):
        open_pictures(tmp_path, "train", SIDE)


def test_row_groups_that_cannot_be_kept_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LARGEST_GROUP", 100)
    with pytest.raises(ValueError, match="write it with fewer rows per group, such as row_group_size=100"):
        open_pictures(write_parquet(tmp_path, 8), "train", SIDE)


def test_without_pyarrow_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    folder = write_arrow(tmp_path, 4)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    tables._record_batches.cache_clear()
    with pytest.raises(ValueError, match=r"pip install 'care-ssl\[arrow\]'"):
        open_pictures(folder, "train", SIDE)
