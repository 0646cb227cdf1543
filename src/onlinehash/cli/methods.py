"""`onlinehash methods`: lists the methods."""

from __future__ import annotations

from typing import TypedDict

from onlinehash.cli import output
from onlinehash.experiments.bibliography import ENTRIES, all_bibtex
from onlinehash.learners.registry import Method, methods


class Row(TypedDict):
    """What is printed about a method."""

    name: str
    aliases: list[str]
    learns_from: str
    unit: str
    several_labels: bool
    summary: str
    bibtex: str | None


def show(with_bibtex: bool, as_json: bool) -> None:
    """The registry, a method a line; or what to cite."""
    if with_bibtex and not as_json:
        print(all_bibtex())
        return
    rows = [_row(method) for method in methods()]
    if as_json:
        output.print_json(rows)
    else:
        table = [
            [row["name"], ", ".join(row["aliases"]), _learns_from(row), row["unit"], row["summary"]] for row in rows
        ]
        output.print_columns([["name", "alias", "learns from", "unit", "what it does"], *table])


def _row(method: Method) -> Row:
    learner = method.load()
    return {
        "name": method.name,
        "aliases": list(method.aliases),
        "learns_from": learner.traits.learns_from,
        "unit": learner.traits.unit,
        "several_labels": learner.traits.several_labels,
        "summary": (learner.__doc__ or "").strip().partition("\n")[0],
        "bibtex": str(ENTRIES[method.name]) if method.name in ENTRIES else None,
    }


def _learns_from(row: Row) -> str:
    return f"{row['learns_from']}, also several" if row["several_labels"] else row["learns_from"]
