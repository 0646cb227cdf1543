"""`onlinehash encode`: vectors in, codes out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import onlinehash
from onlinehash.cli import output, summaries
from onlinehash.cli.target import check as check_target
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.streams.from_files import read_tables
from onlinehash.streams.points import PointReader

ENDINGS = (".npy", ".npz", ".txt", ".oh")


def encode(model: str, vectors: str, target: str, as_bits: bool, format: str | None, as_json: bool) -> None:
    """Codes of a file of vectors, written to a file or printed."""
    ending = "" if target == "-" else Path(target).suffix.lower()
    if target != "-" and ending not in ENDINGS:
        raise InvalidInput(expected=f"an output that ends in {', '.join(ENDINGS)}, or -", got=repr(target))
    if as_bits and ending not in (".npy", ".npz"):
        raise InvalidInput(f"--bits needs an output that ends in .npy or .npz, got {target!r}.")
    if target != "-":
        check_target(target, (model, vectors))
    encoder = load_encoder(model)
    blocks = encode_blocks(encoder, vectors, format)
    if target == "-" and not as_json:
        for block in blocks:
            sys.stdout.writelines(text_lines(block))
        return
    codes = join(blocks)
    if ending:
        _write(codes, target, ending, as_bits)
    summary = {"n": len(codes), "n_bits": codes.n_bits, "n_models": codes.n_models}
    if as_json:
        place = {"output": target} if ending else {"codes": [line.strip() for line in text_lines(codes)]}
        output.print_json(summary | {"version": encoder.version} | place)
    else:
        print(f"wrote {len(codes):,} codes of {_width(codes)} to {target}")


def encode_on(
    on: str,
    model: str,
    vectors: str,
    column: str | None,
    target: str,
    as_bits: bool,
    format: str | None,
    as_json: bool,
) -> None:
    """Encode files of any size part by part on an engine, to a folder; parts that exist are kept."""
    from onlinehash import bulk

    if as_bits or format is not None:
        raise InvalidInput(
            "--bits and --format cannot be combined with --on, which reads and writes its own kinds of files."
        )
    if target == "-":
        raise InvalidInput("--on needs --output FOLDER.")
    encoder = load_encoder(model)
    report = bulk.encode(encoder, bulk.open_source(vectors, vector=column), target, on)
    summary = {"n": report.n, "n_bits": encoder.n_bits, "n_models": encoder.n_models, "version": encoder.version}
    if as_json:
        output.print_json(summary | {"output": target, "parts": report.n_parts, "found": report.n_found})
    else:
        parts = "1 part" if report.n_parts == 1 else f"{report.n_parts:,} parts"
        found = f", {report.n_found:,} there already" if report.n_found else ""
        print(f"{report.n:,} codes of {_width(encoder)} are in {target} ({parts}{found})")


def load_encoder(path: str) -> Encoder:
    """The hash functions in a file of a learner or an encoder."""
    model = onlinehash.load(path)
    if not isinstance(model, Learner | Encoder):
        raise InvalidInput(expected=f"a learner or an encoder in {path}", got=type(model).__name__)
    return encoder_of(model, path)


def encoder_of(model: Learner | Encoder, path: str) -> Encoder:
    """The hash functions of what a file holds; where there are none yet, the command that leads to them.

    What waits for its chunk is learned for these codes, and goes on waiting in the file.
    """
    if isinstance(model, Encoder):
        return model
    try:
        return model.end_chunk().snapshot()
    except NotReady:
        raise NotReady(summaries.what_it_needs(model, path)) from None


def encode_blocks(encoder: Encoder, vectors: str, format: str | None = None) -> Iterator[Codes]:
    """The codes of a file's vectors, block by block."""
    read_points = PointReader(encoder.n_features)
    return (encoder.encode(read_points(table).X) for table in read_tables(vectors, format))


def join(blocks: Iterable[Codes]) -> Codes:
    """Blocks of codes as one."""
    parts = list(blocks)
    if not parts:
        raise InvalidInput("there are no vectors to encode.")
    return Codes.concatenate(parts)


def text_lines(codes: Codes) -> Iterator[str]:
    """A line of 0 and 1 for each code."""
    return (line + "\n" for line in codes.to_pgvector())


def _width(codes: Codes | Encoder) -> str:
    models = f" for each of {codes.n_models} models" if codes.n_models > 1 else ""
    return f"{codes.n_bits} bits{models}"


def _write(codes: Codes, target: str, ending: str, as_bits: bool) -> None:
    if ending == ".oh":
        onlinehash.save(codes, target)
    elif ending == ".txt":
        with open(target, "w", encoding="ascii") as text:
            text.writelines(text_lines(codes))
    elif ending == ".npy":
        with open(target, "wb") as file:  # NumPy would add an ending of its own to a name in capitals
            np.save(file, codes.bits() if as_bits else codes.to_faiss())
    else:
        sizes: dict[str, Any] = {"n_bits": codes.n_bits, "n_models": codes.n_models}
        with open(target, "wb") as file:
            np.savez(file, **sizes | ({"bits": codes.bits()} if as_bits else {"packed": codes.to_faiss()}))
