"""Arrays on their way to a card."""

from __future__ import annotations

import numpy as np

from onlinehash.gpu import upload
from onlinehash.gpu.card import load_cupy
from tests.gpu.test_card_codes import needs_card

RNG = np.random.default_rng(0)
ARRAYS = [
    RNG.standard_normal((1001, 7)).astype(np.float32),
    RNG.integers(0, 256, (333, 5, 64), np.uint8),
    RNG.standard_normal((40, 300)).T[::3],  # neither contiguous nor in order
    np.zeros((0, 4)),
    RNG.integers(0, 9, 70_000),
]


@needs_card
def test_what_arrives_is_what_was_sent(monkeypatch):
    monkeypatch.setattr(upload, "LEAST_BYTES", 1)
    cupy = load_cupy()
    for array in ARRAYS:
        for chunk_bytes in (1, 1000, 1 << 30):
            monkeypatch.setattr(upload, "CHUNK_BYTES", chunk_bytes)
            some = array[:100] if chunk_bytes == 1 else array
            np.testing.assert_array_equal(upload.to_card(cupy, some).get(), some)


def test_without_a_card_an_array_stays_as_it_is():
    array = np.zeros((1 << 18, 8), np.uint8)
    assert upload.to_card(np, array) is array
    assert upload.on_same_card(np, len) is len
