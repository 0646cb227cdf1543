"""Bytes by hand, and beside those of indexes that are really built."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, LiveIndex, MultiIndex, OnlineHashing, refresh
from onlinehash.planning import costs as unit_costs
from onlinehash.planning import sizes
from onlinehash.planning.workload import Workload
from tests.planning.costs_for_tests import COSTS, STORE

OURS = unit_costs.read()


def some_codes(n: int, bits: int) -> Codes:
    return Codes.from_bits(np.random.default_rng(0).random((n, bits)) < 0.5)


@pytest.mark.parametrize("bits", [16, 64, 65, 128])
@pytest.mark.parametrize("n", [64_000, 128_000])
def test_codes_and_tables_are_those_of_real_indexes(n: int, bits: int) -> None:
    work, codes = Workload(n, bits), some_codes(n, bits)
    assert sizes.codes(n, work, OURS) == pytest.approx(FlatIndex(codes).nbytes, rel=0.02)
    multi = MultiIndex(codes)
    assert len(sizes.widths(n, bits)) == multi.n_tables
    assert sizes.codes(n, work, OURS) + sizes.tables(n, work, OURS) == pytest.approx(multi.nbytes, rel=0.02)


@pytest.mark.parametrize("n", [1000, 50_000, 60_000])
def test_ids_are_those_of_a_real_index(n: int) -> None:
    codes, ids = some_codes(n, 8), np.random.default_rng(0).permutation(n)
    index = FlatIndex(codes, ids=ids)
    assert int(ids[5]) in index  # makes the table that finds them
    assert sizes.ids(n, OURS) == pytest.approx(index.nbytes - FlatIndex(codes).nbytes, rel=0.02)


@pytest.mark.parametrize("payload", [0, 100])
def test_the_folder_of_a_real_live_index(payload: int, tmp_path) -> None:
    n, dim = 20_000, 96
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


def test_by_hand() -> None:
    n, work = 1e6, Workload(1e6, 64, 512, payload=100)
    assert sizes.codes(n, work, COSTS) == 8.125e6
    assert sizes.ids(n, COSTS) == 8e6 + 4 * 2**21  # 1.6M slots at least
    assert sizes.widths(n, 64) == [16, 16, 16, 16]
    assert sizes.tables(n, work, COSTS) == 1e6 * (4 * 12 + 0.125) + 4 * 2**16 * 4
    assert sizes.building(n, work, COSTS) == 8e6
    assert sizes.payloads(n, work, COSTS) == 160e6
    assert sizes.payloads(n, Workload(1e6), COSTS) == 0
    assert sizes.margins(n, work, COSTS) == 64e6
    assert sizes.vectors(n, Workload(1e6, 64, 512, "float64")) == 4096e6
    assert sizes.vectors_for_find(n, Workload(1e6, 64, 512, "float64")) == 512e6
    assert sizes.on_disk(n, work, COSTS) == {
        "vectors": 2080e6, "codes": 8e6, "payloads": 104e6, "log": 72e6,
    }  # fmt: skip
    assert sizes.in_store(n, work, STORE) == {
        "vectors": 2148e6, "codes": 200e6, "payloads": 100e6, "log": 200e6,
    }  # fmt: skip


def test_long_codes_keep_rows_beside_their_tables() -> None:
    work = Workload(1e6, 128)
    m = len(sizes.widths(1e6, 128))
    assert sizes.tables(1e6, work, COSTS) == pytest.approx(1e6 * (12 * m + 16.125), rel=0.01)
    assert sizes.building(1e6, work, COSTS) == 0
