"""Checks the output of a command before the work starts, so that no work is lost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from onlinehash.errors import InvalidInput


def check(target: str, sources: Iterable[str | None] = ()) -> None:
    """Refuse a target that cannot be written, or that is one of the files the command reads."""
    path = Path(target)
    if target == "-":
        raise InvalidInput("the output must be a file; - (standard output) is not possible here.")
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {target}: the folder {path.parent} does not exist; create it first.")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InvalidInput(f"cannot write {target}: permission denied.")
    for source in sources:
        if source is not None and _is_same(path, source):
            raise InvalidInput(f"the output {target} is the same file as the input {source}; choose another name.")


def _is_same(path: Path, source: str) -> bool:
    source = "/dev/stdin" if source == "-" else source  # which is the file that a shell redirects
    return path.exists() and os.path.exists(source) and os.path.samefile(path, source)
