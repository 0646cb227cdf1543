"""The folder of an encoded source: parts, and a manifest that lists them and names source and encoder.

The manifest is written before the first part, so that parts of another source or encoder are never mixed in, and again
when all parts are there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onlinehash import checks
from onlinehash.bulk.parts import Stamp
from onlinehash.bulk.sources import Source
from onlinehash.errors import FormatError, InvalidInput, ServiceUnavailable, StorageError
from onlinehash.io import files
from onlinehash.io.atomic import make_folders, replacing
from onlinehash.learners.encoder import Encoder

MANIFEST = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """What is in the folder, or will be: `encoder` and `source` are digests, `parts` the parts' rows and digests."""

    n_bits: int
    n_models: int
    version: int
    encoder: str
    source: str
    parts: list[tuple[int, str]]
    complete: bool = False

    @classmethod
    def of(cls, encoder: Encoder, source: Source) -> Manifest:
        """Of the codes that an encoder will give a source."""
        parts = [(p.n_rows, hashlib.sha256(p.identity.encode()).hexdigest()) for p in source.partitions]
        return cls(encoder.n_bits, encoder.n_models, encoder.version, encoder_digest(encoder), source.digest, parts)

    @property
    def n_rows(self) -> int:
        return sum(n_rows for n_rows, _ in self.parts)

    def stamp(self, number: int) -> Stamp:
        """The stamp that a part must have."""
        n_rows, source = self.parts[number]
        return Stamp(self.encoder, source, n_rows, self.n_bits, self.n_models)


def encoder_digest(encoder: Encoder) -> str:
    """Of the bytes of its file."""
    return hashlib.sha256(files.to_bytes(encoder)).hexdigest()


def part_path(folder: Path, number: int) -> Path:
    """Where a part is."""
    return folder / f"part-{number:06}.parquet"


def begin(folder: Path, manifest: Manifest) -> None:
    """Create the folder, or use one for the same codes; anything else is refused."""
    if (folder / MANIFEST).exists():
        found = read_manifest(folder)
        if found.encoder != manifest.encoder:
            raise InvalidInput(
                f"{folder} has codes by another encoder (version {found.version}, this one is version "
                f"{manifest.version}); choose a new folder, or recode into one."
            )
        if found.source != manifest.source:
            raise InvalidInput(
                f"{folder} has codes of another source, or of this one before it was changed or cut into "
                "other partitions; choose a new folder."
            )
        return
    new_folder(folder, "codes")
    write_manifest(folder, manifest)


def new_folder(folder: Path, what: str) -> None:
    """Create a folder, unless it exists and is empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"the {what} need a new or empty folder, and {folder} is neither.")
    try:
        make_folders(folder)
    except OSError as error:
        raise InvalidInput(f"cannot create the folder {folder}: {error.strerror}.") from None


@contextmanager
def keeping(folder: Path) -> Iterator[None]:
    """Add to errors that finished parts are kept."""
    try:
        yield
    except (ServiceUnavailable, StorageError) as error:
        raise type(error)(f"{str(error).removesuffix('.')}: what is done is kept.") from None
    for leftover in folder.glob("*.part"):  # what workers had begun to write when they were killed
        leftover.unlink(missing_ok=True)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, replacing an existing one."""
    with replacing(folder / MANIFEST) as file:
        file.write(json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1).encode())


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """The manifest of a folder of codes."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise InvalidInput(f"{folder} is not a folder of codes: it has no {MANIFEST}; create one with encode.")
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        if document.pop("format") != FORMAT:
            raise FormatError(f"{path} is not of format {FORMAT}; upgrade onlinehash.")
        parts = [(int(n_rows), str(digest)) for n_rows, digest in document.pop("parts")]
        return Manifest(parts=parts, **document)
    except FormatError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path} is damaged ({checks.shown(error)}); choose a new folder.") from None
