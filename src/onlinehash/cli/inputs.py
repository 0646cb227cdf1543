"""Vectors or codes in, codes out: what `index` and `search` read.

.oh .txt .npz     codes as `encode` writes them; an npz with an array X holds vectors
.npy              codes if it holds bools, or bytes that are not as many as a vector has numbers
anything else     vectors, which the encoder turns into codes block by block
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

import onlinehash
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.learners.encoder import Encoder
from onlinehash.streams import columns
from onlinehash.streams.array_tables import check_archive, map_array
from onlinehash.streams.from_files import BLOCK_ROWS, read_tables
from onlinehash.streams.points import PointReader
from onlinehash.streams.tables import Table
from onlinehash.streams.text_tables import STANDARD_INPUT


class Width(NamedTuple):
    """How long codes are, for files that do not say it: bits of each model (None: all of each byte) and models."""

    n_bits: int | None = None
    n_models: int = 1


class Block(NamedTuple):
    """Some rows of a file: codes, ids where it has ids, how much of it has been read, and vectors if it has these."""

    codes: Codes
    ids: np.ndarray | None = None
    share: float | None = None
    vectors: np.ndarray | None = None


def read_blocks(
    source: str,
    format: str | None,
    encoder: Encoder | None,
    width: Width,
    id_column: str | None = None,
    *,
    as_queries: bool = False,
) -> Iterator[Block]:
    """The codes of a file, or of its vectors; ids from the column `id`, or from the one that is named."""
    if source != STANDARD_INPUT and not os.path.exists(source):
        raise InvalidInput(f"no such file: {source}.")
    is_empty = True
    for block in _blocks(source, format, encoder, width, id_column, as_queries):
        is_empty = is_empty and len(block.codes) == 0
        yield block
    if is_empty:
        raise InvalidInput(f"{source} has no vectors or codes.")


def _blocks(
    source: str, format: str | None, encoder: Encoder | None, width: Width, id_column: str | None, as_queries: bool
) -> Iterator[Block]:
    kind = format or Path(source).suffix.lower().lstrip(".")
    codes: Codes | None = None
    if kind == "txt":
        yield from _text_blocks(source, width)
        return
    if kind == "oh":
        found = onlinehash.load(source)
        if not isinstance(found, Codes):
            raise InvalidInput(expected=f"codes in {source}", got=type(found).__name__)
        codes = found
    elif kind in ("npy", "npz") and source != STANDARD_INPUT:
        codes = (_npy_codes if kind == "npy" else _npz_codes)(source, encoder, width)
    if codes is not None:
        yield Block(codes, share=1.0)
        return
    tables = read_tables(source, format)
    if encoder is None:
        raise InvalidInput(
            f"{source} holds vectors, but the index has no encoder for them; give codes, or make the "
            "index with --model FILE."
        )
    read_points = PointReader(encoder.n_features)
    for table in tables:
        ids = _ids(table, id_column)
        vectors = read_points(table).X
        codes = encoder.encode_queries(vectors) if as_queries else encoder.encode(vectors)
        yield Block(codes, ids, table.share, vectors)


# ------------------------------------------------------------------ ids


def _ids(table: Table, name: str | None) -> np.ndarray | None:
    """The ids of a table's rows; its column is then called id, so that it is no part of the vectors."""
    if name is not None:
        if name.lower() not in table.columns:
            raise table.lacks(f"the column {name} for the ids (there is no file of that name)")
        table.columns["id"] = table.columns.pop(name.lower())
    if "id" not in table.columns:
        return None
    ids = columns.labels(table, "id")
    return from_text(ids.tolist()) if table.format == "csv" else ids


def from_text(texts: list[str]) -> np.ndarray:
    """Ids that are text in their file: integers if every one is written as an integer is, which 007 is not."""
    try:
        numbers = np.array([int(text) for text in texts], np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, object)
    return numbers if list(map(str, numbers.tolist())) == texts else np.array(texts, object)


def join_ids(blocks: list[np.ndarray]) -> np.ndarray:
    """Ids of blocks as those of a file: texts as soon as any is one."""
    if any(block.dtype.kind in "OU" for block in blocks):
        blocks = [np.array(list(map(str, block.tolist())), object) for block in blocks]
    return np.concatenate(blocks)


# ------------------------------------------------------------------ files of codes


def _npy_codes(path: str, encoder: Encoder | None, width: Width) -> Codes | None:
    array = map_array(path)
    is_packed = array.dtype == np.uint8 and (
        encoder is None or array.shape[-1:] == (-(-encoder.n_columns // 8),) != (encoder.n_features,)
    )
    return _unpacked(array, width, path) if array.ndim == 2 and (array.dtype == np.bool_ or is_packed) else None


def _npz_codes(path: str, _: Encoder | None, width: Width) -> Codes | None:
    """What is no npz at all is told by who reads vectors."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            check_archive(path, arrays)
            name = next((name for name in ("packed", "bits") if name in arrays), None)
            if name is None:
                return None
            array = arrays[name]
            if "n_bits" in arrays and "n_models" in arrays:
                width = Width(int(arrays["n_bits"]), int(arrays["n_models"]))
    except InvalidInput:
        raise
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
        return None
    return _unpacked(array, width, path)


def _unpacked(array: np.ndarray, width: Width, path: str) -> Codes:
    try:
        if array.dtype == np.bool_:
            return Codes.from_bits(array, width.n_models)
        return Codes.from_faiss(array, width.n_bits or 8 * array.shape[-1], width.n_models)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _text_blocks(path: str, width: Width) -> Iterator[Block]:
    """A code a line, in 0 and 1."""
    with nullcontext(sys.stdin) if path == STANDARD_INPUT else open(path, encoding="utf-8", errors="replace") as text:
        n_done, n_columns = 0, 0
        while lines := [line.strip() for line in islice(text, BLOCK_ROWS)]:
            n_columns = n_columns or len(lines[0])
            for number, line in enumerate(lines, n_done + 1):
                if not line or line.strip("01") or len(line) != n_columns:
                    expected = f"a code of {n_columns or 'as many'} digits 0 and 1"
                    raise InvalidInput(where=f"{path}, line {number}", expected=expected, got=repr(line[:60]))
            n_done += len(lines)
            yield Block(Codes.from_pgvector(lines, width.n_models))
