"""Vectors and labels in whatever people hold them in, as NumPy arrays: without a copy where that is possible.

NumPy itself takes lists, tuples, pandas and polars frames of numbers, JAX arrays, and all that has `__array__`. Added
here are tensors of PyTorch, columns of vectors (pandas, polars, Arrow), tables and data sets that only speak Arrow, and
one sentence for what cannot be taken.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Set
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from onlinehash.errors import InvalidInput, InvalidType, MissingExtra


class ArrowTable(Protocol):
    """A table or column that can be read through Arrow's C interface, such as a data set of Hugging Face."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the table away as a stream."""


#: What holds vectors: anything NumPy takes (lists, arrays, tensors, frames), or an Arrow table. A table has columns of
#: numbers, or one column of vectors.
VectorLike: TypeAlias = ArrayLike | ArrowTable


#: Frames and data sets that are not in memory, and what brings them there.
_UNREAD = {"LazyFrame": "collect()", "IterableDataset": "take(n) and then list(), or use a Dataset"}


def as_array(values: object, name: str) -> np.ndarray:
    """An array of whatever dtype it comes in; refused where it has no rectangular form."""
    if type(values) is np.ndarray:
        return values
    if hasattr(values, "detach") and hasattr(values, "device"):
        return _from_tensor(values, name)
    if hasattr(values, "tocsr") or hasattr(values, "todense"):
        raise InvalidInput(
            expected=f"a dense array for {name}",
            got="sparse input",
            hint=f"call {name}.toarray() first, or reduce wide rows with scikit-learn's TruncatedSVD",
        )
    if isinstance(values, Mapping | Set | Iterator):
        raise InvalidInput(
            expected=f"an array for {name}", got=_a(values), hint="make an array or a list of rows of it"
        )
    if (collect := _UNREAD.get(type(values).__name__)) is not None:
        raise InvalidInput(
            expected=f"a frame for {name}", got=f"{_a(values)}, which is not computed yet", hint=f"call {collect}"
        )
    table = _arrow(values, name)
    if table is not None:
        return _from_arrow(table, name)
    try:
        array = np.asarray(values)
    except ValueError:
        raise _ragged(name) from None
    except (TypeError, RuntimeError, BufferError) as error:  # such as an array on a graphics card
        raise InvalidType(expected=f"an array for {name}", got=f"{_a(values)}: {_first_line(error)}") from None
    return _stacked(array, name) if array.dtype == object else array


def _from_tensor(tensor: Any, name: str) -> np.ndarray:
    """A tensor of PyTorch, in its own memory."""
    if tensor.device.type != "cpu":
        raise InvalidInput(
            expected=f"{name} in main memory", got=f"a tensor on {tensor.device}", hint="call .cpu() first"
        )
    try:
        return np.asarray(tensor.detach())
    except (TypeError, RuntimeError) as error:  # a type that NumPy does not have, such as bfloat16, or a sparse tensor
        raise InvalidInput(
            expected=f"a dense tensor of numbers for {name}",
            got=f"{tensor.dtype} ({_first_line(error)})",
            hint="convert it, for instance by .float() or .to_dense()",
        ) from None


# ------------------------------------------------------------------ Arrow


def _arrow(values: object, name: str) -> Any:
    """The Arrow table or column that values are, or can only be read as; None if NumPy can take them."""
    pa = sys.modules.get("pyarrow")
    if pa is not None and isinstance(values, pa.Table | pa.RecordBatch | pa.ChunkedArray | pa.Array):
        return values
    if hasattr(values, "with_format") and hasattr(values, "column_names"):  # a data set of Hugging Face
        return values.with_format("arrow")[:]
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__array__"):
        try:
            import pyarrow
        except ImportError:
            raise MissingExtra(f"{_a(values)} as {name}", "pyarrow", "parquet") from None
        return pyarrow.table(values)
    return None


def _from_arrow(table: Any, name: str) -> np.ndarray:
    """Columns of numbers side by side, or one column of vectors."""
    if not hasattr(table, "column_names"):
        return _from_column(table, name)
    columns = [_from_column(column, name) for column in table.columns]
    if len(columns) == 1:
        return columns[0] if columns[0].ndim == 2 else columns[0][:, None]
    if any(column.ndim != 1 or column.dtype.kind not in "biuf" for column in columns):
        raise _mixed(name)
    return np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))


def _from_column(column: Any, name: str) -> np.ndarray:
    """A column of numbers as they are, or a column of lists as a matrix; what has neither comes as objects."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
        column = column if not hasattr(column, "num_chunks") else column.chunk(0) if column.num_chunks else column
    matrix = matrix_of(column)
    if matrix is not None:
        return matrix
    return _stacked(column.to_numpy(zero_copy_only=False), name)


def matrix_of(column: Any) -> np.ndarray | None:
    """An Arrow array of lists of one length, none of them missing, as a matrix; None if it is something else."""
    from pyarrow import compute, types

    is_listing = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if column.null_count or len(column) == 0 or not any(test(column.type) for test in is_listing):
        return None
    values, lengths = column.flatten(), compute.list_value_length(column).to_numpy(zero_copy_only=False)
    if values.null_count or not is_numeric(values.type) or (lengths != lengths[0]).any():
        return None
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), -1)


def is_numeric(kind: object) -> bool:
    """Whether an Arrow type is one of numbers or bools."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


# ------------------------------------------------------------------ columns of vectors


def _stacked(array: np.ndarray, name: str) -> np.ndarray:
    """Objects that are vectors, as a column of a frame holds them, one below the other; others stay as they are."""
    column = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if column.ndim != 1 or not len(column) or not _is_vector(column[0]):
        if array.ndim == 2 and any(map(_is_vector, array[:1].flat)):
            raise _mixed(name)
        return array
    missing = next((row for row, vector in enumerate(column) if not _is_vector(vector)), None)
    if missing is not None:
        raise InvalidInput(expected=f"a vector in each row of {name}", got=f"{column[missing]!r} in row {missing}")
    rows = [as_array(vector, name) for vector in column]
    if len({row.shape for row in rows}) > 1:
        raise _ragged(name)
    return np.stack(rows)


def _is_vector(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)


# ------------------------------------------------------------------ sentences


def _mixed(name: str) -> InvalidInput:
    return InvalidInput(
        expected=f"columns of numbers, or a single column of vectors, for {name}",
        got="a table with other columns",
        hint="select what you mean, such as table['embedding']",
    )


def _ragged(name: str) -> InvalidInput:
    return InvalidInput(expected=f"a rectangular array for {name}", got="rows of unequal length")


def _a(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
