"""What feedback buys from the first pair on: mAP after 0 to 50,000 pairs, beside codes that nobody taught.

    python benchmarks/first_marks.py cifar10_deep512.npz mnist.npz --results first_marks.jsonl

Each file is an npz with X and y (and offset and scale, where X is quantised). Rows are taken less the mean of the first
2,000 and scaled to unit length. The first 20,000 (of a smaller set all but 1,000) are the database; the queries are the
next 400 rows that have a mate in it. A learner first observes the first 2,000 rows, then learns random pairs of the
database, of which 30 % are drawn to be similar. Tie-aware mAP, mean ± standard deviation over 3 seeds; a seed stands
for the pairs and the learner's own random numbers. What still waits in a chunk is learned first (`flush`, of a copy).

float     exact search by cosine in the vectors as they are: no codes, no feedback.
ITQ       IterativeQuantization of the 2,000 rows: codes without feedback.
Smooth    SmoothPairHashing.
Blended   BlendedPairHashing, and the mean of its `blend_`.

Under each table: what Blended must hold, and whether it does. Every run is written to the file of results when it is
done, and a run that is found there is not done again.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common  # noqa: F401  (one BLAS thread, before NumPy is loaded)
import numpy as np
from pairs import Data, print_table

from onlinehash import BlendedPairHashing, IterativeQuantization, SmoothPairHashing, evaluate

STAGES = (0, 100, 300, 1000, 3000, 10_000, 30_000, 50_000)
SIMILAR, N_OBSERVED, N_QUERIES = 0.3, 2000, 400
LEARNERS: dict[str, Callable[..., Any]] = {"Smooth": SmoothPairHashing, "Blended": BlendedPairHashing}

Run = dict[str, Any]


class Marks(Data):
    """A set with 400 queries that all have something to find."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        later = np.arange(self.n, len(self.y))
        self.query_ids = later[np.isin(self.y[later], self.labels)][:N_QUERIES]

    def map_of(self, model: Any) -> float:
        truth = evaluate.same_label(self.y[self.query_ids], self.labels)
        return float(evaluate.retrieval(model, self.rows[self.query_ids], self.rows[: self.n], truth, ["map"])["map"])

    def map_of_floats(self) -> float:
        """Of exact search; rows have unit length, so cosine is the inner product. Ties are not to be expected."""
        found = []
        for query in self.query_ids:
            order = np.argsort(-(self.rows[: self.n] @ self.rows[query]), kind="stable")
            hits = self.labels[order] == self.y[query]
            found.append((np.cumsum(hits) / np.arange(1, self.n + 1))[hits].mean())
        return float(np.mean(found))


def measured(data: Marks, learner: str, n_bits: int, seed: int) -> Run:
    """mAP at every stage (and the blend, where there is one)."""
    if learner == "float":
        return {"maps": [data.map_of_floats()]}
    if learner == "ITQ":
        return {"maps": [data.map_of(IterativeQuantization(n_bits, random_state=seed).fit(data.rows[:N_OBSERVED]))]}
    model = LEARNERS[learner](n_bits=n_bits, random_state=seed).observe(data.rows[:N_OBSERVED])
    a, b = data.pairs(seed, SIMILAR)
    similar, maps, blends, at = data.labels[a] == data.labels[b], [], [], 0
    for stage in STAGES:
        rows = slice(at, stage)
        if stage:
            model.partial_fit_pairs(data.rows[a[rows]], data.rows[b[rows]], similar[rows])
        settled, at = copy.deepcopy(model).flush(), stage
        maps.append(data.map_of(settled))
        blends.append(getattr(settled, "blend_", 1.0))
    return {"maps": maps, "blends": blends}


def runs(data: Marks, n_bits: int, seeds: int) -> Iterator[Run]:
    yield {"data": data.name, "row": "float", "bits": 0, "seed": 0}
    for seed in range(seeds):
        for row in ("ITQ", *LEARNERS):
            yield {"data": data.name, "row": row, "bits": n_bits, "seed": seed}


def cell(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {values.std():.3f}"


def report(data: Marks, done: list[Run], n_bits: int) -> None:
    mine = [run for run in done if run["data"] == data.name and run["bits"] in (0, n_bits)]
    maps = {row: np.array([run["maps"] for run in mine if run["row"] == row]) for row in ("float", "ITQ", *LEARNERS)}
    blend = np.mean([run["blends"] for run in mine if run["row"] == "Blended"], axis=0)
    print(f"\n{data.name}, {n_bits} bits, {len(maps['ITQ'])} seeds\n")
    lines = [["float"] + [f"{maps['float'][0, 0]:.3f}"] * len(STAGES)]
    lines += [["ITQ"] + [cell(maps["ITQ"][:, 0])] * len(STAGES)]
    lines += [[row, *(cell(maps[row][:, stage]) for stage in range(len(STAGES)))] for row in LEARNERS]
    lines += [["blend", *(f"{value:.2f}" for value in blend)]]
    print_table(["pairs", *(f"{stage:,}" for stage in STAGES)], lines)
    itq, smooth, blended = (maps[row].mean(axis=0) for row in ("ITQ", "Smooth", "Blended"))
    margins = {
        "ITQ - 0.01": (blended - itq[0]).min() + 0.01,
        "Smooth - 0.01": (blended - smooth).min() + 0.01,
        "the best before it - 0.015": (blended - np.maximum.accumulate(blended)).min() + 0.015,
    }
    print("\n" + "\n".join(f"- at least {name}: {'yes' if m >= 0 else 'NO'} ({m:+.3f})" for name, m in margins.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--results", type=Path, default=Path("first_marks.jsonl"))
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    done = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    sets = [Marks(path) for path in given.files]
    for data in sets:
        for run in runs(data, given.bits, given.seeds):
            if any(run.items() <= row.items() for row in done):
                continue
            done.append(run | measured(data, run["row"], run["bits"], run["seed"]))
            with given.results.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    for data in sets:
        report(data, done, given.bits)


if __name__ == "__main__":
    main()
