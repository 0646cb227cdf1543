"""Refreshes that several clients ask for at once: nobody's is cancelled, and everybody's pairs are in the codes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from onlinehash import refresh
from onlinehash.errors import StorageError
from onlinehash.live.recode import Rehash
from onlinehash.serve.service import Service
from tests.serve.services import SECONDS, post_json, served, small_index, until


class Slow:
    """Refreshes that compute nothing until they may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = 0, threading.Semaphore(0)
        original = Rehash.compute

        def compute(rehash: Rehash, stop: Callable[[], bool]) -> bool:
            self.begun += 1
            while not self.go.acquire(timeout=0.01):
                if stop():
                    return False
            return original(rehash, stop)

        monkeypatch.setattr(Rehash, "compute", compute)

    def finish(self) -> None:
        self.go.release()

    def finish_all(self) -> None:
        """What runs now, and whatever begins later."""
        self.go.release(100)


@contextmanager
def slow_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, str, Slow, ThreadPoolExecutor]]:
    index = small_index(refresh=refresh.by_hand())
    slow = Slow(monkeypatch)
    with served(index) as (service, url), ThreadPoolExecutor(16) as pool:
        yield service, url, slow, pool


def learn(url: str, i: int) -> httpx.Response:
    """One pair, with a refresh."""
    return post_json(url, "/v1/learn", {"id_a": 1 + i, "id_b": 2 + i, "similar": bool(i % 2), "refresh": True})


def version(service: Service) -> int:
    return int(service.index.learner.version_)


def learned(service: Service, url: str, pool: ThreadPoolExecutor, pairs: list[int]) -> list[tuple[Future[Any], int]]:
    """Answers to come, and the version of the learner with the pair of each."""
    found = []
    for i in pairs:
        before = version(service)
        coming = pool.submit(learn, url, i)
        until(lambda before=before: version(service) > before)  # type: ignore[misc]
        found.append((coming, version(service)))
    return found


def test_clients_that_learn_and_refresh_all_get_their_pairs_into_the_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_service(monkeypatch) as (service, url, slow, pool):
        first = learned(service, url, pool, [0])
        until(lambda: slow.begun == 1)
        others = learned(service, url, pool, [1, 2, 3, 4, 5, 6, 7])
        until(lambda: len(service.writer) == 0)
        assert slow.begun == 1
        slow.finish()
        answer, needed = first[0]
        assert answer.result(SECONDS).json()["encoder"] >= needed
        until(lambda: slow.begun == 2)
        slow.finish_all()  # of those too who ask only now: a pair is learned before its client asks for the refresh
        for answer, needed in others:
            assert answer.result(SECONDS).json()["encoder"] >= needed
        assert slow.begun < 1 + len(others)
        assert service.index.behind == (0, 0)


def test_who_waits_for_a_refresh_waits_for_one_with_all_that_was_learned_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with slow_service(monkeypatch) as (service, url, slow, pool):
        learned(service, url, pool, [0])
        until(lambda: slow.begun == 1)
        pair = {"id_a": 3, "id_b": 4, "similar": True}
        assert post_json(url, "/v1/learn", pair).status_code == 200
        waiting = pool.submit(post_json, url, "/v1/refresh", {"wait": True})
        assert post_json(url, "/v1/refresh", {"wait": False}).json()["behind"]["pairs"] == 2
        slow.finish()
        until(lambda: slow.begun == 2)
        assert not waiting.done()
        slow.finish_all()  # it may have come when the second had begun
        assert waiting.result(SECONDS).json()["behind"] == {"bits": 0, "pairs": 0}


def test_who_waits_for_a_cancelled_refresh_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_service(monkeypatch) as (service, url, slow, pool):
        slow.finish()
        learned(service, url, pool, [0])[0][0].result(SECONDS)
        learn_only = {"id_a": 3, "id_b": 4, "similar": True}
        assert post_json(url, "/v1/learn", learn_only).status_code == 200
        waiting = pool.submit(post_json, url, "/v1/refresh", {"wait": True})
        until(lambda: slow.begun == 2)
        cancelling = pool.submit(post_json, url, "/v1/refresh/cancel", {})
        answered = waiting.result(SECONDS)
        assert (answered.status_code, answered.json()["error"]) == (409, "RefreshCancelled")  # so no client repeats it
        assert "cancelled" in answered.json()["message"]
        slow.finish()
        assert cancelling.result(SECONDS).status_code == 200


def test_a_refresh_that_cannot_be_stored_counts_as_a_failure_of_the_disk(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise StorageError("the disk is full.")

    with served(small_index(refresh=refresh.by_hand())) as (_, url):
        status = lambda: httpx.get(f"{url}/v1/ready", timeout=SECONDS).json()["status"]  # noqa: E731
        assert post_json(url, "/v1/learn", {"id_a": 3, "id_b": 4, "similar": False}).status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(Rehash, "compute", full)
            assert post_json(url, "/v1/refresh", {"wait": True}).status_code == 507
            until(lambda: status() == "storage failing")
        ours = [record.getMessage() for record in caplog.records if record.name == "onlinehash.service"]
        assert ours == ["a change could not be stored"]
        assert post_json(url, "/v1/refresh", {"wait": True}).status_code == 200
        until(lambda: status() == "ready")
