"""What the kernel map costs a point, beside an sgemm with the same anchors."""

from __future__ import annotations

import common
import numpy as np

from onlinehash import RbfAnchors


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


if __name__ == "__main__":
    main()
