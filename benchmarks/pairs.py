"""The learners from pairs, on the same random pairs: quality, bits that change, robustness, and a world that changes.

    python benchmarks/pairs.py cifar10_deep512.npz mnist.npz --results pairs.jsonl

Each file is an npz with X and y (and offset and scale, where X is quantised). Rows are taken less the mean of the first
2,000 and scaled to unit length. The first 20,000 (of a smaller set all but 1,000) are the database, and the pairs are
random pairs of them, similar when their labels are equal; the next 1,000 are the queries. Where fewer than 1 % of
random pairs are similar (groups of a few rows in place of classes), 20 % of the pairs are drawn to be similar, and the
queries are the next 1,000 rows that have a mate in the database. A seed stands for the pairs and the learner's own
random numbers. *Float* is exact search by cosine, *ITQ* codes of IterativeQuantization of the first 2,000 rows: neither
gets feedback. All learners have their defaults; *kernel* is `RbfAnchors(300, normalize=True)` before them. Tie-aware
mAP, mean ± standard deviation over 3 seeds. What still waits in a chunk is learned first (`flush`, of a copy), except
in table `bits`.

quality   mAP after 10,000 and 50,000 pairs, at 16 to 128 bits.
large     With `--large`: the same at 64 bits, the database being all rows but the queries, for sets of 50,000 or more.
bits      64 bits, 50,000 pairs, linear; codes as an index sees them, without flush. *Moves*: columns moved, by the
          learner's own count, per 1,000 pairs, over the last 40,000. *Distinct*: columns that differ between two
          snapshots 1,000 pairs apart, mean of the last 40. Microseconds of one thread for a pair, the least of seeds.
robust    64 bits, 50,000 pairs, linear: 1 to 50 % similar pairs, drawn by label; random pairs, 10 or 20 % of them
          with the wrong answer; rows as they are in the file, and with each feature standardised by the first 2,000.
drift     64 bits, linear, one seed; at 25,000 of 50,000 pairs the world changes. *Rotated*: all rows, the database and
          the queries too, are turned by a random orthogonal matrix. *Meaning*: similar is what is of the same two
          classes (0 and 1, 2 and 3, ...), later of two others (1 and 2, 3 and 4, ...). mAP under what holds then; at
          25,000 before the change and, with the same functions, after it.

`robust` and `drift` are for sets with classes only. Every run is written to the file of results when it is done, and a
run that is found there is not done again, unless the library's source has changed.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import (
    LSH,
    BlendedPairHashing,
    IterativeQuantization,
    MiniBatchOnlineHashing,
    OnlineHashing,
    RbfAnchors,
    SmoothPairHashing,
    evaluate,
)

#: Pairs of a run, of which the first part is a stage of its own; pairs given at one time.
N_PAIRS, FIRST_STAGE, BLOCK = 50_000, 10_000, 1000
SEEDS = range(3)

#: Below this share of similar pairs among random ones they are drawn by label, so many of them.
RARE, DRAWN = 0.01, 0.2

METHODS: dict[str, Callable[..., Any]] = {
    "LSH": LSH,
    "OH": OnlineHashing,
    "MBOH": MiniBatchOnlineHashing,
    "Smooth": SmoothPairHashing,
    "Blended": BlendedPairHashing,
}
LEARNERS = [name for name in METHODS if name != "LSH"]

#: What got no feedback: exact search in the vectors, and codes fitted to the first so many rows.
UNTAUGHT, N_FITTED = ("float", "ITQ"), 2000
BITS_ROWS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in ("OH", "MBOH")} | {
    f"Smooth, stale_share={share:g}": ("Smooth", {"stale_share": share}) for share in (0.0, 0.02, 0.05, 0.1)
}
BITS_ROWS["Blended"] = ("Blended", {})
ROBUST = (
    "1 % similar",
    "5 % similar",
    "10 % similar",
    "50 % similar",
    "10 % wrong",
    "20 % wrong",
    "raw",
    "standardised",
)
WORLDS = ("rotated", "meaning")

Job = dict[str, Any]


class Data:
    """A set, prepared alike for everybody; rows are read when they are first needed."""

    def __init__(self, path: Path) -> None:
        self.name, self.path = path.stem, path
        with np.load(path) as file:
            self.y = file["y"]
        self.n = min(20_000, len(self.y) - 1000)
        self.labels = self.y[: self.n]
        _, counts = np.unique(self.labels, return_counts=True)
        self.is_rare = bool((counts * (counts - 1.0)).sum() < RARE * self.n * (self.n - 1.0))
        later = np.arange(self.n, len(self.y))
        self.query_ids = (later[np.isin(self.y[later], self.labels)] if self.is_rare else later)[:1000]

    @cached_property
    def raw(self) -> np.ndarray:
        return common.read(self.path)[0]

    @cached_property
    def rows(self) -> np.ndarray:
        X = self.raw - self.raw[:2000].mean(axis=0)
        return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))

    @cached_property
    def standardised(self) -> np.ndarray:
        spread = self.raw[:2000].std(axis=0)
        return np.asarray((self.raw - self.raw[:2000].mean(axis=0)) / np.where(spread > 0, spread, 1))

    def form(self, name: str) -> np.ndarray:
        """`rows`, `raw` or `standardised`."""
        return np.asarray(getattr(self, name))

    def pairs(self, seed: int, share: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers of two sides, random or with this share of them drawn to be similar."""
        if share is None and self.is_rare:
            share = DRAWN
        rng = np.random.default_rng(seed)
        a = rng.integers(self.n, size=N_PAIRS)
        b = (a + rng.integers(1, self.n, N_PAIRS)) % self.n
        if share is None:
            return a, b
        wanted = rng.random(N_PAIRS) < share
        while (wrong := ~wanted & (self.labels[a] == self.labels[b])).any():
            b[wrong] = (a[wrong] + rng.integers(1, self.n, wrong.sum())) % self.n
        a[wanted], b[wanted] = self._similar(rng, int(wanted.sum()))
        return a, b

    def _similar(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Any row that has a mate, and any of its mates."""
        order = np.argsort(self.labels, kind="stable")
        _, starts, group, sizes = np.unique(
            self.labels[order], return_index=True, return_inverse=True, return_counts=True
        )
        places = rng.choice(np.flatnonzero(sizes[group] > 1), count)
        start, size = starts[group[places]], sizes[group[places]]
        mates = start + (places - start + rng.integers(1, size)) % size
        return order[places], order[mates]


class Lesson:
    """A learner on its way along pairs of a set."""

    def __init__(self, learner: Any, a: np.ndarray, b: np.ndarray) -> None:
        self.learner, self.a, self.b = learner, a, b
        self.at, self.seconds = 0, 0.0

    def learn(self, X: np.ndarray, similar: np.ndarray, until: int) -> None:
        """Learn the pairs up to this one, a block at a time; only the learning is timed."""
        while self.at < until:
            rows = slice(self.at, min(self.at + BLOCK, until))
            A, B, s = X[self.a[rows]], X[self.b[rows]], similar[rows]
            start = time.process_time()
            self.learner.partial_fit_pairs(A, B, s)
            self.seconds += time.process_time() - start
            self.at = rows.stop

    def settled(self) -> Any:
        """A copy that has learned what waits for its chunk."""
        return copy.deepcopy(self.learner).flush()


def mean_average_precision(model: Any, data: Data, X: np.ndarray, y: np.ndarray, base: Any = None) -> float:
    base = slice(data.n) if base is None else base
    truth = evaluate.same_label(y[data.query_ids], y[base])
    return evaluate.retrieval(model, X[data.query_ids], X[base], truth, ["map"])["map"]


def without_feedback(
    data: Data, job: Job, worlds: list[tuple[np.ndarray, np.ndarray]], base: Any = None
) -> list[float]:
    """mAP of floats, or of codes fitted to the first world, in each world (rows and labels)."""
    if job["row"] == "float":
        base = slice(data.n) if base is None else base
        found = []
        for X, y in worlds:
            truth = evaluate.same_label(y[data.query_ids], y[base])
            found.append(evaluate.cosine(X[data.query_ids], X[base], truth, ["map"])["map"])
        return found
    features = RbfAnchors(300, normalize=True) if job.get("kernel") else None
    model = IterativeQuantization(job.get("bits", 64), features=features, random_state=job["seed"])
    model.fit(worlds[0][0][:N_FITTED])
    return [mean_average_precision(model, data, X, y, base) for X, y in worlds]


# ------------------------------------------------------------------ what a run measures


def quality(data: Data, job: Job) -> dict[str, Any]:
    params = {"features": RbfAnchors(300, normalize=True)} if job["kernel"] else {}
    base = np.setdiff1d(np.arange(len(data.y)), data.query_ids) if job["table"] == "large" else None
    if job["row"] == "float" and base is None:
        return {"maps": whatever_the_pairs(data, "float", 0, "rows") * 2}
    if job["row"] in UNTAUGHT:
        return {"maps": without_feedback(data, job, [(data.rows, data.y)], base) * 2}
    learner = METHODS[job["row"]](n_bits=job["bits"], random_state=job["seed"], **params)
    lesson = Lesson(learner, *data.pairs(job["seed"]))
    similar = data.y[lesson.a] == data.y[lesson.b]
    found = []
    for stage in (FIRST_STAGE, N_PAIRS):
        lesson.learn(data.rows, similar, stage)
        found.append(mean_average_precision(lesson.settled(), data, data.rows, data.y, base))
    return {"maps": found, "us": 1e6 * lesson.seconds / N_PAIRS, "similar": float(similar.mean())}


def bits(data: Data, job: Job) -> dict[str, Any]:
    method, params = BITS_ROWS[job["row"]]
    lesson = Lesson(METHODS[method](n_bits=64, random_state=job["seed"], **params), *data.pairs(job["seed"]))
    similar = data.y[lesson.a] == data.y[lesson.b]
    found, moved, snapshots = [], [], []
    for stage in range(BLOCK, N_PAIRS + 1, BLOCK):
        lesson.learn(data.rows, similar, stage)
        if stage >= FIRST_STAGE:
            moved.append(lesson.learner.n_bits_moved_)
            snapshots.append(lesson.learner.snapshot())
        if stage in (FIRST_STAGE, N_PAIRS):
            found.append(mean_average_precision(lesson.learner, data, data.rows, data.y))
    distinct = [len(new.changed_bits(old)) for old, new in pairwise(snapshots)]
    return {
        "maps": found,
        "moves": (moved[-1] - moved[0]) / len(distinct),
        "distinct": float(np.mean(distinct)),
        "us": 1e6 * lesson.seconds / N_PAIRS,
    }


def robust(data: Data, job: Job) -> dict[str, Any]:
    case = job["case"]
    share = float(case.split()[0]) / 100 if case.endswith("similar") else None
    form = case if case in ("raw", "standardised") else "rows"
    if job["row"] in UNTAUGHT:
        return {"maps": whatever_the_pairs(data, job["row"], job["seed"], form)}
    X = data.form(form)
    lesson = Lesson(METHODS[job["row"]](n_bits=64, random_state=job["seed"]), *data.pairs(job["seed"], share))
    similar = data.y[lesson.a] == data.y[lesson.b]
    if case.endswith("wrong"):
        similar = similar ^ (np.random.default_rng([job["seed"], 1]).random(N_PAIRS) < float(case.split()[0]) / 100)
    lesson.learn(X, similar, N_PAIRS)
    return {"maps": [mean_average_precision(lesson.settled(), data, X, data.y)]}


@cache
def whatever_the_pairs(data: Data, row: str, seed: int, form: str) -> list[float]:
    """`without_feedback` at 64 bits, once for all kinds of pairs."""
    return without_feedback(data, {"row": row, "seed": seed}, [(data.form(form), data.y)])


def drift(data: Data, job: Job) -> dict[str, Any]:
    classes, y = np.unique(data.y, return_inverse=True)
    if job["world"] == "rotated":
        rng = np.random.default_rng([job["seed"], 1])
        Q, _ = np.linalg.qr(rng.standard_normal((data.rows.shape[1],) * 2))
        worlds = [(data.rows, y), (data.rows @ Q.astype(np.float32), y)]
    else:
        worlds = [(data.rows, y // 2), (data.rows, (y + 1) % len(classes) // 2)]
    if job["row"] in UNTAUGHT:
        before, after = without_feedback(data, job, worlds)
        return {"maps": [before] * 5 + [after] * 6}
    lesson = Lesson(METHODS[job["row"]](n_bits=64, random_state=job["seed"]), *data.pairs(job["seed"]))
    found = []
    for world, (X, labels) in enumerate(worlds):
        similar = labels[lesson.a] == labels[lesson.b]
        half = N_PAIRS // 2
        for stage in range(world * half + (1 - world) * 5000, (world + 1) * half + 1, 5000):
            lesson.learn(X, similar, stage)
            found.append(mean_average_precision(lesson.settled(), data, X, labels))
    return {"maps": found}


TABLES: dict[str, Callable[[Data, Job], dict[str, Any]]] = {
    "quality": quality,
    "large": quality,
    "bits": bits,
    "robust": robust,
    "drift": drift,
}


def jobs(table: str, sets: list[Data], lengths: list[int]) -> Iterator[tuple[Data, Job]]:
    """The runs of a table, in the order in which they are worth having."""
    if table == "quality":
        for n_bits in lengths:
            for data in sets:
                yield from ((data, job) for job in _quality_jobs(table, n_bits))
    for data in sets:
        if table == "large" and len(data.y) >= 50_000:
            yield from ((data, job) for job in _quality_jobs(table, 64))
        if table == "bits":
            yield from ((data, {"table": table, "row": row, "seed": seed}) for row in BITS_ROWS for seed in SEEDS)
        if data.is_rare:
            continue
        for row in (*UNTAUGHT, *LEARNERS):
            if table == "robust":
                seeds = SEEDS[:1] if row == "float" else SEEDS
                yield from ((data, {"table": table, "case": c, "row": row, "seed": s}) for c in ROBUST for s in seeds)
            if table == "drift":
                yield from ((data, {"table": table, "world": world, "row": row, "seed": 0}) for world in WORLDS)


def _quality_jobs(table: str, n_bits: int) -> Iterator[Job]:
    yield {"table": table, "bits": n_bits, "row": "float", "kernel": False, "seed": 0}
    for seed in SEEDS:
        for kernel in (False, True):
            for row in ("ITQ", *METHODS):
                yield {"table": table, "bits": n_bits, "row": row, "kernel": kernel, "seed": seed}


# ------------------------------------------------------------------ tables


def spread(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}" if values else ""


def print_table(head: list[str], lines: list[list[str]]) -> None:
    for cells in (head, ["---"] * len(head), *lines):
        print("| " + " | ".join(cells) + " |")


def table_of_quality(table: str, name: str, rows: list[Job]) -> None:
    columns = [("float", False), *((row, kernel) for kernel in (False, True) for row in ("ITQ", *METHODS))]
    lines = []
    for n_bits in sorted({row["bits"] for row in rows}):
        for stage, pairs in enumerate((FIRST_STAGE, N_PAIRS)):
            found = [
                [row["maps"][stage] for row in rows if (row["bits"], row["row"], row["kernel"]) == (n_bits, *column)]
                for column in columns
            ]
            lines.append([str(n_bits), f"{pairs:,}", *map(spread, found)])
    shares = [row["similar"] for row in rows if "similar" in row]
    print(f"\n{table}: {name}" + (f", {np.mean(shares):.1%} similar pairs" if shares else "") + "\n")
    print_table(["bits", "pairs", *(f"{row}, kernel" if kernel else row for row, kernel in columns)], lines)


def table_of_bits(name: str, rows: list[Job]) -> None:
    lines = []
    for label in BITS_ROWS:
        mine = [row for row in rows if row["row"] == label]
        if mine:
            moves, distinct = (np.mean([row[which] for row in mine]) for which in ("moves", "distinct"))
            maps = [spread([row["maps"][stage] for row in mine]) for stage in range(2)]
            us = min(row["us"] for row in mine)
            lines.append([label, f"{moves:,.1f}", f"{distinct:.1f}", *maps, f"{us:.3g}"])
    print(f"\nbits: {name}, 64 bits, bits changed per 1,000 pairs\n")
    print_table(["learner", "moves", "distinct", "mAP, 10,000", "mAP, 50,000", "µs a pair"], lines)


def table_of_robust(name: str, rows: list[Job]) -> None:
    columns = [*UNTAUGHT, *LEARNERS]
    lines = [
        [case, *(spread([row["maps"][0] for row in rows if (row["case"], row["row"]) == (case, m)]) for m in columns)]
        for case in ROBUST
    ]
    print(f"\nrobust: {name}, 64 bits, 50,000 pairs\n")
    print_table(["pairs", *columns], lines)


def table_of_drift(name: str, rows: list[Job]) -> None:
    stages = [*range(5000, 25_001, 5000), *range(25_000, N_PAIRS + 1, 5000)]
    lines = [
        [world, method, *(f"{value:.3f}" for value in row["maps"])]
        for world in WORLDS
        for method in (*UNTAUGHT, *LEARNERS)
        for row in rows
        if (row["world"], row["row"]) == (world, method)
    ]
    print(f"\ndrift: {name}, 64 bits\n")
    print_table(["change", "learner", *(f"{stage // 1000}k" for stage in stages)], lines)


def print_tables(table: str, name: str, rows: list[Job]) -> None:
    if not rows:
        return
    if table in ("quality", "large"):
        table_of_quality(table, name, rows)
    else:
        {"bits": table_of_bits, "robust": table_of_robust, "drift": table_of_drift}[table](name, rows)


# ------------------------------------------------------------------ the runs


def compile_kernels() -> None:
    """A first lesson that is not timed."""
    X, y = common.clusters(4000, 32)
    for method in METHODS.values():
        for features in (None, RbfAnchors(50, normalize=True)):
            learner = method(n_bits=16, random_state=0, features=features)
            learner.partial_fit_pairs(*common.pairs(X, y)).flush().encode(X)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--results", type=Path, default=Path("pairs.jsonl"))
    parser.add_argument("--tables", nargs="+", choices=["quality", "bits", "robust", "drift"], metavar="TABLE",
                        default=["quality", "bits", "robust", "drift"])  # fmt: skip
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 32, 16, 128], help="of table quality, in turn")
    parser.add_argument("--learners", nargs="+", choices=[*UNTAUGHT, *(BITS_ROWS | METHODS)], help="only these rows")
    parser.add_argument("--large", action="store_true", help="also the table large")
    given = parser.parse_args()
    tables = given.tables + ["large"] * given.large
    sets = [Data(path) for path in given.files]
    results = common.Results(given.results)
    is_warm = False
    for table in tables:
        for data, job in jobs(table, sets, given.bits):
            if given.learners and job["row"] not in given.learners:
                continue
            key = {"data": data.name} | job
            if results.has(key):
                continue
            if not is_warm and job["row"] not in UNTAUGHT:
                compile_kernels()
                is_warm = True
            results.add(key | TABLES[table](data, job))
    for table in tables:
        for data in sets:
            found = [row for row in results.rows if (row["table"], row["data"]) == (table, data.name)]
            print_tables(table, data.name, found)


if __name__ == "__main__":
    main()
