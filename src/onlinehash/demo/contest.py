"""The same pairs through several learners, watched as they go."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from onlinehash import evaluate
from onlinehash.demo.digits import Digits
from onlinehash.evaluate.exact import unit
from onlinehash.features import RbfAnchors
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.iterative_quantization import IterativeQuantization
from onlinehash.learners.locality_sensitive import LSH
from onlinehash.learners.multi_model import MultiModelOnlineHashing
from onlinehash.learners.online_hashing import OnlineHashing

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
    cumulative_loss: float | None = None
    microseconds_per_pair: float | None = None


@dataclass(frozen=True)
class Point:
    """A moment of a stream."""

    n_pairs: int
    loss: float
    map: float


@dataclass(frozen=True)
class Curve:
    """A result, how the page draws it, and how it came about."""

    result: Result
    style: str
    points: list[Point]


@dataclass(frozen=True)
class Outcome(Curve):
    """All that a contender left behind: its codes before and after, too."""

    before: Encoder
    after: Encoder


def contenders(seed: int, n_base: int) -> list[Contender]:
    """ITQ, without feedback; the recommended learner; LSH, where OH starts; the paper's two learners; OH with the bits
    of MMOH, and without a kernel.

    The mean is that of the database, so codes move only by what is learned.
    """
    plain: dict[str, Any] = {"burn_in": n_base, "random_state": seed}
    kernel = plain | {"features": RbfAnchors(N_ANCHORS)}
    itq = IterativeQuantization(N_BITS, features=RbfAnchors(N_ANCHORS), random_state=seed)
    return [
        Contender("no feedback", "itq", itq),
        Contender("Blended pairs", "blended", registry.find(registry.RECOMMENDED)(N_BITS, **kernel), counts_loss=False),
        Contender("LSH", "lsh", LSH(N_BITS, **kernel)),
        Contender("OH", "oh", OnlineHashing(N_BITS, **kernel)),
        Contender("MMOH", "mmoh", MultiModelOnlineHashing(N_BITS, n_models=N_MODELS, **kernel)),
        Contender(f"OH, {N_BITS * N_MODELS} bits", "wide", OnlineHashing(N_BITS * N_MODELS, **kernel)),
        Contender("OH, no kernel", "plain", OnlineHashing(N_BITS, **plain)),
    ]


def compete(contender: Contender, digits: Digits, tell: Callable[[Point], None]) -> Outcome:
    """Take the stream once, looking at mAP along the way; `tell` hears of every point of the curve."""
    learner = _begun(contender.learner, digits)
    before = learner.snapshot()
    truth = evaluate.same_label(digits.y_query, digits.y_base)

    def measure(model: Learner | Encoder) -> dict[str, float]:
        return evaluate.retrieval(model, digits.X_query, digits.X_base, truth, ["map"])

    curve = [Point(0, 0.0, measure(before)["map"])]
    learns = learner.traits.learns_from != "nothing"
    if learns:
        for row in evaluate.along(learner, digits.stream, EVERY, measure):
            curve.append(Point(row.n_pairs, row.cumulative_loss, row.map))
            tell(curve[-1])
    else:  # it counts no loss of its own, yet its codes are as wrong on each pair as at the start
        losses = evaluate.similarity_losses(before, *digits.stream).cumsum()
        at = [*range(EVERY, len(losses), EVERY), len(losses)]
        curve += [Point(n, float(losses[n - 1]), curve[0].map) for n in at]
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
        microseconds_per_pair=_microseconds_per_pair(contender.learner, digits) if learns else None,
    )
    return Outcome(result, contender.style, curve, before, after)


def floats(digits: Digits) -> Curve:
    """What the vectors themselves find, by their exact cosine: what codes are measured against."""
    truth = evaluate.same_label(digits.y_query, digits.y_base)
    found = evaluate.cosine(digits.X_query, digits.X_base, truth)["map"]
    A, B, similar = digits.held_out
    auc = float(roc_auc_score(similar, (unit(A) * unit(B)).sum(axis=1)))
    result = Result("float cosine", 8 * digits.X_base[0].nbytes, found, found, auc, auc)
    return Curve(result, "floats", [Point(n, 0.0, found) for n in (0, len(digits.stream.similar))])


def _begun(learner: Learner, digits: Digits) -> Learner:
    """A learner that knows the points, and no pair."""
    fresh: Learner = clone(learner)
    return fresh.fit(digits.X_base) if fresh.traits.unit == "batch" else fresh.observe(digits.X_base)


def _microseconds_per_pair(learner: Learner, digits: Digits) -> float:
    """Learning alone, all pairs in one call; the kernels were compiled before."""
    fastest = math.inf
    for _ in range(TIMED_PASSES):
        fresh = _begun(learner, digits)
        start = time.perf_counter()
        fresh.partial_fit_pairs(*digits.stream)
        fastest = min(fastest, time.perf_counter() - start)
    return fastest / len(digits.stream.similar) * 1e6
