"""What goes in: parameters and data, good and bad."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.decomposition import PCA

from onlinehash import RbfAnchors
from onlinehash.errors import InvalidInput, InvalidParameter, NotIncremental, NotReady
from tests.contracts.contract import BATCH, EVERY, FEW, FROM_LABELS, SEVERAL_LABELS, SUPERVISED, TAKE_PAIRS, each
from tests.support import (
    IN_BOTH_PRECISIONS,
    LEARNERS,
    Labelled,
    Pairs,
    clusters,
    feed,
    go_on,
    make,
    pairs,
    refused,
    refused_without_a_trace,
    refusing,
    state_bytes,
)

D = 5
X = pairs(d=D).A
ONES = np.ones(len(X))
nan, inf = float("nan"), float("inf")

COUNT = [0, -1, 2.5, None, "4"]
SIZE = [1, *COUNT]
POSITIVE = [0, -1, inf, nan, "1", None]
NOT_NEGATIVE = [-1, inf, nan, "0", None]
SHARE = [-0.1, 1.1, nan, "half"]
RATIO = [0, -0.1, 1.5, nan, "0.4", None]
CHOICE = ["max", None, 3]

#: Values that each parameter must refuse, on data of D columns and with n_bits = 8.
BAD: dict[str, list[Any]] = {
    "n_bits": [0, -8, 2.5, "8", None, True, 10**9],
    "features": [3, "rbf", RbfAnchors, RbfAnchors(0), RbfAnchors(anchors=np.ones((3, D + 1))), PCA(2).fit(np.eye(6))],
    "centre": ["mean", None, 3, np.zeros(D)],
    "random_state": [-1, 1.5, "seed", [1, 2]],
    "init": ["normal", None, np.ones((D, 9)), np.full((D, 8), nan), np.zeros((D, 8)), [[1.0], [1.0, 2.0]], object()],
    "similar_radius": [-1, 9, 0.5, None, True],
    "depth": [*COUNT, 11],
    "calibration": [*SIZE, 10**6],
    **dict.fromkeys(("burn_in", "n_rounds", "n_models", "chunk_size", "n_anchors", "n_bins", "n_trees"), COUNT),
    **dict.fromkeys(("n_partners", "n_samples", "n_iterations"), COUNT),
    **dict.fromkeys(("reservoir_size", "first_points", "sketch_size", "sample_size"), SIZE),
    **dict.fromkeys(("C", "step", "sharpness", "similar_weight", "loss_scale", "fit_weight"), POSITIVE),
    **dict.fromkeys(("ridge", "regularization", "penalty"), POSITIVE),
    **dict.fromkeys(("decay", "dissimilar_weight", "orthogonality"), NOT_NEGATIVE),
    **dict.fromkeys(("similar_share", "balance", "stale_share", "radius_ratio"), SHARE),
    **dict.fromkeys(("dissimilar_ratio", "alpha"), RATIO),
    **dict.fromkeys(("fusion", "form"), CHOICE),
}


@each(EVERY)
def test_bad_parameters_are_refused(name: str) -> None:
    for parameter in inspect.signature(LEARNERS[name]).parameters:
        assert parameter in BAD, f"no bad values are known for {parameter}: add some"
        for value in BAD[parameter]:
            learner = make(name, **{parameter: value})
            for call, *args in ((learner.partial_fit_pairs, X, X[::-1], ONES), (learner.fit, X, ONES)):
                error = refused_without_a_trace(learner, call, *args)
                assert isinstance(error, InvalidInput), (parameter, value)


@each(FEW)
def test_parameters_stay_while_learning_goes_on(name: str) -> None:
    """What was learned has their shape. `fit` begins anew, with the new ones."""
    learner = feed(make(name), [pairs()]).set_params(n_bits=4)
    calls: list[Any] = [learner.observe, learner.transform]
    if name in TAKE_PAIRS:
        calls += [lambda X: learner.learn_pair(X[0], X[1], True), lambda X: learner.partial_fit_pairs(X, X, ONES)]
    if name not in BATCH:
        calls += [lambda X: learner.partial_fit(X, ONES)]
    for call in calls:
        assert isinstance(refused_without_a_trace(learner, call, X), InvalidParameter)
    learner.set_params(n_bits=8).observe(X)
    assert learner.set_params(n_bits=4).fit(X, ONES).encode(X).n_bits == 4


def stages(name: str) -> Iterator[Any]:
    """A learner that is fresh; in a stream; and, of a few, while a feature map waits for its anchors."""
    yield make(name)
    yield feed(make(name), [pairs()])
    if name in FEW:
        yield feed(make(name, features=RbfAnchors(1000)), [pairs()])


def spoilt(value: float) -> np.ndarray:
    out = X.copy()
    out[-1, -1] = value
    return out


#: What no call may accept in place of a matrix of vectors.
BAD_MATRICES = [
    spoilt(nan),
    spoilt(inf),
    spoilt(1e200),  # its square overflows
    np.zeros((0, D)),
    X[0],
    "vectors",
    [[1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0]],
    X.astype(complex),
    scipy.sparse.csr_matrix(X),
]


@each(EVERY)
def test_bad_vectors_are_refused_and_change_nothing(name: str) -> None:
    for learner in stages(name):
        check = refusing(learner)
        for bad in BAD_MATRICES:
            check(learner.observe, bad)
            check(go_on(learner), bad, ONES)
            check(learner.transform, bad)
            if name in TAKE_PAIRS:
                check(learner.partial_fit_pairs, bad, X, ONES)
                check(learner.learn_pairs, X, bad, ONES)
        for bad in (X[:, :-1], np.hstack([X, X])) if hasattr(learner, "n_features_in_") else ():
            check(learner.observe, bad)
            check(learner.transform, bad)
            if name in TAKE_PAIRS:
                check(learner.partial_fit_pairs, X, bad, ONES)
                check(learner.learn_pair, bad[0], bad[1], True)


@each(TAKE_PAIRS)
def test_bad_pairs_are_refused_and_change_nothing(name: str) -> None:
    a, b = X[:2]
    long = pairs(n=1200, d=D)  # large batches are checked while they are learned
    long.B[-1, 0] = nan
    for learner in stages(name):
        check = refusing(learner)
        for bad in (X[:2], a[:-1], [], 3, None, "a", a * nan, a * 1e200, [a, a[:2]]):
            check(learner.learn_pair, bad, b, True)
            check(learner.learn_pair, a, bad, True)
        for bad in (np.arange(len(X)) % 3 - 1, 0.5 * ONES, nan * ONES, np.full(len(X), "yes"), ONES[1:], ONES[:, None]):
            check(learner.partial_fit_pairs, X, X[::-1], bad)
        for bad in (-2, 2, 0.5, nan, "yes", None, [True, False]):
            check(learner.learn_pair, a, b, bad)
        for bad in (-ONES, nan * ONES, inf * ONES, ONES[1:], ["a"] * len(X)):
            check(learner.partial_fit_pairs, X, X[::-1], ONES, bad)
        for bad in (-1, nan, inf, "much", [1, 2]):
            check(learner.learn_pair, a, b, True, bad)
        check(learner.partial_fit_pairs, X, X[:-1], ONES)
        check(learner.partial_fit_pairs, long.A, long.B, long.similar)


@each(SUPERVISED)
def test_labels_are_required_and_checked(name: str) -> None:
    bad_ones = [None, ONES[1:], nan * ONES, [[1], [1, 2]], 3]
    if name not in SEVERAL_LABELS:
        bad_ones.append(np.ones((len(X), 2)))
    for learner in stages(name):
        check = refusing(learner)
        for bad in bad_ones:
            check(go_on(learner), X, bad)
            check(learner.fit, X, bad)
        if name in FROM_LABELS:
            assert "fit" in str(check(learner.learn_pair, X[0], X[1], True))
            assert "fit" in str(check(learner.partial_fit_pairs, X, X, ONES))


@each(BATCH)
def test_a_batch_method_does_not_go_on(name: str) -> None:
    for learner in (make(name), feed(make(name), [pairs()])):
        assert isinstance(refused_without_a_trace(learner, getattr, learner, "partial_fit"), NotIncremental)
        assert "fit" in str(refused_without_a_trace(learner, learner.partial_fit_pairs, X, X, ONES))
        assert not hasattr(learner, "partial_fit"), "scikit-learn takes it for a method that can go on"


@each(FEW)
def test_codes_are_refused_before_there_are_functions(name: str) -> None:
    waiting = [] if name in BATCH else [feed(make(name, features=RbfAnchors(1000)), [pairs()])]
    for learner in (make(name), *waiting):
        for call, *args in ((learner.snapshot,), (learner.encode, X), (getattr, learner, "projection_")):
            assert isinstance(refused_without_a_trace(learner, call, *args), NotReady)
    for learner in waiting:
        assert str(1000 - 120) in str(refused(learner.snapshot)), "it says how many points it waits for"


@each(EVERY)
def test_inputs_are_neither_changed_nor_kept(name: str) -> None:
    for features in (None, RbfAnchors(1000), RbfAnchors(anchors=X[:3].copy())):
        learner = make(name, features=features)
        a, b = X[0].copy(), X[1].copy()
        A, B, similar, weight = X[2:9].copy(), X[9:16].copy(), np.ones(7), np.ones(7)
        points, labelled, y = X[16:23].copy(), X[23:30].copy(), np.arange(7) % 2
        given = (a, b, A, B, similar, weight, points, labelled, y)
        copies = [array.copy() for array in given]
        go_on(learner)(labelled, y)
        learner.observe(points)
        if name in TAKE_PAIRS:
            learner.learn_pair(a, b, True)
            learner.partial_fit_pairs(A, B, similar, weight)
        assert all(np.array_equal(array, copy) for array, copy in zip(given, copies, strict=True))
        before = state_bytes(learner)
        for array in given:
            array[:] = 77
        assert state_bytes(learner) == before


# ------------------------------------------------------------------ the same, said in other ways


def strided(array: np.ndarray) -> np.ndarray:
    out = np.zeros((2 * array.shape[0], 3 * array.shape[1]), array.dtype)[::2, ::3]
    out[:] = array
    return out


def memory_mapped(array: np.ndarray) -> np.ndarray:
    with tempfile.TemporaryFile() as file:
        file.write(array.tobytes())
        file.flush()
        return np.memmap(file, array.dtype, "r", shape=array.shape)


@each(FEW)
def test_the_layout_in_memory_does_not_matter(name: str) -> None:
    stream = pairs(n=30, d=17)
    plain = feed(make(name), [stream])
    for layout in (np.asfortranarray, strided, memory_mapped):
        if name in TAKE_PAIRS:
            laid_out: Any = Pairs(layout(stream.A), layout(stream.B), stream.similar, stream.weight)
        else:
            labelled = stream.labelled()
            laid_out = Labelled(layout(labelled.X), labelled.y)
        learner = feed(make(name), [laid_out])
        assert state_bytes(learner) == state_bytes(plain), layout
        assert learner.encode(layout(stream.A)) == plain.encode(stream.A), layout


@each(IN_BOTH_PRECISIONS)
def test_precision_matters_only_at_the_boundary(name: str) -> None:
    """float32 stays float32, float64 stays float64; codes are the same unless a row is near the boundary."""
    single = pairs(n=20, d=9, dtype=np.float32)
    double = Pairs(single.A.astype(float), single.B.astype(float), single.similar, single.weight)
    rows = pairs(n=200, d=9, seed=7, dtype=np.float32).A
    learner32, learner64 = (feed(make(name), [stream]) for stream in (single, double))
    encoder = learner64.snapshot()
    assert (learner32.dtype_, learner64.dtype_) == (np.float32, np.float64)
    assert (learner32.snapshot().weights.dtype, encoder.weights.dtype) == (np.float32, np.float64)
    gaps = np.abs(rows @ encoder.weights.T - encoder.thresholds) / np.linalg.norm(encoder.weights, axis=1)
    far = gaps > 1e-3
    assert far.mean() > 0.95
    assert (learner32.transform(rows) == learner64.transform(rows))[far].all()


@each(["OnlineHashing", "BlendedPairHashing"])
def test_bools_signs_and_whole_numbers_say_the_same(name: str) -> None:
    stream = pairs()
    plain = state_bytes(feed(make(name), [stream]))
    signs = np.where(stream.similar, 1, -1)
    for similar in (signs, signs.astype(float), signs.tolist(), stream.similar.tolist()):
        assert state_bytes(make(name).partial_fit_pairs(stream.A, stream.B, similar)) == plain
    assert state_bytes(make(name).partial_fit_pairs(stream.A.tolist(), stream.B.tolist(), signs)) == plain
    whole = np.round(3 * stream.A).astype(np.int64)
    integers = make(name).partial_fit_pairs(whole, whole[::-1], signs)
    floats = make(name).partial_fit_pairs(whole.astype(float), whole[::-1].astype(float), signs)
    assert state_bytes(integers) == state_bytes(floats)
    mixed, wide = make(name), make(name)
    mixed.learn_pair(X[0].astype(np.float32), X[1], True)
    wide.learn_pair(X[0].astype(np.float32).astype(float), X[1], True)
    assert state_bytes(mixed) == state_bytes(wide), "a pair of both precisions is taken in the wider"


@each(FEW)
def test_labels_may_be_numbers_or_text(name: str) -> None:
    points, y = clusters(40)
    plain = state_bytes(make(name).fit(points, y))
    for labels in (y.astype(float), y.astype(str), y.tolist(), y.astype(str).astype(object)):
        assert state_bytes(make(name).fit(points, labels)) == plain


@each(SEVERAL_LABELS)
def test_points_may_have_several_labels_or_none(name: str) -> None:
    """In any split, and where each has one it is as if that were given; what has none teaches nothing."""
    points, y = clusters(40)
    plain = make(name).fit(points, y)
    assert state_bytes(make(name).fit(points, np.eye(4)[y])) == state_bytes(plain)
    assert plain.score(points, np.eye(4)[y]) == plain.score(points, y)
    before = plain.projection_
    plain.partial_fit(points[:5], np.zeros((5, 4)))
    assert np.array_equal(plain.projection_, before)
    several = np.random.default_rng(0).random((40, 6)) < 0.3
    for features in (None, RbfAnchors(20), RbfAnchors(100)):
        whole = make(name, features=features).partial_fit(points, several)
        cut = make(name, features=features)
        for t in range(40):
            cut.partial_fit(points[t : t + 1], several[t : t + 1])
        assert state_bytes(cut) == state_bytes(whole)
        assert state_bytes(cut.flush()) == state_bytes(whole.flush())
        assert whole.n_updates_ > 0
