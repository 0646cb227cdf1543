"""At the end of the demo: the page, where one can search and teach oneself."""

from __future__ import annotations

import sys

import typer

OFFER = "Search and teach it yourself, in a browser: {} serve --demo"


def page() -> None:
    """Say how to open the page; ask whether to, where somebody is there to answer."""
    print(OFFER.format(sys.argv[0]), flush=True)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or not typer.confirm("Serve it now?", default=True):
        return
    from onlinehash.cli.app import run

    code = run(["serve", "--demo"])
    if code:
        raise typer.Exit(code)
