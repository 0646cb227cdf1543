"""Microseconds to learn a pair, beside the BLAS product of its two projections and beside plain NumPy.

With one BLAS thread. The limit is what an sgemm over blocks of 2,000 points takes for the
same projections: no learner that looks at its points can be faster than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import common
import numpy as np
from ratio import Pair, pair

from onlinehash import MultiModelOnlineHashing, OnlineHashing

SIZES = ((512, 64), (300, 32), (960, 128), (2048, 64))
N_PAIRS = 20_000
PAPER_MICROSECONDS = 1500  # one thread of a Xeon X5650, 2017


def numpy_step(W: np.ndarray, x_i: np.ndarray, x_j: np.ndarray, s: int, C: float = 0.1) -> None:
    """Algorithms 1 to 3 (α = 0, β = 0.4) on one pair in plain NumPy, touching only the columns that change."""
    r = W.shape[1]
    p_i, p_j = x_i @ W, x_j @ W
    h_i, h_j = p_i >= 0, p_j >= 0
    differ = h_i != h_j
    D = np.count_nonzero(differ)
    R = D if s > 0 else max(0.0, 0.4 * r - D)
    if R == 0:
        return
    K = np.flatnonzero(differ == (s > 0))
    p0 = D if s > 0 else int(np.ceil(0.4 * r - 1e-9)) - D
    delta = np.minimum(np.abs(p_i), np.abs(p_j))[K]
    chosen = K[np.argsort(delta, kind="stable")[:p0]]
    on_i = np.abs(p_i[chosen]) <= np.abs(p_j[chosen])
    i, j = chosen[on_i], chosen[~on_i]
    loss = 2 * (np.abs(p_i[i]).sum() + np.abs(p_j[j]).sum()) + np.sqrt(R)
    tau = min(C, loss / (4 * (len(i) * (x_i @ x_i) + len(j) * (x_j @ x_j))))
    W[:, i] -= (2 * tau * np.outer(x_i, np.where(h_i[i], 1, -1))).astype(W.dtype)
    W[:, j] -= (2 * tau * np.outer(x_j, np.where(h_j[j], 1, -1))).astype(W.dtype)


def numpy_microseconds(A: np.ndarray, B: np.ndarray, similar: np.ndarray, n_bits: int) -> float:
    """Per pair, best of three runs over the first thousand pairs."""
    n, best = 1000, float("inf")
    mean = (A.mean(axis=0) + B.mean(axis=0)) / 2
    A, B = A[:n] - mean, B[:n] - mean
    for _ in range(3):
        W = np.random.default_rng(0).standard_normal((A.shape[1], n_bits)).astype(A.dtype)
        start = time.perf_counter()
        for t in range(n):
            numpy_step(W, A[t], B[t], 1 if similar[t] else -1)
        best = min(best, (time.perf_counter() - start) / n * 1e6)
    return best


def single_microseconds(A: np.ndarray, B: np.ndarray, similar: np.ndarray, n_bits: int) -> float:
    """`learn_pair`, one call a pair, checks and Update object included."""
    learner = OnlineHashing(n_bits, random_state=0)
    start = time.perf_counter()
    for t in range(2000):
        learner.learn_pair(A[t], B[t], similar[t])
    return (time.perf_counter() - start) / 2000 * 1e6


def learn_and_sgemm(X: np.ndarray, y: np.ndarray, n_bits: int) -> dict[str, Callable[[], object]]:
    """Learning all pairs of X, and nothing but the products of their projections."""
    A, B, similar = common.pairs(X, y)
    W = np.random.default_rng(0).standard_normal((X.shape[1], n_bits)).astype(np.float32)
    return {
        "learn": lambda: OnlineHashing(n_bits, random_state=0).partial_fit_pairs(A, B, similar),
        "sgemm": lambda: [X[k : k + 2000] @ W for k in range(0, len(X), 2000)],
    }


def compared(seconds: float) -> Iterator[Pair]:
    """Learning over its limit, in so many seconds a size."""
    for d, n_bits in ((512, 64), (960, 128)):
        X, y = common.clusters(N_PAIRS, d)
        rounds = common.rounds(learn_and_sgemm(X, y, n_bits), 3, time.process_time, seconds)
        yield pair(f"learn {d} / {n_bits}: OH over sgemm", rounds, "learn", "sgemm", "lower")


def main() -> None:
    args = common.arguments(__doc__.splitlines()[0])
    print(common.machine())
    print(f"{'d / r':>10} {'pairs with':>11} {'us a pair':>10} {'sgemm':>7} {'ratio':>6} {'NumPy':>7} {'times':>6} "
          f"{'learn_pair':>11} {'MMOH 4x':>8}")  # fmt: skip
    print(f"{'':>10} {'an update':>11} {'(batch)':>10} {'us':>7} {'':>6} {'us':>7} {'faster':>6} {'us':>11} {'us':>8}")
    for d, n_bits in SIZES:
        given = args.data is not None and d == 512
        X, y = common.read(args.data) if given else common.clusters(2 * N_PAIRS, d)
        X, y = X[: 2 * N_PAIRS], y[: 2 * N_PAIRS]
        A, B, similar = common.pairs(X, y)
        learner = OnlineHashing(n_bits, random_state=0).partial_fit_pairs(A, B, similar)
        rate = learner.n_updates_ / learner.n_pairs_seen_
        seconds = common.best(
            learn_and_sgemm(X, y, n_bits)
            | {
                "models": lambda: MultiModelOnlineHashing(n_bits, random_state=0).partial_fit_pairs(
                    A[:2000],
                    B[:2000],
                    similar[:2000],
                ),
            },
            args.repeats,
        )
        learn, sgemm = seconds["learn"] / len(A) * 1e6, seconds["sgemm"] / len(A) * 1e6
        plain = numpy_microseconds(A, B, similar, n_bits)
        print(
            f"{f'{X.shape[1]} / {n_bits}':>10} {rate:>10.0%} {learn:>11.2f} {sgemm:>7.2f} {learn / sgemm:>6.2f} "
            f"{plain:>7.1f} {plain / learn:>6.1f} {single_microseconds(A, B, similar, n_bits):>11.1f} "
            f"{seconds['models'] / 2000 * 1e6:>8.2f}" + ("  (given data)" if given else "")
        )
    print(f"for reference, the paper reports {PAPER_MICROSECONDS} us a pair (one thread, Xeon X5650)")


if __name__ == "__main__":
    main()
