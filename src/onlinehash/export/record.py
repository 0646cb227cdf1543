"""The record of exports: what a store was given so far, so that the next export writes only what is different.

It has an item's id, its code and a digest of its payload. An index does not know this itself: a refresh may change any
code, and of removed items nothing is left. In return it works with every index, and for any number of stores that were
loaded at different times.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import FormatError, InvalidInput, OnlineHashError
from onlinehash.export.changes import Contents
from onlinehash.index.ids import Ids
from onlinehash.io import format

KIND = "export"


@dataclass(frozen=True)
class Record:
    """Ids, codes and digests of payloads, as of an export."""

    ids: Ids
    codes: Codes
    digests: np.ndarray

    @classmethod
    def of(cls, contents: Contents) -> Record:
        """What a store has after an export."""
        digests = [_digest(text) for block in contents.blocks() for text in block.texts()]
        return cls(Ids.of(contents.ids, len(contents.codes)), contents.codes, np.array(digests, np.uint64))

    def save(self, path: Path) -> None:
        """Write the record, atomically."""
        codes = self.codes
        content = {"n_bits": codes.n_bits, "n_models": codes.n_models, "codes": codes.rows()}
        format.write(path, KIND, content | {"ids": self.ids.state(), "digests": self.digests})

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what `save` wrote."""
        kind, content = format.read(path)
        if kind != KIND:
            raise InvalidInput(expected=f"a record of exports in {path}", got=f"a file of kind {checks.shown(kind)}")
        try:
            codes, ids = content["codes"], content["ids"]
            n_bits, n_models = (format.whole(content[name], name, 1) for name in ("n_bits", "n_models"))
            packed = Codes.from_rows(
                format.like(codes, np.empty(codes.shape, np.uint8), "codes", 0, 255), n_bits, n_models
            )
            digests = content["digests"]
            digests = format.like(digests, np.empty(len(codes), np.uint64), "digests", 0, 2.0**64)
            return cls(Ids.from_state(ids, len(codes)), packed.checked(), digests)
        except (OnlineHashError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"{path} does not hold a usable record of exports: {checks.shown(error)}.") from None

    def difference(self, new: Record) -> tuple[np.ndarray, tuple[Any, ...]]:
        """Positions of the new record that are not as here, and the ids that are here only."""
        if (self.codes.n_bits, self.codes.n_models) != (new.codes.n_bits, new.codes.n_models):
            raise InvalidInput(
                f"the earlier export had {self.codes!r}, and the index has {new.codes!r}; export everything anew."
            )
        theirs = new.ids.at(np.arange(len(new.codes)))
        before = self.ids.places(theirs)
        known = np.flatnonzero(before >= 0)
        old = before[known]
        same = (self.codes[old].rows() == new.codes[known].rows()).all(axis=1)
        same &= self.digests[old] == new.digests[known]
        changed = np.ones(len(theirs), np.bool_)
        changed[known[same]] = False
        gone = np.ones(len(self.codes), np.bool_)
        gone[old] = False
        return np.flatnonzero(changed), tuple(self.ids.at(np.flatnonzero(gone)).tolist())


def _digest(text: str | None) -> int:
    return 0 if text is None else int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
