"""Connections that are refused or cut off, and what is sent over them before and after."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from onlinehash.serve.connections import Turns
from tests.serve.services import connected, request_bytes, rest_of, served, until


def test_a_connection_that_was_refused_is_taken_when_there_is_room() -> None:
    with served(connections=2) as (_, url), httpx.Client(base_url=url, timeout=20) as client:
        with connected(url), connected(url):
            assert until(lambda: client.get("/v1/health").status_code == 503)
        # Over the connection that it has.
        assert until(lambda: client.get("/v1/health").status_code == 200)


def test_a_body_that_trickles_gets_no_answer_in_the_place_of_the_request_before_it() -> None:
    with served(body_seconds=0.3) as (service, url), connected(url) as connection:
        go_on = threading.Event()
        service.writer.submit(lambda: go_on.wait(20))
        body = b'{"vector": [1, 2]}'
        headers = {"Content_Type": "application/json", "Content_Length": str(len(body))}
        first, second = (request_bytes("POST", f"/v1/items/{id}", url, body, **headers) for id in (900, 901))
        connection.sendall(first + second[:-5])
        time.sleep(1)
        go_on.set()
        assert not rest_of(connection).startswith(b"HTTP/1.1 408 ")
        until(lambda: 900 in service.index)
        assert 901 not in service.index


def test_what_is_no_http_gets_no_answer_in_the_place_of_the_request_before_it() -> None:
    with served() as (service, url), connected(url) as connection:
        go_on = threading.Event()
        service.writer.submit(lambda: go_on.wait(20))
        body = b'{"vector": [1, 2]}'
        headers = {"Content_Type": "application/json", "Content_Length": str(len(body))}
        connection.sendall(request_bytes("POST", "/v1/items/900", url, body, **headers) + b"no HTTP\r\n\r\n")
        time.sleep(0.3)
        go_on.set()
        answers = rest_of(connection)
    assert answers.startswith(b"HTTP/1.1 201 ")
    assert answers.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("behind", ["another", "no HTTP"])
def test_a_client_that_leaves_with_several_requests_leaves_no_trace(
    caplog: pytest.LogCaptureFixture, behind: str
) -> None:
    with served() as (service, url):
        go_on = threading.Event()
        service.writer.submit(lambda: go_on.wait(20))
        body = b'{"vector": [1, 2]}'
        headers = {"Content_Type": "application/json", "Content_Length": str(len(body))}
        with connected(url) as connection:
            first, second = (request_bytes("POST", f"/v1/items/{id}", url, body, **headers) for id in (900, 901))
            connection.sendall(first + (second if behind == "another" else b"no HTTP\r\n\r\n"))
            until(lambda: len(service.writer) == 2)
        time.sleep(0.3)
        go_on.set()
        until(lambda: 900 in service.index)
        time.sleep(0.2)
        assert 901 not in service.index
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_connections_go_on_one_at_a_time_in_the_order_in_which_they_came() -> None:
    async def went_on() -> list[tuple[str, int]]:
        loop, turns, found = asyncio.get_running_loop(), Turns(), []
        rounds = 0

        def again(name: str, times: int) -> None:
            found.append((name, rounds))
            if times > 1:
                turns.wait(loop, lambda: again(name, times - 1))

        for name in "abc":
            turns.wait(loop, lambda name=name: again(name, 2))
        while len(found) < 6:
            rounds += 1
            await asyncio.sleep(0)
        return found

    found = asyncio.run(went_on())
    assert "".join(name for name, _ in found) == "aabcbc"  # the first had its turn before others came
    rounds = [number for _, number in found]
    assert rounds[0] == 0  # nobody was before it
    assert len(set(rounds)) == 6  # others ran between any two


@pytest.fixture
def discarding(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by an entry whenever a connection waits for its turn to read what is thrown away."""
    found: list[bool] = []
    wait = Turns.wait

    def noted(turns: Turns, loop: Any, go_on: Any, is_kept: bool = True) -> None:
        if not is_kept:
            found.append(True)
        wait(turns, loop, go_on, is_kept)

    monkeypatch.setattr(Turns, "wait", noted)
    return found


def test_what_is_left_of_a_refused_body_is_read_in_turns(discarding: list[bool]) -> None:
    body = b'{"vector": [' + b"0.5, " * 1_000_000
    head = {"Content_Type": "application/json", "Content_Length": str(len(body))}
    with served(json_memory=1 << 20) as (_, url), connected(url) as connection:
        connection.settimeout(20)
        connection.sendall(request_bytes("POST", "/v1/search", url, body, **head))
        connection.sendall(request_bytes("GET", "/v1/health", url))  # which is read when all of the body was
        answers = b""
        while b"HTTP/1.1 200 " not in answers:
            more = connection.recv(65536)
            assert more, answers
            answers += more
    assert answers.startswith(b"HTTP/1.1 413 ")
    assert len(discarding) >= len(body) >> 19  # a piece has 256 KiB at most; some may have been read before the answer


def test_small_pieces_of_refused_bodies_take_no_turns(discarding: list[bool]) -> None:
    with served() as (_, url), connected(url) as connection:
        connection.sendall(request_bytes("POST", "/v1/nothing", url, b"", Content_Length="1000"))
        assert b" 404 " in connection.recv(65536)
        for _ in range(20):
            connection.sendall(b"x")
            time.sleep(0.005)
        with httpx.Client(base_url=url) as client:
            assert client.get("/v1/health").status_code == 200
    assert not discarding


def test_bodies_that_are_kept_do_not_wait_for_all_that_are_thrown_away() -> None:
    async def went_on() -> str:
        loop, turns, found = asyncio.get_running_loop(), Turns(), []
        for name in "0xxxx":
            turns.wait(loop, lambda name=name: found.append(name), is_kept=False)  # type: ignore[misc]
        turns.wait(loop, lambda: found.append("k"))
        while len(found) < 6:
            await asyncio.sleep(0)
        return "".join(found)

    assert asyncio.run(went_on()).index("k") <= 2


def test_one_that_fails_does_not_end_the_turns_of_others() -> None:
    async def went_on() -> None:
        loop, turns, done = asyncio.get_running_loop(), Turns(), asyncio.Event()
        loop.set_exception_handler(lambda *_: None)
        with pytest.raises(ZeroDivisionError):
            turns.wait(loop, lambda: 1 // 0)  # type: ignore[arg-type,return-value]
        turns.wait(loop, done.set)
        await asyncio.wait_for(done.wait(), 20)

    asyncio.run(went_on())


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/search"])
def test_a_connection_is_closed_after_a_refused_body(path: str, is_chunked: bool) -> None:
    length = {"Transfer_Encoding": "chunked"} if is_chunked else {"Content_Length": str(1 << 21)}
    with served(idle_seconds=0.5, json_memory=1 << 20) as (_, url), connected(url) as connection:
        head = request_bytes("POST", path, url, b"", Content_Type="application/json", **length)
        body = b'{"vector": [' + b"1, " * (1 << 19)
        body += b"1" * ((1 << 21) - len(body))
        connection.sendall(head + (b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body))
        connection.settimeout(20)
        answer = b""
        while more := connection.recv(65536):  # until the service closes it
            answer += more
    assert answer.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 413 "))


def test_large_bodies_that_come_together_are_all_answered() -> None:
    answers: list[int] = []
    with served() as (service, url):
        width = len(service.index.get(int(service.index.ids[0])).vector)
        body = json.dumps({"vectors": [[0.25] * width] * min(10_000, 1_000_000 // width), "k": 1}).encode()

        def ask() -> None:
            with httpx.Client(base_url=url, timeout=60) as client:
                headers = {"Content-Type": "application/json"}
                answers.extend(client.post("/v1/search", content=body, headers=headers).status_code for _ in range(2))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [200] * 8


#: What `connections` and `server` use of uvicorn beside its documented interface.
PRIVATE = {
    HttpToolsProtocol: "app connections cycle flow loop scope transport on_body on_headers_complete "
    "on_message_begin on_message_complete on_response_complete send_400_response timeout_keep_alive_handler",
    RequestResponseCycle: "default_headers disconnected flow keep_alive message_event on_response response_complete "
    "response_started waiting_for_100_continue",
    FlowControl: "drain pause_reading read_paused resume_reading write_paused _transport",
    uvicorn.Server: "capture_signals handle_exit should_exit shutdown started startup",
}


@pytest.mark.parametrize("kind", PRIVATE)
def test_uvicorn_has_what_is_derived_from_it(kind: type) -> None:
    source = inspect.getsource(kind)
    for name in PRIVATE[kind].split():
        assert f"self.{name} = " in source or f"self.{name}: " in source or hasattr(kind, name), name
