"""`/v1/find`: what the index finds, from the next answer after a pair on, within the limits of a search."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from onlinehash import LiveIndex, SmoothPairHashing, png
from onlinehash.io import format
from onlinehash.serve import server
from onlinehash.serve import service as services
from onlinehash.serve.routes import search
from onlinehash.serve.service import Service
from tests.serve.services import IDS, SECONDS, post_json, rows, served, served_with_all, small_index, until
from tests.serve.test_other_indexes import in_a_store


def lists(hits: Any) -> list[Any]:
    return [hits.ids.tolist(), hits.distances.tolist()]


def found(answer: httpx.Response) -> list[Any]:
    """The ids, and the distances as the index has them, in single precision."""
    assert answer.status_code == 200, answer.text
    document = answer.json()
    return [document["ids"], np.array(document["distances"], np.float32).tolist()]


@pytest.mark.parametrize("make", [small_index, in_a_store])
def test_it_is_what_the_index_finds(make: Any) -> None:
    X = rows(3, seed=4)
    with served(make()) as (service, url):
        index = service.index
        for seed in (5, 6):
            assert found(post_json(url, "/v1/find", {"vector": X[0].tolist()})) == lists(index.find(X[0]))
            assert found(post_json(url, "/v1/find", {"vectors": X.tolist(), "k": 4})) == lists(index.find(X, 4))
            vectors = index.vectors_of([3, 4])
            assert found(post_json(url, "/v1/find", {"id": 3, "k": 5})) == lists(index.find(vectors[0], 5))
            assert found(post_json(url, "/v1/find", {"ids": [3, 4], "k": 2})) == lists(index.find(vectors, 2))
            red = {"vectors": X.tolist(), "k": 4, "where": {"colour": "red"}, "payloads": True}
            answer = post_json(url, "/v1/find", red)
            assert found(answer) == lists(index.find(X, 4, {"colour": "red"}))
            assert answer.json()["payloads"] == [[{"colour": "red"}] * 4] * 3
            assert answer.json()["encoder"] == index.encoder.version
            index.learn_pairs(rows(9, seed), rows(9, seed + 10), [True, False, True] * 3)


def test_binary_bodies() -> None:
    X = rows(3, seed=4)
    file = io.BytesIO()
    np.save(file, X)
    own = format.to_bytes("body", {"vectors": X, "k": 4})
    with served() as (service, url):
        for kind, data, query in (
            ("application/x-npy", file.getvalue(), "?k=4"),
            ("application/vnd.onlinehash", own, ""),
        ):
            answer = httpx.post(f"{url}/v1/find{query}", content=data, headers={"Content-Type": kind}, timeout=SECONDS)
            assert found(answer) == lists(service.index.find(X, 4))


def test_a_mark_counts_in_the_next_answer_though_the_pair_waits_for_its_chunk() -> None:
    index = LiveIndex(SmoothPairHashing(n_bits=8, random_state=0))
    index.add(IDS, rows(len(IDS)))
    with served(index) as (_, url):
        asked = {"id": 1, "k": 6}
        before = post_json(url, "/v1/find", asked).json()
        assert before["ranked_by"] == {"metric": "cosine", "pairs": 0}
        wrong = before["ids"][1]
        codes = post_json(url, "/v1/search", asked).json()
        told = post_json(url, "/v1/learn", {"id_a": 1, "id_b": wrong, "similar": False}).json()
        assert (told["waiting"], told["ranking_pairs"]) == (1, 1)
        after = post_json(url, "/v1/find", asked).json()
        assert after["ranked_by"] == {"metric": "learned", "pairs": 1}
        assert after["ids"][0] == 1
        assert wrong not in after["ids"]
        assert post_json(url, "/v1/search", asked).json() == codes


def test_every_answer_says_what_put_the_hits_in_order() -> None:
    learned, hamming = {"metric": "learned", "pairs": 2}, {"metric": "hamming"}
    vector = [0.5, 0.25]
    picture = png.written(np.array([[100, 200]], np.uint8))
    with served_with_all() as (service, url):
        service.index.learn_pairs(rows(2), rows(2, seed=1), [True, False])
        for path, body, expected in (
            ("/v1/find", {"vector": vector}, learned),
            ("/v1/find", {"ids": [1, 2]}, learned),
            ("/v1/rerank", {"vector": vector, "ids": [1, 2]}, learned),
            ("/v1/search", {"vector": vector, "rerank": True}, learned),
            ("/v1/search", {"ids": [1, 2], "rerank": True}, learned),
            ("/v1/search", {"vector": vector}, hamming),
            ("/v1/search", {"ids": [1, 2], "payloads": True}, hamming),
            ("/v1/within", {"id": 1, "radius": 3}, hamming),
            ("/v1/within", {"ids": [1, 2], "radius": 3}, hamming),
        ):
            assert post_json(url, path, body).json()["ranked_by"] == expected, (path, body)
        answer = httpx.post(
            f"{url}/v1/search/image?k=4", content=picture, headers={"Content-Type": "image/png"}, timeout=SECONDS
        )
        assert answer.json()["ranked_by"] == learned
        assert found(answer) == lists(service.index.find(np.array(answer.json()["vector"], np.float32), 4))


def test_a_reranked_search_is_in_the_order_of_find() -> None:
    X = rows(3, seed=4)
    with served() as (service, url):
        service.index.learn_pairs(rows(9, 5), rows(9, 6), [True, False, True] * 3)
        all_of_them = {"vectors": X.tolist(), "k": len(IDS)}
        assert found(post_json(url, "/v1/search", all_of_them | {"rerank": True})) == found(
            post_json(url, "/v1/find", all_of_them)
        )


@pytest.mark.parametrize("body", [{"code": "3f"}, {"codes": ["3f"]}, {"vector": [1, 2], "code": "3f"}])
def test_codes_are_refused_in_one_sentence(body: Any) -> None:
    with served() as (_, url):
        answer = post_json(url, "/v1/find", body)
        assert answer.status_code == 422
        assert answer.json()["message"] == "find compares vectors, not codes; /v1/search finds items by codes."


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 422, "expected one of vector or vectors or text or texts or id or ids, got none of them."),
        ({"vector": [1, 2], "id": 1}, 422, "got vector and id"),
        ({"vector": [1, 2, 3]}, 422, "3 features"),
        ({"vector": [1, 2], "k": -1}, 422, "expects k"),
        ({"vector": [1, 2], "k": 11}, 413, "expected k to be at most 10, got 11."),
        ({"vectors": [[1, 2]] * 4, "k": 6}, 413, "the answer has 24 hits, more than the limit of 20"),
        ({"vectors": [[1, 2]] * 6}, 413, "expected at most 5 rows of vectors, got 6"),
        ({"ids": []}, 422, "0 sample"),
        ({"id": 99}, 404, "no item has id 99"),
        ({"vector": [1, 2], "rerank": True}, 422, "the field 'rerank' is unknown"),
        ({"vector": [1, 2], "where": {"a": 1, "b": 2}}, 422, "field"),
    ],
)
def test_what_is_refused(body: Any, status: int, message: str) -> None:
    with served(k=10, hits=20, batch=5, filter_fields=1) as (_, url):
        answer = post_json(url, "/v1/find", body)
        assert answer.status_code == status
        assert message in answer.json()["message"]


def test_before_the_first_item() -> None:
    with served(LiveIndex(n_bits=8)) as (_, url):
        answer = post_json(url, "/v1/find", {"vector": [1, 2]})
        assert (answer.status_code, answer.json()["error"]) == (409, "NotReady")


def test_many_queries_are_found_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(50, seed=3)
    asked = {"vectors": X.tolist(), "k": 4}
    with served(small_index(n=200)) as (service, url):
        parts: list[int] = []
        find = service.index.found

        def noted(some: Any, *arguments: Any) -> Any:
            parts.append(len(some))
            return find(some, *arguments)

        monkeypatch.setattr(service.index, "found", noted)
        monkeypatch.setattr(search, "_FOUND_AT_ONCE", 7)
        answer = post_json(url, "/v1/find", asked)
        assert parts == [7] * 7 + [1]
        assert found(answer) == lists(service.index.find(X, 4))
        parts.clear()
        monkeypatch.setattr(search, "HITS_AT_ONCE", 0)  # of so many candidates, one query's are held
        assert found(post_json(url, "/v1/find", asked)) == found(answer)
        assert parts == [1] * 50


def test_a_find_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_FOUND_AT_ONCE", 1)
    with served(small_index(n=200), request_seconds=0.2) as (_, url):
        answer = post_json(url, "/v1/find", {"vectors": rows(10_000).tolist(), "k": 10})
        assert (answer.status_code, answer.json()["error"]) == (504, "DeadlineExceeded")
        assert post_json(url, "/v1/find", {"vector": [1, 2]}).status_code == 200


def test_it_is_counted() -> None:
    with served() as (service, url):
        post_json(url, "/v1/find", {"vectors": rows(3).tolist()})
        post_json(url, "/v1/find", {"vector": [1, 2]})
        assert service.searches == 4
        line = 'onlinehash_requests_total{method="POST",route="/v1/find",status="200"} 2.0'
        until(lambda: line in httpx.get(url + "/metrics", timeout=SECONDS).text)


def test_a_reader_finds_by_what_its_writer_has_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FOLLOW_EVERY", 0.01)
    with small_index(tmp_path / "items", precision="float32") as index:
        reader = LiveIndex.open(tmp_path / "items", read_only=True, precision="float32")
        with server.background(Service(reader, read_only=True)) as url:
            asked = {"id": 1, "k": 5}
            wrong = post_json(url, "/v1/find", asked).json()["ids"][1]
            index.learn_pair_by_id(1, wrong, False)
            until(lambda: post_json(url, "/v1/find", asked).json()["ranked_by"]["pairs"] == 1)
            answer = post_json(url, "/v1/find", asked)
            assert wrong not in answer.json()["ids"]
            assert found(answer) == lists(index.find(index.get(1).vector, 5))


def test_it_is_documented() -> None:
    with served() as (_, url):
        document = httpx.get(url + "/openapi.json", timeout=SECONDS).json()
    told = document["paths"]["/v1/find"]["post"]
    assert told["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Find")
    assert told["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/Found")
    assert "code" not in document["components"]["schemas"]["Find"]["properties"]
    assert "ranked_by" in document["components"]["schemas"]["Found"]["required"]
