"""`onlinehash check`: verifies all data in the folder of a live index."""

from __future__ import annotations

from onlinehash.cli import output
from onlinehash.cli.options import refuse_postgres
from onlinehash.errors import FormatError
from onlinehash.live.check import Report
from onlinehash.live.check import check as check_index
from onlinehash.progress import progress_bar

#: Facts of a report for people; those of a database that cannot be read are missing.
FACTS = {
    "blocks": "sealed blocks",
    "rows": "single rows",
    "encoders": "encoders",
    "events": "logged events",
    "commit": "transactions",
}


def check(path: str, as_json: bool) -> int:
    """Print what is there and what is wrong with it; returns the exit code."""
    refuse_postgres(path, "`onlinehash postgres info` describes the index there")
    with progress_bar() as show_progress:
        report = check_index(path, lambda share: show_progress(share, "checking"))
    if as_json:
        output.print_json(
            {"path": path, "ok": report.ok, "items": report.items, "problems": report.problems, "facts": report.facts}
        )
    else:
        output.print_columns(_in_words(path, report))
    return 0 if report.ok else FormatError.exit_code


def _in_words(path: str, report: Report) -> list[tuple[str, str]]:
    """What there is, and a line for each problem."""
    words = [("folder", f"{path}, {report.facts['bytes']:,} bytes"), ("items", f"{report.items:,}")]
    words += [(name, f"{report.facts[key]:,}") for key, name in FACTS.items() if key in report.facts]
    if report.ok:
        return [*words, ("sound", "all is as it was written, and the codes are what the encoder makes of the vectors")]
    return words + [("problem", problem) for problem in report.problems]
