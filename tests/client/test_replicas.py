"""Several replicas: calls are spread over them and go elsewhere when one fails, and a change is made once."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
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
from onlinehash.client.replicas import Replicas
from onlinehash.client.session import AT_LEAST, EPOCH, HEALTH, SILENT_SECONDS, Answer, Attempt, Call, Failure, Session
from onlinehash.errors import InvalidInput, NotSupported, ServiceUnavailable
from onlinehash.serve import background
from tests.client.helpers import Asked, Blocking, Reply, Service, forwarding, serving
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


def test_calls_are_spread_evenly_over_those_that_work() -> None:
    found = Replicas(["a", "b", "c"])
    broken = found.in_turn()[0]
    broken.fails(time.monotonic())
    first = Counter(found.in_turn()[0].url for _ in range(100))
    assert set(first.values()) == {50}
    assert broken.url not in first


def test_a_replica_is_left_alone_for_longer_each_time_until_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(replicas.time, "monotonic", lambda: now)
    (one,) = Replicas(["a"]).in_turn()
    breaks = []
    for _ in range(12):
        one.fails(now)
        breaks.append(one.rests_until - now)
        now = one.rests_until
    for number, found in enumerate(breaks):
        most = min(0.5 * 2**number, 30.0)
        assert most / 2 <= found <= most
    one.fails(now, wait=120)
    assert one.rests_until - now == 120
    one.works()
    assert one.rests_until <= now
    one.fails(now)
    assert one.rests_until - now <= 0.5


def test_requests_that_fail_together_are_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(replicas.time, "monotonic", lambda: now)
    (one,) = Replicas(["a"]).in_turn()
    for n in range(32):
        one.fails(began=999.0 + n / 100)  # some of them began before the first one failed, others in the break
        now += 0.001
    assert one.rests_until <= 1000.5
    now = one.rests_until
    one.fails(began=999.0)  # it was sent long ago, and its time is up only now
    assert one.rests_until == now
    one.fails(now)
    assert now + 0.5 <= one.rests_until <= now + 1.0, "the second failure"


def test_one_call_at_a_time_tries_one_that_was_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(replicas.time, "monotonic", lambda: now)
    found = Replicas(["a", "b", "c"])
    silent = sorted(found.in_turn(), key=lambda one: one.url)[:2]
    for one in silent:
        one.fails(now)
    assert not set(found.in_turn()) & set(silent)
    now += 1.0
    first, second, third = (found.in_turn() for _ in range(3))
    assert [first[0], second[0]] == silent, "one call tries one of them"
    assert (len(first), len(second), len(third)) == (2, 2, 1), "and nobody else meanwhile"
    now += replicas.TRIAL_SECONDS
    assert found.in_turn()[0] is silent[0], "that call was cancelled"
    silent[0].works()
    assert silent[0] in found.in_turn()


def test_if_none_works_the_soonest_to_return_is_asked_first() -> None:
    found = Replicas(["a", "b", "c"])
    for wait, replica in enumerate(sorted(found.in_turn(), key=lambda one: one.url)):
        replica.fails(time.monotonic(), wait=30 - wait)
    assert [replica.url for replica in found.in_turn()] == ["c", "b", "a"]


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


@pytest.mark.parametrize("status", [429, 502, 503])
def test_one_that_says_later_is_left_alone_as_long_as_it_asks(status: int) -> None:
    busy, free = Told(), Told()
    with replicated(busy, free, retries=0) as service:
        busy.reply = unavailable(60)
        busy.reply.status = status
        for _ in range(10):
            service.get("/v1/stats")
        assert len(busy.asked) == 1
        assert len(free.asked) == 10


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


@KINDS
def test_one_that_hangs_uses_up_its_share_of_the_time_only(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, serving(Told()) as url:  # which takes connections
        hanging = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Service(Session([url, hanging], timeout=1.0), kind=kind) as service:
            for _ in range(3):
                assert service.get("/v1/stats") == {}


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


@pytest.mark.parametrize(
    "other",
    [dead, answering(503, "Unavailable"), answering(429, "Busy", **{"Retry-After": "1"}), answering(after=20.0)],
    ids=["dead", "starts", "busy", "slow, too"],
)
@pytest.mark.parametrize("slow_first", [True, False])
def test_a_read_that_takes_long_has_the_time_for_it(
    monkeypatch: pytest.MonkeyPatch, other: Doing, slow_first: bool
) -> None:
    """It is cut off where another replica may be faster, and not once the others have had their turn."""
    slow = answering(after=20.0)
    for _ in range(20):  # breaks are random
        world = World(monkeypatch, *([slow, other] if slow_first else [other, slow]))
        found, seconds = world.read()
        assert found == {}
        assert seconds < 20 + SILENT_SECONDS + 2.0


def test_a_hung_replica_costs_a_change_as_little_as_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, hung, answering())
    assert world.run(world.session.change("POST", "/v1/flush", {})) == ({}, SILENT_SECONDS)
    assert len({attempt.request.headers["Idempotency-Key"] for attempt in world.sent}) == 1
    for _ in range(5):
        assert world.run(world.session.change("POST", "/v1/flush", {})) == ({}, 0.0), "it is left alone"


@pytest.mark.parametrize("slow_first", [True, False])
def test_a_change_that_takes_long_has_the_time_for_it(monkeypatch: pytest.MonkeyPatch, slow_first: bool) -> None:
    """The second replica finds the key as soon as the first one has made the change."""
    slow = answering(after=20.0)
    world = World(monkeypatch, *([slow, slow] if slow_first else [dead, slow]))
    found, seconds = world.run(world.session.change("POST", "/v1/flush", {}))
    assert found == {}
    assert seconds <= 20 + SILENT_SECONDS


def test_a_change_is_not_cut_off_where_keys_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be half done, and no other replica would know; only its share of the time ends it."""
    world = World(monkeypatch, answering(after=10.0), answering())
    world.session.about = {"receipts": False}
    assert world.run(world.session.change("POST", "/v1/flush", {})) == ({}, 10.0)
    assert not world.sent_to("http://b")


def test_a_request_that_is_long_itself_is_not_cut_off_and_not_sent_to_one_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, hung, answering(after=20.0))
    refresh = world.session.change("POST", "/v1/refresh", {}, is_long=True)
    assert world.run(refresh) == ({}, session.HEALTH_SECONDS + 20.0)
    assert world.sent_to("http://a") == ["/v1/health"]


def test_nothing_is_asked_before_a_request_if_there_is_no_other_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, dead)
    error, _ = world.read()
    assert isinstance(error, ServiceUnavailable)
    assert set(world.sent_to("http://a")) == {"/v1/stats"}


def test_a_change_that_was_not_sent_may_go_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica did not even say that it is alive, so that it cannot have made the change."""
    world = World(monkeypatch, hung, answering())
    world.session.about = {"receipts": False}
    world.read()
    world.now += 1.0
    assert world.run(world.session.change("POST", "/v1/flush", {}))[0] == {}
    assert world.sent_to("http://a") == ["/v1/stats", "/v1/health"]


def test_a_replica_is_not_asked_for_an_epoch_when_it_shows_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait until it has caught up."""
    world = World(monkeypatch, hung, answering(**{EPOCH: "7"}))
    world.run(world.session.change("POST", "/v1/flush", {}))  # a fails
    world.now += 1.0

    def pages() -> Call[None]:
        yield from world.session.get("/v1/items")
        world.now += 2.0
        yield from world.session.get("/v1/items")

    world.run(world.session.in_order(pages()))
    asked = [attempt.request for attempt in world.sent if attempt.request.path == "/v1/health"]
    assert len(asked) == 2
    assert not any(AT_LEAST in request.headers for request in asked)


@pytest.mark.parametrize("refusal", [(429, "Busy"), (503, "Behind")], ids=["busy", "behind"])
def test_one_that_is_busy_or_behind_is_not_broken(monkeypatch: pytest.MonkeyPatch, refusal: tuple[int, str]) -> None:
    """It rests for as long as it asks, however often it does, and is not asked whether it is alive."""
    world = World(monkeypatch, answering(*refusal, **{"Retry-After": "1"}), answering())
    for _ in range(10):
        for _ in range(2):  # one of which begins with it
            assert world.read() == ({}, 0.0)
        world.now += 1.0
    assert world.sent_to("http://a") == ["/v1/stats"] * 10
    world.doing["http://a"] = answering(*refusal)
    world.sent.clear()
    for _ in range(10):
        world.read()
    assert len(world.sent_to("http://a")) == 5, "it did not ask for a rest"


@KINDS
def test_one_of_two_services_hangs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SILENT_SECONDS", 1.5)  # more than a healthy service takes on a busy machine
    monkeypatch.setattr(session, "HEALTH_SECONDS", 0.2)
    monkeypatch.setattr(replicas, "FIRST_BREAK", 0.05)
    index, X = LiveIndex(n_bits=8), np.eye(6, dtype=np.float32)
    index.add(None, X)
    hangs, ends, hung_up = threading.Event(), threading.Event(), list[str]()

    def one_way(asked: Asked) -> Reply:
        if not hangs.is_set():
            return forwarding(url, asked)
        hung_up.append(asked.path)
        ends.wait(60)
        return Reply(0)

    with ExitStack() as stack:
        url = stack.enter_context(background(index))
        urls = [stack.enter_context(serving(one_way)), url]
        stack.callback(ends.set)
        there = connected(kind, urls, stack)
        there.find(X[0], 1)  # which compiles kernels
        hangs.set()
        while len(hung_up) < 4:
            began = time.monotonic()
            assert there.find(X[3], 1).ids.tolist() == [3]
            assert time.monotonic() - began < 5, "a third of its share of the time"
        assert sum(path != HEALTH.path for path in hung_up) == 1


@KINDS
def test_a_change_goes_on_where_one_of_two_services_hangs(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
        there = connected(kind, urls, stack)
        hangs.set()
        for n in range(2):  # one of which begins with the one that hangs
            began = time.monotonic()
            there.add(None, X[n])
            assert time.monotonic() - began < 5, "a third of its share of the time"
        ends.set()
        wait_until(lambda: bool(woken), "the change to arrive once more")  # or both, where the other one was slow, too
        assert {reply.headers["idempotency-replayed"] for reply in woken} == {"true"}
        assert len(there) == 8


def connected(kind: str, urls: list[str], stack: ExitStack) -> Any:
    """A client of these services, sync or async, that is closed with the stack."""
    if kind == "sync":
        return stack.enter_context(onlinehash.connect(urls))
    runner = stack.enter_context(asyncio.Runner())
    there = Blocking(runner, runner.run(_connected(urls)))
    stack.callback(there.close)
    return there


async def _connected(urls: list[str]) -> Any:
    return await onlinehash.connect_async(urls)


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
@pytest.mark.parametrize("reply", [Reply(0), Reply(502, b"<html>"), unavailable()], ids=["drop", "502", "503"])
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


@pytest.mark.parametrize("reply", [Reply(0), Reply(502), Reply(503, UNSURE)], ids=["drop", "502", "database"])
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


def test_a_change_that_was_not_made_goes_elsewhere_whoever_keeps_keys() -> None:
    told = Told(receipts=False), Told(receipts=False)
    with replicated(*told, retries=0) as service:
        told[0].reply = unavailable()
        for _ in range(2):
            service.change("POST", "/v1/flush", {})
        assert len(told[1].asked) == 2


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


def test_reads_ask_for_nothing_if_they_need_not_see_it() -> None:
    told = Told()
    with replicated(told, read_your_writes=False) as service:
        told.reply = Reply(headers={EPOCH: "7"})
        service.change("POST", "/v1/flush", {})
        service.get("/v1/stats")
        assert at_least(told) == [None, None]


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
