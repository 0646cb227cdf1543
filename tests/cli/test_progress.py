"""The bar of long work: on a terminal only, and honest about what nobody knows."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
import rich.console
import rich.progress
from rich.console import Console

from onlinehash.progress import progress_bar


def test_a_bar_with_a_share_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[rich.progress.Progress] = []

    class Bar(rich.progress.Progress):
        def __init__(self, *columns: Any, **options: Any) -> None:
            super().__init__(*columns, **options)
            bars.append(self)

    def state() -> tuple[str, float | None, float]:
        task = bars[0].tasks[0]
        return task.description, task.total, task.completed

    terminal = io.StringIO()
    monkeypatch.setattr(rich.progress, "Progress", Bar)
    console = Console(file=terminal, force_terminal=True, width=100)
    monkeypatch.setattr(rich.console, "Console", lambda stderr: console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar(2) as show:
        show(1.0, "10 items")
        assert state() == ("10 items", 2, 1.0)
        show(None, "building")
        assert state() == ("building", None, 0)
        show(2.0, "20 items")
    assert "20 items" in terminal.getvalue()


def test_no_bar_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as show:
        show(0.5, "10 items")
        show(None, "building")
    assert capfd.readouterr() == ("", "")
