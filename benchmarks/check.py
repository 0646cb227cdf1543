"""Ratios of a short run beside those that were kept for this architecture: what moved by more than 15 %?

    python benchmarks/check.py            compare; the exit status is 0 whatever moved
    python benchmarks/check.py --strict   exit with 1 where something is worse
    python benchmarks/check.py --keep     write the ratios of this run in place of the kept ones

Every ratio is a time over that of a peer or a limit which was measured in turn with it, so it says little about the
machine; it still differs between processors, hence one file for each architecture. A change smaller than the spread of
its own run is called noise.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from ratio import Pair, Ratio, merged
from rich.console import Console
from rich.table import Table

#: Benchmarks with a function `compared`, which gives pairs of times.
BENCHMARKS = ("learn", "encode", "flat", "ranking", "multi_index", "http_peak")

#: Everything is measured so many times, minutes apart, because a machine that is busy now may be quiet later.
PASSES = 3

#: A ratio has moved where it changed by more than this.
MOVED = 0.15

KEPT = Path(__file__).parent / "ratios"


class Row(NamedTuple):
    """A ratio beside the kept one; the change is that of the cost: 0.2 is a fifth worse, whatever is better."""

    name: str
    kept: float | None
    now: float | None
    change: float | None
    spread: float
    verdict: str


def compare(kept: dict[str, dict[str, float]], now: Iterable[Ratio]) -> list[Row]:
    """One row for each ratio of this run, in its order, and then for each that was kept and is gone."""
    rows = []
    gone = dict(kept)
    for name, value, spread, better in now:
        if name not in kept:
            rows.append(Row(name, None, value, None, spread, "new"))
            continue
        before = gone.pop(name)
        cost, cost_before = (x if better == "lower" else 1 / x for x in (value, before["value"]))
        change = cost / cost_before - 1
        spread = max(spread, before["spread"])
        rows.append(Row(name, before["value"], value, change, spread, judged(change, spread)))
    return rows + [Row(name, before["value"], None, None, before["spread"], "gone") for name, before in gone.items()]


def judged(change: float, spread: float) -> str:
    if abs(change) <= MOVED:
        return "same"
    if abs(change) <= spread:
        return "noise"
    return "worse" if change > 0 else "better"


def measured(seconds: float) -> list[Ratio]:
    """The ratios of all benchmarks, each measured for about so many seconds."""
    return merged((found for name in BENCHMARKS for found in _compared(name, seconds / PASSES)) for _ in range(PASSES))


def _compared(name: str, seconds: float) -> Iterator[Pair]:
    print(f"measuring: {name}", file=sys.stderr)
    yield from import_module(name).compared(seconds)


def machine() -> dict[str, str]:
    """Where ratios come from."""
    from common import machine

    found = {"cpu": machine().partition(" (")[0], "date": date.today().isoformat(), "python": platform.python_version()}
    for package in ("numpy", "numba", "faiss-cpu"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def table(rows: list[Row]) -> Table:
    """What `rows` say, for people."""
    shown = Table("ratio", "kept", "now", "change", "spread", "verdict", box=None, pad_edge=False)
    for column in shown.columns[1:5]:
        column.justify = "right"
    colours = {"worse": "red", "better": "green", "noise": "yellow"}
    for row in rows:
        kept, now = ("" if value is None else f"{value:.3g}" for value in (row.kept, row.now))
        change = "" if row.change is None else f"{row.change:+.0%}"
        style = colours.get(row.verdict, "")
        shown.add_row(row.name, kept, now, change, f"{row.spread:.0%}", row.verdict, style=style)
    return shown


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="write the ratios of this run in place of the kept ones")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a ratio is worse")
    parser.add_argument("--json", type=Path, help="write machine and rows to this file too")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each comparison (default: 3)")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    console, start = Console(width=120 if not sys.stdout.isatty() else None), time.perf_counter()
    path = KEPT / f"{platform.machine()}.json"
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"machine": {}, "ratios": {}}
    here = machine()
    now = measured(args.seconds)
    rows = compare(kept["ratios"], now)
    console.print(table(rows))
    console.print(
        f"change: of what it costs, so + is worse; measured in {time.perf_counter() - start:.0f} s", style="dim"
    )
    if not kept["ratios"] and not args.keep:
        console.print(f"Nothing is kept for {platform.machine()} yet: run `make bench-keep` on a quiet machine.")
    elif kept["ratios"] and kept["machine"]["cpu"] != here["cpu"]:
        console.print(f"Kept on another processor: {kept['machine']['cpu']}; this is {here['cpu']}.")
    if args.json:
        args.json.write_text(json.dumps({"machine": here, "rows": [row._asdict() for row in rows]}, indent=1) + "\n")
    if args.keep:
        ratios = {name: {"value": round(value, 4), "spread": round(spread, 4)} for name, value, spread, _ in now}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"machine": here, "ratios": ratios}, indent=1) + "\n")
        console.print(f"Kept in {path.relative_to(KEPT.parent.parent)}.")
        if n_loose := sum(ratio.spread > MOVED for ratio in now):
            console.print(
                f"{n_loose} of {len(now)} differed by more than {MOVED:.0%} between passes, so changes of them will be "
                "called noise: keep them again when nothing else runs on this machine."
            )
    return int(args.strict and any(row.verdict == "worse" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
