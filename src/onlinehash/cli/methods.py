"""`onlinehash methods`: what can learn, and from what."""

from __future__ import annotations

from onlinehash.cli import output
from onlinehash.learners.registry import methods


def show(as_json: bool) -> None:
    """The registry, a method a line."""
    rows = []
    for method in methods():
        learner = method.load()
        rows.append(
            {
                "name": method.name,
                "aliases": list(method.aliases),
                "learns_from": learner.traits.learns_from,
                "unit": learner.traits.unit,
                "summary": (learner.__doc__ or "").strip().partition("\n")[0],
            }
        )
    if as_json:
        output.print_json(rows)
    else:
        table = [[row["name"], ", ".join(row["aliases"]), *list(row.values())[2:]] for row in rows]
        output.print_columns([["name", "alias", "learns from", "unit", "what it does"], *table])
