"""JSON bodies: what is read, what is refused and in which words, and what hostile ones cost."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.errors import InvalidInput
from onlinehash.serve.bodies import shapes
from onlinehash.serve.bodies.parser import read
from onlinehash.serve.bodies.shapes import JSON, Labelled, Lesson, NewItems, Query, Rerank, Shape
from onlinehash.serve.errors import BadRequest, TooLarge, UnsupportedMediaType
from tests.serve.hostile import LIMITS, mutated, outcome

SOUND = [json.dumps(shape.example).encode() for shape in shapes.SHAPES] + [
    b'{"vectors": [[1, 2.5e-3], [-0, 3]], "payloads": [{"a": ["\\u00e9", null]}, null], "ids": ["x", "y"]}',
    b'{"codes": ["00ff", "ff00"], "k": 3, "where": {"price": {"<": 5}}, "payloads": true, "dtype": "float64"}',
    b'{"a": [[1, 2], [3, 4]], "b": [[0, 1], [1, 0]], "similar": [1, -1], "weight": [0.5, 2]}',
]


def test_every_example_is_read_and_keeps_its_values():
    for shape in shapes.SHAPES:
        body = read(shape, JSON, json.dumps(shape.example).encode(), {}, LIMITS)
        for name, value in shape.example.items():
            found = getattr(body, name)
            if name in shape.arrays:
                assert found.dtype == np.float32
                np.testing.assert_array_equal(found, np.array(value, np.float32))
            else:
                assert found == value


def test_a_payload_left_out_is_not_a_payload_of_null():
    assert read(shapes.ChangedItem, JSON, b"{}", {}, LIMITS).payload is msgspec.UNSET
    assert read(shapes.ChangedItem, JSON, b'{"payload": null}', {}, LIMITS).payload is None


def test_orders_may_have_no_body():
    assert read(shapes.RefreshOrder, "", b"", {}, LIMITS).wait is True
    assert read(shapes.Rollback, "", b"", {}, LIMITS).serial is None


HOSTILE = [
    (b"", BadRequest),
    (b'{"id": 1}}', BadRequest),
    (b'{"vector": [1, 2', BadRequest),
    (b'{"id": "\xff"}', BadRequest),
    (b'{"vector": [NaN]}', BadRequest),
    (b"[" * 1_000_000, InvalidInput),
    (b'{"id": 1, "where": ' + b'{"a":' * 100_000, BadRequest),
    (b'{"vector": [1e999]}', InvalidInput),
    (b'{"id": ' + b"9" * 5_000 + b"}", InvalidInput),
    (b'{"id": 1, "id": 2}', InvalidInput),
    (b'{"id": 1, "\\u0069d": 2}', InvalidInput),
    (b"null", InvalidInput),
]


def test_broken_and_hostile_json_is_the_senders_fault():
    for data, error in HOSTILE:
        with pytest.raises(error) as caught:
            read(Query, JSON, data, {}, LIMITS)
        assert type(caught.value) is error, data[:50]


def test_what_is_sound_passes():
    assert np.signbit(read(Query, JSON, b'{"vector": [-0.0, 0]}', {}, LIMITS).vector).tolist() == [True, False]
    assert read(Query, JSON, b'{"id": 123456789012345678901}', {}, LIMITS).id == 123456789012345678901
    assert read(Query, JSON, b'{"id": "a", "where": {"id": "a", "b": {"id": 1}}}', {}, LIMITS).where["id"] == "a"
    assert read(Query, JSON, b'{"id": "\\"id\\": \\\\"}', {}, LIMITS).id == '"id": \\'
    assert np.isinf(read(Query, JSON, b'{"vector": [1e39]}', {}, LIMITS).vector).all()  # for the index to refuse


def test_limits_are_kept():
    for shape, data in (
        (Query, {"id": 1, "k": 101}),
        (Query, {"ids": list(range(81))}),
        (Query, {"vectors": [[0] * 65]}),
        (NewItems, {"vectors": [[0]] * 51}),
        (Rerank, {"vectors": [[0], [0]], "ids": [[1] * 41, [1] * 41]}),
        (Lesson, {"id_a": 1, "id_b": 1, "similar": [True] * 81}),
        (Labelled, {"vectors": [[0]], "y": [1] * 81}),
    ):
        with pytest.raises(TooLarge):
            read(shape, JSON, json.dumps(data).encode(), {}, LIMITS)


def test_other_kinds_and_stray_parameters_are_refused():
    for kind in ("", "text/plain", "application/json+zip", "application/x-npy\n"):
        with pytest.raises(UnsupportedMediaType):
            read(shapes.Ids, kind, b'{"ids": [1]}', {}, LIMITS)
    with pytest.raises(UnsupportedMediaType, match=r"or application/vnd\.onlinehash, got"):
        read(shapes.Ids, shapes.NPY, b"", {}, LIMITS)
    with pytest.raises(InvalidInput, match="query parameter 'k' is not allowed"):
        read(Query, JSON, b'{"id": 1}', {"k": "3"}, LIMITS)


@given(mutated(SOUND), st.sampled_from(shapes.SHAPES))
def test_mutated_bodies_end_in_a_body_or_a_4xx(data: bytes, shape: type[Shape]):
    outcome(shape, JSON, data)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.data(), st.sampled_from(shapes.SHAPES))
def test_fields_of_any_type_end_in_a_body_or_a_4xx(data: st.DataObject, shape: type[Shape]):
    fields = data.draw(st.dictionaries(st.sampled_from(shape.__struct_fields__), values, max_size=4))
    outcome(shape, JSON, json.dumps(shape.example | fields).encode("utf-8", "surrogatepass"))


@given(
    st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1)
)
def test_float32_comes_back_exactly(rows: list[list[float]]):
    body = read(NewItems, JSON, json.dumps({"vectors": rows[:50]}).encode(), {}, LIMITS)
    np.testing.assert_array_equal(body.vectors.view(np.uint32), np.array(rows[:50], np.float32).view(np.uint32))
