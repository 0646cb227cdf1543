"""LabelMe's .mat in both of Matlab's formats, and ann-benchmarks' HDF5."""

from __future__ import annotations

import sys

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from onlinehash import datasets
from onlinehash.datasets import labelme
from onlinehash.errors import FormatError, InvalidInput, MissingExtra

rng = np.random.default_rng(0)
GIST = rng.random((12, 8))


def write_mat_73(path, **arrays):
    """As Matlab 7.3 does: HDF5 after 512 bytes of text, columns as rows."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = np.asarray(values).T
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file")


@pytest.mark.parametrize("compressed", [False, True])
def test_a_classic_mat(tmp_path, compressed):
    savemat(tmp_path / "LabelMe_gist.mat", {"gist": GIST, "ndxtest": [[1, 2]]}, do_compression=compressed)
    found = datasets.load("labelme-22k", folder=tmp_path)
    assert np.array_equal(found.X, GIST.astype(np.float32))
    assert found.y is None


def test_a_mat_of_version_73(tmp_path):
    write_mat_73(tmp_path / "a.mat", Gist=GIST, labels=np.arange(12)[:, None])
    found = datasets.load(tmp_path / "a.mat")
    assert np.array_equal(found.X, GIST.astype(np.float32))
    assert found.y.tolist() == list(range(12))


def test_a_variable_of_another_name(tmp_path):
    savemat(tmp_path / "a.mat", {"descriptors": GIST, "gnd": np.arange(12)[:, None]})
    with pytest.raises(InvalidInput, match=r"expected a matrix gist or .*, got descriptors \(12, 8\), gnd \(12, 1\)"):
        labelme.read_set(tmp_path / "a.mat")
    found = labelme.read_set(tmp_path / "a.mat", "descriptors")
    assert found.X.shape == (12, 8)
    assert found.y.tolist() == list(range(12))


def test_mats_that_are_none(tmp_path):
    savemat(tmp_path / "a.mat", {"gist": GIST}, do_compression=True)
    whole = (tmp_path / "a.mat").read_bytes()
    for data in (b"", b"no Matlab here" * 20, whole[:-30], whole[:140] + b"\xff" * 8 + whole[148:]):
        (tmp_path / "a.mat").write_bytes(data)
        with pytest.raises(FormatError, match="is not a readable Matlab file"):
            labelme.read_set(tmp_path / "a.mat")


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


def test_hdf5_that_cannot_be_used(tmp_path):
    with h5py.File(tmp_path / "b.hdf5", "w") as file:
        file["train"] = BASE[0]
    with pytest.raises(FormatError, match="expected a matrix train of numbers, got train"):
        datasets.load(tmp_path / "b.hdf5")
    write_ann(tmp_path / "c.hdf5")
    (tmp_path / "c.hdf5").write_bytes((tmp_path / "c.hdf5").read_bytes()[:-60])
    (tmp_path / "d.hdf5").write_text("none")
    for name in ("c.hdf5", "d.hdf5"):
        with pytest.raises(FormatError, match="is not a readable HDF5 file"):
            datasets.load(tmp_path / name)


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


def test_a_mat_does_not_open_other_files(tmp_path):
    """Not even to look at the shapes of what they hold."""
    write_ann(tmp_path / "other.hdf5")
    write_mat_73(tmp_path / "a.mat", gist=GIST)
    with h5py.File(tmp_path / "a.mat", "r+") as file:
        file["labels"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "train")
        file["nowhere"] = h5py.SoftLink("/missing")
    (tmp_path / "other.hdf5").rename(tmp_path / "gone")
    assert labelme.read_set(tmp_path / "a.mat").y is None
    (tmp_path / "gone").rename(tmp_path / "other.hdf5")
    assert labelme.read_set(tmp_path / "a.mat").y is None
    with pytest.raises(InvalidInput, match=r"expected a matrix labels, got"):
        labelme.read_set(tmp_path / "a.mat", "labels")


def test_hdf5_of_a_huge_shape_is_one_sentence(tmp_path):
    with h5py.File(tmp_path / "huge.hdf5", "w") as file:
        file.create_dataset("train", (1 << 40, 1 << 10), "f4", chunks=(1, 1 << 10))
    with pytest.raises(InvalidInput, match="would unpack to"):
        datasets.load(tmp_path / "huge.hdf5")


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}])
def test_hdf5_that_would_fill_the_memory_is_refused(tmp_path, options):
    """Chunks that were never written, or that are all zeros, take no room in the file."""
    with h5py.File(tmp_path / "bomb.hdf5", "w") as file:
        file.create_dataset("train", (1 << 24, 128), "f4", chunks=(1 << 12, 128), **options)
    with pytest.raises(InvalidInput, match="would unpack to 8589934592"):
        datasets.load(tmp_path / "bomb.hdf5")


def test_without_h5py_the_message_names_the_extra(tmp_path, monkeypatch):
    write_ann(tmp_path / "a.hdf5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtra, match=r"reading HDF5 needs h5py.*pip install '\.\[hdf5\]'"):
        datasets.load(tmp_path / "a.hdf5")
