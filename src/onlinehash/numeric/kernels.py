"""Numba's `njit`, whose `cache=True` finds a place to keep compiled kernels, or does without.

Numba would look beside the source and in the user's cache, and refuse to define a function when it can write to
neither. Here a folder is chosen once for the whole package: in what NUMBA_CACHE_DIR names, or else the first that can
be written beside the source, in the user's cache, or among temporary files. Where there is none, every process compiles
anew, and says so.

Kernels are kept as pickles, so whoever writes to their folder can run code here. A folder that is chosen here is
therefore read only if it is this user's and nobody else can write to it or put another in its place. It is for one
version of the package, as Numba notices a new version of a kernel's file, but not of another that it was compiled from.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache as once
from pathlib import Path
from typing import Any

import numba

import onlinehash

config: Any = numba.config  # whose names are made at run time


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator with the options of Numba's."""

    def compiled(function: Callable[..., Any]) -> Any:
        kernel = numba.njit(**options)(function)
        if cache and (folder := cache_folder()):
            chosen, config.CACHE_DIR = config.CACHE_DIR, str(folder)  # which is read by the next line, and not later
            try:
                kernel.enable_caching()
            finally:
                config.CACHE_DIR = chosen
        return kernel

    return compiled


@once
def cache_folder() -> Path | None:
    """Where compiled kernels are kept, made if need be; None if there is no place for them."""
    name = f"onlinehash-{onlinehash.__version__}"
    if config.CACHE_DIR and _is_made(folder := Path(config.CACHE_DIR) / name):
        return folder  # the user's word, whoever else can write there
    for folder in _folders(name):
        if _is_made(folder) and _is_private(folder):
            return folder
    logging.getLogger("onlinehash").warning(
        "compiled kernels are not kept, so that each process takes a while to begin: found no folder of this user "
        "that can be written; name one by NUMBA_CACHE_DIR."
    )
    return None


def _folders(name: str) -> Iterator[Path]:
    yield Path(onlinehash.__file__).parent / "__pycache__" / name  # whoever could exchange it could exchange the source
    user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if user.is_absolute() and _is_made(user) and _is_safe(user):  # relative where there is no home
        yield user / name
    with suppress(FileNotFoundError):  # no temporary file can be written anywhere
        temporary = Path(tempfile.gettempdir())
        if _is_safe(temporary):
            yield temporary / f"{name}-{os.geteuid()}"


def _is_made(folder: Path) -> bool:
    """Whether a folder is there, now at the latest, and can be written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _is_private(folder: Path) -> bool:
    """Whether it is this user's, and nobody else can write to it."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _is_safe(folder: Path) -> bool:
    """Whether nobody else can exchange what this user has in it."""
    found = folder.stat()
    return _is_private(folder.resolve()) or bool(found.st_uid in (0, os.geteuid()) and found.st_mode & stat.S_ISVTX)
