"""Plain arrays, and what a `Dataset` promises."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.datasets import Dataset
from onlinehash.datasets import dataset as home
from onlinehash.errors import InvalidInput

rng = np.random.default_rng(0)
X = rng.standard_normal((30, 4)).astype(np.float32)
Y = rng.integers(0, 3, 30)


def test_npz(tmp_path):
    np.savez_compressed(tmp_path / "small.npz", X=X, y=Y.astype(np.int32))
    found = datasets.load(tmp_path / "small.npz")
    assert (found.name, found.X.dtype, found.y.dtype) == ("small", np.float32, np.int64)
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.y, Y)
    assert datasets.load("small.npz", folder=tmp_path).fingerprint == found.fingerprint
    assert found.nbytes == X.nbytes + Y.nbytes


def test_npy_stays_on_the_disk_and_finds_its_labels(tmp_path):
    np.save(tmp_path / "v.npy", X)
    assert datasets.load(tmp_path / "v.npy").y is None
    np.save(tmp_path / "v.labels.npy", Y)
    found = datasets.load(tmp_path / "v.npy")
    assert isinstance(found.X, np.memmap)
    assert np.array_equal(found.y, Y)
    np.save(tmp_path / "other.npy", np.array(["b", "a"] * 15))
    assert datasets.load(tmp_path / "v.npy", labels=tmp_path / "other.npy").y.tolist() == [1, 0] * 15
    np.save(tmp_path / "double.npy", X.astype(np.float64))
    assert datasets.load(tmp_path / "double.npy").X.dtype == np.float32
    np.savez(tmp_path / "v.npz", X=X)
    with pytest.raises(InvalidInput, match="only npy and idx take one"):
        datasets.load(tmp_path / "v.npz", labels=tmp_path / "other.npy")


def test_tables_come_through_streams(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"vector": list(X), "label": [f"c{k}" for k in Y]}), tmp_path / "t.parquet")
    found = datasets.load(tmp_path / "t.parquet")
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.y, Y)
    (tmp_path / "t.csv").write_text("p,q,label\n1,2,7\n3,4,8\n")
    found = datasets.load(tmp_path / "t.csv")
    assert (found.X.tolist(), found.y.tolist()) == ([[1, 2], [3, 4]], [7, 8])
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(InvalidInput, match="has no rows"):
        datasets.load(tmp_path / "none.jsonl")


def test_digits():
    found = datasets.load("digits")
    assert found.X.shape == (1797, 64)
    assert (found.X.min(), found.X.max(), len(set(found.y.tolist()))) == (0, 1, 10)
    assert found.fingerprint == datasets.digits().fingerprint == "9563246dbbf93714"


def test_the_fingerprint_is_of_the_content(monkeypatch):
    text = b"<f4 (30, 4)\n" + X.astype("<f4").tobytes() + b"<i8 (30,)\n" + Y.astype("<i8").tobytes()
    assert Dataset("a", X, Y).fingerprint == hashlib.sha256(text).hexdigest()[:16]
    monkeypatch.setattr(home, "BLOCK_BYTES", 100)
    assert Dataset("b", np.asfortranarray(X), Y.astype(np.int32)).fingerprint == hashlib.sha256(text).hexdigest()[:16]
    changed = X.copy()
    changed[29, 3] += 1
    others = {
        Dataset("a", changed, Y).fingerprint,
        Dataset("a", X).fingerprint,
        Dataset("a", X[:, ::-1], Y).fingerprint,
    }
    assert len(others | {Dataset("a", X, Y).fingerprint}) == 4
