"""Answers that would be too large are refused before they are made, and large bodies hold nobody up."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import ExitStack
from typing import Any

import httpx
import numpy as np
import pytest

from onlinehash.serve import memory, requests, service
from onlinehash.serve.bodies import parser
from onlinehash.serve.bodies.shapes import FORMAT
from onlinehash.serve.middleware import POSTED_READS
from tests.serve.services import SECONDS, connected, post_json, request_bytes, rows, served, small_index, until


def test_a_radius_that_finds_too_much_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(hits=29) as (service, url):
        searched = service.index.found_within
        n_asked = 0

        def count(queries: Any, *arguments: Any) -> Any:
            nonlocal n_asked
            n_asked += len(queries)
            return searched(queries, *arguments)

        monkeypatch.setattr(service.index, "found_within", count)
        answered = post_json(url, "/v1/within", {"vectors": rows(1000).tolist(), "radius": 8})
        assert answered.status_code == 413
        assert n_asked < 30


def test_a_radius_for_many_queries_finds_what_the_index_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = rows(200, seed=3)
    with served(hits=2000) as (service, url):
        expected = [hits.ids.tolist() for hits in service.index.within(queries, 1)]
        monkeypatch.setattr("onlinehash.serve.routes.search.HITS_AT_ONCE", 1)  # which makes two parts of them
        found = post_json(url, "/v1/within", {"vectors": queries.tolist(), "radius": 1}).json()
        assert found["ids"] == expected
        for field in ("codes", "ids"):
            assert post_json(url, "/v1/within", {field: [], "radius": 1}).json()["ids"] == []


def test_items_with_their_vectors_come_in_batches() -> None:
    with served(batch=5) as (_, url):
        for n, vectors, status in ((5, True, 200), (6, True, 413), (6, False, 200)):
            assert post_json(url, "/v1/items/get", {"ids": [1] * n, "vectors": vectors}).status_code == status


def test_large_bodies_are_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    in_loop = []

    def read(*arguments: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            in_loop.append(False)
        else:
            in_loop.append(True)
        return parser.read(*arguments)

    monkeypatch.setattr(requests, "read", read)
    many = np.round(rows(9_000), 20).tolist()
    with served() as (_, url):
        assert post_json(url, "/v1/search", {"vectors": many[:3], "k": 1}).status_code == 200
        assert post_json(url, "/v1/search", {"vectors": many, "k": 1}).status_code == 200
        assert post_json(url, "/v1/codes", {"vectors": many}).status_code == 200
    assert in_loop == [True, False, False]


# ------------------------------------------------------------------ bytes of an answer


@pytest.fixture
def heavy() -> Any:
    """An index whose first item has a payload of 50 KB."""
    index = small_index()
    index.update([1], payloads=[{"text": "x" * 50_000}])
    return index


@pytest.mark.parametrize("accept", ["application/json", FORMAT])
def test_items_are_refused_once_they_are_too_large(heavy: Any, accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id may be named as often as one likes: 200 KB of ids asked for 6 GB."""
    n_read = 0
    get_many = heavy.get_many

    def count(ids: Any) -> Any:
        nonlocal n_read
        n_read += len(ids)
        return get_many(ids)

    monkeypatch.setattr(heavy, "get_many", count)
    monkeypatch.setattr("onlinehash.serve.routes.items.ITEMS_AT_ONCE", 10)
    with served(heavy, answer_bytes=1 << 20) as (_, url):
        for n, status in ((15, 200), (90_000, 413)):
            asked = {"ids": [1] * n, "vectors": False}
            answered = httpx.post(f"{url}/v1/items/get", json=asked, headers={"Accept": accept}, timeout=60)
            assert answered.status_code == status
    assert answered.json()["message"] == "the response is larger than the limit of 1,048,576 bytes; ask for less."
    assert n_read < 60


@pytest.mark.parametrize("path", ["find", "search", "within"])
def test_payloads_of_hits_are_refused_once_they_are_too_large(heavy: Any, path: str) -> None:
    more = {"radius": 8} if path == "within" else {"k": 12}
    with served(heavy, answer_bytes=1 << 20) as (_, url):
        for n, status in ((15, 200), (30, 413)):
            asked = {"vectors": rows(n).tolist(), "payloads": True} | more
            answered = post_json(url, f"/v1/{path}", asked)
            assert answered.status_code == status, answered.text[:200]
            assert status > 200 or {"text": "x" * 50_000} in answered.json()["payloads"][0]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("search", {"ids": [1] * 600}),
        ("find", {"ids": [1] * 600}),
        ("rerank", {"vectors": [[0.5, 0.5]] * 200, "ids": [[1, 2, 3]] * 200}),
        ("items/get", {"ids": [1] * 600}),
        ("learn", {"id_a": [1] * 300, "id_b": [2] * 300, "similar": [True] * 300}),
        ("learn/clicks", {"query": 1, "shown": list(range(2, 400)), "clicked": [399]}),
    ],
)
def test_vectors_that_ids_stand_for_have_a_limit_too(path: str, body: dict[str, Any]) -> None:
    """A few bytes of ids stand for vectors of many thousand bytes each."""
    with served(answer_bytes=4096) as (service, url):
        before = service.n_pairs
        answered = post_json(url, f"/v1/{path}", body)
        assert answered.status_code == 413
        assert "vectors take at most 4,096 bytes" in answered.json()["message"]
        assert service.n_pairs == before


def test_codes_of_many_items_are_made_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onlinehash.serve.routes.search.ITEMS_AT_ONCE", 5)
    with served(answer_bytes=4096) as (_, url):
        few = post_json(url, "/v1/codes", {"ids": [1, 2, 3]}).json()["codes"]
        assert post_json(url, "/v1/codes", {"ids": [1, 2, 3] * 300}).json()["codes"] == few * 300


def test_a_lesson_has_as_many_pairs_as_a_batch_has_rows() -> None:
    with served(batch=20) as (_, url):
        for n, status in ((20, 200), (21, 413)):
            lesson = {"id_a": [1] * n, "id_b": [2] * n, "similar": [True] * n}
            assert post_json(url, "/v1/learn", lesson).status_code == status


def test_responses_that_are_not_read_share_the_memory_of_bodies(heavy: Any) -> None:
    """A client that asks for much and reads none of it holds the response in memory, and so may many clients."""
    asked = {"ids": [1] * 200, "vectors": False}  # 10 MB, more than the buffers of a socket take
    body = json.dumps(asked).encode()
    head = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    with served(heavy, memory=15 << 20) as (_, url), ExitStack() as clients:
        assert post_json(url, "/v1/items/get", asked).status_code == 200

        def is_held() -> bool:  # as soon as the memory of the first response is free again
            slow = clients.enter_context(connected(url))
            slow.sendall(request_bytes("POST", "/v1/items/get", url, body, **head))
            return slow.recv(12) == b"HTTP/1.1 200"

        assert until(is_held)
        assert post_json(url, "/v1/items/get", asked).status_code == 503
        assert post_json(url, "/v1/search", {"vector": [0.5, 0.5]}).status_code == 200
        assert post_json(url, "/v1/items", {"vectors": rows(1).tolist()}).status_code == 201  # a change is not undone
        clients.close()
        assert until(lambda: post_json(url, "/v1/items/get", asked).status_code == 200)


def test_the_memory_of_large_responses_goes_back_to_the_system(heavy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed = threading.Event()
    monkeypatch.setattr(memory, "TRIM_SECONDS", 0.0)
    monkeypatch.setattr(memory.allocator, "trim", trimmed.set)
    with served(heavy) as (_, url):
        assert post_json(url, "/v1/items/get", {"ids": [1] * 20, "vectors": False}).status_code == 200
        assert trimmed.wait(30)


# ------------------------------------------------------------------ bodies that wait


def test_large_bodies_do_not_wait_for_ever_to_be_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hundred bodies of 250 KB once kept others waiting for minutes, also when their clients had left."""
    large, goes_on, read = {"vectors": [[0.123456789] * 2] * 4000}, threading.Event(), requests.read
    begun = threading.Event()

    def slow(*arguments: Any) -> Any:
        begun.set()
        goes_on.wait(60)
        return read(*arguments)

    monkeypatch.setattr(service, "MOST_PARSING", 3)
    with served(request_seconds=0.2) as (_, url):
        monkeypatch.setattr(requests, "read", slow)
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(post_json(url, "/v1/search", large).status_code))
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        assert begun.wait(60)
        assert until(lambda: statuses == [429, 429])
        time.sleep(0.3)
        goes_on.set()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 429, 429, 504, 504]


def test_what_is_posted_to_read_is_known_to_the_service() -> None:
    with served() as (_, url):
        paths = httpx.get(f"{url}/openapi.json", timeout=SECONDS).json()["paths"]
    posted = {path for path, methods in paths.items() if "post" in methods}
    assert posted >= POSTED_READS
