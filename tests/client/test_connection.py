"""A connection sends again what is safe to send again, in time, and says in one sentence what is wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import errors
from onlinehash.client import connection, session
from onlinehash.client.session import Session
from onlinehash.io import format
from tests.client.helpers import Answering, Asked, Reply, Service, serving
from tests.servers import PATIENCE
from tests.support import refused

ABOUT = {"method": "OnlineHashing", "n_bits": 8, "n_models": 1, "limits": {"batch": 10, "body_bytes": 4000, "k": 100}}

#: A client that waits, and one that is awaited.
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FIRST_PAUSE", 0.001)


def problem(status: int, name: str, message: str = "expected this, got that.", **headers: str) -> Reply:
    return Reply(status, json.dumps({"error": name, "message": message}).encode(), headers)


@contextmanager
def connected(*replies: Reply, **options: Any) -> Iterator[tuple[Service, list[Asked]]]:
    """A connection to a service that gives these answers, the last one for ever; and what it was asked."""
    asked: list[Asked] = []
    waiting = list(replies)

    def answering(request: Asked) -> Reply:
        if request.path == "/v1/about":
            return Reply(body=json.dumps(ABOUT).encode())
        asked.append(request)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    with serving(answering) as url:
        kind = options.pop("kind", "sync")
        with Service(Session(url, **{"timeout": 10.0} | options), kind=kind) as found:
            yield found, asked


# ------------------------------------------------------------------ again


@pytest.mark.parametrize("failure", [Reply(0), problem(503, "Unavailable")], ids=["drop", "503"])
@KINDS
def test_what_may_pass_is_sent_again_with_the_same_key(failure: Reply, kind: str) -> None:
    with connected(failure, failure, Reply(body=b'{"n": 3}'), kind=kind) as (service, asked):
        assert service.change("POST", "/v1/items", {"X": np.ones(3)}) == {"n": 3}
    assert len(asked) == 3
    keys = {request.headers["Idempotency-Key"] for request in asked}
    assert len(keys) == 1
    assert len(keys.pop()) >= 16
    assert len({request.body for request in asked}) == 1


def test_what_was_refused_is_not_sent_again() -> None:
    statuses = [400, 401, 404, 409, 413, 422, 500, 507]
    with connected(*(problem(status, "Whatever") for status in statuses)) as (service, asked):
        for n, status in enumerate(statuses, 1):
            error = refused(service.change, "POST", "/v1/items", {})
            assert len(asked) == n, status
            assert str(error) == "expected this, got that."


def test_retries_are_bounded() -> None:
    with connected(Reply(0), retries=2) as (service, asked):
        assert isinstance(refused(service.get, "/v1/stats"), errors.ServiceUnavailable)
    assert len(asked) == 3
    with connected(problem(429, "Busy", "expected room, got none; come back."), retries=0) as (service, asked):
        error = refused(service.get, "/v1/stats")
    assert (type(error), str(error), len(asked)) == (
        errors.ServiceUnavailable,
        "expected room, got none; come back.",
        1,
    )


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that clients of either kind made, which take no time."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=time.monotonic, sleep=made.append))
    monkeypatch.setattr(connection, "asyncio", SimpleNamespace(timeout=asyncio.timeout, sleep=sleep))
    return made


@KINDS
def test_retry_after_is_honoured_within_the_timeout(kind: str, pauses: list[float]) -> None:
    busy = problem(429, "Busy", **{"Retry-After": "1"})
    with connected(busy, Reply(body=b'{"n": 1}'), kind=kind) as (service, asked):
        assert service.get("/v1/stats") == {"n": 1}
    assert (len(asked), pauses) == (2, [1.0])
    with connected(problem(429, "Busy", **{"Retry-After": "60"}), kind=kind) as (service, asked):
        refused(service.get, "/v1/stats")
    assert (len(asked), pauses) == (1, [1.0]), "there was no use in waiting"


@KINDS
def test_a_call_ends_in_time_however_slowly_an_answer_comes(kind: str) -> None:
    """One byte now and then keeps a socket's timeout from ever passing."""
    listener = socket.create_server(("127.0.0.1", 0))
    hung_up = threading.Event()

    def drip() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n")
            for _ in range(PATIENCE * 20):  # not to the last byte, in case it is waited for
                try:
                    peer.sendall(b" ")
                except OSError:
                    hung_up.set()
                    return
                time.sleep(0.05)

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    with pytest.raises(errors.ServiceUnavailable, match=r"gave no answer within 0\.4 seconds"):
        Service(Session(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.4), kind=kind)
    assert hung_up.wait(PATIENCE), "the client waited for the rest"
    thread.join()
    listener.close()


# ------------------------------------------------------------------ errors


@KINDS
def test_a_dead_server_is_one_sentence(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    error = refused(lambda: Service(Session(url), kind=kind))
    assert isinstance(error, errors.ServiceUnavailable)
    assert isinstance(error, ConnectionError)
    assert url in str(error)


STATUSES = [
    (422, "InvalidInput", errors.InvalidInput),
    (422, "InvalidParameter", errors.InvalidParameter),
    (404, "UnknownId", errors.UnknownId),
    (409, "NotReady", errors.NotReady),
    (501, "MissingExtra", errors.MissingExtra),
    (507, "StorageError", errors.StorageError),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Unauthorized),
    (400, "BadRequest", errors.InvalidInput),
    (413, "TooLarge", errors.InvalidInput),
    (409, "KeyReused", errors.InvalidInput),
    (500, "ServerError", errors.OnlineHashError),
    (500, "SystemExit", errors.OnlineHashError),
    (422, "__doc__", errors.InvalidInput),
]


def test_errors_are_the_librarys_own() -> None:
    with connected(*(problem(status, name, "expected one sentence, got it.") for status, name, _ in STATUSES)) as (
        service,
        _,
    ):
        for status, name, cls in STATUSES:
            error = refused(service.get, "/v1/stats")
            assert type(error) is cls, (status, name)
            assert str(error) == "expected one sentence, got it."


def test_an_answer_of_something_else_is_one_sentence() -> None:
    replies = [Reply(200, body) for body in (b"<html>", b"[]", b"[" * 100_000, b"\xff", b"")]
    replies += [Reply(404, b'{"error": 3, "message": []}'), Reply(302, b""), Reply(500, b"<html>")]
    with connected(*replies) as (service, _):
        for reply in replies:
            assert "check the URL" in str(refused(service.get, "/v1/stats")), reply


def test_a_broken_answer_in_our_format_is_one_sentence() -> None:
    whole = format.to_bytes("answer", {"X": np.ones(5)})
    kind = {"content-type": session.MEDIA_TYPE}
    with connected(Reply(200, whole[:-8], kind)) as (service, _):
        assert isinstance(refused(service.ask, "/v1/items/get", {}), errors.FormatError)


# ------------------------------------------------------------------ what is refused before it is sent


def test_what_cannot_be_used_is_refused_at_once() -> None:
    for url in ("", "localhost:8000", "ftp://localhost", "http://[::1", "http://h:99999", 3, [], ["http://h:1", ""]):
        assert isinstance(refused(onlinehash.connect, url), errors.InvalidInput)
    for url in ("http://user:secret@localhost:1", "http://localhost:1/?token=secret"):
        assert "secret" not in str(refused(onlinehash.connect, url))
    for token in ("two words", "naïve", "line\r\nbreak", 5):
        assert str(token) not in str(refused(onlinehash.connect, "http://127.0.0.1:1", token))
    for options in ({"timeout": 0}, {"retries": -1}, {"retries": 1.5}, {"read_your_writes": 2}):
        error = refused(lambda: onlinehash.connect("http://127.0.0.1:1", **options))  # noqa: B023
        assert isinstance(error, errors.InvalidParameter)


def test_what_a_service_would_not_take_is_not_sent_and_not_split() -> None:
    with connected(Reply()) as (service, asked):
        assert "at most 10 rows at once" in str(refused(service.change, "POST", "/v1/items", {}, 11))
        wide = {"vectors": np.ones((10, 500))}
        assert "at most 4000 bytes" in str(refused(service.change, "POST", "/v1/items", wide, 10))
        assert not asked
        service.change("POST", "/v1/items", {"vectors": np.ones((10, 5))}, 10)
    assert len(asked) == 1


# ------------------------------------------------------------------ secrets and manners


def test_the_token_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture, capsys: Any) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str | None] = []

    def answering(request: Asked) -> Reply:
        seen.append(request.headers.get("Authorization"))
        good = request.headers.get("Authorization") == "Bearer t0ps3cret"
        return Reply(body=json.dumps(ABOUT).encode()) if good else problem(401, "Unauthorized")

    with serving(answering) as url:
        with onlinehash.connect(url, token="t0ps3cret") as index:
            assert seen == ["Bearer t0ps3cret"]
            shown = [repr(index), str(index)]
            shown += [str(vars(part)) for part in (index, index._session, index._calls, index._connection)]
            with pytest.raises(errors.InvalidInput, match="cannot copy or pickle") as caught:
                pickle.dumps(index)
            shown.append(str(caught.value))
        error = refused(onlinehash.connect, url, "wr0ngt0ken")
        assert isinstance(error, errors.Unauthorized)
        refused(onlinehash.connect, url)
        assert seen[1:] == ["Bearer wr0ngt0ken", None]
    captured = capsys.readouterr()
    for text in (*shown, str(error), repr(error), caplog.text, captured.out, captured.err):
        assert "t0ps3cret" not in text
        assert "wr0ngt0ken" not in text


def test_a_redirect_is_not_followed_with_the_token() -> None:
    asked: list[Asked] = []

    def elsewhere(request: Asked) -> Reply:
        asked.append(request)
        return Reply(body=json.dumps(ABOUT).encode())

    with serving(elsewhere) as there:
        to_there: Answering = lambda _: Reply(307, b"", {"Location": f"{there}/v1/about"})  # noqa: E731
        with serving(to_there) as url:
            refused(onlinehash.connect, url, "secret")
    assert not asked


@KINDS
def test_a_closed_connection_says_so(kind: str) -> None:
    with connected(Reply(), kind=kind) as (service, asked):
        service.close()
        service.close()
        assert "connect again" in str(refused(service.get, "/v1/stats"))
    assert not asked


def test_without_httpx_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(errors.MissingExtra, match=r"connect needs httpx.*\.\[serve\]"):
        onlinehash.connect("http://127.0.0.1:1")
