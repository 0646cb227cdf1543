"""What a search ought to find: which items of the base are relevant to which query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.codes.layout import LANES
from onlinehash.errors import InvalidInput
from onlinehash.gpu import neighbours as on_card
from onlinehash.gpu.card import check_device
from onlinehash.numeric.neighbours import nearest_positions, number_of

#: Relevance as one bit an item, in words of 64 items: the rows that differ, and which of them is each query's.
Masks = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Truth:
    """Relevance of every base item to every query, told a block of queries at a time.

    The whole table can be larger than memory, so nobody ever holds it: `block(rows)` gives the booleans
    `(len(rows), n_base)` of a slice of queries. `packed`, where it is given, tells the same in bits, without making
    the booleans first; `n_masks` is then how many rows differ over all queries.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import Codes, evaluate
    >>> graded = np.array([[3, 0, 1], [0, 2, 2]])  # judgements of yours: two queries, three items
    >>> truth = evaluate.Truth(2, 3, lambda rows: graded[rows] >= 2)
    >>> base = Codes.from_bits(np.array([[True, True], [True, False], [False, False]]))
    >>> evaluate.curve(base[:2], base, truth).n_queries
    2
    >>> truth.masks(slice(0, 2))[0]  # the same, an item a bit
    array([[1],
           [6]], dtype=uint64)
    """

    n_queries: int
    n_base: int
    block: Callable[[slice], np.ndarray]
    packed: Callable[[slice], Masks] | None = None
    n_masks: int | None = None

    def masks(self, rows: slice) -> Masks:
        """The relevance of a slice of queries, packed."""
        if self.packed is not None:
            return self.packed(rows)
        relevant = np.asarray(self.block(rows))
        if relevant.dtype != np.bool_ or relevant.ndim != 2 or relevant.shape[1] != self.n_base:
            raise InvalidInput(
                expected=f"a truth's block to give booleans (queries, {self.n_base})",
                got=f"{relevant.dtype} {relevant.shape}",
            )
        return _pack(relevant), np.arange(len(relevant))


def same_label(y_query: ArrayLike, y_base: ArrayLike) -> Truth:
    """Call those items relevant that have the query's label.

    Parameters
    ----------
    y_query, y_base : array-like
        Numbers, or strings.

    Returns
    -------
    Truth

    Raises
    ------
    InvalidInput
        If there are no labels, or some are numbers and others strings.

    Examples
    --------
    >>> from onlinehash import evaluate
    >>> evaluate.same_label([1, 2], [1, 1, 2]).block(slice(0, 2))
    array([[ True,  True, False],
           [False, False,  True]])
    """
    query, base = _labels(y_query, "y_query"), _labels(y_base, "y_base")
    if (query.dtype.kind in "US" or base.dtype.kind in "US") and query.dtype.kind != base.dtype.kind:
        raise InvalidInput(
            f"y_query and y_base must hold the same kind of labels, got {query.dtype} and "
            f"{base.dtype}; convert both to numbers or both to text."
        )
    if query.dtype.kind in "US":  # texts are compared once, their numbers every time
        numbers = np.unique(np.concatenate([query, base]), return_inverse=True)[1]
        query, base = numbers[: len(query)], numbers[len(query) :]

    def packed(rows: slice) -> Masks:
        classes, which = np.unique(query[rows], return_inverse=True)
        masks = [_pack((base == label)[None]) for label in classes]  # one class at a time: few booleans at once
        return np.concatenate(masks), which

    return Truth(len(query), len(base), lambda rows: query[rows, None] == base, packed, len(np.unique(query)))


def nearest(
    X_query: ArrayLike, X_base: ArrayLike, share: float = 0.05, *, k: int | None = None, device: str | None = None
) -> Truth:
    """Call the nearest items of the base relevant, by Euclidean distance: a share of it, or `k` of them.

    Exact: distances are compared in float64 where it matters, and where several items are equally far and not all fit
    in, those that come first in the base do. It keeps four bytes for each relevant item of each query.

    Parameters
    ----------
    X_query, X_base : array-like of shape (n, n_features)
    share : float, default=0.05
        The share of the base, rounded to a whole number of items, at least one.
    k : int, optional
        The number of items, instead of a share.
    device : {"cpu", "cuda"}, optional
        "cuda" finds them on a card, which has to hold the base; they are the same.

    Returns
    -------
    Truth

    Raises
    ------
    InvalidInput
        If vectors, share or k are not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import evaluate
    >>> evaluate.nearest(np.array([[0.0]]), np.array([[2.0], [0.5], [-1.0]]), k=2).block(slice(0, 1))
    array([[False,  True,  True]])
    """
    X_query, X_base = checks.vectors(X_query, "X_query"), checks.vectors(X_base, "X_base")
    checks.width(X_query, X_base.shape[1], "X_base", "X_query")
    number = number_of(len(X_base), share, k)
    if check_device(device):
        positions = on_card.nearest_positions(*on_card.same_precision(X_query, X_base), number)
    else:
        positions = nearest_positions(X_query, X_base, number)

    def block(rows: slice) -> np.ndarray:
        near = positions[rows]
        relevant = np.zeros((len(near), len(X_base)), np.bool_)
        np.put_along_axis(relevant, near, True, axis=1)
        return relevant

    return Truth(len(X_query), len(X_base), block)


def _labels(y: object, name: str) -> np.ndarray:
    if not hasattr(y, "__len__") or len(y) == 0:
        raise InvalidInput(expected=f"a vector of at least one label for {name}", got=repr(y))
    return checks.labels(y, len(y))


def _pack(relevant: np.ndarray) -> np.ndarray:
    """Booleans `(n, n_base)` as words `(n, blocks of 64)`, item 64b + l in bit l of word b; zeros after the last."""
    packed = np.packbits(relevant, axis=1, bitorder="little")
    out = np.zeros((len(relevant), -(-relevant.shape[1] // LANES) * LANES // 8), np.uint8)
    out[:, : packed.shape[1]] = packed
    return out.view("<u8")
