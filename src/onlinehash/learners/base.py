"""`Learner`: the way in from `intake`, the hooks of a method, and here the ways out: codes, snapshots, state."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes, fused_distances
from onlinehash.codes.ranking import expected_average_precision
from onlinehash.errors import FormatError, InvalidInput, NotReady
from onlinehash.features import FeatureMap, NotFitted, make_map, note_feature_names
from onlinehash.format import like
from onlinehash.learners.beginning import Event
from onlinehash.learners.encoder import Encoder
from onlinehash.learners.intake import Intake
from onlinehash.numeric.signs import canonical_dots

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


class Learner(Intake):
    """Base of all learners. Parameters that every method has:

    n_bits : int
        Length r of a code (per model).
    features : RbfAnchors, transformer or None, default=None
        A feature map before hashing; None hashes the vectors themselves.
    centre : {"burn-in", "running", "median", "none"}, default="burn-in"
        How features are centred; see `onlinehash.features.centring`.
    burn_in : int, default=2000
        Points after which the mean is frozen ("burn-in" and "median").
    similar_share : float or None, default=None
        Wished share of similar pairs when pairs are made from labels; None takes points two by two as they come.
    reservoir_size : int, default=512
        Points kept to fulfil `similar_share`.
    random_state : int, Generator, RandomState or None, default=None
        Seed of everything random.

    Learned: `n_features_in_`, `dtype_`, `mean_`, `version_` (grows whenever `encode` could differ), `n_pairs_seen_`,
    `n_pairs_pending_` (kept back for a feature map), `n_points_seen_`, `n_updates_` (pairs that moved a function),
    `n_steps_` and `n_capped_` (steps, and how many of them C cut short), `n_bits_moved_`, `cumulative_loss_`.
    """

    # ------------------------------------------------------------------ codes out

    def snapshot(self) -> Encoder:
        """The hash functions as they are now: immutable, untouched by later learning."""
        self._check_ready()
        if self._cache.get("version") != self.version_:
            self._cache["encoder"] = Encoder(
                *self._encoding(),
                self.n_features_in_,
                self._n_models,
                self._fusion,
                self.version_,
                type(self).__name__,
            )
            self._cache["version"] = self.version_
        return self._cache["encoder"]

    def _encoding(self) -> tuple[np.ndarray, np.ndarray, FeatureMap | None]:
        """Weights and thresholds on features as they are, not centred, and the map that makes those features."""
        weights, thresholds = self._functions()
        return weights, thresholds + canonical_dots(weights, self._centring.mean), self._map

    def transform(self, X: Any) -> np.ndarray:
        """Bits, bool `(n, n_models * n_bits)`, for people."""
        return self.encode(X).bits()

    def encode(self, X: Any) -> Codes:
        """Packed `Codes`, for machines."""
        return self.snapshot().codes_of(self._check_shape(X))  # which looks at the values too

    def score(self, X: Any, y: Any) -> float:
        """Tie-aware mean average precision: each row searches among the others for its label."""
        codes = self.encode(X)
        labels = checks.labels(y, len(codes), self.traits.several_labels)
        precisions = []
        for start in range(0, len(codes), 256):
            rows = np.arange(start, min(start + 256, len(codes)))
            distances = fused_distances(codes[rows], codes, self._fusion)
            precisions.append(expected_average_precision(distances, _relevant(labels[rows], labels), rows))
        found = np.concatenate(precisions)
        if np.isnan(found).all():
            raise InvalidInput("expected at least two rows with the same label to score, got none.")
        return float(np.nanmean(found))

    @property
    def mean_(self) -> np.ndarray:
        """The mean that features are centred with (a copy)."""
        self._check_ready()
        return self._centring.mean.copy()

    @property
    def _n_features_out(self) -> int:
        return self._n_columns

    # ------------------------------------------------------------------ checks

    def _check_parameters(self, rows: np.ndarray) -> None:
        rules = {
            "n_bits": checks.integer(1, 4096),
            "centre": checks.one_of(*self._centre_modes),
            "burn_in": checks.integer(1),
            "similar_share": checks.either(checks.one_of(None), checks.real(0, 1)),
            "reservoir_size": checks.integer(2),
            "random_state": (
                "None, an integer of at least 0, or a numpy Generator or RandomState",
                lambda v: (
                    v is None or checks.integer(0)[1](v) or isinstance(v, np.random.Generator | np.random.RandomState)
                ),
            ),
        }
        params = self.get_params(deep=False)
        checks.parameters(type(self).__name__, params, {k: rules[k] for k in rules if k in params})
        checks.parameters(type(self).__name__, params, self._rules())  # which may depend on the common ones
        feature_map = make_map(self.features, rows.dtype)
        if feature_map is not None:
            feature_map.check(rows)

    def _check_ready(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFitted(
                f"This {type(self).__name__} has seen no data yet; call fit, partial_fit_pairs, learn_pair or observe."
            )
        self._check_same_parameters()
        if not self._is_ready:
            assert self._map is not None
            raise NotReady(
                f"expected enough points for the feature map, which waits for {self._map.n_waiting_for} more distinct "
                f"ones; feed points with observe, or call flush() to start with what is there."
            )

    def _check_rows(self, X: Any) -> np.ndarray:
        return checks.finite(self._check_shape(X))

    def _check_shape(self, X: Any) -> np.ndarray:
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

    def get_state(self) -> dict[str, Any]:
        """Everything learned, as arrays and plain values: enough to go on exactly where this was called."""
        if not hasattr(self, "n_features_in_"):
            return {}
        state: dict[str, Any] = {
            "class": type(self).__name__,
            "centre": self.centre,
            "n_features": self.n_features_in_,
            "dtype": str(self.dtype_),
            "seed": self._seed,
            "counters": {name: getattr(self, name) for name in COUNTERS},
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "map": None if self._map is None else self._map.get_state(),
            "pending": [_packed(event) for event in self._pending],
            "pairing": self._pairing.get_state(),
        }
        if self.traits.learns_from == "labels":
            state["classes"] = self._classes.get_state()
        if self._is_ready:
            state["centring"] = self._centring.get_state()
            state["method"] = self._get_method_state()
        return copy.deepcopy(state)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take the place of the learner whose `get_state` this was; its parameters must be this one's."""
        fresh = type(self)(**self.get_params(deep=False))
        try:
            if state:
                fresh._restore(state)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            name, problem = type(self).__name__, str(error).rstrip(".")
            raise FormatError(f"expected a state of {name} with these parameters, got: {problem}.") from None
        self._adopt(fresh)

    def _restore(self, state: dict[str, Any]) -> None:
        """`set_state` for a learner that has seen nothing."""
        if (state["class"], state["centre"]) != (type(self).__name__, self.centre):
            raise FormatError(f"one of {state['class']} with centre={state['centre']!r}.")
        if state["dtype"] not in ("float32", "float64") or not isinstance(state["seed"], int):
            raise FormatError(f"expected float32 or float64 and a seed, got {state['dtype']} and {state['seed']}.")
        rows = np.zeros((1, state["n_features"]), state["dtype"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were given when the stream began
            self._check_parameters(rows)
        self._lay_out_state(rows, state["seed"])
        for name in COUNTERS:
            value, kind = state["counters"][name], type(getattr(self, name))
            if type(value) is not kind or not value >= 0:
                raise FormatError(f"expected {name} to be {kind.__name__} of at least 0, got {value!r}.")
            setattr(self, name, value)
        if state["feature_names"]:
            self.feature_names_in_ = np.array(state["feature_names"], dtype=object)
        if (self._map is None) != (state["map"] is None):
            raise FormatError("one with another feature map.")
        if self._map is not None:
            self._map.set_state(state["map"])
        if (self._map is None or self._map.is_ready) != ("centring" in state):
            raise FormatError("one whose feature map and hash functions do not fit together.")
        point = np.zeros(rows.shape[1], rows.dtype)
        for event in state["pending"]:
            b = None if event["b"] is None else like(event["b"], point, "a pending point")
            a, members = like(event["a"], point, "a pending point"), event.get("members")
            if members is not None:
                members = like(members, np.zeros(np.shape(members), np.int64), "the classes of a pending point")
            self._pending.append(Event(a, b, int(event["similar"]), float(event["weight"]), members))
        self.n_pairs_pending_ = sum(event.b is not None for event in self._pending)
        self._pairing.set_state(state["pairing"])
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


def _packed(event: Event) -> dict[str, Any]:
    """Labels are written only where there are some: files of pairs stay as they were."""
    packed = event._asdict()
    return packed if event.members is not None else {name: packed[name] for name in packed if name != "members"}


def _relevant(labels: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Which rows share a label, bool `(n, m)`."""
    if labels.ndim == 1:
        return labels[:, None] == among
    return labels.astype(np.float32) @ among.T.astype(np.float32) > 0
