"""Positions: how far an index has read sources such as Kafka topics and Redis streams.

A position is stored in the same transaction as the change that was made from what was read. So whoever continues from
there after a crash repeats nothing and skips nothing.
"""

from __future__ import annotations

import json
from typing import Any

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.live.attachments import Attachment

#: Characters that the name of a source may have, and bytes of JSON of a position.
LONGEST_SOURCE, LONGEST_POSITION = 1024, 65536


def checked(source: Any, position: Any) -> str:
    """The position as JSON, if it is some, and the source is a name."""
    if not isinstance(source, str) or not 0 < len(source) <= LONGEST_SOURCE:
        raise InvalidInput(
            expected=f"the name of a source, a text of 1 to {LONGEST_SOURCE} characters", got=checks.shown(source)
        )
    try:
        text = json.dumps(position, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(expected="a position that JSON can hold", got=checks.shown(position)) from None
    if len(text) > LONGEST_POSITION:
        raise InvalidInput(expected=f"a position of at most {LONGEST_POSITION} bytes of JSON", got=f"{len(text)}")
    return text


class Reached(Attachment):
    """How far a source was read with the change; `positions` are those of an index in memory, as JSON texts."""

    def __init__(self, positions: dict[str, str], source: str, position: Any) -> None:
        text = checked(source, position)
        super().__init__(f"reached({checks.shown(source)})")
        self._positions, self._source, self._text = positions, source, text

    def write(self, store: Any) -> None:
        store.put_position(self._source, json.loads(self._text))

    def keep(self) -> None:
        self._positions[self._source] = self._text
