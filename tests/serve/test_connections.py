"""Connections that are refused or cut off, and what is sent over them before and after."""

from __future__ import annotations

import inspect
import threading
import time

import httpx
import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

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


#: What `connections` and `server` use of uvicorn beside its documented interface.
PRIVATE = {
    HttpToolsProtocol: "app connections cycle loop pipeline scope transport on_headers_complete on_message_begin "
    "on_message_complete send_400_response timeout_keep_alive_handler",
    RequestResponseCycle: "default_headers disconnected flow keep_alive message_event on_response response_complete "
    "response_started waiting_for_100_continue",
    FlowControl: "drain write_paused",
    uvicorn.Server: "capture_signals handle_exit should_exit shutdown started startup",
}


@pytest.mark.parametrize("kind", PRIVATE)
def test_uvicorn_has_what_is_derived_from_it(kind: type) -> None:
    source = inspect.getsource(kind)
    for name in PRIVATE[kind].split():
        assert f"self.{name} = " in source or f"self.{name}: " in source or hasattr(kind, name), name
