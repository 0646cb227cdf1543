"""Files that are there whole or not at all."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from onlinehash.errors import InvalidInput


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file beside the path, which takes its place when all of it is on the disk; or, on any error, nothing."""
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(expected="the path of a file", got=f"the folder {target}")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            sync_file(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise InvalidInput(f"cannot write {target}: {error.strerror}.") from None
    finally:
        with suppress(OSError):
            temporary.unlink()
    sync_folder(target.parent)


def sync_file(descriptor: int) -> None:
    """A file or folder on the disk itself: on macOS, `fsync` alone may leave it in the drive's cache."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with suppress(OSError):  # not every file system there has it
            fcntl.fcntl(descriptor, full)
            return
    os.fsync(descriptor)


def make_folders(folder: Path) -> None:
    """The folder, which may be there already; the names of those that are made for it are on the disk too."""
    new = []
    while not folder.exists():
        new.append(folder)
        folder = folder.parent
    for folder in reversed(new):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """The new name too is on the disk, where the system lets one ask for it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)
