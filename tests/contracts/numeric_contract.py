"""The numeric law: a row's bits never depend on the rows, columns, blocks or threads computed with it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from onlinehash import Encoder, RbfAnchors
from onlinehash.features.maps import TransformerMap
from tests.contracts.contract import contract
from tests.support import CLOSELY, LEARNERS, Points, centrings, feed, make, pairs, precisions, state_bytes, thorough


def rows_at_the_boundary(encoder: Encoder, seed: int = 0) -> np.ndarray:
    """Rows that some bit puts on its threshold, as near as the precision allows, each with two neighbours."""
    W, b, dtype = encoder.weights.astype(float), encoder.thresholds, encoder.weights.dtype
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(len(W)):
        x = rng.standard_normal(W.shape[1]).astype(dtype).astype(float)
        j = int(np.argmax(np.abs(W[k])))
        x[j] = 0
        x[j] = (b[k] - W[k] @ x) / W[k, j]
        on = x.astype(dtype)
        rows.append(on)
        for away in (-np.inf, np.inf):
            beside = on.copy()
            beside[j] = np.nextafter(on[j], dtype.type(away))
            rows.append(beside)
    return np.stack(rows)


def rows_exactly_on_the_boundary(encoder: Encoder) -> np.ndarray:
    """One row per bit, for thresholds of zero: w_j e_i - w_i e_j is orthogonal to w in exact arithmetic."""
    W = encoder.weights
    rows = np.zeros_like(W)
    for k in range(len(W)):
        i, j = k % W.shape[1], (k + 1) % W.shape[1]
        rows[k, i], rows[k, j] = W[k, j], -W[k, i]
    return rows


def exact_gap(w: np.ndarray, x: np.ndarray, b: float) -> tuple[Fraction, Fraction]:
    """w.x - b in exact arithmetic, and how near to zero twice the working precision may be unsure."""
    products = [Fraction(float(p)) * Fraction(float(q)) for p, q in zip(w, x, strict=True)]
    eps = Fraction(2) ** -53
    unsure = (len(w) * eps) ** 2 * sum(map(abs, products)) + 2 * eps * abs(Fraction(float(b)))
    return sum(products) - Fraction(float(b)), unsure


def assert_law(encoder: Encoder, rows: np.ndarray) -> np.ndarray:
    """The same bits alone, in any batch and order, for any columns, with any number of threads."""
    rng = np.random.default_rng(0)
    bits = encoder.transform(rows)
    alone = np.concatenate([encoder.transform(row[None]) for row in rows])
    assert np.array_equal(alone, bits)
    for _ in range(3):
        order = rng.permutation(len(rows))
        assert np.array_equal(encoder.transform(rows[order]), bits[order])
        some = rng.choice(len(rows), size=rng.integers(1, len(rows)), replace=False)
        assert np.array_equal(encoder.transform(rows[some]), bits[some])
        columns = rng.choice(encoder.n_columns, size=rng.integers(1, encoder.n_columns), replace=False)
        assert np.array_equal(encoder.bits_of(rows, columns), bits[:, columns])
    for k in range(encoder.n_columns):
        assert np.array_equal(encoder.bits_of(rows, np.array([k]))[:, 0], bits[:, k])
    if not isinstance(encoder.feature_map, TransformerMap):  # which takes rows one by one, slowly
        times = -(-9000 // len(rows))  # more rows than one block holds
        assert np.array_equal(encoder.transform(np.tile(rows, (times, 1))), np.tile(bits, (times, 1)))
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert np.array_equal(encoder.transform(rows), bits)
    assert np.array_equal(encoder.transform(np.asfortranarray(rows)), bits)
    return bits


@contract
def rows_at_the_boundary_get_the_same_bits_in_any_company(name: str) -> None:
    """And the right ones: those of exact arithmetic, wherever twice the working precision can tell."""
    for dtype in precisions(name):
        for centre in centrings(name)[: thorough(2, 4)]:
            learner = feed(make(name, n_bits=6, centre=centre), [pairs(n=40, d=37, dtype=dtype)])
            encoder = learner.snapshot()
            rows = rows_at_the_boundary(encoder)
            bits = assert_law(encoder, rows)
            sure = 0
            for n, row in enumerate(rows):
                for k in range(encoder.n_columns):
                    gap, unsure = exact_gap(encoder.weights[k], row, encoder.thresholds[k])
                    if abs(gap) > unsure:
                        sure += 1
                        assert bits[n, k] == (gap >= 0)
            assert sure > 0.8 * bits.size


@contract
def the_boundary_itself_is_positive(name: str) -> None:
    """sgn(0) = +1, also where rounding makes a product's zero look like something else."""
    for dtype in precisions(name):
        learner = feed(make(name, n_bits=12, centre="none"), [pairs(n=40, d=19, dtype=dtype)])
        weights = learner.snapshot().weights
        encoder = Encoder(weights, np.zeros(len(weights)), None, 19, len(weights) // 12, "min", 0, name)
        rows = rows_exactly_on_the_boundary(encoder)
        bits = assert_law(encoder, rows)
        for k, row in enumerate(rows):
            gap, _ = exact_gap(encoder.weights[k], row, encoder.thresholds[k])
            assert gap == 0
            assert bits[k, k]
        assert encoder.transform(np.zeros((1, 19))).all()


@contract
def the_mean_itself_is_positive(name: str) -> None:
    """The mean is the zero of centred data, so all its bits are set."""
    learner = feed(make(name, n_bits=32, centre="burn-in"), [pairs(n=40, d=23)])
    assert learner.transform(learner.mean_[None]).all()


@contract
def mapped_rows_at_the_boundary_get_the_same_bits_in_any_company(name: str) -> None:
    """Behind a feature map, thresholds are put where the rows are."""
    stream = pairs(n=40, d=11)
    for features in (RbfAnchors(13), PCA(7, random_state=0).fit(stream.A)):
        for dtype in precisions(name):
            learner = feed(make(name, n_bits=6, features=features), [pairs(n=40, d=11, dtype=dtype)])
            encoder = learner.snapshot()
            rows = np.concatenate([stream.A, stream.B]).astype(dtype)
            Z = encoder.feature_map.map_rows(rows)
            thresholds = np.array([Z[k] @ w for k, w in enumerate(encoder.weights.astype(float))])
            rest = (encoder.feature_map, 11, encoder.n_models, "min", 0, name)
            assert_law(Encoder(encoder.weights, thresholds, *rest), rows[:15])


def digests(closely: bool) -> dict[str, str]:
    """What learners become of a fixed stream, and how they then encode: run in other processes too.

    Either those that every run checks closely, or the others.
    """
    found = {}
    stream = [pairs(n=50, d=33, dtype=np.float32), Points(pairs(n=300, d=33, seed=1).A)]
    for name in [name for name in LEARNERS if (name in CLOSELY) == closely]:
        for features in (None, RbfAnchors(20)):
            learner = feed(make(name, n_bits=16, features=features), stream)
            digest = hashlib.sha256(state_bytes(learner))
            encoder = learner.snapshot()
            rows = pairs(n=5000, d=33, seed=2, dtype=np.float32).A
            if encoder.feature_map is None:
                rows[: 3 * encoder.n_columns] = rows_at_the_boundary(encoder)
            digest.update(encoder.encode(rows).to_faiss().tobytes())
            found[f"{name} {features}"] = digest.hexdigest()
    return found


@functools.cache
def digests_elsewhere(threads: int, closely: bool) -> dict[str, str]:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    script = f"from tests.contracts.numeric_contract import digests; import json; print(json.dumps(digests({closely})))"
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONHASHSEED": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def threads_here() -> int | None:
    told = os.environ.get("OPENBLAS_NUM_THREADS")
    return int(told) if told else None


@functools.cache
def digests_here(closely: bool) -> dict[str, str]:
    return digests(closely)


@contract
def another_process_with_other_threads_gives_the_same_bytes(name: str) -> None:
    closely = name in CLOSELY
    for key, digest in digests_here(closely).items():
        if key.startswith(name):
            for threads in {1, 2} - {threads_here()}:
                assert digests_elsewhere(threads, closely)[key] == digest


@contract
def the_seed_decides(name: str) -> None:
    stream = pairs()

    def after(seed: Any) -> bytes:
        return state_bytes(feed(make(name, random_state=seed), [stream]))

    assert after(1) == after(1) == after(np.int64(1))
    assert after(1) != after(2)
    assert after(None) != after(None)
    assert after(np.random.default_rng(3)) == after(np.random.default_rng(3))
    assert after(np.random.RandomState(3)) == after(np.random.RandomState(3))
    generator = np.random.default_rng(3)
    assert after(generator) != after(generator), "each learner draws its own seed from a shared generator"


@contract
def randomness_is_local(name: str) -> None:
    """The global generator is neither used nor moved."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    feed(make(name, random_state=None), [pairs()])
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
