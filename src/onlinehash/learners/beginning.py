"""A learner's life before it learns: whose it is, its first rows, and what it keeps back for its feature map."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone

from onlinehash import checks
from onlinehash.errors import InvalidInput, InvalidParameter
from onlinehash.features import Centring, FeatureMap, make_map, note_feature_names, same_parameters
from onlinehash.learners.hooks import Hooks
from onlinehash.streams import Classes, LabelPairing


class Event(NamedTuple):
    """What is kept back while a feature map waits: a pair, a labelled point (b is None), or a point (neither)."""

    a: np.ndarray
    b: np.ndarray | None = None
    similar: int = 0
    weight: float = 0.0
    members: np.ndarray | None = None


class Owner(Protocol):
    """Who alone may teach a learner: an index that keeps it on a disk."""

    @property
    def learner(self) -> Any: ...
    @property
    def is_learning(self) -> bool: ...


class Beginning(Hooks):
    """What comes before the first row is learned; `Intake` adds the ways in."""

    # ------------------------------------------------------------------ owners

    _owner: weakref.ref[Owner] | None = None

    @property
    def origin(self) -> object:
        """What is the same object as long as learning goes on, and another after `fit` or `set_state`."""
        return getattr(self, "_parameters", None)

    def owned_by(self, owner: Owner | None) -> None:
        """From now on this learns only through its owner, who keeps what it learned; None sets it free."""
        self.check_free()
        self._owner = None if owner is None else weakref.ref(owner)

    def check_free(self) -> None:
        """Refuse to learn where an owner alone may teach; a copy of an owned learner is free."""
        owner = None if self._owner is None else self._owner()
        if owner is not None and owner.learner is self and not owner.is_learning:
            raise InvalidInput(
                f"expected {owner} to teach this {type(self).__name__}, which it owns; "
                "learn through the index, or close it."
            )

    # ------------------------------------------------------------------ the first call

    def _open(self, rows: np.ndarray, X: Any = None) -> None:
        """On the first rows: check parameters and begin; on later ones: check the width."""
        self.check_free()
        first = not hasattr(self, "n_features_in_")
        if first:
            self._check_parameters(rows)
        else:
            checks.width(rows, self.n_features_in_, type(self).__name__)
            self._check_same_parameters()
        if X is not None:
            note_feature_names(self, X, first)
        if first:
            self._lay_out_state(rows, _seed(self.random_state))
            if self._map is None or self._map.is_ready:
                self._start(rows)

    def _lay_out_state(self, rows: np.ndarray, seed: int) -> None:
        """Everything but the hash functions, for rows of this width and dtype."""
        self._parameters = {
            name: clone(value) if hasattr(value, "get_params") else value  # estimators can be changed from outside
            for name, value in self.get_params(deep=False).items()
        }
        self.n_features_in_ = rows.shape[1]
        self.dtype_ = rows.dtype
        self.version_ = self.n_pairs_seen_ = self.n_points_seen_ = 0
        self.n_updates_ = self.n_steps_ = self.n_capped_ = self.n_bits_moved_ = 0
        self.cumulative_loss_ = 0.0
        self.n_pairs_pending_ = 0
        self._seed = seed
        self._map: FeatureMap | None = make_map(self.features, rows.dtype, seed)
        self._pending: list[Event] = []
        self._cache: dict[str, Any] = {}
        self._pairing = LabelPairing(
            self.similar_share,
            self.reservoir_size,
            np.random.default_rng([self._seed, 1]),
            self.n_features_in_,
            self.dtype_,
        )
        self._classes = Classes()

    def _start(self, rows: np.ndarray) -> None:
        """The feature map is ready (or there is none): draw the first hash functions."""
        self._start_with(self.n_features_in_ if self._map is None else self._map.map_rows(rows[:1]).shape[1])

    def _start_with(self, n_inputs: int) -> None:
        self._begin(n_inputs, np.random.default_rng([self._seed, 0]))
        self._centring = Centring(self.centre, self.burn_in, n_inputs, self.dtype_)

    def _check_same_parameters(self) -> None:
        """What was learned has the shape that the parameters gave it, so they stay."""
        for name, value in self._parameters.items():
            now = getattr(self, name)
            if now is not value and not same_parameters(now, value):
                raise InvalidParameter(
                    f"expected {name} to stay {checks.shown(value)} while learning goes on, "
                    f"got {checks.shown(now)}; call fit to begin anew."
                )

    @property
    def _is_ready(self) -> bool:
        return hasattr(self, "_centring")

    @property
    def _dtype_so_far(self) -> np.dtype | None:
        return getattr(self, "dtype_", None)

    def _check_parameters(self, rows: np.ndarray) -> None:
        raise NotImplementedError

    def _check_takes(self, what: str) -> None:
        """Refuse what this method cannot learn from."""
        name = type(self).__name__
        if self.traits.unit == "batch" and not (what == "points" and self._is_ready):
            raise InvalidInput(
                f"expected all points at once, because {name} is a batch method, got {what}; fit it to a matrix or "
                "file of points, or take a method that learns online."
            )
        if self.traits.learns_from == "labels" and what == "pairs":
            raise InvalidInput(
                f"expected labelled points, because {name} learns from labels, got pairs; "
                "give it labels (partial_fit), or take a method that learns from pairs."
            )


def _seed(random_state: Any) -> int:
    """One integer that everything random is drawn from."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(random_state)
