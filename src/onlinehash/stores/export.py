"""`export`: ids, vectors and payloads out of an index in a database, without its learner, its encoders or its codes.

It works even if one of those is damaged, as it reads none of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from onlinehash.live.export import Export
from onlinehash.stores.backend import Backend
from onlinehash.stores.ids import ids_of
from onlinehash.stores.reader import Reader, too_busy


def export(backend: Backend) -> Iterator[Export]:
    """The items in the order of insertion, as of one moment; others may change the index meanwhile."""
    with backend.snapshot() as view:
        reader = Reader(view)
        moment = reader.fresh()
        kind = moment.state.vector_kind
        for rows in reader.pages(moment, vectors=True):
            ids = ids_of(rows.ids, moment.state).tolist()
            for id, data, text in zip(ids, rows.vectors, rows.payloads, strict=True):
                is_whole = len(data) == kind.n_features * kind.dtype.itemsize
                vector = np.frombuffer(data, kind.dtype) if is_whole else None
                yield Export(id, vector, None if text is None else json.loads(text))
        if not view.has_snapshots and not reader.are_all_there(moment):
            raise too_busy()
