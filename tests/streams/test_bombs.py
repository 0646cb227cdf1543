"""Small files that would fill the memory are refused before they are unpacked."""

from __future__ import annotations

import gzip
import lzma
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy.io import savemat

from onlinehash import bulk, checks
from onlinehash.cli import inputs
from onlinehash.datasets import arrays, idx, labelme
from onlinehash.errors import FormatError, InvalidInput, OnlineHashError
from onlinehash.experiments import results
from onlinehash.streams import points
from onlinehash.streams.from_files import read_tables
from onlinehash.streams.items import ItemReader

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
@pytest.mark.parametrize("group_rows", [2000, 100], ids=["one group", "many groups"])
def test_parquet(group_rows: int, reader: str, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "bomb.parquet", {"x": rows(2000)}, row_group_size=group_rows)
    assert path.stat().st_size < 16_000_000 / checks.MOST_RATIO
    with pytest.raises(InvalidInput, match="would unpack to"):
        TABLE_READERS[reader](path)


def test_parquet_of_vectors_that_are_not_there(tmp_path: Path) -> None:
    """A missing vector of fixed length takes no room in a file, and all of it in memory."""
    missing = pyarrow.array([None] * 2000, pyarrow.list_(pyarrow.float32(), 1000))
    with pytest.raises(InvalidInput, match="would unpack to 16000000"):
        list(points(write_parquet(tmp_path / "bomb.parquet", {"x": missing}), labelled=False))


LONG = "a" * 20_000
LONG_TEXTS = {
    "listed once": ([LONG] * 1000, {}),
    "in lists": ([[LONG]] * 1000, {}),
    "in records": ([{"a": LONG}] * 1000, {}),
    "by beginnings": ([LONG] * 1000, {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}),
}


@pytest.mark.parametrize("kind", LONG_TEXTS)
def test_a_long_text_that_parquet_holds_once_is_read_in_small_blocks(kind: str, tmp_path: Path) -> None:
    texts, options = LONG_TEXTS[kind]
    path = write_parquet(tmp_path / "bomb.parquet", {"text": texts}, **options)
    assert path.stat().st_size < 1000
    before = pyarrow.total_allocated_bytes()
    found, most = [], 0
    for table in read_tables(path):
        most = max(most, pyarrow.total_allocated_bytes() - before, sum(len(str(one)) for one in table.columns["text"]))
        found += table.columns["text"]
    assert found == texts
    assert most < 3 * FEW


def varint(number: int, n_bytes: int = 0) -> bytes:
    """A number as Thrift writes it, filled up with bytes that say nothing."""
    left, found = 2 * number, []
    while left > 127 or len(found) < n_bytes - 1:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


def test_parquet_that_states_false_sizes(tmp_path: Path) -> None:
    """Its end says that it holds ten values of ten bytes; its one page unpacks to eight million."""
    path = write_parquet(
        tmp_path / "bomb.parquet", {"x": np.zeros(1_000_000)}, use_dictionary=False, data_page_size=1 << 30
    )
    data, column = path.read_bytes(), parquet.ParquetFile(path).metadata.row_group(0).column(0)
    for stated in (column.num_values, column.total_uncompressed_size):
        said = varint(stated)
        assert said in data
        data = data.replace(said, varint(10, len(said)))
    path.write_bytes(data)
    assert parquet.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size == 10
    with pytest.raises(InvalidInput, match=r"would unpack to 80\d{5} or more"):
        list(read_tables(path))


def test_parquet_of_a_row_that_repeats_a_long_text(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "bomb.parquet", {"text": [["b"], [LONG] * 1000]})
    assert path.stat().st_size < 2000
    with pytest.raises(InvalidInput, match="would unpack to 20000000 or more"):
        list(read_tables(path))


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


def test_long_texts_of_which_each_occurs_once_are_read_in_whole_blocks(tmp_path: Path) -> None:
    texts = [f"{number} {np.random.default_rng(number).bytes(2000).hex()}" for number in range(1000)]
    path = write_parquet(tmp_path / "texts.parquet", {"text": texts})
    assert [len(table) for table in read_tables(path)] == [1000]


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("kind", ["vectors", "dictionary"])
def test_arrow_ipc(kind: str, compression: str, tmp_path: Path) -> None:
    path, vectors = tmp_path / "bomb.arrow", rows(2000 if kind == "vectors" else 2)
    ids = pyarrow.array(["a" * 10_000_000, "b"]).dictionary_encode() if kind == "dictionary" else range(len(vectors))
    columns = {"vector": vectors, "id": ids}
    whole = pyarrow.table(columns)
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_file(path, whole.schema, options=options) as file:
        file.write_table(whole, 500)
    assert path.stat().st_size < 8_000_000 / checks.MOST_RATIO
    with pytest.raises(InvalidInput, match="would unpack to"):
        bulk.open_source(path)


def test_an_arrow_file_that_leads_out_of_itself(tmp_path: Path) -> None:
    """Offsets in a file are not believed: Arrow ends the whole process where one leads out of an array."""
    path = tmp_path / "x.arrow"
    lists = pyarrow.array([[1.0, 2.0, 3.0]] * 50, pyarrow.list_(pyarrow.float32()))
    whole = pyarrow.table({"vector": lists, "id": [f"id{number}" for number in range(50)]})
    with pyarrow.ipc.new_file(path, whole.schema) as file:
        file.write_table(whole, 20)
    good, rng, n_refused = path.read_bytes(), np.random.default_rng(1), 0
    for _ in range(200):
        bad, at = bytearray(good), int(rng.integers(len(good)))
        bad[at : at + 4] = rng.bytes(4)
        path.write_bytes(bad)
        try:
            TABLE_READERS["bulk"](path)
        except OnlineHashError:
            n_refused += 1
    assert n_refused > 50


def test_zarr(tmp_path: Path) -> None:
    import zarr

    zarr.create_array(str(tmp_path / "shape.zarr"), shape=(2000, 1000), chunks=(10, 1000), dtype="f4")
    zarr.create_array(str(tmp_path / "chunk.zarr"), shape=(2, 1000), chunks=(2000, 1000), dtype="f4")
    for name in ("shape.zarr", "chunk.zarr"):
        with pytest.raises(InvalidInput, match="would unpack to 8000000"):
            bulk.open_source(tmp_path / name)


@pytest.mark.parametrize("kind", ["a matrix", "another", "a cell", "a lie"])
def test_mat(kind: str, tmp_path: Path) -> None:
    path, few = tmp_path / "bomb.mat", np.ones((2, 8))
    large, cell = np.zeros((500, 500)), np.empty((1, 1), object)
    cell[0, 0] = large
    content = {"another": {"gist": few, "other": large}, "a cell": {"gist": cell}}
    savemat(path, content.get(kind, {"gist": large}), do_compression=True)
    if kind == "a lie":  # a shape of 1 x 1 before many numbers
        data = path.read_bytes()
        element = bytearray(zlib.decompress(data[136:]))
        element[32:40] = struct.pack("<2i", 1, 1)
        packed = zlib.compress(element)
        path.write_bytes(data[:128] + struct.pack("<2I", 15, len(packed)) + packed)
    assert path.stat().st_size < 20_000
    tracemalloc.start()
    try:
        if kind == "another":
            assert np.array_equal(labelme.read_set(path).X, few)
        else:
            with pytest.raises(OnlineHashError, match=r"would unpack to|expected a matrix|bytes of numbers"):
                labelme.read_set(path)
        assert tracemalloc.get_traced_memory()[1] < FEW
    finally:
        tracemalloc.stop()


def write_hdf5(path: Path, kind: str) -> Path:
    with h5py.File(path, "w") as file:
        if kind == "a large chunk":
            file.create_dataset("gist", (10, 8), "f4", maxshape=(None, 8), chunks=(1 << 16, 8), compression="gzip")[
                :
            ] = 1
        elif kind == "more than a chunk":
            array = file.create_dataset("gist", (10, 8), "f4", chunks=(10, 8), compression="gzip")
            array.id.write_direct_chunk((0, 0), zlib.compress(bytes(8_000_000)))
        elif kind == "packed twice":
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_chunk((10, 8))
            made.set_deflate(9)
            made.set_deflate(9)
            space = h5py.h5s.create_simple((10, 8))
            array = h5py.h5d.create(file.id, b"gist", h5py.h5t.NATIVE_FLOAT, space, made)
            array.write_direct_chunk((0, 0), zlib.compress(zlib.compress(bytes(8_000_000))))
    return path


@pytest.mark.parametrize("kind", ["a large chunk", "more than a chunk", "packed twice"])
def test_hdf5(kind: str, tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "bomb.mat", kind)
    assert path.stat().st_size < 8_000_000 / checks.MOST_RATIO
    with pytest.raises(
        InvalidInput if kind == "a large chunk" else FormatError, match=r"unpack to|once, as compression"
    ):
        labelme.read_set(path)


def test_one_long_label(tmp_path: Path) -> None:
    """An array of texts has room for the longest of them in every row; ids are no array."""
    path, long = tmp_path / "x.jsonl", "a" * 200_000
    path.write_text("".join(f'{{"x": [1], "label": "{long if row == 5 else row}"}}\n' for row in range(100)))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=r"line 6: expected at most 1000 characters as label, got 200000"):
            list(points(path))
        (table,) = read_tables(path)
        assert ItemReader(id="label")(table).ids[4:6] == ["4", long]
        assert tracemalloc.get_traced_memory()[1] < 5 * FEW
    finally:
        tracemalloc.stop()


def test_results_of_experiments(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl.xz").write_bytes(lzma.compress(b"\n" * 2_000_000))
    with pytest.raises(InvalidInput, match="would unpack to"):
        list(results.Store(tmp_path))


def test_gz(tmp_path: Path) -> None:
    path = tmp_path / "bomb-images-idx3-ubyte.gz"
    with gzip.open(path, "wb") as file:
        file.write(struct.pack(">HBBIII", 0, 8, 3, 10_000, 28, 28) + bytes(7_840_000))
    with pytest.raises(InvalidInput, match="would unpack to 7840000"):
        idx.read(path)
