"""A file whose arrays were exchanged, checksum and all: refused when loaded, before a kernel trusts their shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import MultiModelOnlineHashing, OnlineHashing, RbfAnchors, load, save
from onlinehash.errors import FormatError
from onlinehash.io import format

RNG = np.random.default_rng(0)
A, B, SIMILAR = RNG.standard_normal((40, 5)), RNG.standard_normal((40, 5)), RNG.random(40) < 0.3


def learned(learner: Any) -> Any:
    return learner.partial_fit_pairs(A, B, SIMILAR)


THINGS: dict[str, Callable[[], Any]] = {
    "oh": lambda: learned(OnlineHashing(8, random_state=0)),
    "mmoh": lambda: learned(MultiModelOnlineHashing(8, n_models=2, random_state=0)),
    "kernel": lambda: learned(OnlineHashing(8, features=RbfAnchors(6), random_state=0)),
    "waiting": lambda: learned(OnlineHashing(8, features=RbfAnchors(200), random_state=0)),
    "labels": lambda: OnlineHashing(8, similar_share=0.5, random_state=0).fit(A[:39], SIMILAR[:39]),
    "encoder": lambda: learned(OnlineHashing(8, random_state=0)).snapshot(),
    "kernel encoder": lambda: learned(OnlineHashing(8, features=RbfAnchors(6), random_state=0)).snapshot(),
}
NAN = np.full((8, 5), np.nan)
CHANGES: list[tuple[str, str, Any]] = [
    ("oh", "state.method.W", np.ones((2, 2000))),
    ("oh", "state.method.W", NAN),
    ("oh", "state.method.medians.values", np.zeros(1)),
    ("oh", "state.centring.mean", np.zeros(3)),
    ("oh", "state.counters.n_pairs_seen_", -1),
    ("oh", "state.dtype", "int64"),
    ("oh", "state.n_features", 6),
    ("mmoh", "state.method.W", np.ones((8, 5))),
    ("mmoh", "params.n_models", 3),
    ("kernel", "state.map.anchors", np.ones((7, 5))),
    ("kernel", "state.map.width", -1.0),
    ("waiting", "state.pending.0.a", np.ones(4)),
    ("labels", "state.pairing.points", np.ones((2, 5))),
    ("encoder", "thresholds", np.zeros(3)),
    ("encoder", "weights", np.ones((8, 4))),
    ("kernel encoder", "weights", np.ones((8, 5))),
]


def test_an_exchanged_value_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "thing.oh"
    for name, where, value in CHANGES:
        save(THINGS[name](), path)
        load(path)
        kind, content = format.read(path)
        *parents, last = where.split(".")
        inside: Any = content
        for key in parents:
            inside = inside[int(key)] if isinstance(inside, list) else inside[key]
        inside[int(last) if isinstance(inside, list) else last] = value
        format.write(path, kind, content)
        with pytest.raises(FormatError):
            load(path)


def test_a_learner_that_load_could_not_find_is_not_saved(tmp_path: Path) -> None:
    class Mine(OnlineHashing):
        pass

    with pytest.raises(ValueError, match="the registry does not know"):
        save(Mine(4), tmp_path / "mine.oh")
    assert not list(tmp_path.iterdir())
