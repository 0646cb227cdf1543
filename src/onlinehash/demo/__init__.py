"""The main job on embedded data: learn to hash handwritten digits from pairs, and report what that did."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from onlinehash import checks
from onlinehash.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from onlinehash.demo.contest import Result

__all__ = ["run"]


def run(report: str | Path = "report.html", seed: int = 0, console: Console | None = None) -> list[Result]:
    """Learn with every contender, show it on the console, write the report; the results, a row per contender.

    Everything but the timings follows from the seed.
    """
    from rich.console import Console

    from onlinehash.demo import contest, digits, display
    from onlinehash.demo.report import page

    checks.parameters("the demo", {"seed": seed}, {"seed": checks.integer(0)})
    report = Path(report)
    if report.is_dir() or not os.access(report.parent, os.W_OK):
        raise InvalidInput(f"cannot write the report to {report}: no such folder, or permission is denied.")
    console = console or Console()
    data = digits.load(seed, contest.N_PAIRS)
    console.print(f"Learning to hash handwritten digits from {contest.N_PAIRS:,} pairs.")
    outcomes = display.watch(contest.contenders(seed, len(data.X_base)), data, console)
    floats = contest.floats(data)
    results = [floats.result, *(outcome.result for outcome in outcomes)]
    report.write_text(page(floats, outcomes, data, seed), encoding="utf-8")
    console.print(display.table(results))
    console.print(f"Report with plots and pictures: {report}", soft_wrap=True)
    return results
