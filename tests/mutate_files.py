"""A program that changes one value of a saved file at a time, repairs the checksums, and uses what loads.

`python -m tests.mutate_files SEED COUNT [NAME...]` prints every case before it tries it, so that whoever reads the
output knows which one the process died of; the last line is the number of files that were refused and taken. What is
not one of our errors ends the program.
"""

from __future__ import annotations

import copy
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onlinehash import FlatIndex, MultiIndex, OnlineHashing, RbfAnchors
from onlinehash.errors import OnlineHashError
from onlinehash.io import files, format
from tests.support import LEARNERS, make

#: Seconds and bytes that a case may take.
SECONDS, BYTES = 30, 6 << 30

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((60, 5)) + 0.5).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(int) + (X[:, 1] > 0.5)
SIMILAR = RNG.random(30) < 0.4


def taught(learner: Any, n: int = 30) -> Any:
    """After some points, labelled or not, and some pairs."""
    if learner.traits.unit == "batch":
        return learner.fit(X, Y)
    if learner.traits.learns_from == "labels":
        return learner.partial_fit(X[: 2 * n - 1], Y[: 2 * n - 1])
    learner.partial_fit_pairs(X[:n], X[30 : 30 + n], SIMILAR[:n], RNG.random(n))
    return learner.partial_fit(X[:7], Y[:7])


def things() -> dict[str, Any]:
    """What there is to save."""
    found = {name: taught(make(name)) for name in LEARNERS}
    found |= {
        f"{name} on anchors": taught(make(name, features=RbfAnchors(6)))
        for name in ("OnlineHashing", "SmoothPairHashing", "HadamardHashing", "FastSupervisedHashing")
        if name in LEARNERS
    }
    found["waiting for anchors"] = taught(make("OnlineHashing", features=RbfAnchors(500)))
    found["labels that wait for anchors"] = taught(make("HadamardHashing", features=RbfAnchors(500)))
    found["a pipeline"] = taught(
        make("OnlineHashing", features=make_pipeline(StandardScaler(), PCA(3, random_state=0)).fit(X))
    )
    found["a waiting transformer"] = taught(make("OnlineHashing", features=StandardScaler()))
    found["drawn pairs"] = make("OnlineHashing", similar_share=0.5).partial_fit(X[:39], Y[:39])
    found["medians"] = taught(make("OnlineHashing", centre="median"))
    found["a metric"] = taught(make("OnlineHashing").keep_metric())
    found["several models"] = taught(make("MultiModelOnlineHashing"))
    found["encoder"] = found["OnlineHashing"].snapshot()
    found["encoder on anchors"] = found["OnlineHashing on anchors"].snapshot()
    found["encoder of trees"] = found["FastSupervisedHashing on anchors"].snapshot()
    encoder = OnlineHashing(16, random_state=0).partial_fit_pairs(X[:30], X[30:], SIMILAR).snapshot()
    found["codes"] = encoder.encode(X)
    found["flat index"] = FlatIndex(encoder.encode(X), [f"item {i}" for i in range(60)], encoder=encoder)
    found["multi index"] = MultiIndex(encoder.encode(X), range(60), encoder=encoder)
    return found


# ------------------------------------------------------------------ changes

INTEGERS = [-1, 0, 1, 2, 7, 2**31, 2**31 - 1, 2**40, 2**62, 2**63, 2**64, -(2**63), 10**29, 10**400]
REALS = [0.0, -1.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 1.5, 1e29]
OTHERS = [
    None,
    True,
    False,
    "",
    "x",
    "float64",
    [],
    [None],
    [3],
    {},
    {"a": 1},
    np.zeros(0),
    np.zeros((2, 2)),
    np.ones(3),
]
SCALARS = [*INTEGERS, *REALS, *OTHERS]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be changed: every value, and every list and dictionary as a whole."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        yield from leaves(inside, (*path, key))


def changed(value: Any, rng: np.random.Generator) -> Any:
    """Another value: often of the same type, and then a strange one."""
    if rng.random() < 0.25:
        return SCALARS[rng.integers(len(SCALARS))]
    if isinstance(value, np.ndarray):
        return _changed_array(value, rng)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return OTHERS[rng.integers(len(OTHERS))]
    if isinstance(value, int):
        return INTEGERS[rng.integers(len(INTEGERS))]
    if isinstance(value, float):
        return REALS[rng.integers(len(REALS))]
    if isinstance(value, list):
        return [value[:-1], value + value[-1:], value[::-1], value * 3][rng.integers(4)]
    fewer = dict(value)
    if fewer:
        fewer.pop(list(fewer)[rng.integers(len(fewer))])
    return fewer


def _changed_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    kind = rng.integers(8)
    if kind == 0:
        return array[:-1].copy() if array.ndim else np.zeros(3, array.dtype)
    if kind == 1:
        return array.astype(np.float64 if array.dtype != np.float64 else np.float32)
    if kind == 2:
        return np.ascontiguousarray(array[None])
    array = array.copy()
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        strange = [limits.min, limits.max, -1, 1, 7, 2**20, 2**40, 2**62, limits.max // 2]
        new = int(np.clip(strange[rng.integers(len(strange))], limits.min, limits.max))
    elif array.dtype.kind == "f":
        limits_of_floats = np.finfo(array.dtype)
        great = [limits_of_floats.max, -limits_of_floats.max, limits_of_floats.tiny, np.nan, np.inf, -1.0, 0.0]
        new = great[rng.integers(len(great))]
    else:
        new = not array.any()
    if array.size:
        array.flat[slice(None) if kind == 3 else rng.integers(array.size)] = new
    return array


# ------------------------------------------------------------------ use


def use(thing: Any) -> None:
    """Encode, learn, search and save with what was loaded; our errors are answers too."""
    for step in _steps(thing):
        try:
            step()
        except OnlineHashError:
            continue


def _steps(thing: Any) -> Iterator[Any]:
    if hasattr(thing, "learn_pair"):
        yield lambda: thing.encode(X[:4])
        if thing.traits.learns_from == "pairs":
            yield lambda: thing.learn_pair(X[0], X[1], True)
            yield lambda: thing.partial_fit_pairs(X[:30], X[30:], SIMILAR)
        yield lambda: thing.observe(X[:9])
        yield lambda: thing.partial_fit(X[:9], Y[:9])
        yield lambda: thing.flush()
        yield lambda: thing.score(X[:20], Y[:20])
        yield lambda: files.from_bytes(files.to_bytes(thing.snapshot()), "again").encode(X[:4])
    elif hasattr(thing, "search"):
        yield lambda: thing.search(X[:3], 5)
        yield lambda: thing.within(X[:3], 3)
        yield lambda: thing.add([f"new {i}" for i in range(3)], X[:3])
        yield lambda: thing.remove([0])
    elif hasattr(thing, "encode"):
        yield lambda: thing.encode(X[:4])
        yield lambda: thing.changed_bits(thing)
    else:
        yield lambda: thing.bits()
    yield lambda: repr(thing)
    yield lambda: files.from_bytes(files.to_bytes(thing), "again")


def main(seed: int, count: int, names: list[str]) -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    rng = np.random.default_rng(seed)
    contents = {}
    for name, thing in things().items():
        kind, content = format.from_bytes(files.to_bytes(thing), name)
        contents[name] = kind, content, list(leaves(content))
        use(files.from_bytes(format.to_bytes(kind, content), name))  # the kernels are compiled, and not on the clock
    refused = 0
    chosen = names or list(contents)
    for number in range(count):
        name = chosen[number % len(chosen)]
        kind, content, places = contents[name]
        content, place = copy.deepcopy(content), places[rng.integers(len(places))]
        inside = content
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = changed(inside[place[-1]], rng)
        got = " ".join(repr(inside[place[-1]])[:60].split())
        print(f"{name}: {'.'.join(map(str, place))} = {got}", flush=True)
        signal.alarm(SECONDS)
        try:
            thing = files.from_bytes(format.to_bytes(kind, content), name)
        except OnlineHashError:
            refused += 1
        else:
            use(thing)
        signal.alarm(0)
    print(refused, count - refused)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
