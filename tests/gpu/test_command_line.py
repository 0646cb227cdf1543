"""`onlinehash search --device cuda`."""

from __future__ import annotations

import os

import numpy as np
import pytest

import onlinehash
from onlinehash import Codes, FlatIndex, LiveIndex
from onlinehash.cli import serve as cli_serve
from onlinehash.errors import InvalidInput
from onlinehash.index.gpu import GpuIndex
from tests.cli.running import done, refused
from tests.gpu.test_card_codes import RUNS, has_card


@pytest.fixture
def files(tmp_path, monkeypatch):
    """An index and a file of queries."""
    monkeypatch.chdir(tmp_path)
    bits = np.random.default_rng(0).random((400, 32)) < 0.5
    onlinehash.save(FlatIndex(Codes.from_bits(bits)), "index.oh")
    onlinehash.save(Codes.from_bits(bits[:6]), "queries.oh")
    return ("search", "index.oh", "queries.oh")


@pytest.mark.parametrize("runs", RUNS)
def test_the_card_prints_what_the_cpu_prints(runs, files, monkeypatch):
    monkeypatch.setattr(GpuIndex, "_make_runs", lambda self, shape: runs(shape))
    for options in (["-k", 5], ["--radius", 9], ["-k", 3, "--json"]):
        assert done(*files, *options, "--device", "cuda").out == done(*files, *options).out


@pytest.mark.skipif(has_card(), reason="there is a card")
def test_without_a_card_there_is_one_sentence(files):
    for command in (files, ("serve", "new", "--port", "0")):
        assert "a GpuIndex needs" in refused(*command, "--device", "cuda")[1]
    assert not os.path.exists("new")


@pytest.mark.parametrize("runs", RUNS)
def test_a_folder_is_searched_and_served(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(GpuIndex, "_make_runs", lambda self, shape: runs(shape))
    X = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    np.save(tmp_path / "queries.npy", X[:7])
    live = tmp_path / "live"
    with LiveIndex(n_bits=8, path=live) as index:
        index.add(None, X)
    searched = ("search", live, tmp_path / "queries.npy")
    assert done(*searched, "--device", "cuda").out == done(*searched).out
    served = []
    monkeypatch.setattr(cli_serve, "serve", lambda options, choices, as_json: served.append((options, choices)))
    done("serve", live, "--device", "cuda")
    with cli_serve._index(*served[-1]) as index:
        assert isinstance(index.view, GpuIndex)
    done("serve", "--demo", "--device", "cuda")
    with pytest.raises(InvalidInput, match="--device"):
        cli_serve._check(*served[-1])
