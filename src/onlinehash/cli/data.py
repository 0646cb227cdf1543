"""`onlinehash data`: which data sets are in a folder, and what a file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import datasets
from onlinehash.cli import output
from onlinehash.datasets.catalogue import default_folder
from onlinehash.datasets.loader import is_readable
from onlinehash.errors import FormatError, InvalidInput


def show(path: str | None, verify: bool, as_json: bool) -> int:
    """Describe a folder or a file; returns the exit code."""
    if path is None:
        return _show_folder(default_folder(), verify, as_json)
    if Path(path).is_dir():
        return _show_folder(Path(path), verify, as_json)
    if not Path(path).exists():
        raise InvalidInput(f"no such file or folder: {path}.")
    if verify:
        raise InvalidInput(f"--verify needs a folder of known data sets, got the file {path}.")
    return _show_file(path, as_json)


def _show_folder(folder: Path, verify: bool, as_json: bool) -> int:
    found = datasets.survey(folder, verify)
    others = sorted(file.name for file in folder.glob("*") if file.is_file() and is_readable(file))
    if as_json:
        output.print_json({"folder": str(folder), "sets": found, "files": others})
    else:
        print(f"in {folder}, known sets:")
        output.print_columns([row for one in found for row in _in_words(one)])
        if others:
            print(f"\nfiles that can be read: {', '.join(others)}")
    return FormatError.exit_code if any(one.state == "damaged" for one in found) else 0


def _in_words(one: datasets.Found) -> list[tuple[str, str, str]]:
    """A line about a set, and a line for each problem and for where to get what is missing."""
    what = one.title if one.place is None else f"{one.place}, {one.bytes:,} bytes; checked: {one.checked}"
    lines = [(one.name, one.state, what)]
    lines += [("", "", problem) for problem in one.problems]
    return lines if one.state == "here" else [*lines, ("", "", f"from {one.address}")]


def _show_file(path: str, as_json: bool) -> int:
    data = datasets.load(path)
    facts = _facts(data)
    if as_json:
        output.print_json({"path": path} | facts)
    else:
        output.print_columns([(name, text) for name, text in _facts_in_words(path, facts) if text])
    return 0


def _facts(data: datasets.Dataset) -> dict[str, Any]:
    def length(values: np.ndarray | None) -> int | None:
        return None if values is None else len(values)

    return {
        "name": data.name,
        "rows": len(data.X),
        "dimensions": data.X.shape[1],
        "classes": None if data.y is None else len(np.unique(data.y)),
        "queries": length(data.queries),
        "neighbours": None if data.neighbours is None else data.neighbours.shape[1],
        "metric": data.metric,
        "learning": length(data.learning),
        "bytes": data.nbytes,
        "fingerprint": data.fingerprint,
    }


def _facts_in_words(path: str, facts: dict[str, Any]) -> list[tuple[str, str]]:
    queries = facts["queries"] and f"{facts['queries']:,}"
    if facts["neighbours"]:
        queries += f", the {facts['neighbours']} nearest of each" + (f" ({facts['metric']})" if facts["metric"] else "")
    return [
        ("file", path),
        ("vectors", f"{facts['rows']:,} of {facts['dimensions']:,} float32"),
        ("labels", "none" if facts["classes"] is None else f"{facts['classes']:,} classes"),
        ("queries", queries or ""),
        ("memory", f"{facts['bytes']:,} bytes"),
        ("fingerprint", facts["fingerprint"]),
    ]
