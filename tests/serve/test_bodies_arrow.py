"""Arrow streams: plain tables are read exactly, all else is refused before it costs anything."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onlinehash.errors import InvalidInput
from onlinehash.serve.bodies.parser import read
from onlinehash.serve.bodies.shapes import ARROW, Labelled, Lesson, NewItems, Query
from tests.serve.hostile import LIMITS, mutated, outcome


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


def test_only_plain_columns():
    for table in (
        {"vectors": LISTS, "k": [1, 2]},
        {"vectors": [["a"], ["b"]]},
        {"vectors": [[1.0], None]},
        {"vectors": [[1.0], [1.0, 2.0]]},
        {"vectors": LISTS, "ids": [1, None]},
        {"vectors": LISTS, "payloads": ["{}", "{"]},
        {"ids": [1, 2]},
        {"vectors": LISTS.slice(0, 0)},
    ):
        with pytest.raises(InvalidInput):
            read(NewItems, ARROW, stream(pa.table(table)), {}, LIMITS)


@given(st.binary(max_size=200) | mutated(SOUND))
def test_any_bytes_end_in_a_body_or_a_4xx(data: bytes):
    for shape in (NewItems, Query):
        outcome(shape, ARROW, data)
