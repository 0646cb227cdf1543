"""When does a live index follow its learner? A policy says so: any object with `due(index) -> bool`.

What it may look at is listed in `Watched`. One of your own takes a few lines:

    class AtNight:
        def due(self, index):
            return time.localtime().tm_hour < 5

Those here compare and print by their parameters. What they note between two questions belongs to one index: give each
index its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks, evaluate
from onlinehash.arraylike import VectorLike
from onlinehash.errors import FormatError, InvalidInput, InvalidParameter
from onlinehash.index.api import Policy, Watched
from onlinehash.learners.encoder import Encoder
from onlinehash.types import Json

__all__ = [
    "always",
    "budget",
    "by_hand",
    "by_mutual_information",
    "every",
    "from_specification",
    "no_worse",
    "specification",
    "when_changed",
]

#: A look costs about half a millisecond: once in so many changes that is nothing, and no drift goes unseen for long.
MOST_CHANGES = 256

#: Each pair pays for this part of `bits_at_once`, so that a large index is refreshed after as many pairs as its size
#: asks for.
PAIRS_AT_ONCE = 16

#: `by_mutual_information` looks after so many changes, and wants so many pairs of each kind.
CHANGES_BETWEEN_LOOKS = 16
ENOUGH_OF_A_KIND = 8

#: What is asked of a policy that somebody gives; None is the default, or the one that is stored.
IS_POLICY: checks.Rule = (
    "a policy with a method due(index), such as refresh.every(50)",
    lambda policy: policy is None or (callable(getattr(policy, "due", 0)) and not isinstance(policy, type)),
)


class Pause:
    """Looking costs far more than learning a pair, so it is done now and then, by the number of changes.

    That is how far the learner's version is beyond the encoder's: pairs that moved a function count, points that moved
    the mean too, and pairs that taught nothing do not. A new encoder is looked at once. Each change of a chunk learner
    is that of many pairs, which took longer to learn than a look takes, so there is no pause.
    """

    def __init__(self) -> None:
        self._encoder: Encoder | None = None
        self._since = self._until = 0

    def is_over(self, index: Watched) -> bool:
        """Whether it is time to look."""
        if index.encoder is not self._encoder:
            self._encoder, self._since, self._until = index.encoder, 0, 0
        if index.learner.traits.unit == "chunk":
            return True
        return not self._since <= changes(index) < self._until  # fewer changes: the learner began anew

    def begin(self, index: Watched, wait: float) -> None:
        """Wait for so many changes; at least an eighth of those so far, and at most MOST_CHANGES."""
        self._since = changes(index)
        self._until = self._since + min(max(1, self._since // 8, int(wait)), MOST_CHANGES)


def changes(index: Watched) -> int:
    """Changes of the learner since the stored codes; costs nothing."""
    return index.learner.version_ - index.encoder.version


class Deferral:
    """What it would have cost to refresh after every single change since the stored codes, in columns.

    A refresh that comes later pays for a column once, however often it changed. A chunk learner puts its changes
    together itself and shows few of them: each pair or point that it learned counts for a column, so that its changes
    become affordable too.
    """

    def __init__(self) -> None:
        self._encoder: Encoder | None = None
        self._columns = self.steps = 0  # steps: changes that pairs made, which are not only the mean's
        self._counted = (0, 0, 0, 0)

    def columns(self, index: Watched) -> int:
        """The columns that would have been computed by now; to be asked after every change."""
        if index.encoder is not self._encoder:
            self._encoder, self._columns, self.steps = index.encoder, 0, 0
        learner, n_columns = index.learner, index.encoder.n_columns
        rows = learner.n_pairs_seen_ if learner.traits.learns_from == "pairs" else learner.n_points_seen_
        counted = learner.version_, learner.n_updates_, learner.n_bits_moved_, rows
        if counted < self._counted:  # it began anew
            self._counted = (0, 0, 0, 0)
        changes, steps, moved, rows = (now - before for now, before in zip(counted, self._counted, strict=True))
        self.steps += steps
        self._columns += moved + n_columns * (changes - steps)  # what is no step is the mean, which moves all of them
        self._columns += rows if learner.traits.unit == "chunk" else 0
        self._counted = counted
        return self._columns


class _BuiltIn:
    """A policy that checks its parameters, and prints as the call that makes it."""

    rules: ClassVar[dict[str, checks.Rule]] = {}

    def __post_init__(self) -> None:
        checks.parameters(f"refresh.{type(self).__name__}", vars(self), self.rules)
        for name in self.rules:  # plain numbers, which JSON can hold
            value = getattr(self, name)
            setattr(self, name, int(value) if isinstance(value, Integral) else float(value))

    def parameters(self) -> dict[str, Json]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]

    def __repr__(self) -> str:
        defaults = {f.name: f.default for f in fields(self)}  # type: ignore[arg-type]
        shown = [repr(value) for name, value in self.parameters().items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(repr=False)
class always(_BuiltIn):
    """After every change: the codes are always the learner's, at the highest cost.

    Examples
    --------
    >>> from onlinehash import LiveIndex, refresh
    >>> LiveIndex(n_bits=16, refresh=refresh.always()).policy
    always()
    """

    def due(self, index: Watched) -> bool:
        return True


@dataclass(repr=False)
class by_hand(_BuiltIn):
    """Never automatically: only `index.refresh()` refreshes.

    Examples
    --------
    >>> from onlinehash import LiveIndex, refresh
    >>> LiveIndex(n_bits=16, refresh=refresh.by_hand()).policy
    by_hand()
    """

    def due(self, index: Watched) -> bool:
        return False


@dataclass(repr=False)
class every(_BuiltIn):
    """Once so many pairs were learned. Points without pairs do not count.

    Examples
    --------
    >>> from onlinehash import LiveIndex, refresh
    >>> LiveIndex(n_bits=16, refresh=refresh.every(50)).policy
    every(50)
    """

    n_pairs: int
    rules: ClassVar = {"n_pairs": checks.integer(1)}

    def due(self, index: Watched) -> bool:
        return index.pairs_behind >= self.n_pairs


@dataclass(repr=False)
class when_changed(_BuiltIn):
    """At once where that is cheap, and else when so large a share of the stored bits would come out otherwise.

    Cheap is what recomputes at most `index.bits_at_once` bits (changed functions times items: all functions of some
    20,000 items), and a 16th of this more for each pair since. So the codes of a small index follow as soon as the
    learner changes a function: with each pair for one that learns pair by pair, after some chunks for the default one,
    which publishes a bit when a good share of items would change theirs. The share is estimated on a sample of the
    vectors, and such a refresh waits until it costs at most `price` of what it would have cost to refresh after every
    single change.

    Examples
    --------
    >>> from onlinehash import LiveIndex, refresh
    >>> LiveIndex(n_bits=16, refresh=refresh.when_changed(0.05)).policy
    when_changed(0.05)
    """

    share: float
    price: float = 0.1
    rules: ClassVar = {"share": checks.real(0, 1, above=True), "price": checks.real(0, 1, above=True)}
    _pause: Pause = field(default_factory=Pause, init=False, compare=False)
    _deferral: Deferral = field(default_factory=Deferral, init=False, compare=False)
    _encoder: Encoder | None = field(default=None, init=False, compare=False)
    _columns: int = field(default=1, init=False, compare=False)  # that had changed when it was last looked at

    def due(self, index: Watched) -> bool:
        affordable = self.price * self._deferral.columns(index)
        if len(index) == 0 or self._is_cheap(index):
            return True
        if affordable < 1 or not self._pause.is_over(index):
            return False
        newest = index.newest
        changed = _share_changed(index.encoder, newest, index.sample)
        if changed >= self.share:
            return len(newest.changed_bits(index.encoder)) <= affordable
        # Half of the way to where the share is reached if it goes on like this, and at most as far again as so far.
        way = self.share / changed - 1 if changed else math.inf
        self._pause.begin(index, changes(index) * min(1, way / 2))
        return False

    def _is_cheap(self, index: Watched) -> bool:
        """Whether pairs have changed functions, and not more of them than can be recomputed at once."""
        if not self._deferral.steps:
            return False
        affordable = index.bits_at_once * (1 + index.pairs_behind / PAIRS_AT_ONCE) / len(index)
        if index.encoder is not self._encoder:
            self._encoder, self._columns = index.encoder, 1
        if self._columns <= affordable < index.encoder.n_columns:  # counting them costs something too
            self._columns = max(1, len(index.newest.changed_bits(index.encoder)))
        return self._columns <= affordable


@dataclass(repr=False)
class by_mutual_information(_BuiltIn):
    """When the new distances of learned pairs tell more of their similarity than the stored ones, by `threshold` bits.

    The trigger of MIHash (Cakir et al., "MIHash: Online Hashing with Mutual Information", 2017); theirs is 0.

    Examples
    --------
    >>> from onlinehash import LiveIndex, refresh
    >>> LiveIndex(n_bits=16, refresh=refresh.by_mutual_information(0.1)).policy
    by_mutual_information(0.1)
    """

    threshold: float
    rules: ClassVar = {"threshold": checks.real(0)}
    _pause: Pause = field(default_factory=Pause, init=False, compare=False)

    def due(self, index: Watched) -> bool:
        if not self._pause.is_over(index):
            return False
        self._pause.begin(index, CHANGES_BETWEEN_LOOKS)
        pairs = index.recent_pairs
        n_similar = np.count_nonzero(np.asarray(pairs[2]) > 0)
        if min(n_similar, len(pairs[2]) - n_similar) < ENOUGH_OF_A_KIND:
            return False
        old, new = (evaluate.mutual_information(encoder, *pairs) for encoder in (index.encoder, index.newest))
        return new - old > self.threshold


@dataclass(repr=False)
class budget(_BuiltIn):
    """As often as so many recomputed bits a second allow: changed columns times items, whoever asked for the refresh.

    What is not spent is saved, up to the cost of computing all codes anew.

    Examples
    --------
    >>> from onlinehash import LiveIndex, refresh
    >>> LiveIndex(n_bits=16, refresh=refresh.budget(1000000.0)).policy
    budget(1000000.0)
    """

    bits_per_second: float
    rules: ClassVar = {"bits_per_second": checks.real(0, above=True)}
    _saved: float = field(default=0.0, init=False, compare=False)
    _time: float | None = field(default=None, init=False, compare=False)
    _encoder: Encoder | None = field(default=None, init=False, compare=False)
    _columns: int = field(default=0, init=False, compare=False)

    def due(self, index: Watched) -> bool:
        now, encoder = index.clock(), index.encoder
        if self._time is not None:
            self._saved += (now - self._time) * self.bits_per_second
        self._time = now
        if encoder is not self._encoder:
            if self._encoder is not None:  # paid for when it was done, not when it was due: it may have been put off
                self._saved -= len(index) * len(encoder.changed_bits(self._encoder))
            self._encoder, self._columns = encoder, 0
        self._saved = min(self._saved, len(index) * encoder.n_columns)
        if self._saved >= len(index) * self._columns:  # counting changed columns costs something too
            self._columns = index.behind.bits
        return self._saved >= len(index) * self._columns


class no_worse:
    """When another policy says so, provided that pairs that are never learned are told apart as well as before.

    That is, `evaluate.pairs(...).auc` of the newest functions is at least that of the stored codes, less a tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import refresh
    >>> A, B = np.random.default_rng(0).standard_normal((2, 100, 8))
    >>> refresh.no_worse(refresh.every(50), A, B, A[:, 0] * B[:, 0] > 0)
    no_worse(every(50), A, B, similar, tolerance=0.0)
    """

    def __init__(
        self, policy: Policy, A: VectorLike, B: VectorLike, similar: ArrayLike, tolerance: float = 0.0
    ) -> None:
        if not callable(getattr(policy, "due", None)):
            raise InvalidParameter(expected="a policy with a method due for refresh.no_worse", got=checks.shown(policy))
        checks.parameters("refresh.no_worse", {"tolerance": tolerance}, {"tolerance": checks.real(0, 1)})
        A, B = checks.vectors(A, "A"), checks.vectors(B, "B")
        checks.same_length("B", len(B), len(A), "A")
        checks.width(B, A.shape[1], "A", "B")
        s = checks.similarities(similar, len(A))
        if len(np.unique(s)) < 2:
            raise InvalidInput(expected="similar and dissimilar held-out pairs", got=f"{len(s)} of one kind")
        self.policy, self.tolerance = policy, float(tolerance)
        self._pairs = A.copy(), B.copy(), s.copy()
        self._pause = Pause()

    def due(self, index: Watched) -> bool:
        if not self.policy.due(index) or not self._pause.is_over(index):
            return False
        self._pause.begin(index, 1)
        old, new = (evaluate.pairs(encoder, *self._pairs).auc for encoder in (index.encoder, index.newest))
        return new >= old - self.tolerance

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, no_worse):
            return NotImplemented
        same = (self.policy, self.tolerance) == (other.policy, other.tolerance)
        return same and all(map(np.array_equal, self._pairs, other._pairs))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"no_worse({self.policy!r}, A, B, similar, tolerance={self.tolerance!r})"


_BY_NAME = {kind.__name__: kind for kind in (always, by_hand, every, when_changed, by_mutual_information, budget)}


def specification(policy: Policy) -> dict[str, Json] | None:
    """Return a policy as a dictionary for JSON.

    Returns
    -------
    dict or None
        None for a policy that is more than a name and numbers, such as one of your own.

    Examples
    --------
    >>> from onlinehash import refresh
    >>> refresh.specification(refresh.every(50))
    {'policy': 'every', 'n_pairs': 50}
    """
    if type(policy) not in _BY_NAME.values():
        return None
    assert isinstance(policy, _BuiltIn)
    return {"policy": type(policy).__name__, **policy.parameters()}


def from_specification(specification: Mapping[str, Json]) -> Policy:
    """Return the policy that had this specification.

    Returns
    -------
    Policy

    Raises
    ------
    FormatError
        If there is no such policy.

    Examples
    --------
    >>> from onlinehash import refresh
    >>> refresh.from_specification({"policy": "every", "n_pairs": 50})
    every(50)
    """
    try:
        parameters: dict[str, Any] = dict(specification)
        policy: Policy = _BY_NAME[parameters.pop("policy")](**parameters)
    except (KeyError, TypeError, ValueError):
        raise FormatError(
            expected=f"a refresh policy, one of {', '.join(_BY_NAME)} with its parameters",
            got=checks.shown(specification),
        ) from None
    return policy


def _share_changed(old: Encoder, new: Encoder, rows: np.ndarray) -> float:
    """The share of these rows' bits that differ, at the cost of the columns that changed."""
    columns = new.changed_bits(old)
    if len(columns) == 0 or len(rows) == 0:
        return 0.0
    differ = np.count_nonzero(old.bits_of(rows, columns) != new.bits_of(rows, columns))
    return differ / (len(rows) * new.n_columns)
