"""The teacher tells true pairs at the speed it is told, and waits politely."""

from __future__ import annotations

import threading
import time
from collections import Counter

import numpy as np
import pytest

from onlinehash.errors import InvalidInput
from onlinehash.serve import simulated_teacher
from onlinehash.serve.simulated_teacher import LabelledPairs, SimulatedTeacher
from tests.serve.labelled_service import SECONDS, held, serving

Y = np.repeat([0, 1, 2], [2, 10, 28])
IDS = [f"item {at}" for at in range(40)]


def until(test, seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)


# ------------------------------------------------------------------------------------------------ pairs


def test_pairs_are_true_and_half_of_them_similar():
    label = dict(zip(IDS, Y.tolist(), strict=True))
    a, b, similar = LabelledPairs(IDS, Y, seed=0).next(20_000)
    assert all(i != j for i, j in zip(a, b, strict=True))
    assert all((label[i] == label[j]) == s for i, j, s in zip(a, b, similar, strict=True))
    assert np.mean(similar) == pytest.approx(0.5, abs=0.02)


def test_every_partner_is_equally_likely():
    a, b, similar = LabelledPairs(IDS, Y, seed=0).next(60_000)
    partners = Counter((j, s) for i, j, s in zip(a, b, similar, strict=True) if i == "item 5")
    assert set(partners) == {(IDS[at], Y[at] == 1) for at in range(40) if at != 5}
    of_a_kind = [count for (_, s), count in partners.items() if s]
    others = [count for (_, s), count in partners.items() if not s]
    assert np.std(of_a_kind) < 3 * np.mean(of_a_kind) ** 0.5
    assert np.std(others) < 3 * np.mean(others) ** 0.5


def test_pairs_follow_from_the_seed_however_they_are_taken():
    whole = list(zip(*LabelledPairs(IDS, Y, seed=3).next(3000), strict=True))
    pairs, found = LabelledPairs(IDS, Y, seed=3), []
    for n in (1, 7, 1024, 1000, 968):
        assert pairs.next(n) == pairs.next(n)  # until they are taken
        found += zip(*pairs.next(n), strict=True)
        pairs.take(n)
    assert found == whole
    assert list(zip(*LabelledPairs(IDS, Y, seed=4).next(3000), strict=True)) != whole


@pytest.mark.parametrize(("y", "kinds"), [([1, 1, 1], {True}), ([1, 2, 3], {False}), ([1, 1, 2], {True, False})])
def test_where_one_kind_cannot_be_there_is_the_other(y, kinds):
    a, b, similar = LabelledPairs([0, 1, 2], y, seed=0).next(500)
    assert set(similar) == kinds
    assert all((y[i] == y[j]) == s and i != j for i, j, s in zip(a, b, similar, strict=True))


def test_one_item_makes_no_pair():
    with pytest.raises(InvalidInput, match="at least two items"):
        LabelledPairs([1], [1], seed=0)


# ------------------------------------------------------------------------------------------------ teaching


def teacher_of(service, rate: float = 2000.0, started: bool = True) -> SimulatedTeacher:
    labels = [payload["kind"] for payload in service.index.payloads_of(service.index.ids)]
    service.simulate_teacher(service.index.ids, labels, seed=0, pairs_per_second=rate)
    if started:
        service.start()
    return service.teacher


class Clock:
    """The teacher's clock, which only the test sets."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def teach(self, teacher: SimulatedTeacher, seconds: float) -> None:
        """Let a teacher whose thread was not started work for so long, and rest as long as it asks for."""
        end = self.now + seconds
        teacher.resume()
        while self.now < end:
            self.now += teacher._work()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(simulated_teacher, "time", clock)
    return clock


def test_it_waits_to_be_started_then_teaches_until_paused():
    with serving() as service:
        teacher = teacher_of(service)
        assert teacher.settled(SECONDS)
        assert teacher.state() == {"running": False, "pairs_per_second": 2000.0, "n_pairs": 0}
        teacher.resume()
        until(lambda: teacher.state()["n_pairs"] >= 200)
        teacher.pause()
        assert teacher.settled(SECONDS)
        taught = teacher.state()["n_pairs"]
        assert service.n_pairs == taught
        time.sleep(0.12)
        assert teacher.state() == {"running": False, "pairs_per_second": 2000.0, "n_pairs": taught}
        told = [data["running"] for name, data in service.told if name == "teacher"]
        assert (told[0], told[-1]) == (True, False)


def test_it_teaches_what_its_pairs_say():
    with serving() as service:
        seen = []
        learn = service.changes.learn_by_id
        service.changes.learn_by_id = lambda *pairs: seen.append(pairs) or learn(*pairs)
        teacher = teacher_of(service)
        teacher.resume()
        until(lambda: teacher.state()["n_pairs"] >= 300)
        teacher.stop()
        n = teacher.state()["n_pairs"]
        expected = LabelledPairs(*teacher._known).next(n)
        assert [[one for batch in seen for one in batch[part]] for part in range(3)] == list(expected)


@pytest.mark.parametrize(("rate", "batch"), [(8.0, 1), (40.0, 2), (600.0, 30), (2000.0, 100)])
@pytest.mark.parametrize("effort", [0.0, 0.6])
def test_speed_is_steady(clock, rate, batch, effort):
    """Batches begin at equal distances, however much of that time the learner takes for one."""
    with serving() as service:
        batches = []
        learn = service.changes.learn_by_id

        def learning(*pairs):
            batches.append((clock.now, len(pairs[0])))
            clock.now += effort * batch / rate
            return learn(*pairs)

        service.changes.learn_by_id = learning
        clock.teach(teacher_of(service, rate, started=False), 5.5 * batch / rate)
        times, sizes = zip(*batches, strict=True)
        assert set(sizes) == {batch}
        assert np.diff(times) == pytest.approx(np.full(5, batch / rate))


def test_a_change_of_speed_counts_at_once(clock):
    with serving() as service:
        teacher = teacher_of(service, 0.01)
        teacher.resume()
        until(lambda: teacher.state()["n_pairs"] == 1)
        teacher.set_rate(1000)
        until(lambda: teacher.state()["n_pairs"] == 51)  # the next was due in a hundred seconds; the clock stands still
        assert ("teacher", {"running": True, "pairs_per_second": 1000.0, "n_pairs": 1}) in service.told


def test_it_waits_while_the_writer_is_busy_and_loses_no_pair():
    with serving(queue=1) as service:
        teacher = teacher_of(service)
        go = held(service)
        busy = threading.Event()
        learn = service.changes.learn_by_id

        def asked(*pairs):
            try:
                return learn(*pairs)
            except Exception as error:
                error.retry_after = 0.01
                busy.set()
                raise

        service.changes.learn_by_id = asked
        teacher.resume()
        assert busy.wait(SECONDS)
        assert teacher.state()["running"]
        go.set()
        until(lambda: teacher.state()["n_pairs"] >= 100)
        teacher.stop()
        assert service.n_pairs == teacher.state()["n_pairs"]


def test_items_that_went_are_taught_no_more():
    with serving() as service:
        teacher = teacher_of(service)
        service.changes.remove(list(range(100))).result()
        teacher.resume()
        until(lambda: teacher.state()["n_pairs"] >= 100)
        service.changes.remove(list(range(100, 119))).result()
        until(lambda: not teacher.state()["running"])  # one item is left


def test_it_stops_with_the_service():
    with serving() as service:
        teacher = teacher_of(service)
        teacher.resume()
        until(lambda: teacher.state()["n_pairs"] > 0)
        service.writer.close()  # also if nobody tells it
        until(lambda: not teacher.state()["running"])
        teacher.stop()
        teacher.resume()
        assert not teacher.state()["running"]


def test_progress_is_told_once_a_second(clock):
    with serving() as service:
        times = []
        service.events.send = lambda name, data: times.append(clock.now)
        clock.teach(teacher_of(service, started=False), 5.0)
        assert len(times) >= 5
        assert all(1.0 <= pause < 1.1 for pause in np.diff(times))


@pytest.mark.parametrize("rate", [0, -1, 2001, float("nan"), "fast"])
def test_impossible_speeds_are_refused(rate):
    with serving() as service:
        teacher = teacher_of(service)
        with pytest.raises(InvalidInput, match="pairs_per_second"):
            teacher.set_rate(rate)
        assert teacher.state()["pairs_per_second"] == 2000.0
