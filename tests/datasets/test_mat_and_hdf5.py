"""LabelMe's .mat in both of Matlab's formats, and ann-benchmarks' HDF5."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from onlinehash import datasets
from onlinehash.errors import FormatError

rng = np.random.default_rng(0)
GIST = rng.random((12, 8))


def write_mat_73(path, **arrays):
    """As Matlab 7.3 does: HDF5 after 512 bytes of text, columns as rows."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = np.asarray(values).T
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file")


def test_a_classic_mat(tmp_path):
    savemat(tmp_path / "LabelMe_gist.mat", {"gist": GIST, "ndxtest": [[1, 2]]}, do_compression=True)
    found = datasets.load("labelme-22k", folder=tmp_path)
    assert np.array_equal(found.X, GIST.astype(np.float32))
    assert found.y is None


def test_a_mat_of_version_73(tmp_path):
    write_mat_73(tmp_path / "a.mat", Gist=GIST, labels=np.arange(12)[:, None])
    found = datasets.load(tmp_path / "a.mat")
    assert np.array_equal(found.X, GIST.astype(np.float32))
    assert found.y.tolist() == list(range(12))


BASE, QUERIES = rng.random((20, 5), np.float32), rng.random((3, 5), np.float32)
NEIGHBOURS = rng.integers(0, 20, (3, 4)).astype("i4")


def write_ann(path, **options):
    with h5py.File(path, "w") as file:
        for name, values in (("train", BASE), ("test", QUERIES), ("neighbors", NEIGHBOURS)):
            file.create_dataset(name, data=values, **options)
        file.attrs["distance"] = "angular"


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["in one piece", "compressed"])
def test_ann_benchmarks(tmp_path, options):
    write_ann(tmp_path / "a.hdf5", **options)
    found = datasets.load(tmp_path / "a.hdf5")
    assert isinstance(found.X, np.memmap) == (not options)
    assert np.array_equal(found.X, BASE)
    assert np.array_equal(found.queries, QUERIES)
    assert np.array_equal(found.neighbours, NEIGHBOURS)
    assert (found.name, found.metric) == ("a", "angular")
    part = datasets.load(tmp_path / "a.hdf5", rows=6)
    assert np.array_equal(part.X, BASE[:6])
    assert part.neighbours is part.metric is None


def test_hdf5_does_not_read_other_files(tmp_path):
    """A file from a stranger must not bring the contents of files beside it."""
    write_ann(tmp_path / "other.hdf5")
    (tmp_path / "secret").write_bytes(BASE.tobytes())
    with h5py.File(tmp_path / "link.hdf5", "w") as file:
        file["train"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "train")
    with h5py.File(tmp_path / "external.hdf5", "w") as file:
        file.create_dataset("train", BASE.shape, "f4", external=str(tmp_path / "secret"))
    with h5py.File(tmp_path / "virtual.hdf5", "w") as file:
        layout = h5py.VirtualLayout(BASE.shape, "f4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "train", BASE.shape)
        file.create_virtual_dataset("train", layout)
    for name in ("link", "external", "virtual"):
        with pytest.raises(FormatError, match="lies in another file"):
            datasets.load(tmp_path / f"{name}.hdf5")
