"""The known sets: what a folder has of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import pytest

from onlinehash import datasets
from onlinehash.datasets import catalogue
from onlinehash.errors import InvalidInput
from tests.datasets.writing import write_mnist


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
