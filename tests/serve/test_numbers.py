"""Numbers parsed without Python objects are those that Python parses, to the last bit, or none."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.serve.bodies import from_json as module
from onlinehash.serve.bodies import shapes
from onlinehash.serve.bodies.from_json import from_json

finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def test_a_large_body_is_what_a_small_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in (shape for shape in shapes.SHAPES if shape.arrays):
        data = json.dumps(shape.example).encode()
        small = from_json(shape, data)
        with monkeypatch.context() as patch:
            patch.setattr(module, "LARGE", 0)
            large = from_json(shape, data)
        for name in shape.__struct_fields__:
            value, wanted = getattr(large, name), getattr(small, name)
            if name in shape.arrays and wanted is not None:
                assert value.dtype == np.float32
                assert np.array_equal(value, np.asarray(wanted, np.float32))
            else:
                assert value == wanted


@given(st.lists(finite32, min_size=1, max_size=8), st.permutations(["vector", "k", "payloads"]))
def test_a_body_is_what_the_general_parser_says(values: list[float], order: list[str]) -> None:
    fields = {"vector": values, "k": 7, "payloads": True}
    body = from_json(shapes.Query, json.dumps({name: fields[name] for name in order}).encode())
    assert np.asarray(body.vector, np.float32).tobytes() == np.array(values, np.float32).tobytes()
    assert (body.k, body.payloads) == (7, True)
