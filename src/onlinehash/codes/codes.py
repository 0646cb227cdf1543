"""`Codes`: packed bits that know their width."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash.codes import layout
from onlinehash.errors import InvalidInput
from onlinehash.numeric.views import read_only

#: The longest code of one model, in bits, and of all models together, in bytes (distances are counted in 16 bits).
MAX_BITS, MAX_PLANES = 4096, 8191


class HasText(Protocol):
    """A `Bit` of pgvector."""

    def to_text(self) -> str: ...


class Codes:
    """`n` binary codes of `n_bits` bits for each of `n_models` models; padding is always zero.

    Codes do not change; indexing by a slice or an array gives other Codes. `planes` is how they lie in memory (see
    `layout`). They come from booleans (`from_bits`) and from the packed layouts of others: FAISS, NumPy's `packbits`
    and pgvector's `bit` type, and go back to them; `to_int8`, `to_hex` and `to_signs` are layouts of other stores. In
    all of those the columns of all models follow one another without gaps.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import Codes
    >>> codes = Codes.from_bits(np.array([[True, False, True], [False, False, True]]))
    >>> codes
    Codes(n=2, n_bits=3)
    >>> codes.to_faiss()
    array([[5],
           [4]], dtype=uint8)
    >>> codes[1].to_pgvector()
    ['001']
    """

    __slots__ = ("_n", "_n_bits", "_n_models", "_planes")

    _n: int
    _n_bits: int
    _n_models: int
    _planes: np.ndarray

    @classmethod
    def from_bits(cls, bits: ArrayLike, n_models: int = 1) -> Codes:
        """Pack a boolean array of shape `(n, n_models * n_bits)`.

        Returns
        -------
        Codes

        Raises
        ------
        InvalidInput
            If it is not such an array.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes
        >>> Codes.from_bits(np.eye(3, 16, dtype=bool))
        Codes(n=3, n_bits=16)
        >>> Codes.from_bits(np.eye(3, 16, dtype=bool), n_models=2)
        Codes(n=3, n_bits=8, n_models=2)
        """
        try:
            bits = np.asarray(bits)
        except ValueError:
            raise InvalidInput(expected="a boolean array (n, bits)", got="rows of unequal length") from None
        _check_width(1, n_models)
        if bits.ndim != 2 or bits.dtype != np.bool_ or bits.shape[1] == 0 or bits.shape[1] % n_models:
            raise InvalidInput(
                expected=f"a boolean array (n, bits) with a multiple of {n_models} columns",
                got=f"{bits.dtype} {bits.shape}",
                hint="compare your projections with 0 to get booleans",
            )
        n_bits = bits.shape[1] // n_models
        _check_width(n_bits, n_models)
        rows = np.packbits(bits.reshape(len(bits), n_models, n_bits), axis=2, bitorder="little")
        return cls.from_rows(rows.reshape(len(bits), rows.shape[1] * rows.shape[2]), n_bits, n_models)

    @classmethod
    def from_planes(cls, planes: np.ndarray, n: int, n_bits: int, n_models: int = 1) -> Codes:
        """Codes that lie in planes already; they are kept, not copied, and must not change any more."""
        _check_width(n_bits, n_models)
        if not _is_whole(n) or n < 0:
            raise InvalidInput(expected="n to be a number of codes", got=f"{n!r}")
        shape = (-(-n // layout.LANES), n_models * layout.planes_per_model(n_bits), layout.LANES)
        if planes.shape != shape or planes.dtype != np.uint8 or not planes.flags.c_contiguous:
            raise InvalidInput(
                expected=f"contiguous planes of dtype uint8 {shape}", got=f"{planes.dtype} {planes.shape}"
            )
        codes = cls.__new__(cls)
        codes._planes = read_only(planes)
        codes._n, codes._n_bits, codes._n_models = n, n_bits, n_models
        return codes

    def checked(self) -> Codes:
        """Return the codes themselves, if their padding is zero as it must be; for codes that come from elsewhere."""
        used = self.n_bits % 8
        padding = self._planes[:, layout.planes_per_model(self.n_bits) - 1 :: layout.planes_per_model(self.n_bits)]
        lanes = len(self) % layout.LANES
        if (used and (padding >> np.uint8(used)).any()) or (lanes and self._planes[-1, :, lanes:].any()):
            raise InvalidInput(f"the padding after bit {self.n_bits} must be zero; pack with Codes.from_bits.")
        return self

    @classmethod
    def from_packbits(
        cls, packed: ArrayLike, n_bits: int, n_models: int = 1, bitorder: Literal["big", "little"] = "big"
    ) -> Codes:
        """Take over codes packed by `np.packbits(bits, axis=1, bitorder=bitorder)`.

        Parameters
        ----------
        packed : array-like of uint8, of shape (n, ceil(n_models * n_bits / 8))
        n_bits : int
        n_models : int, default=1
        bitorder : {"big", "little"}, default="big"

        Returns
        -------
        Codes

        Raises
        ------
        InvalidInput
            If type or shape do not fit, or bits of the padding are set.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes
        >>> bits = np.eye(3, 12, dtype=bool)
        >>> Codes.from_packbits(np.packbits(bits, axis=1), n_bits=12) == Codes.from_bits(bits)
        True
        """
        _check_width(n_bits, n_models)
        _check_order(bitorder)
        columns, packed = n_bits * n_models, np.asarray(packed)
        if packed.ndim != 2 or packed.dtype != np.uint8 or packed.shape[1] != -(-columns // 8):
            raise InvalidInput(
                expected=f"packed codes of dtype uint8 and shape (n, {-(-columns // 8)}) for {columns} bits",
                got=f"{packed.dtype} {packed.shape}",
                hint="pack boolean arrays with Codes.from_bits",
            )
        if bitorder == "little" and _bytes_are_shared_alike(n_bits, n_models):
            return cls.from_rows(packed, n_bits, n_models).checked()
        bits = np.unpackbits(packed, axis=1, bitorder=bitorder).view(np.bool_)
        if bits[:, columns:].any():
            raise InvalidInput(f"the padding after bit {columns} must be zero; pack with Codes.from_bits.")
        return cls.from_bits(bits[:, :columns], n_models)

    @classmethod
    def from_faiss(cls, packed: ArrayLike, n_bits: int, n_models: int = 1) -> Codes:
        """Take over codes in the rows of FAISS's binary indexes: column 0 is the lowest bit of byte 0.

        Returns
        -------
        Codes

        Raises
        ------
        InvalidInput
            If type or shape do not fit, or bits of the padding are set.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes
        >>> Codes.from_faiss(np.array([[5], [4]], np.uint8), n_bits=8).to_pgvector()
        ['10100000', '00100000']
        """
        return cls.from_packbits(packed, n_bits, n_models, "little")

    @classmethod
    def from_pgvector(cls, texts: Iterable[str | HasText], n_models: int = 1) -> Codes:
        """Take over codes as PostgreSQL writes its type `bit(n)`: strings of 0 and 1, or pgvector's `Bit` objects.

        Returns
        -------
        Codes

        Raises
        ------
        InvalidInput
            If the strings are not all of one length, or have other characters.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.from_pgvector(["101", "001"])
        Codes(n=2, n_bits=3)
        """
        if isinstance(texts, str):
            raise InvalidInput(expected="a sequence of strings of 0 and 1, one for each code", got="a single string")
        lines: list[object] = [text.to_text() if hasattr(text, "to_text") else text for text in texts]
        widths = {len(line) if isinstance(line, str) and not line.strip("01") else 0 for line in lines}
        if len(widths) != 1 or 0 in widths:
            raise InvalidInput(expected="at least one string of 0 and 1, all of equal length", got="something else")
        digits = np.frombuffer("".join(map(str, lines)).encode(), np.uint8).reshape(len(lines), -1)
        return cls.from_bits(digits == ord("1"), n_models)

    @classmethod
    def concatenate(cls, parts: Iterable[Codes]) -> Codes:
        """Join codes of one width.

        Returns
        -------
        Codes

        Raises
        ------
        InvalidInput
            If there are none, or they differ in width.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.concatenate([Codes.from_pgvector(["101"]), Codes.from_pgvector(["001", "110"])])
        Codes(n=3, n_bits=3)
        """
        parts = list(parts)
        if not parts or len({(part.n_bits, part.n_models) for part in parts}) != 1:
            raise InvalidInput(
                expected="codes of equal width to concatenate", got=f"{', '.join(map(repr, parts)) or 'none'}"
            )
        n, at = sum(map(len, parts)), 0
        planes = layout.aligned_planes(n, parts[0].n_planes)
        for part in parts:
            layout.copy_codes(part._planes, 0, len(part), planes, at)
            at += len(part)
        return cls.from_planes(planes, n, parts[0].n_bits, parts[0].n_models)

    @classmethod
    def from_rows(cls, rows: np.ndarray, n_bits: int, n_models: int) -> Codes:
        """The inverse of `rows()`."""
        planes = layout.aligned_planes(*rows.shape)
        layout.put_rows(np.ascontiguousarray(rows), planes, 0)
        return cls.from_planes(planes, len(rows), n_bits, n_models)

    # -------------------------------------------------------------------------------------------- what they are

    @property
    def planes(self) -> np.ndarray:
        """The bytes, `(n_blocks, n_planes, 64)`, read-only."""
        return self._planes

    @property
    def n_bits(self) -> int:
        """Bits of each model's code."""
        return self._n_bits

    @property
    def n_models(self) -> int:
        """Codes of an item, one for each model."""
        return self._n_models

    @property
    def n_planes(self) -> int:
        """Bytes per item."""
        return int(self._planes.shape[1])

    @property
    def n_columns(self) -> int:
        """Bits per item over all models."""
        return self.n_bits * self.n_models

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._planes.nbytes

    def bits(self) -> np.ndarray:
        """Return the codes as booleans.

        Returns
        -------
        ndarray of bool, of shape (n, n_models * n_bits)

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.from_pgvector(["101", "001"]).bits()
        array([[ True, False,  True],
               [False, False,  True]])
        """
        rows = self.rows().reshape(len(self), self.n_models, layout.planes_per_model(self.n_bits))
        bits = np.unpackbits(rows, axis=2, count=self.n_bits, bitorder="little")
        return bits.reshape(len(self), self.n_columns).view(np.bool_)

    def popcount(self) -> np.ndarray:
        """Return how many bits are set in each code, `(n,)`.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.from_pgvector(["101", "001"]).popcount()
        array([2, 1])
        """
        counts: NDArray[np.int64] = np.bitwise_count(self._planes).sum(axis=1, dtype=np.int64)
        return counts.reshape(-1)[: len(self)]

    def rows(self) -> np.ndarray:
        """Return the bytes code by code, `(n, n_planes)`; each model begins at a byte of its own, lowest bit first.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.from_pgvector(["101", "001"]).rows()
        array([[5],
               [4]], dtype=uint8)
        """
        rows = np.empty((len(self), self.n_planes), np.uint8)
        layout.get_rows(self._planes, 0, rows)
        return rows

    def to_packbits(self, bitorder: Literal["big", "little"] = "big") -> np.ndarray:
        """Return what `np.packbits(codes.bits(), axis=1, bitorder=bitorder)` gives.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.from_pgvector(["101", "001"]).to_packbits()
        array([[160],
               [ 32]], dtype=uint8)
        """
        _check_order(bitorder)
        if bitorder == "little" and _bytes_are_shared_alike(self.n_bits, self.n_models):
            return self.rows()
        return np.packbits(self.bits(), axis=1, bitorder=bitorder)

    def to_faiss(self) -> np.ndarray:
        """Return rows for FAISS's binary indexes of dimension `8 * ceil(n_columns / 8)`.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.from_pgvector(["101", "001"]).to_faiss()
        array([[5],
               [4]], dtype=uint8)
        """
        return self.to_packbits("little")

    def to_pgvector(self) -> list[str]:
        """Return strings of 0 and 1, as PostgreSQL reads its type `bit(n)`.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import Codes
        >>> Codes.from_bits(np.eye(2, 4, dtype=bool)).to_pgvector()
        ['1000', '0100']
        """
        text = (self.bits().view(np.uint8) + ord("0")).tobytes().decode()
        return [text[start : start + self.n_columns] for start in range(0, len(text), self.n_columns)]

    def to_int8(self) -> np.ndarray:
        """The bytes of `to_packbits()` as signed numbers, for Elasticsearch, OpenSearch and Vespa.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.from_pgvector(["101", "001"]).to_int8()
        array([[-96],
               [ 32]], dtype=int8)
        """
        return self.to_packbits().view(np.int8)

    def to_hex(self) -> list[str]:
        """The bytes of `to_packbits()` as hexadecimal texts, for Elasticsearch and Vespa.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> Codes.from_pgvector(["101", "001"]).to_hex()
        ['a0', '20']
        """
        text, width = self.to_packbits().tobytes().hex(), 2 * -(-self.n_columns // 8)
        return [text[start : start + width] for start in range(0, len(text), width)]

    def to_signs(self) -> np.ndarray:
        """+1 for a bit that is set and -1 for one that is not, as float32, for stores that know floats only.

        The dot product of two such rows is `n_columns - 2 * distance`, so the largest is the nearest.

        Examples
        --------
        >>> from onlinehash import Codes
        >>> signs = Codes.from_pgvector(["101", "001"]).to_signs()
        >>> signs
        array([[ 1., -1.,  1.],
               [-1., -1.,  1.]], dtype=float32)
        >>> float(signs[0] @ signs[1])  # three bits, one of which differs
        1.0
        """
        return self.bits() * np.float32(2) - np.float32(1)

    # -------------------------------------------------------------------------------------------- as a sequence

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, rows: Any) -> Codes:
        if isinstance(rows, int | np.integer):
            row = range(len(self))[rows]  # an IndexError beyond the end, which also ends iteration
            rows = slice(row, row + 1)
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            n = max(stop - start, 0)
            if n == len(self):
                return self
            planes = layout.aligned_planes(n, self.n_planes)
            layout.copy_codes(self._planes, start, n, planes, 0)
        else:
            positions = np.ascontiguousarray(np.arange(len(self))[rows])
            if positions.ndim != 1:
                raise InvalidInput(expected="rows to be a number, a slice or a vector", got=f"shape {positions.shape}")
            n, planes = len(positions), layout.aligned_planes(len(positions), self.n_planes)
            layout.gather_codes(self._planes, positions, planes)
        return Codes.from_planes(planes, n, self.n_bits, self.n_models)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Codes)
            and (self._n, self.n_bits, self.n_models) == (other._n, other.n_bits, other.n_models)
            and np.array_equal(self._planes, other._planes)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        models = f", n_models={self.n_models}" if self.n_models > 1 else ""
        return f"Codes(n={len(self)}, n_bits={self.n_bits}{models})"


def _check_width(n_bits: int, n_models: int) -> None:
    if (
        not (_is_whole(n_bits) and _is_whole(n_models))
        or not 1 <= n_bits <= MAX_BITS
        or not 1 <= n_models * layout.planes_per_model(n_bits) <= MAX_PLANES
    ):
        raise InvalidInput(
            expected=f"codes of 1 to {MAX_BITS} bits, and at most {MAX_PLANES} bytes over all models",
            got=f"{n_models!r} models of {n_bits!r} bits",
        )


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _check_order(bitorder: str) -> None:
    if bitorder not in ("big", "little"):
        raise InvalidInput(expected="bitorder to be 'big' or 'little'", got=f"{bitorder!r}")


def _bytes_are_shared_alike(n_bits: int, n_models: int) -> bool:
    """Whether packing all columns without gaps puts the same bits into the same bytes as packing each model."""
    return n_models == 1 or n_bits % 8 == 0
