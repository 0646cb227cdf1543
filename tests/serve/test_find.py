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


def test_what_is_refused() -> None:
    with served(k=10, hits=20, batch=5, filter_fields=1) as (_, url):
        for body, status in (
            ({}, 422),
            ({"code": "3f"}, 422),
            ({"vector": [1, 2], "id": 1}, 422),
            ({"vector": [1, 2, 3]}, 422),
            ({"vector": [1, 2], "k": -1}, 422),
            ({"vector": [1, 2], "k": 11}, 413),
            ({"vectors": [[1, 2]] * 4, "k": 6}, 413),
            ({"vectors": [[1, 2]] * 6}, 413),
            ({"id": 99}, 404),
            ({"vector": [1, 2], "where": {"a": 1, "b": 2}}, 422),
        ):
            assert post_json(url, "/v1/find", body).status_code == status, body


def test_before_the_first_item() -> None:
    with served(LiveIndex(n_bits=8)) as (_, url):
        answer = post_json(url, "/v1/find", {"vector": [1, 2]})
        assert (answer.status_code, answer.json()["error"]) == (409, "NotReady")


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
