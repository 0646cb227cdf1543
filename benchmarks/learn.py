"""Microseconds to learn a pair, beside the BLAS product of its two projections and beside plain NumPy.

With one BLAS thread. The limit is what an sgemm over blocks of 2,000 points takes for the same projections: no learner
that looks at its points can be faster than that. The second table has the learners from pairs side by side; *marks* are
of BlendedPairHashing, too, but on results that come back, ten to a query. Times are those of the process, without those
in which other programs had the core.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import common
import numpy as np
from ratio import Pair, pair

from onlinehash import BlendedPairHashing, MultiModelOnlineHashing, OnlineHashing, SmoothPairHashing

SIZES = ((512, 64), (300, 32), (960, 128), (2048, 64))
N_PAIRS = 20_000
N_FIRST = 4000  # pairs after which every one of them has found its beginning
N_LATER = 1024  # later pairs in a batch: 32 chunks, one round of what is done in some chunks only
N_CALLS = 320  # calls of learn_pair that are timed together: ten chunks
PAPER_MICROSECONDS = 1500  # one thread of a Xeon X5650, 2017


def marks(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As many marks as `common.pairs` gives pairs: ten results to a query, all of its class, among 4,000 points.

    Those with an even number, or those with an odd one, are similar.
    """
    rng = np.random.default_rng(0)
    of_classes = [np.flatnonzero(y[:4000] == c) for c in range(y.max() + 1)]
    queries = rng.integers(0, 4000, len(X) // 2 // 10 + 1)
    results = np.concatenate([rng.choice(of_classes[y[i]], 10) for i in queries])[: len(X) // 2]
    queries = queries.repeat(10)[: len(X) // 2]
    return X[queries], X[results], queries % 2 == results % 2


#: Who learns what.
ROWS: dict[str, tuple[type, Callable[..., Any]]] = {
    "OH": (OnlineHashing, common.pairs),
    "Smooth": (SmoothPairHashing, common.pairs),
    "Blended": (BlendedPairHashing, common.pairs),
    "marks": (BlendedPairHashing, marks),
}


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
        start = time.process_time()
        for t in range(n):
            numpy_step(W, A[t], B[t], 1 if similar[t] else -1)
        best = min(best, (time.process_time() - start) / n * 1e6)
    return best


def learn_and_sgemm(X: np.ndarray, y: np.ndarray, n_bits: int) -> dict[str, Callable[[], object]]:
    """Learning all pairs of X, and nothing but the products of their projections."""
    A, B, similar = common.pairs(X, y)
    W = np.random.default_rng(0).standard_normal((X.shape[1], n_bits)).astype(np.float32)
    return {
        "learn": lambda: OnlineHashing(n_bits, random_state=0).partial_fit_pairs(A, B, similar),
        "sgemm": lambda: [X[k : k + 2000] @ W for k in range(0, len(X), 2000)],
    }


def side_by_side(X: np.ndarray, y: np.ndarray, n_bits: int) -> dict[str, Callable[[], object]]:
    """For each row a batch of later pairs of X, and single calls of `learn_pair`, checks and Update included.

    The learner goes on through all runs: it is never again where it was, but always past its beginning.
    """
    contenders: dict[str, Callable[[], object]] = {"sgemm": learn_and_sgemm(X, y, n_bits)["sgemm"]}
    for name, (method, pairs_of) in ROWS.items():
        A, B, similar = pairs_of(X, y)
        learner = method(n_bits, random_state=0).partial_fit_pairs(A[:N_FIRST], B[:N_FIRST], similar[:N_FIRST])
        batches = itertools.cycle(range(N_FIRST, len(A) - N_LATER + 1, N_LATER))
        turns = itertools.cycle(range(N_FIRST, len(A)))

        def batch(learner: Any = learner, given: Any = (A, B, similar), batches: Iterator[int] = batches) -> None:
            rows = slice(start := next(batches), start + N_LATER)
            learner.partial_fit_pairs(*(part[rows] for part in given))

        def calls(learner: Any = learner, given: Any = (A, B, similar), turns: Iterator[int] = turns) -> None:
            for t in itertools.islice(turns, N_CALLS):
                learner.learn_pair(*(part[t] for part in given))

        contenders |= {f"batch {name}": batch, f"calls {name}": calls}
    return contenders


def print_side_by_side(X: np.ndarray, y: np.ndarray, n_bits: int, repeats: int) -> None:
    """A line for each row: microseconds of later pairs, and milliseconds of the first, all found in one run."""
    n = len(X) // 2
    seconds = common.best(side_by_side(X, y, n_bits), 10 * repeats, time.process_time)
    sgemm = seconds["sgemm"] / n * 1e6
    given = {name: [part[:N_FIRST] for part in pairs_of(X, y)] for name, (_, pairs_of) in ROWS.items()}
    first = {
        name: lambda name=name, method=method: method(n_bits, random_state=0).partial_fit_pairs(*given[name])
        for name, (method, _) in ROWS.items()
    }
    firsts = common.best(first, min(repeats, 3), time.process_time)
    for name in ROWS:
        batch, calls = seconds[f"batch {name}"] / N_LATER * 1e6, seconds[f"calls {name}"] / N_CALLS * 1e6
        print(
            f"{f'{X.shape[1]} / {n_bits}':>10} {name:>8} {batch:>10.2f} {sgemm:>7.2f} {batch / sgemm:>6.2f} "
            f"{calls:>11.1f} {calls / sgemm:>6.1f} {firsts[name] * 1e3:>9.0f}"
        )


def compared(seconds: float) -> Iterator[Pair]:
    """Learning over its limit, in so many seconds a size."""
    for d, n_bits in ((512, 64), (960, 128)):
        X, y = common.clusters(N_PAIRS, d)
        rounds = common.rounds(learn_and_sgemm(X, y, n_bits), 3, time.process_time, seconds)
        yield pair(f"learn {d} / {n_bits}: OH over sgemm", rounds, "learn", "sgemm", "lower")
    rounds = common.rounds(side_by_side(*common.clusters(N_PAIRS, 512), 64), 3, time.process_time, seconds)
    n_pairs = {"sgemm": N_PAIRS // 2, "batch": N_LATER, "calls": N_CALLS}
    rounds = {name: [time / n_pairs[name.split()[0]] for time in times] for name, times in rounds.items()}
    for name in ("Smooth", "Blended"):
        yield pair(f"learn 512 / 64: {name} over sgemm", rounds, f"batch {name}", "sgemm", "lower")
    for name in ("OH", "Blended"):
        yield pair(f"learn_pair 512 / 64: {name} over sgemm", rounds, f"calls {name}", "sgemm", "lower")


def main() -> None:
    args = common.arguments(__doc__.splitlines()[0])
    print(common.machine())
    sets = []
    print(f"{'d / r':>10} {'pairs with':>11} {'us a pair':>10} {'sgemm':>7} {'ratio':>6} {'NumPy':>7} {'times':>6} "
          f"{'MMOH 4x':>8}")  # fmt: skip
    print(f"{'':>10} {'an update':>11} {'(batch)':>10} {'us':>7} {'':>6} {'us':>7} {'faster':>6} {'us':>8}")
    for d, n_bits in SIZES:
        given = args.data is not None and d == 512
        X, y = common.read(args.data) if given else common.clusters(2 * N_PAIRS, d)
        X, y = X[: 2 * N_PAIRS], y[: 2 * N_PAIRS]
        sets.append((X, y, n_bits))
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
            time.process_time,
        )
        learn, sgemm = seconds["learn"] / len(A) * 1e6, seconds["sgemm"] / len(A) * 1e6
        plain = numpy_microseconds(A, B, similar, n_bits)
        print(
            f"{f'{X.shape[1]} / {n_bits}':>10} {rate:>10.0%} {learn:>11.2f} {sgemm:>7.2f} {learn / sgemm:>6.2f} "
            f"{plain:>7.1f} {plain / learn:>6.1f} {seconds['models'] / 2000 * 1e6:>8.2f}"
            + ("  (given data)" if given else "")
        )
    print(f"for reference, the paper reports {PAPER_MICROSECONDS} us a pair (one thread, Xeon X5650)")
    print(f"\n{'d / r':>10} {'':>8} {'us a pair':>10} {'sgemm':>7} {'ratio':>6} {'learn_pair':>11} {'ratio':>6} "
          f"{'first ' + str(N_FIRST):>9}")  # fmt: skip
    print(f"{'':>10} {'':>8} {'(batch)':>10} {'us':>7} {'':>6} {'us':>11} {'':>6} {'pairs, ms':>9}")
    for X, y, n_bits in sets:
        print_side_by_side(X, y, n_bits, args.repeats)


if __name__ == "__main__":
    main()
