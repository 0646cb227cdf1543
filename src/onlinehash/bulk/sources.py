"""`Source`: vectors in files, which need not fit in memory, as partitions.

    a Parquet file         by row groups; a column `vector` (or `x`) of lists of numbers
    an Arrow IPC file      by record batches; the same columns (.arrow, .ipc, .feather)
    an npy file            by rows
    a folder of these      all of one format, in the order of their names
    a Zarr array           by chunks; or a group with an array `vector`

Ids are in a column or array `id`, labels in `label` or `y`; for NAME.npy in NAME.ids.npy and NAME.labels.npy.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from onlinehash import checks
from onlinehash.bulk import array_files, arrow_files
from onlinehash.bulk.partitions import Columns, Partition
from onlinehash.errors import InvalidInput

FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc", ".npy": "npy",
}  # fmt: skip

Cutter = Callable[[str, str, int, Columns, int | None], Iterator[Partition]]

CUTTERS: dict[str, Cutter] = {
    "parquet": arrow_files.parquet_partitions,
    "ipc": arrow_files.ipc_partitions,
    "npy": array_files.npy_partitions,
    "zarr": array_files.zarr_partitions,
}


@dataclass(frozen=True)
class Source:
    """Partitions, in the order of their rows, and the file or folder that they are in, where it is one.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import bulk
    >>> np.save("vectors.npy", np.zeros((1000, 16), np.float32))
    >>> source = bulk.open_source("vectors.npy", partition_rows=300)
    >>> source.n_rows, source.n_features, len(source.partitions)
    (1000, 16, 4)
    """

    partitions: Sequence[Partition]
    root: Path | None = None

    @property
    def n_rows(self) -> int:
        return sum(partition.n_rows for partition in self.partitions)

    @cached_property
    def n_features(self) -> int:
        """Numbers in a vector; read from the first block."""
        return int(next(self.partitions[0].blocks()).X.shape[1])

    @property
    def digest(self) -> str:
        """Of what and how it is cut: another one for other files, changed files or other partitions."""
        return hashlib.sha256("\n".join(p.identity for p in self.partitions).encode()).hexdigest()


def open_source(
    path: str | os.PathLike[str],
    *,
    partition_rows: int | None = None,
    vector: str | None = None,
    id: str | None = None,
    label: str | None = None,
) -> Source:
    """Open the vectors at a path.

    Parameters
    ----------
    path : str or path-like
        A file or a folder of Parquet, Arrow, npy or Zarr.
    partition_rows : int, optional
        The most rows of a partition; by default 64 MB of vectors. Row groups, record batches and chunks are never
        split, only combined.
    vector, id, label : str, optional
        The names of columns, if they are not the default ones.

    Returns
    -------
    Source

    Raises
    ------
    InvalidInput
        If there are no such files.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import bulk
    >>> np.save("vectors.npy", np.zeros((1000, 16), np.float32))
    >>> source = bulk.open_source("vectors.npy", partition_rows=400)
    >>> source.n_features, len(source.partitions)
    (16, 3)
    """
    rule = checks.either(("None", lambda v: v is None), checks.integer(1))
    checks.parameters("a source", {"partition_rows": partition_rows}, {"partition_rows": rule})
    arrow_files.need_pyarrow()
    root, wanted = Path(path).resolve(), Columns(vector or "", id, label)
    format, files = _files(root)
    if format == "npy" and (vector or id or label):
        raise InvalidInput("npy files have no columns to name: their ids and labels are in files beside them.")
    partitions: list[Partition] = []
    for file in files:
        columns = wanted
        if format != "npy":
            columns = (
                array_files.zarr_columns(str(file), wanted)
                if format == "zarr"
                else arrow_files.columns_of(str(file), format, wanted)
            )
        first = partitions[-1].first + partitions[-1].n_rows if partitions else 0
        name = file.relative_to(root).as_posix() if root.is_dir() else file.name
        identity = f"{name}@{_fingerprint(file)}:{'/'.join(map(str, columns))}"
        partitions += CUTTERS[format](str(file), identity, first, columns, partition_rows)
    if not partitions:
        raise InvalidInput(f"{path} has no vectors.")
    return Source(tuple(partitions), root)


def _files(path: Path) -> tuple[str, list[Path]]:
    """The format, and the files that hold the rows, in order."""
    if not path.exists():
        raise InvalidInput(f"no such file or folder: {path}.")
    if path.is_dir() and array_files.is_zarr(path):
        return "zarr", [path]
    files = [path] if path.is_file() else sorted(_visible(path), key=lambda file: file.relative_to(path).as_posix())
    formats = {FORMATS.get(file.suffix.lower(), "") for file in files}
    if len(formats) != 1 or "" in formats:
        got = ", ".join(sorted({file.suffix for file in files})) or "nothing"
        raise InvalidInput(
            expected=f"a Zarr array, or files that all end in .parquet, in .arrow or in .npy, at {path}", got=got
        )
    return formats.pop(), files


def _visible(folder: Path) -> Iterable[Path]:
    """Files in a folder and in those inside; what begins with . or _ is a note of whoever wrote them."""
    for file in folder.rglob("*"):
        parts = file.relative_to(folder).parts
        if file.is_file() and not any(part[0] in "._" for part in parts) and not array_files.is_beside(file):
            yield file


def _fingerprint(path: Path) -> str:
    """Of names, sizes and times of a file, or of all in a folder: reading everything would take as long as the work."""
    digest = hashlib.sha256()
    files = sorted(path.rglob("*")) if path.is_dir() else [path, *array_files.files_beside(path).values()]
    for file in files:
        if file.is_file():
            facts = file.stat()
            digest.update(f"{file.relative_to(path.parent)}:{facts.st_size}:{facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
