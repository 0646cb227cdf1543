"""Arrow streams: plain tables are read exactly, all else is refused before it costs anything."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.serve.bodies.parser import read
from onlinehash.serve.bodies.shapes import ARROW, Labelled, Lesson, NewItems, Query
from onlinehash.serve.errors import BadRequest, TooLarge, UnsupportedMediaType
from tests.serve.hostile import LIMITS, mutated, outcome, peak


def stream(table: Any, rows: int = 1000, **options: Any) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, rows)
    return file.getvalue()


def fixed(array: np.ndarray) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


X = np.arange(6, dtype=np.float32).reshape(2, 3)
LISTS = pa.array(X.tolist(), pa.list_(pa.float32()))
SOUND = [
    stream(pa.table({"ids": [1, 2], "vectors": fixed(X), "payloads": ['{"a": 1}', None]})),
    stream(pa.table({"ids": ["a", "b"], "vectors": LISTS}), rows=1),
    stream(pa.table({"vectors": LISTS.cast(pa.large_list(pa.float64()))})),
    stream(pa.table({"vectors": fixed(X)}), compression="zstd"),
]


@given(
    st.sampled_from([np.float16, np.float32, np.float64, np.int16, np.uint64]).flatmap(
        lambda d: arrays.arrays(d, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6))
    ),
    st.sampled_from(["fixed", "list", "large list"]),
    st.integers(1, 7),
)
def test_the_same_arrays_come_back(array: np.ndarray, kind: str, rows: int):
    column = fixed(array)
    if kind != "fixed":
        column = column.cast({"list": pa.list_, "large list": pa.large_list}[kind](column.type.value_type))
    data = stream(pa.table({"vectors": column, "ids": np.arange(len(array))}), rows)
    found = read(NewItems, ARROW, data, {}, LIMITS)
    assert found.vectors.dtype == array.dtype
    assert found.vectors.tobytes() == array.tobytes()
    assert found.vectors.shape == array.shape
    assert found.ids.tolist() == list(range(len(array)))


def test_columns_are_fields_and_the_rest_are_query_parameters():
    found = read(NewItems, ARROW, SOUND[0], {}, LIMITS)
    assert (found.ids.tolist(), found.payloads) == ([1, 2], [{"a": 1}, None])
    assert read(NewItems, ARROW, SOUND[1], {}, LIMITS).ids == ["a", "b"]
    found = read(Query, ARROW, SOUND[2], {"k": "3"}, LIMITS)
    assert (found.k, found.vectors.dtype) == (3, np.float64)
    lesson = pa.table({"id_a": ["a", "b"], "id_b": ["c", "d"], "similar": [True, False], "weight": [0.5, 1.0]})
    found = read(Lesson, ARROW, stream(lesson), {"refresh": "true"}, LIMITS)
    assert (found.id_a, found.id_b, found.refresh) == (["a", "b"], ["c", "d"], True)
    assert (found.similar.tolist(), found.weight.tolist()) == ([True, False], [0.5, 1.0])
    assert read(Labelled, ARROW, stream(pa.table({"vectors": LISTS, "y": ["x", "y"]})), {}, LIMITS).y == ["x", "y"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"vectors": LISTS, "k": [1, 2]}, "expected some of the columns ids, vectors, texts, payloads, each once"),
        ({"vectors": [1.0, 2.0]}, "expected lists of numbers in the column vectors, got 'double'"),
        ({"vectors": [["a"], ["b"]]}, "expected lists of numbers in the column vectors"),
        ({"vectors": [[[1.0]], [[2.0]]]}, "expected lists of numbers in the column vectors"),
        ({"vectors": pa.nulls(2)}, "expected lists of numbers in the column vectors, got 'null'"),
        ({"vectors": [[1.0], None]}, "the column vectors contains nulls"),
        ({"vectors": [[1.0], [None]]}, "the column vectors contains nulls"),
        ({"vectors": [[1.0], [1.0, 2.0]]}, "expected a rectangular array for vectors"),
        ({"vectors": LISTS, "ids": [1, None]}, "the column ids contains nulls"),
        ({"vectors": LISTS, "ids": pa.array(["a", "b"]).dictionary_encode()}, "in the column ids, got 'dictionary"),
        ({"vectors": LISTS, "ids": [b"a", b"b"]}, "in the column ids, got 'binary'"),
        ({"vectors": LISTS, "payloads": [1, 2]}, "in the column payloads, got 'int64'"),
        ({"vectors": LISTS, "payloads": ["{}", "{"]}, "expected a JSON object for each payload, got '{'"),
        ({"vectors": LISTS, "payloads": ["{}", "[]"]}, r"expected a JSON object for each payload, got '\[\]'"),
        ({"vectors": LISTS, "payloads": ["{}", '{"x": 1, "x": 2}']}, "the field 'x' occurs twice"),
        ({"ids": [1, 2]}, "expected one of vectors or texts, got none of them"),
        ({"vectors": LISTS.slice(0, 0)}, "the Arrow stream has no rows"),
    ],
)
def test_only_plain_columns(table: dict[str, Any], words: str):
    with pytest.raises(InvalidInput, match=words):
        read(NewItems, ARROW, stream(pa.table(table)), {}, LIMITS)


def test_rows_of_no_values_pass_to_the_index_or_are_refused():
    empty = pa.array([[], []], pa.list_(pa.float32()))
    assert read(NewItems, ARROW, stream(pa.table({"vectors": empty})), {}, LIMITS).vectors.shape == (2, 0)
    with pytest.raises(InvalidInput, match="expected lists of numbers"):
        read(NewItems, ARROW, stream(pa.table({"vectors": empty.cast(pa.list_(pa.float32(), 0))})), {}, LIMITS)


def test_limits_are_kept():
    for array in (np.zeros((51, 2)), np.zeros((2, 65))):
        for column in (fixed(array), pa.array(array.tolist())):
            with pytest.raises(TooLarge):
                read(NewItems, ARROW, stream(pa.table({"vectors": column})), {}, LIMITS)
    empty = pa.RecordBatch.from_arrays([fixed(X).slice(0, 0)], ["vectors"])
    file = io.BytesIO()
    with pa.ipc.new_stream(file, empty.schema) as writer:
        for _ in range(1025):
            writer.write_batch(empty)
    with pytest.raises(TooLarge, match="1024 record batches"):
        read(NewItems, ARROW, file.getvalue(), {}, LIMITS)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_buffers_are_refused_before_they_grow(codec: str):
    bomb = stream(pa.table({"vectors": fixed(np.zeros((40, 50_000)))}), compression=codec)
    assert len(bomb) < 200_000

    def grown() -> int:
        before = pa.total_allocated_bytes()
        most = pa.default_memory_pool().max_memory()
        assert isinstance(outcome(NewItems, ARROW, bomb), TooLarge)  # a row of it is too wide already
        small = stream(pa.table({"vectors": fixed(np.zeros((40, 64)))}), compression=codec)
        assert "compression" in str(outcome(NewItems, ARROW, small))
        return max(pa.total_allocated_bytes() - before, pa.default_memory_pool().max_memory() - most)

    assert grown() < 1_000_000


def test_streams_that_are_none():
    file = io.BytesIO()
    with pa.ipc.new_file(file, pa.schema([("vectors", LISTS.type)])) as writer:
        writer.write_table(pa.table({"vectors": LISTS}))
    after = SOUND[0] + b"x"
    for data in (b"", b"\0", SOUND[0][:-20], SOUND[0][:40], after, file.getvalue(), b"\xff" * 64, SOUND[0][8:]):
        with pytest.raises(BadRequest):
            read(NewItems, ARROW, data, {}, LIMITS)


def test_only_bodies_of_rows_are_tables():
    from onlinehash.serve.bodies.shapes import Rollback

    with pytest.raises(UnsupportedMediaType):
        read(Rollback, ARROW, SOUND[0], {}, LIMITS)


@given(st.binary(max_size=200) | mutated(SOUND))
def test_any_bytes_end_in_a_body_or_a_4xx(data: bytes):
    for shape in (NewItems, Query):
        outcome(shape, ARROW, data)


@given(mutated(SOUND))
def test_memory_stays_near_the_size_of_the_body(data: bytes):
    before = pa.default_memory_pool().max_memory()
    assert peak(lambda: outcome(NewItems, ARROW, data)) < 2_000_000
    assert pa.default_memory_pool().max_memory() - before < 2_000_000


def test_without_pyarrow_the_extra_is_named():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from onlinehash.errors import MissingExtra\n"
        "from onlinehash.serve.bodies import parser, shapes\n"
        "from onlinehash.serve.settings import Limits\n"
        "try: parser.read(shapes.Query, shapes.ARROW, b'', {}, Limits())\n"
        "except MissingExtra as error: print(error.http_status, error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == f"501 {MissingExtra('Arrow bodies', 'pyarrow', 'parquet')}"
