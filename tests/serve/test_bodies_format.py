"""Bodies in the library's own format: exact arrays, and nothing but what the shape allows."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onlinehash.errors import FormatError, InvalidInput, OnlineHashError
from onlinehash.io import format
from onlinehash.serve.bodies import shapes
from onlinehash.serve.bodies.parser import read
from onlinehash.serve.bodies.shapes import FORMAT, Labelled, Lesson, NewItems, Query, Shape
from onlinehash.serve.errors import TooLarge
from tests.serve.hostile import LIMITS, mutated, outcome, peak

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def body(**fields: Any) -> bytes:
    return format.to_bytes("body", fields)


SOUND = [
    body(ids=["a", "b"], vectors=X, payloads=[{"a": [1, None]}, None]),
    body(ids=np.arange(2), vectors=X.astype(np.float64).T),
    body(vector=X[0], k=3, where={"a": {"<": 5}}),
    body(a=X, b=X, similar=np.array([True, False]), weight=np.ones(2)),
]


def signed(content: Any, kind: Any = "body", shape: tuple[int, ...] | None = None, data: bytes = b"") -> bytes:
    """A file with an array x of bytes, whose sums are right: they protect against decay, not against people."""
    entries = {} if shape is None else {"x": {"dtype": "U8", "shape": shape, "data_offsets": [0, math.prod(shape)]}}
    summed = json.dumps([kind, content], sort_keys=True) + (f"x:|u1:{shape}:" if entries else "")
    checksum = hashlib.sha256(summed.encode() + data).hexdigest()
    header = {"format": 1, "kind": kind, "content": content, "checksum": checksum}
    text = json.dumps({"__metadata__": {"onlinehash": json.dumps(header)}, **entries}).encode()
    return struct.pack("<Q", len(text)) + text + data


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


def test_a_lesson_of_arrays():
    found = read(Lesson, FORMAT, SOUND[3], {}, LIMITS)
    np.testing.assert_array_equal(found.a, X)
    assert found.similar.tolist() == [True, False]
    assert found.weight.tolist() == [1, 1]
    one = read(Lesson, FORMAT, body(a=X[0], b=X[1], similar=True, weight=0.5), {}, LIMITS)
    assert (one.a.shape, one.similar, one.weight) == ((3,), True, 0.5)
    hits = read(shapes.Rerank, FORMAT, body(vectors=X, ids=np.eye(2, dtype=np.int64)), {}, LIMITS)
    assert hits.ids.tolist() == [[1, 0], [0, 1]]
    several = read(Labelled, FORMAT, body(vectors=X, y=np.eye(2)), {}, LIMITS)
    assert several.y.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"vector": X[0], "z": 1}, "the field 'z' is unknown"),
        ({"vector": X[0], "z": X}, "'z' cannot be an array"),
        ({"vector": X[0], "k": X}, "'k' cannot be an array"),
        ({"vector": X[0], "k": "3"}, "expected a whole number at k, got a string"),
        ({"vector": [1.0, 2.0]}, "expected an array for vector, got list"),
        ({"vector": X}, r"expected one vector for vector, got shape \(2, 3\)"),
        ({"vectors": X[0]}, "Expected 2D array"),
        ({"vectors": X[None]}, "expected one or two axes"),
        ({"vectors": np.array(1.0)}, "expected one or two axes"),
        ({"ids": np.zeros((2, 2), np.int64)}, r"expected one axis for ids, got shape \(2, 2\)"),
        ({"codes": np.zeros(2, np.uint8)}, "'codes' cannot be an array"),
        ({"id": 1, "where": {"a": X}}, "values outside arrays must be valid JSON"),
        ({"id": 1, "where": {"a": float("nan")}}, "values outside arrays must be valid JSON"),
        ({"id": "\ud800"}, "values outside arrays must be valid JSON"),
        ({"id": 1, "dtype": "float32"}, "dtype is not allowed here"),
        ({}, "got none of them"),
    ],
)
def test_only_what_the_shape_allows(fields: dict[str, Any], words: str):
    with pytest.raises(InvalidInput, match=words):
        read(Query, FORMAT, body(**fields), {}, LIMITS)


def test_limits_are_kept():
    for fields in ({"vectors": np.zeros((51, 2))}, {"vectors": np.zeros((2, 65))}, {"ids": np.arange(81)}):
        with pytest.raises(TooLarge):
            read(Query, FORMAT, body(**fields), {}, LIMITS)


def test_other_files_are_refused():
    with pytest.raises(InvalidInput, match="expected a file of kind 'body'"):
        read(Query, FORMAT, format.to_bytes("learner", {"id": 1}), {}, LIMITS)
    for data in (b"", b"\0" * 8, SOUND[0][:-1], SOUND[0] + b"\0", b"\xff" * 64):
        with pytest.raises(FormatError):
            read(Query, FORMAT, data, {}, LIMITS)


@pytest.mark.parametrize(
    "data",
    [
        signed([1]),
        signed({"id": 1}, kind=["body"]),
        signed({"vector": {"$array": "x"}}),
        signed({"vector": {"$array": ["x"]}}),
        signed({"id": 1, "where": {"a": {"$float": "inf"}}}),
        signed({"id": 1, "k": {"$float": "ten"}}),
        signed({"ids": [{"$array": "x"}]}, shape=(1,), data=b"1"),
        signed({"vectors": {"$array": "x"}}, shape=(0, 2**59)),
        struct.pack("<Q", 10**6) + b"[" * 10**6,
    ],
)
def test_signed_nonsense_is_refused(data: bytes):
    assert isinstance(outcome(Query, FORMAT, data), OnlineHashError)


def test_what_is_signed_here_is_read():
    found = outcome(Query, FORMAT, signed({"vectors": {"$array": "x"}}, shape=(2, 1), data=b"\1\2"))
    assert found.vectors.tolist() == [[1], [2]]


def test_bombs_cost_little():
    huge = signed({"vectors": {"$array": "x"}}, shape=(2**30, 2**20))
    assert peak(lambda: outcome(Query, FORMAT, huge)) < 1_000_000
    long = struct.pack("<Q", 2**25) + b" " * 2**25
    assert isinstance(outcome(Query, FORMAT, long), TooLarge)
    assert peak(lambda: outcome(Query, FORMAT, long)) < 1_000_000
    deep = struct.pack("<Q", 2**20) + b'{"a":' + b"[]," * (2**20 // 3) + b"  "
    assert peak(lambda: outcome(Query, FORMAT, deep)) < 40 * len(deep)


@given(st.binary(max_size=200) | mutated(SOUND), st.sampled_from(shapes.SHAPES))
def test_any_bytes_end_in_a_body_or_a_4xx(data: bytes, shape: type[Shape]):
    outcome(shape, FORMAT, data)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just({"$array": "x"})
plain = st.recursive(
    scalars | st.builds(lambda text: {"$float": text}, st.sampled_from(["nan", "1e999", "x", ""])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.data(), st.sampled_from(shapes.SHAPES))
def test_any_signed_content_ends_in_a_body_or_a_4xx(data: st.DataObject, shape: type[Shape]):
    fields = data.draw(st.dictionaries(st.sampled_from(shape.__struct_fields__), plain, max_size=4))
    outcome(shape, FORMAT, signed(shape.example | fields))
    outcome(shape, FORMAT, signed(shape.example | fields, shape=(2, 1), data=b"\1\2"))
