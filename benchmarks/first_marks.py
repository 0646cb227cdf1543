"""What feedback buys from the first pair on: mAP after 0 to 50,000 pairs, beside codes that nobody taught.

    python benchmarks/first_marks.py cifar10_deep512.npz mnist.npz --results first_marks.jsonl

Each file is an npz with X and y (and offset and scale, where X is quantised). Rows are taken less the mean of the first
2,000 and scaled to unit length. The first 20,000 (of a smaller set all but 1,000) are the database; the queries are the
next 400 rows that have a mate in it. A learner first observes the first 2,000 rows, then learns random pairs of the
database, of which 30 % (`--similar`) are drawn to be similar; or with `--shown` what users say of results: random rows
of the database are queries, and the ten items whose codes are nearest then (found anew for every 100 marks, later for
every tenth) are marked as similar or not; with `--people 100` by so many people in turn, each of whom looks at results
of one query. Tie-aware mAP, mean ± standard deviation over 3 seeds; a seed stands for the pairs and the learner's own
random numbers. What still waits in a chunk is learned first (`flush`, of a copy).

float     exact search by cosine in the vectors as they are: no codes, no feedback.
ITQ       IterativeQuantization of the 2,000 rows: codes without feedback.
Smooth    SmoothPairHashing.
Begun     SmoothPairHashing that begins with ITQ's functions of the 2,000 rows, its first projections scaled to a root
          mean square of 0.5 or 1, with a first step of 0.3 to 2.4. Nobody knows beforehand which one is best.
          Not with `--shown`.
Blended   BlendedPairHashing, and the mean of its `blend_`.

`--rows` takes only some of the last three, `--features kernel` puts `RbfAnchors(300, normalize=True)` before ITQ and
all learners, `--features both` the same with `linear=True`. Under each table of all rows: what Blended must hold, and
whether it does. *The best row* is, at each number of pairs, the best in hindsight of all others but float. Every run is
written to the file of results when it is done, and a run that is found there is not done again, unless the library's
source has changed.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np
from pairs import Data, print_table

from onlinehash import BlendedPairHashing, IterativeQuantization, RbfAnchors, SmoothPairHashing, evaluate
from onlinehash.learners.smooth_pairs import FIRST_STEP, LEAST_STEP, STEADY, rms

STAGES = (0, 100, 300, 1000, 3000, 10_000, 30_000, 50_000)
N_OBSERVED, N_QUERIES, N_SHOWN = 2000, 400, 10

FEATURES = {
    "vectors": None,
    "kernel": RbfAnchors(300, normalize=True),
    "both": RbfAnchors(300, normalize=True, linear=True),
}

Run = dict[str, Any]


class Begun(SmoothPairHashing):
    """Begins with ITQ's functions of the points it observes first, and takes other steps."""

    scale: float
    step: float

    def observe(self, X: Any) -> Begun:
        super().observe(X)
        itq = IterativeQuantization(self.n_bits, random_state=self.random_state).fit(X)
        self._learning = self._damping.widened(itq.projection_.T)
        self._show(np.ones(self.n_bits, np.bool_))
        return self

    def _first_functions(self, X: np.ndarray) -> np.ndarray:
        return self._learning * (self.scale / rms(X @ self._learning[:, : self._n_inputs].T))

    def _step(self, X: np.ndarray, pull: np.ndarray, part: float, weight: float, t: float) -> None:
        """A step of its own size, which falls as that of SmoothPairHashing does; `part` is a factor of the step."""
        fall = np.sqrt(1 + self._surprise.n_since / STEADY)
        mine = max(min(LEAST_STEP, self.step), self.step / fall)
        super()._step(X, pull, part * mine / max(LEAST_STEP, FIRST_STEP / fall), weight, t)


def begun(scale: float, step: float, **parameters: Any) -> Begun:
    model = Begun(**parameters)
    model.scale, model.step = scale, step
    return model


BEGUN = {f"Begun, rms {scale:g}, step {step:g}": (scale, step) for scale in (0.5, 1.0) for step in (0.3, 0.6, 1.2, 2.4)}
LEARNERS: dict[str, Callable[..., Any]] = {
    "Smooth": SmoothPairHashing,
    **{row: partial(begun, scale, step) for row, (scale, step) in BEGUN.items()},
    "Blended": BlendedPairHashing,
}


class Marks(Data):
    """A set with 400 queries that all have something to find."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        later = np.arange(self.n, len(self.y))
        self.query_ids = later[np.isin(self.y[later], self.labels)][:N_QUERIES]

    def map_of(self, model: Any) -> float:
        truth = evaluate.same_label(self.y[self.query_ids], self.labels)
        return float(evaluate.retrieval(model, self.rows[self.query_ids], self.rows[: self.n], truth, ["map"])["map"])

    def shown(self, model: Any, n: int, rng: np.random.Generator, people: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the database as queries, and for each the ten others whose codes are nearest, ties at random.

        The marks of so many people are in random order.
        """
        settled = copy.deepcopy(model).flush()
        codes = np.where(settled.transform(self.rows[: self.n]), 1, -1).astype(np.float32)
        queries = rng.choice(self.n, n // N_SHOWN, replace=False)
        nearness = codes[queries] @ codes.T + rng.random((len(queries), self.n), np.float32)
        nearness[np.arange(len(queries)), queries] = -np.inf
        found = np.argpartition(-nearness, N_SHOWN, axis=1)[:, :N_SHOWN]
        a, b = queries.repeat(N_SHOWN), found.ravel()
        for start in range(0, n if people > 1 else 0, people * N_SHOWN):
            some = slice(start, start + people * N_SHOWN)
            order = rng.permutation(len(a[some]))
            a[some], b[some] = a[some][order], b[some][order]
        return a, b

    def map_of_floats(self) -> float:
        """Of exact search; rows have unit length, so cosine is the inner product. Ties are not to be expected."""
        found = []
        for query in self.query_ids:
            order = np.argsort(-(self.rows[: self.n] @ self.rows[query]), kind="stable")
            hits = self.labels[order] == self.y[query]
            found.append((np.cumsum(hits) / np.arange(1, self.n + 1))[hits].mean())
        return float(np.mean(found))


def measured(data: Marks, run: Run) -> Run:
    """mAP at every stage (and the blend, where there is one). A share of 0 stands for marks on what is shown."""
    if run["row"] == "float":
        return {"maps": [data.map_of_floats()]}
    seed = run["seed"]
    features = FEATURES[run["features"]]
    if run["row"] == "ITQ":
        itq = IterativeQuantization(run["bits"], features=features, random_state=seed)
        return {"maps": [data.map_of(itq.fit(data.rows[:N_OBSERVED]))]}
    model = LEARNERS[run["row"]](n_bits=run["bits"], features=features, random_state=seed)
    model.observe(data.rows[:N_OBSERVED])
    share, people = run["share"], run["people"]
    drawn, rng = data.pairs(seed, share or None), np.random.default_rng(seed)
    maps, blends, at = [], [], 0
    for stage in run["stages"]:
        while at < stage:
            if share == 0:
                n = min(stage - at, max(100, people * N_SHOWN, at // 100 * 10))
                a, b = data.shown(model, n, rng, people)
            else:
                n = stage - at
                a, b = (side[at:stage] for side in drawn)
            model.partial_fit_pairs(data.rows[a], data.rows[b], data.labels[a] == data.labels[b])
            at += n
        settled = copy.deepcopy(model).flush()
        maps.append(data.map_of(settled))
        blends.append(getattr(settled, "blend_", 1.0))
    return {"maps": maps, "blends": blends}


def rows_of(given: argparse.Namespace) -> list[str]:
    return [row for row in LEARNERS if row.split(",")[0] in given.rows and not (given.shown and row in BEGUN)]


def runs(data: Marks, given: argparse.Namespace) -> Iterator[Run]:
    share = 0.0 if given.shown else given.similar
    yield {"data": data.name, "row": "float"}
    for seed in range(given.seeds):
        run = {"data": data.name, "bits": given.bits, "features": given.features, "seed": seed}
        yield run | {"row": "ITQ"}
        marks = {"share": share, "stages": given.stages, "people": given.people}
        yield from (run | marks | {"row": row} for row in rows_of(given))


def cell(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {values.std():.3f}"


def report(data: Marks, given: argparse.Namespace, done: list[Run]) -> None:
    rows, found = rows_of(given), list(runs(data, given))
    mine = [row for row in done if any(run.items() <= row.items() for run in found)]
    maps = {row: np.array([run["maps"] for run in mine if run["row"] == row]) for row in ("float", "ITQ", *rows)}
    what = f"marks on results by {given.people} at a time" if given.shown else f"{given.similar:.0%} similar"
    print(f"\n{data.name}, {given.bits} bits, features: {given.features}, {what}, {given.seeds} seeds\n")
    lines = [["float"] + [f"{maps['float'][0, 0]:.3f}"] * len(given.stages)]
    lines += [["ITQ"] + [cell(maps["ITQ"][:, 0])] * len(given.stages)]
    lines += [[row, *(cell(maps[row][:, stage]) for stage in range(len(given.stages)))] for row in rows]
    if "Blended" in rows:
        blend = np.mean([run["blends"] for run in mine if run["row"] == "Blended"], axis=0)
        lines += [["blend", *(f"{value:.2f}" for value in blend)]]
    print_table(["pairs", *(f"{stage:,}" for stage in given.stages)], lines)
    if not {"Smooth", "Blended"} <= set(rows):
        return
    itq, smooth, blended = (maps[row].mean(axis=0) for row in ("ITQ", "Smooth", "Blended"))
    others = [maps[row].mean(axis=0) for row in rows if row != "Blended"]
    best = np.max([itq.repeat(len(given.stages)), *others], axis=0)
    margins = {
        "ITQ - 0.01": (blended - itq[0]).min() + 0.01,
        "Smooth - 0.01": (blended - smooth).min() + 0.01,
        "the best row - 0.02": (blended - best).min() + 0.02,
        "what it had before - 0.015": (blended - np.maximum.accumulate(blended)).min() + 0.015,
    }
    print("\n" + "\n".join(f"- at least {name}: {'yes' if m >= 0 else 'NO'} ({m:+.3f})" for name, m in margins.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--results", type=Path, default=Path("first_marks.jsonl"))
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--stages", type=int, nargs="+", default=list(STAGES), help="numbers of pairs, rising")
    parser.add_argument("--similar", type=float, default=0.3, help="share of similar pairs")
    parser.add_argument("--shown", action="store_true", help="marks on the results that are shown, not random pairs")
    parser.add_argument("--people", type=int, default=1, help="with --shown: so many people mark results in turn")
    parser.add_argument("--rows", nargs="+", choices=["Smooth", "Begun", "Blended"], metavar="ROW",
                        default=["Smooth", "Begun", "Blended"])  # fmt: skip
    parser.add_argument("--features", choices=FEATURES, default="vectors", help="what comes before ITQ and learners")
    given = parser.parse_args()
    if given.features != "vectors" and "Begun" in given.rows:
        parser.error("--features is for rows Smooth and Blended")
    if given.people > 1 and not given.shown:
        parser.error("--people is for --shown")
    results, sets = common.Results(given.results), [Marks(path) for path in given.files]
    for data in sets:
        for run in runs(data, given):
            if not results.has(run):
                results.add(run | measured(data, run))
    for data in sets:
        report(data, given, results.rows)


if __name__ == "__main__":
    main()
