"""What messages say, and which say nothing."""

from __future__ import annotations

import json

import numpy as np

from onlinehash.consume import messages
from onlinehash.consume.requests import Addition, Change, Pair, PairById, Removal
from tests.consume.program import MALFORMED, REFUSED, as_base64
from tests.support import refused

A, B = np.array([0.1, 0.7], np.float32), np.array([-1e-3, 2.5], np.float32)


def read(**message):
    return messages.read(json.dumps(message).encode())


def lists(vector):
    return [float(x) for x in vector]


def test_pairs():
    for a, b in ((lists(A), lists(B)), (as_base64(A), as_base64(B)), (lists(A), as_base64(B))):
        pair = read(a=a, b=b, similar=True)
        assert isinstance(pair, Pair)
        assert (pair.similar, pair.weight) == (1, 1.0)
        assert pair.a.tobytes() == A.tobytes()
        assert pair.b.tobytes() == B.tobytes()
    assert [read(id_a=1, id_b="x", similar=s).similar for s in (True, False, 1, -1)] == [1, -1, 1, -1]
    assert read(id_a=1, id_b=2, similar=1, weight=2) == PairById(1, 2, 1, 2.0)


def test_doubles():
    pair = read(a=[0.1], b=as_base64(np.array([0.1])), similar=False, dtype="float64")
    assert pair.a.dtype == pair.b.dtype == np.float64
    assert pair.a.tolist() == pair.b.tolist() == [0.1]


def test_items():
    added = read(id=7, vector=lists(A), payload={"x": [1]})
    assert isinstance(added, Addition)
    assert (added.id, added.payload, added.vector.tobytes()) == (7, {"x": [1]}, A.tobytes())
    assert (read(vector=lists(A)).id, read(op="add", vector=lists(A)).payload) == (None, None)
    changed = read(op="update", id="x", payload=None)
    assert changed == Change("x", None, None, True)
    assert read(op="update", id="x", vector=lists(A)).has_payload is False
    assert read(op="remove", id=3) == Removal(3)


def test_malformed_messages_are_refused_and_what_only_an_index_can_refuse_is_read():
    for data in MALFORMED.values():
        refused(messages.read, data)
    for data in REFUSED.values():
        messages.read(data)


def test_a_message_that_is_too_long_is_not_read(monkeypatch):
    monkeypatch.setattr(messages, "MOST_BYTES", 10)
    assert "at most 10 bytes" in str(refused(messages.read, b'{"op": "remove", "id": 3}'))


def test_what_fits_into_one_call():
    a = read(id=1, vector=[1.0, 2.0])
    assert a.fits == read(id="x", vector=as_base64(A)).fits
    for other in (
        read(vector=[1.0, 2.0]),
        read(id=1, vector=[1.0]),
        read(id=1, vector=[1.0, 2.0], dtype="float64"),
        read(op="update", id=1, vector=[1.0, 2.0]),
    ):
        assert a.fits != other.fits
