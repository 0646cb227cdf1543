"""Compared methods find what they find when they get the same items and pairs by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import (
    LSH,
    IterativeQuantization,
    LiveIndex,
    MultiModelOnlineHashing,
    OnlineHashing,
    RbfAnchors,
    evaluate,
    refresh,
)
from onlinehash.errors import InvalidInput, UnknownMethod
from onlinehash.serve import comparison as module
from onlinehash.serve.comparison import MethodComparison
from tests.serve.labelled_service import SECONDS, labelled, names, serving, slow_map

X, Y = labelled(120)
X_QUERY, Y_QUERY = labelled(15, seed=1)


def settled(service) -> MethodComparison:
    service.send_events()  # a refresh is told
    assert service.comparison.settled(SECONDS)
    return service.comparison


def alone(learner, program) -> LiveIndex:
    """An index that goes through a program by itself."""
    index = LiveIndex(learner, refresh=refresh.by_hand())
    index.add(None, X)
    program(index)
    index.refresh()
    return index


def program(index) -> None:
    """The same calls for a service and for an index."""
    rng = np.random.default_rng(5)
    for step in range(6):
        i, j = rng.integers(20, 120, size=(2, 10))
        index.learn(X[i], X[j], Y[i] == Y[j], rng.random(10))
        if step == 2:
            index.remove([0, 1, 2])
        if step == 3:
            index.add([500, 501], X[:2])
        if step == 4:
            index.update([10, 11], X[5:7])


class ByItself:
    """An index with the service's names of calls."""

    def __init__(self, index: LiveIndex) -> None:
        self.index, self.remove, self.add = index, index.remove, index.add
        self.learn = index.learn_pairs

    def update(self, ids, X) -> None:
        self.index.update(ids, X)


def test_each_method_is_what_it_is_by_itself():
    features = {"features": RbfAnchors(40), "burn_in": 120, "random_state": 3}
    with serving(learner=OnlineHashing(16, C=0.2, **features)) as service:
        service.compare_methods(["LSH", "OH", "MMOH"])
        service.start()
        program(_Service(service))
        found = settled(service).compare(X_QUERY[0], 7)
        assert [row["name"] for row in found] == ["LSH", "OnlineHashing", "MultiModelOnlineHashing"]
        assert [row["bits"] for row in found] == [16, 16, 64]
        assert [row["n"] for row in found] == [119] * 3
        assert [row["n_pairs"] for row in found][1:] == [60, 60]
        learners = [LSH(16, **features), MultiModelOnlineHashing(16, C=0.2, **features)]
        for row, learner in zip(found[::2], learners, strict=True):
            expected = alone(learner, lambda index: program(ByItself(index))).search(X_QUERY[0], 7)
            assert row["ids"] == expected.ids.tolist()
            assert row["distances"] == expected.distances.tolist()
        ids, distances = service.index.search(X_QUERY[0], 7)
        assert (found[1]["ids"], found[1]["distances"]) == (ids.tolist(), distances.tolist())


class _Service:
    """The service, waited for."""

    def __init__(self, service) -> None:
        self._service = service

    def learn(self, *arguments) -> None:
        self._service.changes.learn(*arguments).result()

    def remove(self, ids) -> None:
        self._service.changes.remove(ids).result()

    def add(self, ids, X) -> None:
        self._service.changes.add(ids, X).result()

    def update(self, ids, X) -> None:
        self._service.changes.update(ids, X, None).result()


def test_the_served_method_is_asked_in_the_served_index_and_no_other():
    """MMOH is an OnlineHashing in the class tree, but another method."""
    with serving(learner=MultiModelOnlineHashing(8, burn_in=120, random_state=0)) as service:
        service.compare_methods()
        service.start()
        service.changes.learn(X[:50], X[50:100], Y[:50] == Y[50:100]).result()
        itq, blended, oh, mmoh = settled(service).compare(X[0], 5)
        assert [row["name"] for row in (itq, blended)] == ["IterativeQuantization", "BlendedPairHashing"]
        assert [row["bits"] for row in (itq, blended, oh, mmoh)] == [8, 8, 8, 32]
        assert [row["learns"] for row in (itq, blended, oh, mmoh)] == [False, True, True, True]
        assert [row["n_pairs"] for row in (itq, blended, oh, mmoh)] == [0, 50, 50, 50]
        assert mmoh["ids"] == service.index.search(X[0], 5).ids.tolist()
        expected = LiveIndex(OnlineHashing(8, burn_in=120, random_state=0), refresh=refresh.by_hand())
        expected.add(None, X)
        expected.learn_pairs(X[:50], X[50:100], Y[:50] == Y[50:100])
        expected.refresh()
        assert oh["ids"] == expected.search(X[0], 5).ids.tolist()


def test_they_refresh_when_the_served_index_does():
    with serving(policy=refresh.by_hand()) as service:
        service.compare_methods(["MMOH"])
        service.start()
        settled(service)
        (index,) = service.comparison._others
        before = index.refreshes
        service.changes.learn(X[:50], X[50:100], Y[:50] == Y[50:100]).result()
        assert settled(service)._others[0].refreshes == before
        service.changes.submit(lambda index: index.refresh()).result()
        assert settled(service)._others[0].refreshes == before + 1
        assert index.pairs_behind == 0


def test_map_is_measured_when_somebody_asks_and_once_for_each_encoder():
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        service.compare_methods(["LSH", "OH", "MMOH"])
        service.start()
        assert monitor.settled(SECONDS)
        settled(service)
        measured, measure = [], monitor.measure

        def counted(index):
            if index is not service.index:  # which the monitor measures of itself
                measured.append(index)
            return measure(index)

        monitor.measure = counted
        first = service.comparison.compare(X[0], 3)
        assert len(measured) == 2
        assert service.comparison.compare(X[0], 3) == first
        assert len(measured) == 2
        for row, index in zip(first[::2], service.comparison._others, strict=True):
            assert row["map"] == slow_map(index.encoder, X_QUERY, names(Y_QUERY), X, names(Y))
        assert first[1]["map"] == monitor.latest["map"]
        service.changes.remove([7]).result()
        settled(service).compare(X[0], 3)
        assert len(measured) == 4


def test_without_a_monitor_there_is_no_map():
    with serving() as service:
        service.compare_methods()
        service.start()
        assert [row["map"] for row in settled(service).compare(X[0], 3)] == [None] * 4
        assert service.comparison.exact() is None


def test_before_there_are_items_nothing_is_found():
    with serving(0) as service:
        service.compare_methods()
        service.start()
        assert [row["ids"] for row in settled(service).compare(X[0], 3)] == [[]] * 4
        service.changes.add(["a", "b"], X[:2]).result()
        assert [sorted(row["ids"]) for row in settled(service).compare(X[0], 3)] == [["a", "b"]] * 4


def test_codes_without_feedback_are_itqs_of_the_first_items(monkeypatch):
    monkeypatch.setattr(module, "MOST_FITTED", 100)
    features = {"features": RbfAnchors(40), "random_state": 3}
    with serving(learner=OnlineHashing(16, burn_in=120, **features)) as service:
        service.compare_methods()
        service.start()
        service.changes.learn(X[:50], X[50:100], Y[:50] == Y[50:100]).result()
        service.changes.remove([119]).result()
        service.changes.add([500], X_QUERY[:1]).result()
        expected = LiveIndex(IterativeQuantization(16, **features).fit(X[:100]), refresh=refresh.by_hand())
        expected.add(None, X[:119])
        expected.add([500], X_QUERY[:1])
        hits = expected.search(X_QUERY[1], 9)
        found = settled(service).compare(X_QUERY[1], 9)[0]
        assert (found["ids"], found["distances"]) == (hits.ids.tolist(), hits.distances.tolist())
        assert (found["n"], found["n_pairs"], found["learns"]) == (120, 0, False)


def test_codes_without_feedback_begin_again_when_items_have_doubled(monkeypatch):
    monkeypatch.setattr(module, "MOST_FITTED", 90)
    with serving(0) as service:
        service.compare_methods()
        service.start()
        fitted = []
        for start in range(0, 120, 10):
            service.changes.add(None, X[start : start + 10]).result()
            (itq,) = (index for index in settled(service)._others if index.learner.traits.unit == "batch")
            fitted.append(service.comparison._n_fitted)
        assert fitted == [10, 20, 20, 40, 40, 40, 40, 80, 90, 90, 90, 90]
        assert np.array_equal(itq.codes.bits(), IterativeQuantization(16, random_state=0).fit(X[:90]).transform(X))


def test_the_float_reference_is_measured_once_for_the_same_items(monkeypatch):
    with serving() as service:
        monitor = service.measure_quality(X_QUERY, names(Y_QUERY))
        service.compare_methods()
        service.start()
        settled(service)
        expected = evaluate.cosine(X_QUERY, X, evaluate.same_label(Y_QUERY, Y))["map"]
        assert service.comparison.exact() == {"bits": 256, "map": pytest.approx(expected)}
        monkeypatch.setattr(monitor, "measure_exact", None)  # it is not asked again
        assert service.comparison.exact()["bits"] == 256
        monkeypatch.undo()
        monkeypatch.setattr(module, "SHARE", 1.0)
        service.changes.remove([0]).result()
        settled(service)._exact_due = 0.0
        expected = evaluate.cosine(X_QUERY, X[1:], evaluate.same_label(Y_QUERY, Y[1:]))["map"]
        assert service.comparison.exact()["map"] == pytest.approx(expected)


def test_of_many_items_they_hold_a_sample(monkeypatch):
    monkeypatch.setattr(module, "MOST_ITEMS", 50)
    with serving() as service:
        service.compare_methods()
        service.start()
        settled(service)
        sample = set(service.comparison._others[0])
        assert len(sample) == 50
        assert [row["n"] for row in service.comparison.compare(X[0], 3)] == [50, 50, 120, 50]
        more = np.repeat(X, 10, axis=0)
        for start in range(0, len(more), 100):
            service.changes.add(None, more[start : start + 100])
        service.changes.remove(list(range(0, 120, 2))).result()
        settled(service)
        now = set(service.comparison._others[0])
        assert 20 <= len(now) <= 60
        assert now == set(service.comparison._others[1]) == set(service.comparison._others[2]) <= set(service.index)
        assert len(now - sample) > 20  # of ten times as many new items


def test_too_much_at_once_lets_them_begin_anew_with_the_items(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 20_000)
    with serving() as service:
        service.compare_methods(["LSH", "MMOH"])  # not started: all waits
        for _ in range(9):
            service.changes.learn(X[:50], X[50:100], Y[:50] == Y[50:100])
        service.changes.remove([3])
        service.changes.add([900], X[:1]).result()
        service.start()
        assert service.comparison.settled(SECONDS)
        found = service.comparison.compare(X[0], 3)
        assert [row["n"] for row in found] == [120, 120]
        assert set(service.comparison._others[0]) == set(service.index)
        assert service.comparison.n_lost > 0
        assert found[1]["n_pairs"] + service.comparison.n_lost == 450


def test_a_change_that_a_method_refuses_does_not_end_the_comparison():
    with serving() as service:
        service.compare_methods()
        service.start()
        service.comparison.learned(np.full((1, 8), np.nan), X[:1], [True], None)
        service.changes.learn(X[:5], X[5:10], Y[:5] == Y[5:10]).result()
        assert settled(service).compare(X[0], 3)[2]["n_pairs"] == 5


def test_what_cannot_be_asked_is_refused():
    with serving() as service:
        with pytest.raises(UnknownMethod):
            service.compare_methods(["nonsense"])
        service.compare_methods()
        service.start()
        settled(service)
        with pytest.raises(InvalidInput, match="features"):
            service.comparison.compare([1.0, 2.0], 3)
