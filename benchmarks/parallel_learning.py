"""Learning in parallel: MMOH's models on several processes, and learners on shards of the pairs.

python benchmarks/parallel_learning.py models
python benchmarks/parallel_learning.py shards mnist.npz cifar10.npz --json shards.json

`models` prints the least microseconds a pair of one process and of several, taken in turn, on blocks of pairs that a
learner which has already learned goes on with; and the processor time of the first process, which says how much faster
it could be at best, if nobody else wanted the cores and no process had to wait for another. `shards` prints mAP after
the same pairs, beside one learner on all of them and one on a shard alone, and the most pairs a second of its runs, the
start of the processes left out.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import common
import numpy as np
import pairs

from onlinehash import MultiModelOnlineHashing, OnlineHashing
from onlinehash.parallel import ParallelModels, learn_on_shards, shards

BLOCK = 4096
SIZES = [(T, r, d) for T in (4, 8) for r in (32, 64) for d in (128, 512)]


def models(args: argparse.Namespace) -> list[dict]:
    print(f"{'':>23} {'us a pair':>23} {'times':>7} {'processor us of the first':>27} {'times faster':>13}")
    head = f"{'T / r / d':>14} {'similar':>8} {'1 process':>11} {f'{args.processes} processes':>11} {'faster':>7}"
    print(f"{head} {'1 process':>13} {f'{args.processes} processes':>13} {'at best':>13}")
    rows = []
    for T, r, d in SIZES:
        for share in (0.1, 0.5):
            A, B, similar = block_of(d, share)
            one = MultiModelOnlineHashing(r, n_models=T, random_state=0).partial_fit_pairs(A, B, similar)
            two = copy.deepcopy(one)
            with ParallelModels(two, args.processes) as teacher:
                contenders = {
                    "one": lambda: one.partial_fit_pairs(A, B, similar),
                    "two": lambda: teacher.partial_fit_pairs(A, B, similar),
                }
                wall = common.best(contenders, args.repeats)
                work = common.best(contenders, args.repeats, time.thread_time)
            assert np.array_equal(one.projection_, two.projection_)
            figures = [seconds[name] / BLOCK * 1e6 for seconds in (wall, work) for name in ("one", "two")]
            names = ("one", "two", "one_work", "two_work")
            case = {"T": T, "r": r, "d": d, "share": share, "processes": args.processes}
            rows.append(case | dict(zip(names, figures, strict=True)))
            one_us, two_us, one_work, two_work = figures
            print(
                f"{f'{T} / {r} / {d}':>14} {share:>8.0%} {one_us:>11.2f} {two_us:>11.2f} {one_us / two_us:>7.2f} "
                f"{one_work:>13.2f} {two_work:>13.2f} {one_work / two_work:>13.2f}",
                flush=True,
            )
    return rows


def block_of(d: int, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of overlapping classes, this share of them similar."""
    X, y = common.clusters(4 * BLOCK, d)
    rng = np.random.default_rng(0)
    wanted = rng.random(BLOCK) < share
    a = rng.integers(len(X), size=BLOCK)
    b = np.array([rng.choice(np.flatnonzero((y == y[i]) == s)) for i, s in zip(a, wanted, strict=True)])
    return X[a], X[b], wanted


@contextmanager
def timed_rounds() -> Iterator[list[tuple[float, int]]]:
    """When each round was made one, and the pairs seen by then: the processes' start is before the first of them."""
    times: list[tuple[float, int]] = []
    combined = shards.combined

    def noted(states: list[dict], before: dict, combine: str) -> dict:
        result = combined(states, before, combine)
        times.append((time.perf_counter(), result["counters"]["n_pairs_seen_"]))
        return result

    shards.combined = noted
    try:
        yield times
    finally:
        shards.combined = combined


def on_shards(args: argparse.Namespace) -> list[dict]:
    rows = []
    cases: list[tuple[int, int | None, str]] = [(n, None, "") for n in (1, 2, 4)]
    cases += [(n, e, how) for how in ("average", "sum") for n in (2, 4) for e in (100, 1000, 10_000)]
    for path in args.data:
        data = pairs.Data(path)
        print(f"\n{data.name}: {args.bits} bits, {args.pairs} pairs, mean and spread of {args.seeds} seeds")
        print(f"{'learner':>32} {'mAP':>15} {'pairs a second, most':>21}")
        for row in pairs.UNTAUGHT:
            rows.append(untaught(data, args, row))
        for n_shards, every, how in cases:
            found = [run(data, args, seed, n_shards, every, how) for seed in range(args.seeds)]
            maps, speeds = ([row[name] for row in found] for name in ("map", "speed"))
            name = f"{n_shards} shards, every {every}, {how}" if every else f"one, on 1/{n_shards} of the pairs"
            spread = statistics.stdev(maps) if len(maps) > 1 else 0.0
            print(f"{name:>32} {statistics.mean(maps):>7.3f} ± {spread:.3f} {max(speeds):>21,.0f}", flush=True)
            case = {"data": data.name, "shards": n_shards, "every": every, "combine": how}
            rows += [case | {"seed": seed} | row for seed, row in enumerate(found)]
    return rows


def untaught(data: pairs.Data, args: argparse.Namespace, row: str) -> dict:
    """What is found without a single pair."""
    seeds = range(1 if row == "float" else args.seeds)
    jobs = ({"row": row, "bits": args.bits, "seed": seed} for seed in seeds)
    maps = [pairs.without_feedback(data, job, [(data.rows, data.y)])[0] for job in jobs]
    spread = f" ± {statistics.stdev(maps):.3f}" if len(maps) > 1 else ""
    print(f"{f'no feedback: {row}':>32} {statistics.mean(maps):>7.3f}{spread}", flush=True)
    return {"data": data.name, "row": row, "maps": maps}


def run(data: pairs.Data, args: argparse.Namespace, seed: int, n_shards: int, every: int | None, how: str) -> dict:
    """One learner on the first of `n_shards` parts (every is None), or so many learners that are made one."""
    a, b = (side[: args.pairs] for side in data.pairs(seed))
    A, B, similar = data.rows[a], data.rows[b], data.y[a] == data.y[b]
    learner = OnlineHashing(args.bits, random_state=seed)
    start = time.perf_counter()
    if every is None:
        n = len(A) // n_shards
        learner.partial_fit_pairs(A[:n], B[:n], similar[:n])
        speed = n / (time.perf_counter() - start)
    else:
        numbers = {"n_shards": n_shards, "every": every, "n_processes": args.processes}
        with timed_rounds() as times:
            learn_on_shards(learner, A, B, similar, combine=how, **numbers)
        (begin, before), (end, after) = times[0], times[-1]
        speed = (after - before) / (end - begin) if len(times) > 1 else float("nan")
    return {"map": pairs.mean_average_precision(learner, data, data.rows, data.y), "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["models", "shards"])
    parser.add_argument("data", type=Path, nargs="*", help="npz files with X and y, for shards")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=50_000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    args = parser.parse_args()
    print(common.machine())
    common.write_json(models(args) if args.what == "models" else on_shards(args), args.json)


if __name__ == "__main__":
    main()
