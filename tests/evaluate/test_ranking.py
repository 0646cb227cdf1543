import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import LSH, evaluate
from onlinehash.errors import InvalidInput, NotReady
from onlinehash.evaluate import ranking
from tests.evaluate.codes_as_vectors import distances_by_hand, identity, random_codes
from tests.reference import ranking as reference

METRICS = [
    "map",
    "precision@1",
    "precision@3",
    "precision@100",
    "precision@r0",
    "precision@r1",
    "precision@r9",
]


def by_brute_force(distances: np.ndarray, relevant: np.ndarray, metric: str) -> float:
    rows = [(d, hit) for d, hit in zip(distances, relevant, strict=True) if hit.any()]
    if metric == "map":
        values = [reference.average_precision(d, hit) for d, hit in rows]
    elif metric.startswith("precision@r"):
        values = [reference.precision_within(d, hit, int(metric[11:])) for d, hit in rows]
    else:
        values = [reference.precision_among(d, hit, int(metric[10:])) for d, hit in rows]
    return float(np.mean(values))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(3, 1, "min"), (3, 2, "min"), (2, 2, "sum"), (1, 1, "min")]))
def test_every_metric_is_its_expectation_over_all_orders_of_ties(seed, shape):
    n_bits, n_models, fusion = shape
    rng = np.random.default_rng(seed)
    Q, B = random_codes(rng, 4, n_bits * n_models), random_codes(rng, 6, n_bits * n_models)
    y_query, y_base = rng.integers(3, size=4), rng.integers(3, size=6)
    y_base[0] = y_query[0]
    found = evaluate.retrieval(identity(n_bits, n_models, fusion), Q, B, evaluate.same_label(y_query, y_base), METRICS)
    distances = distances_by_hand(Q, B, n_models, fusion)
    expected = {m: by_brute_force(distances, y_query[:, None] == y_base, m) for m in METRICS}
    assert found == pytest.approx(expected, abs=1e-12)


def test_ties_are_shared_in_proportion():
    """Two sure places, one of them relevant, then one place for four items of which three are relevant."""
    query = np.ones((1, 2))
    base = np.array([[1, 1], [1, 1], [1, -1], [-1, 1], [1, -1], [-1, 1.0]])
    truth = evaluate.same_label([1], [1, 0, 1, 1, 1, 0])
    found = evaluate.retrieval(identity(2), query, base, truth, ["precision@3"])
    assert found == {"precision@3": (1 + 3 / 4) / 3}


def test_an_empty_ball_counts_zero():
    truth = evaluate.same_label([1, 1], [1])
    queries = np.array([[1.0, 1.0], [-1.0, -1.0]])
    found = evaluate.retrieval(identity(2), queries, np.ones((1, 2)), truth, ["precision@r1"])
    assert found == {"precision@r1": 0.5}


def test_a_query_without_anything_relevant_is_left_out():
    queries, base = np.ones((2, 2)), np.ones((3, 2))
    assert evaluate.retrieval(identity(2), queries, base, evaluate.same_label([1, 9], [1, 1, 1])) == {
        "map": 1.0,
        "precision@100": 1.0,
        "precision@r2": 1.0,
    }
    with pytest.raises(InvalidInput, match="something relevant"):
        evaluate.retrieval(identity(2), queries, base, evaluate.same_label([8, 9], [1, 1, 1]))


def test_blocks_of_queries_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    Q, B = random_codes(rng, 23, 8), random_codes(rng, 50, 8)
    truth = evaluate.same_label(rng.integers(4, size=23), rng.integers(5, size=50))
    whole = evaluate.retrieval(identity(4, 2), Q, B, truth, METRICS)
    widest = []
    monkeypatch.setattr(ranking, "BLOCK_DISTANCES", 500)
    fused = ranking.fused_distances
    monkeypatch.setattr(
        ranking,
        "fused_distances",
        lambda q, b, fusion: widest.append(len(q) * len(b) * 2) or fused(q, b, fusion),
    )
    assert evaluate.retrieval(identity(4, 2), Q, B, truth, METRICS) == pytest.approx(whole, abs=1e-15)
    assert len(widest) == 5
    assert max(widest) <= 500


def test_a_learner_counts_as_its_snapshot():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 8)), rng.integers(3, size=60)
    lsh = LSH(6, random_state=0).observe(X)
    truth = evaluate.same_label(y[:20], y)
    found = evaluate.retrieval(lsh, X[:20], X, truth)
    assert found == evaluate.retrieval(lsh.snapshot(), X[:20], X, truth)
    bits = np.where(lsh.transform(X), 1.0, -1.0)
    assert found == evaluate.retrieval(identity(6), bits[:20], bits, truth)


@pytest.mark.parametrize("metric", ["mAP", "precision@0", "precision@", "precision@r", "recall@10", "precision@-1", ""])
def test_an_unknown_metric_is_refused_by_naming_the_known_forms(metric):
    x = np.ones((1, 2))
    with pytest.raises(InvalidInput, match=r"'map', 'precision@K' .* 'precision@rR'"):
        evaluate.retrieval(identity(2), x, x, evaluate.same_label([1], [1]), [metric])


def test_what_cannot_be_searched_is_refused():
    truth, x = evaluate.same_label([1], [1]), np.ones((1, 2))
    with pytest.raises(InvalidInput, match="one for each row of X_query"):
        evaluate.retrieval(identity(2), np.ones((2, 2)), x, truth)
    with pytest.raises(InvalidInput, match="one for each row of X_base"):
        evaluate.retrieval(identity(2), x, np.ones((2, 2)), truth)
    with pytest.raises(InvalidInput, match="a learner or an encoder"):
        evaluate.retrieval("oh", x, x, truth)
    with pytest.raises(NotReady):
        evaluate.retrieval(LSH(2), x, x, truth)
