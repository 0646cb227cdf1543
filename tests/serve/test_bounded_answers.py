"""Answers that would be too large are refused before they are made, and large bodies hold nobody up."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from onlinehash.serve import requests
from onlinehash.serve.bodies import parser
from tests.serve.services import post_json, rows, served


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
