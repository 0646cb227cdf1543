import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import LSH, Codes, evaluate
from onlinehash.errors import InvalidInput
from onlinehash.evaluate import histograms
from tests.evaluate.codes_as_vectors import distances_by_hand, identity, random_codes
from tests.reference import ranking as reference

RANKED = [
    "map",
    *(f"map@{k}{by}" for k in (1, 3, 100) for by in ("", "/found", "/all")),
    *(f"{metric}@{k}" for metric in ("precision", "recall") for k in (1, 3, 100)),
]
BALLS = [f"{metric}@r{radius}" for metric in ("precision", "recall") for radius in (0, 1, 9)]
METRICS = RANKED + BALLS
TIES = ["expected", "optimistic", "pessimistic", "stored"]


@pytest.mark.parametrize("ties", TIES)
@given(
    st.integers(0, 2**32),
    st.sampled_from([(3, 1, "min"), (3, 2, "min"), (2, 2, "sum"), (1, 1, "min")]),
    st.sampled_from(["zero", "skip"]),
)
def test_every_metric_is_what_all_orders_of_ties_say(ties, seed, shape, empty_ball):
    n_bits, n_models, fusion = shape
    rng = np.random.default_rng(seed)
    Q, B = random_codes(rng, 4, n_bits * n_models), random_codes(rng, 6, n_bits * n_models)
    y_query, y_base = rng.integers(3, size=4), rng.integers(3, size=6)
    y_base[0] = y_query[0]
    model, truth = identity(n_bits, n_models, fusion), evaluate.same_label(y_query, y_base)
    options = {"ties": ties, "empty_ball": empty_ball}
    found = evaluate.retrieval(model, Q, B, truth, METRICS, per_query=True, **options)
    distances, empty = distances_by_hand(Q, B, n_models, fusion), 0.0 if empty_ball == "zero" else np.nan
    for name in METRICS:
        expected = reference.per_query(name, distances, y_query[:, None] == y_base, ties, empty)
        np.testing.assert_allclose(found[name], expected, atol=1e-12, err_msg=name)
    means = evaluate.retrieval(model, Q, B, truth, METRICS, **options)
    known = {name: values[~np.isnan(values)] for name, values in found.items()}
    expected = {name: values.mean() if len(values) else np.nan for name, values in known.items()}
    assert means == pytest.approx(expected, nan_ok=True)


# ------------------------------------------------------------------------ shuffles of rankings too long for all orders


def cases():
    rng = np.random.default_rng(7)
    yield "random", rng.binomial(16, 0.4, size=300), rng.random(300) < 0.2
    yield "one relevant among equals", np.zeros(50, int), np.arange(50) == 49


CASES = {name: (distances, relevant) for name, distances, relevant in cases()}
SHUFFLED = ["map", "map@50", "map@50/found", "map@50/all", "precision@50", "recall@50", "map@7/found"]


def codes_at(distances: np.ndarray, n_bits: int = 16) -> tuple[Codes, Codes]:
    """A query of zeros, and a base of codes with so many ones."""
    return Codes.from_bits(np.zeros((1, n_bits), bool)), Codes.from_bits(np.arange(n_bits) < distances[:, None])


def values_of_shuffles(name: str, hits: np.ndarray) -> np.ndarray:
    """The metric of each row of rankings; the reference, for many at once."""
    metric, _, rest = name.partition("@")
    k, _, denominator = rest.partition("/")
    first = hits[:, : int(k)] if k else hits
    n_found, n_relevant = first.sum(axis=1), hits.sum(axis=1)
    if metric in ("precision", "recall"):
        return n_found / (first.shape[1] if metric == "precision" else n_relevant)
    total = (first.cumsum(axis=1) / np.arange(1, first.shape[1] + 1) * first).sum(axis=1)
    by = {"": np.minimum(n_relevant, first.shape[1]), "all": n_relevant, "found": n_found}[denominator]
    return total / np.maximum(by, 1)


@pytest.mark.parametrize("case", CASES)
def test_the_expectation_is_the_mean_of_ten_thousand_shuffles(case):
    distances, relevant = CASES[case]
    truth = evaluate.Truth(1, len(distances), lambda rows: relevant[None][rows])
    found = {ties: evaluate.rank(*codes_at(distances), truth, SHUFFLED, ties=ties) for ties in TIES}
    rng = np.random.default_rng(0)
    seen = {name: [] for name in SHUFFLED}
    for _ in range(5):
        hits = relevant[np.argsort(distances + rng.random((2000, len(distances))), axis=1)]
        for name in SHUFFLED:
            seen[name].append(values_of_shuffles(name, hits))
    assert values_of_shuffles("map@50/found", hits[:3]) == pytest.approx(
        [reference.value("map@50/found", row) for row in hits[:3]]
    )
    for name in SHUFFLED:
        values = np.concatenate(seen[name])
        tolerance = 4 * values.std() / np.sqrt(len(values)) + 1e-12
        assert abs(found["expected"][name] - values.mean()) <= tolerance, name
        if "/found" not in name:  # there a relevant item far back makes the mean less, so early is not always best
            for ties in ("expected", "stored"):
                assert found["pessimistic"][name] - 1e-12 <= found[ties][name] <= found["optimistic"][name] + 1e-12
            assert found["pessimistic"][name] - 1e-12 <= values.min()
            assert values.max() <= found["optimistic"][name] + 1e-12


# ---------------------------------------------------------------------------------------------------------- the rules


def test_the_denominators_of_average_precision_differ():
    """Relevant, not, relevant, relevant, at four distances."""
    truth = evaluate.same_label([1], [1, 0, 1, 1])
    found = evaluate.rank(*codes_at(np.arange(4)), truth, ["map", "map@2", "map@2/found", "map@2/all"])
    assert found == pytest.approx(
        {"map": (1 + 2 / 3 + 3 / 4) / 3, "map@2": 1 / 2, "map@2/found": 1, "map@2/all": 1 / 3}
    )


def test_an_empty_ball_counts_zero_or_is_left_out():
    truth = evaluate.same_label([1, 1], [1])
    queries, names = np.array([[1.0, 1.0], [-1.0, -1.0]]), ["precision@r1", "recall@r1"]
    found = evaluate.retrieval(identity(2), queries, np.ones((1, 2)), truth, names)
    assert found == {"precision@r1": 0.5, "recall@r1": 0.5}
    found = evaluate.retrieval(identity(2), queries, np.ones((1, 2)), truth, names, empty_ball="skip")
    assert found == {"precision@r1": 1.0, "recall@r1": 0.5}
    far = evaluate.retrieval(
        identity(2), -queries[:1], np.ones((1, 2)), evaluate.same_label([1], [1]), names, empty_ball="skip"
    )
    assert np.isnan(far["precision@r1"])


def test_a_query_without_anything_relevant_is_left_out():
    queries, base = np.ones((2, 2)), np.ones((3, 2))
    truth = evaluate.same_label([1, 9], [1, 1, 1])
    assert evaluate.retrieval(identity(2), queries, base, truth) == {
        "map": 1.0,
        "precision@100": 1.0,
        "precision@r2": 1.0,
    }
    found = evaluate.retrieval(identity(2), queries, base, truth, METRICS, per_query=True)
    for values in found.values():
        assert np.isnan(values).tolist() == [False, True]
    for per_query in (False, True):
        with pytest.raises(InvalidInput, match="no query has a relevant item"):
            evaluate.retrieval(identity(2), queries, base, evaluate.same_label([8, 9], [1, 1, 1]), per_query=per_query)


# -------------------------------------------------------------------------------------------- blocks, threads, sizes


@pytest.mark.parametrize(("ties", "has_bits"), [("expected", True), ("stored", False)])
def test_blocks_and_threads_change_nothing(monkeypatch, ties, has_bits):
    rng = np.random.default_rng(0)
    Q, B = random_codes(rng, 23, 8), random_codes(rng, 500, 8)
    truth = evaluate.same_label(rng.integers(4, size=23), rng.integers(5, size=500))
    sizes = []

    def block(rows):
        sizes.append(rows.stop - rows.start)
        return whole_truth.block(rows)

    whole_truth, truth = truth, evaluate.Truth(23, 500, block, truth.packed if has_bits else None)
    model = identity(4, 2)
    whole = evaluate.retrieval(model, Q, B, whole_truth, METRICS, ties=ties, per_query=True)
    assert not sizes
    monkeypatch.setattr(histograms, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(histograms, "CHUNK_BYTES", 300)
    found = evaluate.retrieval(model, Q, B, truth, METRICS, ties=ties, per_query=True, n_jobs=3)
    for name in METRICS:
        np.testing.assert_array_equal(found[name], whole[name])
    if not has_bits:
        assert max(sizes) * 500 <= 4000
        assert sum(sizes) == 23


@pytest.mark.parametrize(("n_base", "n_bits"), [(1, 5), (64, 64), (200, 300)])
def test_any_number_of_codes_of_any_width(n_base, n_bits):
    rng = np.random.default_rng(n_base + n_bits)
    Q, B = random_codes(rng, 3, n_bits), random_codes(rng, n_base, n_bits)
    relevant = rng.random((3, n_base)) < 0.3
    relevant[:, -1] = True
    truth = evaluate.Truth(3, n_base, lambda rows: relevant[rows])
    names = ["map", "map@20", "precision@20", "recall@r150", "precision@r150"]
    found = evaluate.retrieval(identity(n_bits), Q, B, truth, names, ties="stored", per_query=True)
    distances = distances_by_hand(Q, B, 1, "min")
    for name in names:
        np.testing.assert_allclose(found[name], reference.per_query(name, distances, relevant, "stored"), atol=1e-12)


def test_a_learner_counts_as_its_snapshot():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 8)), rng.integers(3, size=60)
    lsh = LSH(6, random_state=0).observe(X)
    truth = evaluate.same_label(y[:20], y)
    found = evaluate.retrieval(lsh, X[:20], X, truth)
    assert found == evaluate.retrieval(lsh.snapshot(), X[:20], X, truth)
    assert found == evaluate.rank(lsh.encode(X[:20]), lsh.encode(X), truth)
    bits = np.where(lsh.transform(X), 1.0, -1.0)
    assert found == evaluate.retrieval(identity(6), bits[:20], bits, truth)
