"""Claims of the analysis: the cumulative loss, the theorem's C, time and space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from onlinehash.experiments.claims.costs import STRAIGHT, cost_told, straightness
from onlinehash.experiments.claims.levels import level, level_of, on_one_set, over_sets, values_of
from onlinehash.experiments.claims.times import PAPERS_SET
from onlinehash.experiments.claims.verdicts import Claim, Missing, Verdict, by_count, together, word
from onlinehash.experiments.rows import Rows

#: "Grows strongly": so many times the loss of the best C. A rate below LATE of what it was at first has come to rest.
STRONGLY, LATE = 2.0, 0.01
PAPERS_C, DEFAULT_C = 0.017, 0.1
#: Pairs of which the first rate is taken: before them, a learner may still wait for its anchors.
BEGINNING = 1000


def loss_by_C(rows: Rows) -> Verdict:
    here = on_one_set(rows, "loss", PAPERS_SET)
    losses = {C: level(here, "loss", line="OH", value=C) for C in values_of(here, "OH")}
    if DEFAULT_C not in losses:
        raise Missing(f"of OH, C = {DEFAULT_C:g}")
    best = min(losses, key=lambda C: losses[C].mean)
    small = [C for C in losses if C < 1e-3]
    strongly = [C for C in small if losses[C].mean >= STRONGLY * losses[best].mean]
    told = ", ".join(f"{losses[C].mean / 1e3:,.0f} ± {losses[C].spread / 1e3:,.0f} at {C:g}" for C in losses)
    return together(
        [
            Verdict(f"loss in thousands of bits: {told}", word(not losses[DEFAULT_C].above(losses[best]))),
            Verdict(f"{len(strongly)} of {len(small)} below 1e-3 grow strongly", by_count(len(strongly), len(small))),
        ]
    )


def loss_is_bounded(rows: Rows) -> Verdict:
    """How fast the loss grows, and how many pairs update, in the last half of the stream, beside its beginning."""
    here = on_one_set(rows, "loss", PAPERS_SET).of(line="OH", value=DEFAULT_C)
    rates = [_rates(row.result.checkpoints) for row in here]
    if not rates:
        raise Missing(f"of OH, C = {DEFAULT_C:g}")
    first, late, updates = (level_of(values, "") for values in zip(*rates, strict=True))
    n = here[0].result.final["pairs"]
    grows = f"{first} bits a pair at first, {late} in the last half of {n:,} pairs"
    return together(
        [
            Verdict(grows, word(late.mean <= LATE * first.mean)),
            Verdict(f"there {updates.mean:.1%} of the pairs still update", word(updates.mean <= LATE)),
        ]
    )


def _rates(looks: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Loss a pair up to the first look after the beginning; loss and updates a pair in the last half."""
    last, first = looks[-1], next((look for look in looks if look["pairs"] >= BEGINNING), None)
    if first is None:
        raise Missing(f"of {BEGINNING:,} pairs")
    half = max((look for look in looks[:-1] if look["pairs"] <= last["pairs"] / 2), key=lambda look: look["pairs"])
    n = last["pairs"] - half["pairs"]
    updates = last["update_rate"] * last["pairs"] - half["update_rate"] * half["pairs"]
    return first["loss"] / first["pairs"], (last["loss"] - half["loss"]) / n, updates / n


def smallest_C(rows: Rows) -> Verdict:
    def of_set(rows: Rows) -> Verdict:
        found = level(rows, "smallest_C", line="OH")
        is_near = PAPERS_C / 2 <= found.mean <= PAPERS_C * 2
        told = f"{found.mean:.4f} ± {found.spread:.4f}"
        return Verdict(told, word(is_near and found.mean <= DEFAULT_C, found.mean <= DEFAULT_C))

    return over_sets(rows, "theorem", of_set)


def time_of_a_pair(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-bits", PAPERS_SET).of(line="OH")
    by_bits = _growth(here, "bits", lambda r: r * math.log(r))
    try:
        anchors = on_one_set(rows, "anchors", PAPERS_SET).of(line="OH")
        return together([by_bits, _growth(anchors, "features", float)])
    except Missing as missing:
        return together([by_bits], str(missing))


def _growth(rows: Rows, unit: str, bound: Callable[[float], float]) -> Verdict:
    """Does the time grow no faster than a bound, from each size to the next?"""
    sizes = values_of(rows, "OH")
    times = [level(rows, "seconds", line="OH", value=size) for size in sizes]
    within = [
        not after.above(before.times(bound(large) / bound(small)))
        for (small, before), (large, after) in itertools.pairwise(zip(sizes, times, strict=True))
    ]
    first, last = (cost_told(rows.of(value=size)) for size in (sizes[0], sizes[-1]))
    told = (
        f"x {times[-1].mean / times[0].mean:.2f} from {sizes[0]} to {sizes[-1]} {unit} ({first} to {last}), "
        f"no faster than the bound in {sum(within)} of {len(within)} steps"
    )
    return Verdict(told, by_count(sum(within), len(within)))


def space_of_the_learner(rows: Rows) -> Verdict:
    here = on_one_set(rows, "time-bits", PAPERS_SET).of(line="OH")
    bits = values_of(here, "OH")
    sizes = [_bytes(here.of(value=r)) for r in bits]
    explained = straightness(np.array(bits, np.float64), np.array(sizes))
    ends = f"{sizes[0] / 2**20:.2f} MiB at {bits[0]} bits, {sizes[-1] / 2**20:.2f} at {bits[-1]}"
    parts = [Verdict(f"{ends}, R² {explained:.4f}", word(explained >= STRAIGHT))]
    try:
        long = on_one_set(rows, "loss", PAPERS_SET).of(line="OH", value=DEFAULT_C)
        after_many, after_few = _bytes(long), _bytes(here.of(value=64))
        n_few, n_many = (runs[0].result.final["pairs"] for runs in (here.of(value=64), long))
        told = f"64 bits after {n_few:,} and {n_many:,} pairs: {after_few / 2**20:.2f} and {after_many / 2**20:.2f} MiB"
        return together([*parts, Verdict(told, word(after_many == after_few))])
    except Missing as missing:
        return together(parts, str(missing))


def _bytes(rows: Rows) -> float:
    found = [row.result.facts["state_bytes"] for row in rows if "state_bytes" in row.result.facts]
    if not found:
        raise Missing("of the size of a learner's state")
    return float(np.mean(found))


CLAIMS = (
    Claim(
        "loss",
        "The cumulative loss is lowest near C = 0.1 and grows strongly below 1e-3.",
        "Effect of Margin Parameter C, cumulative similarity loss",
        "Two parts: no C has a lower loss than 0.1 by more than two standard errors; below 1e-3 the loss is at least "
        "twice the lowest.",
        ("loss",),
        loss_by_C,
    ),
    Claim(
        "bound",
        "The cumulative loss is bounded by a constant, and the model converges.",
        "Bounds for Similarity Loss and Prediction Loss",
        "Two parts, at C = 0.1: in the last half of the pairs the loss grows at less than a hundredth of its first "
        "rate; fewer than 1 % of those pairs still update.",
        ("loss",),
        loss_is_bounded,
    ),
    Claim(
        "smallest-C",
        "The smallest C that the theorem asks for is 0.017, so that C = 0.1 is enough.",
        "Effect of Margin Parameter C",
        "On a set: the largest √R over F² is between half and twice 0.017; in part where it is not, but below 0.1.",
        ("theorem",),
        smallest_C,
    ),
    Claim(
        "time-complexity",
        "A pair takes O(dr + r log r) time.",
        "Time and Space Complexity",
        "Two parts: from each number of bits to the next, time grows no faster than r log r; from each number of "
        "features to the next, no faster than in proportion. Faster is by more than two standard errors.",
        ("time-bits", "anchors"),
        time_of_a_pair,
    ),
    Claim(
        "space-complexity",
        "OH takes O(dr) space, whatever the length of the stream.",
        "Time and Space Complexity",
        "Two parts: what a learner keeps is a straight line in r (R² of at least 0.99), and the same after a million "
        "pairs.",
        ("time-bits", "loss"),
        space_of_the_learner,
    ),
)
