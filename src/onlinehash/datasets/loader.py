"""`load`: a file of any known format, or a known set by its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from onlinehash import checks
from onlinehash.datasets import ann_benchmarks, arrays, cifar, idx, labelme, tiny_images, vecs
from onlinehash.datasets.catalogue import KNOWN, default_folder
from onlinehash.datasets.dataset import Dataset
from onlinehash.datasets.files import size_of
from onlinehash.errors import InvalidInput

FilePath = str | os.PathLike[str]
Reader = Callable[[Path, int | None], Dataset]

TINY_IMAGES = "tiny_images.bin"

#: Readers by the ending of a file's name. Those of large formats read only the first rows, if so many are wanted.
READERS: dict[str, Reader] = {
    ".npz": lambda path, rows: arrays.read_npz(path),
    ".npy": lambda path, rows: arrays.read_npy(path),
    **dict.fromkeys((".parquet", ".pq", ".csv", ".jsonl", ".ndjson"), lambda path, rows: arrays.read_table(path)),
    **dict.fromkeys((".fvecs", ".bvecs", ".ivecs"), vecs.read_set),
    **dict.fromkeys((".hdf5", ".h5"), ann_benchmarks.read_set),
    ".mat": lambda path, rows: labelme.read_set(path),
}


def load(
    source: FilePath, *, folder: FilePath | None = None, labels: FilePath | None = None, rows: int | None = None
) -> Dataset:
    """Load the data set of a file, or a known set by its name.

    Parameters
    ----------
    source : str or path-like
        A file, or a name among `KNOWN` and "digits", which needs no file.
    folder : str or path-like, optional
        Where to look for it. By default, a known set is looked for in $ONLINEHASH_DATA, or else in ./data.
    labels : str or path-like, optional
        A file of labels, for formats that have no room for them: npy and idx.
    rows : int, optional
        Load only the first rows.

    Returns
    -------
    Dataset

    Raises
    ------
    InvalidInput
        If there is no such file, or its format is not known.

    Examples
    --------
    >>> from onlinehash import datasets
    >>> datasets.load("digits", rows=100).X.shape
    (100, 64)
    """
    rule = checks.either(("None", lambda v: v is None), checks.integer(1))
    checks.parameters("load", {"rows": rows}, {"rows": rule})
    name = os.fspath(source)
    if name == "digits":
        return digits().first(rows)
    if name in KNOWN:
        return KNOWN[name].load(Path(folder) if folder is not None else default_folder(), rows).first(rows)
    path = Path(source) if folder is None else Path(folder) / source
    return (_read(path, rows) if labels is None else _read_with(path, Path(labels))).first(rows)


def is_readable(path: Path) -> bool:
    """Whether `load` can read a file of that name."""
    has_name = path.name in (*cifar.BATCHES, TINY_IMAGES) or idx.NAME.search(path.name) is not None
    return has_name or path.suffix.lower() in READERS


def digits() -> Dataset:
    """Return the 1,797 handwritten digits that come with scikit-learn, 8 x 8 pixels each, from 0 to 1.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from onlinehash import datasets
    >>> digits = datasets.digits()
    >>> digits.X.shape, digits.y[:5]
    ((1797, 64), array([0, 1, 2, 3, 4]))
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Dataset("digits", (X / 16).astype(np.float32), y.astype(np.int64))


def _read(path: Path, rows: int | None) -> Dataset:
    if not is_readable(path):
        raise InvalidInput(
            expected=f"a file that ends in {', '.join(READERS)}, an idx file, a batch of CIFAR-10, or a name among "
            f"{', '.join(('digits', *KNOWN))}",
            got=repr(str(path)),
        )
    size_of(path)
    if idx.NAME.search(path.name):
        return idx.read_set(path)
    if path.name in cifar.BATCHES:
        return cifar.as_set(cifar.read_batch(path), path.name)
    if path.name == TINY_IMAGES:
        return tiny_images.read_set(path, rows)
    return READERS[path.suffix.lower()](path, rows)


def _read_with(path: Path, labels: Path) -> Dataset:
    size_of(labels)
    size_of(path)
    if path.suffix.lower() == ".npy":
        return arrays.read_npy(path, labels)
    if idx.NAME.search(path.name):
        return idx.read_set(path, labels)
    raise InvalidInput(f"{path} takes no file of labels: they must be inside it; only npy and idx take one.")
