"""The folder of a store: its files, the lock of its writer, and the number of its last commit beside the database."""

from __future__ import annotations

import errno
import os
import struct
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from onlinehash.checks import shown
from onlinehash.errors import FormatError, InvalidInput, StorageError
from onlinehash.io import atomic

DATABASE = "items.db"
UNFINISHED = "items.new"  #: A database that is being made; it is renamed when all of it is on the disk.
LOCK = "lock"
COMMITS = "commits"

_NUMBER = struct.Struct("<Q")
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)  #: What it means that somebody else holds a lock.


def absolute(path: str | os.PathLike[str]) -> Path:
    """A path that stays the same when the process goes to another folder."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(expected="a folder's path", got=shown(path))
    return Path(path).absolute()


def is_store(folder: Path) -> bool:
    """Whether there is a store, or what is left of one that lost its database."""
    return (folder / DATABASE).exists() or (folder / COMMITS).exists()


def expect_store(folder: Path) -> None:
    """Refuse a folder in which there is no store, or one that lost its database."""
    if not is_store(folder):
        raise InvalidInput(f"there is no live index at {folder}; LiveIndex(learner, path=...) makes one.")
    if not (folder / DATABASE).exists():
        raise FormatError(f"{DATABASE} is missing in {folder}; restore it from a copy.")


def make_room(folder: Path) -> None:
    """An empty folder; what a crash left of a database that was being made is taken away."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(expected="a folder's path for a store", got=f"the file {folder}")
    atomic.make_folders(folder)
    for found in sorted(folder.iterdir()):
        if found.name != LOCK and not found.name.startswith(UNFINISHED):
            raise InvalidInput(expected="a new or empty folder for a store", got=f"{folder}, which holds {found.name}")


def remove_unfinished(folder: Path) -> None:
    """Take away a database that was never finished, and its journals."""
    for found in folder.glob(f"{UNFINISHED}*"):
        found.unlink()


def publish(folder: Path) -> None:
    """The finished database under its name, on the disk."""
    for path in (folder / UNFINISHED, folder):
        _sync(path)
    os.replace(folder / UNFINISHED, folder / DATABASE)
    _sync(folder)
    with suppress(OSError):  # the folder's own name
        _sync(folder.parent)


def sync_log(folder: Path) -> None:
    """The database's log on the disk, where there is one: it stays when a writer closes while somebody reads."""
    log = folder / f"{DATABASE}-wal"
    if log.exists():
        _sync(log)
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        atomic.sync_file(descriptor)
    finally:
        os.close(descriptor)


class Lock:
    """What only one writer at a time can hold, also among processes; it ends with the process, however that ends.

    The file of that name says whose it is. The folder itself is locked too, as the file may be deleted by hand.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import fcntl  # here, as those who only read can do without it
        except ImportError:
            raise StorageError(
                expected=f"a system with the file locks of Unix to write to {folder}",
                got=f"{sys.platform}",
                hint="write it on another system, or open with read_only=True",
            ) from None
        self._descriptors = [os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)]
        try:
            self._descriptors.append(os.open(folder, os.O_RDONLY))
            file, itself = self._descriptors
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(itself, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _TAKEN:  # others: a file system that locks no folders
                    raise
            os.ftruncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
        except OSError as error:
            holder = os.pread(self._descriptors[0], 20, 0).decode(errors="replace")
            self._close()
            if error.errno not in _TAKEN:
                raise
            if holder == str(os.getpid()):
                found = "this process has it open already; close() that index"
            else:
                found = f"process {holder or 'unknown'} writes to it; close it there"
            raise StorageError(f"{folder} has another writer: {found}, or open it with read_only=True.") from None
        _held.add(self)

    def release(self) -> None:
        """Let another writer in; a second call does nothing."""
        import fcntl

        for descriptor in self._descriptors:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        self._close()

    def _close(self) -> None:
        """Once, as later the numbers of the descriptors may be somebody else's."""
        while self._descriptors:
            os.close(self._descriptors.pop())


#: The locks of this process. A fork of it must not keep them when the process itself is dead.
_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forget_inherited() -> None:
    for lock in list(_held):
        lock._close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_inherited)


def read_commits(folder: Path) -> int:
    """The number of the last commit that was acknowledged; 0 if it was never written."""
    try:
        data = (folder / COMMITS).read_bytes()
    except FileNotFoundError:
        return 0
    return int(_NUMBER.unpack(data)[0]) if len(data) == _NUMBER.size else 0


def write_commits(folder: Path, number: int) -> None:
    """Note a commit that is on the disk already; where this fails, less damage can be noticed and nothing is lost."""
    with suppress(OSError):
        descriptor = os.open(folder / COMMITS, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, _NUMBER.pack(number), 0)
        finally:
            os.close(descriptor)


def size(folder: Path) -> int:
    """Bytes of all files; a writer may remove one at any moment."""
    total = 0
    for file in folder.iterdir():
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total
