"""`RemoteIndex`: the live index of a service, with the methods of `LiveIndex`."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from onlinehash import checks
from onlinehash.client import answers, arguments
from onlinehash.client.connection import Connection
from onlinehash.client.following import Following
from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.learners import registry
from onlinehash.learners.update import Update, Updates


class Clicks(NamedTuple):
    """What clicks taught: the pairs made of them (query or None, item, similar, weight), and what each did."""

    pairs: list[tuple[int | str | None, int | str, bool, float]]
    updates: Updates


class RemoteIndex(Following):
    """A live index that a service keeps; `onlinehash.connect` gives it.

    Methods, results and errors are those of `LiveIndex`. What cannot be sent is refused here; all else is refused, or
    done wholly, by the service. Any number of threads may use it. `backup`, `reload`, `path` and what policies look at
    are the service's own business, and not offered.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # ------------------------------------------------------------------------------------------------ items

    def add(self, ids: Any, X: Any, payloads: Any = None) -> np.ndarray:
        """New items: ids (integers or strings; None numbers them on), vectors, and JSON payloads or None.

        The learner observes the vectors. Ids that are known already are refused; `update` changes items. Returns the
        ids.
        """
        rows = arguments.rows(X)
        body: dict[str, Any] = {"vectors": rows}
        try:
            body["ids"] = None if ids is None else arguments.listed(ids)
            body["payloads"] = arguments.payloads(payloads, len(rows))
        except OnlineHashError:
            self._check_rows(rows)  # which come first
            raise
        return self._as_ids(self._connection.change("POST", "/v1/items", body, len(rows))["ids"])

    def update(self, ids: Any, X: Any = None, payloads: Any = None) -> None:
        """New vectors or payloads, or both, for known items, which keep their place in the order of insertion."""
        if X is None and payloads is None:
            raise InvalidInput("expected vectors or payloads to update, got neither.")
        rows = None if X is None else arguments.rows(X)
        body: dict[str, Any] = {"vectors": rows}
        try:
            body["ids"] = arguments.listed(ids)
            body["payloads"] = arguments.payloads(payloads, len(body["ids"]))
        except OnlineHashError:
            if rows is not None:
                self._check_rows(rows)
            self._items(body.get("ids", []))  # unknown items are named before what is wrong with their payloads
            raise
        self._connection.change("PATCH", "/v1/items", body, len(body["ids"]))

    def _check_rows(self, rows: np.ndarray) -> None:
        """Refuse rows as the index would."""
        model = self._model
        rows = checks.vectors(rows, dtype=np.dtype(model["dtype"]) if model["n_features"] else None)
        if model["n_features"]:
            checks.width(rows, model["n_features"], "this index")

    def remove(self, ids: Any) -> None:
        """Forget known items."""
        self._connection.change("POST", "/v1/items/remove", {"ids": arguments.listed(ids)})

    # ------------------------------------------------------------------------------------------------ learning

    def learn_pair(self, a: Any, b: Any, similar: Any, sample_weight: float = 1.0) -> Update:
        """Teach the learner one pair of vectors, and whether they are similar (a bool, or +1 / -1)."""
        return self.learn_pairs(checks.row(a, "a"), checks.row(b, "b"), similar, sample_weight)[0]

    def learn_pair_by_id(self, id_a: int | str, id_b: int | str, similar: Any, sample_weight: float = 1.0) -> Update:
        """Teach the learner a pair of items."""
        return self.learn_pairs_by_id([id_a], [id_b], similar, sample_weight)[0]

    def learn_pairs(self, A: Any, B: Any, similar: Any, sample_weight: Any = None) -> Updates:
        """Teach the learner many pairs, row t of A with row t of B; the policy is asked once, after the last."""
        try:
            body = arguments.pairs(A, B, similar, sample_weight)
        except OnlineHashError:
            self._method().learn_pairs(A, B, similar, sample_weight)  # a learner of this kind names what comes first
            raise
        return self._updates(self._connection.change("POST", "/v1/learn", body, len(body["a"])))

    def learn_pairs_by_id(self, ids_a: Any, ids_b: Any, similar: Any, sample_weight: Any = None) -> Updates:
        """Teach the learner many pairs of items."""
        ids = {"id_a": arguments.listed(ids_a), "id_b": arguments.listed(ids_b)}
        n = len(ids["id_a"])
        if n == 0:
            similar, sample_weight = [], None  # no pairs are refused, whatever is said of them
        try:
            labels = arguments.labels_of_pairs(similar, sample_weight, n)
        except OnlineHashError:
            A, B = ([item.vector for item in self._items(some)] for some in ids.values())
            self._method().learn_pairs(A, B, similar, sample_weight)  # as above, after unknown ids
            raise
        return self._updates(self._connection.change("POST", "/v1/learn", ids | labels, n))

    def learn_labelled(self, X: Any, y: Any) -> None:
        """Teach the learner points with labels: one each, or a 0/1 column for each class where it takes several."""
        rows = checks.matrix(X)
        try:
            body = {"vectors": rows, "y": arguments.labels(y, len(rows))}
        except OnlineHashError:
            self._method().partial_fit(rows, y)  # as above
            raise
        self._connection.change("POST", "/v1/learn/labelled", body, len(rows))

    def learn_clicks(
        self, query: Any, shown: Any, clicked: Any, *, skip_weight: float = 0.5, position_bias: float = 0.0
    ) -> Clicks:
        """Teach what a person clicked among the items shown for a query, which is an item's id or a vector.

        Items that were clicked are similar to it. Those shown above a click and not clicked are not, with
        `skip_weight`. docs/http.md has the rule.
        """
        body: dict[str, Any] = {"shown": arguments.listed(shown), "clicked": arguments.listed(clicked)}
        if isinstance(query, str | int | np.integer):
            body["query"] = arguments.listed(query)[0]
        else:
            body["vector"] = arguments.rows(query, "query")[0]
        weights = {"skip_weight": skip_weight, "position_bias": position_bias}
        checks.parameters("learn_clicks", weights, dict.fromkeys(weights, checks.real(0)))
        answer = self._connection.change("POST", "/v1/learn/clicks", body | weights, 1)
        return Clicks([tuple(pair) for pair in answer["pairs"]], self._updates(answer))

    def flush(self) -> None:
        """Let a feature map that still waits start with the anchors there are; learn a chunk that still fills."""
        self._connection.change("POST", "/v1/flush", {})

    def _updates(self, answer: dict[str, Any]) -> Updates:
        return answers.updates_of(answer, self.n_models * self.n_bits, self._method._per_model)

    @property
    def _method(self) -> Any:
        """The learner's class; one that is installed only there cannot be used from here."""
        return registry.find(self._connection.about["method"])

    # ------------------------------------------------------------------------------------------------ the connection

    def close(self) -> None:
        """Let go of the connection; the index and its service go on."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        about = self._connection.about
        return f"RemoteIndex({self._connection.url!r}, {about['method']}, n_bits={about['n_bits']})"

    def __reduce__(self) -> Any:
        raise InvalidInput("cannot copy or pickle a RemoteIndex: connect again where it is needed.")
