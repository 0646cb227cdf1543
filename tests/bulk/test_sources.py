"""Files of every kind as partitions: every row once, in order, and never much at a time."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from onlinehash import bulk
from onlinehash.bulk import array_files, arrow_files
from onlinehash.errors import InvalidInput
from tests.bulk.data import IDS, WRITERS, D, N, X, Y, table, write_npy, written


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
        assert partition.n_rows <= 130 or kind in ("parquet folder", "ipc folder")  # whose pieces are larger
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


def test_columns_by_other_names(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(table(X, vector="Embedding", id="key", label="kind"), path)
    (block,) = bulk.open_source(path).partitions[0].blocks()  # the only lists are the vectors
    assert block.others == {}
    (block,) = bulk.open_source(path, vector="embedding", id="key", label="kind").partitions[0].blocks()
    np.testing.assert_array_equal(block.X, X)
    assert block.others["id"].to_pylist() == IDS.tolist()
    with pytest.raises(InvalidInput, match="expected a column nothing, got the columns key, Embedding, kind"):
        bulk.open_source(path, id="nothing")


def test_a_source_knows_when_it_is_another(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "x.npy", X)
    digest = bulk.open_source(path).digest
    assert bulk.open_source(path).digest == digest
    assert bulk.open_source(path, partition_rows=10).digest != digest
    os.utime(tmp_path / "x.labels.npy", ns=(1, 1))
    assert bulk.open_source(path).digest != digest


def test_what_is_no_source_is_told(tmp_path: Path) -> None:
    def told(path: Path, **options: object) -> str:
        with pytest.raises(InvalidInput) as caught:
            bulk.open_source(path, **options)
        return str(caught.value)

    assert "no such file or folder" in told(tmp_path / "nothing")
    (tmp_path / "x.csv").write_text("a,b")
    assert "got .csv" in told(tmp_path / "x.csv")
    np.save(tmp_path / "flat.npy", X[0])
    assert "expected a matrix" in told(tmp_path / "flat.npy")
    np.save(tmp_path / "empty.npy", X[:0])
    assert "has no vectors" in told(tmp_path / "empty.npy")
    write_npy(tmp_path / "x.npy", X)
    assert "npy files have no columns" in told(tmp_path / "x.npy", id="key")
    assert "partition_rows to be" in told(tmp_path / "x.npy", partition_rows=0)
    np.save(tmp_path / "x.labels.npy", Y[1:])
    assert "expected 1000 values in its file of labels, got (999,)" in told(tmp_path / "x.npy")
    parquet.write_table(pyarrow.table({"a": [1], "b": [2]}), tmp_path / "n.parquet")
    assert "expected a column vector of lists" in told(tmp_path / "n.parquet")
    for values, kind in (([["a"], ["b"]], "string"), ([[[1.0]], [[2.0]]], "list<.*>")):
        lists = pyarrow.table({"vector": values})
        parquet.write_table(lists, tmp_path / "w.parquet")
        with pyarrow.ipc.new_file(tmp_path / "w.arrow", lists.schema) as file:
            file.write_table(lists)
        for name in ("w.parquet", "w.arrow"):
            words = told(tmp_path / name)
            assert re.search(f"expected lists of numbers in the column vector, got lists of {kind}", words), words
