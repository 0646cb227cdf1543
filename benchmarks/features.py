"""What the kernel map costs a point, beside an sgemm with the same anchors; and what features cost a learner."""

from __future__ import annotations

from functools import partial

import common
import numpy as np

from onlinehash import BlendedPairHashing, RbfAnchors

FEATURES = {
    "vectors": None,
    "kernel values": RbfAnchors(300, normalize=True),
    "vectors and kernel values": RbfAnchors(300, normalize=True, linear=True),
}


def main() -> None:
    args = common.arguments(__doc__)
    print(common.machine())
    print(f"{'d / anchors':>12} {'map us':>8} {'sgemm us':>9} {'ratio':>6} {'with NumPy exp':>15}")
    for d, n_anchors in ((512, 300), (784, 300), (960, 300), (512, 1000)):
        X, _ = common.clusters(4000, d)
        anchors = RbfAnchors(n_anchors).fit(X)
        A = np.ascontiguousarray(X[:n_anchors].T)
        squares = (A * A).sum(axis=0)

        def with_numpy(X: np.ndarray = X, A: np.ndarray = A, squares: np.ndarray = squares) -> np.ndarray:
            return np.exp(-((X * X).sum(axis=1)[:, None] + squares - 2 * (X @ A)))

        seconds = common.best(
            {
                "map": lambda: anchors.transform(X),
                "sgemm": lambda: X @ A,
                "numpy": with_numpy,
            },
            args.repeats,
        )
        us = {name: value / len(X) * 1e6 for name, value in seconds.items()}
        print(
            f"{f'{d} / {n_anchors}':>12} {us['map']:>8.2f} {us['sgemm']:>9.2f} {us['map'] / us['sgemm']:>6.2f} "
            f"{us['numpy']:>15.2f}"
        )
    print(f"\n{'512 values, 64 bits':>30} {'encode us':>10} {'learn a pair us':>16}")
    X, y = common.clusters(8000, 512)
    A, B, similar = common.pairs(X, y)
    for name, features in FEATURES.items():
        learner = BlendedPairHashing(n_bits=64, features=features, random_state=0).partial_fit_pairs(A, B, similar)
        seconds = common.best(
            {
                "encode": partial(learner.encode, X),
                "learn": partial(learner.partial_fit_pairs, A, B, similar),
            },
            args.repeats,
        )
        print(f"{name:>30} {seconds['encode'] / len(X) * 1e6:>10.2f} {seconds['learn'] / len(A) * 1e6:>16.1f}")


if __name__ == "__main__":
    main()
