"""Texts over HTTP: wherever a vector may be sent, embedded in batches beside the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, connect
from onlinehash.client.remote_index import RemoteIndex
from onlinehash.embed import Embedding, Lexical
from onlinehash.errors import InvalidInput, NotSupported, UnknownId
from onlinehash.index.hits import Hits
from onlinehash.serve import embedding as queues
from onlinehash.serve.embedding import BATCH, EmbeddingQueue
from onlinehash.serve.settings import Limits
from tests.serve.services import post_json, served

TEXTS = ["open a file", "close a window", "read the lines of a file", "a warm day", "write a letter"]


def index_of_texts(**options: Any) -> LiveIndex:
    return LiveIndex(OnlineHashing(n_bits=16, random_state=0), **{"embed": "lexical:64"} | options)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service that embeds; tests add items and teach, and none relies on there being no others."""
    index = index_of_texts()
    index.add_texts(TEXTS)
    with served(index) as (_, url):
        yield url


def answered(url: str, path: str, **body: Any) -> Any:
    answer = post_json(url, path, body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def vectors(*texts: str) -> list[list[float]]:
    return Lexical(64).encode(texts).tolist()


# ------------------------------------------------------------------ every route


def test_a_text_finds_what_its_vector_finds(url: str) -> None:
    for texts, rows in (
        ({"text": "lines"}, {"vector": vectors("lines")[0]}),
        ({"texts": TEXTS}, {"vectors": vectors(*TEXTS)}),
    ):
        for path, options in (("find", {"k": 3, "payloads": True}), ("search", {"k": 3}), ("within", {"radius": 7})):
            found = answered(url, f"/v1/{path}", **texts, **options)
            assert found == answered(url, f"/v1/{path}", **rows, **options)


def test_texts_of_items_are_changed(url: str) -> None:
    with connect(url) as remote:
        ids = remote.add_texts(["a red car", "a blue car"], payloads=[{"n": 1}, None]).tolist()
        remote.update_texts(ids, ["a red boat", "a blue boat"])
        items = remote.get_many(ids)
        assert [item.payload for item in items] == [{"n": 1, "text": "a red boat"}, {"text": "a blue boat"}]
        np.testing.assert_array_equal([item.vector for item in items], vectors("a red boat", "a blue boat"))
        remote.update_texts(ids[:1], "a kite", [{"n": 2}])
        assert remote.get(ids[0]).payload == {"text": "a kite", "n": 2}
        for body, payload in (
            ({"text": "a bird"}, {"text": "a bird", "n": 2}),
            ({"text": "a fish", "payload": {"n": 3}}, {"text": "a fish", "n": 3}),
            ({"text": "a frog", "payload": None}, {"text": "a frog"}),
        ):
            answer = httpx.patch(f"{url}/v1/items/{ids[0]}", json=body)
            assert answer.status_code == 200, answer.text
            item = remote.get(ids[0])
            assert item.payload == payload
            np.testing.assert_array_equal(item.vector, vectors(body["text"])[0])
        both = httpx.patch(f"{url}/v1/items/{ids[0]}", json={"text": "a", "vector": vectors("a")[0]})
        assert (both.status_code, "send one of them" in both.text) == (422, True)
        with pytest.raises(UnknownId):
            remote.update_texts(["nobody"] if isinstance(ids[0], str) else [10**9], ["a"])
        remote.remove(ids)


def test_items_are_added_with_their_texts(url: str) -> None:
    ids = answered(url, "/v1/items", ids=[100, 101], texts=["a red car", "a blue car"], payloads=[{"n": 1}, None])[
        "ids"
    ]
    assert ids == [100, 101]
    answered(url, "/v1/items/102", text="a green car", payload={"text": "green"})
    found = answered(url, "/v1/items/get", ids=[100, 101, 102])["items"]
    assert [item["payload"] for item in found] == [
        {"n": 1, "text": "a red car"},
        {"text": "a blue car"},
        {"text": "green"},
    ]
    np.testing.assert_allclose([item["vector"] for item in found], vectors("a red car", "a blue car", "a green car"))


def test_texts_teach(url: str) -> None:
    answer = answered(url, "/v1/learn", text_a="stationery", id_b=4, similar=True)
    before = answer["ranking_pairs"]
    assert answered(url, "/v1/find", text="stationery", k=1)["ids"] == [4]
    answer = answered(
        url, "/v1/learn", text_a=["stationery", "sun"], id_b=[0, 3], similar=[False, True], weight=[0.5, 1]
    )
    assert (len(answer["loss"]), answer["ranking_pairs"]) == (2, before + 2)
    answer = answered(url, "/v1/learn", text_a="sun", text_b="a warm day", similar=1)
    assert answer["ranking_pairs"] == before + 3
    answer = answered(url, "/v1/learn/clicks", text="panes", shown=[0, 1], clicked=[1])
    assert answer["pairs"] == [[None, 0, False, 0.5], [None, 1, True, 1.0]]
    assert answered(url, "/v1/find", text="panes", k=1)["ids"] == [1]


def test_what_is_refused(url: str) -> None:
    for path, body, status in (
        ("/v1/find", {"text": "a", "vector": [1.0]}, 422),
        ("/v1/find", {"text": 7}, 422),
        ("/v1/items", {"ids": [1]}, 422),
        ("/v1/items", {"texts": ["a"], "payloads": [None, None]}, 422),
        ("/v1/learn", {"text_a": "a", "id_b": 1, "id_a": 2, "similar": True}, 422),
        ("/v1/learn", {"text_a": "a", "id_b": 12345, "similar": True}, 404),
        ("/v1/find", {"text": "a" * 70_000}, 413),
        ("/v1/find", {"texts": ["a"] * 10_001}, 413),
    ):
        answer = post_json(url, path, body)
        assert answer.status_code == status, answer.text


def test_a_service_without_an_embedder_says_so() -> None:
    with served() as (_, url):
        answer = post_json(url, "/v1/find", {"text": "a"})
        assert (answer.status_code, answer.json()["error"]) == (422, "NotSupported")
        assert "--embed" in answer.json()["message"]
        with connect(url) as remote, pytest.raises(NotSupported, match="has no embedder"):
            remote.find_text("a")


# ------------------------------------------------------------------ the client


def test_a_remote_index_has_the_methods_of_a_live_one() -> None:
    here = index_of_texts()
    with served(index_of_texts()) as (_, url), connect(url) as there:
        assert isinstance(there, RemoteIndex)
        for call in (
            lambda index: index.add_texts(TEXTS, payloads=[{"n": n} for n in range(5)]),
            lambda index: index.add_texts(["one more"], [9]),
            lambda index: index.payloads_of([1, 9]),
            lambda index: index.find_text("files", 3),
            lambda index: index.find_text("files", 3, payloads=True).payloads,
            lambda index: index.find_text(["files", "day"], 2, {"n": {">": 1}}),
            lambda index: index.search_text("files", 3),
            lambda index: len(index.learn_text("stationery", [4, 0], [True, False], 0.5)),
            lambda index: index.learn_text("stationery", 4, True).loss.tolist(),
            lambda index: index.find_text("stationery", 6),
        ):
            expected, found = call(here), call(there)
            assert json.dumps(plain(found)) == json.dumps(plain(expected))
        for index in (here, there):
            with pytest.raises(UnknownId):
                index.learn_text("a", 77, True)
            with pytest.raises(InvalidInput, match=r"expected .*texts"):
                index.add_texts("not a list")
    here.close()


def plain(value: Any) -> Any:
    if isinstance(value, Hits):
        return [plain(one) for one in value]
    return np.round(value, 5).tolist() if isinstance(value, np.ndarray) else value


# ------------------------------------------------------------------ the queue


class Gated:
    """A model that waits to be let through, and remembers what it was called with."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, texts: list[str]) -> Any:
        assert self.gate.wait(60)
        self.calls.append(texts)
        if "bad" in texts:
            raise InvalidInput("this text is bad.")
        return [[float(len(text)), 1.0] for text in texts]


@pytest.fixture(autouse=True)
def one_size_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a model was kept waiting."""
    monkeypatch.setattr(queues, "LEAST_BATCH", BATCH)
    monkeypatch.setattr(queues, "MOST_BATCH", BATCH)


def run(steps: Any, model: Gated, limits: Limits | None = None) -> Any:
    async def main() -> Any:
        embedding = Embedding(model)
        assert embedding.n_features == 2
        model.calls.clear()
        queue = EmbeddingQueue(embedding, limits or Limits())
        try:
            return await steps(queue)
        finally:
            queue.close()

    return asyncio.run(main())


def test_what_arrives_together_is_embedded_together() -> None:
    async def steps(queue: EmbeddingQueue) -> Any:
        return await asyncio.gather(*(queue.vectors_of([text]) for text in ("a", "bb", "ccc")))

    model = Gated()
    assert [found.tolist() for found in run(steps, model)] == [[[1, 1]], [[2, 1]], [[3, 1]]]
    assert model.calls == [["a", "bb", "ccc"]]


def test_a_search_does_not_wait_for_all_that_others_add() -> None:
    model = Gated()

    async def steps(queue: EmbeddingQueue) -> Any:
        model.gate.clear()
        many = asyncio.ensure_future(queue.vectors_of(["many"] * 10 * BATCH))
        await asyncio.sleep(0.01)
        one = asyncio.ensure_future(queue.vectors_of(["one"]))
        await asyncio.sleep(0.01)
        assert len(queue) == 10 * BATCH + 1
        model.gate.set()
        return await one, await many

    one, many = run(steps, model)
    assert (one.tolist(), many.shape) == ([[3, 1]], (10 * BATCH, 2))
    assert model.calls[0] == ["many"] * BATCH  # which had begun
    assert "one" in model.calls[1]
    assert max(map(len, model.calls)) <= BATCH


def test_one_bad_text_fails_alone() -> None:
    async def steps(queue: EmbeddingQueue) -> Any:
        asked = [queue.vectors_of([text]) for text in ("a", "bad", "ccc")]
        return await asyncio.gather(*asked, return_exceptions=True)

    good, bad, other = run(steps, Gated())
    assert (good.tolist(), other.tolist()) == ([[1, 1]], [[3, 1]])
    assert isinstance(bad, InvalidInput)


def test_searches_are_answered_while_a_model_is_at_work() -> None:
    model = Gated()
    index = index_of_texts(embed=model)
    index.add_texts(TEXTS)
    with served(index) as (_, url), ThreadPoolExecutor(1) as pool:
        model.gate.clear()
        slow = pool.submit(post_json, url, "/v1/find", {"text": "a", "k": 1})
        assert post_json(url, "/v1/find", {"id": 0, "k": 1}).status_code == 200
        assert not slow.done()
        model.gate.set()
        assert slow.result().status_code == 200
