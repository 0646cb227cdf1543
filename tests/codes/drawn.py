"""Random codes, as booleans: several blocks of 64, widths around the borders of bytes, several models."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

#: Widths where something changes: bytes, the planes that a byte can count (31), and the longest.
WIDTHS = (1, 7, 8, 9, 64, 65, 248, 249, 256, 257, 4096)


class Drawn(NamedTuple):
    """Booleans `(n, n_models * n_bits)`."""

    bits: np.ndarray
    n_bits: int
    n_models: int


@st.composite
def drawn(draw: Any, sizes: tuple[int, ...] = (0, 1, 2, 63, 64, 65, 128, 130)) -> Drawn:
    n_bits = draw(st.sampled_from(WIDTHS) | st.integers(1, 80), label="n_bits")
    n_models = draw(st.integers(1, 4), label="n_models")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]), label="share of ones")
    n = draw(st.sampled_from(sizes), label="n")
    return Drawn(rng.random((n, n_models * n_bits)) < share, n_bits, n_models)
