"""Several processes behind one port: any of them takes any request, and readers are close behind the writer."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.serve import server
from onlinehash.serve import service as services
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits
from tests.processes import is_alive, n_connections
from tests.serve.services import (
    SECONDS,
    Process,
    post_json,
    rows,
    small_index,
    until,
)

TOKEN = "token-of-all-processes"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}

#: Connections over which the kernel spreads requests to all processes, as long as they stay open.
N_CONNECTIONS = 12


class Everybody:
    """Clients whose connections stay open, so many that each process has some of them."""

    def __init__(self, url: str, pids: list[int]) -> None:
        before = {pid: n_connections(pid) for pid in pids}
        self.clients: list[httpx.Client] = []
        until(lambda: self._one_more(url) and all(n_connections(pid) > n for pid, n in before.items()), 60)
        while len(self.clients) < N_CONNECTIONS:
            self._one_more(url)

    def _one_more(self, url: str) -> bool:
        client = httpx.Client(base_url=url, headers=KNOWN, timeout=SECONDS, verify=False)
        self.clients.append(client)
        time.sleep(0.05)
        return client.get("/v1/health").status_code == 200

    def all_see(self, id: str) -> bool:
        return all(client.get(f"/v1/items/{id}").status_code == 200 for client in self.clients)

    def close(self) -> None:
        for client in self.clients:
            client.close()


@pytest.mark.long
def test_one_port_and_several_processes(tmp_path: Path) -> None:
    with LiveIndex(OnlineHashing(n_bits=8, random_state=0), path=tmp_path / "items") as index:
        index.add([f"plain{i}" for i in range(12)], rows(12))
    with ExitStack() as stack:
        process = stack.enter_context(Process(tmp_path / "items", "--readers", 2, log=tmp_path / "log", token=TOKEN))
        until(lambda: process.log.read_text().count("a reader takes requests") == 2, 60)
        readers = process.children()
        everybody = Everybody(process.url, [process.pid, *readers])
        stack.callback(everybody.close)
        for client in everybody.clients:  # every process asks for the token
            assert client.get("/v1/stats", headers={"Authorization": "no"}).status_code == 401
            assert client.post("/v1/search", json={"id": "plain0", "k": 1}).json()["ids"] == ["plain0"]

        # Changes arrive wherever they land, once, under the id that was written, and all of them follow.
        for i, client in enumerate(everybody.clients):
            for _ in range(2):
                key = {"Idempotency-Key": f"key{i}"}
                answered = client.post(f"/v1/items/new{i}%3F", json={"vector": [i, 1]}, headers=key)
                assert answered.status_code == 201
            until(lambda i=i: everybody.all_see(f"new{i}%3F"))
        learned = {"a": [[1, 2], [2, 1]], "b": [[-1, 1], [1, -1]], "similar": [True, False], "refresh": True}
        encoder = everybody.clients[-1].post("/v1/learn", json=learned).json()["encoder"]
        search = lambda client: client.post("/v1/search", json={"id": "plain1"}).json()  # noqa: E731
        until(lambda: all(search(client)["encoder"] == encoder for client in everybody.clients))
        everybody.close()

        # A reader that dies is replaced, and none outlives the writer.
        os.kill(readers[0], signal.SIGKILL)
        replaced = until(lambda: len(pids := set(process.children())) == 2 and readers[0] not in pids and pids, 60)
        assert readers[1] in replaced
        for i in range(6):
            assert post_json(process.url, f"/v1/items/after{i}", {"vector": [1, 2]}, **KNOWN).status_code == 201
        process.kill()
        until(lambda: not any(is_alive(pid) for pid in replaced))
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert len(index) == 12 + len(everybody.clients) + 6


def test_a_reader_answers_for_items_that_its_writer_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FOLLOW_EVERY", 60.0)  # it catches up only where it must
    with small_index(tmp_path / "items") as index:
        reader = LiveIndex.open(tmp_path / "items", read_only=True)
        with server.background(Service(reader, read_only=True)) as url:
            index.update([1], [[5, 5]])
            index.remove([2])
            index.add([100], [[1, 1]])
            assert httpx.get(f"{url}/v1/items/3", timeout=SECONDS).status_code == 200
            assert post_json(url, "/v1/search", {"id": 3, "k": 3}).json()["ids"][0] == 3
            assert 100 not in reader  # as none of these was changed
            assert httpx.get(f"{url}/v1/items/1", timeout=SECONDS).json()["vector"] == [5, 5]
            assert 100 in reader
            for change, path, body in (
                ([4, 4], "/v1/find", {"id": 1}),
                ([6, 6], "/v1/search", {"id": 1}),
                ([7, 7], "/v1/search", {"vector": [7, 7], "rerank": True, "k": 12}),
                ([8, 8], "/v1/within", {"id": 1, "radius": 2}),
                ([9, 9], "/v1/rerank", {"vector": [9, 9], "ids": [1, 3]}),
                ([10, 10], "/v1/codes", {"ids": [1]}),
                ([11, 11], "/v1/items/get", {"ids": [1]}),
            ):
                index.update([1], [change])
                assert post_json(url, path, body).status_code == 200, path
                assert reader.get(1).vector.tolist() == change
            index.remove([3])
            assert httpx.get(f"{url}/v1/items/3", timeout=SECONDS).status_code == 404


def test_a_reader_that_cannot_follow_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_LAG", 0.5)
    small_index(tmp_path / "items").close()
    reader, go_on = LiveIndex.open(tmp_path / "items", read_only=True), threading.Event()
    reload = reader.reload

    def wait() -> bool:
        go_on.wait(SECONDS)
        return reload()

    monkeypatch.setattr(reader, "reload", wait)
    with server.background(Service(reader, read_only=True)) as url:
        try:
            until(lambda: httpx.get(f"{url}/v1/ready", timeout=SECONDS).status_code == 503)
            assert httpx.get(f"{url}/v1/ready", timeout=SECONDS).json()["status"] == "behind"
            assert httpx.get(f"{url}/v1/stats", timeout=SECONDS).json()["lag_seconds"] > 0.5
            assert post_json(url, "/v1/search", {"id": 1, "k": 1}).json()["ids"] == [1]
        finally:
            go_on.set()
        until(lambda: httpx.get(f"{url}/v1/ready", timeout=SECONDS).status_code == 200)


class BrokenIndex:
    """Makes a reader's reloads fail while it is told to."""

    def __init__(self, reader: LiveIndex, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_broken, self.n_tries, self._reload = True, 0, reader.reload
        monkeypatch.setattr(reader, "reload", self._try)

    def _try(self) -> bool:
        self.n_tries += 1
        if self.is_broken:
            raise OSError("the disk is away")
        return self._reload()


def test_that_a_reader_cannot_follow_is_told_once_and_that_it_can_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("FOLLOW_EVERY", "LONGEST_PAUSE"):
        monkeypatch.setattr(services, name, 0.01)
    caplog.set_level(logging.INFO, "onlinehash.service")

    def told() -> list[str]:
        return [record.message for record in list(caplog.records) if "reloading" in record.message]

    with small_index(tmp_path / "items") as index:
        reader = LiveIndex.open(tmp_path / "items", read_only=True)
        broken = BrokenIndex(reader, monkeypatch)
        with server.background(Service(reader, read_only=True)):
            for times in (1, 2):
                until(lambda: broken.n_tries >= 5)
                assert len(told()) == 2 * times - 1
                index.add([100 + times], rows(1, times))
                broken.is_broken = False
                until(lambda times=times: 100 + times in reader)
                until(lambda times=times: len(told()) == 2 * times)
                broken.is_broken, broken.n_tries = True, 0
    assert told()[:4] == ["reloading the index failed, and is tried again", "reloading the index works again"] * 2
    assert "the disk is away" in caplog.text


def test_nobody_hurries_a_reader_that_cannot_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOLLOW_EVERY", "LONGEST_PAUSE"):
        monkeypatch.setattr(services, name, 60.0)
    small_index(tmp_path / "items").close()
    reader = LiveIndex.open(tmp_path / "items", read_only=True)
    broken = BrokenIndex(reader, monkeypatch)
    with server.background(Service(reader, limits=Limits(follow_wait_s=0.3), read_only=True)) as url:
        at_least = {"Onlinehash-At-Least": str(reader.epoch + 1)}
        assert httpx.get(f"{url}/v1/items/1", headers=at_least, timeout=SECONDS).status_code == 503
        assert broken.n_tries <= 1
