"""A bar for what takes long, on standard error where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
        task = progress.add_task("starting", total=None)

        def show(done: float | None, text: str) -> None:
            progress.tasks[0].total = None if done is None else total  # which `update` would not take back to None
            progress.update(task, description=text, completed=done or 0)

        yield show
