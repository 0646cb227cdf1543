"""A replica whose database is silent or down: whoever does not need the database does not notice."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

import onlinehash
from onlinehash import OnlineHashing, refresh
from onlinehash.errors import ServiceUnavailable
from onlinehash.serve import learner_watch
from onlinehash.serve.service import Service
from onlinehash.stores.index import StoreIndex
from tests.serve.services import IDS, SECONDS, post_json, rows, served, until
from tests.stores.memory_backend import MemoryBackend, Tables

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns

QUERY = {"vector": [1.0, 2.0], "k": 3}
LESSON = {"id_a": IDS[0], "id_b": IDS[1], "similar": True}
#: What a replica answers from what it knows.
FROM_MEMORY = ("/v1/health", "/v1/ready", "/v1/about", "/v1/stats", "/metrics")


@pytest.fixture
def tables() -> Tables:
    found = Tables.create(OnlineHashing(n_bits=8, random_state=0), refresh.by_hand())
    with StoreIndex(MemoryBackend(found)) as index:
        index.add(IDS, rows(len(IDS)))
    return found


@contextmanager
def replica(tables: Tables) -> Iterator[tuple[MemoryBackend, Service, str]]:
    """A service over these tables, and its own way to them."""
    way = MemoryBackend(tables)
    with served(StoreIndex(way, follow=True)) as (service, url):
        try:
            yield way, service, url
        finally:
            way.before_read = way.before_write = lambda name: None  # or it could not close


def get(url: str, path: str) -> httpx.Response:
    return httpx.get(url + path, timeout=SECONDS / 4)


def stats(url: str) -> dict[str, object]:
    found = get(url, "/v1/stats")
    assert found.status_code == 200, found.text
    document: dict[str, object] = found.json()
    return document


def test_nobody_waits_for_what_others_taught_while_the_database_is_silent(tables: Tables) -> None:
    with replica(tables) as (way, service, url), StoreIndex(MemoryBackend(tables)) as other:
        answers, asks = threading.Event(), threading.Event()

        def silent(name: str) -> None:
            if name == "blobs":  # where lessons and encoders are
                asks.set()
                answers.wait()

        before = stats(url)
        try:
            way.before_read = silent
            other.learn_pairs_by_id(IDS[:4], IDS[4:8], [True, False, True, False])
            assert asks.wait(SECONDS)
            for path in FROM_MEMORY:
                assert get(url, path).status_code == 200, path
            assert post_json(url, "/v1/search", QUERY).status_code == 200
            with httpx.stream("GET", url + "/events", timeout=SECONDS / 4) as events:
                assert next(events.iter_lines()) == "event: hello"
            assert stats(url)["n_pairs"] == before["n_pairs"] == 0
            # One who asks for items or the model waits, and no number of them makes others wait.
            busy = [
                threading.Thread(target=lambda path=path: httpx.get(url + path, timeout=SECONDS))
                for path in ["/v1/model"] * 10
            ]
            for thread in busy:
                thread.start()
            for path in FROM_MEMORY:
                assert get(url, path).status_code == 200, path
            assert post_json(url, "/v1/search", QUERY).status_code == 200
        finally:
            answers.set()
        for thread in busy:
            thread.join()
        until(lambda: stats(url)["n_pairs"] == 4)
        assert stats(url)["behind"] == {"bits": len(service.changed_bits()), "pairs": 4}


def test_numbers_are_right_at_once_while_the_database_answers(tables: Tables) -> None:
    with replica(tables) as (_, service, url):
        for n in range(1, 4):
            learned = post_json(url, "/v1/learn", LESSON).json()
            assert learned["n_pairs"] == learned["ranking_pairs"] == n
            found = stats(url)
            assert (found["n_pairs"], found["waiting"]) == (n, 0)
            assert found["behind"] == {"bits": len(service.changed_bits()), "pairs": n}
            assert f"onlinehash_pairs {n}.0" in get(url, "/metrics").text
        post_json(url, "/v1/refresh", {"wait": True})
        assert stats(url)["behind"] == {"bits": 0, "pairs": 0}
        assert get(url, "/v1/about").json()["n_features"] == 2


def test_the_first_codes_are_not_made_in_the_event_loop() -> None:
    tables = Tables.create(OnlineHashing(n_bits=8, random_state=0), refresh.by_hand())
    threads = set[str]()
    with replica(tables) as (way, service, url):
        way.before_write = lambda name: threads.add(threading.current_thread().name)
        index = service.index
        assert isinstance(index, StoreIndex)
        follow, index._follow = index._follow, lambda: None  # type: ignore[method-assign]
        assert post_json(url, "/v1/items", {"ids": IDS, "vectors": rows(len(IDS)).tolist()}).status_code == 201
        index._follow = follow  # type: ignore[method-assign]
        assert index.encoder is None  # as if the process that added them had died before its refresh
        threads.clear()
        until(lambda: post_json(url, "/v1/search", QUERY).status_code == 200)
    assert threads
    assert "onlinehash-server" not in threads


def test_a_failed_change_leaves_monitoring_as_it_was(
    tables: Tables, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_watch, "AFTER_FAILURE", 0.05)
    caplog.set_level(logging.INFO, "onlinehash")
    with replica(tables) as (way, _, url):
        assert post_json(url, "/v1/learn", LESSON).json()["n_pairs"] == 1
        before = stats(url)

        def down(name: str) -> None:
            if name != "head":  # with which the backend of these tests begins a change
                raise ServiceUnavailable("the database is down.")

        way.before_read = way.before_write = down
        assert post_json(url, "/v1/learn", LESSON).status_code == 503
        for path in FROM_MEMORY:
            assert get(url, path).status_code == 200, path
        assert post_json(url, "/v1/search", QUERY).status_code == 200
        found = stats(url)
        assert all(found[name] == before[name] for name in ("n", "n_pairs", "waiting", "behind", "encoder", "serial"))
        with onlinehash.connect(url) as index:
            assert len(index) == len(IDS)
        lags = [stats(url)["lag_seconds"]]
        until(lambda: lags.append(stats(url)["lag_seconds"]) or lags[-1] > 1.0)
        assert lags == sorted(lags)
        told = [record for record in caplog.records if record.name == "onlinehash.service"]
        assert not [record for record in told if record.exc_info]
        assert sum("not up to date" in record.message for record in told) == 1
        way.before_read = way.before_write = lambda name: None
        until(lambda: any("up to date again" in record.message for record in caplog.records))
        assert post_json(url, "/v1/learn", LESSON).json()["n_pairs"] == 2
