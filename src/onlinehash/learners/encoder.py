"""`Encoder`: an immutable hash function with a version number."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash import checks
from onlinehash.arraylike import VectorLike
from onlinehash.codes import Codes, layout
from onlinehash.errors import Diverged, InvalidInput
from onlinehash.features import FeatureMap, same_map
from onlinehash.gpu.card import check_device, refusing
from onlinehash.numeric.signs import Signs

if TYPE_CHECKING:
    from onlinehash.gpu.encoding import CardSigns, SignKernels, SignsTwin

#: Rows taken through the feature map at once: a whole number of blocks of codes.
BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """`bit k of x = [ w_k . z(x) >= b_k ]`, with z the feature map.

    It is what travels to an index, a worker or a file. Later learning never changes it; `version` is the learner's
    `version_` at the moment of the snapshot. Where learning keeps the codes of items, `queries` says how queries are
    encoded instead: by two encoders, one after the other, the second of which takes the signs of the first.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 16))
    >>> learner = OnlineHashing(n_bits=8, random_state=0).observe(A)
    >>> before = learner.snapshot()
    >>> after = learner.partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0).snapshot()
    >>> changed = after.changed_bits(before)
    >>> after.recode(before.encode(A), A, changed) == after.encode(A)
    True
    """

    weights: np.ndarray
    thresholds: np.ndarray
    feature_map: FeatureMap | None
    n_features: int
    n_models: int
    fusion: str
    version: int
    method: str
    queries: tuple[Encoder, Encoder] | None = None

    def __post_init__(self) -> None:
        for name in ("weights", "thresholds"):
            array = np.array(getattr(self, name), order="C")
            if not np.isfinite(array).all():
                raise Diverged(
                    f"the hash functions of {self.method} are not finite ({name}), because the vectors that it learned "
                    "from are too large, too small or too different in size; rescale them, and begin anew with fit."
                )
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __reduce__(self) -> tuple[type[Encoder], tuple[Any, ...]]:
        """Pickle the hash function without what is derived from it; copies are read-only, too."""
        return Encoder, tuple(getattr(self, field.name) for field in fields(self))

    @property
    def n_bits(self) -> int:
        """Bits per model."""
        return len(self.weights) // self.n_models

    @property
    def n_columns(self) -> int:
        """Bits over all models."""
        return len(self.weights)

    def transform(self, X: VectorLike) -> NDArray[np.bool_]:
        """Encode vectors as booleans.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        ndarray of bool, of shape (n, n_models * n_bits)

        Raises
        ------
        InvalidInput
            If the vectors are not finite, or have another width.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import LSH
        >>> encoder = LSH(n_bits=8, random_state=0).fit(np.eye(4)).snapshot()
        >>> encoder.transform(np.eye(4)).shape
        (4, 8)
        """
        return self.encode(X).bits()

    def encode(self, X: VectorLike, device: str | None = None) -> Codes:
        """Encode vectors as packed codes.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        device : {"cpu", "cuda"}, optional
            "cuda" computes them on a card, to the same bits; X may then be an array there too, of CuPy or of what else
            has `__cuda_array_interface__`, as PyTorch's do. A feature map stays on the CPU.

        Returns
        -------
        Codes

        Raises
        ------
        InvalidInput
            If the vectors are not finite, or have another width.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import LSH
        >>> encoder = LSH(n_bits=8, random_state=0).fit(np.eye(4)).snapshot()
        >>> encoder.encode(np.eye(4))
        Codes(n=4, n_bits=8)
        """
        if check_device(device):
            return self._encode_on_card(X)
        return self.codes_of(self._check_rows(X))

    def encode_queries(self, X: VectorLike, device: str | None = None) -> Codes:
        """Encode vectors to search for; nearly all methods encode them as they encode items.

        Parameters
        ----------
        X, device
            As in `encode`.

        Returns
        -------
        Codes
            To be compared with codes of items, not with each other.

        Raises
        ------
        InvalidInput
            If the vectors are not finite, or have another width.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import LSH
        >>> encoder = LSH(n_bits=8, random_state=0).fit(np.eye(4)).snapshot()
        >>> encoder.encode_queries(np.eye(4)) == encoder.encode(np.eye(4))
        True
        """
        if self.queries is None:
            return self.encode(X, device)
        first, second = self.queries
        return second.codes_of(signs_of(first.encode(X, device), second.weights.dtype))

    def _encode_on_card(self, X: Any) -> Codes:
        from onlinehash.gpu import encoding

        kernels, is_there = encoding.SignKernels(), hasattr(X, "__cuda_array_interface__")
        rows = self._check_card_rows(kernels.xp.asarray(X)) if is_there else self._check_rows(X)
        planes = layout.aligned_planes(len(rows), self.n_models * layout.planes_per_model(self.n_bits))
        with refusing(kernels.card, f"the encoding of {len(rows):,} vectors"):
            self.encode_by_card(self.card_signs(kernels), rows, planes)
        return Codes.from_planes(planes, len(rows), self.n_bits, self.n_models)

    def _check_card_rows(self, rows: Any) -> Any:
        if (rows.dtype, rows.shape[1:], rows.flags.c_contiguous) != (self.weights.dtype, (self.n_features,), True):
            raise InvalidInput(
                expected=f"contiguous rows of {self.n_features} {self.weights.dtype} on the card",
                got=f"{rows.dtype} {rows.shape}",
            )
        if len(rows) == 0:
            self._check_rows(np.empty(rows.shape, rows.dtype))  # refused as on the host
        return rows

    def card_signs(self, kernels: SignKernels | SignsTwin) -> CardSigns:
        """The functions on a card."""
        from onlinehash.gpu.encoding import CardSigns

        places = layout.places(np.arange(self.n_columns), self.n_bits)
        n_planes = self.n_models * layout.planes_per_model(self.n_bits)
        return CardSigns(self.weights, self.thresholds, places, n_planes, kernels)

    def encode_by_card(self, signs: CardSigns, rows: np.ndarray, planes: np.ndarray, first_block: int = 0) -> None:
        """As `encode_into`, of all columns, and of rows of the host or of the card (whose arrays are alike)."""
        size = max(1, len(rows)) if self.feature_map is None else 16 * BLOCK_ROWS
        for start in range(0, len(rows), size):
            some, first = rows[start : start + size], first_block + start // layout.LANES
            if self.feature_map is not None:
                some = _on_host(some)
                checks.finite(some)
                some = self.feature_map.map_rows(some)
            for left in signs.put(some, planes, first):
                self._signs.put(_on_host(some[left]), planes, first + left.start // layout.LANES)

    def recode(self, codes: Codes, X: VectorLike, columns: ArrayLike) -> Codes:
        """Encode vectors again where only some hash functions changed, at the cost of these.

        After learning, `new.recode(old.encode(X), X, new.changed_bits(old))` is `new.encode(X)`.

        Parameters
        ----------
        codes : Codes
            The codes of the vectors by the older encoder.
        X : array-like of shape (n, n_features)
        columns : array-like of int
            The bits whose function changed.

        Returns
        -------
        Codes

        Raises
        ------
        InvalidInput
            If codes, vectors or columns do not fit this encoder.
        """
        rows = self._check_rows(X)
        if not isinstance(codes, Codes) or (codes.n_bits, codes.n_models) != (self.n_bits, self.n_models):
            raise InvalidInput(
                expected=f"codes as {self!r} makes them", got=checks.shown(codes), hint="encode the rows with it"
            )
        checks.same_length("codes", len(codes), len(rows), "X")
        columns = self._check_columns(columns)
        planes = layout.aligned_planes(len(codes), codes.n_planes)
        planes[...] = codes.planes
        self.encode_into(rows, columns, planes)
        return Codes.from_planes(planes, len(codes), self.n_bits, self.n_models)

    def codes_of(self, rows: np.ndarray, columns: np.ndarray | None = None) -> Codes:
        """The codes of rows of the right kind and width; of some columns only where asked, the other bits zero."""
        planes = layout.aligned_planes(len(rows), self.n_models * layout.planes_per_model(self.n_bits))
        self.encode_into(rows, columns, planes)
        return Codes.from_planes(planes, len(rows), self.n_bits, self.n_models)

    def bits_of(self, rows: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """The bits of such rows; of some columns only where asked, the same bits either way."""
        bits = self.codes_of(rows, columns).bits()
        return bits if columns is None else bits[:, columns]

    def encode_into(
        self, rows: np.ndarray, columns: np.ndarray | None, planes: np.ndarray, first_block: int = 0
    ) -> None:
        """Write bits of such rows, of all columns or of some, into planes from a block on; all other bits stay.

        Rows that are not finite are refused when they are met: planes in use want rows that were looked at before.
        """
        signs = self._signs if columns is None else self._signs_of(columns)
        if self.feature_map is None:
            signs.put(rows, planes, first_block)
            return
        checks.finite(rows)
        for start in range(0, len(rows), BLOCK_ROWS):
            features = self.feature_map.map_rows(rows[start : start + BLOCK_ROWS])
            checks.width(features, self.weights.shape[1], "this encoder", "the output of its feature map")
            signs.put(features, planes, first_block + start // layout.LANES)

    @cached_property
    def _signs(self) -> Signs:
        """Those of all columns, made when rows are first encoded."""
        return Signs(self.weights, self.thresholds, layout.places(np.arange(self.n_columns), self.n_bits))

    def _signs_of(self, columns: np.ndarray) -> Signs:
        return Signs(self.weights[columns], self.thresholds[columns], layout.places(columns, self.n_bits))

    def _check_rows(self, X: VectorLike) -> np.ndarray:
        """Check everything but the values; `encode_into` checks those while they are in the cache."""
        if (
            type(X) is np.ndarray
            and X.dtype == self.weights.dtype
            and X.shape[1:] == (self.n_features,)
            and X.flags.c_contiguous
            and len(X)
        ):
            return X  # as nearly all rows come, and for a single one the questions below take as long as its code
        rows = checks.matrix(X, dtype=self.weights.dtype)
        checks.width(rows, self.n_features, f"this encoder of {self.method}")
        return rows

    def _check_columns(self, columns: ArrayLike) -> np.ndarray:
        numbers = np.asarray(columns)
        if numbers.size == 0:
            numbers = numbers.astype(np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or ((numbers < 0) | (numbers >= self.n_columns)).any():
            raise InvalidInput(
                expected=f"columns to be a vector of numbers from 0 to {self.n_columns - 1}",
                got=checks.shown(columns),
                hint="`changed_bits` gives such",
            )
        return numbers.astype(np.int64)

    def changed_bits(self, older: Encoder) -> np.ndarray:
        """The columns whose hash function for items differs from the older encoder's.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing
        >>> learner = OnlineHashing(n_bits=8, random_state=0).observe(np.eye(4))
        >>> older = learner.snapshot()
        >>> update = learner.learn_pair([1, 0, 0, 0], [0, 1, 0, 0], similar=True)
        >>> np.array_equal(learner.snapshot().changed_bits(older), update.bits)
        True
        """
        if self.weights.shape != older.weights.shape or not same_map(self.feature_map, older.feature_map):
            return np.arange(self.n_columns)
        differs = (self.weights != older.weights).any(axis=1) | (self.thresholds != older.thresholds)
        return np.flatnonzero(differs)

    def __repr__(self) -> str:
        models = f", n_models={self.n_models}" if self.n_models > 1 else ""
        return f"Encoder(method={self.method!r}, n_bits={self.n_bits}{models}, version={self.version})"


def signs_of(codes: Codes, dtype: np.dtype) -> np.ndarray:
    """Codes as rows of -1 and +1."""
    signs: np.ndarray = np.where(codes.bits(), dtype.type(1), dtype.type(-1))
    return signs


def _on_host(rows: np.ndarray) -> np.ndarray:
    """Rows of the host as they are, those of a card as a copy."""
    return rows.get() if hasattr(rows, "get") else rows
