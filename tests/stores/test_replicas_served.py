"""Services over one index in PostgreSQL: what one of them changes, all of them see, and each says how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import onlinehash
from onlinehash import OnlineHashing, PostgresIndex, refresh
from onlinehash.learners.encoder import Encoder
from onlinehash.serve import server
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits
from onlinehash.stores.postgres import connections
from tests.client.test_congruence import STORE_FACTS, alike
from tests.programs import WORLDS, live_index, run
from tests.serve.services import SECONDS, post_json, until
from tests.stores.conftest import Home
from tests.stores.cut_connection import CutConnection
from tests.stores.postgres_worker import vector_of, vectors_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns

FIRST = [f"first/{i}" for i in range(60)]


def make(home: Home, ids: list[str] = FIRST) -> None:
    """An index with items, whose vectors their ids tell."""
    learner = OnlineHashing(n_bits=128, burn_in=20, random_state=0)
    with PostgresIndex.create(home.address, learner, refresh.by_hand(), **home.options) as index:
        index.add(ids, vectors_of(ids))


@contextmanager
def served(home: Home, address: str | None = None, **limits: Any) -> Iterator[tuple[Service, str]]:
    """A replica in a thread of this process, which may reach its server in another way."""
    index = PostgresIndex.open(address or home.address, schema=home.schema, follow=True, background=True)
    service = Service(index, limits=Limits(**limits))
    with server.background(service) as url:
        yield service, url


@pytest.fixture
def two(stock_home: Home) -> Iterator[list[tuple[Service, str]]]:
    """Two replicas over one index."""
    make(stock_home)
    with served(stock_home, follow_wait_s=30.0) as first, served(stock_home, follow_wait_s=30.0) as second:
        yield [first, second]


def post(url: str, path: str, document: Any, at_least: int | None = None, **headers: str) -> httpx.Response:
    given = headers if at_least is None else headers | {"Onlinehash-At-Least": str(at_least)}
    return post_json(url, path, document, **given)


def epoch_of(answered: httpx.Response) -> int:
    assert answered.status_code < 300, answered.text
    return int(answered.headers["Onlinehash-Epoch"])


def brute_force(ids: list[str], encoder: Encoder, query: np.ndarray, k: int) -> tuple[list[str], list[int]]:
    """What a search must find among these items, which are in the order of insertion."""
    differ = encoder.encode(vectors_of(ids)).bits() != encoder.encode(query[None]).bits()
    distances = differ.sum(axis=1)
    nearest = np.lexsort([np.arange(len(ids)), distances])[:k]
    return [ids[i] for i in nearest], distances[nearest].tolist()


def test_what_needs_the_database_is_refused_at_once_while_it_is_down(
    stock_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(stock_home)
    monkeypatch.setattr(connections, "PATIENCE", 10 * SECONDS)  # for a connection, if there is a server
    query = {"vector": vector_of("query").tolist(), "k": 3}
    with CutConnection(stock_home.server.port) as way:
        by_way = stock_home.address.replace(f":{stock_home.server.port}/", f":{way.port}/")
        with served(stock_home, by_way) as (_, url):
            expected = post(url, "/v1/find", query).json()
            way.is_down = True
            for _ in range(3):
                for path, document in (
                    ("/v1/find", query | {"payloads": True}),  # vectors may be here still
                    ("/v1/items", {"vectors": [query["vector"]], "ids": ["new"]}),
                    ("/v1/learn", {"id_a": FIRST[:1], "id_b": FIRST[1:2], "similar": [True]}),
                ):
                    refused = post(url, path, document)
                    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1"), refused.text
                    assert "PostgreSQL" in refused.text
            assert post(url, "/v1/search", query).status_code == 200
            way.is_down = False
            until(lambda: post(url, "/v1/items", {"vectors": [query["vector"]], "ids": ["new"]}).status_code == 201)
            found = post(url, "/v1/find", query).json()
    assert found["ids"] == ["new", *expected["ids"][:2]]


# ------------------------------------------------------------------ two replicas


def test_what_one_replica_changes_the_other_one_shows(two: list[tuple[Service, str]]) -> None:
    (_, a), (other, b) = two
    rng = np.random.default_rng(0)
    for number in range(15):
        here, there = (a, b) if rng.random() < 0.5 else (b, a)
        id = f"new/{number}"
        epoch = epoch_of(post(here, f"/v1/items/{id}", {"vector": vector_of(id).tolist(), "payload": {"n": number}}))
        found = post(there, "/v1/search", {"vector": vector_of(id).tolist(), "k": 1}, epoch)
        assert (found.json()["ids"], found.json()["distances"]) == ([id], [0])
        assert epoch_of(found) >= epoch
        if number % 10 == 0:
            found = post(there, "/v1/find", {"vector": vector_of(id).tolist(), "k": 1, "payloads": True}, epoch)
            assert (found.json()["ids"], found.json()["payloads"]) == ([id], [{"n": number}])
            epoch = epoch_of(httpx.delete(f"{here}/v1/items/{id}", timeout=SECONDS))
            found = post(there, "/v1/search", {"vector": vector_of(id).tolist(), "k": 1}, epoch)
            assert found.json()["ids"] != [id]
            headers = {"Onlinehash-At-Least": str(epoch)}
            assert httpx.get(f"{there}/v1/items/{id}", headers=headers, timeout=SECONDS).status_code == 404
    assert other.index.lag < 5


def test_pairs_and_a_refresh_count_everywhere(two: list[tuple[Service, str]]) -> None:
    (first, a), (second, b) = two
    pairs = {"id_a": FIRST[:20], "id_b": FIRST[20:40], "similar": [i % 2 == 0 for i in range(20)]}
    epoch = epoch_of(post(a, "/v1/learn", pairs))
    found = post(b, "/v1/find", {"vector": vector_of("query").tolist()}, epoch)
    assert found.json()["ranked_by"] == {"metric": "learned", "pairs": 20}
    answered = post(b, "/v1/refresh", {"wait": True})
    assert answered.json()["behind"] == {"bits": 0, "pairs": 0}
    found = post(a, "/v1/search", {"vector": vector_of("query").tolist(), "k": 7}, epoch_of(answered))
    encoder = second.index.encoder
    assert encoder is not None
    assert found.json()["encoder"] == encoder.version > 0
    ids, distances = brute_force(FIRST, encoder, vector_of("query"), 7)
    assert (found.json()["ids"], found.json()["distances"]) == (ids, distances)
    model = onlinehash.io.files.from_bytes(httpx.get(f"{a}/v1/model/download", timeout=SECONDS).content, "the answer")
    assert model.n_pairs_seen_ == 20
    assert first.index.serial == second.index.serial == 2


def test_a_key_is_used_once_by_all_replicas(two: list[tuple[Service, str]]) -> None:
    (_, a), (_, b) = two
    items = {"ids": ["x"], "vectors": [vector_of("x").tolist()]}
    first = post(a, "/v1/items", items, **{"Idempotency-Key": "k"})
    again = post(b, "/v1/items", items, epoch_of(first), **{"Idempotency-Key": "k"})
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.json()["ids"] == again.json()["ids"] == ["x"]
    other = post(b, "/v1/items", items | {"ids": ["y"]}, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["error"]) == (409, "KeyReused")
    lesson = {"id_a": FIRST[0], "id_b": FIRST[1], "similar": True}
    with ThreadPoolExecutor(8) as pool:  # at the same time
        asked = [(url, f"race/{i}") for i in range(8) for url in (a, b)]
        answers = list(pool.map(lambda one: post(one[0], "/v1/learn", lesson, **{"Idempotency-Key": one[1]}), asked))
    assert {answer.status_code for answer in answers} == {200}
    assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == 8
    last = max(map(epoch_of, answers))
    headers = {"Onlinehash-At-Least": str(last)}
    for url in (a, b):
        until(lambda url=url: httpx.get(f"{url}/v1/stats", headers=headers, timeout=SECONDS).json()["n_pairs"] == 8)


def test_an_epoch_that_does_not_come(stock_home: Home) -> None:
    make(stock_home)
    with served(stock_home, follow_wait_s=0.05) as (service, url):
        query = {"vector": vector_of("query").tolist()}
        now = service.index.epoch
        assert epoch_of(post(url, "/v1/search", query, now)) == now
        for path in ("/v1/search", "/v1/items/get"):
            late = post(url, path, query, now + 1)
            assert (late.status_code, late.json()["error"], late.headers["Retry-After"]) == (503, "Behind", "1")
            assert int(late.headers["Onlinehash-Epoch"]) == now
        for wrong in ("-1", "x", "1" * 30):
            assert post(url, "/v1/search", query, **{"Onlinehash-At-Least": wrong}).status_code == 400
        for path in ("/v1/health", "/v1/ready", "/v1/model", "/v1/no-such-route"):
            assert "Onlinehash-Epoch" in httpx.get(url + path, timeout=SECONDS).headers, path


def test_a_reader_over_a_folder_waits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onlinehash.serve import service as services

    monkeypatch.setattr(services, "FOLLOW_EVERY", 60.0)  # it looks only where it must
    learner = OnlineHashing(n_bits=128, burn_in=20, random_state=0)
    with onlinehash.LiveIndex(learner, refresh.by_hand(), path=tmp_path / "items") as index:
        index.add(FIRST, vectors_of(FIRST))
        reader = onlinehash.LiveIndex.open(tmp_path / "items", read_only=True)
        with server.background(Service(reader, read_only=True)) as url:
            for number in range(5):
                id = f"new/{number}"
                index.add([id], vector_of(id)[None])
                found = post(url, "/v1/search", {"vector": vector_of(id).tolist(), "k": 1}, index.epoch)
                assert found.json()["ids"] == [id]
                assert epoch_of(found) == index.epoch == reader.epoch
            late = post(url, "/v1/search", {"vector": vector_of("x").tolist()}, index.epoch + 1)
            assert (late.status_code, late.json()["error"]) == (503, "Behind")


# ------------------------------------------------------------------ tables


def test_the_same_program_has_the_same_results_as_in_memory(stock_home: Home) -> None:
    """Through a client, a service that follows, and PostgreSQL."""
    world = "OH by hand"
    learner, policy = WORLDS[world]
    PostgresIndex.create(stock_home.address, learner(), policy(), **stock_home.options).close()
    index = PostgresIndex.open(stock_home.address, schema=stock_home.schema, follow=True)
    index.bits_at_once = onlinehash.LiveIndex.bits_at_once  # so that policies find the same refreshes cheap
    with server.background(Service(index)) as url, onlinehash.connect(url) as there:
        rng = np.random.default_rng([*world.encode()])
        run(live_index(world), there, rng, True, 12, STORE_FACTS, world, alike)
