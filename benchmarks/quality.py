"""The quality tables of docs/reference/learners/features.md and wrong-feedback.md, on data sets of your own.

    python benchmarks/quality.py mnist.npz ...

Each file is an npz with X and y (and offset and scale, where X is quantised). As in kernel_width.py: the first 20,000
rows are a stream of 10,000 consecutive pairs and the database, the next 500 the queries; 300 anchors of automatic width
on unit-length input, tie-aware mAP, three seeds, each starting at another place of the stream. *Float* is exact search
by cosine, *ITQ* codes of the first 2,000 points of the stream: neither gets feedback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import LSH, IterativeQuantization, MultiModelOnlineHashing, OnlineHashing, RbfAnchors, evaluate
from onlinehash.streams.from_labels import LabelPairing


def kernel(width: Any = "auto") -> RbfAnchors:
    return RbfAnchors(300, width, normalize=True)


LEARNERS: dict[str, Callable[[int], Any]] = {
    "LSH, 32 bits": lambda seed: LSH(32, features=kernel(), random_state=seed),
    "LSH, 32 bits, width 1": lambda seed: LSH(32, features=kernel(1.0), random_state=seed),
    "OH, 32 bits": lambda seed: OnlineHashing(32, features=kernel(), random_state=seed),
    "OH, 128 bits": lambda seed: OnlineHashing(128, features=kernel(), random_state=seed),
    "MMOH, 4 x 32, min": lambda seed: MultiModelOnlineHashing(32, features=kernel(), random_state=seed),
    "MMOH, 4 x 32, sum": lambda seed: MultiModelOnlineHashing(32, fusion="sum", features=kernel(), random_state=seed),
    "OH, centre=running": lambda seed: OnlineHashing(32, features=kernel(), centre="running", random_state=seed),
    "OH, centre=median": lambda seed: OnlineHashing(32, features=kernel(), centre="median", random_state=seed),
    "OH, centre=none": lambda seed: OnlineHashing(32, features=kernel(), centre="none", random_state=seed),
    "OH, init=unit": lambda seed: OnlineHashing(32, features=kernel(), init="unit", random_state=seed),
    "OH, n_rounds=3": lambda seed: OnlineHashing(32, features=kernel(), n_rounds=3, random_state=seed),
}


#: Codes without feedback: fitted to the first 2,000 points of the stream.
UNTAUGHT: dict[str, Callable[[int], Any]] = {
    "ITQ, 32 bits": lambda seed: IterativeQuantization(32, random_state=seed),
    "ITQ, 128 bits": lambda seed: IterativeQuantization(128, random_state=seed),
    "ITQ, 32 bits, kernel": lambda seed: IterativeQuantization(32, features=kernel(), random_state=seed),
    "ITQ, 128 bits, kernel": lambda seed: IterativeQuantization(128, features=kernel(), random_state=seed),
}


def main(paths: list[str]) -> None:
    if not paths:
        sys.exit(__doc__)
    for path in paths:
        base, labels, later, later_labels = common.split(Path(path))
        queries, truth = later[:500], evaluate.same_label(later_labels[:500], labels)
        held_out = common.pairs(later[:4000], later_labels[:4000])

        def show(name: str, make: Callable[[int], Any], share: float | None = None, wrong: float = 0.0) -> None:
            maps, orders = [], []
            for seed in range(3):
                rng = np.random.default_rng(seed)
                pairing = LabelPairing(share, 512, rng, base.shape[1], base.dtype)
                A, B, s = pairing.pairs(np.roll(base, -2000 * seed, axis=0), np.roll(labels, -2000 * seed))
                s = np.where(rng.random(len(s)) < wrong, -s, s)
                learner = make(seed)
                if name in UNTAUGHT:
                    learner.fit(np.roll(base, -2000 * seed, axis=0)[:2000])
                else:
                    learner.partial_fit_pairs(A, B, s)
                maps.append(evaluate.retrieval(learner, queries, base, truth, ["map"])["map"])
                orders.append(evaluate.pairs(learner, *held_out).auc)
            print(
                f"  {name:>34} {np.mean(maps):.3f} +- {np.std(maps):.3f}   pairs in order {np.mean(orders):.2f}",
                flush=True,
            )

        print(Path(path).stem)
        print(f"  {'float':>34} {evaluate.cosine(queries, base, truth)['map']:.3f}")
        for name, make in (UNTAUGHT | LEARNERS).items():
            show(name, make)
        for share in (None, 0.5):
            pairs = "as they come" if share is None else "half similar"
            for wrong in (0.0, 0.05, 0.1, 0.2, 0.3):
                show(f"OH, pairs {pairs}, {wrong:.0%} wrong", LEARNERS["OH, 32 bits"], share, wrong)
        show(
            "OH, C=0.02, as they come, 10% wrong",
            lambda seed: LEARNERS["OH, 32 bits"](seed).set_params(C=0.02),
            None,
            0.1,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
