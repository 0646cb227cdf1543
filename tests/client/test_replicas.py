"""Several replicas: calls are spread over them and go elsewhere when one fails, and a change is made once."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import onlinehash
from onlinehash import LiveIndex
from onlinehash.client import replicas, session
from onlinehash.client.session import AT_LEAST, EPOCH, HEALTH, SILENT_SECONDS, Answer, Attempt, Call, Failure, Session
from onlinehash.errors import InvalidInput, NotSupported, ServiceUnavailable
from onlinehash.serve import background
from tests.client.helpers import Asked, Reply, Service, forwarding, serving
from tests.servers import wait_until
from tests.support import refused

ABOUT = {"method": "OnlineHashing", "n_bits": 8, "n_models": 1, "receipts": True, "limits": {}}
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FIRST_PAUSE", 0.001)


class Told:
    """A replica that answers as it is told, and counts what it is asked; epochs grow with each change."""

    def __init__(self, **about: Any) -> None:
        self.about, self.asked, self.reply = ABOUT | about, list[Asked](), Reply()

    def __call__(self, asked: Asked) -> Reply:
        if asked.path == "/v1/about":
            return Reply(body=json.dumps(self.about).encode())
        if asked.path == HEALTH.path:
            return Reply()
        self.asked.append(asked)
        return self.reply


@contextmanager
def replicated(*told: Told, kind: str = "sync", **options: Any) -> Iterator[Service]:
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(one)) for one in told]
        service = stack.enter_context(Service(Session(urls, **{"timeout": 10.0} | options), kind=kind))
        for one in told:
            one.asked.clear()
        yield service


def unavailable(seconds: int = 0) -> Reply:
    document = {"error": "Unavailable", "message": "it starts."}
    return Reply(503, json.dumps(document).encode(), {"Retry-After": str(seconds)})


def nobody() -> str:
    """The URL of a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


# ------------------------------------------------------------------ whom to ask


@KINDS
def test_reads_and_changes_are_spread(kind: str) -> None:
    told = Told(), Told(), Told()
    with replicated(*told, kind=kind) as service:
        for _ in range(9):
            service.get("/v1/stats")
            service.change("POST", "/v1/flush", {})
    assert [len(one.asked) for one in told] == [6, 6, 6]


@KINDS
def test_a_dead_replica_costs_no_pause_and_is_left_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FIRST_PAUSE", 1000.0)  # any pause would end the call
    alive = Told()
    with serving(alive) as url, Service(Session([nobody(), url], timeout=10), kind=kind) as service:
        for _ in range(20):
            assert service.get("/v1/stats") == {}
    assert len(alive.asked) == 20


def test_one_that_comes_back_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "FIRST_BREAK", 0.0)
    first, second = Told(), Told()
    with replicated(first, second) as service:
        first.reply = unavailable()
        for _ in range(2):
            service.get("/v1/stats")
        first.reply = Reply()
        first.asked.clear()
        for _ in range(4):
            service.get("/v1/stats")
    assert len(first.asked) == 2


# ------------------------------------------------------------------ one that hangs, and one that is slow

#: What a replica does with an attempt: after so many seconds, this comes of it.
Doing = Callable[[Attempt], tuple[float, Answer | Failure]]


def answering(status: int = 200, name: str = "", after: float = 0.0, **headers: str) -> Doing:
    body = json.dumps({"error": name, "message": "expected this, got that."}).encode() if name else b"{}"
    answer = Answer(status, httpx.Headers({"content-type": "application/json"} | headers), body)
    return lambda attempt: (0.0 if attempt.request is HEALTH else after, answer)


def dead(attempt: Attempt) -> tuple[float, Answer | Failure]:
    return 0.0, Failure("no answer (connection refused)", may_have_arrived=False)


def hung(attempt: Attempt) -> tuple[float, Answer | Failure]:
    return 10_000.0, Failure("")


class World:
    """Replicas `http://a`, `http://b` and so on without a network, and a clock that stands still while nobody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *doing: Doing, **options: Any) -> None:
        self.now, self.sent = 1000.0, list[Attempt]()
        monkeypatch.setattr(session.time, "monotonic", lambda: self.now)
        self.doing = {f"http://{letter}": one for letter, one in zip("abc", doing, strict=False)}
        self.session = Session(list(self.doing), **options)
        self.session._replicas._turns = iter(range(10**6))  # type: ignore[assignment]  # the first call begins with a

    def run(self, call: Call[Any]) -> tuple[Any, float]:
        """What a call returns or raises, and how long it took."""
        began, outcome = self.now, None
        while True:
            try:
                step = call.send(outcome)
            except StopIteration as end:
                return end.value, self.now - began
            except Exception as error:
                return error, self.now - began
            outcome = self._attempted(step) if isinstance(step, Attempt) else None
            self.now += 0.0 if isinstance(step, Attempt) else step.seconds

    def _attempted(self, attempt: Attempt) -> Answer | Failure:
        self.sent.append(attempt)
        seconds, outcome = self.doing[attempt.url](attempt)
        most = min(attempt.seconds, attempt.silent_seconds)
        self.now += min(seconds, most)
        return outcome if seconds <= most else Failure("")

    def read(self) -> tuple[Any, float]:
        return self.run(self.session.get("/v1/stats"))

    def sent_to(self, url: str) -> list[str]:
        return [attempt.request.path for attempt in self.sent if attempt.url == url]


def test_a_hung_replica_costs_one_read_little_and_then_one_short_question_per_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, hung, answering())
    took = []
    for _ in range(3000):
        found, seconds = world.read()
        assert found == {}
        took.append(seconds)
        world.now += 0.02
    assert max(took) <= SILENT_SECONDS
    assert world.sent_to("http://a").count("/v1/stats") == 1
    assert sorted(took)[-2] <= session.HEALTH_SECONDS
    assert sum(took) < 12, "of the minute that this took"
    world.doing["http://a"] = answering()
    world.now += 30.0
    world.sent.clear()
    for _ in range(9):
        assert world.read() == ({}, 0.0)
    assert Counter(world.sent_to("http://a")) == {"/v1/health": 1, "/v1/stats": 5}, "the trial, and its half of eight"


def test_a_read_that_takes_long_has_the_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut off where another replica may be faster, and not once the others have had their turn."""
    slow = answering(after=20.0)
    for other in (dead, answering(503, "Unavailable"), answering(429, "Busy", **{"Retry-After": "1"}), slow):
        for both in ([slow, other], [other, slow]) * 10:  # breaks are random
            world = World(monkeypatch, *both)
            found, seconds = world.read()
            assert found == {}
            assert seconds < 20 + SILENT_SECONDS + 2.0


def test_a_change_that_takes_long_has_the_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second replica finds the key as soon as the first one has made the change."""
    slow = answering(after=20.0)
    for both in ([slow, slow], [dead, slow]):
        world = World(monkeypatch, *both)
        found, seconds = world.run(world.session.change("POST", "/v1/flush", {}))
        assert found == {}
        assert seconds <= 20 + SILENT_SECONDS


def test_a_change_goes_on_where_one_of_two_services_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The change arrives there after all, when it wakes, and is known."""
    monkeypatch.setattr(session, "SILENT_SECONDS", 1.5)  # more than a healthy service takes on a busy machine
    index, X = LiveIndex(n_bits=8, path=tmp_path / "index"), np.eye(6, dtype=np.float32)
    index.add(None, X)
    hangs, ends, woken = threading.Event(), threading.Event(), list[Reply]()

    def one_way(asked: Asked) -> Reply:
        if hangs.is_set() and asked.method == "POST":
            ends.wait(60)
            woken.append(forwarding(url, asked))
        return forwarding(url, asked)

    with ExitStack() as stack:
        url = stack.enter_context(background(index))
        urls = [stack.enter_context(serving(one_way)), url]
        stack.callback(ends.set)
        there = stack.enter_context(onlinehash.connect(urls))
        hangs.set()
        for n in range(2):  # one of which begins with the one that hangs
            there.add(None, X[n])
        ends.set()
        wait_until(lambda: bool(woken), "the change to arrive once more")  # or both, where the other one was slow, too
        assert {reply.headers["idempotency-replayed"] for reply in woken} == {"true"}
        assert len(there) == 8


def test_all_failing_is_one_sentence_that_names_all() -> None:
    urls = nobody(), nobody()
    error = refused(lambda: onlinehash.connect(urls, retries=1))
    assert isinstance(error, ServiceUnavailable)
    assert all(url in str(error) for url in urls)


def test_what_is_wrong_with_a_request_is_not_asked_of_another() -> None:
    told = Told(), Told()
    document = json.dumps({"error": "InvalidInput", "message": "expected this, got that."}).encode()
    with replicated(*told) as service:
        for one in told:
            one.reply = Reply(422, document)
        assert isinstance(refused(service.get, "/v1/stats"), InvalidInput)
    assert sum(len(one.asked) for one in told) == 1


# ------------------------------------------------------------------ changes


def keys(*told: Told) -> list[str]:
    return [asked.headers["Idempotency-Key"] for one in told for asked in one.asked]


@KINDS
@pytest.mark.parametrize("reply", [Reply(0), unavailable()], ids=["drop", "503"])
def test_a_change_goes_to_another_replica_with_the_same_key(reply: Reply, kind: str) -> None:
    told = Told(), Told()
    with replicated(*told, kind=kind) as service:
        told[0].reply = reply
        for _ in range(2):  # one of which begins with the replica that fails
            service.change("POST", "/v1/flush", {})
    assert len(told[0].asked) == 1
    assert len(told[1].asked) == 2
    assert keys(told[0])[0] in keys(told[1])


UNSURE = json.dumps({"error": "ServiceUnavailable", "message": "PostgreSQL went away."}).encode()


@pytest.mark.parametrize("reply", [Reply(0), Reply(503, UNSURE)], ids=["drop", "database"])
def test_a_change_that_may_have_been_made_is_not_repeated_where_keys_are_not_stored(reply: Reply) -> None:
    """Such a service remembers keys until it ends, so that another one would make the change again."""
    told = Told(receipts=False), Told(receipts=False)
    with replicated(*told) as service:
        for one in told:
            one.reply = reply
        assert isinstance(refused(service.change, "POST", "/v1/flush", {}), ServiceUnavailable)
        assert len(keys(*told)) == 1
        refused(service.get, "/v1/stats")
        assert sum(len(one.asked) for one in told) > 2, "but reading is"


def test_a_change_is_made_once_while_replicas_fail() -> None:
    """Two ways to one index: each loses answers, and refuses connections now and then."""
    X = np.random.default_rng(0).standard_normal((20, 5)).astype(np.float32)
    index, lock, n = LiveIndex(n_bits=8), threading.Lock(), iter(range(10**6))

    def losing(asked: Asked) -> Reply:
        with lock:
            fate = next(n) % 5
        if fate == 1:
            return unavailable()
        reply = forwarding(url, asked)
        return Reply(0) if fate == 3 and asked.path != "/v1/about" else reply

    with background(index) as url, serving(losing) as one, serving(losing) as other, ExitStack() as stack:
        there = stack.enter_context(onlinehash.connect([one, other], retries=20))
        for x in X:
            there.add(None, x)
        assert len(there) == 20
        assert there.find(X[7], 1).ids.tolist() == [7]
    assert index.ids.tolist() == list(range(20))


# ------------------------------------------------------------------ epochs


def at_least(told: Told) -> list[str | None]:
    return [asked.headers.get(AT_LEAST) for asked in told.asked]


@KINDS
def test_reads_ask_for_what_was_written_here(kind: str) -> None:
    told = Told()
    with replicated(told, kind=kind) as service:
        told.reply = Reply(headers={EPOCH: "50"})
        service.get("/v1/stats")  # what others wrote is not waited for
        for epoch in ("7", "5"):  # the answers of two threads may come in any order
            told.reply = Reply(headers={EPOCH: epoch})
            service.change("POST", "/v1/flush", {})
        service.get("/v1/stats")
        service.ask("/v1/search", {})
        assert at_least(told) == [None, None, None, "7", "7"]
        assert service.session.written == 7


def test_the_epoch_of_the_service_is_told() -> None:
    told = Told()
    with serving(told) as url, onlinehash.connect(url) as index:
        told.reply = Reply(headers={EPOCH: "12"})
        assert index.epoch == 12
        told.reply = Reply()
        assert isinstance(refused(lambda: index.epoch), NotSupported)


def test_a_replica_that_is_behind_is_left_to_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two answers 503 to whoever asks for an epoch that it has not reached; the other is asked at once."""
    monkeypatch.setattr(session, "FIRST_PAUSE", 1000.0)  # any pause would end the call

    def behind(asked: Asked) -> Reply:
        wanted = int(asked.headers.get(AT_LEAST, 0))
        return unavailable(1) if wanted > 3 else ahead(asked)

    def ahead(asked: Asked) -> Reply:
        if asked.path == "/v1/about":
            return Reply(body=json.dumps(ABOUT).encode())
        return Reply(headers={EPOCH: "4"})

    with serving(behind) as one, serving(ahead) as other, Service(Session([one, other])) as service:
        service.change("POST", "/v1/flush", {})
        for _ in range(20):
            assert service.get("/v1/stats") == {}


def test_the_requests_of_one_call_never_go_back_in_time() -> None:
    """Pages come from replicas at several epochs: each asks for what the one before has seen."""
    ids, wanted, epochs = list(range(25)), list[int](), iter((5, 9, 7, 9))

    def paged(asked: Asked) -> Reply:
        if asked.path == "/v1/about":
            return Reply(body=json.dumps(ABOUT | {"limits": {"ids": 10}}).encode())
        wanted.append(int(asked.headers.get(AT_LEAST, 0)))
        start = int(asked.path.split("offset=")[1].split("&")[0])
        page = {"ids": ids[start : start + 10], "n": len(ids)}
        return Reply(body=json.dumps(page).encode(), headers={EPOCH: str(next(epochs))})

    with serving(paged) as url, onlinehash.connect(url) as index:
        assert index.ids.tolist() == ids
    assert wanted == [0, 5, 9]
