"""What an index must know besides its items and its learner when it is opened: checked, as a file can say anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onlinehash import checks
from onlinehash.index.api import Counters
from onlinehash.io import format
from onlinehash.live import policies
from onlinehash.live.sqlite.checksums import damaged
from onlinehash.live.table import KINDS


def check_settings(settings: Any, folder: Path) -> None:
    """Refuse settings that no index has written.

    Raises
    ------
    FormatError
        If a field is missing, or is not what it must be.
    """
    try:
        numbers = [settings["serial"], *settings["counters"]]
        sound = settings["index"] in KINDS and type(settings["paused"]) is bool and "refresh" in settings
        sound &= len(numbers) == 1 + len(Counters._fields)
        sound &= all(type(number) is int and 0 <= number <= format.MOST for number in numbers)
        sound &= isinstance(settings.get("embed", {}), dict)
    except (LookupError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise damaged(folder, "settings", 0, f"expected those of an index, got {checks.shown(settings)}")
    if settings["refresh"] is not None:
        policies.from_specification(settings["refresh"])
