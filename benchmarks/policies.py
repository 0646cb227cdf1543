"""Refresh policies on a stream with a sudden drift: mAP along the stream, and the bits recomputed.

    python benchmarks/policies.py [--data mnist.npz ...] [--method SmoothPairs] [--json FILE]

Items and pairs come in steps: 40 new items (the oldest 40 of 4,000 go), then 20 pairs of the last 400 items. Halfway
the stream drifts. `classes`: other classes come from then on; `sensor`: every vector passes a rotation from then on;
`meaning`: the same vectors, but classes are joined into groups, and what was dissimilar becomes similar. Every 20 steps
100 queries of the present kind search the items of the index for their own label; the figure is tie-aware mAP.

Everybody gets the same items, pairs and queries. `bits` are those of changed functions that a refresh passed over, as a
share of what `always` passed over; `computed` leaves out those that margins proved unchanged. The share of mAP is taken
over the second half of the stream (the drift and after it) and over its last quarter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import LiveIndex, refresh
from onlinehash.codes import fused_distances
from onlinehash.codes.ranking import expected_average_precision
from onlinehash.learners import registry

POLICIES = (
    refresh.always,
    lambda: refresh.every(10),
    lambda: refresh.every(100),
    lambda: refresh.every(1000),
    lambda: refresh.when_changed(0.02),
    lambda: refresh.when_changed(0.05),
    lambda: refresh.when_changed(0.05, price=1),
    lambda: refresh.when_changed(0.1),
    lambda: refresh.by_mutual_information(0),
    lambda: refresh.by_mutual_information(0.02),
    refresh.by_hand,
)
WINDOW, STEP, PAIRS, RECENT, QUERIES, EVERY = 4000, 40, 20, 400, 100, 20
Batch = tuple[np.ndarray, np.ndarray]


def stream(X: np.ndarray, y: np.ndarray, drift: str, n_steps: int, seed: int) -> Iterator[tuple[Batch, Batch]]:
    """New items and queries of each step, with their labels."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0].astype(X.dtype)
    classes = rng.permutation(np.unique(y))
    early = np.isin(y, classes[: len(classes) // 2])
    for step in range(n_steps):
        late = step >= n_steps // 2
        some = np.flatnonzero(early != late) if drift == "classes" else np.arange(len(X))
        rows = rng.choice(some, STEP + QUERIES, replace=False)
        batch, labels = X[rows], y[rows]
        if drift == "sensor" and late:
            batch = batch @ rotation
        if drift == "meaning" and late:
            labels = np.searchsorted(np.sort(classes), labels) // 2
        yield (batch[:STEP], labels[:STEP]), (batch[STEP:], labels[STEP:])


def run(X: np.ndarray, y: np.ndarray, drift: str, policy: Any, n_steps: int, seed: int, method: str) -> dict[str, Any]:
    """One index along the stream."""
    rng = np.random.default_rng(seed + 1000)
    index = LiveIndex(registry.find(method)(n_bits=64, random_state=seed), refresh=policy)
    index.bits_at_once = 0  # as of a large index: of one as small as this, every refresh is cheap
    label_of: dict[int, int] = {}
    curve = []
    for step, ((items, labels), (queries, wanted)) in enumerate(stream(X, y, drift, n_steps, seed)):
        ids = np.arange(step * STEP, (step + 1) * STEP)
        if drift == "meaning" and step == n_steps // 2:  # what the old items mean has changed too
            names = np.unique(y)
            label_of = {id: int(np.searchsorted(names, label)) // 2 for id, label in label_of.items()}
        index.add(ids, items)
        label_of |= dict(zip(ids.tolist(), labels.tolist(), strict=True))
        if len(index) > WINDOW:
            index.remove(index.ids[:STEP])
        recent = index.ids[-RECENT:]
        for a, b in rng.choice(recent, (PAIRS, 2)):
            if a != b:
                index.learn_pair_by_id(int(a), int(b), label_of[int(a)] == label_of[int(b)])
        if step % EVERY == EVERY - 1:
            relevant = wanted[:, None] == np.array([label_of[id] for id in index.ids.tolist()])
            distances = fused_distances(index.encoder.encode(queries), index.codes, "min")
            curve.append(float(np.nanmean(expected_average_precision(distances, relevant, np.full(len(queries), -1)))))
    return {
        "policy": repr(policy),
        "curve": curve,
        "refreshes": index.refreshes,
        "rehashed": index.bits_rehashed,
        "computed": index.bits_rehashed - index.bits_skipped,
        "flipped": index.bits_flipped,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="npz files with X and y; else clusters")
    parser.add_argument("--drifts", nargs="+", default=["classes", "sensor", "meaning"])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--method", default="OH", help="a learner from pairs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sets = {path.stem: common.read(path) for path in options.data} or {"clusters": common.clusters(20_000, 64)}
    rows = []
    for name, (X, y) in sets.items():
        for drift in options.drifts:
            print(
                f"\n{name}, drift of {drift}: {options.method}, {options.steps} steps, {options.seeds} seeds, 64 bits"
            )
            print(
                f"{'policy':28} {'mAP at the end':>15} {'of always':>10} {'since drift':>12} "
                f"{'bits':>7} {'computed':>9} {'refreshes':>9}"
            )
            always: list[dict] = []
            for make in POLICIES:
                found = [run(X, y, drift, make(), options.steps, seed, options.method) for seed in range(options.seeds)]
                always = always or found
                rows += [{"data": name, "drift": drift, "seed": seed} | row for seed, row in enumerate(found)]
                since, end = (
                    [
                        [np.mean(row["curve"][len(row["curve"]) * part // 4 :]) for row in some]
                        for some in (found, always)
                    ]
                    for part in (2, 3)
                )
                bits, computed = (
                    sum(row[what] for row in found) / sum(row["rehashed"] for row in always)
                    for what in ("rehashed", "computed")
                )
                print(
                    f"{found[0]['policy']:28} {np.mean(end[0]):7.3f} ± {np.std(end[0]):.3f} "
                    f"{np.mean(end[0]) / np.mean(end[1]):10.1%} {np.mean(since[0]) / np.mean(since[1]):12.1%} "
                    f"{bits:7.1%} {computed:9.2%} {np.mean([row['refreshes'] for row in found]):9.0f}",
                    flush=True,
                )
    common.write_json(rows, options.json)


if __name__ == "__main__":
    main()
