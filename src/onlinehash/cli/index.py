"""`onlinehash index`: creates an index file from vectors or codes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

import onlinehash
from onlinehash.cli import inputs, output, summaries
from onlinehash.cli.encode import load_encoder
from onlinehash.cli.target import check as check_target
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.index.base import Index
from onlinehash.index.flat import FlatIndex
from onlinehash.index.multi_index import MultiIndex
from onlinehash.progress import progress_bar
from onlinehash.streams.array_tables import map_array

KINDS: dict[str, type[FlatIndex | MultiIndex]] = {"flat": FlatIndex, "multi": MultiIndex}

#: From so many codes of at most so many bits on, tables are worth their memory (docs/how-to/search.md has the figures).
MANY, SHORT = 3_000_000, 64


def index(
    source: str,
    target: str,
    model: str | None,
    kind: str | None,
    ids: str | None,
    fusion: str | None,
    format: str | None,
    as_json: bool,
) -> None:
    """An index of a file's vectors or codes, saved with the encoder of the model."""
    ids_file = ids if ids is not None and os.path.isfile(ids) else None
    check_target(target, (source, model, ids_file))
    encoder = load_encoder(model) if model else None
    listed = _listed(ids_file) if ids_file else None
    width = inputs.Width(encoder.n_bits, encoder.n_models) if encoder else inputs.Width()
    began = time.perf_counter()
    with progress_bar() as show_progress:
        parts, id_blocks, n = [], [], 0
        for block in inputs.read_blocks(source, format, encoder, width, None if ids_file else ids):
            parts.append(block.codes)
            if block.ids is not None:
                id_blocks.append(block.ids)
            n += len(block.codes)
            show_progress(block.share, f"{n:,} items")
        if ids is not None and listed is None and not id_blocks:
            raise InvalidInput(f"no such file of ids: {ids}; codes have no columns that could hold them.")
        if listed is None and id_blocks:
            listed = inputs.join_ids(id_blocks)
        codes = Codes.concatenate(parts)
        parts.clear()
        fusion = fusion or (encoder.fusion if encoder else "min")
        show_progress(None, "building")
        made = KINDS[kind or best_kind(codes, fusion)](codes, listed, fusion=fusion, encoder=encoder)
        show_progress(None, "saving")
        onlinehash.save(made, target)
    _tell(made, target, time.perf_counter() - began, as_json)


def best_kind(codes: Codes, fusion: str) -> str:
    """Tables for many short codes; few are scanned as fast, and long ones hardly agree in a part."""
    bits = codes.n_columns if fusion == "sum" else codes.n_bits
    return "multi" if len(codes) >= MANY and bits <= SHORT else "flat"


def _listed(path: str) -> np.ndarray:
    """A file of ids: an npy, or text with one per line."""
    if Path(path).suffix.lower() == ".npy":
        return map_array(path)
    try:
        with open(path, encoding="utf-8-sig") as lines:
            return inputs.from_text([line.rstrip("\n") for line in lines])
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is neither an npy file nor UTF-8 text with one id per line.") from None


def _tell(made: Index, target: str, seconds: float, as_json: bool) -> None:
    numbers, n_bytes = summaries.indexed(made), os.path.getsize(target)
    if as_json:
        output.print_json({"output": target, "bytes": n_bytes, "seconds": seconds} | numbers)
    else:
        words = summaries.index_in_words(numbers)
        words |= {"time": f"{seconds:.2f} s", "saved": f"{n_bytes:,} bytes, as {target}"}
        output.print_columns(list(words.items()))
