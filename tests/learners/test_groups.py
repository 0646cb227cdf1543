"""Groups of points that marks connect: the slow version, what is drawn from them, and when they are not trusted."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from onlinehash.errors import FormatError
from onlinehash.io.format import to_bytes
from onlinehash.learners.group_kernels import KEY, LABEL, WAYS, _first_place, find
from onlinehash.learners.groups import LEAST, N_KEPT, N_KNOWN, Groups
from tests.reference.groups import ReferenceGroups

KEYS = np.random.default_rng(0).standard_normal(40_000)  # of points; their vectors are these numbers, too
SIMILAR = 0.3


def made() -> Groups:
    return Groups(1, np.dtype(np.float64))


def mark(found: Groups, a: Any, b: Any, similar: Any, weights: Any = None) -> None:
    """Marks on points by number, and what `BlendedPairHashing` does after them."""
    a, similar = np.atleast_1d(a), np.atleast_1d(similar)
    keys = KEYS[np.stack([a, np.atleast_1d(b)])]
    weights = np.ones(len(a)) if weights is None else np.asarray(weights)
    found.enter(keys, similar, weights, np.ones(len(a)), SIMILAR)
    found.keep(keys.reshape(-1), keys.reshape(-1, 1))


def members(found: Groups) -> set[frozenset[float]]:
    """The groups, of keys."""
    sets = defaultdict(set)
    for row in np.empty((0, 5)) if found._table is None else found._table.T[found._table[LABEL] >= 0]:
        sets[row[LABEL]].add(float(np.int64(row[KEY]).view(np.float64)))
    return {frozenset(one) for one in sets.values()}


def classes(n_points: int, n_classes: int, n_marks: int, wrong: float = 0.0, seed: int = 1) -> tuple[np.ndarray, ...]:
    """Marks on random points, at least half of them of the same class; and the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_points)
    a, b = rng.integers(0, n_points, (2, n_marks))
    of_classes = [np.flatnonzero(y == c) for c in range(n_classes)]
    for t in np.flatnonzero(rng.random(n_marks) < 0.5):
        b[t] = rng.choice(of_classes[y[a[t]]])
    return a, b, (y[a] == y[b]) ^ (rng.random(n_marks) < wrong), y


@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_the_slow_version_finds_the_same_groups(wrong: float) -> None:
    a, b, similar, _ = classes(240, 3, 5000, wrong)
    found, reference = made(), ReferenceGroups()
    place = {}
    reference.in_order = lambda points: sorted(points, key=place.__getitem__)  # type: ignore[method-assign]
    for t, (i, j, s) in enumerate(zip(a, b, similar, strict=True)):
        found.enter(KEYS[[[i], [j]]], np.array([s]), np.ones(1), np.ones(1), SIMILAR)
        if found._table is None:
            break  # forgotten: the slow version never does
        place.update({KEYS[k]: find(found._table, KEYS[k].view(np.int64)) for k in (i, j)})
        reference.mark(KEYS[i], KEYS[j], bool(s))
        if t % 20 == 0:
            assert members(found) == reference.groups()
            np.testing.assert_allclose(found._inside[0], reference.inside)
            np.testing.assert_allclose(found._between, reference.between)
    assert t > 300
    assert len(place) > 100
    assert (reference.n_moves > 0) == (wrong > 0)


def test_sizes_and_free_labels_are_those_of_the_table() -> None:
    """Also where points make room for others."""
    found = made()
    a, b, similar, _ = classes(len(KEYS), 2000, 30_000)
    mark(found, a, b, similar)
    table = found._table
    assert table is not None
    labels, sizes = np.unique(table[LABEL, table[LABEL] >= 0], return_counts=True)
    np.testing.assert_array_equal(found._sizes[labels], sizes)
    assert found._sizes.sum() == sizes.sum() > 0.9 * N_KNOWN
    free = found._free[: found._counts[0]]
    assert {*free, *labels} == {*range(N_KNOWN)}
    assert len(free) + len(labels) == N_KNOWN


def test_the_point_marked_longest_ago_makes_room() -> None:
    found = made()
    table = found._lay_out()
    start = _first_place(table, KEYS[0].view(np.int64))
    rivals = [i for i in range(len(KEYS)) if _first_place(table, KEYS[i].view(np.int64)) == start][: WAYS + 1]
    others = [i for i in range(200) if i not in rivals]
    for rival, other in zip(rivals[:WAYS], others, strict=False):
        mark(found, rival, other, False)
    mark(found, rivals[0], others[50], False)  # once more
    mark(found, rivals[WAYS], others[51], False)
    assert [find(found._table, KEYS[i].view(np.int64)) >= 0 for i in rivals] == [True, False, *[True] * (WAYS - 1)]


def test_what_is_drawn_follows_from_marks() -> None:
    """Of 10 classes of 40 points, each pair that is drawn is right, and many are of points that nobody marked."""
    found = made()
    a, b, similar, y = classes(400, 10, 3000)
    mark(found, a, b, similar)
    assert found.is_trusted
    points, partners, alike = found.draw(KEYS[:400], 0.5, np.random.default_rng(0))
    number = {key: i for i, key in enumerate(KEYS[:400])}
    others = np.array([number[key] for key in found.X[partners, 0]])
    np.testing.assert_array_equal(y[points] == y[others], alike)
    assert len(points) > 300
    assert 0.4 < alike.mean() < 0.6
    marked = {*zip(a, b, strict=True), *zip(b, a, strict=True)}
    assert sum((i, j) not in marked for i, j in zip(points, others, strict=True)) > 200
    assert (points != others).all()


def test_small_groups_give_nothing() -> None:
    found = made()
    a, b, similar, _ = classes(400, 400 // (LEAST // 2), 3000)
    mark(found, a, b, similar)
    assert found.is_trusted
    assert len(found.draw(KEYS[:400], 0.5, np.random.default_rng(0))[0]) == 0


def on_circle(angles: Any) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_marks_are_on_near_points_or_not(shift: float) -> None:
    """Near is nearer than points that nobody paired, wherever the middle of all points is."""
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 6.28, 1000)
    near, anywhere = a + rng.normal(0, 0.5, 1000), rng.uniform(0, 6.28, 1000)
    keys, differ = rng.random((2, 1000)), rng.random(1000) < 0.5
    for b, expected in ((near, True), (anywhere, False)):
        X = np.vstack([on_circle(a), on_circle(b)]) + np.array([shift, 0])
        found = Groups(2, np.dtype(np.float64))
        assert not found.is_near
        found.look(X / np.linalg.norm(X, axis=1, keepdims=True), keys, ~differ, np.ones(1000))
        assert found.is_near == expected


def test_marks_of_one_page_say_nothing_of_points_that_nobody_paired() -> None:
    """All have the query in common. Nor is anybody unpaired where there is one mark at a time."""
    for n in (10, 1):
        found, keys = Groups(2, np.dtype(np.float64)), np.stack([np.zeros(n), 1.0 + np.arange(n)])
        found.look(on_circle(np.zeros(2 * n)), keys, np.zeros(n, np.bool_), np.ones(n))
        np.testing.assert_array_equal(found._cosines, [[n, n], [0, 0], [0, 0]])
        assert found.is_near
        assert not found.decide_blend


def test_marks_without_weight_and_on_a_point_itself_are_not_looked_at() -> None:
    found, keys = Groups(2, np.dtype(np.float64)), np.arange(8.0).reshape(2, 4)
    keys[1, 0] = keys[0, 0]
    found.look(on_circle(np.zeros(8)), keys, np.zeros(4, np.bool_), np.array([1.0, 0.0, 2.0, 0.0]))
    np.testing.assert_array_equal(found._cosines, [[2, 2], [0, 0], [0, 0]])


def test_similar_marks_alone_do_not_tell() -> None:
    found = Groups(2, np.dtype(np.float64))
    found.look(on_circle(np.zeros(20)), np.arange(20.0).reshape(2, 10), np.ones(10, np.bool_), np.ones(10))
    assert not found.is_near


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_similar_marks_on_far_points_have_no_weight(shift: float) -> None:
    """Far is hardly nearer than points that nobody paired. Dissimilar marks there may be right."""
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 6.28, 1000)
    b, far, similar = a + rng.normal(0, 0.5, 1000), rng.random(1000) < 0.1, rng.random(1000) < 0.5
    b[far] += np.pi
    X = np.vstack([on_circle(a), on_circle(b)]) + np.array([shift, 0])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    found, weights = Groups(2, np.dtype(np.float64)), rng.uniform(0.5, 1, 1000)
    found.look(X, rng.random((2, 1000)), similar, weights)
    nobody = (X[:1000] * np.roll(X[1000:], 500, axis=0)).sum(axis=1).mean()
    left = (X[:1000] * X[1000:]).sum(axis=1) >= nobody + 0.1
    near = found.weights_of_near(found.cosines(X), similar, weights)
    np.testing.assert_array_equal(near, np.where(similar & ~left, 0, weights))
    assert (~left)[far].all() == (shift == 0)
    assert left[~far].mean() > 0.8


@pytest.mark.parametrize("is_looked_at", [True, False])
def test_wrong_marks_on_far_points_join_nothing(is_looked_at: bool) -> None:
    """One mark in fifty calls points of two far classes similar, and no other tells of both. Were they not left out,
    the classes would join."""
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), 100)
    X = np.eye(4)[y] - 0.25 + rng.normal(0, 0.1, (400, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    found = Groups(4, np.dtype(np.float64))
    for k in range(400):
        a = rng.integers(0, 400, 32)
        b = y[a] * 100 + rng.integers(0, 100, 32)
        if k >= 20:
            b = np.where(rng.random(32) < 0.02, (b + 100) % 400, b)
        keys, rows, similar = KEYS[np.stack([a, b])], np.concatenate([X[a], X[b]]), np.ones(32, np.bool_)
        if k == 0:
            found.look(rows, keys, ~similar, np.ones(32))
        cosines = found.cosines(rows)
        near = found.weights_of_near(cosines, similar, np.ones(32)) if is_looked_at else np.ones(32)
        found.enter(keys, similar, near, cosines, 0.9)
    assert (len(members(found)) == 4) == is_looked_at


def test_all_points_kept_are_drawn_alike_however_few() -> None:
    """Also by who has just loaded the file of a version that kept half as many."""
    found = made()
    mark(found, np.zeros(200, np.int64), 1 + np.arange(200), np.ones(200, np.bool_))
    loaded = made()
    loaded.set_state(found.get_state())
    for one in (found, loaded):
        drawn = one.draw(KEYS[:200].repeat(50), 1.0, np.random.default_rng(0))[1]
        assert np.bincount(drawn).max() < 3 * len(drawn) / 200


def test_a_few_wrong_marks_join_no_large_groups() -> None:
    """Two classes that are shown neither together nor with others: nothing but wrong marks, one in 1,000, says anything
    of both."""
    found, rng = made(), np.random.default_rng(1)
    for k in range(100):
        a = rng.integers(0, 400, 100)
        is_wrong = rng.random(100) < 0.001 * (k >= 10)
        b = np.where(is_wrong, (a + 200) % 400, a // 200 * 200 + rng.integers(0, 200, 100))
        mark(found, a, b, np.ones(100, np.bool_))
    assert sizes(found, 2) == pytest.approx([200, 200], abs=3)
    for _ in range(3):  # what many say is no mistake
        a = rng.integers(0, 200, 100)
        mark(found, a, a + 200, np.ones(100, np.bool_))
    assert sizes(found, 1) == [400]


def halves(n: int, wrong: float) -> tuple[np.ndarray, ...]:
    """Marks on two halves of a class that nobody compares, of n points each, and on another class that both are shown
    with, n points, too. Wrong marks are of one kind: they call what is dissimilar similar, and contradict no group."""
    rng = np.random.default_rng(1)
    inside = rng.integers(0, n, (2, 20 * n)) + n * rng.integers(0, 3, 20 * n)
    between = np.stack([rng.integers(0, 2 * n, 1500), rng.integers(2 * n, 3 * n, 1500)])
    a, b = np.concatenate([inside, between], axis=1)
    similar = ((a < 2 * n) == (b < 2 * n)) | (rng.random(len(a)) < wrong)
    order = rng.permutation(len(a))
    return a[order], b[order], similar[order]


@pytest.mark.parametrize(("wrong", "joins_at"), [(0.0, 2), (0.05, 7)])
def test_groups_join_sooner_where_marks_on_different_ones_are_never_wrong(wrong: float, joins_at: int) -> None:
    found = made()
    mark(found, *halves(200, wrong))
    assert sizes(found, 3) == pytest.approx([200, 200, 200], abs=8)
    for k in range(joins_at):
        assert sizes(found, 1)[0] < 220
        mark(found, k, 200 + k, True)
    assert sizes(found, 1)[0] > 390


def test_one_mark_joins_no_large_groups_however_rarely_marks_were_wrong() -> None:
    """Nor does it when it is said again and again, by whoever has said all else again and again before."""
    found = made()
    mark(found, *halves(200, 0.0))
    mark(found, [0] * 1000, [400] * 1000, np.zeros(1000, np.bool_))
    mark(found, [0] * 50, [200] * 50, np.ones(50, np.bool_))
    assert sizes(found, 3) == [200, 200, 200]


def test_repeats_and_weights_tell_nothing_of_how_often_marks_are_wrong() -> None:
    """Of two points in each of two groups, of which one pair is called dissimilar a thousand times, or very much so."""
    once, often, much = made(), made(), made()
    for found in (once, often, much):
        mark(found, [0, 2], [1, 3], np.ones(2, np.bool_))
    mark(once, 0, 2, False)
    mark(often, [0] * 1000, [2] * 1000, np.zeros(1000, np.bool_))
    mark(much, 0, 2, False, [1e6])
    assert once._between.tolist() == often._between.tolist() == much._between.tolist() == [1, 0]


@pytest.mark.parametrize("wrong", [0.0, 0.01])
def test_the_slow_version_joins_large_groups_by_as_many_witnesses(wrong: float) -> None:
    """The joins of `halves`, of which one mark at a time is looked at in the end."""
    a, b, similar = halves(100, wrong)
    late = np.arange(12)
    a, b, similar = np.append(a, late), np.append(b, 100 + late), np.append(similar, np.ones(12, np.bool_))
    found, reference = made(), ReferenceGroups()
    place: dict[float, int] = {}
    reference.in_order = lambda points: sorted(points, key=place.__getitem__)  # type: ignore[method-assign]
    seen = set()
    for t, (i, j, s) in enumerate(zip(a, b, similar, strict=True)):
        found.enter(KEYS[[[i], [j]]], np.array([s]), np.ones(1), np.ones(1), SIMILAR)
        assert found._table is not None
        place.update({KEYS[k]: find(found._table, KEYS[k].view(np.int64)) for k in (i, j)})
        reference.mark(KEYS[i], KEYS[j], bool(s))
        if t % 100 == 0 or t >= len(a) - 12:
            assert members(found) == reference.groups()
            np.testing.assert_allclose(found._between, reference.between)
            seen.add(sizes(found, 1)[0])
    assert any(90 < n < 110 for n in seen)
    assert max(seen) > 190


@pytest.mark.parametrize(("are_classes", "wrong"), [(True, 0.0), (True, 0.01), (False, 0.0)])
def test_groups_are_classes_or_chains_of_neighbours(are_classes: bool, wrong: float) -> None:
    """On a circle, similar is who belongs to the same of four arcs, or who is near. Chains connect both. Some marks
    inside of classes are wrong, too, but not those on far points."""
    rng = np.random.default_rng(3)
    angles = np.sort(rng.uniform(0, 2 * np.pi, 1000))
    X, found, told = on_circle(angles), Groups(2, np.dtype(np.float64)), []
    for _ in range(200):
        a = rng.integers(0, 1000, 50)
        b = (a + rng.integers(-125, 126, 50)) % 1000
        similar = (a // 250 == b // 250) if are_classes else np.abs((a - b + 500) % 1000 - 500) < 60
        similar ^= rng.random(50) < wrong
        rows, keys = np.concatenate([X[a], X[b]]), KEYS[np.stack([a, b])]
        found.look(rows, keys, similar, np.ones(50))
        cosines = found.cosines(rows)
        found.enter(keys, similar, found.weights_of_near(cosines, similar, np.ones(50)), cosines, similar.mean())
        told.append((found.are_classes, found.are_no_classes, found.is_trusted))
    classes, none, trusted = np.mean(told[20:], axis=0)
    assert found._is_surely_near
    if are_classes:
        assert classes > 0.9
        assert trusted > 0.8
        assert none < 0.1
    else:
        assert classes < 0.1
        assert trusted < 0.1
        assert none > 0.9


@pytest.mark.parametrize(("n_wrong", "cosine", "expected"), [(1, -0.9, False), (2, 0.45, False), (20, 0.45, True)])
def test_a_few_wrong_marks_do_not_tell_that_groups_are_no_classes(n_wrong: int, cosine: float, expected: bool) -> None:
    """Of one, nothing follows, however far apart its points are; of two, that is chance."""
    found = made()
    mark(found, np.zeros(200, np.int64), 1 + np.arange(200), np.ones(200, np.bool_))
    found._cosines[:2] = [[50, 100], [60, 100]]
    is_wrong = np.arange(80) < n_wrong
    keys = KEYS[np.stack([1 + np.arange(80), 101 + np.arange(80)])]
    found.enter(keys, ~is_wrong, np.ones(80), np.where(is_wrong, cosine, 0.6), 0.1)
    assert found.are_no_classes == expected


def test_a_few_marks_are_not_surely_on_near_points() -> None:
    found = Groups(2, np.dtype(np.float64))
    for n, expected in ((4, False), (400, True)):
        a = np.linspace(0, 2 * np.pi, n, endpoint=False)
        X = np.concatenate([on_circle(a), on_circle(a + 1.2)])
        found.look(X, np.arange(2.0 * n).reshape(2, n), np.zeros(n, np.bool_), np.ones(n))
        assert (found.is_near, found._is_surely_near) == (True, expected)


def test_groups_are_asked_only_while_marks_are_on_near_points() -> None:
    rng, found = np.random.default_rng(3), Groups(2, np.dtype(np.float64))
    angles = np.sort(rng.uniform(0, 2 * np.pi, 1000))
    for far, expected in ((125, True), (1000, False)):
        for _ in range(200):
            a = rng.integers(0, 1000, 50)
            b = (a + rng.integers(-far, far + 1, 50)) % 1000
            rows, keys, similar = (
                on_circle(angles[np.concatenate([a, b])]),
                KEYS[np.stack([a, b])],
                a // 250 == b // 250,
            )
            found.look(rows, keys, similar, np.ones(50))
            if found.is_near:
                found.enter(keys, similar, np.ones(50), found.cosines(rows), 0.5)
        assert found.are_classes
        assert found.decide_blend == expected


def test_what_groups_are_is_known_after_loading() -> None:
    """Also where marks of late are too few to tell."""
    found, twin = made(), made()
    found.are_no_classes, found._inside[0] = True, [1, 2]
    twin.set_state(found.get_state())
    mark(twin, 1, 2, True)
    assert twin.are_no_classes
    assert not twin.are_classes


def test_strangers_are_told_once() -> None:
    found = made()
    mark(found, [1, 2], [3, 4], [True, False])
    keys = KEYS[[5, 1, 6, 5, 4, 7, 6]]
    np.testing.assert_array_equal(found.strangers(keys), [0, 2, 5])
    mark(found, 5, 6, True)
    np.testing.assert_array_equal(found.strangers(keys), [5])


def test_some_of_the_points_kept_come_with_their_groups() -> None:
    found = made()
    a, b, similar, y = classes(400, 10, 3000)
    mark(found, a, b, similar)
    left_out = KEYS[:200]
    rows, labels = found.some_kept(300, left_out, np.random.default_rng(0))
    number = {key: i for i, key in enumerate(KEYS[:400])}
    points = np.array([number[key] for key in found.X[rows, 0]])
    assert (points >= 200).all()
    assert 100 < len(points) == len({*points}) < 200
    np.testing.assert_array_equal(labels, found.labels(KEYS[points]))
    np.testing.assert_array_equal(labels[:, None] == labels, y[points][:, None] == y[points])


def test_pairs_of_points_kept_follow_from_marks() -> None:
    """Nine of ten that are found look for a similar partner, and both kinds find one."""
    found = made()
    a, b, similar, y = classes(400, 10, 3000)
    mark(found, a, b, similar)
    left, right, alike = found.draw_pairs(1000, np.random.default_rng(0))
    number = {key: i for i, key in enumerate(KEYS[:400])}
    i, j = (np.array([number[key] for key in found.X[side, 0]]) for side in (left, right))
    assert len(alike) > 950
    assert 0.86 < alike.mean() < 0.94
    assert (i != j).all()
    np.testing.assert_array_equal(y[i] == y[j], alike)


def test_few_pairs_of_points_kept_are_of_small_groups() -> None:
    """The same ones would come again and again: of groups of eight, one in sixteen."""
    found = made()
    a, b, similar, _ = classes(400, 50, 6000)
    mark(found, a, b, similar)
    assert found.is_trusted
    assert 30 < len(found.draw_pairs(1000, np.random.default_rng(0))[0]) < 130
    assert made_of_one().draw_pairs(10, np.random.default_rng(0))[0].size == 0


def made_of_one() -> Groups:
    """Nothing to draw from but a point and its like."""
    found = made()
    mark(found, 1, 2, True)
    return found


def test_another_meaning_is_found() -> None:
    """Classes become one that were different: their groups join, though many marks had kept them apart."""
    found = made()
    a, b, similar, y = classes(400, 4, 3000)
    mark(found, a, b, similar)
    assert sizes(found, 4) == pytest.approx(sorted(np.bincount(y)), abs=2)  # a few points had no similar mark
    a, b, _, _ = classes(400, 4, 3000, seed=2)
    mark(found, a, b, y[a] // 2 == y[b] // 2)
    assert sizes(found, 2) == sorted(np.bincount(y // 2))


def sizes(found: Groups, n: int) -> list[int]:
    """Of the largest groups."""
    return sorted(len(one) for one in members(found))[-n:]


def test_heavy_marks_count_for_as_much_in_trust() -> None:
    """By weight, every second mark is dissimilar, inside of groups as elsewhere: they mean nothing."""
    found, rng, was_trusted = made(), np.random.default_rng(3), []
    for _ in range(200):
        similar = rng.random(50) < 0.9
        a, b = rng.integers(0, 300, (2, 50))
        found.enter(KEYS[np.stack([a, b])], similar, np.where(similar, 0.5, 5.0), np.ones(50), 0.5)
        was_trusted.append(found.is_trusted)
    assert np.mean(was_trusted[20:]) < 0.1


def test_marks_without_weight_and_on_a_point_itself_say_nothing() -> None:
    found = made()
    mark(found, [1, 2], [2, 2], [True, True], [0.0, 1.0])
    assert members(found) == set()


def test_only_the_last_points_are_kept() -> None:
    """And only those that are known."""
    found, points = made(), 1 + np.arange(2 * N_KEPT)
    mark(found, np.zeros(2 * N_KEPT, np.int64), points, np.ones(2 * N_KEPT, np.bool_))
    known = [i for i in points if find(found._table, KEYS[i].view(np.int64)) >= 0]
    assert {*found.X[:, 0]} == {*KEYS[known[-N_KEPT:]]}
    mark(found, 0, 5000, True)
    assert KEYS[5000] in found.X[:, 0]


@pytest.mark.parametrize("n", [0, 300, 3000])
def test_a_state_goes_on_as_it_would_have(n: int) -> None:
    a, b, similar, _ = classes(400, 10, 4000)
    found, twin = made(), made()
    if n:
        mark(found, a[:n], b[:n], similar[:n])
    twin.set_state(found.get_state())
    assert to_bytes("groups", twin.get_state()) == to_bytes("groups", found.get_state())
    for one in (found, twin):
        mark(one, a[n:], b[n:], similar[n:])
    assert to_bytes("groups", twin.get_state()) == to_bytes("groups", found.get_state())
    drawn = [one.draw(KEYS[:400], 0.5, np.random.default_rng(0)) for one in (found, twin)]
    for mine, theirs in zip(*drawn, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_state_grows_with_the_points_known_up_to_a_bound() -> None:
    def size(found: Groups) -> int:
        state = found.get_state()
        arrays = [*(state["points"] or {}).values(), *state.get("kept", {}).values()]
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))

    found = made()
    assert size(found) == 0
    a, b, similar, _ = classes(len(KEYS), 2000, 30_000)
    mark(found, a, b, similar)
    assert size(found) <= 6 * 8 * N_KNOWN + 2 * 8 * N_KEPT


def break_places(state: Any) -> None:
    state["points"]["places"] = state["points"]["places"][::-1].copy()


def break_labels(state: Any) -> None:
    state["points"]["rows"][0, LABEL] = -1


def break_number(state: Any) -> None:
    state["points"]["places"][0] = N_KNOWN


def break_twice(state: Any) -> None:
    for name in ("places", "rows"):
        state["points"][name] = np.repeat(state["points"][name], 2, axis=0)


def break_inside(state: Any) -> None:
    state["inside"][0] = 1e308


def break_cosines(state: Any) -> None:
    state["cosines"][0, 0] = np.nan


def break_vectors(state: Any) -> None:
    state["kept"]["X"] = state["kept"]["X"][:-1]


def break_clock(state: Any) -> None:
    state["points"]["clock"] = -1


def break_weight(state: Any) -> None:
    state["inside"][0, 1] = -1


def break_between(state: Any) -> None:
    state["between"][1] = -1


def break_judgement(state: Any) -> None:
    state["points"] = None


DAMAGES = [
    break_places,
    break_labels,
    break_number,
    break_twice,
    break_inside,
    break_cosines,
    break_vectors,
    break_clock,
    break_weight,
    break_between,
    break_judgement,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused(damage: Any) -> None:
    a, b, similar, _ = classes(400, 10, 1000)
    found = made()
    mark(found, a, b, similar)
    state = found.get_state()
    damage(state)
    with pytest.raises(FormatError):
        made().set_state(state)


def test_a_state_from_before_marks_between_groups_were_counted_begins_to_count() -> None:
    a, b, similar, _ = classes(400, 10, 2000)
    found, old = made(), made()
    mark(found, a, b, similar)
    state = found.get_state()
    assert state["between"][0] > 0
    del state["between"]
    old.set_state(state)
    assert members(old) == members(found)
    assert not old._between.any()
