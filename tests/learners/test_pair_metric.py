"""The learned metric: against a slow reference, under the contracts of a stream, and in what it promises."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import OnlineHashing, RbfAnchors
from onlinehash.errors import FormatError
from onlinehash.io import files
from onlinehash.learners import pair_metric
from onlinehash.learners.pair_metric import PairMetric
from tests.reference.pair_metric import SlowMetric

D = 6


@pytest.fixture
def small(monkeypatch):
    """Constants at which little happens soon."""
    values = {"KEPT": 40, "RANK": 3, "N_POINTS": 30, "BATCH": 16, "MOST_CHUNK": 12, "ANSWERS": 25, "LEAST_POINTS": 8}
    for name, value in values.items():
        monkeypatch.setattr(pair_metric, name, value)


def stream(n: int, seed: int = 0, d: int = D) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, d)).astype(np.float32)
    similar = np.where(A[:, 0] * B[:, 0] > 0, 1, -1).astype(np.int8)
    return A, B, similar, rng.choice([0.0, 0.5, 1.0, 2.0], n)


@pytest.mark.parametrize("n_points", [0, 20, 50])
def test_it_is_its_reference(small, n_points):
    A, B, similar, weight = stream(70)
    points = np.random.default_rng(1).standard_normal((n_points, D)).astype(np.float32)
    metric, slow = PairMetric(D, seed=3), SlowMetric(D, seed=3)
    metric.observe(points)
    for x in points:
        slow.observe(x)
    for t in range(70):
        metric.learn(A[t : t + 1], B[t : t + 1], similar[t : t + 1], weight[t : t + 1])
        slow.learn(A[t], B[t], similar[t], weight[t])
    assert (metric.n_learned, metric.n_steps) == (slow.n_learned, slow.n_steps)
    assert metric.n_steps > 4
    np.testing.assert_allclose(metric.share, slow.share, atol=1e-4)
    rows = np.concatenate([np.random.default_rng(2).standard_normal((30, D)).astype(np.float32), B[-5:]])
    for query in (rows[0], A[-1], B[-3]):
        ranking = metric.ranking(query, len(rows))
        ranking.add(rows[:20])
        ranking.add(rows[20:])
        order, near = ranking.order(len(rows))
        expected, scores = slow.order(query, rows)
        # Where two are nearly equal, rounding may change their order.
        of_item = dict(zip(expected, scores, strict=True))
        np.testing.assert_allclose(near, [of_item[number] for number in order.tolist()], atol=2e-4)
        assert sorted(order.tolist()) == sorted(expected)
        assert (np.diff(near) <= 0).all()


@pytest.mark.filterwarnings("ignore:the mean")  # of one call with a single tiny vector
@pytest.mark.parametrize("features", [None, RbfAnchors(40)], ids=["vectors", "anchors"])
@pytest.mark.parametrize("size", [1, 3, 16, 64])
def test_any_split_of_a_stream_gives_the_same_bytes(small, size, features):
    A, B, similar, weight = stream(200)
    A[7], B[33], A[50], B[51] = 0, 0, 1e-30 * A[50], 50 * B[51]
    whole = OnlineHashing(8, features=features, random_state=0).keep_metric()
    whole.partial_fit_pairs(A, B, similar, weight)
    assert whole.n_pairs_seen_ == 200
    assert whole.pair_metric_.n_pairs == (weight > 0).sum() < 200
    parts = OnlineHashing(8, features=features, random_state=0).keep_metric()
    for start in range(0, 200, size):
        some = slice(start, start + size)
        parts.partial_fit_pairs(A[some], B[some], similar[some], weight[some])
    assert files.to_bytes(parts) == files.to_bytes(whole)


@pytest.mark.parametrize("n", [0, 3, 29, 90, 200])
def test_it_is_saved_and_goes_on(small, n):
    A, B, similar, weight = stream(260)
    learner = OnlineHashing(8, random_state=0).keep_metric().observe(A[:10])
    if n:
        learner.partial_fit_pairs(A[:n], B[:n], similar[:n], weight[:n])
    again = files.from_bytes(files.to_bytes(learner), "here")
    for one in (learner, again):
        one.partial_fit_pairs(A[n:], B[n:], similar[n:], weight[n:])
    assert files.to_bytes(again) == files.to_bytes(learner)
    assert again.pair_metric_.share == learner.pair_metric_.share


@pytest.mark.parametrize("is_saved", [False, True])
def test_directions_are_found_when_somebody_needs_them(small, monkeypatch, is_saved):
    A, B, similar, _ = stream(60)
    metric, found, eigh = PairMetric(D, 0), [], pair_metric.scipy.linalg.eigh
    monkeypatch.setattr(
        pair_metric.scipy.linalg, "eigh", lambda *args, **options: found.append(1) or eigh(*args, **options)
    )
    metric.observe(A)  # more than are needed
    metric.learn(A[:3], B[:3], similar[:3], np.ones(3))
    assert not found
    if is_saved:
        state = metric.get_state()
        assert state["basis"].shape == (D, 3)
        assert len(state["points"]) == 0
        metric = PairMetric(D, 0)
        metric.set_state(state)
    metric.learn(A[3:], B[3:], similar[3:], np.ones(57))
    assert found == [1]
    whole = PairMetric(D, 0)
    whole.observe(A)
    whole.learn(A, B, similar, np.ones(60))
    np.testing.assert_equal(metric.get_state(), whole.get_state())


def test_a_refused_call_changes_nothing(small):
    A, B, similar, weight = stream(1200)
    learner = OnlineHashing(8, random_state=0).keep_metric().partial_fit_pairs(A[:90], B[:90], similar[:90])
    before = files.to_bytes(learner)
    A[-1, 2] = np.nan
    for start in (1195, 0):  # so many that the kernel finds it halfway
        with pytest.raises(Exception, match="finite"):
            learner.partial_fit_pairs(A[start:], B[start:], similar[start:], weight[start:])
    assert files.to_bytes(learner) == before


def test_memory_is_constant(small):
    A, B, similar, weight = stream(2000)
    learner, sizes = OnlineHashing(8, random_state=0).keep_metric(), []
    for start in range(0, 2000, 200):
        some = slice(start, start + 200)
        learner.partial_fit_pairs(A[some], B[some], similar[some], weight[some])
        sizes.append(len(files.to_bytes(learner)))
    assert max(sizes[1:]) - min(sizes[1:]) < 100  # digits of counters


def test_before_the_first_pair_it_is_the_cosine_and_three_neighbours():
    rng = np.random.default_rng(0)
    rows, query = rng.standard_normal((400, 20)).astype(np.float32), rng.standard_normal(20).astype(np.float32)
    metric = PairMetric(20, seed=0)
    ranking = metric.ranking(query, 10)
    ranking.add(rows)
    X = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = X @ (query / np.linalg.norm(query))
    assert ranking.nearest(10).tolist() == np.argsort(-cosines, kind="stable")[:10].tolist()
    assert ranking.order(1)[0].tolist() == [cosines.argmax()]


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_candidates_by_their_products_come_out_as_by_their_vectors(scale):
    """Also where single precision cannot hold the squares, so that the vectors must tell."""
    rng = np.random.default_rng(0)
    rows = (scale * rng.standard_normal((900, 20))).astype(np.float32)
    query = rng.standard_normal(20).astype(np.float32)
    metric = PairMetric(20, seed=0)
    by_rows, by_products, taken = metric.ranking(query, 10), metric.ranking(query, 10), []
    assert by_products.needs_only_products
    for some in (rows[:500], rows[500:]):
        by_rows.add(some)
        squares = np.einsum("ij,ij->i", some, some)
        by_products.add_products(
            some @ by_products.direction, squares, lambda few, some=some: taken.append(len(few)) or some[few]
        )
    assert by_products.nearest(300).tolist() == by_rows.nearest(300).tolist()
    for a, b in zip(by_products.order(300), by_rows.order(300), strict=True):
        assert np.array_equal(a, b)
    assert (max(taken) < 300) == (scale == 1.0)


def test_a_mark_moves_the_result_at_once():
    """And leaves the results of other queries where they were."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 20)).astype(np.float32)
    query, other = rng.standard_normal((2, 20)).astype(np.float32)
    metric = PairMetric(20, seed=0)

    def order(q: np.ndarray) -> list[int]:
        ranking = metric.ranking(q, 300)
        ranking.add(rows)
        return ranking.order(300)[0].tolist()

    before, others = order(query), order(other)
    good, bad = before[8], before[0]
    one = np.ones(1)
    metric.learn(query[None], rows[good][None], np.array([1], np.int8), one)
    assert order(query)[0] == good
    metric.learn(rows[bad][None], query[None], np.array([-1], np.int8), one)  # the other way round counts as well
    assert order(query)[0] == good
    assert order(query)[-1] == bad
    assert order(other) == others


def test_neighbours_of_the_nearest_do_not_come_before_it():
    """An item between the others is nearest to the query that they have joined, but not to the query."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 8)).astype(np.float32)
    U, metric = rows / np.linalg.norm(rows, axis=1, keepdims=True), PairMetric(8, seed=0)
    for query in rng.standard_normal((40, 8)).astype(np.float32):
        ranking = metric.ranking(query, 10)
        ranking.add(rows)
        order, near = ranking.order(10)
        assert order[0] == np.argmax(U @ query)
        assert (np.diff(near) <= 0).all()


def test_a_second_thought_counts():
    rng = np.random.default_rng(0)
    rows, query = rng.standard_normal((300, 20)).astype(np.float32), rng.standard_normal(20).astype(np.float32)
    metric = PairMetric(20, seed=0)

    def rank(item: int) -> int:
        ranking = metric.ranking(query, 300)
        ranking.add(rows)
        return ranking.order(300)[0].tolist().index(item)

    def mark(item: int, similar: int, weight: float = 1.0) -> None:
        metric.learn(query[None], rows[item][None], np.array([similar], np.int8), np.array([weight]))

    for similar in (1, 1, -1):
        mark(4, similar)
    assert rank(4) == 299
    mark(4, 1)
    assert rank(4) == 0
    before = rank(9)
    mark(9, 1, 0.0)
    mark(9, 1, 1e-9)
    assert rank(9) == before
    mark(9, 1)
    mark(9, -1, 0.25)  # passed over once: it was clicked all the same
    assert rank(9) == 1  # but 4 is more certain
    for _ in range(3):
        mark(9, -1, 0.25)
    assert rank(9) == 299


@pytest.mark.parametrize("kind", ["far from zero", "one long axis"])
def test_marks_leave_other_queries_alone_where_all_cosines_are_high(kind):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 8))
    rows = rows + 30 if kind == "far from zero" else rows * [300, 1, 1, 1, 1, 1, 1, 1] + [1000, 0, 0, 0, 0, 0, 0, 0]
    rows = rows.astype(np.float32)
    metric = PairMetric(8, seed=0)
    metric.observe(rows)

    def order(q: np.ndarray) -> list[int]:
        ranking = metric.ranking(q, 400)
        ranking.add(rows)
        return ranking.order(10)[0].tolist()

    others = [order(row) for row in rows[1:40]]
    for shown in order(rows[0]):
        metric.learn(rows[:1], rows[shown][None], np.array([-1 if shown else 1], np.int8), np.ones(1))
    changed = sum(len(set(order(row)) - set(before)) for row, before in zip(rows[1:40], others, strict=True))
    assert changed <= 0.1 * 10 * 39


def test_vectors_of_any_length_are_compared():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 20)).astype(np.float32)
    metric = PairMetric(20, seed=0)
    orders = []
    for scale in (1.0, 1e-38, 1e30):
        ranking = metric.ranking(rows[0] * np.float32(scale), 50)
        ranking.add(rows * np.float32(scale))
        orders.append(ranking.order(50)[0].tolist())
    assert orders[0] == orders[2]
    assert orders[0][:5] == orders[1][:5]  # of which few digits are left
    zeros = metric.ranking(np.zeros(20, np.float32), 50)
    zeros.add(np.zeros((4, 20), np.float32))
    assert zeros.order(50)[0].tolist() == [0, 1, 2, 3]


def marked(*marks: tuple[np.ndarray, np.ndarray, int], points: np.ndarray) -> PairMetric:
    """A metric that has seen points and these marks."""
    metric = PairMetric(points.shape[1], seed=0)
    metric.observe(points)
    for query, item, similar in marks:
        metric.learn(query[None], item[None], np.array([similar], np.int8), np.ones(1))
    return metric


def order_of(metric: PairMetric, query: np.ndarray, rows: np.ndarray) -> list[int]:
    ranking = metric.ranking(query, len(rows))
    ranking.add(rows)
    return ranking.order(len(rows))[0].tolist()


def test_an_item_that_equals_its_query_may_be_marked_as_not_similar():
    """As a text that is asked for by its own words."""
    rows = np.random.default_rng(0).standard_normal((60, 20)).astype(np.float32)
    assert order_of(PairMetric(20, seed=0), rows[7], rows)[0] == 7
    assert order_of(marked((rows[7], rows[7], -1), points=rows), rows[7], rows)[-1] == 7
    assert order_of(marked((rows[7], rows[9], 1), points=rows), rows[7], rows)[:2] == [7, 9]


def test_of_marks_on_items_that_are_nearly_equal_the_nearest_counts():
    rows = np.random.default_rng(0).standard_normal((60, 20)).astype(np.float32)
    rows[9] = rows[8] + 0.002
    metric = marked((rows[7], rows[8], 1), (rows[7], rows[9], -1), points=rows[10:])
    order = order_of(metric, rows[7], rows)
    assert order[:2] == [7, 8]
    assert order[-1] == 9


def test_an_item_of_zeros_may_be_marked():
    rows = -np.abs(np.random.default_rng(0).standard_normal((60, 20))).astype(np.float32)
    rows[3] = 0
    query = np.ones(20, np.float32)
    assert order_of(PairMetric(20, seed=0), query, rows)[0] == 3
    assert order_of(marked((query, rows[3], -1), points=rows), query, rows)[-1] == 3


def test_pairs_of_no_weight_take_no_place():
    rows = np.random.default_rng(0).standard_normal((60, 20)).astype(np.float32)
    metric = marked((rows[0], rows[9], 1), points=rows)
    A, B, similar, _ = stream(pair_metric.KEPT, d=20)
    metric.learn(A, B, similar, np.zeros(len(A)))
    assert metric.n_pairs == 1
    assert order_of(metric, rows[0], rows)[:2] == [0, 9]


def test_rounded_candidates_that_may_have_been_marked_are_among_the_best():
    """Whatever rounding makes of them; what may have been marked as not similar stays where it is."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 20)).astype(np.float32)
    query, far = rows[0], np.argsort(rows @ rows[0])[:12].tolist()
    metric = marked(*((query, rows[i], 1) for i in far), (query, rows[1], -1), points=rows)
    moved = rng.standard_normal(rows.shape)
    moved = (rows + 1.0 * moved / np.linalg.norm(moved, axis=1, keepdims=True)).astype(np.float32)
    plain, rounded, exact = (metric.ranking(query, 300) for _ in range(3))
    plain.add(moved)
    rounded.add(moved, rounding=1.0)
    exact.add(rows)
    assert set(exact.nearest(13).tolist()) == {0, *far}
    assert set(plain.nearest(13).tolist()) != {0, *far}, "rounded vectors are others"
    assert {0, *far} <= set(rounded.nearest(rounded.n_unsure).tolist())
    assert 14 <= rounded.n_unsure < 30
    assert exact.nearest(300)[-1] == 1 != rounded.nearest(300)[-1]
    assert len(exact.missing(99)) == 0
    assert len(rounded.missing(99)) == 13, "nobody knows yet whether these are they"


@pytest.mark.parametrize(
    "change",
    [
        {"counters": [5, 9, 0]},
        {"counters": [True, 0, 0]},
        {"counters": [2**63, 0, 0]},
        {"basis": np.zeros((D, 2), np.float32)},
        {"basis": np.full((D, 3), np.nan, np.float32)},
        {"change": np.zeros((4, 4), np.float32)},
        {"answers": np.zeros((7, 999))},
        {"change": np.full((3, 3), 3e38, np.float32)},
        {"answers": 3},
        {"points": np.zeros((3, D), np.float32)},
        {"pairs": {}},
        {"pairs": None},
    ],
    ids=str,
)
def test_a_state_that_cannot_be_is_refused(small, change):
    A, B, similar, weight = stream(100)
    learner = OnlineHashing(8, random_state=0).keep_metric().partial_fit_pairs(A, B, similar, weight)
    state = learner.get_state()
    before = files.to_bytes(learner)
    state["metric"] |= change
    with pytest.raises(FormatError):
        learner.set_state(state)
    assert files.to_bytes(learner) == before


def test_weights_and_signs_of_kept_pairs_are_checked(small):
    A, B, similar, weight = stream(100)
    learner = OnlineHashing(8, random_state=0).keep_metric().partial_fit_pairs(A, B, similar, weight)
    for name, value in {"similar": 0, "weight": -1.0, "lengths": -1.0}.items():
        state = learner.get_state()
        state["metric"]["pairs"][name].flat[3] = value
        with pytest.raises(FormatError):
            learner.set_state(state)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_missing_comes_in_the_length_it_had(small, dtype):
    """As far as it is known: files of earlier versions do not say it."""
    rng = np.random.default_rng(0)
    rows, query = rng.standard_normal((5, D)).astype(dtype), rng.standard_normal(D).astype(dtype)
    rows[3] *= np.sqrt(np.finfo(dtype).max) / np.linalg.norm(rows[3]) * 0.9999
    learner = OnlineHashing(8, random_state=0).keep_metric().observe(rows[:2])
    assert learner.pair_metric_.ranking(query, 5).missing(9).shape == (0, D)
    learner.pair_metric_.learn(np.tile(query, (4, 1)), rows[:4], np.array([1, 1, -1, 1], np.int8), np.ones(4))
    ranking = learner.pair_metric_.ranking(query, 5)
    np.testing.assert_allclose(ranking.missing(9), [rows[0], rows[1], 0.99 * rows[3], query], rtol=2e-3)
    assert np.array_equal(ranking.missing(2), ranking.missing(9)[-2:])
    assert np.isfinite(np.square(ranking.missing(9)).sum(axis=1)).all()
    np.testing.assert_allclose(np.linalg.norm(ranking.sought), np.linalg.norm(query), rtol=1e-5)
    assert ranking.sought.dtype == ranking.missing(9).dtype == dtype
    ranking.add(rows[1:3])
    np.testing.assert_allclose(ranking.missing(9)[0], rows[0], rtol=2e-3)
    assert len(ranking.missing(9)) == 3
    state = learner.get_state()
    del state["metric"]["pairs"]["lengths"]
    learner.set_state(state)
    missing = learner.pair_metric_.ranking(query, 5).missing(9)
    np.testing.assert_allclose(np.linalg.norm(missing, axis=1), np.linalg.norm(query), rtol=2e-3)


def test_fit_forgets_and_keeps_on_keeping():
    X = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    learner = OnlineHashing(8, random_state=0).keep_metric().fit(X, np.arange(40) % 2)
    assert learner.pair_metric_.n_pairs == 20
    learner.fit(X, np.arange(40) % 2)
    assert learner.pair_metric_.n_pairs == 20
    assert OnlineHashing(8).fit(X, np.arange(40) % 2).pair_metric_ is None
