"""What lost state and other slips of public benchmark code do to results: each emulated here, beside the corrected one.

    python benchmarks/state_loss.py
    python benchmarks/state_loss.py mnist.npz cifar10_deep512.npz

Without a file it runs on scikit-learn's digits. Each file is an npz with X and y (and offset and scale, where X is
quantised). Rows are taken less the mean of all and scaled to unit length, as the public code does it. The first 20,000
(fewer of a smaller set) are the stream, in an order that each seed shuffles, and the database; the next 1,000 are the
queries. 32 bits, three seeds, tie-aware mAP, mean and standard deviation. docs/explanation/reproducibility.md
tells the story.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import common
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances

from onlinehash import (
    HadamardMatchingHashing,
    IterativeQuantization,
    MutualInformationHashing,
    OnlineHashing,
    OnlineSketchingHashing,
    OnlineSupervisedHashing,
    RbfAnchors,
    evaluate,
)

N_BITS, SEEDS = 32, (0, 1, 2)

# ------------------------------------------------------------------ the slips


class ForgottenCodebook(OnlineSupervisedHashing):
    """The list of classes met is lost after every point: each point's class is the first, and gets codeword 1."""

    def _draw_codewords(self, n_classes: int) -> np.ndarray:
        first = self._codewords[:1] if len(self._codewords) else super()._draw_codewords(1)
        return np.repeat(first, n_classes, axis=0)


class ForgottenSketch(OnlineSketchingHashing):
    """Sketch, mean and count are lost after every chunk, the rotation drawn anew; codes are of points less zero."""

    def _learn_chunk(self, chunk: Any) -> np.ndarray:
        self._sketch.rows[:], self._sketch.used, self._n_learned = 0.0, 0, 0
        self._chunks = getattr(self, "_chunks", 0) + 1
        rng = np.random.default_rng([self._seed, 3, self._chunks])
        self._rotation = np.linalg.qr(rng.standard_normal((self.n_bits, len(self._rotation))))[0].T
        moved = super()._learn_chunk(chunk)
        self._mean[:] = 0.0
        return moved

    def _turned_directions(self) -> np.ndarray:
        return self._sketch.directions(self.n_bits)  # as they come


def public_kernel(X: np.ndarray, among: np.ndarray, constant: bool) -> np.ndarray:
    """The mean *squared* distance to the anchors is taken for the width, and squared once more; a 1 is appended."""
    anchors, others = among[:300], among[300:2300]
    width = float(np.mean(euclidean_distances(others, anchors, squared=True)))
    K = np.exp(-0.5 * euclidean_distances(X, anchors, squared=True) / width**2)
    return np.column_stack([K, np.ones(len(K))]) if constant else K


class ShortcutGradient(MutualInformationHashing):
    """Codes of the sample are -1 to +1 in the distance but 0 to 1 in its derivative, and a factor 2 is missing."""

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Any) -> None:
        W = self._W[:, : self._n_inputs].T.astype(np.float64)
        for x, label, key in zip(X[:, : self._n_inputs], members[:, 0], self._rng.random(len(X)), strict=True):
            if not x.any():  # the very first point is its own mean
                continue
            x = x / np.linalg.norm(x)
            n = min(self._n_taught, self.sample_size)
            near = self._members[:n, 0] == label
            if n and near.any() and not near.all():
                W += self.step * np.outer(x, self._uphill(x @ W, self._points[:n, : self._n_inputs] @ W, near))
            last = int(np.argmax(self._keys))
            if key < self._keys[last]:
                self._keys[last], self._points[last, : len(x)], self._members[last, 0] = key, x, label
            self._n_taught += 1
        self._W[:, : self._n_inputs] = W.T
        updates.moved[:] = True

    def _uphill(self, u: np.ndarray, P: np.ndarray, near: np.ndarray) -> np.ndarray:
        phi, others = 1 / (1 + np.exp(-self.sharpness * u)), 1 / (1 + np.exp(-self.sharpness * P))  # 0 to 1
        width = self.n_bits / self.n_bins
        at = (self.n_bits - (2 * others - 1) @ (2 * phi - 1)) / (2 * width)
        low = np.clip(at.astype(int), 0, self.n_bins - 1)
        histograms = np.zeros((2, self.n_bins + 1))
        np.add.at(histograms, (near.astype(int), low), low + 1 - at)
        np.add.at(histograms, (near.astype(int), low + 1), at - low)
        shares = histograms / histograms.sum(axis=1, keepdims=True)
        whole = histograms.sum(axis=0) / len(P)
        q = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
        q -= np.where(shares > 0, np.log2(whole, out=np.zeros_like(whole), where=whole > 0), 0.0)
        by_distance = (q[near.astype(int), low + 1] - q[near.astype(int), low]) / (len(P) * width)
        return -0.5 * (by_distance @ others) * self.sharpness * phi * (1 - phi)


def perceptrons(X: np.ndarray, targets: np.ndarray, rate: float) -> np.ndarray:
    """HMOH as it reads, with its learning rate: the sum of all perceptrons there were."""
    V = np.zeros((X.shape[1], targets.shape[1]))
    W = np.zeros_like(V)
    for x, c in zip(X, targets, strict=True):
        V += rate * np.outer(x, np.where(c * (x @ V) <= 0, c, 0))
        W += V
    return W


# ------------------------------------------------------------------ beside the corrected ones


class Contender(NamedTuple):
    """A learner of a seed, and what is made of the points for it; the second argument is the stream."""

    title: str
    make: Callable[..., Any]
    features: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda X, stream: X


KERNEL = RbfAnchors(300, width=1.0, normalize=True)

CONTENDERS = [
    Contender("no feedback: ITQ", IterativeQuantization),
    Contender("OECC", OnlineSupervisedHashing),
    Contender("OECC, codebook lost after every point", ForgottenCodebook),
    Contender("OSH (sketching), chunks of 50", partial(OnlineSketchingHashing, chunk_size=50)),
    Contender("OSH (sketching), sketch lost after every 50", partial(ForgottenSketch, chunk_size=50)),
    Contender("OH, kernel of width 1, centred", partial(OnlineHashing, features=KERNEL)),
    Contender("OH, public kernel, centred", OnlineHashing, partial(public_kernel, constant=False)),
    Contender(
        "OH, public kernel as it is, and a constant 1",
        partial(OnlineHashing, centre="none"),
        partial(public_kernel, constant=True),
    ),
    Contender(
        "the same from unit columns, as the public code",
        partial(OnlineHashing, centre="none", init="unit"),
        partial(public_kernel, constant=True),
    ),
    Contender("MIHash", MutualInformationHashing),
    Contender("MIHash, released gradient", ShortcutGradient),
]


def load(path: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Stream (and database) with labels, queries with labels; centred with the mean of all, unit length."""
    if path is None:
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(X))  # the digits come writer by writer
        X, y, n = X[order].astype(np.float32), y[order], 1296
    else:
        X, y = common.read(path)
        n = min(20_000, len(X) - 500) // 2 * 2
    X = X - X.mean(axis=0)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return X[:n], y[:n], X[n : n + 1000], y[n : n + 1000]


def learned(learner: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """After the stream: pairs two by two, points with labels, or points alone."""
    if learner.traits.learns_from == "pairs":
        return learner.partial_fit_pairs(*common.pairs(X, y)).flush()
    return learner.fit(X) if learner.traits.unit == "batch" else learner.partial_fit(X, y).flush()


def run(name: str, data: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> None:
    X, y, queries, labels = data
    truth = evaluate.same_label(labels, y)
    print(f"\n{name}: {len(X)} points, {len(queries)} queries, {N_BITS} bits\n")
    print(f"| no feedback: exact cosine of the vectors | {evaluate.cosine(queries, X, truth)['map']:.3f} |")
    kept: dict[str, Any] = {}
    for title, make, features in CONTENDERS:
        values = []
        for seed in SEEDS:
            order = np.random.default_rng(seed).permutation(len(X))
            stream = X[order]
            kept[title] = learned(make(N_BITS, random_state=seed), features(stream, stream), y[order])
            searched = features(queries, stream), features(X, stream)
            values.append(evaluate.retrieval(kept[title], *searched, truth, ["map"])["map"])
        print(f"| {title} | {np.mean(values):.3f} ± {np.std(values):.3f} |", flush=True)
    print_changes(X)
    print_rates(X, y)
    for title in ("OECC", "OECC, codebook lost after every point"):
        print_conventions(title, kept[title], X, y, queries, labels)


def print_changes(X: np.ndarray) -> None:
    """Bits of the database that the last 50 points change in sketching, with its state and without."""
    shares = []
    for cls in (OnlineSketchingHashing, ForgottenSketch):
        learner = cls(N_BITS, chunk_size=50, random_state=0).partial_fit(X[: len(X) // 50 * 50 - 50])
        before = learner.transform(X)
        shares.append(np.mean(learner.partial_fit(X[-50:]).transform(X) != before))
    print(
        f"\nOSH: the last 50 points change {shares[0]:.2%} of the bits of the database; {shares[1]:.1%} without state."
    )


def print_rates(X: np.ndarray, y: np.ndarray) -> None:
    """Bits that another learning rate changes in HMOH."""
    learner = HadamardMatchingHashing(N_BITS, random_state=0).fit(X, y)
    numbers = np.unique(y, return_inverse=True)[1]
    targets = learner.codewords_[numbers][:5000].astype(np.float64)
    bits = [X @ perceptrons(X[:5000].astype(np.float64), targets, rate) >= 0 for rate in (1.0, 0.2, 0.001)]
    changed = [int((other != bits[0]).sum()) for other in bits[1:]]
    print(f"\nHMOH: of {bits[0].size} bits, learning rates 0.2 and 0.001 change {changed[0]} and {changed[1]}.")


def print_conventions(
    title: str, learner: Any, X: np.ndarray, y: np.ndarray, queries: np.ndarray, labels: np.ndarray
) -> None:
    """One learner, one ranking; only the convention of the metric changes."""
    code, base = learner.encode(queries), learner.encode(X)
    orders = {
        "as shuffled": np.random.default_rng(0).permutation(len(X)),
        "sorted by class": np.argsort(y, kind="stable"),
    }
    print(f"\nOne ranking, {title}:\n")

    def value(metric: str, ties: str = "expected", order: Any = slice(None)) -> float:
        return evaluate.rank(code, base[order], evaluate.same_label(labels, y[order]), [metric], ties=ties)[metric]

    for rule in ("expected", "optimistic", "pessimistic"):
        print(f"| mAP, ties {rule} | {value('map', rule):.3f} |")
    for name, order in orders.items():
        print(f"| mAP, ties in the order of the database, {name} | {value('map', 'stored', order):.3f} |")
    for metric in ("map@1000", "map@1000/found", "map@1000/all"):
        print(f"| {metric}, ties expected | {value(metric):.3f} |")


def main(paths: list[str]) -> None:
    for path in paths or [None]:
        run("digits" if path is None else Path(path).stem, load(None if path is None else Path(path)))


if __name__ == "__main__":
    main(sys.argv[1:])
