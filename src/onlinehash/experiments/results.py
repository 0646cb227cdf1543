"""Raw results on the disk: one line of JSON for each finished run, written when it is done.

A run that was killed leaves at most half a line at the end, which is dropped. `results.jsonl.xz` is the compact form,
for results that are kept with the project: the same lines, with the values of the first queries only.
"""

from __future__ import annotations

import base64
import fcntl
import json
import lzma
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.experiments.settings import Setting, setting_of
from onlinehash.io import atomic

LINES, COMPACT = "results.jsonl", "results.jsonl.xz"
#: Queries whose values the compact form keeps: enough for a paired test.
KEPT_QUERIES = 250


@dataclass(frozen=True)
class Result:
    """What a run measured.

    checkpoints: one mapping for each look along the stream, the last at its end.
    per_query: average precision of each query at the end (NaN: nothing is relevant to it), or None.
    facts: what holds for the run as a whole.
    """

    setting: Setting
    checkpoints: list[dict[str, Any]]
    per_query: np.ndarray | None
    facts: dict[str, Any]

    @property
    def final(self) -> dict[str, Any]:
        """The last look."""
        return self.checkpoints[-1]

    def of_form(self, form: str) -> Result:
        """The same run, with what it measured of another form of search (`map, signs`) in the place of its own."""
        ending = f", {form}"
        looks = []
        for look in self.checkpoints:
            own = {name: value for name, value in look.items() if "," not in name}
            looks.append(own | {name.removesuffix(ending): look[name] for name in look if name.endswith(ending)})
        return Result(self.setting, looks, None, self.facts)


class Store:
    """A folder of results."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._results = {result.setting.name: result for result in self._read()}

    def __contains__(self, name: str) -> bool:
        return name in self._results

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results.values())

    def get(self, name: str) -> Result | None:
        """The result of a run, if it is done."""
        return self._results.get(name)

    def add(self, result: Result) -> None:
        """On the disk before this returns."""
        atomic.make_folders(self.folder)
        is_new = not (self.folder / LINES).exists()
        with open(self.folder / LINES, "ab+") as file:
            _lock(file)  # another process may write to the same folder
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # after a kill, half a line may be in the way
                    file.write(b"\n")
            file.write(_line(result))
            file.flush()
            atomic.sync_file(file.fileno())
        if is_new:
            atomic.sync_folder(self.folder)
        self._results[result.setting.name] = result

    def keep(self, others: Iterable[Result]) -> Path:
        """All of these too, in one small file: the same bytes for the same results."""
        self._results.update({result.setting.name: result for result in others})
        lines = sorted(_line(_shortened(result)) for result in self)
        atomic.make_folders(self.folder)
        path = self.folder / COMPACT
        with atomic.replacing(path) as file:
            file.write(lzma.compress(b"".join(lines), preset=9))
        return path

    def _read(self) -> Iterator[Result]:
        compact, lines = self.folder / COMPACT, self.folder / LINES
        if compact.exists():
            packed, unpacking = compact.read_bytes(), lzma.LZMADecompressor()
            try:
                text = unpacking.decompress(packed, checks.most_unpacked(len(packed)) + 1)
            except lzma.LZMAError as error:
                raise FormatError(f"{compact} does not hold readable results: {error}; fetch the file again.") from None
            checks.unpacked(compact, len(packed), len(text))
            if not unpacking.eof:
                raise FormatError(f"{compact} does not hold readable results: it ends too early; fetch the file again.")
            for line in text.splitlines():
                yield _result(line, compact)
        if lines.exists():
            for line in lines.read_bytes().splitlines():
                with suppress(FormatError):  # half a line, which a kill left behind
                    yield _result(line, lines)


def existing(folder: str | os.PathLike[str]) -> Store:
    """A store that must hold something."""
    store = Store(folder)
    if not len(store):
        raise InvalidInput(f"no results in {folder}; run `onlinehash experiment run` first.")
    return store


def _lock(file: BinaryIO) -> None:
    """Until it is closed."""
    fcntl.flock(file.fileno(), fcntl.LOCK_EX)


def _line(result: Result) -> bytes:
    document = {
        "run": result.setting.name,
        "setting": asdict(result.setting),
        "checkpoints": result.checkpoints,
        "per_query": None if result.per_query is None else _packed(result.per_query),
        "facts": result.facts,
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _result(line: bytes, path: Path) -> Result:
    try:
        document = json.loads(line)
        setting = setting_of(document["setting"])
        if document["run"] != setting.name:
            raise ValueError("a run that is named by another edition of settings")
        values = None if document["per_query"] is None else _unpacked(document["per_query"])
        return Result(setting, document["checkpoints"], values, document["facts"])
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} has a line that is not a result: {error}; delete that line.") from None


def _shortened(result: Result) -> Result:
    kept = None if result.per_query is None else result.per_query[:KEPT_QUERIES]
    return Result(result.setting, result.checkpoints, kept, result.facts)


def _packed(values: np.ndarray) -> str:
    """Two bytes a value: 0 to 65,534 stand for 0 to 1, 65,535 for NaN."""
    small = np.where(np.isnan(values), 65535, np.rint(np.nan_to_num(values) * 65534)).astype("<u2")
    return base64.b64encode(small.tobytes()).decode()


def _unpacked(text: str) -> np.ndarray:
    small = np.frombuffer(base64.b64decode(text), "<u2")
    return np.where(small == 65535, np.nan, small / 65534)
