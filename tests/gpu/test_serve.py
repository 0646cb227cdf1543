"""A service whose codes are on a card, beside one without: the same answers over HTTP after the same requests."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.gpu.twins import Twins
from onlinehash.index.gpu import GpuIndex
from tests.gpu.test_card_codes import needs_card
from tests.serve.services import SECONDS, served

X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)
SEARCHES = [
    ("/v1/search", {"vectors": X[:5].tolist(), "k": 10}),
    ("/v1/search", {"id": 7, "k": 3}),
    ("/v1/search", {"vector": X[9].tolist(), "k": 10, "where": {"part": 1}}),
    ("/v1/find", {"vector": X[3].tolist(), "k": 10}),
    ("/v1/within", {"vector": X[3].tolist(), "radius": 4}),
]
CHANGES = [
    ("/v1/items", {"ids": list(range(400)), "vectors": X.tolist(), "payloads": [{"part": i % 3} for i in range(400)]}),
    ("/v1/learn", {"id_a": 7, "id_b": 8, "similar": True}),
    ("/v1/learn", {"id_a": [1, 2, 3, 4], "id_b": [9, 10, 11, 12], "similar": [True, False] * 2, "refresh": True}),
    ("/v1/items/remove", {"ids": list(range(50, 90))}),
    ("/v1/rollback", {}),
]


@pytest.fixture(params=["twins", pytest.param("card", marks=needs_card)])
def _on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernels' twins in their place, and on a card."""
    if request.param == "twins":
        monkeypatch.setattr(GpuIndex, "_make_runs", lambda self, shape: Twins(shape))


def index(device: str) -> LiveIndex:
    return LiveIndex(OnlineHashing(n_bits=16, burn_in=50, random_state=0), refresh.by_hand(), device=device)


@pytest.mark.usefixtures("_on")
def test_a_service_on_a_card_answers_as_one_without() -> None:
    with served(index("cuda")) as (on_card, card_url), served(index("cpu")) as (_, cpu_url), httpx.Client() as client:

        def answers(route: str, body: dict[str, object]) -> list[dict[str, object]]:
            replies = [client.post(url + route, json=body, timeout=SECONDS) for url in (card_url, cpu_url)]
            assert all(reply.is_success for reply in replies), replies[0].text
            return [reply.json() for reply in replies]

        for route, body in CHANGES:
            answers(route, body)
            assert isinstance(on_card.index.view, GpuIndex)
            for question in SEARCHES:
                ours, theirs = answers(*question)
                assert ours == theirs
