"""Numbers parsed without Python objects are those that Python parses, to the last bit, or none."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash.errors import OnlineHashError
from onlinehash.serve.bodies import from_json as module
from onlinehash.serve.bodies import numbers, shapes
from onlinehash.serve.bodies.from_json import _vector_apart, from_json
from tests.support import thorough

finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
finite64 = st.floats(allow_nan=False, allow_infinity=False)
digits = st.from_regex(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def bits(values: np.ndarray) -> list[bytes]:
    return [struct.pack("<f", value) for value in values]


def expected(texts: list[str]) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array([float(text) for text in texts], np.float32)


def parsed(texts: list[str], gap: str = ", ") -> np.ndarray | None:
    text = f"[{gap.join(texts)}]"
    found = numbers.parse(text.encode(), 0)
    if found is None:
        return None
    values, end = found
    assert end == len(text)
    return values


@settings(max_examples=thorough(60, 600))
@given(st.lists(finite32 | finite64, min_size=1, max_size=30), st.sampled_from([",", ", ", " ,\n\t"]))
def test_floats_as_python_writes_them(values: list[float], gap: str) -> None:
    texts = [repr(value) for value in values]
    found = parsed(texts, gap)
    if found is not None:
        assert bits(found) == bits(expected(texts))


@settings(max_examples=thorough(100, 1500))
@given(digits)
def test_any_number_of_json(text: str) -> None:
    found = parsed([text])
    if found is not None:
        assert bits(found) == bits(expected([text]))


def test_vectors_seldom_take_the_long_way() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 512))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    for write in (str, lambda value: repr(float(value))):
        vectors = [[write(value) for value in row] for row in rows]
        found = [parsed(texts) for texts in vectors]
        assert sum(values is None for values in found) <= 10
        assert all(v is None or bits(v) == bits(row) for v, row in zip(found, rows, strict=True))


def test_doubles_that_one_division_would_round_wrongly() -> None:
    """Seventeen digits, most of them beyond 2**53: compared as doubles, as float32 would hide the last bits."""
    wrong_at_once = 0
    for value in np.random.default_rng(1).random(4000) + 1:
        text = repr(float(value))
        whole, _, after = text.partition(".")
        integer = int(whole + after)
        assert numbers._scaled(np.uint64(integer), -len(after)) == value
        wrong_at_once += float(integer) / 10.0 ** len(after) != value
    assert wrong_at_once > 100


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[]", "[1", "[1,", "[1,]", "[,1]", "[01]", "[+1]", "[.5]", "[1.]", "[1e]", "[1e+]", "[-]", "[NaN]"),
        *("[Infinity]", '["1"]', "[true]", "[null]", "[[1]]", "[1 2]", "[1;2]", "[1e99999]", "[0x1]", "{}", "[1}"),
    ],
)
def test_what_is_no_list_of_numbers_takes_the_long_way(text: str) -> None:
    assert numbers.parse(text.encode(), 0) is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "nul",
            "[]",
            "[[]]",
            "[[1],[]]",
            "[[1,2],[3]]",
            "[[1],2]",
            "[1,[2]]",
            "[[[1]]]",
            "[[1]]x",
            "[1]]",
            "[[1]]]",
        ),
        *("[1", "[[1", "[[1]", "[[1],", "[[1],]", "[,[1]]", "[[1][2]]", '[["1"]]', "[[NaN]]", "[[01]]", "[1] [2]"),
    ],
)
def test_what_is_no_list_of_points_takes_the_long_way(text: str) -> None:
    assert numbers.parse_points(text.encode()) is None


@settings(max_examples=thorough(60, 600))
@given(st.integers(1, 4), st.integers(1, 4), st.data(), st.sampled_from([",", " , ", "\n,\t"]))
def test_points_as_python_writes_them(n: int, width: int, data: st.DataObject, gap: str) -> None:
    rows = data.draw(st.lists(st.lists(finite32, min_size=width, max_size=width), min_size=n, max_size=n))
    texts = [f"[ {gap.join(map(repr, row))}]" for row in rows]
    for text, wanted in (
        (f"[{gap.join(texts)} ]", np.array(rows, np.float32)),
        (texts[0], np.array(rows[0], np.float32)),
    ):
        found = numbers.parse_points(text.encode())
        if found is not None:
            assert found.dtype == np.float32
            assert found.shape == wanted.shape
            assert bits(found.ravel()) == bits(wanted.ravel())


def test_many_points_take_the_short_way() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 64)).astype(np.float32)
    found = numbers.parse_points(json.dumps(rows.tolist()).encode())
    assert found is not None
    assert np.array_equal(found, rows)


@pytest.mark.parametrize("shape", [shape for shape in shapes.SHAPES if shape.arrays])
def test_a_large_body_is_what_a_small_one_is(shape: type[shapes.Shape], monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(shape.example).encode()
    small = from_json(shape, data)
    monkeypatch.setattr(module, "LARGE", 0)
    large = from_json(shape, data)
    for name in shape.__struct_fields__:
        value, wanted = getattr(large, name), getattr(small, name)
        if name in shape.arrays and wanted is not None:
            assert value.dtype == np.float32
            assert np.array_equal(value, np.asarray(wanted, np.float32))
        else:
            assert value == wanted


@pytest.mark.parametrize(
    "body",
    [
        b'{"vectors": [[1, 2], [3]]}',
        b'{"vectors": [[1, "2"]]}',
        b'{"vectors": [[1e999]]}',
        b'{"vectors": [[1]], "vectors": [[1]]}',
        b'{"vectors": [[1]], "unknown": 1}',
        b'{"vectors": [[1]], "k": "ten"}',
        b'{"vectors": [[1]], "vector": {}}',
        b'{"vectors": [[1]]',
        b'{"vectors": [[1]]} 2',
        b'{"vectors": [[0.1234567890123456789, 3]], "dtype": "float64"}',
        b'{"k": 3}',
    ],
)
def test_a_large_body_is_refused_as_a_small_one_is(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> str:
        try:
            return repr(from_json(shapes.Query, body))
        except OnlineHashError as error:
            return f"{type(error).__name__}: {error}"

    small = outcome()
    monkeypatch.setattr(module, "LARGE", 0)
    assert outcome() == small


@pytest.mark.parametrize(
    "body",
    [
        b'{"where": {"vector": [1, 2]}, "vectors": [[1]]}',
        b'{"vectors": [[1, 2]], "vector": [3]}',
        b'{"vector": [1], "vector": [2]}',
        b'{"where": {"a": "\\"vector\\": [1]"}}',
        b'{"code": "\\"vector\\": [1]"}',
        b'[{"vector": [1]}]',
        b'"vector": [1]',
    ],
)
def test_another_vector_is_not_mistaken_for_the_field(body: bytes) -> None:
    assert _vector_apart(body) == (None, body)


@settings(max_examples=thorough(60, 600))
@given(st.lists(finite32, min_size=1, max_size=8), st.integers(0, 50), st.permutations(["vector", "k", "payloads"]))
def test_a_body_is_what_the_general_parser_says(values: list[float], k: int, order: list[str]) -> None:
    fields = {"vector": values, "k": k, "payloads": True}
    data = json.dumps({name: fields[name] for name in order}).encode()
    body = from_json(shapes.Query, data)
    assert bits(np.asarray(body.vector, np.float32)) == bits(np.array(values, np.float32))
    assert (body.k, body.payloads) == (k, True)


def test_a_body_that_wants_doubles_gets_them() -> None:
    body = from_json(shapes.Query, b'{"vector": [0.1234567890123], "dtype": "float64"}')
    assert list(body.vector) == [0.1234567890123]
