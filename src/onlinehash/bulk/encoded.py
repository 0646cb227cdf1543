"""`read_codes`: what `encode` wrote, in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.bulk.arrow_files import need_pyarrow
from onlinehash.bulk.encoding import complete_manifest
from onlinehash.bulk.folder import part_path
from onlinehash.bulk.parts import read_part
from onlinehash.codes import Codes


class Encoded(NamedTuple):
    """Codes in the order of the source's rows; ids and labels where the source has them.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LSH, bulk
    >>> X = np.eye(3, 4, dtype=np.float32)
    >>> np.save("vectors.npy", X)
    >>> np.save("vectors.ids.npy", np.array([10, 20, 30]))
    >>> _ = bulk.encode(LSH(n_bits=8, random_state=0).fit(X), "vectors.npy", "codes", on="local://1")
    >>> found = bulk.read_codes("codes")
    >>> found.codes, found.ids, found.labels
    (Codes(n=3, n_bits=8), array([10, 20, 30]), None)
    """

    codes: Codes
    ids: np.ndarray | None
    labels: np.ndarray | None


def read_codes(folder: str | os.PathLike[str]) -> Encoded:
    """Read all codes of a folder into memory, checked against the sums in its parts.

    Returns
    -------
    Encoded

    Raises
    ------
    InvalidInput
        If it is not a folder of codes, or parts are missing.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, bulk
    >>> X = np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)
    >>> np.save("vectors.npy", X)
    >>> learner = OnlineHashing(n_bits=32, random_state=0).observe(X)
    >>> _ = bulk.encode(learner, "vectors.npy", "codes", on="local://1")
    >>> bulk.read_codes("codes").codes
    Codes(n=1000, n_bits=32)
    """
    need_pyarrow()
    manifest = complete_manifest(folder)
    parts = [
        read_part(part_path(Path(folder), number), manifest.stamp(number)) for number in range(len(manifest.parts))
    ]
    columns = (joined([part.others.get(name) for part in parts]) for name in ("id", "label"))
    return Encoded(Codes.concatenate(part.codes for part in parts), *columns)


def joined(columns: list[Any]) -> np.ndarray | None:
    """Arrow columns as one array, None where one is missing."""
    if any(column is None for column in columns):
        return None
    return np.concatenate([column.to_numpy(zero_copy_only=False) for column in columns])
