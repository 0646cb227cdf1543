"""What the terminal shows: a bar per contender while they learn, then the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from onlinehash.demo import contest
from onlinehash.demo.digits import Digits


def watch(contenders: list[contest.Contender], digits: Digits, console: Console) -> list[contest.Outcome]:
    """Let all contenders learn the stream, and show how they do."""
    columns: Iterable[Any] = (
        TextColumn("{task.description}", style="bold"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as progress:
        warm_up = progress.add_task("compiling kernels", total=len(contenders), note="once per installation")
        for contender in contenders:
            contest.compete(contender, digits.first(10), lambda point: None)
            progress.advance(warm_up)
        progress.remove_task(warm_up)
        n_pairs = len(digits.stream.similar)
        tasks = [progress.add_task(contender.name, total=n_pairs, note="") for contender in contenders]
        outcomes = []
        for contender, task in zip(contenders, tasks, strict=True):

            def tell(point: contest.Point, task: Any = task) -> None:
                progress.update(task, completed=point.n_pairs, note=f"pairs, mAP {point.map:.3f}")

            outcomes.append(contest.compete(contender, digits, tell))
    return outcomes


def table(results: list[contest.Result]) -> Table:
    """The results, a line for each contender."""
    out = Table(box=SIMPLE_HEAD, pad_edge=False)
    out.add_column("\nlearner", style="bold", no_wrap=True)
    shares = ("mAP\nbefore", "\nafter", "pair AUC\nbefore", "\nafter")
    for heading in ("bits per\nitem", *shares, "total\nloss", "µs per\npair"):
        out.add_column(heading, justify="right", no_wrap=True)
    for r in results:
        values = (f"{value:.3f}" for value in (r.map_before, r.map_after, r.auc_before, r.auc_after))
        loss = "–" if r.cumulative_loss is None else f"{r.cumulative_loss:,.0f}"
        time = "–" if r.microseconds_per_pair is None else f"{r.microseconds_per_pair:.1f}"
        out.add_row(r.name, str(r.bits_per_item), *values, loss, time)
    return out
