"""What several tests share: small learners, the events of a stream, and the bytes of a learner's state."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from onlinehash.errors import OnlineHashError
from onlinehash.learners import registry

LEARNERS = {method.name: method.load() for method in registry.methods()}

#: Small enough for quick tests, and such that a short stream passes burn-in and fills the reservoir.
SMALL = {
    "n_bits": 8,
    "burn_in": 12,
    "reservoir_size": 6,
    "n_models": 3,
    "sample_size": 10,
    "calibration": 20,
    "sharpness": 1.0,
    "chunk_size": 4,
    "first_points": 12,
    "n_trees": 10,
    "n_anchors": 10,
    "random_state": 0,
}


#: The learners that are tried in float32, too: each precision compiles all kernels anew.
IN_BOTH_PRECISIONS = ["OnlineHashing", "BlendedPairHashing"]

#: The learners that are tried for what their base does: the paper's, the default, and one of each other kind.
CLOSELY = {
    "OnlineHashing",
    "BlendedPairHashing",
    "HadamardHashing",
    "IterativeQuantization",
    "LSH",
}


def thorough(everyday: int, long: int) -> int:
    """How many times, steps or seconds: `make long` asks for the long suite."""
    return long if os.environ.get("ONLINEHASH_LONG") else everyday


def make(name: str, **params: Any) -> Any:
    """A small learner of the registry; a method without centring of its own choice is not asked for one."""
    known = inspect.signature(LEARNERS[name]).parameters
    asked = {k: v for k, v in params.items() if k in known or k not in ("centre", "burn_in")}
    return LEARNERS[name](**{k: v for k, v in SMALL.items() if k in known} | asked)


def centrings(name: str) -> tuple[str, ...]:
    """The modes of centring a method can be asked for; one that does as it likes has none to choose."""
    return LEARNERS[name]._centre_modes if "centre" in inspect.signature(LEARNERS[name]).parameters else ("none",)


def go_on(learner: Any) -> Callable[..., Any]:
    """The way in for labelled points."""
    return learner.fit if learner.traits.unit == "batch" else learner.partial_fit


# ------------------------------------------------------------------ streams of events


@dataclass(frozen=True)
class Pairs:
    """Pairs of points; one alone goes through `learn_pair`."""

    A: np.ndarray
    B: np.ndarray
    similar: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.A)

    def part(self, rows: slice) -> Pairs:
        return Pairs(self.A[rows], self.B[rows], self.similar[rows], self.weight[rows])

    def points(self) -> np.ndarray:
        return np.concatenate([self.A, self.B])

    def labelled(self) -> Labelled:
        """The same points for a method that learns from labels: two of a class where they are similar."""
        X = np.stack([self.A, self.B], axis=1).reshape(-1, self.A.shape[1])
        first = (self.A[:, 0] > 1).astype(int) + (
            self.A[:, -1] > 1
        )  # by what they are, so that any split says the same
        return Labelled(X, np.stack([first, np.where(self.similar, first, first + 1)], axis=1).ravel())

    def feed(self, learner: Any) -> None:
        if learner.traits.learns_from == "labels":
            self.labelled().feed(learner)
        elif len(self) == 1:
            learner.learn_pair(self.A[0], self.B[0], self.similar[0], self.weight[0])
        else:
            learner.partial_fit_pairs(self.A, self.B, self.similar, self.weight)


@dataclass(frozen=True)
class Points:
    """Points without pairs."""

    X: np.ndarray

    def __len__(self) -> int:
        return len(self.X)

    def part(self, rows: slice) -> Points:
        return Points(self.X[rows])

    def points(self) -> np.ndarray:
        return self.X

    def labelled(self) -> Labelled:
        return Labelled(self.X, (self.X[:, 0] > 1).astype(int))

    def feed(self, learner: Any) -> None:
        learner.observe(self.X)


@dataclass(frozen=True)
class Labelled:
    """Points with labels."""

    X: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.X)

    def part(self, rows: slice) -> Labelled:
        return Labelled(self.X[rows], self.y[rows])

    def points(self) -> np.ndarray:
        return self.X

    def labelled(self) -> Labelled:
        return self

    def feed(self, learner: Any) -> None:
        learner.partial_fit(self.X, self.y)


Event = Pairs | Points | Labelled


def feed(learner: Any, events: Iterable[Event]) -> Any:
    """The learner after the events; a batch method gets all their points at once."""
    if learner.traits.unit == "batch":
        parts = [event.labelled() for event in events]
        X, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y"))
        return quietly(learner.fit, X, y)
    for event in events:
        quietly(event.feed, learner)
    return learner


def quietly(call: Callable[..., Any], *args: Any) -> Any:
    """Call; warnings about anchors and labels are part of life in a random stream."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call(*args)


def pairs(n: int = 60, d: int = 5, seed: int = 0, dtype: Any = np.float64, shift: float = 1.0) -> Pairs:
    """Random pairs of points that are not centred."""
    rng = np.random.default_rng(seed)
    A, B = (rng.standard_normal((2, n, d)) + shift).astype(dtype)
    return Pairs(A, B, rng.random(n) < 0.5, np.ones(n))


def clusters(n: int, seed: int = 0, n_classes: int = 4, d: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Labelled points of far-apart clusters."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).standard_normal((n_classes, d))
    y = rng.integers(n_classes, size=n)
    return centres[y] + 0.02 * rng.standard_normal((n, d)), y


# ------------------------------------------------------------------ states


def state_bytes(learner: Any) -> bytes:
    """Everything a learner has learned, as bytes that are equal exactly when the states are."""
    return as_bytes(learner.get_state())


def as_bytes(value: Any) -> bytes:
    """Any nesting of plain values, arrays and estimators, as bytes."""
    if isinstance(value, np.ndarray):
        return f"array {value.dtype.str} {value.shape} ".encode() + value.tobytes()
    if isinstance(value, dict):
        return b"{" + b"".join(str(k).encode() + b":" + as_bytes(value[k]) for k in sorted(value, key=str)) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(as_bytes, value)) + b"]"
    if isinstance(value, bool | np.bool_ | str | None):
        return repr(value).encode()
    if isinstance(value, int | np.integer):
        return f"int {int(value):040d}".encode()  # of one width: sizes of states are compared too
    if isinstance(value, float | np.floating):
        return np.float64(value).tobytes()
    if isinstance(value, np.dtype):
        return str(value).encode()
    if hasattr(value, "get_params"):
        return type(value).__name__.encode() + as_bytes(vars(value))
    if hasattr(value, "get_state"):
        return type(value).__name__.encode() + as_bytes(value.get_state())
    raise TypeError(f"no bytes for {type(value)}")


# ------------------------------------------------------------------ refusals


def refused(call: Callable[..., Any], *args: Any) -> OnlineHashError:
    """The call raises one of our errors, and its message is a clear sentence on one line."""
    with pytest.raises(OnlineHashError) as caught:
        call(*args)
    message = str(caught.value)
    assert message.endswith("."), message
    assert "\n" not in message, message
    assert 20 < len(message) < 500, message
    return caught.value


def refused_without_a_trace(learner: Any, call: Callable[..., Any], *args: Any) -> OnlineHashError:
    """The call is refused, and the learner's state is what it was, to the byte."""
    return refusing(learner)(call, *args)


def refusing(learner: Any) -> Callable[..., OnlineHashError]:
    """Looks at the learner's state once; each call that is then made through it is refused, and leaves it at that."""
    before = state_bytes(learner)

    def check(call: Callable[..., Any], *args: Any) -> OnlineHashError:
        error = refused(call, *args)
        assert state_bytes(learner) == before, f"the refused call changed the state: {error}"
        return error

    return check
