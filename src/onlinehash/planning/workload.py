"""The input of a plan: the items, and the machines that hold them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from onlinehash.errors import InvalidInput
from onlinehash.planning import distances
from onlinehash.planning.distances import Data

#: Nearest neighbours that a query asks for.
K = 10
GB = 1e9


@dataclass(frozen=True)
class Workload:
    """Items, and what is done with them."""

    items: float
    bits: int = 64
    dim: int = 512
    dtype: str = "float32"
    payload: int = 0  #: Bytes of an item's JSON.
    queries_per_second: float = 0.0
    changed_bits: int = 4
    data: Data = distances.CLUSTERED

    def __post_init__(self) -> None:
        _check("items", self.items, 1, 1e15)
        _check("bits", self.bits, 1, 4096)
        _check("dim", self.dim, 1, 1e6)
        _check("payload", self.payload, 0, 65536)
        _check("queries-per-second", self.queries_per_second, 0, 1e12)
        if self.dtype not in ("float32", "float64"):
            raise InvalidInput(expected="float32 or float64 as dtype", got=repr(self.dtype))
        if not 1 <= self.changed_bits <= self.bits:
            raise InvalidInput(
                expected=f"1 to {self.bits} changed bits, the length of a code", got=f"{self.changed_bits}"
            )

    @property
    def value_bytes(self) -> int:
        """Bytes of a value of a vector."""
        return 4 if self.dtype == "float32" else 8

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return self.dim * self.value_bytes

    @property
    def code_bytes(self) -> int:
        """Bytes of a code."""
        return -(-self.bits // 8)

    @property
    def words(self) -> int:
        """Words of 64 bits of a code."""
        return -(-self.bits // 64)


@dataclass(frozen=True)
class Machine:
    """One of several equal machines; a size of None is no limit."""

    memory: float = 64 * GB
    cores: int = 16
    disk: float | None = None
    card: float | None = None  #: Bytes of memory of its CUDA card; None: it has none.

    #: The share of its memory that items may take: the rest is for the system, its cache of files, and queries.
    USABLE = 0.8

    #: The share of the memory of its card: the rest is for the driver and what is found.
    USABLE_CARD = 0.95

    def __post_init__(self) -> None:
        _check("memory", self.memory / GB, 0.5, 1e6)
        _check("cores", self.cores, 1, 4096)
        if self.disk is not None:
            _check("disk", self.disk / GB, 0.001, 1e9)
        if self.card is not None:
            _check("card", self.card / GB, 0.5, 1e4)


def _check(name: str, value: float, least: float, most: float) -> None:
    if not (math.isfinite(value) and least <= value <= most):
        raise InvalidInput(expected=f"--{name} from {least:g} to {most:g}", got=f"{value:g}")
