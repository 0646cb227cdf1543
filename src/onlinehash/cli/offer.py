"""At the end of the demo: offers to open the page."""

from __future__ import annotations

import sys

import typer

OFFER = "Search and teach it yourself, in a browser: {0} serve --demo; or texts: {0} serve --demo text"


def page() -> None:
    """Print how to open the page; on a terminal, ask whether to open it."""
    print(OFFER.format(sys.argv[0]), flush=True)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or not typer.confirm("Serve it now?", default=True):
        return
    from onlinehash.cli.app import run

    code = run(["serve", "--demo"])
    if code:
        raise typer.Exit(code)
