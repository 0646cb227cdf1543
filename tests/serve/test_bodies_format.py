"""Bodies in the library's own format: exact arrays, and nothing but what the shape allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onlinehash.errors import FormatError, InvalidInput
from onlinehash.io import format
from onlinehash.serve.bodies import shapes
from onlinehash.serve.bodies.parser import read
from onlinehash.serve.bodies.shapes import FORMAT, NewItems, Query, Shape
from tests.serve.hostile import LIMITS, mutated, outcome

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def body(**fields: Any) -> bytes:
    return format.to_bytes("body", fields)


SOUND = [
    body(ids=["a", "b"], vectors=X, payloads=[{"a": [1, None]}, None]),
    body(ids=np.arange(2), vectors=X.astype(np.float64).T),
    body(vector=X[0], k=3, where={"a": {"<": 5}}),
    body(a=X, b=X, similar=np.array([True, False]), weight=np.ones(2)),
]


dtypes = st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.uint64, np.bool_])


@given(
    dtypes.flatmap(lambda d: arrays.arrays(d, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6))), st.booleans()
)
def test_the_same_arrays_come_back(array: np.ndarray, transposed: bool):
    array = array.T if transposed else array
    found = read(NewItems, FORMAT, body(vectors=array, ids=[str(i) for i in range(3)]), {}, LIMITS)
    assert found.vectors.dtype == array.dtype
    assert found.vectors.shape == array.shape
    assert found.vectors.tobytes() == array.tobytes()
    assert found.ids == ["0", "1", "2"]


def test_only_what_the_shape_allows():
    for fields, words in (
        ({"vector": X[0], "z": 1}, "the field 'z' is unknown"),
        ({"vector": X[0], "k": X}, "'k' cannot be an array"),
        ({"vector": [1.0, 2.0]}, "expected an array for vector, got list"),
        ({"vectors": X[None]}, "expected one or two axes"),
        ({"id": 1, "where": {"a": float("nan")}}, "values outside arrays must be valid JSON"),
        ({}, "got none of them"),
    ):
        with pytest.raises(InvalidInput, match=words):
            read(Query, FORMAT, body(**fields), {}, LIMITS)


def test_other_files_are_refused():
    with pytest.raises(InvalidInput, match="expected a file of kind 'body'"):
        read(Query, FORMAT, format.to_bytes("learner", {"id": 1}), {}, LIMITS)
    for data in (b"", b"\0" * 8, SOUND[0][:-1], SOUND[0] + b"\0", b"\xff" * 64):
        with pytest.raises(FormatError):
            read(Query, FORMAT, data, {}, LIMITS)


@given(st.binary(max_size=200) | mutated(SOUND), st.sampled_from(shapes.SHAPES))
def test_any_bytes_end_in_a_body_or_a_4xx(data: bytes, shape: type[Shape]):
    outcome(shape, FORMAT, data)
