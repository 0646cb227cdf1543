"""What a power failure may leave on a disk, of the calls that a program made.

Everything synced is kept. Of the rest, any part may be missing: of a file's data each sector for itself, and of a
folder's names

    as POSIX allows it    any of those that changed since that folder was synced
    as ext4 orders it     the last of those that changed since anything was synced, in all folders together
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.live.file_calls import FileCall

ORDERS = ("posix", "ext4")
SECTORS = (512, 4096)


@dataclass
class File:
    """Bytes on the disk, bytes as the program sees them, and what was written in between."""

    kept: bytearray = field(default_factory=bytearray)
    seen: bytearray = field(default_factory=bytearray)
    pending: list[FileCall] = field(default_factory=list)

    def sync(self) -> None:
        self.kept, self.pending = bytearray(self.seen), []


@dataclass
class Folder:
    """Names on the disk, names as the program sees them, and the changes in between, which are numbered."""

    kept: dict[str, File | Folder] = field(default_factory=dict)
    seen: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[tuple[int, list[tuple[str, File | Folder | None]]]] = field(default_factory=list)

    def sync(self) -> None:
        self.kept, self.pending = dict(self.seen), []

    def folders(self) -> Iterator[Folder]:
        yield self
        for inside in list(self.seen.values()):
            if isinstance(inside, Folder):
                yield from inside.folders()


class Disk:
    """The folder `root`, of which the program is the only one to change anything."""

    def __init__(self, root: Path, order: str) -> None:
        self._root, self._order = str(root), order
        self._top = Folder()
        self._number = 0

    def follow(self, call: FileCall) -> None:
        """One call more."""
        folder, name = self._find(call.path)
        if call.kind == "s":
            (folder.seen[name] if name else folder).sync()
            if self._order == "ext4":
                for one in self._top.folders():
                    one.sync()
        elif call.kind in "wt":
            file = folder.seen[name]
            assert isinstance(file, File)
            _apply(file.seen, call, 0, len(call.data))
            file.pending.append(call)
        elif call.kind == "n":
            other, new = self._find(call.other)
            moved = folder.seen[name]
            if other is folder:
                self._change(folder, [(name, None), (new, moved)])
            else:
                self._change(other, [(new, moved)])
                self._change(folder, [(name, None)])
        else:
            self._change(folder, [(name, {"c": File, "m": Folder}[call.kind]() if call.kind in "cm" else None)])

    def _find(self, path: str) -> tuple[Folder, str]:
        *parents, name = path.removeprefix(self._root).strip("/").split("/")
        folder = self._top
        for parent in parents:
            inside = folder.seen[parent]
            assert isinstance(inside, Folder)
            folder = inside
        return folder, name

    def _change(self, folder: Folder, names: list[tuple[str, File | Folder | None]]) -> None:
        self._number += 1
        folder.pending.append((self._number, names))
        _rename(folder.seen, names)

    # ------------------------------------------------------------------ the failure

    def fail(self, rng: np.random.Generator, target: Path) -> None:
        """Write one of the possible states into a new folder; the program may go on here."""
        numbers = [number for folder in self._top.folders() for number, _ in folder.pending]
        last = int(rng.integers(min(numbers) - 1, max(numbers) + 1)) if numbers else 0
        share = float(rng.choice([0.0, 0.5, 0.9, 1.0]))
        self._write(self._top, rng, target, last, share)

    def _write(self, folder: Folder, rng: np.random.Generator, target: Path, last: int, share: float) -> None:
        names = dict(folder.kept)
        for number, change in folder.pending:
            if number <= last if self._order == "ext4" else rng.random() < share:
                _rename(names, change)
        target.mkdir()
        for name, inside in names.items():
            if isinstance(inside, Folder):
                self._write(inside, rng, target / name, last, share)
            elif not name.endswith("-shm"):  # which a first reader makes anew
                (target / name).write_bytes(_left_of(inside, rng, share))


def _rename(names: dict[str, File | Folder], change: list[tuple[str, File | Folder | None]]) -> None:
    for name, inside in change:
        if inside is None:
            names.pop(name, None)
        else:
            names[name] = inside


def _left_of(file: File, rng: np.random.Generator, share: float) -> bytes:
    """A file's bytes after the failure: of each call since it was synced all, nothing, or some sectors."""
    left, sector = copy.copy(file.kept), int(rng.choice(SECTORS))
    for call in file.pending:
        if call.kind == "t" or rng.random() < 0.5:
            if rng.random() < share:
                _apply(left, call, 0, len(call.data))
            continue
        first = call.offset // sector * sector
        for start in range(first, call.offset + len(call.data), sector):
            if rng.random() < share:
                _apply(left, call, max(start - call.offset, 0), start + sector - call.offset)
    return bytes(left)


def _apply(content: bytearray, call: FileCall, start: int, stop: int) -> None:
    """A truncation, or the bytes of a write from `start` to `stop`."""
    if call.kind == "t":
        del content[call.offset :]
        content.extend(bytes(call.offset - len(content)))
        return
    data, at = call.data[start:stop], call.offset + start
    content.extend(bytes(max(0, at + len(data) - len(content))))
    content[at : at + len(data)] = data
