"""The interface of a stream of messages, as needed to apply each exactly once.

A position says how far a stream was read. The index stores it in the transaction of the messages, and it alone decides
where reading continues. Acknowledgements are for the broker only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One message: its place in the stream, its bytes (None if it has none), and how the broker knows it."""

    place: str
    data: bytes | None
    original: Any


class Source(ABC):
    """A stream, read by one reader. `ServiceUnavailable` says that the broker is away: `begin` again, later."""

    name: str  #: Under which the index keeps positions.
    at_end: bool = False  #: Whether there was nothing more to read, the last time.

    @abstractmethod
    def check(self) -> None:
        """Refuse, or say that the broker is away, before anything is made of this."""

    @abstractmethod
    def begin(self, position: Any) -> None:
        """Read on after this position; None: from the first message there is."""

    @abstractmethod
    def read(self, n: int, wait: float) -> list[Entry]:
        """Up to n messages, in their order; waits at most so many seconds for the first."""

    @abstractmethod
    def is_past(self, position: Any, entry: Entry) -> bool:
        """Whether the position says that this entry was taken already."""

    @abstractmethod
    def advanced(self, position: Any, entries: Sequence[Entry]) -> Any:
        """The position after these entries, which come after it."""

    @abstractmethod
    def acknowledge(self, entries: Sequence[Entry]) -> None:
        """Tell the broker that these are done with."""

    @abstractmethod
    def bury(self, entry: Entry, reason: str) -> None:
        """Keep a message that cannot be used at the broker, apart from the others, before it is passed over."""

    @abstractmethod
    def lag(self) -> int | None:
        """How many messages are still to be read; None if the broker cannot tell."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the broker."""
