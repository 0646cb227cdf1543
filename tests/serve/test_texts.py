"""Texts over HTTP: wherever a vector may be sent, embedded in batches beside the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import numpy as np
import pytest

from onlinehash import HadamardMatchingHashing, LiveIndex, OnlineHashing, connect
from onlinehash.client.remote_index import RemoteIndex
from onlinehash.embed import Embedding, Lexical
from onlinehash.errors import InvalidInput, NotSupported, UnknownId
from onlinehash.index.hits import Hits
from onlinehash.io import format
from onlinehash.serve import embedding as queues
from onlinehash.serve.bodies.shapes import SHAPES, NewItems, Shape
from onlinehash.serve.embedding import BATCH, BATCH_LETTERS, EmbeddingQueue
from onlinehash.serve.errors import Busy, Unavailable
from onlinehash.serve.requests import held
from onlinehash.serve.settings import Limits
from tests.embed.test_embedder import Letters
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


@pytest.mark.parametrize("path", ["/v1/find", "/v1/search", "/v1/within"])
def test_a_text_finds_what_its_vector_finds(url: str, path: str) -> None:
    options = {"radius": 7} if path == "/v1/within" else {"k": 3, "payloads": True}
    one, several = (
        ({"text": "lines"}, {"vector": vectors("lines")[0]}),
        ({"texts": TEXTS}, {"vectors": vectors(*TEXTS)}),
    )
    for texts, rows in (one, several):
        assert answered(url, path, **texts, **options) == answered(url, path, **rows, **options)


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


def test_texts_with_labels_are_learned() -> None:
    index = LiveIndex(HadamardMatchingHashing(n_bits=8, random_state=0), embed="lexical:64")
    index.add_texts(TEXTS)
    with served(index) as (_, url):
        by_texts = post_json(url, "/v1/learn/labelled", {"texts": TEXTS, "y": [0, 1, 0, 1, 0]})
        assert by_texts.status_code == 200, by_texts.text
        neither = post_json(url, "/v1/learn/labelled", {"y": [0]})
        assert neither.status_code == 422


def test_vectors_made_of_texts_count_among_what_waits() -> None:
    body = NewItems(texts=["a", "b"], vectors=np.zeros((2, 64), np.float32))
    assert held(body, b"12345") == 5 + 2 * 64 * 4
    assert held(NewItems(vectors=np.zeros((2, 64), np.float32)), b"12345") == 5


def test_codes_reranking_and_comparison_take_texts(url: str) -> None:
    assert answered(url, "/v1/codes", texts=TEXTS[:2]) == answered(url, "/v1/codes", vectors=vectors(*TEXTS[:2]))
    ids = [3, 1, 0]
    assert answered(url, "/v1/rerank", text="window", ids=ids) == answered(
        url, "/v1/rerank", vector=vectors("window")[0], ids=ids
    )


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


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/find", {"text": "a", "vector": [1.0]}, 422, "expected one of vector or vectors or text"),
        ("/v1/find", {"text": 7}, 422, "expected a string"),
        ("/v1/find", {"texts": ["a", None]}, 422, "expected a string"),
        ("/v1/items", {"ids": [1]}, 422, "expected one of vectors or texts, got none of them"),
        ("/v1/items", {"texts": ["a"], "payloads": [None, None]}, 422, "expected payloads with 1 entries"),
        ("/v1/learn", {"text_a": "a", "id_b": 1, "id_a": 2, "similar": True}, 422, "expected one of a and b"),
        ("/v1/learn", {"text_a": "a", "id_b": 12345, "similar": True}, 404, "12345"),
        ("/v1/codes", {"text": "a"}, 422, "the field 'text' is unknown; here it is texts, a list; the fields are ids"),
        ("/v1/find", {"text": "a" * 70_000}, 413, "expected texts of at most 65536 characters, got one of 70000"),
        ("/v1/find", {"texts": ["a"] * 10_001}, 413, "expected at most 10000 texts"),
    ],
)
def test_what_is_refused(url: str, path: str, body: dict[str, Any], status: int, message: str) -> None:
    answer = post_json(url, path, body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["message"]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_text_is_taken_wherever_a_vector_is(shape: type[Shape]) -> None:
    pairs = {"vector": "text", "vectors": "texts", "a": "text_a", "b": "text_b"}
    assert {shape.embedded[pairs[name]] for name in shape.arrays} == set(shape.arrays)
    for name in shape.arrays:
        assert pairs[name] in shape.__struct_fields__
        if shape.one_of:
            assert any(pairs[name] in group for group in shape.one_of)


@pytest.mark.parametrize("body", [{"id": 9, "text": "a"}, {"text": "a"}, {"id": 9, "vector": [1, 2]}, {"payload": {}}])
def test_a_single_item_is_told_where_it_is_taken(url: str, body: dict[str, Any]) -> None:
    before = httpx.get(f"{url}/v1/about").json()["n"]
    added = post_json(url, "/v1/items", body)
    changed = httpx.patch(f"{url}/v1/items", json=body)
    for answer, route in ((added, "POST /v1/items/ID adds"), (changed, "PATCH /v1/items/ID changes")):
        assert answer.status_code == 422
        assert "as lists: ids, vectors or texts, and payloads" in answer.json()["message"]
        assert route in answer.json()["message"]
    assert httpx.get(f"{url}/v1/about").json()["n"] == before
    assert post_json(url, "/v1/items/900", {"text": "one item"}).status_code == 201
    assert httpx.patch(f"{url}/v1/items/900", json={"text": "another text"}).status_code == 200
    assert httpx.delete(f"{url}/v1/items/900").status_code == 200


def test_a_service_without_an_embedder_says_so() -> None:
    with served() as (_, url):
        answer = post_json(url, "/v1/find", {"text": "a"})
        assert (answer.status_code, answer.json()["error"]) == (422, "NotSupported")
        assert "--embed" in answer.json()["message"]
        with connect(url) as remote, pytest.raises(NotSupported, match="has no embedder"):
            remote.find_text("a")


def test_a_service_names_the_embedder_that_it_was_not_given(tmp_path: Path) -> None:
    with LiveIndex(n_bits=8, path=tmp_path / "items", embed=Embedding(Letters(), "letters")) as index:
        index.add_texts(["a text"])
    with served(LiveIndex.open(tmp_path / "items")) as (_, url):
        message = post_json(url, "/v1/find", {"text": "a"}).json()["message"]
    assert "come from the embedder 'letters', which was not given" in message
    assert "--embed with its module:function" in message  # as `letters` is no name to be loaded by


def test_a_retry_is_made_once(url: str) -> None:
    first, second = (
        post_json(url, "/v1/items", {"texts": ["a note"]}, **{"Idempotency-Key": "note-1"}).json() for _ in range(2)
    )
    assert first["ids"] == second["ids"]


def test_arrow_and_our_own_format(url: str) -> None:
    import httpx
    import pyarrow as pa

    table = pa.table({"texts": ["an arrow"], "ids": [500]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    kinds = {
        "application/vnd.apache.arrow.stream": sink.getvalue().to_pybytes(),
        "application/vnd.onlinehash": format.to_bytes("body", {"texts": ["a body"], "ids": [501]}),
    }
    for kind, data in kinds.items():
        answer = httpx.post(f"{url}/v1/items", content=data, headers={"Content-Type": kind}, timeout=60)
        assert answer.status_code == 201, answer.text
    found = answered(url, "/v1/items/get", ids=[500, 501], vectors=False)["items"]
    assert [item["payload"]["text"] for item in found] == ["an arrow", "a body"]


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


def test_large_requests_end_one_after_the_other() -> None:
    model = Gated()

    async def steps(queue: EmbeddingQueue) -> Any:
        ended: list[str] = []

        async def request(name: str) -> None:
            await queue.vectors_of([name] * 2 * BATCH)
            ended.append(name)
            if len(ended) == 1:
                assert len(queue) > 2 * BATCH  # the embedder has enough to do until its client sends more

        model.gate.clear()
        requests = [asyncio.ensure_future(request(name)) for name in ("first", "second", "third")]
        await asyncio.sleep(0.01)
        model.gate.set()
        await asyncio.gather(*requests)
        return ended

    assert run(steps, model) == ["first", "second", "third"]
    assert [len(texts) for texts in model.calls] == [BATCH] * 6


@pytest.mark.parametrize(("seconds_of_a_text", "size"), [(1e-6, 512), (0.001, 250), (1.0, 64)])
def test_batches_take_about_as_long_whatever_the_model(
    seconds_of_a_text: float, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    class Slow(Gated):
        def encode(self, texts: list[str]) -> Any:
            nonlocal now
            now += seconds_of_a_text * len(texts)
            return super().encode(texts)

    monkeypatch.setattr(queues, "LEAST_BATCH", 64)
    monkeypatch.setattr(queues, "MOST_BATCH", 512)
    monkeypatch.setattr(queues, "perf_counter", lambda: now)
    model = Slow()
    run(lambda queue: queue.vectors_of(["x"] * (BATCH + 3 * size)), model)
    assert [len(texts) for texts in model.calls] == pytest.approx([BATCH, *[size] * 3], abs=1)


def test_the_oldest_request_is_in_every_batch() -> None:
    model = Gated()

    async def steps(queue: EmbeddingQueue) -> Any:
        model.gate.clear()
        large = asyncio.ensure_future(queue.vectors_of(["large"] * 2 * BATCH))
        small = [asyncio.ensure_future(queue.vectors_of(["small"] * 8)) for _ in range(BATCH // 4)]
        await asyncio.sleep(0.01)
        model.gate.set()
        await asyncio.gather(large, *small)

    run(steps, model)
    counts = [(texts.count("large"), texts.count("small")) for texts in model.calls]
    assert counts[0] == (BATCH // 4, BATCH - BATCH // 4)
    assert all(n_large >= BATCH // 4 for n_large, _ in counts)


def test_texts_that_are_longer_than_a_batch() -> None:
    model = Gated()

    async def steps(queue: EmbeddingQueue) -> Any:
        model.gate.clear()
        long = asyncio.ensure_future(queue.vectors_of(["x" * (BATCH_LETTERS + 1)] * 2))
        short = asyncio.ensure_future(queue.vectors_of(["short"]))
        await asyncio.sleep(0.01)
        model.gate.set()
        return await asyncio.gather(long, short, queue.vectors_of([]))

    assert [found.shape for found in run(steps, model)] == [(2, 2), (1, 2), (0, 2)]
    assert [len(texts) for texts in model.calls] == [2, 1]  # the short one need not wait for both


def test_one_bad_text_fails_alone() -> None:
    async def steps(queue: EmbeddingQueue) -> Any:
        asked = [queue.vectors_of([text]) for text in ("a", "bad", "ccc")]
        return await asyncio.gather(*asked, return_exceptions=True)

    good, bad, other = run(steps, Gated())
    assert (good.tolist(), other.tolist()) == ([[1, 1]], [[3, 1]])
    assert isinstance(bad, InvalidInput)


def test_the_queue_is_bounded_and_forgets_those_who_leave() -> None:
    model = Gated()

    async def steps(queue: EmbeddingQueue) -> Any:
        model.gate.clear()
        waiting = [asyncio.ensure_future(queue.vectors_of(["a"] * 4)) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(Busy, match="too many texts wait"):
            await queue.vectors_of(["a"] * 4)
        leaving = asyncio.ensure_future(queue.vectors_of(["gone"]))
        await asyncio.sleep(0.01)
        leaving.cancel()
        model.gate.set()
        await asyncio.gather(*waiting)
        assert len(queue) == 0
        return await queue.vectors_of(["b"])

    assert run(steps, model, Limits(texts=10)).tolist() == [[1, 1]]
    assert not any("gone" in call for call in model.calls)


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


def test_an_embedder_that_raises_anything_stops_nobody_else() -> None:
    class Model:
        def encode(self, texts: list[str]) -> Any:
            if "bad" in texts:
                raise StopIteration
            return np.ones((len(texts), 4))

    async def ask() -> None:
        queue = EmbeddingQueue(Embedding(Model(), "mine"), Limits())
        with pytest.raises(RuntimeError, match="the embedder 'mine' failed: StopIteration"):
            await asyncio.wait_for(queue.vectors_of(["bad"]), 30)
        assert (await asyncio.wait_for(queue.vectors_of(["good"]), 30)).shape == (1, 4)
        queue.close()

    asyncio.run(ask())


def test_an_embedder_is_called_by_as_many_threads_as_it_says() -> None:
    class Model:
        """Which lets the second call end before the first, and never sees a third beside them."""

        calls_at_once = 2

        def __init__(self) -> None:
            self.most = self._n = 0
            self._lock, self._second = threading.Lock(), threading.Event()

        def encode(self, texts: list[str]) -> Any:
            with self._lock:
                self._n += 1
                self.most = max(self.most, self._n)
            if texts[0] == "0":
                assert self._second.wait(60)
            elif texts[0].isdigit():
                self._second.set()
            with self._lock:
                self._n -= 1
            return [[float(text), 1.0] if text.isdigit() else [0.0, 1.0] for text in texts]

    model = Model()

    async def ask() -> np.ndarray:
        queue = EmbeddingQueue(Embedding(model, "mine"), Limits())
        found = await asyncio.wait_for(queue.vectors_of([str(i) for i in range(5 * BATCH)]), 60)
        assert (await asyncio.wait_for(queue.vectors_of(["7"]), 60)).tolist() == [[7, 1]]
        queue.close()
        return found

    assert asyncio.run(ask())[:, 0].tolist() == list(range(5 * BATCH))  # in the order of the texts
    assert model.most == 2


def test_texts_are_refused_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(queue: EmbeddingQueue) -> Any:
        submit = queue._threads.submit
        monkeypatch.setattr(queue._threads, "submit", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(Unavailable, match="no thread could be started"):
            await asyncio.wait_for(queue.vectors_of(["a"]), 30)
        monkeypatch.setattr(queue._threads, "submit", submit)
        found = await asyncio.wait_for(queue.vectors_of(["bb"]), 30)
        queue.close()
        with pytest.raises(Unavailable, match="shutting down"):
            await queue.vectors_of(["a"])
        return found

    assert run(steps, Gated()).tolist() == [[2, 1]]


def test_a_batch_has_not_too_many_letters() -> None:
    sizes: list[int] = []

    class Model:
        def encode(self, texts: list[str]) -> Any:
            sizes.append(sum(map(len, texts)))
            return np.ones((len(texts), 4))

    async def ask() -> None:
        queue = EmbeddingQueue(Embedding(Model(), "mine"), Limits())
        texts = ["x" * 60_000] * 12 + ["y" * 300_000]
        assert (await queue.vectors_of(texts)).shape == (13, 4)
        queue.close()

    asyncio.run(ask())
    assert max(sizes) <= 300_000
    assert len(sizes) >= 5


def test_a_vector_of_another_width_is_refused_before_it_is_repeated(url: str) -> None:
    body = {"vector": [0.0] * 60_000, "shown": list(range(10_000)), "clicked": [9_999]}
    tracemalloc.start()
    try:
        answer = post_json(url, "/v1/learn/clicks", body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status_code == 422
    assert "60000" in answer.text
    assert peak < 100e6, "20,000 copies would take 5 GB"
