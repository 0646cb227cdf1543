"""`Learner`: the whole life of a learner, from its first row to its saved state.

A method's own file fills in a few hooks; everything else is here, once, and reads from top to bottom:

hooks        what a method fills in, with defaults
ownership    an index that keeps a learner on a disk is the only one that may teach it
the start    parameters are checked, the state is laid out, the first hash functions are drawn
pairs, points, labels
             the ways in: the checks, then the feature map and the centring, then the method's own step
waiting      rows that came before the feature map had its anchors; chunks that are ended early
outliers     vectors far longer than the others are scaled down before anything is learned from them
undo         a call that is refused after it began to learn
codes        snapshots, codes and scores
metric       where it is kept, a measure of nearness of the vectors themselves learns along
state        everything learned, as arrays and plain values

Every way in keeps two promises: a batch learns bit for bit what a loop over its rows learns, and a call that is refused
changes nothing.
"""

from __future__ import annotations

import copy
import math
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone

from onlinehash import checks
from onlinehash.arraylike import VectorLike
from onlinehash.codes import Codes, fused_distances
from onlinehash.codes.ranking import expected_average_precision
from onlinehash.errors import Diverged, FormatError, InvalidInput, InvalidParameter, NotReady
from onlinehash.features import (
    Centring,
    FeatureMap,
    NotFitted,
    RbfAnchors,
    Transformer,
    given_parameters,
    make_map,
    note_feature_names,
    same_parameters,
)
from onlinehash.io import format
from onlinehash.io.format import like
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.lengths import MOST, N_FIRST, Lengths, typical_length
from onlinehash.learners.pair_metric import PairMetric
from onlinehash.learners.update import Update, Updates
from onlinehash.numeric.dots import pad_rows
from onlinehash.numeric.signs import canonical_dots
from onlinehash.streams import Classes, LabelPairing
from onlinehash.types import RandomState, State

#: From this many pairs on, a method whose kernel checks values itself is spared a separate check of the batch.
MANY_PAIRS = 1000

#: Pairs mapped, centred and learned at once: bounds the memory of a batch. And how many where a kernel takes them as
#: they are.
BLOCK_PAIRS, RAW_PAIRS = 1024, 4096

#: A mean so many times as long as a typical vector is that of a few outliers; rows that are looked at for it.
FAR_AWAY, SAMPLE_OF_OUTLIERS = 1000.0, 64

#: Types of a label, and of a weight, that need no further check.
WHOLE = (bool, np.bool_, int, np.integer)
NUMBER = (float, int, np.floating, np.integer)

#: What kernels take for the label of a single pair. Made once and shared, so nobody may write to these.
SIGNS = {label: np.array([1 if label == 1 else -1], np.int8) for label in (1, 0, -1)}

#: What to do about numbers that overflowed.
ANEW = "rescale the vectors, and begin anew with fit"

#: The widest vectors that a file may claim, and the largest seed: of 256 bits, as NumPy draws at most 128 of them.
MOST_FEATURES, MOST_SEED = 2**24, 2**256

COUNTERS = (
    "version_",
    "n_pairs_seen_",
    "n_points_seen_",
    "n_updates_",
    "n_steps_",
    "n_capped_",
    "n_bits_moved_",
    "cumulative_loss_",
)

#: The hook `_learn`: pairs of features, whether they are similar, their weights, and room for what each of them did.
LearnPairs = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Updates], None]

#: A way to learn pairs other than calling the hook alone; it is given the hook first, and then what the hook takes.
Step = Callable[[LearnPairs, np.ndarray, np.ndarray, np.ndarray, np.ndarray, Updates], None]


@dataclass(frozen=True)
class Traits:
    """What a method learns from, and in what units; the shared tests and the command line rely on it."""

    learns_from: str  # "pairs", "labels" or "nothing"
    unit: str  # "pair", "point", "chunk" or "batch"
    several_labels: bool = False  # whether a point may have more than one
    keeps_codes: bool = False  # whether learning changes how queries are encoded, and codes of items stay


class Owner(Protocol):
    """An index that keeps a learner on a disk and is the only one that may teach it."""

    @property
    def learner(self) -> Learner: ...
    @property
    def is_learning(self) -> bool: ...


class Event(NamedTuple):
    """Something that came while the feature map was not ready: a pair, a labelled point, or a point.

    A point has no `b`; a labelled one has `members`, its class numbers.
    """

    a: np.ndarray
    b: np.ndarray | None = None
    similar: int = 0
    weight: float = 0.0
    members: np.ndarray | None = None


class PendingEvents:
    """The events that wait for the feature map, in order."""

    def __init__(self, events: list[Event] | None = None) -> None:
        self._events = events or []
        self.n_pairs = sum(event.b is not None for event in self._events)

    def __len__(self) -> int:
        return len(self._events)

    @property
    def first(self) -> Event:
        return self._events[0]

    @property
    def n_labelled(self) -> int:
        return sum(event.members is not None for event in self._events)

    def append(self, event: Event) -> None:
        self._events.append(event)
        self.n_pairs += event.b is not None

    def take(self) -> list[Event]:
        """Return all events and empty the queue."""
        events, self._events, self.n_pairs = self._events, [], 0
        return events

    def copy(self) -> PendingEvents:
        """An independent queue; events are immutable and shared."""
        return PendingEvents(list(self._events))

    def get_state(self) -> list[State]:
        """Class numbers are left out where there are none, so that files of pairs keep their format."""
        return [
            {name: value for name, value in event._asdict().items() if name != "members" or value is not None}
            for event in self._events
        ]

    def set_state(self, state: list[State], point: np.ndarray, n_classes: int) -> None:
        """The events of `get_state`, checked; `point` has the shape and dtype that points must have."""
        self.take()
        for event in format.listed(state, "pending"):
            b = None if event["b"] is None else like(event["b"], point, "a pending point")
            a, members = like(event["a"], point, "a pending point"), event.get("members")
            if members is not None:
                some = np.zeros(np.size(members), np.int64)
                members = like(members, some, "the classes of a pending point", 0, n_classes - 1)
            similar, weight = (
                format.whole(event["similar"], "similar", -1, 1),
                format.real(event["weight"], "weight", 0),
            )
            self.append(Event(a, b, similar, weight, members))


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A learner before a call that may fail: what it has learned, and what a saved state would not keep.

    The feature map and the events are as cheap to keep as they can be: a map that is ready and an event never change.
    """

    names: frozenset[str]  # of all attributes there were
    learned: State | None  # None before the first row
    parameters: Any = None
    feature_map: FeatureMap | None = None
    pending: PendingEvents | None = None


class Learner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Base class of all learners.

    Parameters
    ----------
    n_bits : int
        Length r of a code (per model).
    features : RbfAnchors, transformer or None, default=None
        A feature map before hashing; None hashes the vectors themselves.
    centre : {"burn-in", "running", "median", "none"}, default="burn-in"
        How features are centred; see `onlinehash.features.centring`.
    burn_in : int, default=2000
        Points after which the mean is frozen ("burn-in" and "median").
    similar_share : float or None, default=None
        Target fraction of similar pairs when pairs are made from labels; None takes points two by two as they come.
    reservoir_size : int, default=512
        Points kept to reach `similar_share`.
    random_state : int, Generator, RandomState or None, default=None
        Seed of everything random.

    Attributes
    ----------
    n_features_in_ : int
        Width of the vectors.
    dtype_ : dtype
        float32 or float64, as the first vectors had it.
    mean_ : array of shape (n_inputs,)
        The mean that features are centred with (a copy).
    version_ : int
        Grows whenever `encode` could give other codes than before.
    n_pairs_seen_, n_points_seen_ : int
        Pairs and points learned or observed so far.
    n_pairs_pending_, n_points_pending_ : int
        Pairs and labelled points that wait for the feature map.
    n_outliers_ : int
        Vectors that were scaled down because they were more than 100 times as long as the median of those before.
    n_updates_ : int
        Pairs that moved a hash function.
    n_steps_, n_capped_ : int
        Steps taken, and how many of them C cut short.
    n_bits_moved_ : int
        Hash functions moved, summed over all updates.
    cumulative_loss_ : float
        Sum of the losses of all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.standard_normal((2, 100, 16))
    >>> learner = OnlineHashing(n_bits=8, random_state=0).partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0)
    >>> learner.n_pairs_seen_
    100
    >>> learner.transform(A).shape
    (100, 8)
    """

    n_bits: int
    features: Transformer | None
    centre: str
    burn_in: int
    similar_share: float | None = None
    reservoir_size: int = 2
    random_state: RandomState

    n_features_in_: int
    dtype_: np.dtype
    version_: int
    n_pairs_seen_: int
    n_points_seen_: int
    n_updates_: int
    n_steps_: int
    n_capped_: int
    n_bits_moved_: int
    cumulative_loss_: float

    # ------------------------------------------------------------------ hooks: what a method fills in

    traits: ClassVar[Traits]

    #: Whether `_learn` takes features as they are, centres them itself, and refuses values that are not finite with an
    #: InvalidInput. One pass over a large batch then does what otherwise takes three.
    _takes_raw_pairs: ClassVar[bool] = False

    #: The modes of centring that the method supports; a median must be tracked inside the method's own loop.
    _centre_modes: ClassVar[tuple[str, ...]] = ("burn-in", "running", "none")

    #: Whether a step is an array, one per model.
    _per_model: ClassVar[bool] = False

    def _rules(self) -> dict[str, checks.Rule]:
        """Rules for the method's parameters, beside the common ones."""
        return {}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        """Draw the first hash functions for `n_inputs` centred features."""
        raise NotImplementedError

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        """Learn pairs of centred features, and write what happened into `updates`.

        A method that does not learn from pairs leaves this as it is: a pair is two points to it.
        """
        done = Updates.empty(2 * len(A), self._n_models, self._n_columns, self._per_model)
        self._observe(pad_rows(np.stack([A, B], axis=1).reshape(-1, A.shape[1])), done)
        updates.moved |= done.moved.reshape(-1, 2).any(axis=1)
        updates.flips[:] = done.flips[0::2] | done.flips[1::2]
        updates.n_moved[:] = np.count_nonzero(updates.flips, axis=1)
        updates.step[:] = np.maximum(done.step[0::2], done.step[1::2])

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Updates) -> None:
        """Learn centred points in padded rows with their class numbers, int64 `(n, m)` padded with -1."""
        raise NotImplementedError

    def _observe(self, X: np.ndarray, updates: Updates) -> None:
        """Take centred points without pairs, in padded rows; most methods learn nothing from them."""

    def _end_chunk(self, updates: Updates) -> None:
        """Learn what waits for its chunk to fill, and write what happened into the one row of `updates`."""

    def _settle(self, updates: Updates) -> None:
        """Publish all that was learned, where codes do not follow every step; `updates` as in `_end_chunk`."""

    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        """The hash functions now: weights, one row per bit, and thresholds on centred features."""
        raise NotImplementedError

    def _query_encoders(self) -> tuple[Encoder, Encoder] | None:
        """How queries are encoded, if not as items are: see `Encoder`."""
        return None

    def _get_method_state(self) -> State:
        """All that the method changes as it learns, as arrays and plain values; they need not be copies."""
        raise NotImplementedError

    def _set_method_state(self, state: State) -> None:
        """Check and take over what `_get_method_state` gave; `_begin` was called before."""
        raise NotImplementedError

    @property
    def _n_models(self) -> int:
        return 1

    @property
    def _fusion(self) -> str:
        return "min"

    @property
    def _n_columns(self) -> int:
        return self._n_models * self.n_bits

    @property
    def shape_of_codes(self) -> tuple[int, int, str]:
        """Bits of a code, codes of a vector, and how their distances are fused; known before anything is learned."""
        return self.n_bits, self._n_models, self._fusion

    # ------------------------------------------------------------------ ownership

    _owner: weakref.ref[Owner] | None = None

    @property
    def origin(self) -> object:
        """An object that stays the same as long as learning continues; `fit` and `set_state` replace it."""
        return getattr(self, "_parameters", None)

    def owned_by(self, owner: Owner | None) -> None:
        """Make an owner the only one that may teach this learner.

        Parameters
        ----------
        owner : Owner or None
            The index that keeps what is learned; None ends the ownership.

        Raises
        ------
        InvalidInput
            If the learner has another owner.
        """
        self.check_free()
        self._owner = None if owner is None else weakref.ref(owner)

    def check_free(self) -> None:
        """Refuse to learn where only an owner may teach; a copy of an owned learner is free.

        Raises
        ------
        InvalidInput
            If the learner is owned, and its owner is not the one that is teaching it now.
        """
        owner = None if self._owner is None else self._owner()
        if owner is not None and not owner.is_learning and owner.learner is self:
            raise InvalidInput(f"{owner} owns this {type(self).__name__}; learn through the index, or close it.")

    # ------------------------------------------------------------------ the start

    def _check_rows_fit(self, rows: np.ndarray) -> None:
        """Refuse rows or parameters that do not fit what was learned before. Before the first rows, everything fits."""
        self.check_free()
        if hasattr(self, "n_features_in_"):
            checks.width(rows, self.n_features_in_, type(self).__name__)
            self._check_same_parameters()

    def _open(self, rows: np.ndarray, X: VectorLike | None = None) -> None:
        """Initialise on the first rows; check the column names on every call."""
        first = not hasattr(self, "n_features_in_")
        if first:
            self._check_parameters(rows)
        if X is not None:
            note_feature_names(self, X, first)
        if first:
            self._lay_out_state(rows, _seed(self.random_state))
            if self._map is None or self._map.is_ready:
                self._start(rows)

    def _lay_out_state(self, rows: np.ndarray, seed: int) -> None:
        """Initialise everything except the hash functions, for rows of this width and dtype."""
        self._parameters = {
            name: clone(value) if hasattr(value, "get_params") else value  # estimators can be changed from outside
            for name, value in given_parameters(self).items()
        }
        self.n_features_in_ = rows.shape[1]
        self.dtype_ = rows.dtype
        self.version_ = self.n_pairs_seen_ = self.n_points_seen_ = 0
        self.n_updates_ = self.n_steps_ = self.n_capped_ = self.n_bits_moved_ = 0
        self.cumulative_loss_ = 0.0
        self._seed = seed
        self._map: FeatureMap | None = make_map(self.features, rows.dtype, seed)
        self._pending = PendingEvents()
        #: The last snapshot. It is in a list because scikit-learn forbids `transform` to assign an attribute.
        self._snapshots: list[Encoder] = []
        self._pairing = LabelPairing(
            self.similar_share,
            self.reservoir_size,
            np.random.default_rng([self._seed, 1]),
            self.n_features_in_,
            self.dtype_,
        )
        self._classes = Classes()
        self._metric = PairMetric(self.n_features_in_, seed) if self._keeps_metric else None
        self._lengths = Lengths()

    def _start(self, rows: np.ndarray) -> None:
        """Draw the first hash functions, now that the feature map is ready (or there is none)."""
        self._start_with(self.n_features_in_ if self._map is None else self._map.map_rows(rows[:1]).shape[1])

    def _start_with(self, n_inputs: int) -> None:
        self._begin(n_inputs, np.random.default_rng([self._seed, 0]))
        self._centring = Centring(self.centre, self.burn_in, n_inputs, self.dtype_)

    @property
    def is_ready(self) -> bool:
        """Whether there are hash functions: the first rows have come, and the feature map does not wait for more."""
        return hasattr(self, "_centring")

    @property
    def mean_is_frozen(self) -> bool:
        """Whether `mean_` is final."""
        return self.is_ready and bool(self._centring.count[0] >= self._centring.limit)

    @property
    def _dtype_so_far(self) -> np.dtype | None:
        return getattr(self, "dtype_", None)

    def _check_parameters(self, rows: np.ndarray) -> None:
        rules = {
            "n_bits": checks.integer(1, 4096),
            "centre": checks.one_of(*self._centre_modes),
            "burn_in": checks.integer(1, format.MOST),
            "similar_share": checks.either(checks.one_of(None), checks.real(0, 1)),
            "reservoir_size": checks.integer(2, 10**7),
            "random_state": (
                "None, an integer of at least 0, or a numpy Generator or RandomState",
                lambda v: (
                    v is None or checks.integer(0)[1](v) or isinstance(v, np.random.Generator | np.random.RandomState)
                ),
            ),
        }
        params = given_parameters(self)
        checks.parameters(type(self).__name__, params, {k: rules[k] for k in rules if k in params})
        checks.parameters(type(self).__name__, params, self._rules())  # which may depend on the common ones
        feature_map = make_map(self.features, rows.dtype)
        if feature_map is not None:
            feature_map.check(rows)

    def _check_same_parameters(self) -> None:
        """Refuse parameters that changed since learning began, because what was learned depends on them."""
        if all(map(is_, map(vars(self).get, self._parameters), self._parameters.values())):
            return  # as nearly always without a feature map, and four times as quick
        for name, value in self._parameters.items():
            now = getattr(self, name)
            if now is not value and not same_parameters(now, value):
                raise InvalidParameter(
                    expected=f"{name} to stay {checks.shown(value)} while learning goes on",
                    got=checks.shown(now),
                    hint="call fit to begin anew",
                )

    def _check_takes(self, what: str) -> None:
        """Refuse what this method cannot learn from."""
        name = type(self).__name__
        if self.traits.unit == "batch" and not (what == "points" and self.is_ready):
            raise InvalidInput(
                expected=f"all points at once, because {name} is a batch method",
                got=f"{what}",
                hint="fit it to a matrix or file of points, or take a method that learns online",
            )
        if self.traits.learns_from == "labels" and what == "pairs":
            raise InvalidInput(
                expected=f"labelled points, because {name} learns from labels",
                got="pairs",
                hint="give it labels (partial_fit), or take a method that learns from pairs",
            )

    # ------------------------------------------------------------------ pairs

    def learn_pair(self, a: VectorLike, b: VectorLike, similar: bool | int, sample_weight: float = 1.0) -> Update:
        """Learn one pair.

        Parameters
        ----------
        a, b : array-like of shape (n_features,)
            The two vectors.
        similar : bool, or 1 or -1, or 1 or 0
            Whether they are similar.
        sample_weight : float, default=1.0
            How much the pair counts, from 0 to 1e6; for OH it scales C, the most one pair may move the functions.

        Returns
        -------
        Update
            What the pair did.

        Raises
        ------
        InvalidInput
            If a value, a width or the method does not fit; nothing is learned then.

        Examples
        --------
        >>> from onlinehash import OnlineHashing
        >>> learner = OnlineHashing(n_bits=8, centre="none", random_state=0)
        >>> update = learner.learn_pair([1.0, 2.0], [-1.0, 0.5], similar=True)
        >>> update.loss, len(update.bits)
        (1.0, 1)
        """
        if self._are_plain(a, b):
            rows, sign, weight = (plain(a), plain(b)), _sign(similar), _weight(sample_weight)
            if sign is not None and weight >= 0:
                self._check_takes("pairs")
                self.check_free()
                self._check_same_parameters()
                if self._lengths.takes(*rows):  # nothing here that a check would refuse or change
                    return self._learn_alone(rows[0][None], rows[1][None], sign, np.array((weight,)))
        A, B = checks.row(a, "a"), checks.row(b, "b")
        return next(self._take_pairs(A, B, similar, sample_weight, names=("a", "b")))[0]

    def _learn_alone(self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray) -> Update:
        """Learn one pair that is checked and no outlier; a method may know a shorter way."""
        return self._learn_entered(A, B, s, w)[0]

    def _mapped(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (A, B) if self._map is None else (self._map.map_rows(A), self._map.map_rows(B))

    def _leave_unchanged(self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray, loss: float) -> Update:
        """Count one pair that changed neither the functions nor the mean: there is little to record of it."""
        self.n_points_seen_ += 2
        self.n_pairs_seen_ += 1
        self.cumulative_loss_ += loss
        if self._metric is not None:
            self._metric.learn(A, B, s, w)
        return Update(loss, 0.0, np.empty(0, np.int64))

    def _are_plain(self, a: object, b: object) -> bool:
        """Whether these vectors can skip the checks: right width and dtype, no feature names, no map that may fail."""
        if type(a) is not np.ndarray or type(b) is not np.ndarray or not self.is_ready or self._map_may_refuse:
            return False
        if a.dtype != self.dtype_ or b.dtype != self.dtype_ or hasattr(self, "feature_names_in_"):
            return False
        return bool(a.shape == b.shape == (self.n_features_in_,))

    def partial_fit_pairs(
        self, A: VectorLike, B: VectorLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn many pairs, row t of A with row t of B: bit for bit what a loop over `learn_pair` learns.

        Parameters
        ----------
        A, B : array-like of shape (n_pairs, n_features)
            The first and the second vectors of the pairs.
        similar : array-like of shape (n_pairs,)
            Bools, 1 and -1, or 1 and 0.
        sample_weight : array-like of shape (n_pairs,), float or None, default=None
            How much each pair counts, from 0 to 1e6; None counts all pairs once.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If values or shapes do not fit; nothing is learned then, even if only the last row is wrong.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing
        >>> A, B = np.random.default_rng(0).standard_normal((2, 100, 4))
        >>> similar = A[:, 0] * B[:, 0] > 0
        >>> learner = OnlineHashing(n_bits=8, random_state=0).partial_fit_pairs(A, B, similar)
        >>> learner.n_pairs_seen_
        100
        """
        for _ in self._take_pairs(A, B, similar, sample_weight):
            pass  # what each pair did is not kept, so that memory does not grow with the batch
        return self

    def relearn_pairs(self, A: VectorLike, B: VectorLike, similar: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Learn pairs out of a log again; it may be older than the bound on weights.

        Parameters
        ----------
        A, B, similar, sample_weight
            As in `partial_fit_pairs`; any finite weight.

        Raises
        ------
        InvalidInput
            If values or shapes do not fit.
        """
        for _ in self._take_pairs(A, B, similar, sample_weight, most_weight=sys.float_info.max):
            pass

    def learn_pairs(
        self, A: VectorLike, B: VectorLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Updates:
        """Learn many pairs as `partial_fit_pairs` does, and return what each of them did.

        Parameters
        ----------
        A, B, similar, sample_weight
            As in `partial_fit_pairs`.

        Returns
        -------
        Updates
            A row per pair.

        Raises
        ------
        InvalidInput
            If values or shapes do not fit; nothing is learned then.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing
        >>> A, B = np.random.default_rng(0).standard_normal((2, 50, 4))
        >>> updates = OnlineHashing(n_bits=8, random_state=0).learn_pairs(A, B, A[:, 0] * B[:, 0] > 0)
        >>> len(updates), float(updates.loss.sum()) > 0
        (50, True)
        """
        return Updates.join(list(self._take_pairs(A, B, similar, sample_weight)))

    def learn_pairs_by(
        self, step: Step, A: VectorLike, B: VectorLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Iterator[Updates]:
        """Learn pairs by a step that wraps the method's own, to watch it or to do its work elsewhere.

        Parameters
        ----------
        step : callable
            Called with the method's own step and what that takes, once for each block of pairs:
            `step(learn, A, B, similar, weights, updates)`. The learner and `updates` must be afterwards as after
            `learn(A, B, similar, weights, updates)`.
        A, B, similar, sample_weight
            As in `partial_fit_pairs`.

        Yields
        ------
        Updates
            What the pairs of a block did. All blocks must be taken; if one fails, the learner is put back.

        Raises
        ------
        InvalidInput
            If values or shapes do not fit; nothing is learned then.
        """
        return self._take_pairs(A, B, similar, sample_weight, step=step)

    def _take_pairs(
        self,
        A: VectorLike,
        B: VectorLike,
        similar: ArrayLike,
        sample_weight: ArrayLike | None,
        *,
        names: tuple[str, str] = ("A", "B"),
        step: Step | None = None,
        most_weight: float = checks.MOST_WEIGHT,
    ) -> Iterator[Updates]:
        """Check everything, then learn it block by block.

        A method whose kernel checks the values as they pass spares large batches a pass of their own, which costs as
        much as a fifth of the learning; where it meets one that is not finite, the blocks before are undone.
        """
        frames = (A, B)
        A, B, s, w = self._aligned_pairs(A, B, similar, sample_weight, names, most_weight)
        is_raw = self._takes_raw_pairs and self.features is None
        unchecked = is_raw and len(A) >= MANY_PAIRS
        if unchecked and isinstance(self.random_state, np.random.Generator | np.random.RandomState):
            unchecked = hasattr(self, "n_features_in_")  # what is drawn from a generator cannot be put back
        if not unchecked:
            checks.finite(A, names[0])
            checks.finite(B, names[1])
        self._check_rows_fit(A)
        with self._undone_if_refused(unchecked or self._map_may_refuse or step is not None):
            self._open(A, frames[0])
            if hasattr(frames[1], "columns"):
                note_feature_names(self, frames[1], first=False)
            for rows in self._blocks(len(A), RAW_PAIRS if is_raw and step is None else BLOCK_PAIRS):
                try:
                    updates = self._enter_pairs(A[rows], B[rows], s[rows], w[rows], step)
                except InvalidInput:
                    checks.finite(A, "A")  # names the row, where the kernel stopped at one
                    checks.finite(B, "B")
                    raise
                yield updates
        self._look_for_outliers(A)

    def check_pairs(
        self, A: VectorLike, B: VectorLike, similar: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Check pairs without learning them: unless `may_refuse`, what passes can be learned, now or later.

        Parameters
        ----------
        A, B, similar, sample_weight
            As in `partial_fit_pairs`.

        Returns
        -------
        tuple of ndarray
            The four as arrays: vectors of this learner's type, +1 or -1, and weights.

        Raises
        ------
        InvalidInput
            If values or shapes do not fit.
        """
        A, B, s, w = self._aligned_pairs(A, B, similar, sample_weight, ("A", "B"), checks.MOST_WEIGHT)
        self._check_rows_fit(A)
        return checks.finite(A, "A"), checks.finite(B, "B"), s, w

    def _aligned_pairs(
        self,
        A: VectorLike,
        B: VectorLike,
        similar: ArrayLike,
        sample_weight: ArrayLike | None,
        names: tuple[str, str],
        most_weight: float,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Pairs as arrays of the same length and type, of which only the values are not checked."""
        self._check_takes("pairs")
        frames, columns = (A, B), [list(X.columns) for X in (A, B) if hasattr(X, "columns")]
        A, B = (checks.matrix(X, name, self._dtype_so_far) for X, name in zip(frames, names, strict=True))
        if len(columns) == 2 and columns[0] != columns[1]:
            raise InvalidInput(expected="A and B to have the same columns", got=f"{columns[0]} and {columns[1]}")
        checks.same_length(names[1], len(B), len(A), names[0])
        checks.width(B, A.shape[1], f"its partner {names[0]}", names[1])
        s = checks.similarities(similar, len(A))
        w = checks.weights(sample_weight, len(A), most_weight)
        if A.dtype != B.dtype:
            A, B = A.astype(np.float64, copy=False), B.astype(np.float64, copy=False)
        return A, B, s, w

    def _enter_pairs(
        self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray, step: Step | None = None
    ) -> Updates:
        """Scale down outliers among checked pairs of `_blocks`, then learn the pairs."""
        is_anew, (A, B) = self._without_outliers(A, B)
        updates = self._learn_entered(A, B, s, w, step)
        updates.moved[0] |= is_anew  # then every function is another one
        return updates

    def _learn_entered(
        self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray, step: Step | None = None
    ) -> Updates:
        """Teach pairs without outliers to the hash functions and to the metric."""
        updates = self._pass_pairs(A, B, s, w, step)
        if self._metric is not None:
            self._metric.learn(A, B, s, w)
        return updates

    def _pass_pairs(
        self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray, step: Step | None = None
    ) -> Updates:
        """Learn checked pairs, or queue them while the feature map is not ready."""
        updates = Updates.empty(len(A), self._n_models, self._n_columns, self._per_model)
        t = 0
        while t < len(A) and not self.is_ready:
            self._wait(Event(A[t].copy(), B[t].copy(), int(s[t]), float(w[t])))
            if self.is_ready:
                self._learn_pending(updates, t, step)
            updates.pending[t] = self._pending.n_pairs
            t += 1
        if t == 0:
            self._learn_block(A, B, s, w, updates, step)
        elif t < len(A):
            self._learn_block(A[t:], B[t:], s[t:], w[t:], updates.view(slice(t, None)), step)
        return updates

    def _learn_block(
        self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray, updates: Updates, step: Step | None
    ) -> None:
        A, B = self._mapped(plain(A), plain(B))
        if not self._takes_raw_pairs:
            A, B = self._centring.enter_pairs(A, B, updates.moved)
        learn = self._learn if step is None else partial(step, self._learn)
        learn(A, B, s, w, updates)
        self.n_points_seen_ += 2 * len(A)
        self.n_pairs_seen_ += len(A)
        self._count(updates)

    def _count(self, updates: Updates) -> None:
        if len(updates) == 1:  # the same without a dozen calls of NumPy
            n_moved = int(updates.n_moved[0])
            self.version_ += bool(n_moved or updates.moved[0] or any(map(len, updates.replayed.values())))
            self.n_updates_ += n_moved > 0
            self.n_steps_ += sum(map(bool, updates.step[0].tolist()))
            self.n_capped_ += sum(updates.capped[0].tolist())
            self.n_bits_moved_ += n_moved
            self.cumulative_loss_ += float(updates.loss[0])
            return
        self.version_ += int(np.count_nonzero(updates.changed()))
        self.n_updates_ += int(np.count_nonzero(updates.n_moved))
        self.n_steps_ += int(np.count_nonzero(updates.step))
        self.n_capped_ += int(np.count_nonzero(updates.capped))
        self.n_bits_moved_ += int(updates.n_moved.sum())
        if np.count_nonzero(updates.loss):  # one after the other, so that any split of the stream rounds alike
            self.cumulative_loss_ = float(np.add.accumulate(np.append(self.cumulative_loss_, updates.loss))[-1])

    # ------------------------------------------------------------------ points

    def observe(self, X: VectorLike) -> Self:
        """Take points without pairs: they feed the feature map's anchors and the mean.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If values or shapes do not fit; nothing changes then.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing
        >>> X = np.random.default_rng(0).standard_normal((100, 4)) + 5
        >>> OnlineHashing(n_bits=8, random_state=0).observe(X).mean_.round(1)
        array([5. , 5. , 4.8, 5.1])
        """
        self._check_takes("points")
        rows = checks.vectors(X, dtype=self._dtype_so_far)
        self._check_rows_fit(rows)
        with self._undone_if_refused(self._map_may_refuse):
            self._open(rows, X)
            for block in self._blocks(len(rows), 2 * BLOCK_PAIRS):
                _, (some,) = self._without_outliers(rows[block])
                self._pass_points(some)
            if self._metric is not None:
                self._metric.observe(rows)
        self._look_for_outliers(rows)
        return self

    def _pass_points(self, rows: np.ndarray) -> None:
        """Checked points: kept back while the feature map waits, taken once it is ready."""
        t = 0
        while t < len(rows) and not self.is_ready:
            self._wait(Event(rows[t].copy()))
            if self.is_ready:
                self._learn_pending()
            t += 1
        if t < len(rows):
            self._enter_points(rows[t:])

    def _enter_points(self, rows: np.ndarray) -> None:
        X, updates = self._features_of(rows)
        self._observe(X, updates)
        self._count(updates)

    def _features_of(self, rows: np.ndarray) -> tuple[np.ndarray, Updates]:
        """Points that have entered the mean, centred and padded, and room for what each of them does."""
        rows = plain(rows)
        Z = rows if self._map is None else self._map.map_rows(rows)
        X, moved = self._centring.enter(Z)
        updates = Updates.empty(len(rows), self._n_models, self._n_columns, self._per_model)
        updates.moved[:] = moved
        self.n_points_seen_ += len(rows)
        return X, updates

    # ------------------------------------------------------------------ labels

    def fit(self, X: VectorLike, y: ArrayLike | None = None) -> Self:
        """Forget everything, then learn from labelled points as `partial_fit` does.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,), or (n, n_classes) where points may have several labels
            Not needed by methods that learn without labels.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If values or shapes do not fit; nothing is forgotten then.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from onlinehash import OnlineHashing
        >>> X, y = load_iris(return_X_y=True)
        >>> OnlineHashing(n_bits=8, random_state=0).fit(X, y).n_pairs_seen_  # two points make a pair
        75
        """
        fresh = self._unfitted()
        fresh.partial_fit(X, y).flush()
        self._adopt(fresh)
        return self

    def _unfitted(self) -> Self:
        """A new learner with the same parameters."""
        fresh = type(self)(**given_parameters(self))
        if self._keeps_metric:  # no attribute of its own otherwise
            fresh._keeps_metric = True
        return fresh

    def _adopt(self, fresh: Self) -> None:
        """Take over what a learner of the same parameters has learned; what scikit-learn keeps on this one stays."""
        self.check_free()
        for name in [name for name in vars(self) if name.endswith("_") or name == "_centring"]:
            delattr(self, name)
        parameters = self.get_params()
        for name, value in vars(fresh).items():
            if name not in parameters:
                setattr(self, name, value)

    def partial_fit(self, X: VectorLike, y: ArrayLike | None = None) -> Self:
        """Go on learning from labelled points.

        A method that learns from pairs has them paired two by two as they come, similar when their labels are equal;
        an odd one waits for the next call, so that any split of the stream gives the same pairs. `similar_share`
        changes the rule (`onlinehash.streams.from_labels`).

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If values or shapes do not fit; nothing is learned then.

        Examples
        --------
        >>> from onlinehash import OnlineHashing
        >>> learner = OnlineHashing(n_bits=4, random_state=0).partial_fit([[0.0, 1], [1, 0], [1, 1]], ["a", "b", "a"])
        >>> learner.n_pairs_seen_  # the third point waits for a partner
        1
        """
        if self.traits.learns_from == "nothing":
            return self.observe(X)
        rows = checks.vectors(X, dtype=self._dtype_so_far)
        if y is None:
            raise InvalidInput(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                "pass one label for each row of X, or use partial_fit_pairs."
            )
        labels = checks.labels(y, len(rows), self.traits.several_labels)
        self._check_rows_fit(rows)
        with self._undone_if_refused(self._map_may_refuse):
            self._open(rows, X)
            for block in self._blocks(len(rows), 2 * BLOCK_PAIRS):
                if self.traits.learns_from == "labels":
                    _, (some,) = self._without_outliers(rows[block])
                    self._pass_labelled(some, self._classes.members(labels[block]))
                    continue
                A, B, s = self._pairing.pairs(rows[block], labels[block])
                for pairs in self._blocks(len(A), BLOCK_PAIRS):
                    self._enter_pairs(A[pairs], B[pairs], s[pairs], np.ones(len(A[pairs])))
        self._look_for_outliers(rows)
        return self

    def _pass_labelled(self, rows: np.ndarray, members: np.ndarray) -> None:
        """Learn checked points with their class numbers, or queue them while the feature map is not ready."""
        t = 0
        while t < len(rows) and not self.is_ready:
            self._wait(Event(rows[t].copy(), members=members[t, members[t] >= 0]))  # as wide in any company
            if self.is_ready:
                self._learn_pending()
            t += 1
        if t < len(rows):
            X, updates = self._features_of(rows[t:])
            self._learn_labelled(X, members[t:], updates)
            self._count(updates)

    # ------------------------------------------------------------------ waiting for anchors, and for chunks to fill

    @property
    def n_pairs_pending_(self) -> int:
        """Pairs that wait for the feature map."""
        return self._pending.n_pairs if hasattr(self, "_pending") else 0

    @property
    def n_points_pending_(self) -> int:
        """Labelled points that wait for the feature map."""
        return self._pending.n_labelled if hasattr(self, "_pending") else 0

    def _wait(self, event: Event) -> None:
        """Keep an event for later and offer its points to the feature map."""
        assert self._map is not None
        for point in (event.a, event.b):
            if point is not None and not self._map.is_ready:
                self._map.partial_fit(point[None])
        if self._map.is_ready:
            self._start(event.a[None])
        self._pending.append(event)

    def _learn_pending(self, updates: Updates | None = None, t: int = 0, step: Step | None = None) -> None:
        """Learn the queued events in order, and record in row t of `updates` what they did."""
        for event in self._pending.take():
            if event.members is not None:
                members = event.members if len(event.members) else np.array([-1])
                self._pass_labelled(event.a[None], members[None])
            elif event.b is None:
                self._enter_points(event.a[None])
            else:
                signs, weights = np.array([event.similar], np.int8), np.array([event.weight])
                done = self._pass_pairs(event.a[None], event.b[None], signs, weights, step)
                if updates is not None:
                    updates.absorb(t, done)

    def flush(self) -> Self:
        """Start a feature map that still waits, with the anchors it has, and end a chunk that is not full.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing, RbfAnchors
        >>> X = np.random.default_rng(0).standard_normal((20, 4))
        >>> learner = OnlineHashing(n_bits=8, features=RbfAnchors(300), random_state=0).observe(X)
        >>> learner.is_ready, learner.flush().is_ready  # 20 anchors in place of 300
        (False, True)
        """
        self.check_free()
        if hasattr(self, "n_features_in_") and not self.is_ready and self._pending:
            assert self._map is not None
            with self._undone_if_refused(True):
                self._map.start()
                self._start(self._pending.first.a[None])
                self._learn_pending()
        return self.end_chunk()

    def end_chunk(self) -> Self:
        """Learn a chunk that is not full, and publish it; methods that learn every row at once have nothing to do.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineSketchingHashing
        >>> X = np.random.default_rng(0).standard_normal((20, 4))
        >>> learner = OnlineSketchingHashing(n_bits=2, random_state=0).partial_fit(X)
        >>> before = learner.version_
        >>> learner.end_chunk().version_ > before
        True
        """
        self.check_free()
        if self.is_ready:
            updates = Updates.empty(1, self._n_models, self._n_columns, self._per_model)
            with self._undone_if_refused(False):
                self._end_chunk(updates)
                self._settle(updates)
            self._count(updates)
        return self

    # ------------------------------------------------------------------ outliers

    _met_outliers = _told_of_outliers = False

    @property
    def n_outliers_(self) -> int:
        """Vectors that were scaled down because they were far longer than those before."""
        return self._lengths.n_scaled if hasattr(self, "_lengths") else 0

    def _blocks(self, n: int, most: int) -> Iterator[slice]:
        """Rows to learn together: the first ones alone, as each may show that one before it was too long."""
        start = 0
        while start < n:
            block = slice(start, min(start + (1 if self._lengths.is_new else most), n))
            yield block
            start = block.stop

    def _without_outliers(self, *sides: np.ndarray) -> tuple[bool, tuple[np.ndarray, ...]]:
        """Points, or the two sides of pairs, with outliers scaled down; and whether the learner had to begin anew."""
        lengths, n_before = self._lengths, self._lengths.n_scaled
        is_anew = lengths.is_new and self.n_points_seen_ < N_FIRST  # a learner of an old file has seen more
        sides = lengths.enter(*map(plain, sides))
        is_anew = is_anew and lengths.began_too_long
        if is_anew:
            self._begin_anew()
        self._met_outliers |= lengths.n_scaled > n_before
        return is_anew, sides

    def _tell_of_outliers(self) -> None:
        """Warn, once, at the end of a call that has met some."""
        if self._met_outliers and not self._told_of_outliers:
            self._told_of_outliers = True
            checks.warn(
                f"{type(self).__name__} was given a vector more than {MOST:g} times as long as a typical one (whose "
                f"length is {self._lengths.median:.3g}) and has scaled it down, as it would have left most others the "
                "same code; n_outliers_ counts such vectors, of which only the first is reported."
            )

    def _begin_anew(self) -> None:
        """Forget what the first vectors taught, one of which was an outlier; those that wait are scaled down."""
        self._lengths.begin_anew()
        if self.is_ready:
            self._start_with(len(self._centring.mean))
            self.version_ += 1
            return
        self._map = make_map(self.features, self.dtype_, self._seed)
        for event in self._pending.take():
            b = None if event.b is None else self._lengths.shortened(event.b)
            self._wait(event._replace(a=self._lengths.shortened(event.a), b=b))

    def _look_for_outliers(self, rows: np.ndarray) -> None:
        """Warn, once, if the mean is far away from all points: a few far longer ones have moved it there.

        Then all other points are on the same side of every hash function, and get the same code.
        """
        self._tell_of_outliers()
        if self._told_of_outliers or not self.is_ready or self._map is not None:
            return
        typical = typical_length(plain(rows[:: max(1, len(rows) // SAMPLE_OF_OUTLIERS)]))
        mean = self.mean_
        ratio = math.sqrt(mean @ mean) / typical if typical else 0.0
        if ratio > FAR_AWAY:
            self._told_of_outliers = True
            checks.warn(
                f"the mean that {type(self).__name__} centres vectors with is {ratio:.3g} times as long as a typical "
                "vector of this call, because it has seen a few that are far longer, so that most vectors will get the "
                "same code; leave those out or rescale them, and begin anew with fit."
            )

    # ------------------------------------------------------------------ undo: a refused call changes nothing

    @property
    def may_refuse(self) -> bool:
        """Whether learning may refuse what passed all checks: the first rows, and what a feature map cannot take."""
        return not hasattr(self, "n_features_in_") or self._map_may_refuse

    @property
    def _map_may_refuse(self) -> bool:
        """A transformer of others may fail on any row; any map may while it waits, when it starts."""
        return self.features is not None and not (isinstance(self.features, RbfAnchors) and self.is_ready)

    @contextmanager
    def _undone_if_refused(self, at_risk: bool) -> Iterator[None]:
        """Restore this state if an error is raised. Most calls cannot fail after their checks, and save nothing."""
        checkpoint = self._checkpoint() if at_risk else None
        try:
            yield
        except Exception as error:
            if checkpoint is not None:
                self._go_back(checkpoint)
            if isinstance(error, np.linalg.LinAlgError):  # which comes of values that overflowed
                raise Diverged(f"{type(self).__name__} cannot learn from what it has seen: {error}; {ANEW}.") from error
            raise

    def _checkpoint(self) -> Checkpoint:
        names = frozenset(vars(self))
        if not hasattr(self, "n_features_in_"):
            return Checkpoint(names, None)
        feature_map = None if self._map is None else self._map.fork()
        learned = copy.deepcopy(self._learned())
        return Checkpoint(names, learned, self._parameters, feature_map, self._pending.copy())

    def _go_back(self, checkpoint: Checkpoint) -> None:
        for name in set(vars(self)) - checkpoint.names:
            delattr(self, name)
        if checkpoint.learned is None:
            return
        before = self._unfitted()
        before._lay_out_state(np.zeros((1, self.n_features_in_), self.dtype_), self._seed)
        assert checkpoint.pending is not None
        before._parameters, before._map, before._pending = (
            checkpoint.parameters,
            checkpoint.feature_map,
            checkpoint.pending,
        )
        before._set_learned(checkpoint.learned)
        self._adopt(before)

    # ------------------------------------------------------------------ metric

    _keeps_metric = False
    _metric: PairMetric | None = None

    def keep_metric(self) -> Self:
        """From now on, let a metric of the vectors themselves learn along; an index that keeps vectors asks for it.

        It is part of what is learned: saved, restored and continued with the rest. Calling this again changes nothing.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing
        >>> learner = OnlineHashing(n_bits=8, random_state=0).keep_metric().observe(np.eye(4))
        >>> learner.pair_metric_ is None
        False
        """
        self._keeps_metric = True
        if self._metric is None and hasattr(self, "n_features_in_"):
            self._metric = PairMetric(self.n_features_in_, self._seed)
        return self

    @property
    def pair_metric_(self) -> PairMetric | None:
        """The metric that pairs have taught; None if none is kept, and before the first row."""
        return self._metric

    # ------------------------------------------------------------------ codes

    def snapshot(self) -> Encoder:
        """The hash functions as they are now.

        Returns
        -------
        Encoder
            Immutable, untouched by later learning; the same object until `version_` grows.

        Raises
        ------
        NotFitted
            If no data has come yet.
        NotReady
            If the feature map waits for more points.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import LSH
        >>> X = np.random.default_rng(0).standard_normal((10, 4))
        >>> learner = LSH(n_bits=8, random_state=0).fit(X)
        >>> learner.snapshot().encode(X) == learner.encode(X)
        True
        """
        self._check_ready()
        if not self._snapshots or self._snapshots[0].version != self.version_:
            self._snapshots[:] = [
                Encoder(
                    *self._encoding(),
                    self.n_features_in_,
                    self._n_models,
                    self._fusion,
                    self.version_,
                    type(self).__name__,
                    self._query_encoders(),
                )
            ]
        return self._snapshots[0]

    def _encoding(self) -> tuple[np.ndarray, np.ndarray, FeatureMap | None]:
        """Weights and thresholds on features as they are, not centred, and the map that makes those features."""
        weights, thresholds = self._functions()
        return weights, thresholds + canonical_dots(weights, self._centring.mean), self._map

    def transform(self, X: VectorLike) -> NDArray[np.bool_]:
        """The bits of vectors, as bools.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        bool array of shape (n, n_models * n_bits)

        Raises
        ------
        InvalidInput
            If values or shapes do not fit.
        NotFitted, NotReady
            As in `snapshot`.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import LSH
        >>> X = np.random.default_rng(0).standard_normal((10, 4))
        >>> bits = LSH(n_bits=8, random_state=0).fit(X).transform(X)
        >>> bits.shape, bits.dtype
        ((10, 8), dtype('bool'))
        """
        return self.encode(X).bits()

    def encode(self, X: VectorLike) -> Codes:
        """The packed codes of vectors.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        Codes
            A code per row, as an index takes it.

        Raises
        ------
        InvalidInput
            If values or shapes do not fit.
        NotFitted, NotReady
            As in `snapshot`.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import LSH, FlatIndex
        >>> X = np.random.default_rng(0).standard_normal((10, 4))
        >>> codes = LSH(n_bits=8, random_state=0).fit(X).encode(X)
        >>> codes, len(FlatIndex(codes))
        (Codes(n=10, n_bits=8), 10)
        """
        return self.snapshot().codes_of(self._check_shape(X))  # which checks the values too

    def encode_queries(self, X: VectorLike) -> Codes:
        """The packed codes of vectors to search for: those of `encode`, unless the method keeps the codes of items.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        Codes
            To be compared with codes of items, not with each other.

        Raises
        ------
        InvalidInput
            If values or shapes do not fit.
        NotFitted, NotReady
            As in `snapshot`.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import LSH
        >>> X = np.random.default_rng(0).standard_normal((10, 4))
        >>> learner = LSH(n_bits=8, random_state=0).fit(X)
        >>> learner.encode_queries(X) == learner.encode(X)  # as for nearly all methods
        True
        """
        return self.snapshot().encode_queries(self._check_rows(X))

    def score(self, X: VectorLike, y: ArrayLike) -> float:
        """Tie-aware mean average precision: each row searches among the others for its label.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        float
            Between 0 and 1.

        Raises
        ------
        InvalidInput
            If values or shapes do not fit, or no two rows share a label.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from onlinehash import LSH
        >>> X, y = load_iris(return_X_y=True)
        >>> 0.5 < LSH(n_bits=16, random_state=0).fit(X).score(X, y) < 1
        True
        """
        codes, queries = self.encode(X), self.encode_queries(X)
        labels = checks.labels(y, len(codes), self.traits.several_labels)
        precisions = []
        for start in range(0, len(codes), 256):
            rows = np.arange(start, min(start + 256, len(codes)))
            distances = fused_distances(queries[rows], codes, self._fusion)
            precisions.append(expected_average_precision(distances, _relevant(labels[rows], labels), rows))
        found = np.concatenate(precisions)
        if np.isnan(found).all():
            raise InvalidInput(expected="at least two rows with the same label to score", got="none")
        return float(np.nanmean(found))

    @property
    def mean_(self) -> np.ndarray:
        """The mean that features are centred with (a copy)."""
        self._check_ready()
        return self._centring.mean.copy()

    @property
    def _n_features_out(self) -> int:
        return self._n_columns

    def _check_ready(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFitted(
                f"This {type(self).__name__} has seen no data yet; call fit, partial_fit_pairs, learn_pair or observe."
            )
        self._check_same_parameters()
        if not self.is_ready:
            assert self._map is not None
            raise NotReady(
                f"the feature map waits for {self._map.n_waiting_for} more distinct points; feed points with observe, "
                "or call flush() to start with what is there."
            )

    def _check_rows(self, X: VectorLike) -> np.ndarray:
        return checks.finite(self._check_shape(X))

    def _check_shape(self, X: VectorLike) -> np.ndarray:
        self._check_ready()
        rows = checks.matrix(X, dtype=self.dtype_)
        checks.width(rows, self.n_features_in_, type(self).__name__)
        note_feature_names(self, X, first=False)
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.traits.learns_from != "nothing"
        tags.transformer_tags.preserves_dtype = []
        return tags

    # ------------------------------------------------------------------ state

    def get_state(self) -> State:
        """Everything learned, as arrays and plain values: enough to go on exactly where this was called.

        Returns
        -------
        dict
            Copies; empty before the first row.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing
        >>> A, B = np.random.default_rng(0).standard_normal((2, 50, 4))
        >>> learner = OnlineHashing(n_bits=8, random_state=0).partial_fit_pairs(A, B, A[:, 0] * B[:, 0] > 0)
        >>> twin = OnlineHashing(n_bits=8, random_state=0)
        >>> twin.set_state(learner.get_state())
        >>> twin.encode(A) == learner.encode(A)
        True
        """
        if not hasattr(self, "n_features_in_"):
            return {}
        state: State = {
            "class": type(self).__name__,
            "centre": self.centre,
            "n_features": self.n_features_in_,
            "dtype": str(self.dtype_),
            "seed": self._seed,
            "map": None if self._map is None else self._map.get_state(),
            "pending": self._pending.get_state(),
        }
        return copy.deepcopy(state | self._learned())

    def _learned(self, with_metric: bool = True) -> State:
        """What learning changes, besides the feature map and the events that wait for it; not copies."""
        learned: State = {
            "counters": {name: getattr(self, name) for name in COUNTERS},
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "pairing": self._pairing.get_state(),
            "lengths": self._lengths.get_state(),
        }
        if self.traits.learns_from == "labels":
            learned["classes"] = self._classes.get_state()
        if self.is_ready:
            learned["centring"] = self._centring.get_state()
            learned["method"] = self._get_method_state()
        if self._metric is not None and with_metric:
            learned["metric"] = self._metric.get_state()
        return learned

    def check_finite(self) -> None:
        """Refuse a learner whose numbers overflowed: no file could bring it back.

        Raises
        ------
        Diverged
            If anything learned is NaN or infinite.
        """
        if hasattr(self, "n_features_in_"):
            _check_finite(self._learned(with_metric=False), type(self).__name__)
            if self._metric is not None and not self._metric.is_finite:
                raise Diverged(f"the metric of {type(self).__name__} overflowed; scale the vectors down.")

    def set_state(self, state: State) -> None:
        """Take the place of the learner whose `get_state` this was.

        Parameters
        ----------
        state : dict
            What `get_state` gave, of a learner of the same class and parameters.

        Raises
        ------
        FormatError
            If it is the state of another learner, or damaged; nothing changes then.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import OnlineHashing
        >>> learner = OnlineHashing(n_bits=8, random_state=0).observe(np.eye(4))
        >>> twin = OnlineHashing(n_bits=8, random_state=0)
        >>> twin.set_state(learner.get_state())
        >>> twin.n_points_seen_
        4
        """
        fresh = self._unfitted()
        try:
            if state:
                fresh._restore(state)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            name, problem = type(self).__name__, str(error).rstrip(".")
            raise FormatError(f"this is not a state of {name} with these parameters: {problem}.") from None
        self._adopt(fresh)

    def _restore(self, state: State) -> None:
        """`set_state` on a new learner."""
        if (state["class"], state["centre"]) != (type(self).__name__, self.centre):
            raise FormatError(f"one of {state['class']} with centre={state['centre']!r}.")
        if state["dtype"] not in ("float32", "float64"):
            raise FormatError(expected="float32 or float64", got=f"{state['dtype']}")
        rows = np.zeros((1, format.whole(state["n_features"], "n_features", 1, MOST_FEATURES)), state["dtype"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were given when the stream began
            self._check_parameters(rows)
        self._lay_out_state(rows, format.whole(state["seed"], "seed", 0, MOST_SEED))
        if (self._map is None) != (state["map"] is None):
            raise FormatError("one with another feature map.")
        if self._map is not None:
            self._map.set_state(state["map"])
        self._set_learned(state)
        self._pending.set_state(state["pending"], rows[0], len(self._classes))

    def _set_learned(self, state: State) -> None:
        """Check and take over what `_learned` gave, for a state just laid out, with its feature map."""
        for name in COUNTERS:
            take = format.whole if isinstance(getattr(self, name), int) else format.real
            setattr(self, name, take(state["counters"][name], name, 0))
        if state["feature_names"] != []:
            names = format.listed(state["feature_names"], "feature_names", self.n_features_in_)
            names = [format.text(name, "a feature's name") for name in names]
            self.feature_names_in_ = np.array(names, dtype=object)
        if (self._map is None or self._map.is_ready) != ("centring" in state):
            raise FormatError("one whose feature map and hash functions do not fit together.")
        self._pairing.set_state(state["pairing"])
        if "lengths" in state:  # older files have none
            self._lengths.set_state(state["lengths"])
        if self.traits.learns_from == "labels":
            self._classes.set_state(state["classes"])
        if "centring" in state:
            mean = state["centring"]["mean"]
            n_inputs = (self.n_features_in_ if self._map is None else self._map.n_outputs) or len(mean)
            if np.shape(mean) != (n_inputs,):  # before hash functions are drawn for as many inputs as a file claims
                raise FormatError(f"a mean of shape {np.shape(mean)} for {n_inputs} inputs.")
            self._start_with(n_inputs)
            self._centring.set_state(state["centring"])
            self._set_method_state(state["method"])
        if "metric" in state:
            self.keep_metric()
            assert self._metric is not None
            self._metric.set_state(state["metric"])


def plain(X: Any) -> np.ndarray:
    """X itself if C-contiguous, aligned and writable, else a copy, so that a kernel is compiled for one layout only."""
    array: np.ndarray = X if X.flags.carray else X.copy()
    return array


def _sign(similar: Any) -> np.ndarray | None:
    """For a bool or a whole number, whether it says similar; None for others, which the full checks decide about."""
    is_whole = isinstance(similar, WHOLE) and not isinstance(similar, np.timedelta64)  # which NumPy has as an integer
    return SIGNS.get(int(similar)) if is_whole else None


def _weight(sample_weight: Any) -> float:
    """The weight as a float if `checks.weights` would accept it; -1 for others, which the full checks decide about."""
    is_number = isinstance(sample_weight, NUMBER) and not isinstance(sample_weight, np.timedelta64)
    return float(sample_weight) if is_number and 0 <= sample_weight <= checks.MOST_WEIGHT else -1.0


def _check_finite(state: State | list[Any] | tuple[Any, ...], owner: str, name: str = "state") -> None:
    """Refuse a number that is not finite, anywhere in a state."""
    for key, value in state.items() if isinstance(state, dict) else ((name, value) for value in state):
        if isinstance(value, dict | list | tuple):
            _check_finite(value, owner, key)
        elif isinstance(value, float | np.ndarray) and not _is_finite(value):
            raise Diverged(
                f"{owner} has learned values that are not finite ({key}), because its vectors are too large, too small "
                f"or too different in size; {ANEW}."
            )


def _is_finite(values: float | np.ndarray) -> bool:
    if isinstance(values, float):
        return math.isfinite(values)
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def _seed(random_state: RandomState) -> int:
    """One integer that seeds everything random."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(random_state)


def _relevant(labels: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Which rows share a label, bool `(n, m)`."""
    if labels.ndim == 1:
        return np.asarray(labels[:, None] == among)
    return labels.astype(np.float32) @ among.T.astype(np.float32) > 0
