"""Numba's `njit`, with a cache of compiled kernels that works wherever the package is installed.

Numba keeps compiled functions beside the source or in the user's cache directory, and refuses to define a function when
it can write to neither. Here one directory is chosen for the whole package: the one named by NUMBA_CACHE_DIR, or else
the first that is writable beside the source, in the user's cache directory, or under the system's temporary directory.
If there is none, every process compiles its kernels again, and says so.

Numba stores kernels as pickles, so anybody who can write to the directory can run code in this process. A directory
chosen here is therefore used only if it belongs to this user, nobody else can write to it, and nobody else can replace
it or one of its parents. It is for one version of the package, because Numba notices that a kernel's own file changed,
but not that another file changed from which the kernel was compiled.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache as once
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

import onlinehash

Function = TypeVar("Function", bound=Callable[..., Any])

config: Any = numba.config  # whose names are made at run time

_setting = threading.Lock()  # of Numba's cache directory, while kernels are defined


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], Function]:
    """A decorator with the options of Numba's. A kernel has the types of the function it was compiled from."""

    def compiled(function: Function) -> Function:
        kernel: Any = numba.njit(**options)(function)
        if cache and (folder := cache_folder()):
            with _setting:  # modules may be imported by several threads at once
                chosen, config.CACHE_DIR = config.CACHE_DIR, str(folder)  # read by the next line, and never later
                try:
                    kernel.enable_caching()
                finally:
                    config.CACHE_DIR = chosen
        return cast(Function, kernel)

    return compiled


@once
def cache_folder() -> Path | None:
    """The directory for compiled kernels, created if need be; None if there is no place for them."""
    name = f"onlinehash-{onlinehash.__version__}"
    if config.CACHE_DIR and _is_made(folder := Path(config.CACHE_DIR) / name):
        return folder  # chosen by the user, so its permissions are not checked
    for folder in _folders(name):
        if _is_made(folder) and _is_private(folder):
            return folder
    logging.getLogger("onlinehash").warning(
        "no writable cache directory found; kernels will be recompiled in every process "
        "(set NUMBA_CACHE_DIR to avoid this)."
    )
    return None


def _folders(name: str) -> Iterator[Path]:
    yield Path(onlinehash.__file__).parent / "__pycache__" / name  # whoever can replace it can replace the source
    user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if user.is_absolute() and _is_made(user) and _is_safe(user):  # relative if there is no home
        yield user / name
    with suppress(FileNotFoundError):  # no temporary file can be written anywhere
        temporary = Path(tempfile.gettempdir())
        folder = temporary / f"{name}-{os.geteuid()}"
        if _is_safe(temporary) and _is_made(folder):
            # A lock keeps the system's clean-up from removing the directory while it is in use: another user could
            # then create one of the same name. It is held until the process ends.
            fcntl.flock(os.open(folder, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH)
            yield folder


def _is_made(folder: Path) -> bool:
    """Create a directory if it is missing; whether it can be written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _is_private(folder: Path) -> bool:
    """Whether it belongs to this user, is no link, and nobody else can write to it."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _is_safe(folder: Path) -> bool:
    """Whether nobody else can replace what this user has in it, or the directory itself."""

    def is_kept(found: os.stat_result) -> bool:
        others_write = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        return found.st_uid in (0, os.geteuid()) and not others_write

    folder = folder.resolve()
    return all(is_kept(one.stat()) for one in (folder, *folder.parents))
