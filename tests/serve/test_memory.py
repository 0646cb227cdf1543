"""What the bodies of requests may take of the memory, one by one and all together."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from onlinehash.errors import InvalidInput
from onlinehash.serve import allocator, memory
from onlinehash.serve.bodies import shapes
from onlinehash.serve.bodies.from_json import from_json
from onlinehash.serve.memory import CONSIDERABLE
from onlinehash.serve.settings import Limits
from tests.serve.services import connected, post_json, request_bytes, served, until

ANSWER = 1 << 16


def json_with(where: bytes) -> bytes:
    return b'{"vector":[0.5,0.5],"k":3,"where":{"colour":%s}}' % where


def peak_of_parsing(data: bytes) -> int:
    """Bytes that parsing a query takes at most, once everything it needs has been imported."""
    from_json(shapes.Query, data)
    tracemalloc.start()
    try:
        from_json(shapes.Query, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("where", "most"),
    [
        (b'"%s"' % (rb"\u0061" * 50_000), 8),
        (b'"%s"' % (rb"\"" * 150_000), 8),
        (b'"%s"' % (rb"\\" * 150_000), 8),
        (b"[%s]" % b",".join([b'"ab"'] * 50_000), 18),
    ],
    ids=["letters", "quotes", "backslashes", "strings"],
)
def test_parsing_takes_a_few_times_the_memory_of_the_body(where: bytes, most: int) -> None:
    data = json_with(where)
    assert peak_of_parsing(data) < most * len(data)


@pytest.mark.parametrize(
    "again", [b'"k":4', rb'"\u006b":4', rb'"where":{"a":"\\"},"k":4', rb'"where":{"a\"":"\""},"k":4']
)
def test_repeated_fields_are_found_beside_escapes(again: bytes) -> None:
    with pytest.raises(InvalidInput, match="the field 'k' occurs twice"):
        from_json(shapes.Query, b'{"vector":[0.5],"k":3,%s}' % again)
    once = from_json(shapes.Query, rb'{"vector":[0.5],"k":3,"where":{"a":"\\","k":["\"k\":",{"k":"k"}]}}')
    assert once.where == {"a": "\\", "k": ['"k":', {"k": "k"}]}


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (rb'{"a":1,"a":2}', "a"),
        (rb'{"a":{"b":[{"c":1,"c":2}]}}', "c"),
        (rb'{"a":1,"\u0061":2}', "a"),
        (rb'{"a\"":1,"b":2,"a\"":3}', 'a"'),
    ],
)
def test_names_are_not_repeated_within_filters_and_payloads(where: bytes, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"the field '{name}' occurs twice"):
        from_json(shapes.Query, b'{"vector":[0.5],"k":3,"where":%s}' % where)
    with pytest.raises(InvalidInput, match="occurs twice"):
        from_json(shapes.NewItem, b'{"vector":[0.5],"payload":%s}' % where)


def test_names_that_only_look_the_same_are_taken() -> None:
    where = {"a": 1, 'a"': 2, "a\\": 3, "b": [{"a": 1}, {"a": 2}], 'a\\"': {"a": {"a": 4}}}
    body = {"vector": [0.5], "where": where}
    assert from_json(shapes.Query, json.dumps(body).encode()).where == where


def test_a_json_body_for_which_there_is_no_room_is_refused_before_it_is_sent() -> None:
    with served(json_memory=1 << 20) as (_, url), connected(url) as client:
        head = {"Content_Type": "application/json; charset=utf-8", "Content_Length": str(1 << 20)}
        client.sendall(request_bytes("POST", "/v1/search", url, **head))
        assert client.recv(ANSWER).startswith(b"HTTP/1.1 413")
    with served(memory=1 << 20) as (_, url), connected(url) as client:
        client.sendall(request_bytes("POST", "/v1/search", url, **head | {"Content_Type": "application/x-npy"}))
        answered = client.recv(ANSWER)
        assert answered.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1\r\n" in answered


@pytest.mark.parametrize(
    "where",
    [[{}] * 100_000, [""] * 100_000, [[0]] * 60_000, "\u00e9" * 300_000],
    ids=["objects", "strings", "lists", "letters"],
)
def test_json_that_would_become_large_is_refused(where: Any) -> None:
    data = json.dumps({"vector": [0.5, 0.5], "where": {"colour": where}}).encode()
    assert CONSIDERABLE < len(data) < 2 << 20
    with served(json_memory=4 << 20) as (_, url), connected(url) as client:
        head = {"Content_Type": "application/json", "Content_Length": str(len(data))}
        client.sendall(request_bytes("POST", "/v1/search", url, data, **head))
        answered = client.recv(ANSWER)
        assert answered.startswith(b"HTTP/1.1 413")
        while b"bytes of memory or more" not in answered:
            more = client.recv(ANSWER)
            assert more, answered
            answered += more


def test_an_escape_that_comes_in_two_parts_counts() -> None:
    async def counted(parts: list[bytes]) -> int:
        room = memory.Memory(Limits())
        body = room.of_request({"headers": [(b"content-type", b"application/json")]}, None)
        assert body is not None
        messages = iter([{"type": "http.request", "body": part} for part in parts])

        async def receive() -> dict[str, Any]:
            return next(messages)

        for _ in parts:
            await body.metered(receive)()
        return room.n_bytes

    parts = [b'{"text": "' + b"a" * 200_000 + b"\\", b"", b'u00e9" }' + b" " * CONSIDERABLE]
    assert asyncio.run(counted(parts)) == asyncio.run(counted([b"".join(parts)]))


def test_bodies_share_the_memory_and_give_it_back() -> None:
    array = np.zeros((200_000, 2), np.float32).tobytes()
    body = array[: 3 * CONSIDERABLE]
    head = {"Content_Type": "application/x-npy", "Transfer_Encoding": "chunked"}
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    with served(memory=8 * CONSIDERABLE) as (_, url):

        def one_of_two_is_refused() -> bool:
            """Whichever comes second; the other one goes on to hold its memory."""
            with connected(url) as first, connected(url) as second:
                for connection in (first, second):
                    connection.sendall(request_bytes("POST", "/v1/items", url, chunk, **head))  # and no more of it
                    connection.settimeout(0.5)
                for connection in (second, first):
                    with suppress(TimeoutError):  # which is not refused, or has not come so far yet
                        if connection.recv(ANSWER).startswith(b"HTTP/1.1 503"):
                            assert post_json(url, "/v1/search", {"vector": [0.5, 0.5]}).status_code == 200
                            return True
                return False

        assert until(one_of_two_is_refused)

        def taken() -> bool:
            with connected(url) as third:
                third.sendall(request_bytes("POST", "/v1/items", url, chunk + b"0\r\n\r\n", **head))
                return third.recv(ANSWER).startswith(b"HTTP/1.1 400")  # it is no array

        assert until(taken)
        assert taken()


def test_the_memory_of_large_bodies_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[bool] = []
    monkeypatch.setattr(memory, "TRIM_SECONDS", 0.2)
    monkeypatch.setattr(allocator, "trim", lambda: trimmed.append(True))
    small, large = {"vector": [0.5, 0.5]}, {"vector": [0.5, 0.5], "where": {"colour": "a" * 2 * CONSIDERABLE}}
    with served() as (_, url):
        for _ in range(3):
            assert post_json(url, "/v1/search", small).status_code == 200
        time.sleep(0.4)
        assert not trimmed
        for _ in range(3):
            assert post_json(url, "/v1/search", large).status_code == 200
        until(lambda: trimmed)
        assert len(trimmed) <= 3


REFUSED = {
    "by the parser, in its thread": ("/v1/search", {"vectors": [[0.5] * 70_000]}, 413),
    "by a thread for reads": ("/v1/search", {"vector": [0.5, 0.5], "where": {"colour": ["a"] * 200_000}}, 422),
    "by the writer": ("/v1/items", {"ids": [1], "vectors": [[0.5, 0.5]], "payloads": [{"text": "a" * 60_000}]}, 422),
    "by the writer, behind the framework": ("/v1/learn/labelled", {"vectors": [[0.5] * 5] * 2, "y": ["a", "b"]}, 422),
}


@pytest.mark.parametrize(("path", "document", "status"), REFUSED.values(), ids=REFUSED)
def test_a_refused_body_is_freed_without_the_garbage_collector(path: str, document: Any, status: int) -> None:
    """An error whose traceback refers to it again would keep the body until the collector comes."""

    def kept() -> list[shapes.Shape]:
        return [thing for thing in gc.get_objects() if issubclass(type(thing), shapes.Shape)]  # proxies may be dead

    with served() as (_, url):
        gc.collect()
        gc.disable()
        try:
            before = len(kept())
            for _ in range(3):
                assert post_json(url, path, document).status_code == status
            until(lambda: len(kept()) <= before)
        finally:
            gc.enable()


def test_no_number_of_a_large_body_becomes_an_object() -> None:
    data = json.dumps({"vectors": [[0.5] * 100] * 500, "k": 1}, separators=(",", ":")).encode()
    assert peak_of_parsing(data) < 4 * len(data)  # a list of objects is eight times as large


needs_trim = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="this C library has no malloc_trim; `make test` on a Linux with glibc runs these",
)

PIECES = """
import psutil
from onlinehash.serve import allocator

pieces = [bytes([1]) * 100_000 for _ in range(1000)]
before = psutil.Process().memory_info().rss
kept = pieces[::10]
del pieces
allocator.trim()
print(before - psutil.Process().memory_info().rss)
"""


@needs_trim
def test_pages_between_what_stays_go_back_to_the_system() -> None:
    """In a process of its own, as this one has free pieces already."""
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 60e6


FREED = """
import psutil
from onlinehash.serve import allocator

assert allocator.keep_little()


def rss():
    return psutil.Process().memory_info().rss


bytearray(30_000_000)  # by itself, glibc would take pieces up to this from its heap from now on
before = rss()
large, small = [], []
for _ in range(30):
    large.append(b"1" * 3_000_000)
    small.append(b"2" * 1000)
del large
print(rss() - before)
"""


@needs_trim
def test_large_pieces_go_back_when_they_are_freed() -> None:
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 10e6
