"""Types that signatures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: What JSON can hold.
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

#: What a file holds: arrays, plain values, lists and dictionaries of them. Anybody can write a file, so whoever takes a
#: value out checks it, by the functions of `io.format`.
State: TypeAlias = dict[str, Any]

Id: TypeAlias = int | str
#: Ids in an array: int64, or str objects.
IdArray: TypeAlias = NDArray[np.int64] | NDArray[np.object_]

#: What is stored with an item, and comes back as it was: anything that JSON can hold.
Payload: TypeAlias = dict[str, Any]
Payloads: TypeAlias = Sequence[Payload | None] | Payload

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

#: The first projections of a learner.
Init: TypeAlias = Literal["gaussian", "unit"] | ArrayLike
