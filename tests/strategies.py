"""Hypothesis strategies: streams of events, and ways to cut them.

Values come from a seeded generator in a drawn texture, not one by one: what matters to a learner is what kind
of points they are (many equal ones, exact zeros, far from the origin), not the digits of each.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.support import Event, Labelled, Pairs, Points

TEXTURES = ("normal", "grid", "far", "zeros")


def points(rng: np.random.Generator, texture: str, n: int, d: int, dtype: Any) -> np.ndarray:
    """Points of one kind: plain, on a coarse grid (equal points, ties), far from the origin, or some of them zero."""
    X = rng.standard_normal((n, d))
    if texture == "grid":
        X = np.round(X)
    elif texture == "far":
        X = X + 100
    elif texture == "zeros":
        X[rng.random(n) < 0.3] = 0
    return X.astype(dtype)


@st.composite
def streams(draw: Any, dtypes: Any = (np.float32, np.float64), max_rows: int = 30) -> list[Event]:
    """A few batches of pairs, labelled points and plain points, in any order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    dtype = draw(st.sampled_from(dtypes))
    d = draw(st.integers(1, 20), label="n_features")
    texture = draw(st.sampled_from(TEXTURES))
    stream: list[Event] = []
    for kind in draw(st.lists(st.sampled_from([Pairs, Labelled, Points]), min_size=1, max_size=4)):
        n = draw(st.integers(1, max_rows))
        X = points(rng, texture, n, d, dtype)
        if kind is Pairs:
            weight = rng.choice([0.5, 1.0, 3.0], size=n)
            stream.append(Pairs(X, points(rng, texture, n, d, dtype), rng.random(n) < 0.5, weight))
        elif kind is Labelled:
            stream.append(Labelled(X, rng.integers(3, size=n)))
        else:
            stream.append(Points(X))
    return stream


@st.composite
def splits(draw: Any, stream: list[Event]) -> list[Event]:
    """The same events in other batches: one by one, or cut anywhere."""
    parts: list[Event] = []
    for event in stream:
        n = len(event)
        anywhere = st.lists(st.integers(1, n), max_size=4)
        inner = draw(st.one_of(st.just(list(range(n))), anywhere))
        parts += [event.part(slice(a, b)) for a, b in pairwise(sorted({0, *inner, n}))]
    return parts
