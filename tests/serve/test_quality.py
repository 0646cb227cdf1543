"""The monitor measures what a slow look at the vectors gives, beside everything else."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.errors import InvalidInput
from onlinehash.serve import quality as module
from onlinehash.serve.quality import QualityMonitor
from onlinehash.serve.service import Service
from tests.serve.labelled_service import SECONDS, held, labelled, names, serving, slow_map

X_QUERY, Y_QUERY = labelled(15, seed=1)
X, Y = labelled(120)
SHARE = module.SHARE


@pytest.fixture(autouse=True)
def tireless(monkeypatch):
    """All of the time may go into measuring, so that no test waits."""
    monkeypatch.setattr(module, "SHARE", 1.0)


def measured_now(monitor: QualityMonitor) -> dict:
    """The measurement after all that happened so far."""
    monitor._wake(at_once=True)
    assert monitor.settled(SECONDS)
    assert monitor.latest is not None
    return monitor.latest


def test_it_measures_at_the_start_and_after_learning():
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        service.start()
        first = measured_now(monitor)
        assert first["map"] == slow_map(service.index.encoder, X_QUERY, names(Y_QUERY), X, names(Y))
        assert (first["n_queries"], first["n_pairs"]) == (15, 0)
        service.changes.learn(X[:40], X[40:80], Y[:40] == Y[40:80]).result()
        service.send_events()
        assert service.index.refreshes == 2
        second = measured_now(monitor)
        assert second["map"] == slow_map(service.index.encoder, X_QUERY, names(Y_QUERY), X, names(Y))
        assert second["n_pairs"] == 40
        assert second["map"] != first["map"]
        assert ("measured", second) in service.told


def test_it_follows_items_and_their_labels():
    """Some go, some get another label, some lose it, some come, and one comes back as another."""
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        service.start()
        measured_now(monitor)
        X_new, y_new = labelled(30, seed=2)
        labels = dict(enumerate(names(Y))) | dict(zip(range(200, 230), names(y_new), strict=True))
        vectors = dict(enumerate(X)) | dict(zip(range(200, 230), X_new, strict=True))
        service.changes.remove(list(range(10)))
        service.changes.add(list(range(200, 230)), X_new, [{"kind": label} for label in names(y_new)])
        service.changes.update([50, 51], None, [{"kind": "class 0"}, {"kind": "class 1"}])
        service.changes.update([52, 53, 54], None, [{"other": 1}, None, {"kind": ["class 0"]}])
        service.changes.add([3], X[:1], [{"kind": "class 2"}]).result()
        labels |= {50: "class 0", 51: "class 1", 3: "class 2"}
        vectors[3] = X[0]
        kept = [id for id in service.index if id not in (52, 53, 54)]
        expected = slow_map(
            service.index.encoder,
            X_QUERY,
            names(Y_QUERY),
            np.stack([vectors[id] for id in kept]),
            [labels[id] for id in kept],
        )
        assert measured_now(monitor)["map"] == pytest.approx(expected, abs=1e-12)


def test_numbers_are_labels_too_and_3_is_3_point_0():
    with serving(0) as service:
        service.changes.add(None, X, [{"kind": float(label)} for label in Y]).result()
        service.index.refresh()
        monitor = service.measure_quality(X_QUERY, Y_QUERY)
        service.start()
        assert measured_now(monitor)["map"] == slow_map(service.index.encoder, X_QUERY, Y_QUERY, X, Y)


def test_of_many_items_it_looks_at_a_sample_that_stays(monkeypatch):
    monkeypatch.setattr(module, "MOST_ITEMS", 50)
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        first = monitor.measure(service.index)
        assert len(monitor._labels) == 50
        assert first is not None
        looked_at = sorted(monitor._labels)
        assert looked_at != list(range(50))
        expected = slow_map(service.index.encoder, X_QUERY, names(Y_QUERY), X[looked_at], names(Y[looked_at]))
        assert first[0] == expected
        assert monitor.measure(service.index) == first


def test_it_says_nothing_where_nothing_can_be_measured():
    with serving(0) as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        service.start()
        assert monitor.settled(SECONDS)  # no codes yet
        service.changes.add(None, X).result()  # no labels
        monitor._wake(at_once=True)
        assert monitor.settled(SECONDS)
        assert monitor.latest is None
        assert not service.told


def test_it_rests_until_measuring_is_a_twentieth_of_the_time(monkeypatch):
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        monkeypatch.setattr(module, "SHARE", SHARE)
        clock = iter([0.0, 10.0, 10.5])
        monkeypatch.setattr(module, "time", SimpleNamespace(thread_time=lambda: next(clock)))
        assert monitor._work() == 0.0  # the first costs more than those to come
        assert monitor._work() == pytest.approx(9.5)


def test_it_rests_after_measuring():
    """After a long measurement, ten wake-ups are one measurement, not before the rest is over."""
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        times, work = [], monitor._work
        monitor._work = lambda: (times.append(time.monotonic()), work(), 0.2)[-1]
        monitor.start()
        start = time.monotonic()
        for _ in range(10):
            monitor.refreshed()
            time.sleep(0.005)
        stalled = time.monotonic() - start
        assert monitor.settled(SECONDS)
        assert 2 <= len(times) <= 2 + stalled / 0.2
        assert np.diff(times).min() >= 0.2
        monitor.stop()


def test_neither_the_writer_nor_searches_wait_for_it():
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        measuring, go = threading.Event(), threading.Event()
        monitor._labels_of = lambda ids: (measuring.set(), go.wait(SECONDS), np.zeros(len(ids), np.int64))[-1]
        service.start()
        assert measuring.wait(SECONDS)
        service.changes.learn_by_id([0, 1], [2, 3], [True, False]).result(SECONDS)
        service.changes.update([5], X[:1], [None]).result(SECONDS)
        assert len(service.index.search(X[0], 5).ids) == 5
        go.set()


def test_it_measures_while_the_writer_is_held():
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        go = held(service)
        service.start()
        assert monitor.settled(SECONDS)
        assert monitor.latest is not None
        go.set()


def test_one_view_while_everything_changes():
    """Under refreshes, removals and additions, each value belongs to the encoder that it came with."""
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        done = threading.Event()

        def change() -> None:
            rng = np.random.default_rng(0)
            for at in range(30):
                i, j = rng.integers(120, size=(2, 4))
                service.changes.learn(X[i], X[j], Y[i] == Y[j]).result()
                service.changes.remove([at])
                service.changes.add([at], X[[at]], [{"kind": f"class {Y[at]}"}]).result()
            done.set()

        thread = threading.Thread(target=change)
        thread.start()
        measured = []
        while not done.is_set():
            found = monitor.measure(service.index)
            assert found is not None
            measured.append(found)
        thread.join()
        assert len({encoder.version for _, encoder in measured}) > 1
        for value, encoder in measured:  # at most one item was missing
            assert value == pytest.approx(slow_map(encoder, X_QUERY, names(Y_QUERY), X, names(Y)), abs=0.02)


def test_a_service_without_a_label_has_nothing_to_measure():
    service = Service(LiveIndex(OnlineHashing(16)))
    with pytest.raises(InvalidInput, match="which payload field is the label"):
        service.measure_quality(X_QUERY, Y_QUERY)
    service.close()
