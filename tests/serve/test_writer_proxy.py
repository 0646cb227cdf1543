"""A reader that hands requests on to its writer."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.errors import StorageError
from tests.serve.services import (
    SECONDS,
    connected,
    everything,
    request_bytes,
    rest_of,
    rows,
    served_by_a_reader,
)

# ------------------------------------------------------------------ paths that something could resolve to others

TOKEN = "token-of-reader-and-writer"
#: Ways to write `/../` and the like, of which a server, a client library or a proxy understands one or another.
UPWARDS = (
    "/../", "/./../", "/%2e%2e/", "/.%2e/", "/%2E./", "%2f..%2f", "%2F%2e%2e%2F", "/..%2f", "/..;/", "/..;x=1/",
    "/..%5c", "\\..\\", "%5c..%5c", "//../", "/%252e%252e/", "/..%00/", "/..%c0%af", "/%c0%ae%c0%ae/", "/..?/",
    "/..%3f/",
)  # fmt: skip
ITEMS = [f"/v1/items/a{up}b" for up in UPWARDS] + [
    "/v1/items//b", "/v1//items/b", "//v1/items/b", "/v1/items/b;x", "/v1/items/b/", "/v1/items%2fb", "/v1%2Fitems/b",
]  # fmt: skip
ROUTES = [f"/page{up}v1/flush" for up in UPWARDS] + [
    "//v1/flush", "/v1//flush", "/v1/flush/", "/v1/flush;x", "/v1/flush%2f", "/v1%2fflush", "/V1/flush", "/v1/./flush",
    "/page/%2e%2e/%2e%2e/v1/flush", "/page/x/../../v1/flush", "/v1/health/../flush", "/v1/search/%2e%2e/flush", "*",
    "v1/flush", "http://127.0.0.1/page/../v1/flush",
]  # fmt: skip


def answered(url: str, method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
    """The status of a request whose target goes out as it is."""
    fields = {"Content_Type": "application/json", "Content_Length": str(len(body)), "Connection": "close"} | headers
    with connected(url) as connection:
        connection.sendall(request_bytes(method, target, url, body, **fields))
        return rest_of(connection).split()[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "items"
    with LiveIndex(OnlineHashing(n_bits=8, random_state=0), path=path) as index:
        index.add(["a", "b", "c"], rows(3), [{"number": number} for number in range(3)])
    return path


def test_no_path_through_a_reader_reaches_another_item_or_route(folder: Path) -> None:
    with served_by_a_reader(folder, TOKEN) as (writer, _, url):
        before, known = everything(writer.index), f"Bearer {TOKEN}"
        for target in ITEMS:
            for method, body in (("PATCH", {"payload": {"number": 9}}), ("DELETE", None)):
                status = answered(url, method, target, json.dumps(body).encode(), Authorization=known)
                assert status in (b"400", b"404", b"405", b"422"), (method, target)
        for target in ROUTES:  # the page needs no token, and the rest of the path must not get in with it
            assert answered(url, "POST", target) in (b"400", b"401", b"404", b"405"), target
            assert answered(url, "POST", target, Authorization=known) in (b"400", b"404", b"405"), target
        assert everything(writer.index) == before
        assert answered(url, "PATCH", "/v1/items/b", b'{"payload": {"number": 7}}', Authorization=known) == b"200"
        assert answered(url, "POST", "/v1/flush", Authorization=known) == b"200"


# ------------------------------------------------------------------ whether it is ready


def test_a_reader_is_ready_when_its_writer_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StorageError("the disk is full.")

    with served_by_a_reader(folder) as (writer, reader, url):
        ready = lambda: httpx.get(f"{url}/v1/ready", timeout=SECONDS)  # noqa: E731
        assert (ready().status_code, ready().json()["status"]) == (200, "ready")
        with monkeypatch.context() as patch:
            patch.setattr(writer.index, "update", full)
            assert httpx.patch(f"{url}/v1/items/a", json={"vector": [1, 2]}, timeout=SECONDS).status_code == 507
        assert (ready().status_code, ready().json()["status"]) == (503, "storage failing")
        monkeypatch.setattr(reader, "readiness", lambda: ("behind", 503))
        assert (ready().status_code, ready().json()["status"]) == (503, "behind")
