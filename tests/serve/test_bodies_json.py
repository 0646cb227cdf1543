"""JSON bodies: what is read, what is refused and in which words, and what hostile ones cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import checks
from onlinehash.errors import InvalidInput, MissingExtra, OnlineHashError, UnknownId
from onlinehash.serve import errors
from onlinehash.serve.bodies import shapes
from onlinehash.serve.bodies.parser import read
from onlinehash.serve.bodies.shapes import JSON, Labelled, Lesson, NewItems, Query, Rerank, Shape
from onlinehash.serve.errors import BadRequest, TooLarge, UnsupportedMediaType, document
from tests.serve.hostile import LIMITS, mutated, outcome, peak

ASKED = "expected one of vector or vectors or text or texts or id or ids or code or codes"
RAGGED = "got rows of unequal length."
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


def test_schemas_refuse_other_fields_and_show_the_example():
    for shape in shapes.SHAPES:
        schema = shapes.schema(shape)
        assert schema["additionalProperties"] is False
        assert schema["examples"] == [shape.example]
        assert schema["description"] == shape.__doc__
        assert set(schema["properties"]) == set(shape.__struct_fields__)
    assert {"required": ["a", "b"], "properties": {"a": {"not": {"type": "null"}}, "b": {"not": {"type": "null"}}}} in (
        shapes.schema(Lesson)["oneOf"]
    )


def test_dtype_says_what_numbers_are_kept_as():
    text = b'{"vector": [0.1, 1e-40], "dtype": "float64"}'
    found = read(Query, "Application/JSON; charset=utf-8", text, {}, LIMITS).vector
    assert found.dtype == np.float64
    assert found.tolist() == [0.1, 1e-40]


def test_a_payload_left_out_is_not_a_payload_of_null():
    assert read(shapes.ChangedItem, JSON, b"{}", {}, LIMITS).payload is msgspec.UNSET
    assert read(shapes.ChangedItem, JSON, b'{"payload": null}', {}, LIMITS).payload is None


def test_orders_may_have_no_body():
    assert read(shapes.RefreshOrder, "", b"", {}, LIMITS).wait is True
    assert read(shapes.Rollback, "", b"", {}, LIMITS).serial is None


@pytest.mark.parametrize(
    ("data", "error"),
    {
        "nothing": (b"", BadRequest),
        "a byte order mark": (b'\xef\xbb\xbf{"id": 1}', BadRequest),
        "garbage after": (b'{"id": 1}}', BadRequest),
        "cut off": (b'{"vector": [1, 2', BadRequest),
        "no UTF-8": (b'{"id": "\xff"}', BadRequest),
        "a lone surrogate": (b'{"id": "\\ud800 "}', BadRequest),
        "NaN": (b'{"vector": [NaN]}', BadRequest),
        "Infinity": (b'{"vector": [-Infinity]}', BadRequest),
        "many brackets": (b"[" * 1_000_000, InvalidInput),
        "many brackets in a vector": (b'{"vector": ' + b"[" * 1_000_000, InvalidInput),
        "many brackets in a filter": (b'{"id": 1, "where": {"a": ' + b"[" * 1_000_000, BadRequest),
        "many objects in a filter": (b'{"id": 1, "where": ' + b'{"a":' * 100_000, BadRequest),
        "a number beyond doubles": (b'{"vector": [1e999]}', InvalidInput),
        "a number of many digits": (b'{"id": ' + b"9" * 5_000 + b"}", InvalidInput),
        "k beyond 64 bits": (b'{"id": 1, "k": 9223372036854775808}', InvalidInput),
        "a field twice": (b'{"id": 1, "id": 2}', InvalidInput),
        "a field twice, once escaped": (b'{"id": 1, "\\u0069d": 2}', InvalidInput),
        "an unknown dtype": (b'{"id": 1, "dtype": "object"}', InvalidInput),
        "no object": (b"null", InvalidInput),
    }.values(),
)  # fmt: skip
def test_broken_and_hostile_json_is_the_senders_fault(data: bytes, error: type[OnlineHashError]):
    with pytest.raises(error) as caught:
        read(Query, JSON, data, {}, LIMITS)
    assert type(caught.value) is error


def test_what_is_sound_passes():
    assert np.signbit(read(Query, JSON, b'{"vector": [-0.0, 0]}', {}, LIMITS).vector).tolist() == [True, False]
    assert read(Query, JSON, b'{"id": 123456789012345678901}', {}, LIMITS).id == 123456789012345678901
    assert read(Query, JSON, b'{"id": "a", "where": {"id": "a", "b": {"id": 1}}}', {}, LIMITS).where["id"] == "a"
    assert read(Query, JSON, b'{"id": "\\"id\\": \\\\"}', {}, LIMITS).id == '"id": \\'
    assert np.isinf(read(Query, JSON, b'{"vector": [1e39]}', {}, LIMITS).vector).all()  # for the index to refuse


@pytest.mark.parametrize(
    ("shape", "data", "sentence"),
    [
        (Query, {"vectors": [[1, 2, 3, "x"]]}, "expected a number at vectors[0][3], got a string."),
        (Query, {"vector": [True]}, "expected a number at vector[0], got a bool."),
        (Query, {"id": 1, "k": 1.5}, "expected a whole number at k, got a number that is not whole."),
        (Query, {"vector": 3}, "expected a list or null at vector, got a whole number."),
        (Query, [], "expected an object as the body, got a list."),
        (Query, {}, f"{ASKED}, got none of them."),
        (Query, {"id": 1, "code": "ff"}, f"{ASKED}, got id and code."),
        (Lesson, {"a": [1], "similar": True}, "expected one of a and b or id_a and id_b or text_a and id_b or text_a "
         "and text_b, got a."),
        (shapes.Ids, {}, "the field ids is missing; the fields are ids."),
        (shapes.Ids, {"ids": [], "x\n": 1}, "the field 'x\\n' is unknown; the fields are ids."),
        (NewItems, {"vectors": [[1, 2], [3]]}, f"expected a rectangular array for vectors, {RAGGED}"),
        (Lesson, {"a": [1, [2]], "b": [1], "similar": 1}, f"expected a rectangular array for a, {RAGGED}"),
        (Rerank, {"vectors": [[1]], "ids": [[1], 2]}, "the inner lists must have equal lengths."),
        (NewItems, {"vectors": []}, "Expected 2D array, got 1D array instead for vectors (shape (0,)). "
                                    "Reshape your data with vectors.reshape(1, -1) if it is a single vector."),
        (Query, {"vector": [1], "dtype": "f4"}, "expected float32 or float64 at dtype, got \"'f4'\"."),
    ],
)  # fmt: skip
def test_one_sentence_says_what_is_wrong(shape: type[Shape], data: Any, sentence: str):
    with pytest.raises(InvalidInput) as caught:
        read(shape, JSON, json.dumps(data).encode(), {}, LIMITS)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        (Query, {"id": 1, "k": 101}),
        (Query, {"ids": list(range(81))}),
        (Query, {"vector": [0] * 65}),
        (Query, {"vectors": [[0] * 65]}),
        (Query, {"codes": ["00"] * 51}),
        (NewItems, {"vectors": [[0]] * 51}),
        (NewItems, {"vectors": [[0]], "payloads": [None] * 51}),
        (Rerank, {"vectors": [[0], [0]], "ids": [[1] * 41, [1] * 41]}),
        (Lesson, {"a": [[0]] * 51, "b": [[0]], "similar": True}),
        (Lesson, {"id_a": 1, "id_b": 1, "similar": [True] * 81}),
        (Labelled, {"vectors": [[0]], "y": [1] * 81}),
    ],
)
def test_limits_are_kept(shape: type[Shape], data: dict[str, Any]):
    with pytest.raises(TooLarge):
        read(shape, JSON, json.dumps(data).encode(), {}, LIMITS)


def test_at_the_limits_all_is_well():
    rows = [[0.0] * 64] * 50
    assert read(Query, JSON, json.dumps({"vectors": rows, "k": 100}).encode(), {}, LIMITS).vectors.shape == (50, 64)
    assert len(read(shapes.Ids, JSON, json.dumps({"ids": list(range(80))}).encode(), {}, LIMITS).ids) == 80


def test_other_kinds_and_stray_parameters_are_refused():
    for kind in ("", "text/plain", "application/json+zip", "application/x-npy\n"):
        with pytest.raises(UnsupportedMediaType):
            read(shapes.Ids, kind, b'{"ids": [1]}', {}, LIMITS)
    with pytest.raises(UnsupportedMediaType, match=r"or application/vnd\.onlinehash, got"):
        read(shapes.Ids, shapes.NPY, b"", {}, LIMITS)
    with pytest.raises(InvalidInput, match="query parameter 'k' is not allowed"):
        read(Query, JSON, b'{"id": 1}', {"k": "3"}, LIMITS)


def test_memory_is_a_small_multiple_of_the_body():
    for piece in (b"0,", b"[],", b"{},", b'"",'):
        for begin in (b'{"id": 1, "where": {"a": [', b'{"vector": [', b'{"vectors": [', b'{"ids": ['):
            data = begin + piece * (120_000 // len(piece)) + b"0"
            assert peak(lambda data=data: outcome(Query, JSON, data)) < 40 * len(data)


def test_a_body_of_too_many_values_is_refused_unread():
    data = b'{"vector": [' + b"0," * 2**23 + b"0]}"
    with pytest.raises(TooLarge, match="JSON values"):
        read(Query, JSON, data, {}, LIMITS)
    assert peak(lambda: outcome(Query, JSON, data)) < 100_000


@given(st.binary(max_size=200), st.sampled_from(shapes.SHAPES))
def test_random_bytes_end_in_a_body_or_a_4xx(data: bytes, shape: type[Shape]):
    outcome(shape, JSON, data)


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


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=64))
def test_float64_comes_back_exactly(row: list[float]):
    body = read(Query, JSON, json.dumps({"vector": row, "dtype": "float64"}).encode(), {}, LIMITS)
    np.testing.assert_array_equal(body.vector.view(np.uint64), np.array(row).view(np.uint64))


# ------------------------------------------------------------------ errors


def refused(check: Callable[..., Any], *arguments: Any) -> OnlineHashError:
    with pytest.raises(OnlineHashError) as caught:
        check(*arguments)
    return caught.value


@pytest.mark.parametrize(
    ("error", "expected", "got"),
    [
        (InvalidInput(expected="a number at k", got="a string"), "a number at k", "a string"),
        (UnknownId("no item has id 7; ids here are integers."), None, None),
        (MissingExtra("Arrow bodies", "pyarrow", "parquet"), None, None),
        (refused(checks.parameters, "search", {"k": 2}, {"k": checks.one_of(None)}), "k to be one of None", "2"),
        (refused(checks.vectors, [1.0]), "2D array", "1D array instead for X (shape (1,))"),
        (refused(checks.width, np.ones((1, 3)), 4, "A"), "4 features", "X has 3 features"),
        (refused(checks.vectors, [[np.nan]]), "finite values", "X contains NaN"),
    ],
)  # fmt: skip
def test_the_document_of_an_error(error: OnlineHashError, expected: str | None, got: str | None):
    document_ = {"error": type(error).__name__, "message": str(error), "expected": expected, "got": got}
    assert document(error) == document_


def test_each_error_of_the_service_has_its_status():
    statuses = {"BadRequest": 400, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404, "MethodNotAllowed": 405,
                "RequestTimeout": 408, "KeyReused": 409, "TooLarge": 413, "UnsupportedMediaType": 415, "Busy": 429,
                "ServerError": 500, "Unavailable": 503, "DeadlineExceeded": 504}  # fmt: skip
    for name, status in statuses.items():
        assert issubclass(getattr(errors, name), OnlineHashError)
        assert getattr(errors, name)("expected x, got y.").http_status == status
        assert name in errors.__doc__
    assert errors.Busy("expected less, got more.", retry_after=7).retry_after == 7
