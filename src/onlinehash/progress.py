"""A bar for what takes long, on standard error where that is a terminal.

Kernels that have to be compiled first, which may take minutes, say so on all bars that are shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: What a bar says meanwhile.
COMPILING = "compiling kernels (first run only)"

_compiling: set[str] = set()  # those that are being compiled
_bars: list[Callable[[], None]] = []  # each draws a bar anew


def compiling(kernel: str) -> None:
    """A kernel is being compiled from now on."""
    _compiling.add(kernel)
    for draw in list(_bars):
        draw()


def compiled(kernel: str) -> None:
    """It is not any more, if it was."""
    if kernel in _compiling:
        _compiling.discard(kernel)  # another thread may be faster
        for draw in list(_bars):
            draw()


@contextmanager
def progress_bar(total: int = 1) -> Iterator[Callable[[float | None, str], None]]:
    """The bar; told how much of the total is done (None where nobody knows) and what to say beside it."""
    if not sys.stderr.isatty():
        yield lambda done, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    # Times first: what is said last is cut where the terminal is narrow.
    columns = (TimeElapsedColumn(), TimeRemainingColumn(), BarColumn(20), TextColumn("{task.description}"))
    # On a terminal, lines go through the bar, which writes them above itself; a file gets them as they are.
    with Progress(
        *columns,
        console=Console(stderr=True),
        redirect_stdout=sys.stdout.isatty(),
        transient=True,
        speed_estimate_period=3600,  # of what takes a minute, the last half minute tells nothing
    ) as progress:
        task, said = progress.add_task("starting", total=None), "starting"

        def draw() -> None:
            progress.update(task, description=COMPILING if _compiling else said, refresh=True)

        def show(done: float | None, text: str) -> None:
            nonlocal said
            said = text
            progress.tasks[0].total = None if done is None else total  # which `update` would not take back to None
            progress.update(task, description=COMPILING if _compiling else said, completed=done or 0)

        _bars.append(draw)
        try:
            yield show
        finally:
            _bars.remove(draw)
