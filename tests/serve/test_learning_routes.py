"""Learning over HTTP: what was learned is never said not to have been, and nobody who searches waits for it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from onlinehash import LiveIndex, OnlineHashing, RbfAnchors, refresh
from onlinehash.errors import StorageError
from onlinehash.learners import registry
from tests.serve.services import IDS, SECONDS, post_json, rows, served, small_index


def test_a_refresh_that_fails_after_learning_does_not_take_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise StorageError("expected a disk with room, got a full one; nothing of this call was kept.")

    with served(small_index(refresh=refresh.by_hand())) as (service, url):
        monkeypatch.setattr(service.index, "_publish", fail)
        answered = post_json(url, "/v1/learn", {"id_a": 1, "id_b": 2, "similar": True, "refresh": True})
        assert answered.status_code == 200
        assert len(answered.json()["loss"]) == 1
        assert service.n_pairs == 1


def test_learning_before_there_is_a_hash_function_can_ask_for_a_refresh() -> None:
    index = LiveIndex(OnlineHashing(n_bits=8, features=RbfAnchors(50), random_state=0))
    index.add(range(4), rows(4))
    with served(index) as (_, url):
        answered = post_json(url, "/v1/learn", {"id_a": 1, "id_b": 2, "similar": True, "refresh": True})
        assert answered.status_code == 200
        assert answered.json()["encoder"] is None


def test_an_answer_says_how_many_pairs_wait_for_their_chunk() -> None:
    with served(LiveIndex(n_bits=8)) as (service, url):
        service.changes.add(IDS, rows(len(IDS))).result()
        told = httpx.get(url + "/v1/about", timeout=SECONDS).json()
        assert (told["method"], told["chunk"]) == (registry.RECOMMENDED, 32)
        lessons = [1, 30, 1, 70, 3]
        waiting = [post_json(url, "/v1/learn", lesson(n)).json()["waiting"] for n in lessons]
        assert waiting == [1, 31, 0, 6, 9]
        assert httpx.get(url + "/v1/stats", timeout=SECONDS).json()["waiting"] == 9
        nothing = post_json(url, "/v1/learn/clicks", {"query": IDS[0], "shown": [IDS[1]], "clicked": []})
        assert nothing.json()["waiting"] in (9, 10)  # what was passed over may teach
        post_json(url, "/v1/flush", {})
        assert httpx.get(url + "/v1/stats", timeout=SECONDS).json()["waiting"] == 0
    with served() as (_, url):  # OH
        assert post_json(url, "/v1/learn", lesson(3)).json()["waiting"] == 0
        assert httpx.get(url + "/v1/about", timeout=SECONDS).json()["chunk"] == 1


def lesson(n: int) -> dict[str, Any]:
    """Some pairs of items."""
    return {"id_a": [IDS[0]] * n, "id_b": [IDS[1]] * n, "similar": [True] * n}


def test_clicks_by_vector_are_answered_again_when_their_items_are_gone() -> None:
    clicks = {"vector": [1, 2], "shown": [2, 3], "clicked": [3]}
    with served() as (service, url):
        first = post_json(url, "/v1/learn/clicks", clicks, **{"Idempotency-Key": "clicks"})
        service.changes.remove([3]).result()
        again = post_json(url, "/v1/learn/clicks", clicks, **{"Idempotency-Key": "clicks"})
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.json()["loss"] == first.json()["loss"]
        assert service.n_pairs == 2
