"""Answers: the results of a job for each partition, as arrays, stored in a folder so that a job can resume.

An answer is an npz of its arrays and a stamp: the digest of the question, which is all that the answers depend on, and
the partition's number. It is written atomically, and the checksums of the npz are verified.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from onlinehash.bulk.engine import Engine
from onlinehash.bulk.folder import keeping, new_folder
from onlinehash.bulk.parts import writing
from onlinehash.errors import InvalidInput
from onlinehash.io.atomic import replacing
from onlinehash.streams.array_tables import check_archive

QUESTION = "question.sha256"

Answer = tuple[np.ndarray, ...]
P = TypeVar("P")


@dataclass(frozen=True)
class Job(Generic[P]):
    """A function of partitions, and everything that its results depend on: arrays, or objects identified by `repr`."""

    function: Callable[[P], Answer]
    partitions: Sequence[P]
    question: Sequence[Any]
    doing: str

    def answers(self, engine: Engine, folder: str | os.PathLike[str] | None) -> Iterator[Answer]:
        """The results of all partitions, in any order. With a folder, only missing ones are computed, and stored."""
        if folder is None:
            yield from (answer for _, answer in engine.map(self.function, self.partitions, self.doing))
            return
        place, question = Path(folder).absolute(), _digest(self.question)
        _begin(place, question)
        with keeping(place):
            kept = Kept(self.function, place, question)
            yield from (answer for _, answer in engine.map(kept, list(enumerate(self.partitions)), self.doing))


@dataclass(frozen=True)
class Kept(Generic[P]):
    """Runs the function unless its result is stored already; this is what is sent to workers."""

    function: Callable[[P], Answer]
    folder: Path
    question: str

    def __call__(self, numbered: tuple[int, P]) -> Answer:
        number, partition = numbered
        path, stamp = self.folder / f"part-{number:06}.npz", f"{self.question} {number}"
        answer = _read(path, stamp)
        if answer is None:
            answer = self.function(partition)
            with writing(path) as file:
                np.savez(file, *answer, stamp=np.array(stamp))
        return answer


def _read(path: Path, stamp: str) -> Answer | None:
    """The stored result, if it is there and undamaged."""
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # before NumPy believes what an array says of its size
                return None
        with np.load(path, allow_pickle=False) as arrays:
            check_archive(path, arrays)
            if arrays["stamp"].item() != stamp:
                return None
            return tuple(arrays[f"arr_{at}"] for at in range(len(arrays.files) - 1))
    except Exception:  # a damaged zip makes its reader raise almost anything; the answer is made again
        return None


def _begin(folder: Path, question: str) -> None:
    """Create the folder, or use one with results of the same job; anything else is refused."""
    path = folder / QUESTION
    if not path.is_file():
        new_folder(folder, "answers")
        with replacing(path) as file:
            file.write(question.encode())
    elif path.read_bytes() != question.encode():
        raise InvalidInput(
            f"{folder} holds results for other queries, vectors, codes or truth, or another k; choose a new folder."
        )


def _digest(question: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for fact in question:
        is_array = isinstance(fact, np.ndarray)
        digest.update(f"{(fact.dtype.str, fact.shape) if is_array else fact!r}\n".encode())
        if is_array:
            digest.update(fact.tobytes())
    return digest.hexdigest()
