"""Changes are made one after the other, each once, or refused; what was accepted is done, and searches do not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from onlinehash import LiveIndex, refresh
from onlinehash.live.recode import Rehash
from onlinehash.serve import server
from onlinehash.serve.errors import Busy, Unavailable
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer
from tests.serve.services import IDS, SECONDS, Process, everything, post_json, served, small_index, until


def held(writer: Writer) -> threading.Event:
    """Let a writer wait until this is set."""
    go, here = threading.Event(), threading.Event()
    writer.submit(lambda: (here.set(), go.wait(SECONDS)))
    assert here.wait(SECONDS)
    return go


# ------------------------------------------------------------------ the queue itself


def test_changes_are_made_in_the_order_in_which_they_were_accepted() -> None:
    writer, made = Writer(Limits()), []
    futures = [writer.submit(lambda i=i: made.append(i) or i) for i in range(500)]
    assert [future.result(SECONDS) for future in futures] == made == list(range(500))
    writer.close()


def test_a_full_queue_refuses_and_loses_nothing() -> None:
    writer, made = Writer(Limits(queue=3, queue_bytes=100)), []
    go = held(writer)
    accepted = [writer.submit(lambda i=i: made.append(i)) for i in range(2)]
    with pytest.raises(Busy) as refused:
        writer.submit(lambda: made.append("refused"))
    assert refused.value.retry_after >= 1
    go.set()
    [future.result(SECONDS) for future in accepted]
    assert made == [0, 1]
    until(lambda: len(writer) == 0)
    writer.submit(lambda: made.append(2)).result(SECONDS)
    writer.close()
    assert made == [0, 1, 2]


def test_a_change_that_fails_or_that_nobody_waits_for_does_not_stop_the_next() -> None:
    writer, made = Writer(Limits()), []
    go = held(writer)
    failing = writer.submit(lambda: 1 // 0)
    left = writer.submit(lambda: made.append("left"))
    assert not left.cancel()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(writer.submit(lambda: made.append("timed out"))), 0.05)

    asyncio.run(leave())
    go.set()
    assert writer.submit(lambda: "next").result(SECONDS) == "next"
    assert isinstance(failing.exception(SECONDS), ZeroDivisionError)
    assert made == ["left", "timed out"]
    writer.close()


def test_a_writer_that_closes_finishes_what_it_accepted() -> None:
    writer, made = Writer(Limits()), []
    go = held(writer)
    futures = [writer.submit(lambda i=i: made.append(i)) for i in range(20)]
    closing = threading.Thread(target=writer.close)
    closing.start()
    until(lambda: writer.closing)
    with pytest.raises(Unavailable):
        writer.submit(lambda: made.append("late"))
    go.set()
    closing.join(SECONDS)
    assert made == list(range(20))
    assert all(future.done() for future in futures)


# ------------------------------------------------------------------ over HTTP


def test_a_full_queue_is_a_429_and_what_it_accepted_is_done_once() -> None:
    with served(queue=5) as (service, url), ThreadPoolExecutor(20) as pool:
        go = held(service.writer)
        asked = [pool.submit(post_json, url, f"/v1/items/{100 + i}", {"vector": [i, 1]}) for i in range(20)]
        until(lambda: sum(future.done() for future in asked) == 16)
        assert post_json(url, "/v1/search", {"vector": [1, 2], "payloads": True}).status_code == 200  # goes on
        assert httpx.get(url + "/v1/stats", timeout=SECONDS).json()["queue"] == {"length": 5, "limit": 5}
        go.set()
        answers = [future.result() for future in asked]
        refused = [answered for answered in answers if answered.status_code == 429]
        assert len(refused) == 16
        assert all(int(answered.headers["Retry-After"]) >= 1 for answered in refused)
        assert all(answered.json()["error"] == "Busy" for answered in refused)
        made = {100 + i for i, answered in enumerate(answers) if answered.status_code == 201}
        assert set(service.index.ids.tolist()) == {*IDS, *made}
        assert len(made) == 4


# ------------------------------------------------------------------ keys


def keyed(url: str, key: str, document: Any = None, path: str = "/v1/items") -> httpx.Response:
    return post_json(url, path, document or {"vectors": [[0.5, 0.25]]}, **{"Idempotency-Key": key})


def test_a_key_is_used_once() -> None:
    with served() as (service, url):
        first, second = keyed(url, "a"), keyed(url, "a")
        assert (first.status_code, second.status_code) == (201, 201)
        assert "Idempotency-Replayed" not in first.headers
        assert second.headers["Idempotency-Replayed"] == "true"
        assert first.json() == second.json()
        before = everything(service.index)
        for answered in (
            keyed(url, "a", {"vectors": [[0.5, 0.5]]}),
            keyed(url, "a", {"vector": [0.5, 0.25]}, "/v1/items/200"),
            keyed(url, "a", {"ids": [1]}, "/v1/items/remove"),
            httpx.delete(url + "/v1/items/1", headers={"Idempotency-Key": "a"}, timeout=SECONDS),
        ):
            assert answered.status_code == 409
            assert answered.json()["error"] == "KeyReused"
        assert everything(service.index) == before


def test_every_change_takes_a_key_and_a_refused_one_leaves_it_free() -> None:
    changes: list[tuple[str, str, Any]] = [
        ("POST", "/v1/items", {"vectors": [[1, 2], [2, 1]]}),
        ("PATCH", "/v1/items", {"ids": [1], "vectors": [[2, 2]]}),
        ("POST", "/v1/items/remove", {"ids": [2]}),
        ("POST", "/v1/items/300", {"vector": [1, 2]}),
        ("PATCH", "/v1/items/300", {"payload": {"a": 1}}),
        ("DELETE", "/v1/items/300", None),
        ("POST", "/v1/learn", {"a": [1, 2], "b": [2, 1], "similar": False}),
        ("POST", "/v1/learn", {"id_a": [1], "id_b": [3], "similar": [True]}),
        ("POST", "/v1/learn/clicks", {"query": 1, "shown": [3, 4], "clicked": [4]}),
        ("POST", "/v1/flush", None),
    ]
    with served() as (service, url), httpx.Client(base_url=url, timeout=60) as client:
        for number, (method, path, document) in enumerate(changes):
            key = {"Idempotency-Key": f"key {number}".replace(" ", "-")}
            if document:
                wrong = client.request(method, path, json=document | {"vectors": [[1, 2, 3]], "ids": [1]}, headers=key)
                assert wrong.status_code == 422, path
            first = client.request(method, path, json=document, headers=key)
            assert first.status_code in (200, 201), (path, first.text)
            assert "Idempotency-Replayed" not in first.headers
            after = everything(service.index)
            again = client.request(method, path, json=document, headers=key)
            assert again.headers["Idempotency-Replayed"] == "true"
            assert again.json() == first.json()
            assert everything(service.index) == after


def test_keys_that_are_none_are_refused() -> None:
    with served() as (service, url):
        for key in ("", "x" * 129, "two words"):
            assert keyed(url, key).status_code == 400
        assert len(service.index) == len(IDS)


def test_duplicates_that_are_sent_together_are_made_once() -> None:
    with served() as (service, url), ThreadPoolExecutor(16) as pool:
        go = held(service.writer)
        asked = [pool.submit(keyed, url, f"key-{i % 4}", {"vectors": [[i % 4, 1]]}) for i in range(16)]
        until(lambda: len(service.writer) == 17)
        go.set()
        answers = [future.result() for future in asked]
        assert {answered.status_code for answered in answers} == {201}
        assert sum("Idempotency-Replayed" not in answered.headers for answered in answers) == 4
        assert len({tuple(answered.json()["ids"]) for answered in answers}) == 4
        assert len(service.index) == len(IDS) + 4


def test_a_key_is_known_after_a_restart(tmp_path: Path) -> None:
    # An answer has the encoder of the moment, so there must be no refresh between the two.
    with served(small_index(tmp_path / "items", refresh=refresh.by_hand())) as (_, url):
        added, learned = keyed(url, "a"), keyed(url, "b", {"id_a": 1, "id_b": 2, "similar": True}, "/v1/learn")
        assert (added.status_code, learned.status_code) == (201, 200)
    with served(LiveIndex.open(tmp_path / "items")) as (service, url):
        for first, again in (
            (added, keyed(url, "a")),
            (learned, keyed(url, "b", {"id_a": 1, "id_b": 2, "similar": True}, "/v1/learn")),
        ):
            assert again.headers["Idempotency-Replayed"] == "true"
            assert again.json() == first.json()
        assert keyed(url, "a", {"vectors": [[9, 9]]}).status_code == 409
        assert (len(service.index), service.n_pairs) == (len(IDS) + 1, 1)


# ------------------------------------------------------------------ searches do not wait


def test_searches_and_changes_go_on_during_a_long_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    go, compute = threading.Event(), Rehash.compute

    def slowly(self: Rehash, stop: Callable[[], bool]) -> bool:
        until(lambda: go.is_set() or stop())
        return compute(self, stop)

    with served() as (service, url), ThreadPoolExecutor(40) as pool:
        assert post_json(url, "/v1/learn", {"id_a": 1, "id_b": 2, "similar": False}).status_code == 200
        monkeypatch.setattr(Rehash, "compute", slowly)
        waiting = [pool.submit(post_json, url, "/v1/refresh", {"wait": True})]
        until(lambda: service.index._refresher.job is not None)
        # More of them than there are threads to work in.
        job = service.index._refresher.job
        service.index.refresh = lambda wait: job  # type: ignore[method-assign]
        waiting += [pool.submit(post_json, url, "/v1/refresh", {"wait": True}) for _ in range(39)]
        for path, document in (
            ("/v1/search", {"vector": [1, 2]}),
            ("/v1/search", {"id": 1, "payloads": True, "where": {"colour": "red"}}),
            ("/v1/within", {"vector": [1, 2], "radius": 8}),
            ("/v1/items/get", {"ids": [1]}),
            ("/v1/items/500", {"vector": [1, 2]}),
            ("/v1/learn", {"id_a": 1, "id_b": 3, "similar": True}),
        ):
            assert httpx.post(url + path, json=document, timeout=SECONDS / 2).status_code in (200, 201), path
        assert not any(future.done() for future in waiting)
        go.set()
        assert {future.result().status_code for future in waiting} == {200}


# ------------------------------------------------------------------ the end


def test_all_that_was_accepted_is_answered_when_a_service_stops() -> None:
    service = Service(small_index())
    background = server.background(service)
    url = background.__enter__()
    with ThreadPoolExecutor(9) as pool:
        go = held(service.writer)
        asked = [pool.submit(post_json, url, f"/v1/items/{100 + i}", {"vector": [i, 1]}) for i in range(8)]
        until(lambda: len(service.writer) == 9)
        stopping = pool.submit(background.__exit__, None, None, None)
        until(lambda: service.writer.closing)
        assert not stopping.done()
        go.set()
        assert [future.result().status_code for future in asked] == [201] * 8
        stopping.result(SECONDS)
        assert service.writer.closing


class Load:
    """Threads that add and learn until the service is gone, and what it acknowledged."""

    def __init__(self, url: str, first: int) -> None:
        self.added: list[int] = []
        self.n_learned = 0
        self.statuses: set[int] = set()
        self._lock = threading.Lock()
        self._url, self._next = url, first
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(4)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(SECONDS)

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=SECONDS) as client:
            for _ in range(100_000):
                with self._lock:
                    self._next += 1
                    id = self._next
                try:
                    added = client.post(f"/v1/items/{id}", json={"vector": [id, 1]})
                    learned = client.post("/v1/learn", json={"a": [id, 1], "b": [1, id], "similar": False})
                except httpx.TransportError:
                    return
                with self._lock:
                    self.statuses |= {added.status_code, learned.status_code}
                    self.added += [id] * (added.status_code == 201)
                    self.n_learned += learned.status_code == 200


@pytest.mark.filterwarnings("ignore:.* more than 100 times as long as a typical one")
@pytest.mark.long
def test_what_was_acknowledged_survives_sigterm_and_sigkill(tmp_path: Path) -> None:
    small_index(tmp_path / "items").close()
    with Process(tmp_path / "items", log=tmp_path / "log") as process, Load(process.url, 1000) as first:
        until(lambda: len(first.added) >= 30)
        assert process.stop() == 0
    assert first.statuses <= {200, 201, 503}
    assert "Traceback" not in (tmp_path / "log").read_text()
    with Process(tmp_path / "items", "--sync", "batch", log=tmp_path / "log") as process:
        assert keyed(process.url, "before").status_code == 201
        with Load(process.url, 100_000) as second:
            until(lambda: len(second.added) >= 30)
            process.kill()
    assert second.statuses <= {200, 201}
    with served(LiveIndex.open(tmp_path / "items")) as (service, url):
        ids = set(service.index.ids.tolist())
        assert {*IDS, *first.added, *second.added} <= ids
        assert service.n_pairs >= first.n_learned + second.n_learned
        assert keyed(url, "before").headers["Idempotency-Replayed"] == "true"
        # What came of requests that nobody heard the end of: at most one for each thread that asked.
        assert len(ids) <= len(IDS) + len(first.added) + len(second.added) + 8 + 1
