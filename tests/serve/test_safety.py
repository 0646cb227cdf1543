"""Who may come in, what they get to see, how much they may send, and how long they may take."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.errors import InvalidInput
from onlinehash.serve import logs
from onlinehash.serve.settings import Access
from tests.cli.running import onlinehash as command
from tests.serve.services import (
    SECONDS,
    connected,
    everything,
    request_bytes,
    rest_of,
    served,
    served_with_all,
)

TOKEN = "secret-0123456789abcdef"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where a service is that no test changes."""
    with served() as (_, url):
        yield url


# ------------------------------------------------------------------ where it listens


def test_other_machines_need_a_token_or_a_word() -> None:
    for host in ("0.0.0.0", "::", "example.org", "", "127.1", "localhost.example"):
        with pytest.raises(InvalidInput, match="token"):
            Access(host)
        assert Access(host, TOKEN).token == TOKEN
        assert not Access(host, insecure=True).is_loopback
    for host in ("127.0.0.1", "127.0.0.53", "::1", "localhost"):
        assert Access(host).is_loopback
    assert Access().host == "127.0.0.1"
    assert TOKEN not in repr(Access(token=TOKEN))
    for token in ("short", "with space 123", "with\nline 123", "ümlaut-123456"):
        with pytest.raises(InvalidInput, match="token"):
            Access(token=token)


def test_the_command_line_refuses_other_hosts_without_a_token(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("ONLINEHASH_TOKEN", raising=False)
    refused = command("serve", tmp_path / "items", "--host", "0.0.0.0", "--port", 0)
    assert refused.code != 0
    assert "ONLINEHASH_TOKEN" in refused.err
    assert "--insecure" in refused.err
    assert not (tmp_path / "items").exists()


# ------------------------------------------------------------------ who may ask


def test_data_needs_the_token_and_the_page_does_not() -> None:
    with served_with_all() as (_, open_url):
        operations = httpx.get(open_url + "/openapi.json", timeout=SECONDS).json()["paths"]
    with served(token=TOKEN) as (service, url), httpx.Client(base_url=url, timeout=60) as client:
        before = everything(service.index)
        wrong = ["", TOKEN, f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"]
        for path, methods in operations.items():
            for method in methods:
                for given in wrong:
                    answered = client.request(method, path.replace("{id}", "1"), headers={"Authorization": given})
                    is_open = path in ("/v1/health", "/v1/ready")
                    assert answered.status_code == (200 if is_open else 401), (method, path, given)
                    assert is_open or answered.headers["WWW-Authenticate"] == "Bearer"
        assert client.get("/openapi.json").status_code == 401
        assert client.get("/v1/nothing").status_code == 401
        for path in ("/", "/page/look.css"):
            assert client.get(path).status_code == 200
        for right in (f"Bearer {TOKEN}", f"bearer {TOKEN}"):
            assert client.get("/v1/stats", headers={"Authorization": right}).status_code == 200
        assert everything(service.index) == before


def test_no_spelling_of_a_path_gets_around_the_token() -> None:
    with served(token=TOKEN) as (_, url):
        for target in ("//v1/stats", "/page/../v1/stats", "/page/%2e%2e/v1/stats", "/v1/stats?/page/", "/V1/STATS",
                       "/v1/health%2f..%2fstats", "http://127.0.0.1/v1/stats"):  # fmt: skip
            with connected(url) as connection:
                connection.sendall(request_bytes("GET", target, url, Connection="close"))
                answer = rest_of(connection)
            assert b"n_pairs" not in answer
            assert answer.split()[1] in (b"400", b"401", b"404"), target


def test_a_name_that_was_bound_to_loopback_is_refused(url: str) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:80", "[", "127.0.0.1@evil", "0.0.0.0", "",
                 "evil.example@127.0.0.1", "127.0.0.1/evil.example", "127.0.0.1:port"):  # fmt: skip
        for path in ("/", "/v1/stats"):
            assert httpx.get(url + path, headers={"Host": host}, timeout=SECONDS).status_code == 403, (host, path)
    port = url.rpartition(":")[2]
    for host in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
        for name in (host, f"{host}:{port}"):
            assert httpx.get(url + "/v1/stats", headers={"Host": name}, timeout=SECONDS).status_code == 200


def test_headers_that_decide_who_may_come_in_are_sent_once() -> None:
    with served(token=TOKEN) as (service, url):
        before = everything(service.index)
        right = {"Host": url.removeprefix("http://"), "Authorization": f"Bearer {TOKEN}", "Origin": url}
        lines = [f"{key}: {value}" for key, value in right.items()]
        for other in (f"{name}: evil.example" for name in right):
            for fields in ([other, *lines], [*lines, other]):
                head = ["POST /v1/flush HTTP/1.1", *fields, "Content-Length: 0", "Connection: close"]
                with connected(url) as connection:
                    connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n")
                    assert rest_of(connection).split()[1] == b"400", other
        assert everything(service.index) == before


def test_headers_that_decide_how_a_body_is_read_are_sent_once() -> None:
    """Of two content types, the limits on JSON were those of the first, and the parser that of the second."""
    body = '{"vectors": [[0.5, 0.5]]}'
    with served() as (service, url):
        before = everything(service.index)
        for name in ("Content-Type", "Idempotency-Key"):
            lines = [f"Host: {url.removeprefix('http://')}", f"{name}: application/x-npy", f"{name}: application/json"]
            head = ["POST /v1/items HTTP/1.1", *lines, f"Content-Length: {len(body)}", "Connection: close"]
            with connected(url) as connection:
                connection.sendall("\r\n".join([*head, "", body]).encode())
                assert rest_of(connection).split()[1] == b"400"
        assert everything(service.index) == before


def test_query_parameters_are_sent_once_and_their_names_too(url: str) -> None:
    vectors = io.BytesIO()
    np.save(vectors, np.zeros((1, 2), np.float32))
    for query in ("k=1&k=2", 'where={"a":1,"a":2}', 'where={"a":{"in":[1],"in":[2]}}', "k=1&%6b=2"):
        head = {"Content-Type": "application/x-npy"}
        answered = httpx.post(f"{url}/v1/search?{query}", content=vectors.getvalue(), headers=head, timeout=SECONDS)
        assert answered.status_code in (400, 422)
        assert "send it once" in answered.json()["message"]


def test_a_path_that_somebody_could_resolve_to_another_is_refused() -> None:
    with served() as (service, url):
        before = everything(service.index)
        for target in ("/v1/items/0/../1", "/v1/items/./1", "/v1/items/..", "/page/../v1/items/1", "*",
                       "/v1/items/0/%2e%2E/1", "/v1/items/0%2f..%2f1", "/v1/items/0%5C..\\1", "/v1/items/..;/1",
                       "/v1%2fitems/1"):  # fmt: skip
            with connected(url) as connection:
                connection.sendall(request_bytes("DELETE", target, url, Connection="close"))
                assert rest_of(connection).split()[1] == b"400", target
        assert everything(service.index) == before


def test_other_sites_may_not_change_anything() -> None:
    with served() as (service, url), httpx.Client(base_url=url, timeout=60) as client:
        before = everything(service.index)
        for origin in ("http://evil.example", "null", "https://127.0.0.1", url.replace("127.0.0.1", "localhost")):
            for method, path in (("POST", "/v1/flush"), ("DELETE", "/v1/items/1"), ("POST", "/v1/search")):
                assert client.request(method, path, headers={"Origin": origin}).status_code == 403
        assert everything(service.index) == before
        assert client.post("/v1/flush", headers={"Origin": url}).status_code == 200


# ------------------------------------------------------------------ what they get


def test_every_answer_has_the_strict_headers() -> None:
    with served(token=TOKEN) as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        known = {"Authorization": f"Bearer {TOKEN}"}
        answers = [
            client.get("/"),
            client.get("/page/look.css"),
            client.get("/page/nothing"),
            client.get("/v1/stats"),
            client.get("/v1/stats", headers=known),
            client.get("/v1/nothing", headers=known),
            client.put("/v1/items", headers=known),
            client.post("/v1/search", content=b"{", headers=known | {"Content-Type": "application/json"}),
            client.get("/metrics", headers=known),
            client.get("/v1/stats", headers={"Host": "evil.example"}),
        ]
        for answered in answers:
            is_page = str(answered.request.url.path) == "/" or answered.request.url.path.startswith("/page/")
            assert answered.headers["X-Content-Type-Options"] == "nosniff"
            assert len(answered.headers.get_list("X-Content-Type-Options")) == 1
            assert "server" not in answered.headers
            if answered.request.method != "GET":  # never framed, embedded or cached
                continue
            policy = answered.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'")
            assert "unsafe" not in policy
            assert "*" not in policy
            assert "frame-ancestors 'none'" in policy
            assert ("script-src 'self'" in policy) is is_page
            assert answered.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert answered.headers["Cache-Control"] == ("no-cache" if is_page else "no-store")
            if is_page:
                assert answered.headers["X-Frame-Options"] == "DENY"
                assert answered.headers["Referrer-Policy"] == "no-referrer"
                assert answered.headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_what_is_no_http_is_refused_in_the_same_way() -> None:
    with served() as (_, url), connected(url) as connection:
        connection.sendall(b"HELLO\r\n\r\n")
        head, _, body = rest_of(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"application/json" in head
        assert b"nosniff" in head
        assert json.loads(body)["error"] == "BadRequest"


def test_no_path_of_a_request_is_opened(url: str) -> None:
    real = open
    opened: list[Any] = []

    def spy(file: Any, *rest: Any, **more: Any) -> Any:
        opened.append(file)
        return real(file, *rest, **more)

    for name in ("../app.py", "..%2fapp.py", "%2e%2e%2fapp.py", "..%252fapp.py", "/etc/passwd", "..\\app.py",
                 "index.html%00", "./index.html", "", "....//app.py", "file:///etc/passwd"):  # fmt: skip
        with mock.patch("builtins.open", spy), mock.patch("io.open", spy), connected(url) as connection:
            connection.sendall(request_bytes("GET", f"/page/{name}", url, Connection="close"))
            answer = rest_of(connection)
        assert answer.split()[1] in (b"404", b"400", b"405"), answer[:200]
        assert b"import" not in answer
        assert b"root:" not in answer
        assert opened == []


# ------------------------------------------------------------------ how much


def test_every_limit_has_its_status() -> None:
    limits = {"body_bytes": 3000, "batch": 5, "features": 4, "k": 6, "ids": 7, "hits": 29}
    bodies = {
        "body_bytes": ("/v1/search", {"vector": [0.5] * 1000}),
        "batch": ("/v1/codes", {"vectors": [[1, 2]] * 6}),
        "features": ("/v1/search", {"vector": [1.0] * 5, "k": 1}),
        "k": ("/v1/search", {"vector": [1, 2], "k": 7}),
        "ids": ("/v1/items/get", {"ids": [1] * 8}),
        "hits": ("/v1/search", {"vectors": [[1, 2]] * 5, "k": 6}),
    }
    with served(**limits) as (service, url), httpx.Client(base_url=url, timeout=60) as client:
        before = everything(service.index)
        for name, (path, body) in bodies.items():
            answered = client.post(path, json=body)
            assert answered.status_code == 413, name
            assert answered.json()["error"] == "TooLarge"
            assert f"{limits[name]:,}" in answered.json()["message"]
        assert client.post("/v1/learn", json={"id_a": [1] * 8, "id_b": [2] * 8, "similar": True}).status_code == 413
        assert client.post("/v1/items", json={"vectors": [[1, 2]] * 6}).status_code == 413
        assert client.post("/v1/within", json={"vectors": [[1, 2]] * 5, "radius": 16}).status_code == 413
        assert client.post("/v1/search", json={"vectors": [[1, 2]] * 5, "k": 5}).status_code == 200
        assert client.get("/v1/about").json()["limits"] | limits == client.get("/v1/about").json()["limits"]
        assert everything(service.index) == before


def test_a_client_that_asks_too_often_is_told_when_to_come_back() -> None:
    with served(rate=2.0) as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        answers = [client.get("/v1/health") for _ in range(60)]
        refused = [answered for answered in answers if answered.status_code == 429]
        assert 2 <= sum(answered.status_code == 200 for answered in answers) < 60
        assert refused
        assert all(answered.headers["Retry-After"] == "1" for answered in refused)
        assert refused[0].json()["error"] == "Busy"
        time.sleep(1.0)
        assert client.get("/v1/health").status_code == 200


# ------------------------------------------------------------------ how long


def is_cut_off(url: str, first: bytes, again: bytes) -> bool:
    """Whether the other side ends the connection while `again` is sent again and again."""
    end = time.monotonic() + SECONDS
    with connected(url) as connection:
        connection.sendall(first)
        connection.settimeout(0.1)
        while time.monotonic() < end:
            try:
                connection.send(again)
                if connection.recv(1 << 16) == b"":
                    return True
            except TimeoutError:
                continue
            except OSError:
                return True
    return False


POSTED = ("POST", "/v1/search")
SLOW = {
    "says nothing": (b"", b""),
    "headers without end": (request_bytes(*POSTED, "//127.0.0.1")[:-2], b"X-More: 1\r\n"),
    "one header without end": (request_bytes(*POSTED, "//127.0.0.1")[:-2] + b"X-More: ", b"1"),
    "request line without end": (b"GET /", b"a"),
    "body that trickles": (
        request_bytes(*POSTED, "//127.0.0.1", Content_Length="1000", Content_Type="application/json"), b" "
    ),
    "chunks that trickle": (
        request_bytes(*POSTED, "//127.0.0.1", Transfer_Encoding="chunked", Content_Type="application/json"),
        b"1\r\n \r\n",
    ),
    "body that nobody reads": (request_bytes("GET", "/v1/health", "//127.0.0.1", Content_Length="1000"), b" "),
    "body that was refused": (request_bytes("POST", "/v1/nothing", "//127.0.0.1", Content_Length="1000"), b" "),
    "lines between requests": (request_bytes("GET", "/v1/health", "//127.0.0.1"), b"\r\n"),
    "idle between requests": (request_bytes("GET", "/v1/health", "//127.0.0.1"), b""),
    "half a second request": (request_bytes("GET", "/v1/health", "//127.0.0.1") + b"GET /v1", b""),
}  # fmt: skip


def test_a_slow_client_is_cut_off() -> None:
    with served(idle_seconds=0.5, body_seconds=0.5) as (_, url), ThreadPoolExecutor(len(SLOW)) as pool:
        cut_off = {name: pool.submit(is_cut_off, url, *what) for name, what in SLOW.items()}
        assert not [name for name, future in cut_off.items() if not future.result()]
        assert httpx.get(url + "/v1/health", timeout=SECONDS).status_code == 200


# ------------------------------------------------------------------ what is written down


def test_logs_hold_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(with_access=True)
    with served(LiveIndex(OnlineHashing(n_bits=8, random_state=0)), token=TOKEN) as (_, url):
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
            client.post(
                "/v1/items", json={"ids": ["alice"], "vectors": [[0.12345, 2]], "payloads": [{"key": "hidden"}]}
            )
            client.post("/v1/search", json={"vector": [0.54321, 1]})
            client.get("/v1/items/alice?vector=false")
            client.get("/v1/items/mallory?why=because")
            client.get("/v1/items/alice", headers={"Authorization": "Bearer wrong-token"})
            client.post("/v1/search", content=b'{"vector": [0.54321', headers={"Content-Type": "application/json"})
            client.get("/v1/nowhere/alice?why=because")
        with connected(url) as connection:
            connection.sendall(b"GET /alice\r\n\r\n")
            rest_of(connection)
    logs.access.setLevel(logging.NOTSET)
    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    requests = [line for line in lines if line["logger"] == "onlinehash.access"]
    assert [(line["method"], line["route"], line["status"]) for line in requests] == [
        ("POST", "/v1/items", 201),
        ("POST", "/v1/search", 200),
        ("GET", "/v1/items/{id:path}", 200),
        ("GET", "/v1/items/{id:path}", 404),
        ("GET", "none", 401),
        ("POST", "/v1/search", 400),
        ("GET", "none", 404),
        ("GET", "none", 403),
    ]
    assert all({"time", "level", "message", "ms", "client"} <= set(line) for line in requests)
    for secret in (TOKEN, "wrong-token", "alice", "mallory", "hidden", "because", "12345", "54321"):
        assert secret not in text
