"""The npy reader against NumPy's writer, and against files that NumPy's reader should not be given."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.serve.bodies.from_npy import from_npy
from onlinehash.serve.bodies.parser import read
from onlinehash.serve.bodies.shapes import NPY, NewItems, Query, Within
from onlinehash.serve.errors import BadRequest, TooLarge
from tests.serve.hostile import LIMITS, mutated, outcome, peak

DTYPES = [f"{order}{code}" for code in ("f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8") for order in "<>"]
DTYPES += ["|i1", "|u1", "|b1"]


def saved(array: np.ndarray, version: tuple[int, int] | None = None, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version, allow_pickle)
    return file.getvalue()


def with_header(text: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


SOUND = [saved(np.arange(6).reshape(2, 3).astype(dtype)) for dtype in ("<f4", ">f8", "<i2", "|b1")]
SOUND += [saved(np.arange(6.0).reshape(3, 2).T), saved(np.zeros((0, 3))), saved(np.ones((2, 2)), (2, 0))]


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda d: arrays.arrays(d, arrays.array_shapes(min_dims=1, max_dims=2, max_side=6))
    ),
    st.sampled_from([(1, 0), (2, 0), (3, 0)]),
    st.booleans(),
)
def test_the_same_array_comes_back(array: np.ndarray, version: tuple[int, int], transposed: bool):
    array = array.T if transposed else array
    found = from_npy(saved(array, version))
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.dtype.isnative
    assert found.flags.c_contiguous
    assert found.flags.writeable
    assert found.tobytes() == array.astype(found.dtype).tobytes()
    assert found.shape == array.shape


def test_other_fields_are_query_parameters():
    X = np.arange(6, dtype=np.float32).reshape(2, 3)
    body = read(Query, NPY, saved(X), {"k": "3", "where": '{"a": {"<": 5}}', "payloads": "true"}, LIMITS)
    assert (body.k, body.where, body.payloads, body.rerank) == (3, {"a": {"<": 5}}, True, False)
    np.testing.assert_array_equal(body.vectors, X)
    assert read(Within, NPY, saved(X), {"radius": "2"}, LIMITS).radius == 2
    assert read(NewItems, NPY, saved(X), {"ids": '["a", "b"]'}, LIMITS).ids == ["a", "b"]


def test_query_parameters_are_checked_as_strictly():
    for query, error in (
        ({"k": "three"}, BadRequest),
        ({"k": '"3"'}, InvalidInput),
        ({"k": "1000"}, TooLarge),
        ({"radius": "1"}, InvalidInput),
        ({"vectors": "[[1]]"}, InvalidInput),
    ):
        with pytest.raises(error) as caught:
            read(Query, NPY, SOUND[0], query, LIMITS)
        assert type(caught.value) is error


def test_headers_of_other_things_are_refused():
    for text, error in (
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", InvalidInput),
        ("{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", InvalidInput),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", BadRequest),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", BadRequest),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000000000000), }", BadRequest),
        ("__import__('os').abort()", BadRequest),
        (" " * 1025, BadRequest),
    ):
        with pytest.raises(error) as caught:
            from_npy(with_header(text, b"\0" * 8))
        assert type(caught.value) is error, text


def test_pickles_are_not_opened():
    data = saved(np.array([print], object), allow_pickle=True)
    with pytest.raises(InvalidInput, match=r"got dtype '\|O'"):
        from_npy(data)


def test_a_bomb_costs_nothing():
    text = "{'descr': '|b1', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }"
    assert peak(lambda: outcome(Query, NPY, with_header(text))) < 100_000
    empty = "{'descr': '|b1', 'fortran_order': False, 'shape': (0, 1099511627776), }"
    assert isinstance(outcome(Query, NPY, with_header(empty)), OnlineHashError)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: b"\x93NUMPY\x01\x00" + tail) | mutated(SOUND))
def test_any_bytes_end_in_a_body_or_a_4xx(data: bytes):
    outcome(Query, NPY, data)
