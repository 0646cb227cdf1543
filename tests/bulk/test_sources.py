"""Files of every kind as partitions: every row once, in order, and never much at a time."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from onlinehash import bulk
from onlinehash.bulk import array_files, arrow_files
from tests.bulk.data import IDS, WRITERS, D, N, X, Y, write_npy, written


@pytest.mark.parametrize("kind", WRITERS)
def test_all_rows_once_and_in_order(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = np.float32
    for module in (arrow_files, array_files):
        monkeypatch.setattr(module, "BLOCK_BYTES", 64 * D * 4)
    source = bulk.open_source(written(kind, tmp_path, X.astype(dtype)), partition_rows=130)
    assert source.n_rows == N
    assert source.n_features == D
    assert len(source.partitions) > 3
    at = 0
    for partition in source.partitions:
        assert partition.first == at
        assert partition.n_rows <= 130 or kind == "parquet folder"  # whose pieces are larger
        blocks = list(partition.blocks())
        assert max(len(block.X) for block in blocks) <= 64  # also where pieces are larger
        for block in blocks:
            assert block.first == at
            assert block.X.dtype == dtype
            np.testing.assert_array_equal(block.X, X[at : at + len(block.X)])
            labels, ids = (np.asarray(block.others[name]) for name in ("label", "id"))
            np.testing.assert_array_equal(labels, Y[at : at + len(block.X)])
            np.testing.assert_array_equal(ids, (np.arange(N) if kind == "zarr" else IDS)[at : at + len(block.X)])
            at += len(block.X)
    assert at == N


def test_a_source_knows_when_it_is_another(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "x.npy", X)
    digest = bulk.open_source(path).digest
    assert bulk.open_source(path).digest == digest
    assert bulk.open_source(path, partition_rows=10).digest != digest
    os.utime(tmp_path / "x.labels.npy", ns=(1, 1))
    assert bulk.open_source(path).digest != digest
