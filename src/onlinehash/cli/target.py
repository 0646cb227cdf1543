"""Where a command writes: looked at before the work, so that nothing is lost after it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from onlinehash.errors import InvalidInput


def check(target: str, sources: Iterable[str | None] = ()) -> None:
    """Refuse a target that cannot be written, or that is one of the files the command reads."""
    path = Path(target)
    if target == "-":
        raise InvalidInput("expected the name of a file to write, got -, which stands for no file.")
    if path.is_dir():
        raise InvalidInput(f"expected a file to write, but {path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InvalidInput(f"expected a folder for {target}, but {path.parent} is none; create it first.")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InvalidInput(f"expected a file that can be written, but {target} or its folder is locked.")
    for source in sources:
        if source is not None and _is_same(path, source):
            raise InvalidInput(f"expected an output other than the input {source}, got {target}; choose another name.")


def _is_same(path: Path, source: str) -> bool:
    source = "/dev/stdin" if source == "-" else source  # which is the file that a shell redirects
    return path.exists() and os.path.exists(source) and os.path.samefile(path, source)
