"""`encode` and `recode`: codes of a whole source, part by part, in a folder of Parquet files.

Repeating a call with the same encoder, source and folder resumes it: undamaged parts are kept.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.bulk import folder as folders
from onlinehash.bulk.engine import Engine
from onlinehash.bulk.engines import engine_of
from onlinehash.bulk.folder import Manifest, part_path
from onlinehash.bulk.partitions import Partition, Rows
from onlinehash.bulk.parts import Part, is_there, read_part, write_part
from onlinehash.bulk.sources import Source, open_source
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.ranking import encoder_of
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder

FilePath = str | os.PathLike[str]


class Report(NamedTuple):
    """The result: codes and parts in the folder, and how many of the parts were there already.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LSH, bulk
    >>> X = np.eye(4, dtype=np.float32)
    >>> np.save("vectors.npy", X)
    >>> learner = LSH(n_bits=8, random_state=0).fit(X)
    >>> bulk.encode(learner, "vectors.npy", "codes", on="local://1")
    Report(n=4, n_parts=1, n_found=0)
    >>> bulk.encode(learner, "vectors.npy", "codes", on="local://1")  # again: the part is there already
    Report(n=4, n_parts=1, n_found=1)
    """

    n: int
    n_parts: int
    n_found: int


def encode(
    model: Encoder | Learner, source: FilePath | Source, target: FilePath, on: str | Engine | None = None
) -> Report:
    """Encode all vectors of a source into a folder of Parquet files, part by part.

    Repeating the call with the same encoder, source and folder resumes it.

    Parameters
    ----------
    model : Encoder or Learner
    source : str, path-like or Source
        Files of vectors; `open_source` says which.
    target : str or path-like
        The folder.
    on : str or Engine, optional
        Where the work is done; see `engine_of`.

    Returns
    -------
    Report

    Raises
    ------
    InvalidInput
        If source or folder do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, bulk
    >>> X = np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)
    >>> np.save("vectors.npy", X)
    >>> learner = OnlineHashing(n_bits=32, random_state=0).observe(X)
    >>> bulk.encode(learner, "vectors.npy", "codes", on="local://1").n
    1000
    """
    encoder = encoder_of(model)
    check_apart(source, target)
    source = as_source(source, encoder)
    manifest = Manifest.of(encoder, source)
    return _make(Making(encoder, Path(target).absolute(), manifest), source, on, "encoding")


def recode(
    model: Encoder | Learner,
    older: Encoder,
    source: FilePath | Source,
    codes: FilePath,
    target: FilePath,
    on: str | Engine | None = None,
) -> Report:
    """Encode a source again, from its codes by an older encoder; only the bits that changed are computed.

    Parameters
    ----------
    model : Encoder or Learner
    older : Encoder
        The one that made the codes.
    source : str, path-like or Source
    codes : str or path-like
        The folder of the codes.
    target : str or path-like
        Another folder.
    on : str or Engine, optional
        Where the work is done; see `engine_of`.

    Returns
    -------
    Report

    Raises
    ------
    InvalidInput
        If source, codes or folder do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, bulk
    >>> X = np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)
    >>> np.save("vectors.npy", X)
    >>> learner = OnlineHashing(n_bits=32, random_state=0).observe(X)
    >>> older = learner.snapshot()
    >>> _ = bulk.encode(older, "vectors.npy", "codes", on="local://1")
    >>> _ = learner.learn_pair(X[0], X[1], similar=True)
    >>> _ = bulk.recode(learner, older, "vectors.npy", "codes", "new", on="local://1")
    >>> bulk.read_codes("new").codes == learner.encode(X)
    True
    """
    encoder = encoder_of(model)
    check_apart(source, target)
    source = as_source(source, encoder)
    if (older.n_bits, older.n_models) != (encoder.n_bits, encoder.n_models):
        raise InvalidInput(
            expected=f"an older encoder whose codes are of the same kind as those of {encoder!r}", got=repr(older)
        )
    begun = complete_manifest(codes, older)
    if begun.source != source.digest:
        raise InvalidInput(f"{codes} does not hold codes of this source, cut into the same partitions.")
    if Path(codes).resolve() == Path(target).resolve():
        raise InvalidInput(f"the new codes need a folder of their own, got that of the old ones, {target}.")
    origin = Origin(Path(codes).absolute(), begun, encoder.changed_bits(older))
    making = Making(encoder, Path(target).absolute(), Manifest.of(encoder, source), origin)
    return _make(making, source, on, "recoding")


def as_source(source: FilePath | Source, encoder: Encoder | None = None) -> Source:
    """The source at a path, whose vectors must be as wide as the encoder expects."""
    opened = source if isinstance(source, Source) else open_source(source)
    if encoder is not None and opened.n_features != encoder.n_features:
        raise InvalidInput(
            expected=f"vectors of {encoder.n_features} numbers for {encoder!r}", got=f"{opened.n_features}"
        )
    return opened


def check_apart(source: FilePath | Source, target: FilePath) -> None:
    """Refuse a target inside the source: the next call would read it as vectors."""
    root = source.root if isinstance(source, Source) else Path(source).resolve()
    if root is not None and root in (Path(target).resolve(), *Path(target).resolve().parents):
        raise InvalidInput(f"{target} is inside {root}, which holds the vectors; choose a folder outside.")


def complete_manifest(folder: FilePath, encoder: Encoder | None = None) -> Manifest:
    """The manifest of a complete folder, made by the given encoder."""
    manifest = folders.read_manifest(folder)
    if not manifest.complete:
        raise InvalidInput(f"the codes in {folder} are incomplete; run encode again to finish them.")
    if encoder is not None and manifest.encoder != folders.encoder_digest(encoder):
        raise InvalidInput(
            f"the codes in {folder} were made by another encoder (version {manifest.version}), not by {encoder!r}."
        )
    return manifest


class Origin(NamedTuple):
    """The older codes, and the columns to recompute."""

    folder: Path
    manifest: Manifest
    columns: np.ndarray


@dataclass(frozen=True)
class Making:
    """Makes one part, unless it is there; this is what is sent to workers."""

    encoder: Encoder
    target: Path
    manifest: Manifest
    origin: Origin | None = None

    def __call__(self, numbered: tuple[int, Partition]) -> bool:
        """Make the part; returns whether it was there already."""
        number, partition = numbered
        path, stamp = part_path(self.target, number), self.manifest.stamp(number)
        if is_there(path, stamp):
            return True
        old = None if self.origin is None else self._old(number)
        codes: list[Codes] = []
        others: dict[str, list[Any]] = {}
        for rows in partition.blocks():
            codes.append(self._codes(rows, partition, old))
            for name, values in rows.others.items():
                others.setdefault(name, []).append(values)
        write_part(path, Codes.concatenate(codes), partition.first, others, stamp)
        return False

    def _old(self, number: int) -> Part:
        assert self.origin is not None  # asked for by who has one
        return read_part(part_path(self.origin.folder, number), self.origin.manifest.stamp(number))

    def _codes(self, rows: Rows, partition: Partition, old: Part | None) -> Codes:
        try:
            if old is None or self.origin is None:
                return self.encoder.encode(rows.X)
            start = rows.first - partition.first
            return self.encoder.recode(old.codes[start : start + len(rows.X)], rows.X, self.origin.columns)
        except InvalidInput as error:
            raise InvalidInput(f"{partition.path}: {_in_source(rows, error)}") from None


def _in_source(rows: Rows, error: InvalidInput) -> str:
    """What is wrong with some rows, with the row's number in the source."""
    if rows.X.dtype.kind == "f" and not (finite := np.isfinite(rows.X).all(axis=1)).all():
        return f"row {rows.first + int(np.argmin(finite))} of the source has values that are not finite."
    return str(error)


def _make(making: Making, source: Source, on: str | Engine | None, doing: str) -> Report:
    numbered = list(enumerate(source.partitions))
    with engine_of(on) as engine:
        folders.begin(making.target, making.manifest)
        with folders.keeping(making.target):
            n_found = sum(was_there for _, was_there in engine.map(making, numbered, doing))
    folders.write_manifest(making.target, dataclasses.replace(making.manifest, complete=True))
    return Report(source.n_rows, len(numbered), n_found)
