"""Watch a learner while it learns a stream of pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.ranking import encoder_of
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.streams.pairs import Pair

Measure = Callable[[Learner], Mapping[str, object]]

#: Pairs one by one, or as arrays.
Stream: TypeAlias = Iterable[Pair] | tuple[ArrayLike, ...]


@dataclass(frozen=True)
class Row:
    """Where a stream stands; everything is counted from its first pair, whatever was learned before it.

    n_pairs: pairs so far.
    cumulative_loss: their summed similarity loss R, each before its own step.
    update_rate: the share of them that moved a hash function.
    bits_moved: how many functions they moved, in all.
    measured: what `measure` returned, which can be read as further attributes.

    Examples
    --------
    >>> from onlinehash import evaluate
    >>> row = evaluate.Row(n_pairs=100, cumulative_loss=250.0, update_rate=0.4, bits_moved=90, measured={"map": 0.5})
    >>> row.n_pairs, row.cumulative_loss / row.n_pairs, row.map
    (100, 2.5, 0.5)
    """

    n_pairs: int
    cumulative_loss: float
    update_rate: float
    bits_moved: int
    measured: Mapping[str, object] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name == "measured" or name not in self.measured:
            raise AttributeError(f"this row has no {name!r}")
        return self.measured[name]


def along(learner: Learner, stream: Stream, every: int = 1000, measure: Measure | None = None) -> Iterator[Row]:
    """Learn a stream, giving a `Row` after each `every` pairs and after the last one.

    Parameters
    ----------
    learner : Learner
    stream : iterable or tuple of arrays
        Any iterable of `(a, b, similar)` or `(a, b, similar, weight)`, such as `streams.read` gives, learned pair by
        pair; or a tuple of arrays `(A, B, similar)` or `(A, B, similar, weight)`, learned in blocks, which is much
        faster and gives the same bytes.
    every : int, default=1000
    measure : callable, optional
        Called with the learner for each row; a mapping such as `{"map": 0.5}` can be read as `row.map`.

    Returns
    -------
    iterator of Row

    Raises
    ------
    InvalidInput
        If the stream gives something else than pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, evaluate
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 8))
    >>> stream = A, B, A[:, 0] * B[:, 0] > 0
    >>> rows = list(evaluate.along(OnlineHashing(n_bits=16, random_state=0), stream, every=80))
    >>> [row.n_pairs for row in rows]
    [80, 160, 200]
    """
    checks.parameters("along", {"every": every}, {"every": checks.integer(1)})
    return _rows(learner, _arrays(stream) if isinstance(stream, tuple) else stream, every, measure)


def area(rows: Sequence[Row], metric: str, *, rule: str = "checkpoints") -> float:
    """Return the area under a metric along a stream, as a share of the whole: its mean height.

    Parameters
    ----------
    rows : sequence of Row
        What `along` gave.
    metric : str
        The name of what was measured.
    rule : {"checkpoints", "pairs"}, default="checkpoints"
        The plain mean over the rows, as the literature on online hashing reports; or trapezoids over the number of
        pairs, from the first row on, where rows need not be equally far apart.

    Returns
    -------
    float

    Raises
    ------
    InvalidInput
        If there are no rows, or they are not in the order of the stream.

    Examples
    --------
    >>> from onlinehash import evaluate
    >>> rows = [evaluate.Row(n, 0.0, 0.0, 0, {"map": value}) for n, value in ((100, 0.2), (200, 0.4), (400, 0.6))]
    >>> round(evaluate.area(rows, "map"), 3), round(evaluate.area(rows, "map", rule="pairs"), 3)
    (0.4, 0.433)
    """
    checks.parameters("area", {"rule": rule}, {"rule": checks.one_of("checkpoints", "pairs")})
    values = np.array([getattr(row, metric) for row in rows], np.float64)
    if len(values) == 0:
        raise InvalidInput("there are no rows to take an area under.")
    if rule == "checkpoints" or len(values) == 1:
        return float(values.mean())
    n_pairs = np.array([row.n_pairs for row in rows], np.float64)
    if (np.diff(n_pairs) <= 0).any():
        raise InvalidInput("the rows must be in the order of the stream: the number of pairs must grow.")
    return float(np.trapezoid(values, n_pairs) / (n_pairs[-1] - n_pairs[0]))


class CodeChanges:
    """A measure for `along`: how many bits of some items' codes differ from the row before.

    Called with a learner or an encoder it gives `{"bits_changed": n}`, over all rows of X together. `before` says
    from where the first row counts; without it, from itself, so it has 0.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, evaluate
    >>> A, B = np.random.default_rng(0).standard_normal((2, 200, 8))
    >>> learner, changes = OnlineHashing(n_bits=16, random_state=0), evaluate.CodeChanges(A[:50])
    >>> rows = list(evaluate.along(learner, (A, B, A[:, 0] * B[:, 0] > 0), every=100, measure=changes))
    >>> rows[0].bits_changed, 0 < rows[1].bits_changed < 50 * 16
    (0, True)
    """

    def __init__(self, X: ArrayLike, before: Learner | Encoder | None = None) -> None:
        self._X = X
        self._codes: Codes | None = None if before is None else encoder_of(before).encode(X)

    def __call__(self, model: Learner | Encoder) -> dict[str, int]:
        codes = encoder_of(model).encode(self._X)
        before = codes if self._codes is None else self._codes
        self._codes = codes
        if before.planes.shape != codes.planes.shape:
            raise InvalidInput(f"all rows must have codes of equal width, got {before!r} and {codes!r}.")
        return {"bits_changed": int(np.bitwise_count(before.planes ^ codes.planes).sum(dtype=np.int64))}


def _rows(learner: Learner, stream: Stream, every: int, measure: Measure | None) -> Iterator[Row]:
    before = _counters(learner)
    if isinstance(stream, tuple):
        learned = _learn_blocks(learner, stream, every)
    else:
        learned = _learn_one_by_one(learner, stream, every)
    n_pairs = 0
    for n in learned:
        n_pairs += n
        loss, updates, bits = (now - then for now, then in zip(_counters(learner), before, strict=True))
        measured = dict(measure(learner)) if measure is not None else {}
        if taken := measured.keys() & Row.__dataclass_fields__.keys():
            raise InvalidInput(f"measure must not use a row's own names: {', '.join(sorted(taken))}.")
        yield Row(n_pairs, loss, updates / n_pairs, int(bits), measured)


def _counters(learner: Learner) -> list[float]:
    """Loss, updates and bits moved since the learner was made; zeros before its first row."""
    return [getattr(learner, name, 0.0) for name in ("cumulative_loss_", "n_updates_", "n_bits_moved_")]


def _arrays(stream: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(stream) not in (3, 4):
        raise InvalidInput(
            expected="a tuple of three arrays (A, B, similar) as stream, or of four with weight", got=f"{len(stream)}"
        )
    A, B, similar, weight = (*stream, None)[:4]
    checks.same_length("B", len(B), len(A), "A")
    checks.same_length("similar", len(similar), len(A), "A and B")
    if weight is not None:
        checks.same_length("weight", len(weight), len(A), "A and B")
    return A, B, similar, weight


def _learn_blocks(learner: Learner, stream: tuple[Any, ...], every: int) -> Iterator[int]:
    A, B, similar, weight = stream
    for start in range(0, len(A), every):
        rows = slice(start, start + every)
        learner.partial_fit_pairs(A[rows], B[rows], similar[rows], None if weight is None else weight[rows])
        yield len(A[rows])


def _learn_one_by_one(learner: Learner, stream: Iterable[Any], every: int) -> Iterator[int]:
    n = 0
    for pair in stream:
        try:
            n_values = len(pair)
        except TypeError:
            n_values = 0
        if n_values not in (3, 4):
            raise InvalidInput(
                expected="(a, b, similar) or (a, b, similar, weight) from the stream", got=type(pair).__name__
            )
        learner.learn_pair(*pair)
        n += 1
        if n == every:
            yield n
            n = 0
    if n:
        yield n
