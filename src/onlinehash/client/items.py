"""The items of a remote index, and what else it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from onlinehash import files
from onlinehash.client import arguments
from onlinehash.client.connection import Connection
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, NotReady, ServiceUnavailable, UnknownId
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live.searching import Item

T = TypeVar("T")

#: How often what takes several requests is begun anew, because others changed the index between them.
ATTEMPTS = 8
#: Ids, codes or vectors of one answer, if the service does not allow fewer.
PAGE = 10_000


class Items:
    """What is there; any number of threads may ask."""

    _connection: Connection
    _are_texts: bool | None = None  # the ids; None as long as none were seen

    def get(self, id: int | str) -> Item:
        """The item of an id, with its `vector` and its `payload` (None if it has none)."""
        return self._items(arguments.listed([id]))[0]

    def get_many(self, ids: Any) -> list[Item]:
        """The items of some ids, as they are at one moment; an id may be there more than once."""
        return self._items(arguments.listed(ids))

    def _items(self, ids: list[Any]) -> list[Item]:
        answer = self._connection.ask("/v1/items/get", {"ids": ids, "vectors": True}, len(ids), binary=True)
        return [Item(*item) for item in zip(answer["ids"], answer["vectors"], answer["payloads"], strict=True)]

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, str | int | np.integer):
            return False
        try:
            ids = arguments.listed(id)
        except InvalidInput:  # no id at all
            return False
        try:
            self._connection.ask("/v1/items/get", {"ids": ids, "vectors": False})
        except UnknownId:
            return False
        return True

    def __len__(self) -> int:
        return int(self._connection.get("/v1/items", limit=1)["n"])

    def __iter__(self) -> Iterator[int | str]:
        """The ids, in the order of insertion, as they are now."""
        return iter(self.ids.tolist())

    @property
    def ids(self) -> np.ndarray:
        """The items' ids, in the order of insertion."""
        return self._at_one_moment(self._all_ids)

    @property
    def codes(self) -> Codes:
        """The items' codes, in the order of insertion: what `encoder` makes of `vectors`."""
        self._check_ready()
        return self._at_one_moment(self._all_codes)

    @property
    def vectors(self) -> np.ndarray:
        """The items' vectors, in the order of insertion; all of them, fetched one page after the other."""
        return self._at_one_moment(self._all_vectors)

    @property
    def encoder(self) -> Encoder | None:
        """What made the codes, downloaded; None until the learner has its first hash functions."""
        try:
            return self._download("encoder")
        except NotReady:
            return None

    @property
    def newest(self) -> Encoder:
        """The learner's hash functions as they are now."""
        learner: Learner = self._download("learner")
        return learner.snapshot()

    @property
    def n_bits(self) -> int:
        """Bits of each model's code."""
        return int(self._connection.about["n_bits"])

    @property
    def n_models(self) -> int:
        """Codes of an item."""
        return int(self._connection.about["n_models"])

    @property
    def _model(self) -> dict[str, Any]:
        model: dict[str, Any] = self._connection.get("/v1/model")
        return model

    def _download(self, what: str) -> Any:
        data = self._connection.download("/v1/model/download", what=what)
        return files.from_bytes(data, f"the {what} of {self._connection.url}")

    # ------------------------------------------------------------------------------------------------ all items

    def _check_ready(self, where: Any = None) -> None:
        self._connection.ask("/v1/search", {"ids": [], "k": 0, "where": where})

    def _as_ids(self, ids: Any) -> np.ndarray:
        """Ids as an index gives them: int64, or str objects. An index has one kind of them, for ever."""
        found = np.array(ids, object)
        if found.size:
            self._are_texts = isinstance(found.flat[0], str)
        elif self._are_texts is None:
            first = self._connection.get("/v1/items", limit=1)["ids"]
            if first:
                self._as_ids(first)
        return found if self._are_texts else found.astype(np.int64)

    def _at_one_moment(self, read: Callable[[], T | None]) -> T:
        """What several requests tell together; None says that they do not fit together."""
        for _ in range(ATTEMPTS):
            found = read()
            if found is not None:
                return found
        raise ServiceUnavailable(
            f"expected an index that stays as it is while it is read, got one that changed {ATTEMPTS} times; try "
            "again when there is less to do."
        )

    def _all_ids(self) -> np.ndarray | None:
        ids: list[Any] = []
        numbers = set()
        while True:
            answer = self._connection.get("/v1/items", offset=len(ids), limit=self._page("ids"))
            ids += answer["ids"]
            numbers.add(answer["n"])
            if len(numbers) > 1:
                return None
            if len(ids) >= answer["n"]:
                return self._as_ids(ids)

    def _all_codes(self) -> Codes | None:
        texts: list[str] = []
        versions = set()
        for page in self._pages("ids"):
            answer = self._connection.ask("/v1/codes", {"ids": page})
            texts += answer["codes"]
            versions.add(answer["encoder"])
        return arguments.codes_of(texts, self.n_bits, self.n_models) if len(versions) <= 1 else None

    def _all_vectors(self) -> np.ndarray | None:
        model = self._model
        try:
            found = [item.vector for page in self._pages("batch") for item in self._items(page)]
        except UnknownId:  # which was removed a moment ago
            return None
        return np.array(found, model["dtype"]).reshape(len(found), model["n_features"])

    def _pages(self, limit: str) -> Iterator[list[Any]]:
        ids, size = self.ids.tolist(), self._page(limit)
        return (ids[start : start + size] for start in range(0, len(ids), size))

    def _page(self, limit: str) -> int:
        return min(PAGE, int(self._connection.limits.get(limit, PAGE)))
