"""Files of rows, in any format: `read_tables` is the one place that knows them all.

    .jsonl .ndjson    one JSON object a line
    .csv              a header line, then one row a line
    .parquet .pq      by record batches (needs the extra `parquet`)
    .npz              arrays of one length, by name
    .npy              one matrix, a column called x

`-` is standard input: jsonl, or csv where asked. Letter case in the names of columns does not matter. Only an
npz is ever in memory as a whole; of the others no more than a block is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.streams import array_tables, text_tables
from onlinehash.streams.tables import Table
from onlinehash.streams.text_tables import STANDARD_INPUT, BadRow

#: Rows in a block.
BLOCK_ROWS = 1024

READERS: dict[str, Callable[..., Iterator[Table]]] = {
    "jsonl": text_tables.read_jsonl,
    "csv": text_tables.read_csv,
    "parquet": array_tables.read_parquet,
    "npz": array_tables.read_npz,
    "npy": array_tables.read_npy,
}
ENDINGS = {".ndjson": "jsonl", ".pq": "parquet"} | {f".{format}": format for format in READERS}

FilePath = str | os.PathLike[str]


def read_tables(
    path: FilePath,
    format: str | None = None,
    size: int = BLOCK_ROWS,
    labels: FilePath | None = None,
    bad_row: BadRow | None = None,
    find_numbers: bool = False,
) -> Iterator[Table]:
    """The rows of a file, `size` at a time; its name tells the format unless `format` does.

    `labels` is a file of labels for the rows of an npy, which has no room for them: another npy, or a text
    file with one label a line. `bad_row` is told of lines of text that are no rows; without it, they end the reading.
    `find_numbers` reads a csv twice, so that its tables say which columns hold numbers.
    """
    format = format or format_of(path)
    if format not in READERS:
        raise InvalidInput(expected=f"a format among {', '.join(READERS)}", got=f"{format!r}")
    name = os.fspath(path)
    if name == STANDARD_INPUT:
        if format not in ("jsonl", "csv"):
            raise InvalidInput(
                expected="jsonl or csv on standard input", got=f"{format}", hint="write it to a file first"
            )
    else:
        _check_readable(name)
    if labels is None:
        options: dict[str, list[Any]] = {"jsonl": [bad_row], "csv": [bad_row, find_numbers]}
        return READERS[format](name, size, *options.get(format, []))
    if format != "npy":
        raise InvalidInput(f"{name} takes no file of labels: they belong into its column label; only npy takes one.")
    return array_tables.read_npy(name, size, _read_labels(os.fspath(labels)))


def format_of(path: FilePath) -> str:
    """The format that a file's name promises."""
    if str(path) == STANDARD_INPUT:
        return "jsonl"
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InvalidInput(expected=f"a file that ends in {', '.join(sorted(ENDINGS))}", got=f"{os.fspath(path)!r}")
    return ENDINGS[ending]


def _check_readable(path: str) -> None:
    """Said before anything is read, and without opening: a pipe can be opened only once."""
    if not os.path.exists(path):
        raise InvalidInput(f"no such file: {path}.")
    if os.path.isdir(path) or not os.access(path, os.R_OK):
        raise InvalidInput(f"cannot read {path}: it is a folder, or permission is denied.")


def _read_labels(path: str) -> np.ndarray:
    _check_readable(path)
    if Path(path).suffix.lower() == ".npy":
        return array_tables.map_array(path)
    try:
        return np.array(Path(path).read_text("utf-8-sig").splitlines())
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is neither an npy file nor UTF-8 text with one label per line.") from None
