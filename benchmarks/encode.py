"""Encoding beside the matrix product underneath it, NumPy's packbits, and FAISS's IndexLSH.

With one BLAS thread. The limit is the product alone, into memory that is there already;
ours checks the rows, decides each doubtful sign in higher precision, and packs, through the public `encode`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import common
import numpy as np
from ratio import Pair, pair

from onlinehash import Encoder

try:
    import faiss
except ImportError:
    faiss = None

N_ROWS = 100_000
SIZES = ((512, 64, np.float32), (512, 128, np.float32), (128, 64, np.float32), (300, 32, np.float32),
         (2048, 64, np.float32), (512, 64, np.float64), (512, 128, np.float64))  # fmt: skip
SOME_COLUMNS = (1, 4, 16)


def main() -> None:
    args = common.arguments(__doc__.splitlines()[0])
    print(common.machine())
    if faiss is None:
        print("FAISS is not installed; its column stays empty")
    print(f"{'d / bits':>10} {'':>8} {'product':>8} {'encode':>7} {'speed':>6} {'packbits':>9} {'FAISS':>7} "
          + " ".join(f"{f'recode {c}':>9}" for c in SOME_COLUMNS) + f" {'one vector us':>14}")  # fmt: skip
    for d, n_bits, dtype in SIZES:
        n = N_ROWS * 512 // max(d, 512)
        X = common.clusters(n, d)[0].astype(dtype)
        encoder = random_encoder(X, n_bits)
        seconds = common.best(contenders(encoder, X), args.repeats)
        ms = {name: f"{1e3 * value:.1f}" for name, value in seconds.items()}
        one = common.best({"one": lambda: encoder.encode(X[:1])}, 1000)["one"]
        print(
            f"{f'{d} / {n_bits}':>10} {X.dtype.name:>8} {ms['product']:>8} {ms['encode']:>7} "
            f"{seconds['product'] / seconds['encode']:>6.0%} {ms['packbits']:>9} {ms.get('faiss', ''):>7} "
            + " ".join(f"{ms[f'recode {c}']:>9}" for c in SOME_COLUMNS)
            + f" {1e6 * one:>14.1f}"
        )
    print(f"milliseconds for {N_ROWS:,} rows (fewer of the longest, for the same bytes); speed: of the product's")


def compared(seconds: float) -> Iterator[Pair]:
    """Encoding over its limit, in so many seconds a size."""
    for d, n_bits in ((512, 64), (512, 128)):
        X, _ = common.clusters(N_ROWS // 5, d)
        runs = contenders(random_encoder(X, n_bits), X)
        rounds = common.rounds({name: runs[name] for name in ("product", "encode")}, 3, time.process_time, seconds)
        yield pair(f"encode {d} / {n_bits}: over the product", rounds, "encode", "product", "lower")


def random_encoder(X: np.ndarray, n_bits: int) -> Encoder:
    """Random hash functions through the mean of the data."""
    weights = np.random.default_rng(0).standard_normal((n_bits, X.shape[1])).astype(X.dtype)
    thresholds = weights.astype(np.float64) @ X.mean(axis=0, dtype=np.float64)
    return Encoder(weights, thresholds, None, X.shape[1], 1, "min", 1, "random")


def contenders(encoder: Encoder, X: np.ndarray) -> dict[str, Callable[[], object]]:
    W, thresholds = encoder.weights, encoder.thresholds.astype(X.dtype)
    projections = np.empty((len(X), len(W)), X.dtype)
    codes = encoder.encode(X)
    runs: dict[str, Callable[[], object]] = {
        "product": lambda: np.matmul(X, W.T, out=projections),
        "encode": lambda: encoder.encode(X),
        "packbits": lambda: np.packbits(np.matmul(X, W.T, out=projections) >= thresholds, axis=1, bitorder="little"),
    }
    if faiss is not None and X.dtype == np.float32:
        lsh = faiss.IndexLSH(X.shape[1], len(W), True)
        lsh.train(X[:10_000])
        packed = np.empty((len(X), lsh.sa_code_size()), np.uint8)
        runs["faiss"] = lambda: lsh.sa_encode(X, packed)
    for count in SOME_COLUMNS:
        columns = np.linspace(0, len(W) - 1, count).astype(int)
        runs[f"recode {count}"] = lambda columns=columns: encoder.recode(codes, X, columns)
    return runs


if __name__ == "__main__":
    main()
