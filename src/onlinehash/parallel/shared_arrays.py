"""`SharedArrays`: arrays by name in one piece of memory that several processes see."""

from __future__ import annotations

import math
from collections.abc import Mapping
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

#: Shape and dtype of every array, by its name.
Layout = Mapping[str, tuple[tuple[int, ...], str]]

#: Arrays begin at a cache line, as the row kernels want them to.
LINE = 64


class SharedArrays:
    """Made by one process, which names it to the others; the maker's `close` gives the memory back."""

    def __init__(self, layout: Layout, name: str | None = None) -> None:
        starts, size = {}, 0
        for key, (shape, dtype) in layout.items():
            starts[key] = size
            size += -(-math.prod(shape) * np.dtype(dtype).itemsize // LINE) * LINE
        self._is_mine = name is None
        self._memory = SharedMemory(name, create=self._is_mine, size=max(size, LINE))
        self._arrays = {
            key: np.ndarray(shape, dtype, self._memory.buf, starts[key]) for key, (shape, dtype) in layout.items()
        }

    @property
    def name(self) -> str:
        return self._memory.name

    def __getitem__(self, key: str) -> np.ndarray:
        return self._arrays[key]

    def close(self) -> None:
        """No array taken from here may be in use any more."""
        self._arrays = {}
        self._memory.close()
        if self._is_mine:
            self._memory.unlink()
            self._is_mine = False

    def __enter__(self) -> SharedArrays:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
