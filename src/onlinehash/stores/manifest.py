"""What the head of a backend says: all that an index must know besides its rows and blobs, as plain JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError
from onlinehash.index.api import Counters
from onlinehash.live.queries import VectorKind
from onlinehash.stores.backend import ERA, Head


class Kept(NamedTuple):
    """An encoder that is kept: its number among all that ever were, the pairs it was learned from, its version."""

    serial: int
    n_pairs: int
    version: int

    @property
    def blob(self) -> str:
        """Under which name. The same functions may be kept again as of a later version of the learner."""
        return f"encoder/{self.serial}.{self.version}"


class Log(NamedTuple):
    """The learner's log: a checkpoint, and the numbered lessons since."""

    first: int = 0
    next: int = 0
    n_bytes: int = 0  #: Of the lessons.
    checkpoint_bytes: int = 0  #: 0 if the learner may draw another seed when it is taught again.

    @property
    def checkpoint(self) -> str:
        """The name of the checkpoint."""
        return f"learner/{self.first}"

    def lessons(self, first: int | None = None) -> list[str]:
        """The names of the lessons, from one on."""
        return [f"event/{number}" for number in range(self.first if first is None else first, self.next)]


#: Places that a refresh recoded at a time before its parts had a size of their own.
OLD_SIZE = 8192

_NOT_TAUGHT, _NOT_REFRESHED = Log(), Counters()


@dataclass(frozen=True)
class Pending:
    """A refresh that is under way: what it leads to, who began it or took it up, and how far it is.

    Places are cut into parts of equal size, numbered from 0, which several workers may write in any order.
    """

    to: Kept
    pause: bool
    worker: str
    n: int  #: Items when it began.
    size: int  #: Places of a part.
    done: int = -1  #: Places up to this one have new codes.
    ahead: tuple[int, ...] = ()  #: Parts beyond it that have new codes.
    redo: tuple[int, ...] = ()  #: Places with new codes that were changed afterwards.
    flipped: int = 0  #: Bits that differ.
    replaced: int = 0  #: Codes that differ.

    def again(self) -> Pending:
        """From the beginning."""
        return Pending(self.to, self.pause, self.worker, self.n, self.size)

    def has_passed(self, places: np.ndarray) -> np.ndarray:
        """Which places are in parts that are written."""
        return (places <= self.done) | np.isin(places // self.size, self.ahead)

    def unwritten(self, next_place: int) -> Iterator[int]:
        """The parts that are not written yet."""
        parts = range((self.done + 1) // self.size, -(-next_place // self.size))
        return (part for part in parts if part not in self.ahead)

    def written(self, part: int) -> Pending:
        """One more part is."""
        done, ahead = self.done, {*self.ahead, part}
        while (done + 1) // self.size in ahead:
            ahead.remove((done + 1) // self.size)
            done += self.size
        return replace(self, done=done, ahead=tuple(sorted(ahead)))


@dataclass(frozen=True)
class State:
    """The state of an index, as of one epoch."""

    refresh: dict[str, Any] | None
    log: Log = _NOT_TAUGHT
    serial: int = 0
    paused: bool = False
    counters: Counters = _NOT_REFRESHED
    versions: tuple[Kept, ...] = ()
    ids: str | None = None  #: None before the first; then `range` (each is its place), `integers` or `strings`.
    next_id: int = 0
    next_place: int = 0
    n: int = 0
    n_features: int = 0
    dtype: str = "float32"
    pending: Pending | None = None
    positions: str = "{}"  #: JSON in JSON: there are texts that not every database takes in its own.
    changed: int = 0  #: Items that were added, changed and removed so far.
    dead: int = 0  #: About how many rows have died and are still there.
    horizon: int = 0  #: Rows that died at this epoch or before may be gone.
    embed: dict[str, Any] | None = None  #: The facts of the embedder that makes vectors of texts.
    litter: tuple[str, ...] = ()  #: Blobs that no reader of this state needs; the next change drops them.

    @property
    def vector_kind(self) -> VectorKind:
        """Width and type of the vectors."""
        return VectorKind(self.n_features, np.dtype(self.dtype))

    @property
    def n_updates(self) -> int:
        """How often items were updated so far: what was changed, less what was added and removed."""
        n_removed = self.next_place - self.n
        return self.changed - self.next_place - n_removed

    def json(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, head: Head, address: str) -> Self:
        """What a head says."""
        try:
            values = dict(head.state)
            pending = values["pending"]
            values |= {
                "log": Log(*values["log"]),
                "counters": Counters(*values["counters"]),
                "versions": tuple(Kept(*version) for version in values["versions"]),
                "litter": tuple(values["litter"]),
            }
            if pending is not None:
                pending = {"size": OLD_SIZE, "ahead": ()} | pending
                lists = {name: tuple(pending[name]) for name in ("ahead", "redo")}
                values["pending"] = Pending(**pending | {"to": Kept(*pending["to"])} | lists)
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                expected=f"the head of an index in {address}",
                got=f"one that is not ({checks.shown(error)})",
                hint="open it with the release of onlinehash that made it",
            ) from None


class Moment(NamedTuple):
    """What a reader sees: an epoch, and the state as of then."""

    epoch: int
    state: State

    @property
    def next_era(self) -> int:
        """The first epoch of the next era."""
        return (self.epoch // ERA + 1) * ERA

    @property
    def present(self) -> Kept | None:
        """The encoder of the codes."""
        return next((kept for kept in self.state.versions if kept.serial == self.state.serial), None)
