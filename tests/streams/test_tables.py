"""Positions in files, as an index stores them."""

from __future__ import annotations

import pytest

from onlinehash.errors import InvalidInput
from onlinehash.streams.tables import FilePosition
from onlinehash.types import Json


def test_a_position_comes_back_from_json() -> None:
    position = FilePosition(7, "ab12")
    assert FilePosition.of(position.as_json()) == position
    assert FilePosition.of(None) == FilePosition(0, None)


@pytest.mark.parametrize("stored", [17, {"rows": "7"}])
def test_another_kind_of_position_is_refused(stored: Json) -> None:
    with pytest.raises(InvalidInput, match="expected a position in a file") as refused:
        FilePosition.of(stored)
    assert refused.value.got == repr(stored)
