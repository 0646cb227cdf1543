"""Receipts: a change that is retried, because nobody knows whether it was made, must not be made twice.

The caller gives a change a key, and a digest of what was asked for. Both are stored with the outcome, in the same
transaction as the change, so there is a receipt if and only if the change was made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.index import keys as arrays
from onlinehash.index.ids_kernels import Keys
from onlinehash.io import format
from onlinehash.learners.update import Updates
from onlinehash.live.attachments import Attachment
from onlinehash.live.sqlite.receipts import Book, Stored, size

#: Characters that a key and a digest may have.
LONGEST = 256

_TEXT = (f"a text of 1 to {LONGEST} characters", lambda text: isinstance(text, str) and 0 < len(text) <= LONGEST)


class MadeAlready(InvalidInput):
    """The change with this key was made before, perhaps by another process a moment ago."""


class MemoryReceipts:
    """The last receipts of an index in memory."""

    def __init__(self) -> None:
        self._book, self._stored = Book(), dict[str, Stored]()

    def put(self, name: str, digest: str, value: bytes) -> None:
        """Add one; the oldest are dropped."""
        n_bytes = size(name.encode(), digest.encode(), value)
        for old in self._book.too_old(n_bytes):
            self._book.drop(old)
            del self._stored[old]
        self._book.enter(name, n_bytes)
        self._stored[name] = digest, value

    def get(self, name: str) -> Stored | None:
        """The receipt of a name."""
        return self._stored.get(name)

    def all(self) -> list[tuple[str, str, bytes]]:
        """Name, digest and outcome of each, oldest first."""
        return [(name, *stored) for name, stored in self._stored.items()]


class Once(Attachment):
    """The receipt of a change that is to be made once."""

    def __init__(self, receipts: MemoryReceipts, key: str, digest: str) -> None:
        super().__init__(f"once({checks.shown(key)})")
        self._receipts, self.key, self._digest, self._value = receipts, key, digest, b""

    @property
    def stored(self) -> Stored:
        """What is stored under the key, once the change is made."""
        return self._digest, self._value

    def prepare(self, outcome: object) -> None:
        self._value = bytes_of(outcome)

    def write(self, store: Any) -> None:
        store.put_receipt(self.key, *self.stored)

    def keep(self) -> None:
        self._receipts.put(self.key, *self.stored)


def checked(key: Any, digest: Any) -> None:
    """Raise unless key and digest are short strings."""
    checks.parameters("once", {"key": key, "digest": digest}, {"key": _TEXT, "digest": _TEXT})


def made_already(key: str) -> MadeAlready:
    """The error for a key that has a receipt."""
    return MadeAlready(f"the change with key {checks.shown(key)} was made already; receipt(key) has its outcome.")


# ------------------------------------------------------------------------------------------------ outcomes


def bytes_of(outcome: Any) -> bytes:
    """An outcome as bytes: ids, `Updates` or None."""
    if outcome is None:
        return format.to_bytes("receipt", {"what": "nothing"})
    if isinstance(outcome, Updates):
        fields = vars(outcome) | {"replayed": {str(t): bits for t, bits in outcome.replayed.items()}}
        return format.to_bytes("receipt", {"what": "updates", "updates": fields})
    return format.to_bytes("receipt", {"what": "ids", "ids": arrays.given(outcome)._asdict()})


def outcome_of(data: bytes, name: str) -> Any:
    """The outcome that had these bytes."""
    content = format.from_bytes(data, name)[1]
    try:
        if content["what"] == "updates":
            fields = content["updates"]
            return Updates(**fields | {"replayed": {int(t): bits for t, bits in fields["replayed"].items()}})
        if content["what"] == "ids":
            ids = Keys(**content["ids"])
            return arrays.shown_at(ids, np.arange(arrays.count(ids)))
        if content["what"] == "nothing":
            return None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FormatError(expected=f"the outcome of a change in the {name}", got=checks.shown(error)) from None
    raise FormatError(expected=f"the outcome of a change in the {name}", got=checks.shown(content["what"]))
