"""Bytes by hand, and beside those of indexes that are really built."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, LiveIndex, MultiIndex, OnlineHashing, refresh
from onlinehash.planning import costs as unit_costs
from onlinehash.planning import sizes
from onlinehash.planning.workload import Workload

OURS = unit_costs.read()


def some_codes(n: int, bits: int) -> Codes:
    return Codes.from_bits(np.random.default_rng(0).random((n, bits)) < 0.5)


@pytest.mark.parametrize(("n", "bits"), [(64_000, 65), (64_000, 64)])
def test_codes_and_tables_are_those_of_real_indexes(n: int, bits: int) -> None:
    work, codes = Workload(n, bits), some_codes(n, bits)
    assert sizes.codes(n, work, OURS) == pytest.approx(FlatIndex(codes).nbytes, rel=0.02)
    multi = MultiIndex(codes)
    assert len(sizes.widths(n, bits)) == multi.n_tables
    assert sizes.codes(n, work, OURS) + sizes.tables(n, work, OURS) == pytest.approx(multi.nbytes, rel=0.02)


def test_the_folder_of_a_real_live_index(tmp_path) -> None:
    n, dim, payload = 10_000, 96, 100
    X = np.random.default_rng(0).standard_normal((n, dim)).astype(np.float32)
    told = [{"a": "x" * (payload - len('{"a":""}'))}] * 2000 if payload else None
    with LiveIndex(OnlineHashing(n_bits=32, random_state=0), path=tmp_path, refresh=refresh.by_hand()) as index:
        for start in range(0, n, 2000):
            index.add(None, X[start : start + 2000], told)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    expected = sizes.on_disk(n, Workload(n, 32, dim, payload=payload), OURS)
    assert sum(expected.values()) - expected["log"] == pytest.approx(size, rel=0.1)


def test_what_find_keeps_of_a_real_live_index(tmp_path) -> None:
    n, dim = 4096, 16
    X = np.random.default_rng(0).standard_normal((n, dim)).astype(np.float32)
    with LiveIndex(n_bits=16, path=tmp_path) as index:
        index.add(None, X)
        index.search(X[0], k=n)
        assert index._table._cache.nbytes == 0  # codes alone
        index.find(X[0], k=n)
        kept = index._table._cache.nbytes
    assert sizes.vectors_for_find(n, Workload(n, 16, dim)) == pytest.approx(kept, rel=0.1)
