"""Replicas as processes, some of which are killed, as are servers: nothing is lost, made twice or mixed."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest

from onlinehash import OnlineHashing, PostgresIndex, refresh
from onlinehash.stores.postgres.connections import connect
from tests.serve.services import SECONDS, Process
from tests.servers import PostgresServer
from tests.stores.conftest import Home
from tests.stores.postgres_worker import vectors_of

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::UserWarning")]

FIRST = [f"first/{i}" for i in range(200)]
BITS, K = 128, 10
PROGRAM_SECONDS = 40.0


class Replicas:
    """Services over one index, each a process of its own, that can be killed and started again."""

    def __init__(self, home: Home, n: int, folder: Path) -> None:
        self._home, self._folder, self._n_started = home, folder, 0
        self._running: list[Process | None] = [None] * n
        for number in range(n):
            self.start(number)

    def start(self, number: int) -> None:
        self._n_started += 1
        log = self._folder / f"replica{self._n_started}"
        where = (self._home.address, "--schema", self._home.schema, "--refresh", "by_hand")
        self._running[number] = Process(*where, "--limit", "follow_wait_s=30", log=log, seconds=600)

    def kill(self, number: int) -> None:
        process, self._running[number] = self._running[number], None
        assert process is not None
        process.kill()

    @property
    def urls(self) -> list[str]:
        return [process.url for process in self._running if process is not None]

    def end(self) -> None:
        for process in self._running:
            if process is not None:
                process.end()


class Client:
    """Sends each request to a replica drawn at random, and a change again, with its key, until it is made."""

    def __init__(self, replicas: Replicas, seed: int) -> None:
        self._replicas, self._rng, self._clients = replicas, random.Random(seed), dict[str, httpx.Client]()
        self.refused = Counter[tuple[int, str]]()

    def post(self, path: str, document: Any, **headers: str) -> httpx.Response | None:
        """The answer; None if the replica has just been killed."""
        url = self._rng.choice(self._replicas.urls)
        if url not in self._clients:
            self._clients[url] = httpx.Client(base_url=url, timeout=SECONDS)
        client = self._clients[url]
        try:
            answered = client.post(path, json=document, headers=headers)
        except httpx.TransportError:
            return None
        if answered.status_code >= 400:
            self.refused[answered.status_code, answered.json()["error"]] += 1
        return answered

    def insist(self, path: str, document: Any, **headers: str) -> httpx.Response:
        """The answer of a change that was made."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            answered = self.post(path, document, **headers)
            if answered is not None and answered.status_code < 300:
                return answered
            assert answered is None or answered.status_code == 503, answered.text
            time.sleep(0.05)
        raise AssertionError(f"{path} was refused for {SECONDS} s")

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


class Found(NamedTuple):
    """What `find` found, and of which epoch it says it is."""

    ids: list[str]
    epoch: int


class Answer(NamedTuple):
    """What a search found, and of what it says it is."""

    query: str
    ids: list[str]
    distances: list[int]
    encoder: int
    epoch: int


@contextmanager
def running(home: Home, n: int, folder: Path) -> Iterator[Replicas]:
    learner = OnlineHashing(n_bits=BITS, burn_in=20, random_state=0)
    with PostgresIndex.create(home.address, learner, refresh.by_hand(), **home.options) as index:
        index.add(FIRST, vectors_of(FIRST))
    replicas = Replicas(home, n, folder)
    try:
        yield replicas
    finally:
        replicas.end()


class Threads:
    """Clients at work, each in a thread of its own; what fails in one of them fails the test."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas, self._threads, self._errors = replicas, list[threading.Thread](), list[BaseException]()
        self.ended, self.clients = threading.Event(), list[Client]()

    def start(self, work: Callable[[Client, int], None]) -> None:
        """Call this again and again, with the number of the call."""
        client = Client(self._replicas, len(self.clients))
        self.clients.append(client)

        def run() -> None:
            number = 0
            try:
                while not self.ended.is_set():
                    work(client, number)
                    number += 1
            except BaseException as error:
                self._errors.append(error)
            finally:
                client.close()

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        self.ended.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]


def encoders_of(home: Home) -> dict[int, Any]:
    with PostgresIndex.open(home.address, refresh.by_hand(), schema=home.schema) as index:
        return {version.encoder.version: version.encoder for version in index.versions}


class Truth:
    """Brute force over what the tables say was there at an epoch."""

    def __init__(self, home: Home) -> None:
        with connect(home.address) as connection:
            found = connection.execute(
                f"SELECT place, id, born, died FROM {home.schema}.items ORDER BY place"
            ).fetchall()
        self.ids = [row[1] for row in found]
        self._born, self._died = (np.array([row[i] for row in found], np.int64) for i in (2, 3))
        self._encoders, self._vectors = encoders_of(home), vectors_of(self.ids)
        self._codes = {version: encoder.encode(self._vectors).bits() for version, encoder in self._encoders.items()}

    def _there(self, epoch: int) -> np.ndarray:
        return np.flatnonzero((self._born <= epoch) & (epoch < self._died))

    def check_found(self, found: Found) -> None:
        """As many items as were asked for, each once, all of which were there at the epoch."""
        assert len(found.ids) == len(set(found.ids)) == K
        assert set(found.ids) <= {self.ids[i] for i in self._there(found.epoch)}

    def check(self, answer: Answer) -> None:
        """The hits are the nearest by the encoder, of the items that were there at the epoch."""
        code = self._encoders[answer.encoder].encode(vectors_of([answer.query])).bits()
        distances = (self._codes[answer.encoder] != code).sum(axis=1)
        there = self._there(answer.epoch)
        nearest = there[np.lexsort([there, distances[there]])[:K]]
        assert answer.ids == [self.ids[i] for i in nearest]
        assert answer.distances == distances[nearest].tolist()


def test_three_replicas(stock_home: Home, tmp_path: Path) -> None:
    answers, finds, added, taught = list[Answer](), list[Found](), list[str](), list[int]()
    to_stay = FIRST.copy()  # items that nobody removes
    with running(stock_home, 3, tmp_path) as replicas:
        threads = Threads(replicas)

        def search(client: Client, number: int) -> None:
            query = f"query/{random.randrange(1000)}"
            path = "/v1/find" if number % 10 == 9 else "/v1/search"
            answered = client.post(path, {"vector": vectors_of([query])[0].tolist(), "k": K})
            if answered is not None and answered.status_code == 200:
                found, epoch = answered.json(), int(answered.headers["Onlinehash-Epoch"])
                if path == "/v1/find":
                    finds.append(Found(found["ids"], epoch))
                else:
                    answers.append(Answer(query, found["ids"], found["distances"], found["encoder"], epoch))
            time.sleep(0.03)

        def adding(name: str) -> Callable[[Client, int], None]:
            def add(client: Client, number: int) -> None:
                id = f"{name}/{number}"
                vector = vectors_of([id])[0].tolist()
                made = client.insist("/v1/items", {"ids": [id], "vectors": [vector]}, **{"Idempotency-Key": id})
                added.append(id)
                at_least = {"Onlinehash-At-Least": made.headers["Onlinehash-Epoch"]}
                found = client.insist("/v1/find", {"vector": vector, "k": K}, **at_least)
                assert id in found.json()["ids"]  # at once, at any replica
                finds.append(Found(found.json()["ids"], int(found.headers["Onlinehash-Epoch"])))
                if number % 5 != 4:
                    to_stay.append(id)
                else:
                    client.insist("/v1/items/remove", {"ids": [id]}, **{"Idempotency-Key": f"remove/{id}"})
                    added.remove(id)

            return add

        def teaching(name: str) -> Callable[[Client, int], None]:
            def teach(client: Client, number: int) -> None:
                a, b = random.choice(FIRST), random.choice(to_stay[-20:])  # the latter may have come just now
                if a == b:
                    return
                # What is near is similar: of labels at random, codes would soon be equal for most items.
                pair = {"id_a": a, "id_b": b, "similar": bool(np.dot(*vectors_of([a, b])) > 0)}
                client.insist("/v1/learn", pair, **{"Idempotency-Key": f"{name}/{number}"})
                taught.append(1)
                time.sleep(0.05)

            return teach

        for _ in range(8):
            threads.start(search)
        for name in ("writer0", "writer1"):
            threads.start(adding(name))
            threads.start(teaching(f"teacher-of-{name}"))
        try:
            disturb(replicas, stock_home.server)
        finally:
            threads.end()
        refused = sum((client.refused for client in threads.clients), Counter[tuple[int, str]]())
    print(
        f"{len(answers)} searches, {len(finds)} finds, {len(added)} items added, {len(taught)} pairs, {dict(refused)}"
    )
    assert {status for status, _ in refused if status >= 500} <= {503}
    assert len(answers) > 100
    with PostgresIndex.open(stock_home.address, refresh.by_hand(), schema=stock_home.schema) as index:
        assert Counter(index.ids.tolist()) == Counter([*FIRST, *added])
        assert index.learner.n_pairs_seen_ == len(taught)
        assert index.codes == index.encoder.encode(index.vectors)
        assert index.refreshes >= 2
    truth = Truth(stock_home)
    for answer in answers:
        truth.check(answer)
    for found in finds:
        truth.check_found(found)
    assert len({answer.encoder for answer in answers}) >= 3


def disturb(replicas: Replicas, server: PostgresServer) -> None:
    """A refresh, a replica that is killed and started again, a server that is, and another refresh."""
    client, pause = Client(replicas, 99), PROGRAM_SECONDS / 8
    time.sleep(pause)
    client.insist("/v1/refresh", {"wait": True})
    time.sleep(pause)
    replicas.kill(0)
    time.sleep(pause)
    replicas.start(0)
    time.sleep(pause)
    server.kill()
    try:
        time.sleep(pause)
    finally:
        server.start()
    time.sleep(pause)
    client.insist("/v1/refresh", {"wait": True})
    time.sleep(pause)
    client.close()
