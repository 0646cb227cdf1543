"""Small files that would fill the memory are refused before they are unpacked."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onlinehash import checks
from onlinehash.cli import inputs
from onlinehash.datasets import arrays, idx
from onlinehash.errors import InvalidInput
from onlinehash.streams import points

#: In place of a gigabyte, so that tests need not write files that unpack to more.
FEW = 1 << 20


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST_UNPACKED", FEW)


def npz(path: Path, **named: np.ndarray) -> Path:
    np.savez_compressed(path, **named)
    return path


BOMB = {"X": np.zeros((2000, 500), np.float32), "packed": np.zeros((4_000_000, 1), np.uint8)}
READERS: dict[str, Callable[[Path], object]] = {
    "points": lambda path: list(points(path, labelled=False)),
    "codes": lambda path: list(inputs.read_blocks(str(path), None, None, inputs.Width())),
    "data set": lambda path: arrays._load(path),
}


@pytest.mark.parametrize("reader", READERS)
def test_npz(reader: str, tmp_path: Path) -> None:
    path = npz(tmp_path / "bomb.npz", **BOMB)
    assert path.stat().st_size < FEW / 20
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=r"would unpack to 8000\d+, more than 100 times as many"):
            READERS[reader](path)
        assert tracemalloc.get_traced_memory()[1] < FEW
    finally:
        tracemalloc.stop()


def test_npz_of_ordinary_vectors(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((2000, 500)).astype(np.float32)
    (block, *_) = points(npz(tmp_path / "points.npz", X=X), labelled=False)
    assert np.array_equal(block.X, X[: len(block.X)])


def test_an_npz_that_claims_a_shape_beyond_all_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 64), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(InvalidInput, match="cannot read"):
        list(points(path, labelled=False))


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.zeros(2_000_000, np.float32)), 1000)
    path = tmp_path / "bomb.parquet"
    parquet.write_table(pyarrow.table({"x": rows}), path, compression="zstd")
    assert path.stat().st_size < 16_000_000 / checks.MOST_RATIO
    with pytest.raises(InvalidInput, match="would unpack to"):
        list(points(path, labelled=False))


def test_gz(tmp_path: Path) -> None:
    path = tmp_path / "bomb-images-idx3-ubyte.gz"
    with gzip.open(path, "wb") as file:
        file.write(struct.pack(">HBBIII", 0, 8, 3, 10_000, 28, 28) + bytes(7_840_000))
    with pytest.raises(InvalidInput, match="would unpack to 7840000"):
        idx.read(path)
