"""The ways into a learner: pairs, points without pairs, and labelled points.

Whatever comes passes the gate, and a call that is refused changes nothing; then it goes through the feature map and
the centring in blocks to the method's own step. While the feature map still collects its anchors, events are kept in
order and replayed once it is ready, so that none is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.features import RbfAnchors, note_feature_names
from onlinehash.features.centring import are_small
from onlinehash.learners.beginning import Beginning, Event
from onlinehash.learners.undo import undone_if_refused
from onlinehash.learners.update import Update, Updates

#: Batches of at least this many pairs may leave the look at their values to the method's kernel.
MANY_PAIRS = 1000

#: Pairs mapped, centred and learned at once: bounds the memory of a batch.
BLOCK_PAIRS = 512


def plain(X: np.ndarray) -> np.ndarray:
    """X itself if C-contiguous, aligned and writable, else a copy, so that a kernel is compiled for one layout only."""
    return X if X.flags.carray else X.copy()


def _sign(similar: Any) -> int:
    """+1 or -1 for the usual ways to say whether one pair is similar; 0 for all others, right or wrong."""
    if type(similar) in (bool, np.bool_):
        return 1 if similar else -1
    return similar if type(similar) is int and similar in (1, -1) else 0


def _weight(sample_weight: Any) -> float:
    """A finite number that is not negative, as it is; -1 for everything else, right or wrong."""
    return sample_weight if type(sample_weight) is float and 0 <= sample_weight < math.inf else -1.0


class Intake(Beginning):
    """What comes in; `Learner` adds what goes out."""

    # ------------------------------------------------------------------ pairs

    def learn_pair(self, a: Any, b: Any, similar: Any, sample_weight: float = 1.0) -> Update:
        """Learn one pair: two vectors, and whether they are similar (a bool, or +1 / -1).

        `sample_weight` says how much the pair counts; for OH it scales C, the most one pair may move the functions.
        """
        if self._are_plain(a, b):
            rows, sign, weight = (plain(a), plain(b)), _sign(similar), _weight(sample_weight)
            if sign and weight >= 0 and are_small(*rows):  # nothing here that a check would refuse or change
                self._check_takes("pairs")
                self.check_free()
                self._check_same_parameters()
                A, B = rows[0][None], rows[1][None]
                return self._pass_pairs(A, B, np.array((sign,), np.int8), np.array((weight,)))[0]
        rows = checks.row(a, "a"), checks.row(b, "b")
        return next(self._take_pairs(*rows, similar, sample_weight, names=("a", "b")))[0]

    def _are_plain(self, a: Any, b: Any) -> bool:
        """Are these vectors of the width and dtype that are learned, of a learner without feature map and names?"""
        if type(a) is not np.ndarray or type(b) is not np.ndarray or not self._is_ready or self._map is not None:
            return False
        if a.dtype is not self.dtype_ or b.dtype is not self.dtype_ or hasattr(self, "feature_names_in_"):
            return False
        return a.shape == b.shape == (self.n_features_in_,)

    def partial_fit_pairs(self, A: Any, B: Any, similar: Any, sample_weight: Any = None) -> Self:
        """Learn many pairs, row t of A with row t of B: bit for bit the loop over `learn_pair`."""
        for _ in self._take_pairs(A, B, similar, sample_weight):
            pass  # what each pair did is not kept, so that memory does not grow with the batch
        return self

    def learn_pairs(self, A: Any, B: Any, similar: Any, sample_weight: Any = None) -> Updates:
        """`partial_fit_pairs`, returning what each pair did."""
        return Updates.join(list(self._take_pairs(A, B, similar, sample_weight)))

    def _take_pairs(
        self, A: Any, B: Any, similar: Any, sample_weight: Any, names: tuple[str, str] = ("A", "B")
    ) -> Iterator[Updates]:
        """Check everything, then learn it block by block.

        A method whose kernel looks at the values as they pass spares large batches a pass of their own, which costs
        as much as a fifth of the learning; where it meets one that is not finite, the blocks before are taken back.
        """
        self._check_takes("pairs")
        dtype = self._dtype_so_far
        frames, columns = (A, B), [list(X.columns) for X in (A, B) if hasattr(X, "columns")]
        A, B = (checks.matrix(X, name, dtype) for X, name in zip(frames, names, strict=True))
        if len(columns) == 2 and columns[0] != columns[1]:
            raise InvalidInput(f"expected A and B to have the same columns, got {columns[0]} and {columns[1]}.")
        checks.same_length(names[1], len(B), len(A), names[0])
        checks.width(B, A.shape[1], f"its partner {names[0]}", names[1])
        s = checks.similarities(similar, len(A))
        w = checks.weights(sample_weight, len(A))
        if A.dtype != B.dtype:
            A, B = A.astype(np.float64, copy=False), B.astype(np.float64, copy=False)
        unchecked = self._takes_raw_pairs and self.features is None and len(A) >= MANY_PAIRS
        if unchecked and isinstance(self.random_state, np.random.Generator | np.random.RandomState):
            unchecked = hasattr(self, "n_features_in_")  # what is drawn from a generator cannot be put back
        if not unchecked:
            checks.finite(A, names[0])
            checks.finite(B, names[1])
        with undone_if_refused(self, unchecked or self._map_may_refuse):
            self._open(A, frames[0])
            if hasattr(frames[1], "columns"):
                note_feature_names(self, frames[1], first=False)
            for start in range(0, len(A), BLOCK_PAIRS):
                rows = slice(start, start + BLOCK_PAIRS)
                try:
                    updates = self._pass_pairs(A[rows], B[rows], s[rows], w[rows])
                except InvalidInput:
                    checks.finite(A, "A")  # names the row, where the kernel stopped at one
                    checks.finite(B, "B")
                    raise
                yield updates

    @property
    def _map_may_refuse(self) -> bool:
        """A transformer of others may fail on any row; any map may while it waits, when it starts."""
        return self.features is not None and not (isinstance(self.features, RbfAnchors) and self._is_ready)

    def _pass_pairs(self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray) -> Updates:
        """Checked pairs: kept back while the feature map waits, learned once it is ready."""
        updates = Updates.empty(len(A), self._n_models, self._n_columns, self._per_model)
        t = 0
        while t < len(A) and not self._is_ready:
            self._wait(Event(A[t].copy(), B[t].copy(), int(s[t]), float(w[t])))
            if self._is_ready:
                self._replay(updates, t)
            updates.pending[t] = self.n_pairs_pending_
            t += 1
        if t == 0:
            self._learn_block(A, B, s, w, updates)
        elif t < len(A):
            self._learn_block(A[t:], B[t:], s[t:], w[t:], updates.view(slice(t, None)))
        return updates

    def _learn_block(self, A: np.ndarray, B: np.ndarray, s: np.ndarray, w: np.ndarray, updates: Updates) -> None:
        A, B = plain(A), plain(B)
        if self._map is not None:
            A, B = self._map.map_rows(A), self._map.map_rows(B)
        if not self._takes_raw_pairs:
            A, B = self._centring.enter_pairs(A, B, updates.moved)
        self._learn(A, B, s, w, updates)
        self.n_points_seen_ += 2 * len(A)
        self.n_pairs_seen_ += len(A)
        self._count(updates)

    def _count(self, updates: Updates) -> None:
        if len(updates) == 1:  # the same without a dozen calls of NumPy
            n_moved = int(updates.n_moved[0])
            self.version_ += bool(n_moved or updates.moved[0] or any(map(len, updates.replayed.values())))
            self.n_updates_ += n_moved > 0
            self.n_steps_ += int(np.count_nonzero(updates.step))
            self.n_capped_ += int(np.count_nonzero(updates.capped))
            self.n_bits_moved_ += n_moved
            self.cumulative_loss_ += float(updates.loss[0])
            return
        self.version_ += int(np.count_nonzero(updates.changed()))
        self.n_updates_ += int(np.count_nonzero(updates.n_moved))
        self.n_steps_ += int(np.count_nonzero(updates.step))
        self.n_capped_ += int(np.count_nonzero(updates.capped))
        self.n_bits_moved_ += int(updates.n_moved.sum())
        # One after the other, so that any split of the stream rounds alike.
        self.cumulative_loss_ = float(np.add.accumulate(np.append(self.cumulative_loss_, updates.loss))[-1])

    # ------------------------------------------------------------------ points

    def observe(self, X: Any) -> Self:
        """Points without pairs: they feed the feature map's anchors and the mean."""
        self._check_takes("points")
        rows = checks.vectors(X, dtype=self._dtype_so_far)
        with undone_if_refused(self, self._map_may_refuse):
            self._open(rows, X)
            t = 0
            while t < len(rows) and not self._is_ready:
                self._wait(Event(rows[t].copy()))
                if self._is_ready:
                    self._replay(None, 0)
                t += 1
            for start in range(t, len(rows), 2 * BLOCK_PAIRS):
                self._enter_points(rows[start : start + 2 * BLOCK_PAIRS])
        return self

    def _enter_points(self, rows: np.ndarray) -> None:
        X, updates = self._features_of(rows)
        self._observe(X, updates)
        self._count(updates)

    # ------------------------------------------------------------------ labels

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget, then learn from labelled points as `partial_fit` does. A call that is refused forgets nothing."""
        fresh = type(self)(**self.get_params(deep=False))
        fresh.partial_fit(X, y).flush()
        self._adopt(fresh)
        return self

    def _adopt(self, fresh: Self) -> None:
        """Take over what a learner of the same parameters has learned; what scikit-learn keeps on this one stays."""
        self.check_free()
        for name in [name for name in vars(self) if name.endswith("_") or name == "_centring"]:
            delattr(self, name)
        self.__dict__.update({name: value for name, value in vars(fresh).items() if name not in self.get_params()})

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning from labelled points.

        A method that learns from pairs has them paired two by two as they come, similar when their labels are equal;
        an odd one waits for the next call, so that any split of the stream gives the same pairs. `similar_share`
        changes the rule (`onlinehash.streams.from_labels`).
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
        with undone_if_refused(self, self._map_may_refuse):
            self._open(rows, X)
            for start in range(0, len(rows), 2 * BLOCK_PAIRS):
                block = slice(start, start + 2 * BLOCK_PAIRS)
                if self.traits.learns_from == "labels":
                    self._pass_labelled(rows[block], self._classes.members(labels[block]))
                    continue
                A, B, s = self._pairing.pairs(rows[block], labels[block])
                if len(A):
                    self._pass_pairs(A, B, s, np.ones(len(A)))
        return self

    def _pass_labelled(self, rows: np.ndarray, members: np.ndarray) -> None:
        """Checked points with their class numbers: kept back while the feature map waits, learned once it is ready."""
        t = 0
        while t < len(rows) and not self._is_ready:
            self._wait(Event(rows[t].copy(), members=members[t, members[t] >= 0]))  # as wide in any company
            if self._is_ready:
                self._replay(None, 0)
            t += 1
        if t < len(rows):
            X, updates = self._features_of(rows[t:])
            self._learn_labelled(X, members[t:], updates)
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

    @property
    def n_points_pending_(self) -> int:
        """Labelled points kept back while a feature map waits for its anchors."""
        return sum(event.members is not None for event in getattr(self, "_pending", []))

    # ------------------------------------------------------------------ waiting for anchors, and for chunks to fill

    def _wait(self, event: Event) -> None:
        """Keep an event for later and offer its points to the feature map."""
        assert self._map is not None
        for point in (event.a, event.b):
            if point is not None and not self._map.is_ready:
                self._map.partial_fit(point[None])
        if self._map.is_ready:
            self._start(event.a[None])
        self._pending.append(event)
        self.n_pairs_pending_ += event.b is not None

    def _replay(self, updates: Updates | None, t: int) -> None:
        """Learn what was kept back, in order; the update of pair t tells what it did."""
        pending, self._pending, self.n_pairs_pending_ = self._pending, [], 0
        for event in pending:
            if event.members is not None:
                members = event.members if len(event.members) else np.array([-1])
                self._pass_labelled(event.a[None], members[None])
            elif event.b is None:
                self._enter_points(event.a[None])
            else:
                signs, weights = np.array([event.similar], np.int8), np.array([event.weight])
                done = self._pass_pairs(event.a[None], event.b[None], signs, weights)
                if updates is not None:
                    updates.absorb(t, done)

    def flush(self) -> Self:
        """Start a feature map that still waits, with the anchors it has, and end a chunk that still fills."""
        self.check_free()
        if hasattr(self, "n_features_in_") and not self._is_ready and self._pending:
            assert self._map is not None
            with undone_if_refused(self, True):
                self._map.start()
                self._start(self._pending[0].a[None])
                self._replay(None, 0)
        return self.end_chunk()

    def end_chunk(self) -> Self:
        """Learn what waits for its chunk to fill, and let codes show it; nothing to do for those that learn at once."""
        self.check_free()
        if self._is_ready:
            updates = Updates.empty(1, self._n_models, self._n_columns, self._per_model)
            self._end_chunk(updates)
            self._settle(updates)
            self._count(updates)
        return self
