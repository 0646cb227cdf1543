"""What the demo serves: digits, and a teacher under whom search gets better."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onlinehash import evaluate
from onlinehash.demo import digits
from onlinehash.learners import registry
from onlinehash.serve import quality
from onlinehash.serve.demo import digits_service
from tests.serve.services import SECONDS


def slow_map(encoder, data):
    """mAP from the vectors, and nothing else."""
    truth = evaluate.same_label(data.y_query, data.y_base)
    return evaluate.retrieval(encoder, data.X_query, data.X_base, truth, ["map"])["map"]


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setattr(quality, "SHARE", 1.0)  # no test waits
    service = digits_service()
    yield service
    service.close()


def test_all_digits_are_items_or_queries_with_their_label_and_their_picture(service):
    data = digits.load(0, 1)
    index = service.index
    assert (len(index), index.ids.tolist()) == (1500, list(range(1500)))
    assert [payload["digit"] for payload in index.payloads_of(range(1500))] == data.y_base.tolist()
    assert np.array_equal(index.vectors, data.X_base)
    assert 1500 + len(data.X_query) == len(load_digits().target)
    assert service.label == "digit"
    assert service.demo
    assert service.pictures.about() == {"kind": "pixels", "height": 8, "width": 8}
    assert service.pictures.picture_of(index.get(3))[1] == "image/png"
    assert index.behind == (0, 0)


def test_the_teacher_waits_and_search_gets_better_once_it_teaches(service):
    data = digits.load(0, 1)
    service.start()
    assert service.quality.settled(SECONDS)
    assert service.comparison.settled(SECONDS)
    assert service.teacher.state() == {"running": False, "pairs_per_second": 20.0, "n_pairs": 0}
    before = service.quality.latest["map"]
    assert before == slow_map(service.index.encoder, data)
    itq, blended, oh, mmoh = service.comparison.compare(data.X_query[0], 10)
    assert [row["bits"] for row in (itq, blended, oh, mmoh)] == [32, 32, 32, 128]
    assert blended["name"] == registry.RECOMMENDED == type(service.index.learner).__name__
    assert abs(itq["map"] - before) < 0.02  # where the recommended learner starts
    exact = evaluate.cosine(data.X_query, data.X_base, evaluate.same_label(data.y_query, data.y_base))["map"]
    assert service.comparison.exact() == {"bits": 2048, "map": pytest.approx(exact)}

    service.teacher.set_rate(2000)
    service.teacher.resume()
    end = time.monotonic() + SECONDS
    while service.teacher.state()["n_pairs"] < 600 and time.monotonic() < end:
        time.sleep(0.01)
    service.teacher.stop()
    service.send_events()
    service.quality._wake(at_once=True)
    assert service.quality.settled(SECONDS)
    assert service.comparison.settled(SECONDS)
    after = service.quality.latest["map"]
    assert after == slow_map(service.index.encoder, data)
    assert after > before + 0.1
    still, blended, oh, mmoh = service.comparison.compare(data.X_query[0], 10)
    assert still == itq  # no feedback
    assert blended["map"] == after > still["map"]
    assert min(oh["map"], mmoh["map"]) > 0.65
    assert mmoh["n_pairs"] == service.teacher.state()["n_pairs"] == service.n_pairs
    assert service.comparison.n_lost == 0
