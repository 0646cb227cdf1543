"""The same pairs through several learners, watched as they go."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from onlinehash import evaluate
from onlinehash.demo.digits import Digits
from onlinehash.features import RbfAnchors
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.locality_sensitive import LSH
from onlinehash.learners.multi_model import MultiModelOnlineHashing
from onlinehash.learners.online_hashing import OnlineHashing
from onlinehash.learners.smooth_pairs import SmoothPairHashing

N_BITS = 32
N_MODELS = 4
N_ANCHORS = 300
N_PAIRS = 10_000

#: Pairs between two points of a curve.
EVERY = 250

#: The stream is learned this many times to time it; the fastest pass counts, as the others were disturbed.
TIMED_PASSES = 3


@dataclass(frozen=True)
class Contender:
    """A learner with a name to show, and `style`, which says how the page draws it.

    `counts_loss`: is its loss the paper's, so that it can be compared?
    """

    name: str
    style: str
    learner: Learner
    counts_loss: bool = True


@dataclass(frozen=True)
class Result:
    """One line of the table: all that is comparable between contenders, as plain numbers."""

    name: str
    bits_per_item: int
    map_before: float
    map_after: float
    auc_before: float
    auc_after: float
    cumulative_loss: float | None
    microseconds_per_pair: float


@dataclass(frozen=True)
class Point:
    """A moment of a stream."""

    n_pairs: int
    loss: float
    map: float


@dataclass(frozen=True)
class Outcome:
    """All that a contender left behind: its result, its curve, and its codes before and after."""

    contender: Contender
    result: Result
    curve: list[Point]
    before: Encoder
    after: Encoder


def contenders(seed: int, n_base: int) -> list[Contender]:
    """LSH, where OH starts; the paper's two learners; OH with the bits of MMOH, and without a kernel; the recommended.

    The mean is that of the database, so codes move only by what is learned.
    """
    plain: dict[str, Any] = {"burn_in": n_base, "random_state": seed}
    kernel = plain | {"features": RbfAnchors(N_ANCHORS)}
    return [
        Contender("LSH", "lsh", LSH(N_BITS, **kernel)),
        Contender("OH", "oh", OnlineHashing(N_BITS, **kernel)),
        Contender("MMOH", "mmoh", MultiModelOnlineHashing(N_BITS, n_models=N_MODELS, **kernel)),
        Contender(f"OH, {N_BITS * N_MODELS} bits", "wide", OnlineHashing(N_BITS * N_MODELS, **kernel)),
        Contender("OH, no kernel", "plain", OnlineHashing(N_BITS, **plain)),
        Contender("Smooth pairs", "smooth", SmoothPairHashing(N_BITS, **kernel), counts_loss=False),
    ]


def compete(contender: Contender, digits: Digits, tell: Callable[[Point], None]) -> Outcome:
    """Take the stream once, looking at mAP along the way; `tell` hears of every point of the curve."""
    learner = clone(contender.learner).observe(digits.X_base)
    before = learner.snapshot()
    truth = evaluate.same_label(digits.y_query, digits.y_base)

    def measure(model: Learner | Encoder) -> dict[str, float]:
        return evaluate.retrieval(model, digits.X_query, digits.X_base, truth, ["map"])

    # A method that learns nothing counts no loss of its own, yet its codes are as wrong as at the start.
    learns = learner.traits.learns_from != "nothing"
    unlearned = evaluate.similarity_losses(before, *digits.stream).cumsum()
    curve = [Point(0, 0.0, measure(before)["map"])]
    for row in evaluate.along(learner, digits.stream, EVERY, measure):
        loss = row.cumulative_loss if learns else float(unlearned[row.n_pairs - 1])
        curve.append(Point(row.n_pairs, loss, row.map))
        tell(curve[-1])
    after = learner.snapshot()
    result = Result(
        name=contender.name,
        bits_per_item=after.n_columns,
        map_before=curve[0].map,
        map_after=curve[-1].map,
        auc_before=evaluate.pairs(before, *digits.held_out).auc,
        auc_after=evaluate.pairs(after, *digits.held_out).auc,
        cumulative_loss=curve[-1].loss if contender.counts_loss else None,
        microseconds_per_pair=_microseconds_per_pair(contender.learner, digits),
    )
    return Outcome(contender, result, curve, before, after)


def _microseconds_per_pair(learner: Learner, digits: Digits) -> float:
    """Learning alone, all pairs in one call; the kernels were compiled before."""
    fastest = math.inf
    for _ in range(TIMED_PASSES):
        fresh = clone(learner).observe(digits.X_base)
        start = time.perf_counter()
        fresh.partial_fit_pairs(*digits.stream)
        fastest = min(fastest, time.perf_counter() - start)
    return fastest / len(digits.stream.similar) * 1e6
