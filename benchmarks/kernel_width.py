"""Which width an RBF map should take by itself: mAP of kernel OH over widths, on data sets of your own.

    python benchmarks/kernel_width.py mnist.npz news.npz ...

Each file is an npz with X and y (and offset and scale, where X is quantised). The first 20,000 rows are a stream of
10,000 consecutive pairs and the database, the next 500 the queries; 32 bits, 300 anchors, tie-aware mAP, three seeds,
each starting at another place of the stream so that the anchors differ. *Float* is exact search by cosine, *ITQ* codes
of the first 2,000 rows: neither gets feedback.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import common
import numpy as np

from onlinehash import LSH, IterativeQuantization, OnlineHashing, RbfAnchors, evaluate
from onlinehash.features import rbf_anchors

FACTORS = (1.0, 1 / 1.5, 1 / 2, 1 / 2.5, 1 / 3)


def main(paths: list[str]) -> None:
    if not paths:
        sys.exit(__doc__)
    for path in paths:
        base, labels, later, later_labels = common.split(Path(path))
        queries, truth = later[:500], evaluate.same_label(later_labels[:500], labels)
        A, B, similar = common.pairs(base, labels)

        def score(make: object, truth: object = truth, queries: np.ndarray = queries) -> str:
            values = []
            for seed in range(3):
                learner = make(seed)
                if isinstance(learner, IterativeQuantization):
                    learner.fit(np.roll(base, -2000 * seed, axis=0)[:2000])
                    values.append(evaluate.retrieval(learner, queries, base, truth, ["map"])["map"])
                    continue
                turned = [np.roll(array, -1000 * seed, axis=0) for array in (A, B, similar)]
                learner.partial_fit_pairs(*turned)
                values.append(evaluate.retrieval(learner, queries, base, truth, ["map"])["map"])
            return f"{np.mean(values):.3f} +- {np.std(values):.3f}"

        print(Path(path).stem)
        print(f"  {'float':>28} {evaluate.cosine(queries, base, truth)['map']:.3f}")
        print(f"  {'ITQ':>28} {score(lambda seed: IterativeQuantization(32, random_state=seed))}")
        print(f"  {'LSH':>28} {score(lambda seed: LSH(32, random_state=seed))}")
        print(f"  {'OH, no kernel':>28} {score(lambda seed: OnlineHashing(32, random_state=seed))}")
        for normalize in (True, False):
            name = "unit length" if normalize else "as given"

            def kernel(seed: int, width: object = "auto", normalize: bool = normalize) -> OnlineHashing:
                return OnlineHashing(32, features=RbfAnchors(300, width, normalize), random_state=seed)

            if normalize:
                print(f"  {f'{name}, width 1':>28} {score(lambda seed: kernel(seed, 1.0))}")
            for factor in FACTORS:
                with patch.object(rbf_anchors, "AUTO_WIDTH_FACTOR", factor):
                    print(f"  {f'{name}, median x {factor:.2f}':>28} {score(kernel)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
