"""Whatever people hold vectors in: what is taken, what is not copied, and what is said to the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

from onlinehash import BlendedPairHashing, FlatIndex, LiveIndex, checks
from onlinehash.arraylike import as_array
from onlinehash.errors import InvalidInput
from tests.needs import optional

X = np.arange(12, dtype=np.float32).reshape(4, 3)
LISTS = X.tolist()
FIXED = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 3)


class Tensor:
    """What we use of a tensor of PyTorch."""

    def __init__(self, values: np.ndarray, device: str = "cpu", grad: bool = False, dtype: str = "float32") -> None:
        self._values, self._grad, self.dtype = values, grad, dtype
        self.device = type("Device", (), {"type": device.partition(":")[0], "__str__": lambda self: device})()

    def detach(self) -> Tensor:
        return Tensor(self._values, str(self.device), dtype=self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.dtype == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._values


def polars(make: Callable[[Any], Any]) -> Any:
    optional("polars")
    import polars

    return make(polars)


def hugging_face(make: Callable[[Any], Any]) -> Any:
    optional("datasets")
    import datasets

    return make(datasets)


HELD: dict[str, Callable[[], Any]] = {
    "array": lambda: X,
    "lists": lambda: LISTS,
    "list of arrays": lambda: list(X),
    "memoryview": lambda: memoryview(X),
    "tensor": lambda: Tensor(X),
    "tensor with a gradient": lambda: Tensor(X, grad=True),
    "list of tensors": lambda: [Tensor(row) for row in X],
    "pandas frame": lambda: pd.DataFrame(X),
    "pandas column of lists": lambda: pd.Series(LISTS),
    "pandas frame of one column of lists": lambda: pd.DataFrame({"vector": LISTS}),
    "pandas column of Arrow lists": lambda: pd.Series(FIXED, dtype=pd.ArrowDtype(FIXED.type)),
    "Arrow table of numbers": lambda: pa.table({name: X[:, i] for i, name in enumerate("abc")}),
    "Arrow fixed-size lists": lambda: FIXED,
    "Arrow lists": lambda: pa.array(LISTS, pa.list_(pa.float32())),
    "Arrow chunks": lambda: pa.chunked_array([FIXED[:1], FIXED[1:]]),
    "Arrow stream": lambda: StreamOnly(pa.table({"vector": FIXED})),
    "polars frame": lambda: polars(lambda pl: pl.DataFrame(X)),
    "polars column of lists": lambda: polars(lambda pl: pl.Series(LISTS)),
    "polars column of arrays": lambda: polars(lambda pl: pl.Series(LISTS, dtype=pl.Array(pl.Float32, 3))),
    "polars frame of one column of arrays": lambda: polars(
        lambda pl: pl.DataFrame({"vector": LISTS}, schema={"vector": pl.Array(pl.Float32, 3)})
    ),
    "data set": lambda: hugging_face(lambda hf: hf.Dataset.from_dict({"vector": LISTS})),
}


class StreamOnly:
    """A table that speaks nothing but Arrow's C interface, as relations of DuckDB do."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("name", HELD)
def test_vectors(name: str) -> None:
    found = checks.vectors(HELD[name]())
    assert np.array_equal(found, X)
    assert found.dtype in (np.float32, np.float64)
    assert not checks.is_row(HELD[name]()), "a column of vectors is not a vector of objects"


@pytest.mark.parametrize("name", ["array", "memoryview", "tensor", "tensor with a gradient", "Arrow fixed-size lists"])
def test_not_copied(name: str) -> None:
    where = FIXED.flatten().to_numpy() if name.startswith("Arrow") else X
    assert np.shares_memory(as_array(HELD[name](), "X"), where)


@pytest.mark.parametrize("make", [list, tuple, pd.Series, pa.array, Tensor], ids=lambda make: make.__name__)
def test_a_row(make: Callable[[Any], Any]) -> None:
    row = make(X[1])
    assert checks.is_row(row)
    assert np.array_equal(checks.row(row, "a"), X[1:2])


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (Tensor(X, "cuda:0"), r"got a tensor on cuda:0; call .cpu\(\) first"),
        (Tensor(X, dtype="bfloat16"), r"unsupported ScalarType BFloat16\); convert it, for instance by .float\(\)"),
        (scipy.sparse.csr_array(X), "TruncatedSVD"),
        ({"vector": LISTS}, "expected an array for X, got dict; make an array or a list of rows"),
        ((row for row in LISTS), "got generator; make an array"),
        (["a text", "another"], "got text; embed it"),
        (pd.DataFrame({"text": ["a", "b"], "vector": LISTS[:2]}), "single column of vectors, .* select what you mean"),
        (pd.Series([[1.0, 2.0], None]), "expected a vector in each row of X, got None in row 1"),
        (pa.array([[1.0, 2.0], [1.0]]), "unequal length"),
        (pa.table({"a": [1.0, None]}), "contains NaN in row 1"),
    ],
)
def test_refused(held: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        checks.vectors(held)


def test_an_index_takes_and_finds_them() -> None:
    """Columns of vectors are rows everywhere: where they are added, searched for, learned from and encoded."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 5)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(points.reshape(-1)), 5)
    index = LiveIndex(n_bits=16)
    index.add(pa.array([f"doc {i}" for i in range(60)]), column)
    assert np.array_equal(index.vectors, points)
    few = pd.Series(list(points[:3]))
    assert np.array_equal(index.find(few, k=2).ids, index.find(points[:3], k=2).ids)
    assert np.array_equal(index.search(few, k=2).ids, index.search(points[:3], k=2).ids)
    assert index.find(Tensor(points[0]), k=1).ids.tolist() == ["doc 0"]
    assert index.search(Tensor(points[0]), k=1).ids.shape == (1,)
    assert len(index.learn_pairs(few, few, pd.Series([True, True, False]))) == 3
    codes = index.encoder.encode(column)
    assert codes == index.encoder.encode(points)
    flat = FlatIndex(codes, encoder=index.encoder)
    assert np.array_equal(flat.search(few, 2).ids, flat.search(points[:3], 2).ids)


def test_labels_of_many_classes_may_be_sparse() -> None:
    y = np.eye(3, dtype=int)[[0, 1, 2, 0]]
    assert np.array_equal(checks.labels(scipy.sparse.csr_array(y), 4, several=True), y != 0)
    with pytest.raises(InvalidInput, match="sparse"):
        checks.labels(scipy.sparse.csr_array(y), 4)


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table], ids=["pandas", "Arrow"])
def test_names_of_columns_are_kept_by_learners(make: Callable[[Any], Any]) -> None:
    frame = make({name: np.random.default_rng(1).normal(size=50) for name in "abc"})
    learner = BlendedPairHashing(n_bits=4, random_state=0).observe(frame)
    assert learner.n_features_in_ == 3
    assert len(learner.encode(frame)) == 50
