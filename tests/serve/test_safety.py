"""Who may come in, what they get to see, how much they may send, and how long they may take."""

from __future__ import annotations

import ast
import hmac
import io
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
import pytest

import onlinehash.serve
from onlinehash.errors import InvalidInput
from onlinehash.serve import middleware
from onlinehash.serve.settings import Access, Limits
from tests.cli.running import onlinehash as command
from tests.serve.services import (
    SECONDS,
    Process,
    connected,
    everything,
    post_json,
    request_bytes,
    rest_of,
    served,
    served_with_all,
    small_index,
)

TOKEN = "secret-0123456789abcdef"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where a service is that no test changes."""
    with served() as (_, url):
        yield url


# ------------------------------------------------------------------ where it listens


def test_only_this_machine_is_listened_to_by_default() -> None:
    assert Access().host == "127.0.0.1"
    with served() as (_, url):
        assert url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "", "127.1", "localhost.example"])
def test_other_machines_need_a_token_or_a_word(host: str) -> None:
    with pytest.raises(InvalidInput, match="token"):
        Access(host)
    assert Access(host, TOKEN).token == TOKEN
    assert not Access(host, insecure=True).is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    assert Access(host).is_loopback


@pytest.mark.parametrize("token", ["short", "with space 123", "with\nline 123", "ümlaut-123456", "x" * 513])
def test_tokens_that_cannot_be_sent_are_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="token"):
        Access(token=token)


def test_the_command_line_refuses_other_hosts_without_a_token(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("ONLINEHASH_TOKEN", raising=False)
    refused = command("serve", tmp_path / "items", "--host", "0.0.0.0", "--port", 0)
    assert refused.code != 0
    assert "ONLINEHASH_TOKEN" in refused.err
    assert "--insecure" in refused.err
    assert not (tmp_path / "items").exists()


def test_a_token_is_not_shown() -> None:
    assert TOKEN not in repr(Access(token=TOKEN))


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


@pytest.mark.parametrize("target", ["//v1/stats", "/v1/health/../stats", "/page/../v1/stats", "/page/%2e%2e/v1/stats",
                                    "/v1/stats?/page/", "/v1//stats", "/V1/STATS", "/v1/health%2f..%2fstats",
                                    "http://127.0.0.1/v1/stats"])  # fmt: skip
def test_no_spelling_of_a_path_gets_around_the_token(target: str) -> None:
    with served(token=TOKEN) as (_, url), connected(url) as connection:
        connection.sendall(request_bytes("GET", target, url, Connection="close"))
        answer = rest_of(connection)
        assert b"n_pairs" not in answer
        assert answer.split()[1] in (b"400", b"401", b"404")


def test_tokens_are_compared_in_constant_time() -> None:
    spied = mock.patch.object(middleware.hmac, "compare_digest", side_effect=hmac.compare_digest)
    with spied as compared, served(token=TOKEN) as (_, url):
        httpx.get(url + "/v1/stats", headers={"Authorization": "Bearer wrong"}, timeout=SECONDS)
    compared.assert_called_once_with(b"wrong", TOKEN.encode())


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "[", "127.0.0.1@evil",
                                  "0.0.0.0", "localhost.", "xn--lcalhost-", "", "evil.example@127.0.0.1",
                                  "127.0.0.1/evil.example", "127.0.0.1:port", "127.0.0.1#", "127.0.0.1?"])  # fmt: skip
def test_a_name_that_was_bound_to_loopback_is_refused(host: str, url: str) -> None:
    for path in ("/", "/v1/stats", "/page/look.css"):
        answered = httpx.get(url + path, headers={"Host": host}, timeout=SECONDS)
        assert answered.status_code == 403, path


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"])
def test_names_of_this_machine_are_known(host: str, url: str) -> None:
    port = url.rpartition(":")[2]
    for name in (host, f"{host}:{port}"):
        assert httpx.get(url + "/v1/stats", headers={"Host": name}, timeout=SECONDS).status_code == 200


@pytest.mark.parametrize("name", ["Host", "Authorization", "Origin"])
@pytest.mark.parametrize("other_first", [False, True])
def test_headers_that_decide_who_may_come_in_are_sent_once(name: str, other_first: bool) -> None:
    with served(token=TOKEN) as (service, url), connected(url) as connection:
        before = everything(service.index)
        right = {"Host": url.removeprefix("http://"), "Authorization": f"Bearer {TOKEN}", "Origin": url}
        lines = [f"{key}: {value}" for key, value in right.items()]
        other = f"{name}: evil.example"
        lines = [other, *lines] if other_first else [*lines, other]
        head = ["POST /v1/flush HTTP/1.1", *lines, "Content-Length: 0", "Connection: close"]
        connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n")
        assert rest_of(connection).split()[1] == b"400"
        assert everything(service.index) == before


@pytest.mark.parametrize("name", ["Content-Type", "Idempotency-Key"])
def test_headers_that_decide_how_a_body_is_read_are_sent_once(name: str) -> None:
    """Of two content types, the limits on JSON were those of the first, and the parser that of the second."""
    with served() as (service, url), connected(url) as connection:
        before = everything(service.index)
        lines = [f"Host: {url.removeprefix('http://')}", f"{name}: application/x-npy", f"{name}: application/json"]
        body = '{"vectors": [[0.5, 0.5]]}'
        head = ["POST /v1/items HTTP/1.1", *lines, f"Content-Length: {len(body)}", "Connection: close"]
        connection.sendall("\r\n".join([*head, "", body]).encode())
        assert rest_of(connection).split()[1] == b"400"
        assert everything(service.index) == before


@pytest.mark.parametrize("query", ["k=1&k=2", 'where={"a":1,"a":2}', 'where={"a":{"in":[1],"in":[2]}}', "k=1&%6b=2"])
def test_query_parameters_are_sent_once_and_their_names_too(query: str) -> None:
    with served() as (_, url):
        vectors = io.BytesIO()
        np.save(vectors, np.zeros((1, 2), np.float32))
        head = {"Content-Type": "application/x-npy"}
        answered = httpx.post(f"{url}/v1/search?{query}", content=vectors.getvalue(), headers=head)
        assert answered.status_code in (400, 422)
        assert "send it once" in answered.json()["message"]


@pytest.mark.parametrize(
    "target",
    [
        "/v1/items/0/../1", "/v1/items/./1", "/v1/items/..", "/page/../v1/items/1", "*",
        "/v1/items/0/%2e%2E/1", "/v1/items/0%2f..%2f1", "/v1/items/0%5C..\\1", "/v1/items/..;/1", "/v1%2fitems/1",
    ],
)  # fmt: skip
def test_a_path_that_somebody_could_resolve_to_another_is_refused(target: str) -> None:
    with served() as (service, url), connected(url) as connection:
        before = everything(service.index)
        connection.sendall(request_bytes("DELETE", target, url, Connection="close"))
        assert rest_of(connection).split()[1] == b"400"
        assert everything(service.index) == before


def test_other_sites_may_not_change_anything() -> None:
    with served() as (service, url), httpx.Client(base_url=url, timeout=60) as client:
        before = everything(service.index)
        for origin in ("http://evil.example", "null", "https://127.0.0.1", url.replace("127.0.0.1", "localhost")):
            for method, path in (("POST", "/v1/flush"), ("DELETE", "/v1/items/1"), ("POST", "/v1/search")):
                assert client.request(method, path, headers={"Origin": origin}).status_code == 403
        assert everything(service.index) == before
        assert client.post("/v1/flush", headers={"Origin": url}).status_code == 200


def test_nothing_is_shared_with_other_origins() -> None:
    with served() as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        for path in ("/v1/search", "/v1/items", "/v1/stats", "/"):
            preflight = client.options(path, headers=asked)
            assert preflight.status_code in (403, 404, 405)
            for answered in (preflight, client.get(path, headers={"Origin": "http://evil.example"})):
                assert not [name for name in answered.headers if name.startswith("access-control")]


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


def test_html_in_a_payload_stays_json() -> None:
    script = "<script>alert(1)</script>"
    with served() as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        client.post("/v1/items/50", json={"vector": [1, 2], "payload": {script: script}})
        for answered in (
            client.get("/v1/items/50"),
            client.post("/v1/search", json={"id": 50, "k": 1, "payloads": True}),
            client.get(f"/v1/items/{script}"),
            client.get(f"/{script}"),
            client.get("/v1/items", params={"limit": script}),
        ):
            assert script.partition("/")[0] in answered.text
            assert answered.headers["Content-Type"] == "application/json"
            assert answered.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "%2e%2e%2fapp.py", "..%252fapp.py",
                                  "%252e%252e%252fapp.py", "/etc/passwd", "%2fetc%2fpasswd", "..\\app.py",
                                  "index.html%00", "index.html/", "./index.html", "", "page/index.html",
                                  "....//app.py", "file:///etc/passwd", "%c0%ae%c0%ae/app.py", "..%5capp"])  # fmt: skip
def test_no_path_of_a_request_is_opened(name: str, url: str) -> None:
    real = open
    opened: list[Any] = []

    def spy(file: Any, *rest: Any, **more: Any) -> Any:
        opened.append(file)
        return real(file, *rest, **more)

    with mock.patch("builtins.open", spy), mock.patch("io.open", spy), connected(url) as connection:
        connection.sendall(request_bytes("GET", f"/page/{name}", url, Connection="close"))
        answer = rest_of(connection)
    assert answer.split()[1] in (b"404", b"400", b"405"), answer[:200]
    assert b"import" not in answer
    assert b"root:" not in answer
    assert opened == []


def test_nothing_in_the_service_unpickles_or_opens() -> None:
    """`open` with a path, `pickle`, `eval` and their like are nowhere; what is read is part of the package."""
    root = Path(onlinehash.serve.__file__).parent
    assert len(list(root.rglob("*.py"))) > 20
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", "") or ""}
                assert not names & {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "yaml"}, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("open", "eval", "exec", "__import__"), (path, node.lineno)
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path


# ------------------------------------------------------------------ how much


def test_too_many_connections_are_told_so() -> None:
    with (
        served(connections=2) as (_, url),
        connected(url),
        connected(url),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        answered = client.get("/v1/health")
        assert answered.status_code == 503
        assert answered.json()["error"] == "Unavailable"
        assert "Retry-After" in answered.headers


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


@pytest.mark.parametrize("limits", [{"queue": 0}, {"body_bytes": -1}, {"rate": -1.0}, {"idle_seconds": float("nan")},
                                    {"k": float("inf")}, {"batch": "5"}])  # fmt: skip
def test_limits_that_limit_nothing_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Limits(**limits)


# ------------------------------------------------------------------ how long


def seconds_until_cut_off(connection: socket.socket, again: bytes = b"", pause: float = 0.1) -> float:
    """How long until the other side ends the connection, while `again` is sent again and again."""
    start = time.monotonic()
    connection.settimeout(pause)
    while time.monotonic() - start < SECONDS:
        try:
            connection.send(again)
            if connection.recv(1 << 16) == b"":
                return time.monotonic() - start
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - start
    raise AssertionError("it was not cut off")


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


@pytest.mark.long
@pytest.mark.parametrize("name", SLOW)
def test_a_slow_client_is_cut_off(name: str) -> None:
    first, again = SLOW[name]
    with served(idle_seconds=0.5, body_seconds=0.5) as (_, url), connected(url) as connection:
        connection.sendall(first)
        assert seconds_until_cut_off(connection, again) < 6
        assert httpx.get(url + "/v1/health", timeout=SECONDS).status_code == 200


def test_a_body_that_does_not_come_is_answered_first() -> None:
    with served(body_seconds=0.3) as (_, url), connected(url) as connection:
        connection.sendall(request_bytes(*POSTED, url, b"{", Content_Length="9", Content_Type="application/json"))
        assert rest_of(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.long
@pytest.mark.parametrize("and_asks_again", [False, True])
def test_a_client_that_does_not_read_is_cut_off(and_asks_again: bool) -> None:
    with served(small_index(n=5000), idle_seconds=0.5) as (service, url):
        body = json.dumps({"vectors": [[0.1, 0.9]] * 200, "k": 5000}).encode()
        asked = request_bytes(*POSTED, url, body, Content_Length=str(len(body)), Content_Type="application/json")
        with connected(url, receive_bytes=4096) as connection:
            connection.sendall(asked)
            start = time.monotonic()
            while time.monotonic() - start < 2:
                time.sleep(0.1)
                try:
                    connection.send(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" if and_asks_again else b"")
                    if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        break
                except OSError:
                    break
            received = rest_of(connection)
        assert len(received) < 5_000_000  # of more
        assert post_json(url, "/v1/search", {"vector": [1, 2]}).status_code == 200
        assert service.searches >= 1


def test_headers_have_a_limit() -> None:
    with served() as (_, url), connected(url) as connection:
        connection.sendall(request_bytes("GET", "/v1/health", url)[:-2])
        with pytest.raises(OSError, match=r"reset|pipe"):
            connection.sendall((b"X-Filler: " + b"x" * 10_000 + b"\r\n") * 5000)


# ------------------------------------------------------------------ what is written down


def test_logs_hold_no_secrets(tmp_path: Path) -> None:
    known = {"Authorization": f"Bearer {TOKEN}"}
    with Process("--memory", "--log-requests", "--bits", 8, log=tmp_path / "log", token=TOKEN) as process:
        with httpx.Client(base_url=process.url, headers=known, timeout=60) as client:
            client.post(
                "/v1/items", json={"ids": ["alice"], "vectors": [[0.12345, 2]], "payloads": [{"key": "hidden"}]}
            )
            client.post("/v1/search", json={"vector": [0.54321, 1]})
            client.get("/v1/items/alice?vector=false")
            client.get("/v1/items/mallory?why=because")
            client.get("/v1/items/alice", headers={"Authorization": "Bearer wrong-token"})
            client.post("/v1/search", content=b'{"vector": [0.54321', headers={"Content-Type": "application/json"})
            client.get("/v1/nowhere/alice?why=because")
        with connected(process.url) as connection:
            connection.sendall(b"GET /alice\r\n\r\n")
            rest_of(connection)
        assert process.stop() == 0
    text = (tmp_path / "log").read_text()
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
        assert secret not in text.replace(str(process.pid), "")


def test_a_wrong_method_is_told_the_right_ones() -> None:
    with served() as (_, url):
        refused = {path: httpx.put(url + path, timeout=SECONDS) for path in ("/v1/items", "/v1/items/1", "/v1/find")}
    assert {path: answer.headers["Allow"] for path, answer in refused.items()} == {
        "/v1/items": "GET, PATCH, POST",
        "/v1/items/1": "DELETE, GET, PATCH, POST",
        "/v1/find": "POST",
    }
    assert all(answer.status_code == 405 for answer in refused.values())
