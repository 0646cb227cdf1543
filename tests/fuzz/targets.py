"""What is fuzzed: where cases begin, how they are changed, and what may come of them.

A case is a text or bytes that can be kept in a file. `run` returns what came of it in a few words, so that a case with
a new outcome can be gone on from; whatever it raises is a fault of ours.
"""

from __future__ import annotations

import atexit
import io
import json
import logging
import math
import re
import shutil
import socket
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow
from pyarrow import parquet
from scipy.io import savemat

from onlinehash import LiveIndex, OnlineHashing, bulk
from onlinehash.datasets import labelme
from onlinehash.errors import OnlineHashError
from onlinehash.io import format
from onlinehash.serve.bodies import shapes
from onlinehash.serve.server import background
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits
from onlinehash.streams.from_files import read_tables
from tests.serve.hostile import NUMBERS, outcome

INTEGERS = [-1, 0, 1, 2, 7, 255, 2**31, 2**40, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30]
ATOMS: list[Any] = [None, True, False, "", "x", "\0", "\ud800", "é", 0.5, -0.0, 1e308, 5e-324, [], {}, [None], [[1]]]
WORDS = [b"null", b"NaN", b"1e999", b"-0", b'"\\ud800"', b"[" * 50, b"{}", b'{"in": []}', b"\xff\xfe", b"\0", b"true"]
#: Pieces of requests.
PIECES = [
    *(b"%s\r\n" % line for line in (
        b"", b"\r\n", b"0\r\n", b"5", b"ffffffffffffffff", b"-1", b"Content-Length: 7", b"Content-Length: 70000",
        b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Connection: close", b"Upgrade: h2c", b" HTTP/1.0",
        b"Host: other", b"Content-Type: application/x-npy", b"Idempotency-Key: a", b"Onlinehash-At-Least: 9",
    )),
    b"\n", b"HEAD ", b"OPTIONS ", b"GET http://x", b"%00", b"\xff", b"\0",
]  # fmt: skip


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


class Connections:
    """What comes over a connection to a service: bytes, which are sent in pieces.

    Whatever it is, every answer is whole and none of them is 500, nothing is logged as an error, and the service
    answers the next client.
    """

    def __init__(self) -> None:
        index = LiveIndex(OnlineHashing(n_bits=8, random_state=0))
        index.add(range(20), np.random.default_rng(0).standard_normal((20, 3)))
        limits = Limits(body_bytes=1 << 16, body_seconds=0.2, idle_seconds=0.2, request_seconds=2, follow_wait_s=0)
        self._errors: list[str] = []
        handler = logging.Handler(logging.ERROR)
        handler.emit = lambda record: self._errors.append(handler.format(record))  # type: ignore[method-assign]
        logging.getLogger().addHandler(handler)
        running = background(Service(index, limits=limits))
        self._port = urlsplit(running.__enter__()).port
        atexit.register(running.__exit__, None, None, None)

    def seeds(self) -> list[bytes]:
        query = b'{"vector": [1, 2, 3], "k": 3}'
        item = b'{"vectors": [[1, 2, 3]]}'
        json_head = b"Host: localhost\r\nContent-Type: application/json\r\n"
        search = b"POST /v1/search HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (json_head, len(query), query)
        chunks = b"POST /v1/items HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n" % json_head
        chunks += b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (item[:9], item[9:])) + b"0\r\n\r\n"
        large = b"POST /v1/items HTTP/1.1\r\n%sContent-Length: 100000\r\n\r\n%s" % (json_head, bytes(3000))
        plain = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        return [plain, plain * 5, search, search + plain + search, chunks, chunks + plain, large, large + plain]

    def changed(self, case: bytes, rng: np.random.Generator) -> bytes:
        made = bytearray(case)
        for _ in range(rng.integers(1, 4)):
            if rng.random() < 0.3:
                return changed_bytes(bytes(made), rng)
            lines = [0, *(found.end() for found in re.finditer(b"\r\n", made))]
            at = any_of(lines, rng) if rng.random() < 0.7 else int(rng.integers(len(made) + 1))
            made[at:at] = any_of(PIECES, rng)
        return bytes(made[: 1 << 18])

    def run(self, case: bytes) -> str:
        cuts = np.random.default_rng(zlib.crc32(case)).integers(0, len(case) + 1, 4)
        ends = [*sorted(cuts.tolist()), len(case)]
        received = bytearray()
        with socket.create_connection(("127.0.0.1", self._port), 20) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(ConnectionError, TimeoutError):
                for start, end in pairwise([0, *ends]):
                    connection.sendall(case[start:end])
                connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                connection.settimeout(2)
                while part := connection.recv(1 << 16):
                    received += part
        statuses = self._statuses(bytes(received))
        assert 500 not in statuses, received[:2000]
        assert not self._errors, self._errors
        answer = httpx.get(f"http://127.0.0.1:{self._port}/v1/health", timeout=20)
        assert answer.status_code == 200
        return str(statuses[:6])

    def _statuses(self, data: bytes) -> list[int]:
        """Of answers one behind the other, the last of which may be cut off where the connection was reset."""
        found = []
        while data:
            head, gap, data = data.partition(b"\r\n\r\n")
            if not gap and b"HTTP/1.1 ".startswith(head[:9]):
                break
            first = re.match(rb"HTTP/1\.1 (\d{3}) ", head)
            assert first, head[:200]
            found.append(int(first[1]))
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            if length is None or b"text/event-stream" in head:  # 100 Continue has none, and events do not end
                data = data if found[-1] == 100 else b""
                continue
            data = data[int(length[1]) :]
        return found


TARGETS: dict[str, Callable[[], Target]] = {
    "bodies": Bodies,
    "connections": Connections,
    "filters": Filters,
    "tables": Tables,
}
