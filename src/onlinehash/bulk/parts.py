"""Parts: Parquet files with the codes of one partition each, which record their rows and their encoder.

Columns: `row` (its number in the source), `id` and `label` where the source has them, and `code`, packed bytes in the
layout of `Codes.to_faiss`. A part is written atomically, and the checksums of its pages are verified.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from onlinehash.codes import Codes
from onlinehash.errors import FormatError, InvalidInput, StorageError
from onlinehash.io.atomic import replacing
from onlinehash.streams.array_tables import open_parquet

KEY = b"onlinehash"


@dataclass(frozen=True)
class Stamp:
    """Metadata of a part."""

    encoder: str
    source: str
    n_rows: int
    n_bits: int
    n_models: int


@dataclass(frozen=True)
class Part:
    """What is in a part; `others` are its columns of ids and labels."""

    codes: Codes
    first: int
    others: dict[str, Any]


def write_part(path: Path, codes: Codes, first: int, others: Mapping[str, Sequence[Any]], stamp: Stamp) -> None:
    """Write a part in the place of whatever is there; `others` are blocks of columns."""
    import pyarrow
    from pyarrow import parquet

    columns: dict[str, Any] = {"row": pyarrow.array(np.arange(first, first + len(codes)))}
    for name, blocks in others.items():
        columns[name] = pyarrow.concat_arrays([_arrow(block) for block in blocks])
    packed = codes.to_faiss()
    kind = pyarrow.binary(packed.shape[1])
    columns["code"] = pyarrow.FixedSizeBinaryArray.from_buffers(kind, len(codes), [None, pyarrow.py_buffer(packed)])
    table = pyarrow.table(columns).replace_schema_metadata({KEY: json.dumps(asdict(stamp))})
    options: dict[str, Any] = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True}
    options["column_encoding"] = {"row": "DELTA_BINARY_PACKED"}  # consecutive numbers take no room
    memory = pyarrow.BufferOutputStream()
    parquet.write_table(table, memory, row_group_size=max(1, len(codes)), **options)
    with writing(path) as file:
        file.write(memory.getvalue())


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A part's file, in the place of whatever is there when all of it is on the disk."""
    try:
        with replacing(path) as file:
            yield file
    except InvalidInput as error:  # of a disk, which another attempt may find in a better state
        raise StorageError(str(error)) from None


def read_part(path: Path, stamp: Stamp) -> Part:
    """What is in a part, if it is the expected one, and undamaged."""
    import pyarrow

    try:
        with open_parquet(str(path), page_checksum_verification=True) as file:
            found = (file.schema_arrow.metadata or {}).get(KEY)
            if found is None or json.loads(found) != asdict(stamp):
                raise FormatError(f"{path} belongs to another source or encoder; encode the source again.")
            table = file.read(use_threads=False).combine_chunks()
        n_bytes = table.schema.field("code").type.byte_width
        packed = np.frombuffer(table.column("code").chunk(0).buffers()[1], np.uint8)[: len(table) * n_bytes]
        codes = Codes.from_faiss(packed.reshape(stamp.n_rows, n_bytes), stamp.n_bits, stamp.n_models)
        others = {name: table.column(name) for name in table.column_names if name not in ("row", "code")}
        return Part(codes, table.column("row")[0].as_py(), others)
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, AttributeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path} is damaged or missing ({error}); encode the source again.") from None


def is_there(path: Path, stamp: Stamp) -> bool:
    """Whether the expected part is there and undamaged."""
    if not path.exists():
        return False
    try:
        read_part(path, stamp)
    except FormatError:
        return False
    return True


def _arrow(values: object) -> Any:
    import pyarrow

    return pyarrow.array(values) if isinstance(values, np.ndarray) else values
