"""What the commands print: JSON for machines, aligned text for people, one sentence for an error."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

#: Rows that were left out of which is said why.
MOST_LEFT_OUT = 10


def print_json(document: object) -> None:
    """One document on a line of standard output."""
    print(json.dumps(document, default=_plain), flush=True)


def console(to_stderr: bool = False) -> Console:
    """Where rich shows things that move or have colours."""
    from rich.console import Console

    return Console(stderr=to_stderr)


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Rows of cells, aligned; the last cell of a row is as long as it likes."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *cells, last in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), last]))


def complain(error: BaseException, message: str, exit_code: int, as_json: bool) -> int:
    """Print one sentence to standard error; returns the exit code."""
    _tell({"error": type(error).__name__, "message": message}, message, as_json)
    return exit_code


def warn(message: str, as_json: bool) -> None:
    """Print a warning to standard error."""
    _tell({"warning": message}, f"warning: {message}", as_json)


def print_left_out(errors: Sequence[Exception]) -> None:
    """Say on standard error why rows were left out; of many, only of the first."""
    for error in errors[:MOST_LEFT_OUT]:
        print(f"left out: {error}", file=sys.stderr)
    if len(errors) > MOST_LEFT_OUT:
        print(f"left out: {len(errors) - MOST_LEFT_OUT:,} more rows", file=sys.stderr)


@contextmanager
def warnings_told(as_json: bool) -> Iterator[None]:
    """Print warnings for users like errors; suppress those of libraries."""

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(str(message), as_json)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = tell
        yield


def _tell(document: dict[str, str], text: str, as_json: bool) -> None:
    print(json.dumps(document) if as_json else f"onlinehash: {text}", file=sys.stderr, flush=True)


def _plain(value: object) -> Any:
    """Convert values that JSON cannot express."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "get_params"):
        return {"class": type(value).__name__} | value.get_params(deep=False)
    if hasattr(value, "tolist"):
        return value.tolist()
    return repr(value)
