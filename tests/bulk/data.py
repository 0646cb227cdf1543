"""Small vectors in files of every kind, and partitions that tell when they are read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from onlinehash import MultiModelOnlineHashing, OnlineHashing
from onlinehash.bulk.partitions import Partition, Rows
from onlinehash.bulk.sources import Source
from tests.servers import wait_until

N, D, PART = 1000, 12, 130
X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 5, N)
IDS = np.array([f"item-{row}" for row in range(N)])
QUERIES = X[:20] + np.float32(0.1)

#: Learners whose encoders are of different kinds: plain, and several models of a width that fills no byte.
LEARNERS = {
    "OH": OnlineHashing(16, burn_in=50, random_state=0),
    "MMOH": MultiModelOnlineHashing(11, n_models=3, burn_in=50, random_state=0),
}


def learned(name: str, n_pairs: int = 100) -> OnlineHashing:
    """One of the learners, taught."""
    learner = LEARNERS[name].__class__(**LEARNERS[name].get_params(deep=False))
    A, B = X[:n_pairs], X[N // 2 : N // 2 + n_pairs]
    return learner.partial_fit_pairs(A, B, Y[:n_pairs] == Y[N // 2 : N // 2 + n_pairs])


# ------------------------------------------------------------------ files


def table(vectors: np.ndarray, is_fixed: bool = True, **names: str) -> pyarrow.Table:
    """Vectors, ids and labels as columns."""
    flat = pyarrow.array(vectors.reshape(-1))
    offsets = pyarrow.array(np.arange(0, vectors.size + 1, vectors.shape[1], dtype=np.int32))
    lists = (
        pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        if is_fixed
        else pyarrow.ListArray.from_arrays(offsets, flat)
    )
    columns = {"id": pyarrow.array(IDS), "vector": lists, "label": pyarrow.array(Y)}
    return pyarrow.table({names.get(name, name): column for name, column in columns.items()})


def write_parquet(path: Path, vectors: np.ndarray) -> Path:
    parquet.write_table(table(vectors), path, row_group_size=50)
    return path


def write_parquet_folder(path: Path, vectors: np.ndarray) -> Path:
    (path / "more").mkdir(parents=True)
    whole = table(vectors, is_fixed=False)
    parquet.write_table(whole.slice(0, 400), path / "a.parquet", row_group_size=100)
    parquet.write_table(whole.slice(400, 1), path / "b.parquet")
    parquet.write_table(whole.slice(401), path / "more" / "a.pq", row_group_size=300)
    (path / "_SUCCESS").write_text("")
    return path


def write_ipc(path: Path, vectors: np.ndarray) -> Path:
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    whole = table(vectors)
    with pyarrow.ipc.new_file(path, whole.schema, options=options) as file:
        file.write_table(whole, max_chunksize=70)
    return path


def write_npy(path: Path, vectors: np.ndarray) -> Path:
    np.save(path, vectors)
    np.save(path.with_suffix(".ids.npy"), IDS)
    np.save(path.with_suffix(".labels.npy"), Y)
    return path


def write_zarr(path: Path, vectors: np.ndarray) -> Path:
    import zarr

    group = zarr.create_group(path)
    for name, values in (("vector", vectors), ("id", np.arange(N)), ("label", Y)):
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=(60, *values.shape[1:]))[:] = values
    return path


Writer = Callable[[Path, np.ndarray], Path]

WRITERS: dict[str, tuple[str, Writer]] = {
    "parquet": ("x.parquet", write_parquet),
    "parquet folder": ("x", write_parquet_folder),
    "ipc": ("x.arrow", write_ipc),
    "npy": ("x.npy", write_npy),
    "zarr": ("x.zarr", write_zarr),
}


def written(kind: str, folder: Path, vectors: np.ndarray = X) -> Path:
    """The vectors in a file of some kind."""
    name, write = WRITERS[kind]
    return write(folder / name, vectors)


def same_parts(first: Path, second: Path) -> bool:
    """Are two folders of codes the same, byte by byte?"""
    names = sorted(path.name for path in first.iterdir())
    assert len(names) > 2
    assert names == sorted(path.name for path in second.iterdir())
    return all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


# ------------------------------------------------------------------ partitions that wait


@dataclass(frozen=True)
class Waiting(Partition):
    """Leaves a note of who reads it, and waits with it until there is a file `go`."""

    inner: Partition
    notes: Path

    def blocks(self) -> Iterator[Rows]:
        (self.notes / f"{self.first}-{os.getpid()}-{secrets.token_hex(4)}").touch()
        wait_until((self.notes / "go").exists, "the go")
        return self.inner.blocks()


def waiting(source: Source, notes: Path, first: int = 1) -> Source:
    """The source, whose partitions from some number on wait; the first is also read by who starts the work."""
    parts = source.partitions
    wait = [Waiting(part.path, part.identity, part.first, part.n_rows, part, notes) for part in parts[first:]]
    return Source((*parts[:first], *wait))


def readers(notes: Path) -> list[tuple[int, int]]:
    """Who read what, so far: first row of the partition, process."""
    found = [note.name.split("-") for note in notes.iterdir() if note.name != "go"]
    return [(int(first), int(process)) for first, process, _ in found]
