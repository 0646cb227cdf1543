"""`Codes`: packed bits that know their width."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash.errors import InvalidInput


class Codes:
    """`n` binary codes of `n_bits` bits (`n_models * n_bits` columns), eight columns to a byte; padding is always zero.

    Column 0 is the lowest bit of byte 0. Codes do not change; indexing by a slice or an array gives other Codes.
    """

    __slots__ = ("_packed", "n_bits", "n_models")

    def __init__(self, packed: Any, n_bits: int, n_models: int = 1) -> None:
        columns = n_bits * n_models
        packed = np.asarray(packed)
        if packed.ndim != 2 or packed.dtype != np.uint8 or packed.shape[1] != -(-columns // 8):
            raise InvalidInput(
                f"expected packed codes of dtype uint8 and shape (n, {-(-columns // 8)}) for {columns} bits, "
                f"got {packed.dtype} {packed.shape}; pack boolean arrays with Codes.from_bits."
            )
        if columns % 8 and packed.size and (packed[:, -1] >> (columns % 8)).any():
            raise InvalidInput(f"expected zero padding after bit {columns}, got set bits; pack with Codes.from_bits.")
        self._packed = np.array(packed, order="C")
        self._packed.flags.writeable = False
        self.n_bits = n_bits
        self.n_models = n_models

    @classmethod
    def from_bits(cls, bits: Any, n_models: int = 1) -> Codes:
        """Pack a boolean array `(n, n_models * n_bits)`."""
        bits = np.asarray(bits)
        if n_models < 1:
            raise InvalidInput(f"expected at least one model, got n_models={n_models}.")
        if bits.ndim != 2 or bits.dtype != np.bool_ or bits.shape[1] == 0 or bits.shape[1] % n_models:
            raise InvalidInput(
                f"expected a boolean array (n, bits) with a multiple of {n_models} columns, "
                f"got {bits.dtype} {bits.shape}; compare your projections with 0 to get booleans."
            )
        return cls(np.packbits(bits, axis=1, bitorder="little"), bits.shape[1] // n_models, n_models)

    @property
    def packed(self) -> np.ndarray:
        """The bytes, `(n, ceil(columns / 8))`, read-only."""
        return self._packed

    @property
    def n_columns(self) -> int:
        """Bits per item over all models."""
        return self.n_bits * self.n_models

    def bits(self) -> np.ndarray:
        """Booleans `(n, n_models * n_bits)`."""
        return np.unpackbits(self._packed, axis=1, count=self.n_columns, bitorder="little").astype(np.bool_)

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, rows: Any) -> Codes:
        if isinstance(rows, int | np.integer):
            row = range(len(self))[rows]  # an IndexError beyond the end, which also ends iteration
            rows = slice(row, row + 1)
        return Codes(self._packed[rows], self.n_bits, self.n_models)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Codes)
            and (self.n_bits, self.n_models) == (other.n_bits, other.n_models)
            and np.array_equal(self._packed, other._packed)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        models = f", n_models={self.n_models}" if self.n_models > 1 else ""
        return f"Codes(n={len(self)}, n_bits={self.n_bits}{models})"
