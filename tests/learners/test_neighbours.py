"""Neighbours and walks among them: the slow versions, what marks change, and points that nobody marked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from onlinehash.errors import FormatError
from onlinehash.io.format import to_bytes
from onlinehash.learners.group_kernels import leave
from onlinehash.learners.groups import N_COSINES, N_KEPT, Groups
from onlinehash.learners.neighbours import N_NEAREST, STEPS, mutual_neighbours, nearness_of_neighbours
from onlinehash.numeric.dots import pad_rows

D = 12


def on_circle(n: int) -> np.ndarray:
    """Points in order on a circle, in a plane of more dimensions."""
    angles = 2 * np.pi * np.arange(n) / n
    return np.pad(np.stack([np.cos(angles), np.sin(angles)], axis=1), ((0, 0), (0, D - 2)))


def two_classes(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds, of unit length."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, D)) + 3 * np.eye(D)[y]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def keys_of(X: np.ndarray) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(len(X))


def of_unmarked(X: np.ndarray) -> Groups:
    """Groups whose points nobody marked, with neighbours by cosine."""
    found = Groups(D, np.dtype(np.float64))
    found.add_unmarked(keys_of(X), X)
    found.connect(pad_rows(np.eye(D)))
    return found


def mark(found: Groups, X: np.ndarray, a: Any, b: Any, similar: Any) -> None:
    """Marks on these points, which are kept then."""
    rows = np.stack([np.atleast_1d(a), np.atleast_1d(b)])
    cosines = (X[rows[0]] * X[rows[1]]).sum(axis=1)
    found.enter(keys_of(X)[rows], np.atleast_1d(similar), np.ones(rows.shape[1]), cosines, 0.5)
    found.keep(keys_of(X)[rows].reshape(-1), X[rows].reshape(-1, D))


def places(found: Groups, X: np.ndarray, points: Any) -> np.ndarray:
    """Where these points are kept."""
    return np.array([np.flatnonzero(found._kept == key)[0] for key in keys_of(X)[points].view(np.int64)])


def test_neighbours_are_mutual_and_those_of_the_slow_version() -> None:
    X, _ = two_classes(300)
    products = X @ X.T
    nearest = [set(np.argsort(-np.where(np.arange(300) == i, -9, row))[:7]) for i, row in enumerate(products)]
    found = mutual_neighbours(products, 7)
    for i in range(300):
        assert {j for j in found[i] if j >= 0} == {j for j in nearest[i] if i in nearest[j]}
    assert (found == -1).any()


def test_a_few_points_have_few_neighbours() -> None:
    assert (mutual_neighbours(np.ones((1, 1)), 4) == -1).all()
    assert mutual_neighbours(np.eye(2), 3).tolist() == [[1, -1, -1], [0, -1, -1]]


def ends_of(found: Groups, start: int, n: int) -> Counter:
    return Counter(found.walk(np.full(n, start), np.random.default_rng(1)).tolist())


def slow_ends(found: Groups, start: int, differing: set[frozenset[int]], n: int) -> Counter:
    """Ends of walks one by one: `differing` are pairs of points, by place, that no walk connects directly."""
    rng, labels, ends = np.random.default_rng(2), found._labels_of_kept(), Counter()
    for _ in range(n):
        at = start
        for _ in range(rng.integers(1, STEPS + 1)):
            if labels[at] >= 0 and rng.random() < 0.5:
                at = int(rng.choice(np.flatnonzero(labels == labels[at])))
            near = [int(j) for j in found._near[at] if j >= 0 and frozenset((at, int(j))) not in differing]
            at = int(rng.choice(near)) if near else at
        ends[-1 if at == start or frozenset((at, start)) in differing else at] += 1
    return ends


@pytest.mark.parametrize("are_marked", [False, True])
def test_walks_end_as_often_as_those_of_the_slow_version(are_marked: bool) -> None:
    """Among points that nobody marked, and where marks connect two of them and keep two apart."""
    n, n_walks, differing = 60, 8000, set()
    X = on_circle(n)
    found = of_unmarked(X)
    start = 3
    if are_marked:
        mark(found, X, [3, 5, 6], [30, 31, 8], [True, True, False])
        found.connect(pad_rows(np.eye(D)))
        start = int(places(found, X, [3])[0])
        differing = {frozenset(places(found, X, [6, 8]).tolist())}
    mine, theirs = ends_of(found, start, n_walks), slow_ends(found, start, differing, n_walks)
    for end in mine | theirs:
        spread = np.sqrt(mine[end] + theirs[end])
        assert abs(mine[end] - theirs[end]) < 5 * spread
    assert len(mine) > 20
    assert (mine[int(places(found, X, [30])[0])] > 100) == are_marked


def test_walks_do_not_lead_to_what_marks_call_dissimilar() -> None:
    """Marks connect each class, and say that the two differ: walks stay in their class."""
    X, y = two_classes(400)
    found = of_unmarked(X)
    rng = np.random.default_rng(3)
    for c in (0, 1):
        members = np.flatnonzero(y == c)
        mark(found, X, members[:-1], members[1:], np.ones(len(members) - 1, np.bool_))
    a, b = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    mark(found, X, rng.choice(a, 4000), rng.choice(b, 4000), np.zeros(4000, np.bool_))
    found.connect(pad_rows(np.eye(D)))
    rows = {key: row for row, key in enumerate(keys_of(X).view(np.int64).tolist())}
    of_kept = y[[rows[key] for key in found._kept[: found.n_kept].tolist()]]
    left, right, alike = found.draw_walks(4000, rng)
    assert (of_kept[left] == of_kept[right])[alike].mean() > 0.97
    assert not (of_kept[left] == of_kept[right])[~alike].any()
    assert 0.41 < alike.mean() < 0.51  # two points of the same class, half of those drawn, are known to be no others


def test_pairs_that_walks_tell_are_other_points_that_are_kept() -> None:
    X, y = two_classes(500)
    found = of_unmarked(X)
    left, right, alike = found.draw_walks(3000, np.random.default_rng(4))
    assert (left != right).all()
    assert max(left.max(), right.max()) < found.n_kept == 500
    assert 0.25 < alike.mean() < 0.35
    assert (y[left] == y[right])[alike].mean() > 0.9
    assert 0.4 < (y[left] == y[right])[~alike].mean() < 0.6


def test_points_that_nobody_marked_are_replaced_first() -> None:
    X, _ = two_classes(N_KEPT + 500)
    found = Groups(D, np.dtype(np.float64))
    mark(found, X, [0, 1], [2, 3], [True, True])
    found.add_unmarked(keys_of(X)[2 : N_KEPT + 2], X[2 : N_KEPT + 2])
    assert found.n_kept == N_KEPT
    assert len(set(found._kept.tolist())) == N_KEPT
    unmarked = found._kept[4:].copy()
    later = np.arange(N_KEPT, N_KEPT + 100)
    mark(found, X, later, later + 200, np.ones(100, np.bool_))
    assert np.isin(keys_of(X)[:4].view(np.int64), found._kept).all()
    assert np.isin(keys_of(X)[later].view(np.int64), found._kept).all()
    assert not np.isin(unmarked[:150], found._kept).any()


def test_the_same_point_is_kept_once() -> None:
    X, _ = two_classes(20)
    found = Groups(D, np.dtype(np.float64))
    found.add_unmarked(np.repeat(keys_of(X), 3), np.repeat(X, 3, axis=0))
    assert found.n_kept == 20
    np.testing.assert_array_equal(found.X[:20], X)


@pytest.mark.parametrize("n", [0, 10, 3000])
def test_points_that_were_added_can_be_left_out_again(n: int) -> None:
    """Also where there was no other point, or no more room."""
    X, _ = two_classes(N_KEPT + 3000)
    found, twin = (Groups(D, np.dtype(np.float64)) for _ in range(2))
    for one in (found, twin):
        mark(one, X, np.arange(n // 2), np.arange(n // 2, n // 2 * 2), np.ones(n // 2, np.bool_))
    n_marked = found.n_kept
    found.add_unmarked(keys_of(X)[-1000:], X[-1000:])
    found.connect(pad_rows(np.eye(D)))
    found.keep_first(n_marked)
    for one in (found, twin):
        mark(one, X, np.arange(3000, 3100), np.arange(3100, 3200), np.ones(100, np.bool_))
    assert not found.has_neighbours
    assert to_bytes("groups", found.get_state()) == to_bytes("groups", twin.get_state())


def test_a_point_that_is_replaced_is_a_neighbour_of_none() -> None:
    X, _ = two_classes(N_KEPT + 100)
    found = of_unmarked(X[:N_KEPT])
    near = found._near[0, 0]
    assert near >= 0
    assert 0 in found._near[near]
    found.keep(keys_of(X)[:0], X[:0])
    found.enter(keys_of(X)[[[-1], [-2]]], np.array([True]), np.ones(1), np.ones(1), 0.5)
    found.keep(keys_of(X)[-1:], X[-1:])
    assert (found._near[0] == -1).all()
    assert 0 not in found._near
    found.connect(pad_rows(np.eye(D)))
    assert (found._near[0] >= 0).any()


def test_points_kept_and_their_neighbours_outlast_groups() -> None:
    """Marks that contradict groups say nothing against walks; also not after loading."""
    X, _ = two_classes(200)
    found, rng = of_unmarked(X), np.random.default_rng(3)
    mark(found, X, np.arange(50), np.arange(50) + 1, np.ones(50, np.bool_))
    before, near = found.n_kept, found._near.copy()
    assert (found._labels_of_kept() >= 0).sum() == 51
    for _ in range(2):
        mark(found, X, *rng.integers(0, 51, (2, 40)), np.zeros(40, np.bool_))
    assert not found.is_trusted
    assert not found.are_classes
    assert found._inside.sum() == 0
    assert found.has_neighbours
    assert found.n_kept == before
    np.testing.assert_array_equal(found._near, near)
    twin = Groups(D, np.dtype(np.float64))
    twin.set_state(found.get_state())
    for one in (found, twin):
        left, right, alike = one.draw_walks(500, np.random.default_rng(4))
        assert alike.sum() > 100
        mark(one, X, left, right, alike)
    assert to_bytes("groups", found.get_state()) == to_bytes("groups", twin.get_state())


def test_a_state_whose_groups_were_forgotten_has_no_known_points() -> None:
    X, _ = two_classes(50)
    found, twin = of_unmarked(X), Groups(D, np.dtype(np.float64))
    twin.set_state(found.get_state())
    assert (twin._labels_of_kept() == -1).all()
    assert twin.n_kept == 50
    assert twin.has_neighbours


def test_partners_are_not_the_first_after_points_that_nobody_marked() -> None:
    X, _ = two_classes(N_KEPT)
    found = Groups(D, np.dtype(np.float64))
    mark(found, X, np.zeros(60, np.int64), 1 + np.arange(60), np.ones(60, np.bool_))
    found.add_unmarked(keys_of(X)[61:], X[61:])
    for partners in (
        found.draw(keys_of(X)[:61].repeat(50), 1.0, np.random.default_rng(0))[1],
        found.draw_pairs(3000, np.random.default_rng(0))[1],
    ):
        assert np.bincount(partners, minlength=61).max() < 3 * len(partners) / 61
        assert (np.bincount(partners, minlength=61) > 0).all()


def test_leaving_is_that_of_the_slow_version() -> None:
    X, _ = two_classes(100)
    near = mutual_neighbours(X @ X.T, N_NEAREST)
    expected = np.where(near == 7, -1, near)
    expected[7] = -1
    leave(near, 7)
    np.testing.assert_array_equal(near, expected)


def test_walks_go_on_after_loading_as_they_would_have() -> None:
    """Whatever number groups have."""
    X, y = two_classes(600)
    found, twin, rng = of_unmarked(X), Groups(D, np.dtype(np.float64)), np.random.default_rng(6)
    a, b = rng.integers(0, 600, (2, 900))
    mark(found, X, a, b, y[a] == y[b])
    twin.set_state(found.get_state())
    assert twin.has_neighbours
    for _ in range(2):
        drawn = [one.draw_walks(2000, np.random.default_rng(7)) for one in (found, twin)]
        for mine, theirs in zip(*drawn, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        for one in (found, twin):
            mark(one, X, b, a, y[a] == y[b])
    assert to_bytes("groups", found.get_state()) == to_bytes("groups", twin.get_state())


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("near", lambda near: near[:-1]),
        ("near", lambda near: near[:, 1:]),
        ("near", lambda near: np.where(near == 0, 50, near)),
        ("near", lambda near: near - 1),
        ("near", lambda near: near.astype(np.float64) + 0.5),
        ("counted", lambda counted: -1 - counted),
        ("counted", lambda counted: counted[:, 1:]),
        ("counted", lambda counted: counted * np.nan),
    ],
)
def test_damaged_neighbours_are_refused(name: str, damaged: Any) -> None:
    X, _ = two_classes(50)
    state = of_unmarked(X).get_state()
    state[name] = damaged(state[name])
    with pytest.raises(FormatError):
        Groups(D, np.dtype(np.float64)).set_state(state)


def test_a_damaged_list_of_points_kept_is_refused() -> None:
    """One without a point, which would make the list shorter than neighbours say, or a gap after it."""
    X, _ = two_classes(50)
    state = of_unmarked(X).get_state()
    kept = state["kept"]
    for damaged in (
        kept | {"keys": np.where(np.arange(50) % 2, kept["keys"], np.iinfo(np.int64).min)},
        kept | {"next": 51},
    ):
        with pytest.raises(FormatError):
            Groups(D, np.dtype(np.float64)).set_state(state | {"kept": damaged})


def test_a_state_from_before_there_were_walks_has_no_neighbours() -> None:
    X, _ = two_classes(50)
    state = of_unmarked(X).get_state()
    del state["near"], state["counted"]
    found = of_unmarked(X)
    found.set_state(state)
    assert not found.has_neighbours
    assert not found._counted.any()


@pytest.mark.parametrize(("noise", "tell"), [(0.0, True), (0.02, True), (0.5, False)])
def test_cosines_alone_tell_where_near_means_similar(noise: float, tell: bool) -> None:
    found, rng = Groups(D, np.dtype(np.float64)), np.random.default_rng(8)
    assert not found.cosines_tell
    for _ in range(10):
        cosines = rng.uniform(0.3, 1, 50)
        similar = cosines + noise * rng.standard_normal(50) > 0.7
        found.enter(rng.standard_normal((2, 50)), similar, np.ones(50), cosines, 0.5)
    assert found.cosines_tell == tell
    assert found._counted.shape == (2, N_COSINES)
    assert found._counted.sum() == pytest.approx(sum(50 * 0.5 ** (50 * k / 1000) for k in range(10)))


@pytest.mark.parametrize("cosine", [0.2, 0.5, 0.8])
def test_the_share_of_similar_marks_at_a_cosine_is_that_of_two_normal_distributions(cosine: float) -> None:
    """Two in three marks are similar, at 0.6 on average; the others are at 0.4."""
    rng, found = np.random.default_rng(9), Groups(D, np.dtype(np.float64))
    similar = rng.random(20_000) < 2 / 3
    cosines = np.where(similar, 0.6, 0.4) + 0.12 * rng.standard_normal(20_000)
    found.enter(rng.standard_normal((2, 20_000)), similar, np.ones(20_000), cosines, 0.5)
    agree, differ = (share * np.exp(-(((cosine - at) / 0.12) ** 2) / 2) for share, at in ((2, 0.6), (1, 0.4)))
    assert found.similar_at(cosine) == pytest.approx(agree / (agree + differ), abs=0.02)


def test_without_marks_that_differ_all_are_similar() -> None:
    found = Groups(D, np.dtype(np.float64))
    assert found.similar_at(0.5) == 0
    keys = np.random.default_rng(0).standard_normal((3, 2, 4))
    found.enter(keys[0], np.ones(4, np.bool_), np.ones(4), np.full(4, 0.9), 0.5)
    assert found.similar_at(-1.0) == 1
    found.enter(keys[1], np.zeros(4, np.bool_), np.ones(4), np.full(4, 0.2), 0.5)
    assert found.similar_at(0.1) < 0.01
    found.enter(keys[2], np.zeros(4, np.bool_), np.full(4, 1e6), np.full(4, 0.95), 0.5)
    assert found.similar_at(-1.0) < 1e-5  # the dissimilar ones are nearer: cosines tell nothing


@pytest.mark.parametrize("weights", [(1e-318, 1e5), (1e5, 1e-318)])
def test_weights_as_small_as_they_can_be_say_nothing(weights: tuple[float, float]) -> None:
    found, similar = Groups(D, np.dtype(np.float64)), np.arange(8) < 4
    found.enter(
        np.random.default_rng(0).standard_normal((2, 8)), similar, np.where(similar, *weights), np.full(8, 0.5), 0.5
    )
    assert found.similar_at(0.5) == pytest.approx(float(weights[0] > 1))


def test_marks_of_a_point_on_itself_say_nothing_of_cosines() -> None:
    found, keys = Groups(D, np.dtype(np.float64)), np.arange(8.0).reshape(2, 4)
    keys[1, 0] = keys[0, 0]
    found.enter(keys, np.array([True, True, False, True]), np.ones(4), np.array([1.0, 0.5, 0.5, 0.5]), 0.5)
    assert found.n_counted == 3
    assert found.similar_at(0.5) == pytest.approx(2 / 3)


def test_the_nearness_of_neighbours_is_their_mean_cosine() -> None:
    X = on_circle(720)
    steps = np.repeat(np.arange(1, N_NEAREST // 2 + 1), 2) * np.pi / 360
    assert nearness_of_neighbours(pad_rows(np.eye(D)), X) == pytest.approx(np.cos(steps).mean())
    assert nearness_of_neighbours(pad_rows(np.eye(D)), X[:1]) == 1
