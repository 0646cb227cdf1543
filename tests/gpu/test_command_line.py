"""`onlinehash search --device cuda`."""

from __future__ import annotations

import numpy as np
import pytest

import onlinehash
from onlinehash import Codes, FlatIndex, LiveIndex, MultiIndex
from onlinehash.gpu.twins import Twins
from onlinehash.index.gpu import GpuIndex
from tests.cli.running import done, refused
from tests.gpu.test_card_codes import has_card, needs_card


@pytest.fixture(params=[FlatIndex, MultiIndex])
def files(request, tmp_path, monkeypatch):
    """An index and a file of queries."""
    monkeypatch.chdir(tmp_path)
    bits = np.random.default_rng(0).random((400, 32)) < 0.5
    onlinehash.save(request.param(Codes.from_bits(bits)), "index.oh")
    onlinehash.save(Codes.from_bits(bits[:6]), "queries.oh")
    return ("search", "index.oh", "queries.oh")


def test_the_twins_print_what_the_cpu_prints(files, monkeypatch):
    monkeypatch.setattr(GpuIndex, "_make_runs", lambda self, shape: Twins(shape))
    for options in (["-k", 5], ["--radius", 9], ["-k", 3, "--json"]):
        assert done(*files, *options, "--device", "cuda").out == done(*files, *options).out


@needs_card
def test_the_card_prints_what_the_cpu_prints(files):
    assert done(*files, "--device", "cuda").out == done(*files).out


@pytest.mark.skipif(has_card(), reason="there is a card")
def test_without_a_card_there_is_one_sentence(files):
    assert "needs" in refused(*files, "--device", "cuda")[1]


def test_folders_of_live_indexes_are_refused(tmp_path, files):
    with LiveIndex(n_bits=8, path=tmp_path / "live") as live:
        live.add(None, np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32))
    code, told = refused("search", tmp_path / "live", files[2], "--device", "cuda")
    assert code == 2
    assert "folder of a live index" in told
