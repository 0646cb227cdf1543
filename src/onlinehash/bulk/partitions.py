"""`Partition`: consecutive rows of a file, read by the worker, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from onlinehash.codes.layout import LANES

#: Bytes of vectors in a partition, where the file leaves the choice, and in a block, which is what a worker holds.
PARTITION_BYTES = 2**26
BLOCK_BYTES = 2**24


class Rows(NamedTuple):
    """Some rows: vectors, the number of the first in the whole source, and columns that travel with them."""

    X: np.ndarray
    first: int
    others: dict[str, Any]


class Columns(NamedTuple):
    """The names of columns in the files; None where there is none."""

    vector: str
    id: str | None = None
    label: str | None = None

    @property
    def others(self) -> dict[str, str]:
        """What travels with the vectors: our name, the file's."""
        return {ours: name for ours, name in (("id", self.id), ("label", self.label)) if name is not None}


@dataclass(frozen=True)
class Partition(ABC):
    """Rows of one file.

    `identity` names the file, as it is now, and the rows, so that a part made of it can be told from one made of other
    rows. `first` is the number of the first row in the whole source.
    """

    path: str
    identity: str
    first: int
    n_rows: int

    @abstractmethod
    def blocks(self) -> Iterator[Rows]:
        """The rows, so many at a time that memory stays bounded."""


def rows_in(n_bytes: int, row_bytes: int, multiple_of: int = LANES) -> int:
    """How many rows have so many bytes; a whole number of blocks of codes, or of the file's chunks."""
    return max(1, n_bytes // max(1, row_bytes * multiple_of)) * multiple_of
