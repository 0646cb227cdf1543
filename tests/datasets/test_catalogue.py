"""The known sets: what a folder has of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from onlinehash import datasets
from onlinehash.datasets import catalogue, inventory
from onlinehash.errors import InvalidInput
from tests.datasets.writing import write_mnist, write_patches, write_texmex


def found(folder, name, verify=False):
    return {one.name: one for one in datasets.survey(folder, verify)}[name]


def test_every_set_says_what_it_is_and_where_to_get_it(tmp_path):
    assert len(datasets.KNOWN) == 11
    for name, known in datasets.KNOWN.items():
        assert known.name == name
        assert known.address.startswith("http")
        for file in known.files:
            assert file.md5 is None or re.fullmatch("[0-9a-f]{32}", file.md5)
        one = found(tmp_path, name)
        assert (one.state, one.place, one.problems) == ("not here", None, [])
        with pytest.raises(InvalidInput, match=f"{name} .* is not in .*; get it from {re.escape(known.address)}"):
            datasets.load(name, folder=tmp_path)


def test_sums_that_do_not_agree_are_told(tmp_path):
    write_mnist(tmp_path / "mnist")
    assert found(tmp_path, "mnist").state == "here"
    assert found(tmp_path, "mnist").checked == "not verified"
    one = found(tmp_path, "mnist", verify=True)
    assert one.state == "damaged"
    assert len(one.problems) == 4
    assert re.match(r"train-images-idx3-ubyte\.gz has the MD5 [0-9a-f]{32}, not f68b3c2d", one.problems[0])


def test_sums_that_agree(tmp_path, monkeypatch):
    write_mnist(tmp_path)
    known = datasets.KNOWN["mnist"]
    files = tuple(replace(f, md5=hashlib.md5((tmp_path / f.name).read_bytes()).hexdigest()) for f in known.files)
    monkeypatch.setitem(catalogue.KNOWN, "mnist", replace(known, files=files))
    one = found(tmp_path, "mnist", verify=True)
    assert (one.state, one.checked, one.problems) == ("here", "checksums", [])
    assert one.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_sizes_are_looked_at_without_being_asked(tmp_path):
    write_mnist(tmp_path, compressed=False)
    one = found(tmp_path, "mnist")
    assert (one.state, one.checked) == ("damaged", "sizes, no published checksum")
    assert one.problems[0] == "train-images-idx3-ubyte has 4,720 bytes, not 47,040,016"


def test_a_part_of_a_set(tmp_path):
    write_mnist(tmp_path)
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        (tmp_path / name).unlink()
    one = found(tmp_path, "mnist")
    assert one.state == "in part"
    assert one.problems == ["t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz not here"]


def test_what_has_no_sum_is_read(tmp_path):
    savemat(tmp_path / "LabelMe_gist.mat", {"gist": np.ones((4, 5))})
    one = found(tmp_path, "labelme-22k", verify=True)
    assert (one.state, one.checked) == ("here", "content, no published checksum")
    (tmp_path / "LabelMe_gist.mat").write_bytes(b"none")
    one = found(tmp_path, "labelme-22k", verify=True)
    assert one.state == "damaged"
    assert "is not a readable Matlab file" in one.problems[0]


def test_sets_of_vectors(tmp_path, monkeypatch):
    write_texmex(tmp_path / "sift", "sift")
    assert found(tmp_path, "sift1m").state == "damaged"
    files = tuple(replace(file, size=None) for file in datasets.KNOWN["sift1m"].files)
    monkeypatch.setitem(catalogue.KNOWN, "sift1m", replace(datasets.KNOWN["sift1m"], files=files))
    assert found(tmp_path, "sift1m", verify=True).state == "here"


def test_info_says_how_many_bitmaps_there_must_be(tmp_path):
    write_patches(tmp_path / "yosemite", 300)
    one = found(tmp_path, "photo-tourism-halfdome", verify=True)
    assert (one.state, one.checked) == ("here", "content, no published checksum")
    (tmp_path / "yosemite" / "patches0001.bmp").unlink()
    assert found(tmp_path, "photo-tourism-halfdome").problems == ["patches0001.bmp not here"]
    (tmp_path / "yosemite" / "info.txt").write_text("nothing\n")
    assert found(tmp_path, "photo-tourism-halfdome").state == "damaged"


def test_an_archive_that_is_not_unpacked(tmp_path, monkeypatch):
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"abc")
    one = found(tmp_path, "cifar-10")
    assert (one.state, one.problems) == ("in part", ["cifar-10-python.tar.gz is here, but not unpacked"])
    assert found(tmp_path, "cifar-10", verify=True).state == "damaged"
    assert inventory.md5_of(tmp_path / "cifar-10-python.tar.gz") == "900150983cd24fb0d6963f7d28e17f72"


def test_the_folder_can_be_set_by_a_variable(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mnist(tmp_path / "data" / "mnist")
    write_mnist(tmp_path / "elsewhere" / "FashionMNIST" / "raw")
    assert datasets.load("mnist").X.shape == (9, 784)
    with pytest.raises(InvalidInput, match=r"fashion-mnist .* is not in"):
        datasets.load("fashion-mnist")
    monkeypatch.setenv("ONLINEHASH_DATA", str(tmp_path / "elsewhere"))
    assert datasets.load("fashion-mnist").name == "fashion-mnist"
