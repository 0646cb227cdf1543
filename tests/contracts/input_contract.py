"""What goes in: parameters and data, good and bad."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from onlinehash import RbfAnchors
from onlinehash.errors import InvalidInput, InvalidParameter, NotIncremental, NotReady
from tests.contracts.contract import batch, contract, contract_of, from_labels, several_labels, supervised, takes_pairs
from tests.support import (
    LEARNERS,
    Labelled,
    Pairs,
    clusters,
    feed,
    go_on,
    make,
    pairs,
    precisions,
    refused,
    refused_without_a_trace,
    refusing,
    state_bytes,
)

D = 5
X = pairs(d=D).A
ONES = np.ones(len(X))
nan, inf = float("nan"), float("inf")

#: Values that each parameter must refuse, on data of D columns and with n_bits = 8.
BAD: dict[str, list[Any]] = {
    "n_bits": [0, -8, 2.5, "8", None, True, 10**9],
    "features": [
        3,
        "rbf",
        {},
        RbfAnchors,
        RbfAnchors(0),
        RbfAnchors(width=-1),
        RbfAnchors(normalize="yes"),
        RbfAnchors(anchors="many"),
        RbfAnchors(anchors=np.ones((3, D + 1))),
        RbfAnchors(anchors=np.full((3, D), nan)),
        PCA(2).fit(np.eye(D + 1)),
    ],
    "centre": ["mean", None, 3, np.zeros(D)],
    "burn_in": [0, -1, 2.5, "10", None],
    "random_state": [-1, 1.5, "seed", [1, 2]],
    "similar_share": [-0.1, 1.1, "half", nan],
    "reservoir_size": [1, -1, 2.5, None],
    "similar_radius": [-1, 9, 0.5, None, True],
    "dissimilar_ratio": [0, -0.1, 1.5, nan, "0.4", None],
    "C": [0, -1, inf, nan, "0.1", None],
    "n_rounds": [0, -1, 1.5, None],
    "init": [
        "normal",
        None,
        3,
        np.ones((D, 9)),
        np.ones((D + 1, 8)),
        np.full((D, 8), nan),
        np.zeros((D, 8)),
        np.full((D, 8), "a"),
        [[1.0], [1.0, 2.0]],
        object(),
    ],
    "n_models": [0, -1, 1.5, None, "4"],
    "chunk_size": [0, -1, 2.5, None, "4"],
    "first_points": [0, 1, -1, 2.5, None, "4"],
    "balance": [-0.1, 1.1, nan, None, "half"],
    "stale_share": [-0.1, 1.1, nan, None, "half"],
    "sketch_size": [0, 1, -4, 2.5, None, "200"],
    "n_anchors": [0, -1, 2.5, None, "300"],
    "fusion": ["max", None, 3],
    "step": [0, -1, inf, nan, "0.1", None],
    "form": ["exponential", None, 3],
    "sample_size": [1, -1, 2.5, None, "200"],
    "n_bins": [0, -1, 2.5, None, "16"],
    "sharpness": [0, -1, inf, nan, "10", None],
    "decay": [-1, inf, nan, "0", None],
    "similar_weight": [0, -1, inf, nan, "1", None],
    "dissimilar_weight": [-1, inf, nan, "1", None],
    "calibration": [1, -1, 2.5, None, "500", 10**6],
    "radius_ratio": [-0.1, 1.5, nan, "0.35", None],
    "loss_scale": [0, -1, inf, nan, "3", None],
    "alpha": [0, -0.1, 1.5, nan, "0.9", None],
    "orthogonality": [-1, inf, nan, "0.1", None],
    "fit_weight": [0, -1, inf, nan, "1", None],
    "ridge": [0, -1, inf, nan, "1", None],
    "n_trees": [0, -1, 2.5, None, "100"],
    "depth": [0, -1, 11, 2.5, None, "4"],
    "n_partners": [0, -1, 2.5, None, "10"],
    "n_samples": [0, -1, 2.5, None, "100"],
    "n_iterations": [0, -1, 1.5, None, "50"],
    "regularization": [0, -1, inf, nan, "1", None],
    "penalty": [0, -1, inf, nan, "1", None],
}


@contract
def parameters_are_stored_untouched(name: str) -> None:
    values = {key: object() for key in inspect.signature(LEARNERS[name]).parameters}
    learner = LEARNERS[name](**values)
    assert learner.get_params(deep=False) == values
    assert vars(learner) == values, "the constructor does more than to store"
    learner = make(name)
    before = learner.get_params(deep=False)
    feed(learner, [pairs()]).transform(X)
    after = learner.get_params(deep=False)
    assert before.keys() == after.keys()
    assert all(before[key] is after[key] for key in before)


@contract
def features_given_as_a_parameter_are_never_touched(name: str) -> None:
    for features in (RbfAnchors(3), StandardScaler()):
        feed(make(name, features=features), [pairs()]).flush()
        assert vars(features) == vars(clone(features))


@contract
def a_clone_has_the_parameters_and_nothing_learned(name: str) -> None:
    learner = feed(make(name, features=RbfAnchors(3)), [pairs()])
    twin = clone(learner)
    assert twin.get_state() == {}
    assert state_bytes(feed(twin, [pairs()])) == state_bytes(learner)


@contract
def bad_parameters_are_refused(name: str) -> None:
    for parameter in inspect.signature(LEARNERS[name]).parameters:
        assert parameter in BAD, f"no bad values are known for {parameter}: add some"
        good = make(name).get_params(deep=False)[parameter]
        for value in BAD[parameter]:
            learner = make(name, **{parameter: value})
            for call, *args in (
                (learner.learn_pair, X[0], X[1], True),
                (learner.partial_fit_pairs, X, X[::-1], ONES),
                (learner.observe, X),
                (learner.fit, X, ONES),
            ):
                error = refused_without_a_trace(learner, call, *args)
                assert isinstance(error, InvalidInput), (parameter, value)
        feed(learner.set_params(**{parameter: good}), [pairs(d=D)])


@contract
def parameters_stay_while_learning_goes_on(name: str) -> None:
    """What was learned has their shape. `fit` begins anew, with the new ones."""
    learner = feed(make(name), [pairs()])
    learner.set_params(n_bits=4)
    calls: list[tuple[Any, ...]] = [(learner.observe, X), (learner.transform, X)]
    if takes_pairs(type(learner)):
        calls += [(learner.learn_pair, X[0], X[1], True), (learner.partial_fit_pairs, X, X, ONES)]
    if not batch(type(learner)):
        calls += [(learner.partial_fit, X, ONES)]
    for call, *args in calls:
        assert isinstance(refused_without_a_trace(learner, call, *args), InvalidParameter)
    learner.set_params(n_bits=8).observe(X)
    assert learner.set_params(n_bits=4).fit(X, ONES).encode(X).n_bits == 4


def learners_at_every_stage(name: str) -> Iterator[Any]:
    """Fresh; in a stream of each precision; while a feature map waits; when it no longer does."""
    yield make(name)
    for dtype in precisions(name):
        yield feed(make(name), [pairs(dtype=dtype)])
    yield feed(make(name, features=RbfAnchors(1000)), [pairs()])
    yield feed(make(name, features=RbfAnchors(3)), [pairs()])


def spoilt(value: float) -> np.ndarray:
    out = X.copy()
    out[-1, -1] = value
    return out


#: What no call may accept in place of a matrix of vectors.
BAD_MATRICES = [
    spoilt(nan),
    spoilt(inf),
    spoilt(-inf).astype(np.float32),
    spoilt(nan).tolist(),
    spoilt(1e200),  # its square overflows
    np.zeros((0, D)),
    np.zeros((3, 0)),
    X[0],
    X[:, :, None],
    7,
    None,
    "vectors",
    [[1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0]],
    X.astype(str),
    X.astype(complex),
    X.astype("datetime64[s]"),
    np.array([[object()] * D] * 3),
    scipy.sparse.csr_matrix(X),
]
WRONG_WIDTHS = [X[:, :-1], np.hstack([X, X])]


@contract
def bad_vectors_are_refused_and_change_nothing(name: str) -> None:
    for learner in learners_at_every_stage(name):
        check = refusing(learner)
        for bad in BAD_MATRICES:
            check(learner.partial_fit_pairs, bad, X, ONES)
            check(learner.partial_fit_pairs, X, bad, ONES)
            check(learner.learn_pairs, X, bad, ONES)
            check(learner.observe, bad)
            check(go_on(learner), bad, ONES)
            check(learner.fit, bad, ONES)
            check(learner.transform, bad)
            check(learner.encode, bad)


@contract
def a_wrong_width_is_refused_and_changes_nothing(name: str) -> None:
    for learner in learners_at_every_stage(name):
        check = refusing(learner)
        for bad in WRONG_WIDTHS:
            check(learner.partial_fit_pairs, X, bad, ONES)
            check(learner.learn_pair, bad[0], X[0], True)
            if hasattr(learner, "n_features_in_"):
                check(learner.partial_fit_pairs, bad, bad, ONES)
                check(learner.learn_pair, bad[0], bad[1], True)
                check(learner.observe, bad)
                if not batch(type(learner)):  # whose `fit` begins anew, with any width
                    check(learner.partial_fit, bad, ONES)
                check(learner.transform, bad)


@contract
def values_too_large_for_the_precision_are_refused(name: str) -> None:
    """The square of 1e30 is infinite in float32 only, also where a float32 stream meets float64 rows."""
    large = spoilt(1e30)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* has scaled it down")
        feed(make(name), [pairs()]).observe(large)
    for learner, rows in (
        (make(name), large.astype(np.float32)),
        (feed(make(name), [pairs(dtype=np.float32)]), large.astype(np.float32)),
        (feed(make(name), [pairs(dtype=np.float32)]), large),
        (feed(make(name), [pairs(dtype=np.float32)]), spoilt(1e60)),
    ):
        refused_without_a_trace(learner, learner.observe, rows)
        refused_without_a_trace(learner, learner.learn_pair, rows[-1], rows[0], True)
        refused_without_a_trace(learner, learner.transform, rows)


@contract_of(takes_pairs)
def a_long_batch_that_is_refused_late_is_taken_back(name: str) -> None:
    """Large batches may be checked while they are learned; what came before the bad value must not stay."""
    long = pairs(n=5000, d=D)
    for learner in (make(name), *(feed(make(name), [pairs(dtype=dtype)]) for dtype in precisions(name))):
        for side in (long.A, long.B):
            for bad in (nan, inf, 1e200):
                good, side[-1, 0] = side[-1, 0], bad
                refused_without_a_trace(learner, learner.partial_fit_pairs, long.A, long.B, long.similar)
                refused_without_a_trace(learner, learner.learn_pairs, long.A, long.B, long.similar)
                side[-1, 0] = good


@contract_of(takes_pairs)
def bad_single_vectors_are_refused_and_change_nothing(name: str) -> None:
    a = X[0]
    bad_ones = [X[:2], a[:, None], a[:0], [], 3, None, "a", a * nan, a + inf, a * 1e200, [a, a[:2]]]
    for learner in learners_at_every_stage(name):
        for bad in bad_ones:
            refused_without_a_trace(learner, learner.learn_pair, bad, a, True)
            refused_without_a_trace(learner, learner.learn_pair, a, bad, True)


@contract_of(takes_pairs)
def bad_pair_labels_are_refused_and_change_nothing(name: str) -> None:
    three_kinds = np.arange(len(X)) % 3 - 1
    bad_many = [
        three_kinds,
        three_kinds.astype(float),
        2 * ONES,
        0.5 * ONES,
        nan * ONES,
        np.full(len(X), "yes"),
        np.full(len(X), None),
        ONES[:, None],
        ONES[1:],
        np.append(ONES, 1),
        [[True], [True, False]],
        None,
        True,
    ]
    bad_ones = [-2, 2, 0.5, nan, "yes", None, [True, False], [[1], [1, 2]]]
    for learner in learners_at_every_stage(name):
        for bad in bad_many:
            refused_without_a_trace(learner, learner.partial_fit_pairs, X, X[::-1], bad)
        for bad in bad_ones:
            refused_without_a_trace(learner, learner.learn_pair, X[0], X[1], bad)
        refused_without_a_trace(learner, learner.partial_fit_pairs, X, X[:-1], ONES)


@contract_of(takes_pairs)
def bad_weights_are_refused_and_change_nothing(name: str) -> None:
    bad_many = [-ONES, nan * ONES, inf * ONES, ONES[1:], np.ones((len(X), 2)), ["a"] * len(X)]
    for learner in learners_at_every_stage(name):
        for bad in bad_many:
            refused_without_a_trace(learner, learner.partial_fit_pairs, X, X[::-1], ONES, bad)
        for bad in (-1, nan, inf, "much", [1, 2]):
            refused_without_a_trace(learner, learner.learn_pair, X[0], X[1], True, bad)


@contract_of(supervised)
def labels_are_required_and_checked(name: str) -> None:
    bad_many = [None, ONES[1:], 2 * np.ones((len(X), 2)), nan * ONES, [[1], [1, 2]], [object()] * len(X), 3]
    if not several_labels(LEARNERS[name]):
        bad_many.append(np.ones((len(X), 2)))
    for learner in learners_at_every_stage(name):
        for bad in bad_many:
            refused_without_a_trace(learner, go_on(learner), X, bad)
            refused_without_a_trace(learner, learner.fit, X, bad)


@contract
def codes_are_refused_before_there_are_functions(name: str) -> None:
    waiting = [] if batch(LEARNERS[name]) else [feed(make(name, features=RbfAnchors(1000)), [pairs()])]
    for learner in (make(name), *waiting):
        for call, *args in (
            (learner.snapshot,),
            (learner.transform, X),
            (learner.encode, X),
            (learner.score, X, ONES),
            (getattr, learner, "mean_"),
            (getattr, learner, "projection_"),
        ):
            assert isinstance(refused_without_a_trace(learner, call, *args), NotReady)
    for learner in waiting:
        assert str(1000 - 120) in str(refused(learner.snapshot)), "it says how many points it waits for"


@contract
def inputs_are_neither_changed_nor_kept(name: str) -> None:
    for features in (None, RbfAnchors(1000), RbfAnchors(3), RbfAnchors(anchors=X[:3].copy())):
        learner = make(name, features=features)
        a, b = X[0].copy(), X[1].copy()
        A, B, similar, weight = X[2:9].copy(), X[9:16].copy(), np.ones(7), np.ones(7)
        points, labelled, y = X[16:23].copy(), X[23:30].copy(), np.arange(7) % 2
        given = (a, b, A, B, similar, weight, points, labelled, y)
        copies = [array.copy() for array in given]
        go_on(learner)(labelled, y)
        learner.observe(points)
        if takes_pairs(type(learner)):
            learner.learn_pair(a, b, True)
            learner.partial_fit_pairs(A, B, similar, weight)
        assert all(np.array_equal(array, copy) for array, copy in zip(given, copies, strict=True))
        before = state_bytes(learner)
        for array in given:
            array[:] = 77
        assert state_bytes(learner) == before


def strided(array: np.ndarray) -> np.ndarray:
    out = np.zeros((2 * array.shape[0], 3 * array.shape[1]), array.dtype)[::2, ::3]
    out[:] = array
    return out


def read_only(array: np.ndarray) -> np.ndarray:
    out = array.copy()
    out.flags.writeable = False
    return out


def memory_mapped(array: np.ndarray) -> np.ndarray:
    with tempfile.TemporaryFile() as file:
        file.write(array.tobytes())
        file.flush()
        return np.memmap(file, array.dtype, "r", shape=array.shape)


@contract
def the_layout_in_memory_does_not_matter(name: str) -> None:
    for dtype in precisions(name):
        stream = pairs(n=30, d=17, dtype=dtype)
        plain = feed(make(name), [stream])
        for layout in (np.asfortranarray, strided, read_only, memory_mapped):
            if takes_pairs(LEARNERS[name]):
                laid_out: Any = Pairs(layout(stream.A), layout(stream.B), stream.similar, stream.weight)
            else:
                labelled = stream.labelled()
                laid_out = Labelled(layout(labelled.X), labelled.y)
            learner = feed(make(name), [laid_out])
            assert state_bytes(learner) == state_bytes(plain), layout
            assert learner.encode(layout(stream.A)) == plain.encode(stream.A), layout


@contract
def precision_matters_only_at_the_boundary(name: str) -> None:
    """float32 stays float32, float64 stays float64; codes are the same unless a row is near the boundary."""
    single = pairs(n=20, d=9, dtype=np.float32)
    double = Pairs(single.A.astype(float), single.B.astype(float), single.similar, single.weight)
    rows = pairs(n=200, d=9, seed=7, dtype=np.float32).A
    for features in (None, RbfAnchors(6, width=3.0)):
        learner32 = feed(make(name, features=features), [single])
        learner64 = feed(make(name, features=features), [double])
        encoder = learner64.snapshot()
        assert (learner32.dtype_, learner64.dtype_) == (np.float32, np.float64)
        assert (learner32.snapshot().weights.dtype, encoder.weights.dtype) == (np.float32, np.float64)
        Z = rows.astype(float) if features is None else encoder.feature_map.map_rows(rows.astype(float))
        gaps = np.abs(Z @ encoder.weights.T - encoder.thresholds) / np.linalg.norm(encoder.weights, axis=1)
        far = gaps > 1e-3
        assert far.mean() > 0.95
        assert (learner32.transform(rows) == learner64.transform(rows))[far].all()
        assert (learner32.transform(rows) == learner32.transform(rows.astype(float))).all()


@contract_of(takes_pairs)
def a_pair_of_both_precisions_is_taken_in_the_wider(name: str) -> None:
    a, b = X[:2]
    for first, second in ((a.astype(np.float32), b), (a, b.astype(np.float32))):
        mixed, wide = make(name), make(name)
        mixed.learn_pair(first, second, True)
        wide.learn_pair(first.astype(float), second.astype(float), True)
        assert mixed.dtype_ == np.float64
        assert state_bytes(mixed) == state_bytes(wide)


@contract_of(takes_pairs)
def bools_signs_and_whole_numbers_say_the_same(name: str) -> None:
    stream = pairs()
    plain = state_bytes(feed(make(name), [stream]))
    signs = np.where(stream.similar, 1, -1)
    for similar in (
        signs,
        signs.astype(np.int8),
        signs.astype(float),
        signs.tolist(),
        stream.similar.tolist(),
    ):
        assert state_bytes(make(name).partial_fit_pairs(stream.A, stream.B, similar)) == plain
    assert state_bytes(make(name).partial_fit_pairs(stream.A.tolist(), stream.B.tolist(), signs)) == plain
    whole = np.round(3 * stream.A).astype(np.int64)
    integers = make(name).partial_fit_pairs(whole, whole[::-1], signs)
    floats = make(name).partial_fit_pairs(whole.astype(float), whole[::-1].astype(float), signs)
    assert state_bytes(integers) == state_bytes(floats)


@contract
def labels_may_be_numbers_or_text(name: str) -> None:
    points, y = clusters(40)
    plain = state_bytes(make(name).fit(points, y))
    for labels in (
        y.astype(float),
        y.astype(str),
        y.tolist(),
        y.astype(object),
        y.astype(str).astype(object),
    ):
        assert state_bytes(make(name).fit(points, labels)) == plain


@contract_of(several_labels)
def a_matrix_of_single_labels_says_the_same(name: str) -> None:
    points, y = clusters(40)
    plain = make(name).fit(points, y)
    for matrix in (np.eye(4, dtype=bool)[y], np.eye(4)[y], np.eye(4, dtype=int)[y].tolist()):
        assert state_bytes(make(name).fit(points, matrix)) == state_bytes(plain)
    assert plain.score(points, np.eye(4)[y]) == plain.score(points, y)


@contract_of(several_labels)
def several_labels_give_the_same_bytes_in_any_split(name: str) -> None:
    """Also while a feature map waits, and with rows of more, of one and of no label."""
    rng = np.random.default_rng(0)
    points, y = rng.standard_normal((40, D)), rng.random((40, 6)) < 0.3
    for features in (None, RbfAnchors(20), RbfAnchors(100)):
        whole = make(name, features=features).partial_fit(points, y)
        cut = make(name, features=features)
        for t in range(40):
            cut.partial_fit(points[t : t + 1], y[t : t + 1])
        assert state_bytes(cut) == state_bytes(whole)
        assert state_bytes(cut.flush()) == state_bytes(whole.flush())
        assert whole.n_updates_ > 0


@contract_of(several_labels)
def rows_without_a_label_teach_nothing(name: str) -> None:
    points, y = clusters(40)
    learner = make(name).fit(points, np.eye(4)[y])
    before = learner.projection_
    learner.partial_fit(points[:5], np.zeros((5, 4)))
    assert np.array_equal(learner.projection_, before)
    assert learner.n_points_seen_ == 45


@contract_of(from_labels)
def pairs_are_refused_with_advice(name: str) -> None:
    for learner in learners_at_every_stage(name):
        for call, *args in ((learner.learn_pair, X[0], X[1], True), (learner.partial_fit_pairs, X, X, ONES)):
            assert "fit" in str(refused_without_a_trace(learner, call, *args))


@contract_of(batch)
def a_batch_method_does_not_go_on(name: str) -> None:
    for learner in (make(name), feed(make(name), [pairs()])):
        assert isinstance(refused_without_a_trace(learner, getattr, learner, "partial_fit"), NotIncremental)
        assert "fit" in str(refused_without_a_trace(learner, learner.partial_fit_pairs, X, X, ONES))
        assert not hasattr(learner, "partial_fit"), "scikit-learn takes it for a method that can go on"
    refused_without_a_trace(make(name), make(name).observe, X)
