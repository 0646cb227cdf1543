"""The bar of long work: on a terminal only, and it says when kernels are compiled first."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import rich.console

from onlinehash.numeric import kernels
from onlinehash.progress import progress_bar


def _four_times(x: int) -> int:
    return 4 * x


def test_compiling_is_shown_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    console = rich.console.Console(file=terminal, force_terminal=True, width=100)
    monkeypatch.setattr(rich.console, "Console", lambda stderr: console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(kernels, "cache_folder", lambda: tmp_path)

    def shown() -> str:
        text = terminal.getvalue()
        terminal.seek(0)
        terminal.truncate()
        return text

    with progress_bar() as show:
        show(0.5, "10 items")
        assert kernels.njit(cache=True)(_four_times)(2) == 8
        assert "compiling kernels (first run only)" in shown()
    last = shown()  # as it was, once that is over
    assert "10 items" in last
    assert "compiling" not in last
    with progress_bar():
        assert kernels.njit(cache=True)(_four_times)(2) == 8
    assert "compiling" not in shown()  # as another run finds it on the disk


def test_nothing_is_shown_where_nobody_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar() as show:
        assert kernels.njit(cache=True)(_four_times)(2) == 8
        show(0.5, "10 items")
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
