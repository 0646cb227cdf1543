"""Small files that would fill the memory are refused before they are unpacked."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from onlinehash import bulk, checks
from onlinehash.cli import inputs
from onlinehash.datasets import arrays, idx
from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.streams import points
from onlinehash.streams.from_files import read_tables

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
        with pytest.raises(InvalidInput, match=r"would unpack to 8000\d+ or more, over 100 times as many"):
            READERS[reader](path)
        assert tracemalloc.get_traced_memory()[1] < FEW
    finally:
        tracemalloc.stop()


def rows(n: int, value: float = 0) -> pyarrow.Array:
    """So many vectors of 1,000 numbers, all of them the same."""
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.full(1000 * n, value, np.float32)), 1000)


def write_parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    parquet.write_table(pyarrow.table(columns), path, compression="zstd", **options)
    return path


TABLE_READERS: dict[str, Callable[[Path], object]] = {
    "points": lambda path: list(points(path, labelled=False)),
    "bulk": lambda path: [list(partition.blocks()) for partition in bulk.open_source(path).partitions],
}


@pytest.mark.parametrize("reader", TABLE_READERS)
def test_parquet(reader: str, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "bomb.parquet", {"x": rows(2000)}, row_group_size=100)
    assert path.stat().st_size < 16_000_000 / checks.MOST_RATIO
    with pytest.raises(InvalidInput, match="would unpack to"):
        TABLE_READERS[reader](path)


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    """Wherever the damage is: pyarrow ends the whole process where what is said about columns is wrong."""
    columns = {"x": [[1.0, 2.0]] * 40, "text": ["a", "b"] * 20, "label": list(range(40))}
    path = write_parquet(tmp_path / "x.parquet", columns, store_schema=False)
    good, n_refused = path.read_bytes(), 0
    for at in range(len(good) - 8 - int.from_bytes(good[-8:-4], "little"), len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 16]) + good[at + 1 :])
        try:
            list(read_tables(path))
        except OnlineHashError:
            n_refused += 1
    assert n_refused > 100


def test_gz(tmp_path: Path) -> None:
    path = tmp_path / "bomb-images-idx3-ubyte.gz"
    with gzip.open(path, "wb") as file:
        file.write(struct.pack(">HBBIII", 0, 8, 3, 10_000, 28, 28) + bytes(7_840_000))
    with pytest.raises(InvalidInput, match="would unpack to 7840000"):
        idx.read(path)
