"""A remote index: changes that are made once, whatever gets lost, and what it does beyond a live index here."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.client import calls, session
from onlinehash.client.remote_index import RemoteIndex
from onlinehash.errors import InvalidInput, Unauthorized
from onlinehash.index.hits import Hits
from onlinehash.serve import background
from onlinehash.serve.settings import Limits
from tests.client.helpers import Asked, Reply, forwarding, serving
from tests.programs import outcome, plain
from tests.support import refused

X = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
SIMILAR = np.random.default_rng(1).random(30) < 0.5


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FIRST_PAUSE", 0.001)


def live(**options: Any) -> LiveIndex:
    return LiveIndex(OnlineHashing(n_bits=12, burn_in=30, random_state=0), refresh=refresh.by_hand(), **options)


@pytest.fixture
def served() -> Iterator[tuple[LiveIndex, RemoteIndex]]:
    """An index, and the same over a connection."""
    index = live()
    with background(index) as url, onlinehash.connect(url) as remote:
        yield index, remote


# ------------------------------------------------------------------ once


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
def test_a_change_whose_answer_is_lost_is_made_once(tmp_path: Any, durable: bool) -> None:
    """The service does the work, and its answer is dropped on the way; the client asks again."""
    here = live()
    lost: list[Asked] = []

    with background(live(path=tmp_path / "items" if durable else None)) as url:

        def losing(asked: Asked) -> Reply:
            reply = forwarding(url, asked)
            again = any(asked.body == before.body and asked.headers == before.headers for before in lost)
            if asked.headers.get("Idempotency-Key") is None or again:
                return reply
            assert 200 <= reply.status < 300
            lost.append(asked)
            return Reply(0)

        changes = [
            lambda index: index.add(None, X[:20], [{"i": i} for i in range(20)]),
            lambda index: index.add(None, X[20:22]),  # would be numbered on, if it arrived twice
            lambda index: index.update([3, 4], X[40:42]),
            lambda index: index.learn_pairs(X[:30], X[30:], SIMILAR),
            lambda index: index.learn_pair_by_id(0, 1, True),
            lambda index: index.learn_labelled(X[:4], [0, 0, 1, 1]),
            lambda index: index.remove([7]),
            lambda index: index.flush(),
        ]
        with serving(losing) as proxy, onlinehash.connect(proxy) as there:
            for call in changes:
                expected = outcome(lambda: call(here))  # noqa: B023
                assert outcome(lambda: call(there)) == expected  # noqa: B023
            assert len(lost) == len(changes), "each was lost once"
            for ask in (len, lambda i: i.ids, lambda i: i.vectors, lambda i: i.newest, lambda i: i.behind):
                assert plain(ask(there)) == plain(ask(here))


CALLS: dict[str, Callable[[RemoteIndex], Any]] = {
    "find": lambda index: index.find(X[:3], 5),
    "search": lambda index: index.search(X[0], 5, {"colour": "red"}),
    "within": lambda index: index.within(X[:3], 2),
    "rerank": lambda index: index.rerank(X[0], Hits(np.arange(5), np.zeros(5))),
    "rerank nothing": lambda index: index.rerank(X[0], Hits(np.arange(0), np.zeros(0))),
    "vectors of none": lambda index: index.vectors_of([]),
    "payloads": lambda index: index.payloads_of([0, 1]),
    "contains": lambda index: 3 in index,
    "length": len,
    "add": lambda index: index.add(None, X[:2]),
    "learn": lambda index: index.learn_pairs(X[:30], X[30:], SIMILAR),
    "learn by id": lambda index: index.learn_pairs_by_id([0, 1], [2, 3], [True, False]),
    "refresh": lambda index: index.refresh(),
    "roll back": lambda index: index.roll_back(),
}


def test_a_call_is_one_request(served: tuple[LiveIndex, RemoteIndex]) -> None:
    _, remote = served
    remote.add(None, X)
    for name in ("find", "search", "within", "rerank"):
        CALLS[name](remote)  # which compiles kernels, so that no request below takes too long
    seen: list[str] = []

    def counting(asked: Asked) -> Reply:
        seen.append(asked.path)
        return forwarding(remote.url, asked)

    with serving(counting) as proxy, onlinehash.connect(proxy, retries=0) as there:
        for name, call in CALLS.items():
            seen.clear()
            call(there)
            assert len(seen) == 1, (name, seen)


# ------------------------------------------------------------------ what is refused, and what is not


def test_what_exceeds_the_limits_is_refused_whole_and_the_rest_is_read_in_pages() -> None:
    index = live()
    with background(index, limits=Limits(batch=7, k=5, ids=9)) as url, onlinehash.connect(url) as remote:
        error = refused(remote.add, None, X)
        assert "at most 7 rows" in str(error)
        assert len(index) == 0
        remote.add(None, X[:4])
        assert remote.search(X[0], 10**6).ids.shape == (4,), "more than the limit, but there are no more"
        for start in range(4, 60, 7):
            remote.add(None, X[start : start + 7])
        for ask in (lambda i: i.ids, lambda i: i.vectors, lambda i: i.codes, list):
            assert plain(ask(remote)) == plain(ask(index))
        assert "at most 5" in str(refused(remote.search, X[0], 6))
        assert "at most 7 rows" in str(refused(remote.search, X[:8], 3))
        assert "at most 7 rows" in str(refused(remote.learn_pairs, X[:8], X[8:16], np.ones(8)))


def test_pages_that_do_not_fit_together_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PAGE", 10)
    index = live()
    index.add(None, X)
    changes = iter([lambda: index.remove(3), lambda: index.remove(50), lambda: index.add(None, X[:1])])

    def meddling(asked: Asked) -> Reply:
        reply = forwarding(url, asked)
        if "offset=20" in asked.path or asked.path == "/v1/items/get":
            next(changes, lambda: None)()
        return reply

    with background(index) as url, serving(meddling) as proxy, onlinehash.connect(proxy) as remote:
        assert plain(remote.vectors) == plain(index.vectors)
        assert next(changes, None) is None
        assert plain(remote.ids) == plain(index.ids)


def test_a_token_is_asked_for() -> None:
    with background(live(), token="t0p-s3cret") as url:
        assert isinstance(refused(onlinehash.connect, url), Unauthorized)
        assert isinstance(refused(onlinehash.connect, url, "another-one"), Unauthorized)
        with onlinehash.connect(url, "t0p-s3cret") as remote:
            assert len(remote) == 0


# ------------------------------------------------------------------ beyond


def test_clicks_teach(served: tuple[LiveIndex, RemoteIndex]) -> None:
    index, remote = served
    remote.add(None, X)
    clicks = remote.learn_clicks(0, shown=[4, 5, 6, 7], clicked=[5])
    assert (0, 5, True, 1.0) in clicks.pairs
    assert (0, 4, False, 0.5) in clicks.pairs
    assert len(clicks.updates) == len(clicks.pairs) == index.learner.n_pairs_seen_
    by_vector = remote.learn_clicks(X[0], [4, 5], [4], skip_weight=0.25)
    assert {pair[0] for pair in by_vector.pairs} == {None}
    assert isinstance(refused(remote.learn_clicks, 0, [4, 5], [9]), InvalidInput)
    assert isinstance(refused(lambda: remote.learn_clicks(0, [4], [4], skip_weight=-1)), InvalidInput)


def test_a_refresh_in_the_background(served: tuple[LiveIndex, RemoteIndex]) -> None:
    index, remote = served
    remote.add(None, X)
    remote.learn_pairs(X[:30], X[30:], SIMILAR)
    job = remote.refresh(wait=False)
    assert job is not None
    assert job.wait()
    assert job.done
    assert index.serial == remote.serial == 2
    assert remote.refresh() is None


def test_a_refresh_that_is_cancelled() -> None:
    """The service is told, and what was not finished is not said to be."""
    asked: list[str] = []

    def idle(request: Asked) -> Reply:
        asked.append(request.path)
        return Reply(body=b'{"method": "OH", "n_bits": 8, "n_models": 1, "refreshes": 2, "serial": 3}')

    with serving(idle) as url, onlinehash.connect(url) as remote:
        job = remote.refresh(wait=False)
        assert job is not None
        assert not job.done
        assert not job.wait(0.1)
        job.cancel()
        assert "/v1/refresh/cancel" in asked
        assert job.done
        assert not job.wait()


def test_a_refresh_may_take_longer_than_any_request() -> None:
    done = threading.Event()

    def slow(request: Asked) -> Reply:
        refreshes = int(done.is_set())
        body = {"method": "OH", "n_bits": 8, "n_models": 1, "refreshes": refreshes, "serial": 3}
        return Reply(body=json.dumps(body).encode())

    async def awaited(url: str) -> bool:
        async with onlinehash.connect_async(url, timeout=0.3) as there:
            job = await there.refresh(wait=False)
            assert job is not None
            threading.Timer(0.5, done.set).start()
            return await job.wait(60)

    with serving(slow) as url:
        with onlinehash.connect(url, timeout=0.3) as remote:
            job = remote.refresh(wait=False)
            assert job is not None
            assert not job.wait(), "which is as long as any other call"
            threading.Timer(0.5, done.set).start()
            assert job.wait(60)
        done.clear()
        assert asyncio.run(awaited(url))


def test_many_threads_share_a_connection(served: tuple[LiveIndex, RemoteIndex]) -> None:
    index, remote = served
    remote.add(np.arange(60), X)
    failures: list[Any] = []

    def work(number: int) -> None:
        try:
            for i in range(8):
                id = 100 * (number + 1) + i
                remote.add(id, X[i])
                remote.learn_pair_by_id(id, 0, True)
                assert remote.get(id).id == id
                assert remote.search(X[:3], 4).ids.shape == (3, 4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(index) == 60 + 6 * 8
    assert index.learner.n_pairs_seen_ == 6 * 8


def test_closing_a_connection_leaves_the_index_alone(served: tuple[LiveIndex, RemoteIndex]) -> None:
    index, remote = served
    with onlinehash.connect(remote.url) as second:
        second.add(None, X)
        assert repr(second) == f"RemoteIndex({second.url!r}, OnlineHashing, n_bits=12)"
    for call in (lambda: second.search(X[0], 1), lambda: len(second), lambda: second.add(None, X)):
        assert "connect again" in str(refused(call))
    assert len(remote) == len(index) == 60


OFFERED = "add update remove get get_many search within rerank find searched found found_within learn_pair "
OFFERED += (
    "learn_pair_by_id learn_pairs learn_pairs_by_id learn_labelled flush refresh cancel roll_back close "
    "__contains__ __len__ __iter__"
)
TOLD = "ids codes vectors encoder newest n_bits n_models behind pairs_behind versions serial refreshes bits_rehashed "
TOLD += "bits_skipped bits_flipped"


def test_it_is_called_as_a_live_index() -> None:
    for name in OFFERED.split():
        here, there = (inspect.signature(getattr(cls, name)).parameters.values() for cls in (LiveIndex, RemoteIndex))
        assert [(p.name, p.default, p.kind) for p in there] == [(p.name, p.default, p.kind) for p in here], name
    for name in TOLD.split():
        assert isinstance(getattr(LiveIndex, name), property), name
        assert isinstance(getattr(RemoteIndex, name), property), name
