"""Connections that are refused or cut off, and what is sent over them before and after."""

from __future__ import annotations

import threading
import time

import httpx

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
