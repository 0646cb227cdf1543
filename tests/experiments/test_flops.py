"""Operations of a pair: by hand, and beside a count of what a plain version of the method does."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from onlinehash.experiments.flops import flops_per_pair, state_bytes
from onlinehash.features import RbfAnchors
from onlinehash.learners import registry

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((400, 8)), RNG.integers(3, size=400)  # noise, so that there is always something to learn
ONLINE = [method.name for method in registry.METHODS if method.load().traits.unit != "batch"]
BATCH = [method.name for method in registry.METHODS if method.load().traits.unit == "batch"]


def taught(name, **parameters):
    """A learner that has seen 200 pairs, or their 400 points."""
    learner = registry.find(name)(random_state=0, **parameters)
    if learner.traits.learns_from == "pairs":
        learner.partial_fit_pairs(X[::2], X[1::2], Y[::2] == Y[1::2])
    else:
        learner.partial_fit(X, Y)
    return learner.flush()


class Counted:
    """NumPy with a meter: what the plain version of a method below is written in."""

    def __init__(self):
        self.n = 0

    def dot(self, a, b):
        self.n += 2 * len(a)
        return float(a @ b)

    def add(self, a, factor, b):
        self.n += 2 * len(a)
        return a + factor * b


def counted_online_hashing(learner, n_bits, beta=0.4, C=0.1):
    """OH once more, pair by pair, every operation on vectors counted."""
    np_ = Counted()
    first = registry.find("OH")(n_bits=n_bits, centre="none", random_state=0)
    W = first.partial_fit_pairs(X[:1], X[:1], [True]).projection_.T.copy()  # a pair of equals teaches nothing
    b = beta * n_bits
    for x, z, similar in zip(X[::2], X[1::2], Y[::2] == Y[1::2], strict=True):
        P = np.array([[np_.dot(w, x) for w in W], [np_.dot(w, z) for w in W]])
        differ = (P[0] >= 0) != (P[1] >= 0)
        D = int(differ.sum())
        R = D if similar else max(0.0, b - D)
        if R == 0:
            continue
        wrong = np.flatnonzero(differ == similar)
        n_flips = D if similar else int(np.ceil(b - 1e-9)) - D
        chosen = wrong[np.argsort(np.abs(P[:, wrong]).min(axis=0), kind="stable")][:n_flips]
        squares = np_.dot(x, x), np_.dot(z, z)
        sides = np.where(np.abs(P[0, chosen]) <= np.abs(P[1, chosen]), 0, 1)
        loss = np.sqrt(R) + 2 * np.abs(P[sides, chosen]).sum()
        tau = min(C, loss / (4 * sum(squares[side] for side in sides)))
        for k, side in zip(chosen, sides, strict=True):
            sign = -1 if P[side, k] >= 0 else 1
            W[k] = np_.add(W[k], 2 * tau * sign, (x, z)[side])
    np.testing.assert_allclose(W.T, learner.projection_, rtol=1e-9)  # so it is the same method
    return np_.n / 200


def test_online_hashing_does_what_a_plain_version_counts():
    learner = taught("OH", n_bits=16, centre="none")
    assert learner.n_updates_ > 100
    assert flops_per_pair(learner) == pytest.approx(counted_online_hashing(learner, 16), rel=1e-12)


def test_online_hashing_by_hand():
    learner = taught("OH", n_bits=4)
    u, b = learner.n_updates_ / 200, learner.n_bits_moved_ / 200
    assert 0.3 < u < 1
    assert b > 0.3
    assert flops_per_pair(learner) == pytest.approx(2 * 2 * 8 * 4 + u * 2 * 2 * 8 + b * 2 * 8)


def test_models_multiply_projections_and_anchors_cost_their_distances():
    learner = taught("MMOH", n_bits=4, n_models=3, features=RbfAnchors(20))
    u, b = learner.n_updates_ / 200, learner.n_bits_moved_ / 200
    assert flops_per_pair(learner) == pytest.approx(4 * 8 * 20 + 4 * 20 * 12 + u * 80 + b * 40)


def test_lego_and_adapthash_by_hand():
    lego = taught("LEGO", n_bits=4)
    u, b = lego.n_updates_ / 200, lego.n_bits_moved_ / 200
    assert flops_per_pair(lego) == pytest.approx(2 * 64 + 32 + u * (2 * 64 + 2 * 8 * 4) + b * 16)
    adapt = taught("AdaptHash", n_bits=4)
    u, b, l = adapt.n_updates_ / 200, adapt.n_bits_moved_ / 200, adapt.cumulative_loss_ / 200
    assert flops_per_pair(adapt) == pytest.approx(6 * 8 + 4 * 32 + u * 4 * 16 * 8 + l * 4 * 8 + b * 3 * 8)
    free = taught("AdaptHash", n_bits=4, orthogonality=0.0)
    u, b, l = free.n_updates_ / 200, free.n_bits_moved_ / 200, free.cumulative_loss_ / 200
    assert flops_per_pair(free) == pytest.approx(6 * 8 + 4 * 32 + l * 4 * 8 + b * 3 * 8)


def test_points_with_labels_by_hand():
    for name, of_step in (
        ("HCOH", lambda found: 2 * 8 * found.n_bits_moved_ / 200),
        ("OECC", lambda found: 2 * 8 * found.n_bits_moved_ / 200),
        ("HMOH", lambda found: 4 * 8 * found.cumulative_loss_ / 200),
    ):
        learner = taught(name, n_bits=4)
        assert flops_per_pair(learner) == pytest.approx(2 * (3 * 8 + 2 * 8 * 4) + of_step(learner)), name
    mutual = taught("MIHash", n_bits=4, sample_size=50)
    b = mutual.n_bits_moved_ / 200
    assert flops_per_pair(mutual) == pytest.approx(2 * 24 + 2 * 51 * 2 * 32 + 2 * 50 * 4 * 4 + 16 * b)


def test_chunks_by_hand():
    # A sketch of 4 rows (half: 2) with 8 inputs: Gram 2*16*8, eigenvectors 9*64, the rows 2*2*4*8; it shrinks 50/2
    # times in a chunk of 50. The directions: of 3 rows 2*9*8 + 9*27 + 2*2*3*8, an orthonormal basis 4*8*4, the turn
    # 4*8*2*2 + 4*8*4 + 24*8.
    shrink, directions = 256 + 576 + 128, 144 + 243 + 96 + 128
    turn = 128 + 128 + 192
    expected = 2 / 50 * (2 * 50 * 8 + 25 * shrink + directions + turn)
    assert flops_per_pair(taught("OSH", n_bits=2, sketch_size=4, chunk_size=50)) == pytest.approx(expected)
    fast = 2 / 50 * (2 * 50 * 8 + 64 * 6 * 8 + shrink + directions + turn)
    assert flops_per_pair(taught("FROSH", n_bits=2, sketch_size=4, chunk_size=50)) == pytest.approx(fast)
    spectral = 2 / 50 * (25 * shrink + directions + 2 * 8 * 4)
    assert flops_per_pair(taught("SSBC", n_bits=2, sketch_size=4, chunk_size=50)) == pytest.approx(spectral)
    # 100 rows, 8 features, 4 bits: XW, its bits and products, and the 8 x 8 system.
    regression = 2 * 64 * 100 + 512 / 3 + 2 * 64 * 4 + 2 * 100 * 32
    balanced = 2 / 100 * (2 * 100 * 32 + 4 * 100 * 16 + regression)
    assert flops_per_pair(taught("BSODH", n_bits=4, chunk_size=100)) == pytest.approx(balanced)
    smooth = 6 * 8 + 16 * 32 + 2 * 64 / 8 + 4 * 8 * 8 + 8 * 8 * 4
    assert flops_per_pair(taught("SmoothPairs", n_bits=4, chunk_size=10)) == pytest.approx(smooth)
    blended = 6 * 8 + 14 * 32 + 2 * 64 / 32 + 4 * 8 * 8 + 8 * 8 * 4
    assert flops_per_pair(taught("BlendedPairs", n_bits=4, chunk_size=10)) == pytest.approx(blended)
    mini = taught("MBOH", n_bits=4, chunk_size=10)
    l = mini.cumulative_loss_ / 200
    assert flops_per_pair(mini) == pytest.approx(8 * 32 + 8 * 10 * 8 + (40 + 16) * l)


@pytest.mark.parametrize("name", ONLINE)
def test_every_online_method_has_a_formula_that_grows_with_bits(name):
    narrow, wide = (flops_per_pair(taught(name, n_bits=bits)) for bits in (4, 8))
    assert np.isfinite(narrow)
    if name in ("LSH", "KernelLSH"):
        assert narrow == wide == 0.0
    else:
        assert 0 < narrow < wide or name in ("OnlineSketchingHashing", "FastSketchingHashing")
    with_anchors = flops_per_pair(taught(name, n_bits=4, features=RbfAnchors(30)))
    assert with_anchors >= narrow + 4 * 8 * 30 - 1e-9


@pytest.mark.parametrize("name", BATCH)
def test_batch_methods_have_none(name):
    assert flops_per_pair(registry.find(name)(n_bits=4, random_state=0).fit(X, Y)) is None


def test_none_where_nobody_knows():
    assert flops_per_pair(registry.find("OH")()) is None
    assert flops_per_pair(taught("OH", n_bits=4, features=PCA(3))) is None

    class OnlineHashing(registry.find("OH")):
        """A method of others that took our name."""

    theirs = OnlineHashing(n_bits=4, random_state=0).partial_fit_pairs(X[:2], X[2:4], [True, False])
    assert flops_per_pair(theirs) is None


def test_the_size_of_what_is_kept():
    few, many = (registry.find("OH")(n_bits=4, random_state=0) for _ in range(2))
    few.partial_fit_pairs(X[::2], X[1::2], Y[::2] == Y[1::2])
    for _ in range(20):
        many.partial_fit_pairs(X[::2], X[1::2], Y[::2] == Y[1::2])
    assert state_bytes(few) == state_bytes(many) >= 4 * 8 * 8
    wide = registry.find("OH")(n_bits=8, random_state=0).partial_fit_pairs(X[::2], X[1::2], Y[::2] == Y[1::2])
    assert state_bytes(wide) - state_bytes(few) >= 4 * 8 * 8
    assert state_bytes(wide) < 2 * state_bytes(few)
