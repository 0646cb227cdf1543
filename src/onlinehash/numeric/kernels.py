"""Numba's `njit`, with a cache of compiled kernels that works wherever the package is installed.

Numba keeps compiled functions beside the source or in the user's cache directory, and refuses to define a function when
it can write to neither. Here one directory is chosen for the whole package: the one named by NUMBA_CACHE_DIR, or else
the first that is writable beside the source, in the user's cache directory, or under the system's temporary directory.
If there is none, every process compiles its kernels again, and says so.

Numba stores kernels as pickles, so anybody who can write to the directory can run code in this process. A directory
chosen here is therefore used only if it belongs to this user, nobody else can write to it, and nobody else can replace
it or one of its parents. It is for one version of the package, because Numba notices that a kernel's own file changed,
but not that another file changed from which the kernel was compiled.

Processes that start together need the same kernels. One of them compiles a kernel, and the others wait for it instead
of doing the same work beside it.

Compiling is most of the time of a first call, so a kernel is compiled once for `f(X, 0)` and `f(X, i)`: Numba would
compile another one for each integer that is written in a call from another kernel.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import stat
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache as once
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import types

import onlinehash
from onlinehash import progress

Function = TypeVar("Function", bound=Callable[..., Any])

config: Any = numba.config  # whose names are made at run time

_setting = threading.Lock()  # of Numba's cache directory, while kernels are defined


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], Function]:
    """A decorator with the options of Numba's. A kernel has the types of the function it was compiled from."""

    def compiled(function: Function) -> Function:
        # No kernel is handed to C as a pointer, so wrappers for that need not be compiled.
        kernel: Any = numba.njit(**options | {"no_cfunc_wrapper": True})(function)
        kernel.get_call_template = _without_literals(kernel.get_call_template)
        if cache and (folder := cache_folder()):
            with _setting:  # modules may be imported by several threads at once
                chosen, config.CACHE_DIR = config.CACHE_DIR, str(folder)  # read by the next line, and never later
                try:
                    kernel.enable_caching()
                    kernel._cache = _SharedCache(
                        kernel._cache, folder, f"{function.__module__}.{function.__qualname__}"
                    )
                    kernel.compile = kernel._cache.unlocking(kernel.compile)
                finally:
                    config.CACHE_DIR = chosen
        return cast(Function, kernel)

    return compiled


def _without_literals(get_call_template: Callable[..., Any]) -> Callable[..., Any]:
    """What another kernel calls, for the types of its arguments without the values that are known."""

    def get(args: Any, kws: Any) -> Any:
        plain = {name: types.unliteral(one) for name, one in kws.items()} if kws else kws
        return get_call_template(tuple(map(types.unliteral, args)), plain)

    return get


class _SharedCache:
    """Numba's cache of a kernel, in which one process at a time compiles.

    From the moment a kernel is not found until it is saved, or cannot be compiled, the process holds a lock, which the
    system takes back if the process ends. There is one file of locks, with a byte for each kernel. A kernel is locked
    before those it calls, so two processes never wait for each other.
    """

    patience = 60.0  # seconds to wait for a process that may have been stopped; after them nobody is waited for again

    def __init__(self, cache: Any, folder: Path, name: str) -> None:
        self._cache = cache
        self._folder = folder
        self._name = name
        self._byte = zlib.crc32(name.encode())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target: Any) -> Any:
        found = self._cache.load_overload(signature, target)
        if found is None:
            progress.compiling(f"{self._name}{signature}")
            self._lock()
            found = self._cache.load_overload(signature, target)  # compiled by another process in the meantime
            if found is not None:
                self._unlock()
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        try:
            self._cache.save_overload(signature, compiled)
        finally:
            self._unlock()

    def unlocking(self, compile: Callable[..., Any]) -> Callable[..., Any]:
        """The same, but if it fails, others may try; and in either case it is over."""

        def compile_or_unlock(signature: Any) -> Any:
            collects = gc.isenabled()
            gc.disable()  # a tenth of the time would go into looking for garbage among what compiling needs
            try:
                return compile(signature)
            except BaseException:
                self._unlock()
                raise
            finally:
                if collects:
                    gc.enable()
                progress.compiled(f"{self._name}{signature}")

        return compile_or_unlock

    def _lock(self) -> None:
        until = time.monotonic() + _SharedCache.patience
        with suppress(OSError):  # a file system may have no locks
            while not self._try_to_lock():
                if time.monotonic() >= until:
                    _SharedCache.patience = 0.0
                    break
                time.sleep(0.02)

    def _try_to_lock(self) -> bool:
        try:
            fcntl.lockf(_lock_file(self._folder), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte)
        except (BlockingIOError, PermissionError):  # either may mean that another process has it
            return False
        return True

    def _unlock(self) -> None:
        with suppress(OSError):
            fcntl.lockf(_lock_file(self._folder), fcntl.LOCK_UN, 1, self._byte)


@once
def _lock_file(folder: Path) -> int:
    """Open for as long as the process lives: closing it would give up all locks."""
    return os.open(folder / "compiling", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


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
        if _is_safe(temporary) and _is_made(folder) and _is_private(folder) and _is_held(folder):
            yield folder


def _is_made(folder: Path) -> bool:
    """Create a directory if it is missing; whether it can be written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _is_held(folder: Path) -> bool:
    """Lock a directory until the process ends; False if there are no locks here, or somebody else has it.

    The lock keeps the system's clean-up from removing the directory while it is in use: another user could then create
    one of the same name.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
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
