"""What is fuzzed: where cases begin, how they are changed, and what may come of them.

A case is a text or bytes that can be kept in a file. `run` returns what came of it in a few words, so that a case with
a new outcome can be gone on from; whatever it raises is a fault of ours.
"""

from __future__ import annotations

import atexit
import io
import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow
from pyarrow import parquet
from scipy.io import savemat

from onlinehash import LiveIndex, OnlineHashing, bulk
from onlinehash.datasets import labelme
from onlinehash.errors import OnlineHashError
from onlinehash.io import format
from onlinehash.serve.bodies import shapes
from onlinehash.streams.from_files import read_tables
from tests.serve.hostile import NUMBERS, outcome

INTEGERS = [-1, 0, 1, 2, 7, 255, 2**31, 2**40, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30]
ATOMS: list[Any] = [None, True, False, "", "x", "\0", "\ud800", "é", 0.5, -0.0, 1e308, 5e-324, [], {}, [None], [[1]]]
WORDS = [b"null", b"NaN", b"1e999", b"-0", b'"\\ud800"', b"[" * 50, b"{}", b'{"in": []}', b"\xff\xfe", b"\0", b"true"]


class Target(Protocol):
    """One kind of input."""

    def seeds(self) -> list[bytes]: ...
    def changed(self, case: bytes, rng: np.random.Generator) -> bytes: ...
    def run(self, case: bytes) -> str: ...


def in_words(result: Any) -> str:
    """An outcome without what differs from case to case: everything but the first plain words."""
    if not isinstance(result, Exception):
        return f"taken: {type(result).__name__}"
    return f"{type(result).__name__}: {' '.join(re.findall('[a-z]{2,}', str(result))[:8])}"


def any_of(values: list[Any], rng: np.random.Generator) -> Any:
    return values[rng.integers(len(values))]


def changed_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flipped, cut, grown, overwritten, or with a piece repeated, once or a few times."""
    made = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at, length = int(rng.integers(len(made) + 1)), int(rng.integers(1, 33))
        kind = rng.integers(6)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << rng.integers(8)
        elif kind == 1:
            del made[at : at + length]
        elif kind == 2:
            made[at:at] = any_of(WORDS, rng)
        elif kind == 3:
            number = any_of(NUMBERS, rng)
            made[at : at + len(number)] = number
        elif kind == 4:
            made[at:at] = made[at : at + length]
        else:
            made[at : at + 1] = bytes([rng.integers(256)])
    return bytes(made)


def changed_json(value: Any, rng: np.random.Generator) -> Any:
    """Another document: somewhere inside, a value is replaced, repeated, wrapped or removed."""
    if isinstance(value, dict | list) and value and rng.random() < 0.7:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        made, key = (dict(value) if isinstance(value, dict) else list(value)), any_of(keys, rng)
        kind = rng.integers(4)
        if kind == 0:
            del made[key]
        elif kind == 1 and isinstance(made, dict):
            made[any_of(["in", "<", ">=", "!=", "not", "price", "x.y", "tags", ""], rng)] = made.pop(key)
        elif kind == 1:
            made = made * int(rng.integers(1, 4))
        else:
            made[key] = changed_json(made[key], rng)
        return made
    kind = rng.integers(4)
    if kind == 0:
        return any_of(INTEGERS, rng)
    if kind == 1 and isinstance(value, str):
        return value[: rng.integers(len(value) + 1)] + any_of(["", "\0", "é", "a" * 300], rng)
    if kind == 2:
        return [value] if rng.random() < 0.5 else {any_of(["in", "<", "<=", ">", "not"], rng): value}
    return any_of(ATOMS, rng)


class Bodies:
    """Bodies of requests: a line with the shape and the media type, then the bytes."""

    def seeds(self) -> list[bytes]:
        vectors = np.arange(8, dtype=np.float32).reshape(4, 2)
        found = [_headed(shape, shapes.JSON, json.dumps(shape.example).encode()) for shape in shapes.SHAPES]
        npy = io.BytesIO()
        np.save(npy, vectors)
        binary = {shapes.NPY: npy.getvalue(), shapes.FORMAT: format.to_bytes("body", {"vectors": vectors, "k": 3})}
        return found + [
            _headed(shape, media, data)
            for shape in shapes.SHAPES
            for media, data in binary.items()
            if media in shape.media
        ]

    def changed(self, case: bytes, rng: np.random.Generator) -> bytes:
        head, _, body = case.partition(b"\n")
        if head.endswith(shapes.JSON.encode()) and rng.random() < 0.5:
            try:
                return head + b"\n" + json.dumps(changed_json(json.loads(body), rng)).encode("utf-8", "surrogatepass")
            except (ValueError, RecursionError):
                pass
        return head + b"\n" + changed_bytes(body, rng)

    def run(self, case: bytes) -> str:
        head, _, body = case.partition(b"\n")
        name, media = head.decode().split(" ", 1)
        shape = next(shape for shape in shapes.SHAPES if shape.__name__ == name)
        return f"{name} {in_words(outcome(shape, media, body))}"


def _headed(shape: type[shapes.Shape], media: str, body: bytes) -> bytes:
    return f"{shape.__name__} {media}\n".encode() + body


class Filters:
    """Filters on payloads: JSON."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        values = [*INTEGERS[:9], *ATOMS[:12], 3, "red", ["red", "blue"], {"deep": [1, "x"]}, [1, [2, "x"]]]
        fields = ("price", "colour", "tags", "x")
        payloads = [{name: values[rng.integers(len(values))] for name in fields[: i % 5]} or None for i in range(60)]
        payloads = [p if p is None or "\ud800" not in p.values() else None for p in payloads]
        self._index = LiveIndex(OnlineHashing(n_bits=8, random_state=0))
        self._index.add(range(60), rng.standard_normal((60, 3)), payloads)

    def seeds(self) -> list[bytes]:
        found: list[Any] = [
            {"price": 3}, {"price": {"<": 5, ">=": 1}}, {"colour": ["red", "blue"]}, {"tags": {"in": ["red", 1]}},
            {"x.deep": 1}, {"price": {"not": 3}, "colour": "red"}, {"price": None}, {"x": {"deep": [1]}},
        ]  # fmt: skip
        return [json.dumps(where).encode() for where in found]

    def changed(self, case: bytes, rng: np.random.Generator) -> bytes:
        return json.dumps(changed_json(json.loads(case), rng)).encode("utf-8", "surrogatepass")

    def run(self, case: bytes) -> str:
        where = json.loads(case)
        try:
            hits = self._index.search(np.zeros(3), 60, where)
        except OnlineHashError as error:
            return in_words(error)
        near = self._index.within(np.zeros(3), 8, where)
        assert sorted(hits.ids.tolist()) == sorted(near.ids.tolist()), "two ways to search find different items"
        return f"taken: {math.ceil(math.log2(len(hits) + 1))}"


class Tables:
    """Files of vectors in formats that other libraries read: a line with the ending of the name, then the bytes."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, self._folder)

    def seeds(self) -> list[bytes]:
        vectors = np.arange(60, dtype=np.float32).reshape(20, 3)
        lists = pyarrow.array(vectors.tolist(), pyarrow.list_(pyarrow.float32()))
        fixed = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), 3)
        table = pyarrow.table(
            {"vector": lists, "x": fixed, "id": [f"id{i}" for i in range(20)], "label": ["a", "b"] * 10}
        )
        found = []
        for compression in ("none", "zstd"):
            parquet.write_table(table, self._folder / "seed", row_group_size=8, compression=compression)
            found.append(b".parquet\n" + (self._folder / "seed").read_bytes())
            options = pyarrow.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
            with pyarrow.ipc.new_file(self._folder / "seed", table.schema, options=options) as file:
                file.write_table(table, 8)
            found.append(b".arrow\n" + (self._folder / "seed").read_bytes())
            savemat(self._folder / "seed.mat", {"x": vectors, "y": [[1.0] * 20]}, do_compression=compression == "zstd")
            found.append(b".mat\n" + (self._folder / "seed.mat").read_bytes())
        np.savez_compressed(self._folder / "seed.npz", X=vectors, y=np.arange(20))
        return [*found, b".npz\n" + (self._folder / "seed.npz").read_bytes()]

    def changed(self, case: bytes, rng: np.random.Generator) -> bytes:
        ending, _, data = case.partition(b"\n")
        return ending + b"\n" + changed_bytes(data, rng)

    def run(self, case: bytes) -> str:
        ending, _, data = case.partition(b"\n")
        path = self._folder / f"case{ending.decode()}"
        path.write_bytes(data)
        return f"{ending.decode()} {in_words(self._read(path))}"

    def _read(self, path: Path) -> Any:
        try:
            if path.suffix == ".mat":
                return labelme.read_set(path)
            found = None if path.suffix == ".arrow" else list(read_tables(path))
            if path.suffix != ".npz":
                return [list(partition.blocks()) for partition in bulk.open_source(path).partitions]
            return found
        except OnlineHashError as error:
            return error


TARGETS: dict[str, Callable[[], Target]] = {
    "bodies": Bodies,
    "filters": Filters,
    "tables": Tables,
}
