"""Damping: against P² formed from all eigenvectors, and what its docstring promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.errors import FormatError
from onlinehash.learners.damping import MOST_KEPT, N_DIRECTIONS, WINDOW, Damping
from tests.reference.smooth_pairs import damped
from tests.support import as_bytes


def rows(n: int, values: Any, seed: int = 0) -> np.ndarray:
    """Normal points with these variances along random axes, which are the same for every n."""
    d = len(values)
    axes = np.linalg.qr(np.random.default_rng(99).standard_normal((d, d)))[0]
    return np.random.default_rng(seed).standard_normal((n, d)) * np.sqrt(values) @ axes


def gapped(d: int) -> np.ndarray:
    """Variances of which 32 stand out."""
    return np.concatenate([np.linspace(4, 40, N_DIRECTIONS), np.full(d - N_DIRECTIONS, 0.02)])


def fresh(d: int, seed: int = 0) -> Damping:
    return Damping(d, np.random.default_rng(seed))


def found(X: np.ndarray, looks: int = 4) -> Damping:
    damping = fresh(X.shape[1])
    damping.enter(X)
    for _ in range(looks):
        damping.find_directions()
    return damping


def wide(damping: Damping, G: np.ndarray) -> np.ndarray:
    """Rows of G with their coordinates."""
    rows = damping.widened(G)
    damping.complete(rows)
    return rows


def squared(damping: Damping, G: np.ndarray) -> np.ndarray:
    """P² g of each row g, which is how far a step goes against it."""
    return damping.factor * damping.joined(damping.signs * wide(damping, G))


def lengths(damping: Damping, G: np.ndarray) -> np.ndarray:
    """|P g|² of each row g."""
    return damping.factor * (damping.signs * wide(damping, G) ** 2).sum(axis=1)


def second_moments(damping: Damping) -> np.ndarray:
    """C, of which a damping keeps the lower half."""
    lower = np.tril(damping.get_state()["C"])
    return lower + np.tril(lower, -1).T


def test_against_all_eigenvectors_where_it_keeps_some() -> None:
    X = rows(1000, gapped(80))
    damping = found(X)
    P, P2 = damped(X.T @ X / len(X), N_DIRECTIONS)
    np.testing.assert_allclose(squared(damping, np.eye(80)), P2, rtol=0, atol=1e-9 * np.abs(P2).max())
    np.testing.assert_allclose(damping.once(np.eye(80)), P, rtol=0, atol=1e-9 * np.abs(P).max())


def test_one_look_is_nearly_enough_where_directions_stand_out() -> None:
    X = rows(1000, gapped(80))
    P2 = damped(X.T @ X / len(X), N_DIRECTIONS)[1]
    np.testing.assert_allclose(squared(found(X, looks=1), np.eye(80)), P2, rtol=0, atol=1e-4 * np.abs(P2).max())


@pytest.mark.parametrize("d", [1, 2, 7, N_DIRECTIONS])
@pytest.mark.parametrize("n", [3, 200])
def test_against_all_eigenvectors_where_it_keeps_all(d: int, n: int) -> None:
    X = rows(n, np.geomspace(1, 1e-3, d), seed=d)
    P, P2 = damped(X.T @ X / n, d)
    damping = found(X, looks=1)
    np.testing.assert_allclose(squared(damping, np.eye(d)), P2, rtol=0, atol=1e-10 * np.abs(P2).max())
    np.testing.assert_allclose(damping.once(np.eye(d)), P, rtol=0, atol=1e-10 * np.abs(P).max())


@pytest.mark.parametrize("d", [5, 40, 100])
def test_its_three_products_are_of_one_matrix(d: int) -> None:
    damping = found(rows(300, np.geomspace(1, 1e-2, d)), looks=1)
    G = np.random.default_rng(1).standard_normal((6, d))
    np.testing.assert_allclose(damping.once(damping.once(G)), squared(damping, G), atol=1e-12 * np.abs(G).max() * d)
    np.testing.assert_allclose(lengths(damping, G), (damping.once(G) ** 2).sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(lengths(damping, G), np.einsum("kd,kd->k", G, squared(damping, G)), rtol=1e-10)


@pytest.mark.parametrize("d", [5, 40, 100])
def test_a_wide_function_has_the_product_of_what_it_stands_for(d: int) -> None:
    damping, rng = found(rows(300, np.geomspace(1, 1e-2, d)), looks=1), np.random.default_rng(1)
    X, W = wide(damping, rng.standard_normal((7, d))), damping.zeros(6)
    W[:] = rng.standard_normal(W.shape)
    W[:, d : -N_DIRECTIONS if d > N_DIRECTIONS else 16] = 0  # between the two parts there is nothing
    np.testing.assert_allclose(X @ W.T, X[:, :d] @ damping.joined(W).T, atol=1e-12)
    assert as_bytes(damping.of_parts(*damping.parts(X))) == as_bytes(X)


def test_rows_to_write_into_are_kept_unless_they_are_many() -> None:
    damping = fresh(5)
    damping.rows(64)
    assert np.shares_memory(damping.rows(20), damping.rows(64))
    kept = damping.rows(MOST_KEPT)
    many = damping.rows(MOST_KEPT + 1)
    assert many.shape == (MOST_KEPT + 1, kept.shape[1])
    assert not np.shares_memory(many, damping.rows(1))
    assert np.shares_memory(kept, damping.rows(1))


@pytest.mark.parametrize("looks", [1, 4])
@pytest.mark.parametrize("d", [3, 32, 33, 100])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_points_have_unit_length_on_average(d: int, scale: float, looks: int) -> None:
    """Even where directions are not yet found exactly."""
    X = scale * rows(200, np.geomspace(1, 1e-2, d))
    assert np.mean(np.sum(found(X, looks).once(X) ** 2, axis=1)) == pytest.approx(1, rel=1e-9)


def test_the_scale_of_points_does_not_matter() -> None:
    X = rows(400, gapped(50))
    one, other = found(X), found(1000 * X)
    np.testing.assert_allclose(other.once(1000 * X), one.once(X), atol=1e-8)


def test_leading_directions_are_shortened_and_no_other() -> None:
    X = rows(2000, np.concatenate([[100.0], np.ones(59)]))
    damping = found(X)
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    stretch = np.sqrt(lengths(damping, vectors.T[::-1]))
    assert stretch[0] < 0.55 * stretch[1]
    assert stretch[1:].max() < 1.1 * stretch[1:].min()
    mean, rest = values.mean(), np.median(values)
    assert (stretch[0] / stretch[-1]) ** 2 == pytest.approx((rest + 10 * mean) / (values[-1] + 10 * mean), rel=0.05)


def test_directions_get_better_from_look_to_look() -> None:
    """Each look begins where the one before ended."""
    X = rows(500, np.geomspace(1, 1e-1, 120))
    P2 = damped(X.T @ X / len(X), N_DIRECTIONS)[1]
    errors = [np.abs(squared(found(X, looks), np.eye(120)) - P2).max() for looks in (1, 4, 16)]
    assert errors[2] < 0.7 * errors[1]
    assert errors[1] < 0.7 * errors[0]


def test_rows_in_parts_are_all_rows() -> None:
    X = rows(900, np.geomspace(1, 1e-2, 20))
    parts = fresh(20)
    for part in np.split(X, [1, 7, 300, 301, 800]):
        parts.enter(part)
    np.testing.assert_allclose(second_moments(parts), X.T @ X / len(X), atol=1e-13)


def test_old_rows_are_forgotten() -> None:
    old, new = rows(WINDOW, [1.0, 1e-6, 1e-6]), rows(5 * WINDOW, [1e-6, 1e-6, 1.0], seed=1)
    damping = fresh(3)
    for part in np.split(old, 20):
        damping.enter(part)
    np.testing.assert_allclose(second_moments(damping), old.T @ old / WINDOW, atol=1e-12)
    for part in np.split(new, 100):
        damping.enter(part)
    left = (1 - 1000 / WINDOW) ** 100
    C = second_moments(damping)
    assert left < 0.01
    np.testing.assert_allclose(C, new.T @ new / len(new) + left * (old.T @ old) / WINDOW, atol=0.02)


def test_more_rows_at_one_time_than_the_window_holds() -> None:
    damping = fresh(4)
    for seed in range(3):
        X = rows(2 * WINDOW, [1.0, 0.5, 0.1, 0.01], seed)
        damping.enter(X)
        np.testing.assert_allclose(second_moments(damping), X.T @ X / len(X), atol=1e-12)


def test_no_directions_without_points() -> None:
    damping = fresh(40)
    for X in (np.zeros((8, 40)), rows(1, np.ones(40))):
        assert not damping.has_directions
        damping.enter(X)
        damping.find_directions()
    assert damping.has_directions
    np.testing.assert_array_equal(np.isfinite(squared(damping, np.eye(40))), True)


def test_points_on_a_line() -> None:
    x = rows(1, np.ones(50))
    X = np.random.default_rng(0).standard_normal((100, 1)) * x
    damping = found(X, looks=1)
    P2 = damped(X.T @ X / 100, N_DIRECTIONS)[1]
    np.testing.assert_allclose(squared(damping, np.eye(50)), P2, rtol=0, atol=1e-9 * np.abs(P2).max())
    G = np.random.default_rng(1).standard_normal((4, 50))
    assert (lengths(damping, G) > 0).all()


def test_float32_stays() -> None:
    X, G = rows(300, gapped(60)), np.random.default_rng(0).standard_normal((3, 60))
    exact, single = found(X), Damping(60, np.random.default_rng(0), np.float32)
    single.enter(X.astype(np.float32))
    for loaded in (False, True):  # a state read back goes on in the same precision
        if loaded:
            single.set_state(single.get_state())
        for _ in range(4):
            single.find_directions()
        for product in (squared, Damping.once, lengths):
            got, expected = product(single, G.astype(np.float32)), product(exact, G)
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_state() -> None:
    X = rows(300, gapped(60))
    straight, begun, goes_on = fresh(60), fresh(60), fresh(60, seed=5)
    for damping in (straight, begun):
        damping.enter(X[:100])
        damping.find_directions()
    goes_on.set_state(begun.get_state())
    for damping in (straight, goes_on):
        damping.enter(X[100:])
        damping.find_directions()
    assert as_bytes(goes_on.get_state()) == as_bytes(straight.get_state())
    state = straight.get_state()
    for change in ({"n_rows": -1}, {"q0": -1.0}, {"q0": np.inf}, {"D": np.full(N_DIRECTIONS, 2.0)}, {"C": np.eye(3)}):
        with pytest.raises((FormatError, ValueError)):
            fresh(60).set_state(state | change)
