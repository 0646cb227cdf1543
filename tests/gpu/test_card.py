"""What is said where something is missing that a card needs."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from onlinehash.errors import NotReady
from onlinehash.gpu.card import load_cupy
from onlinehash.gpu.encoding import check_precision


def fake_cupy(capability: str = "90", **fails: Exception) -> Any:
    """A CuPy of which some calls fail."""

    def call(name: str) -> Any:
        if name in fails:
            raise fails[name]
        return 1

    return SimpleNamespace(
        cuda=SimpleNamespace(
            runtime=SimpleNamespace(getDeviceCount=lambda: call("getDeviceCount"), CUDARuntimeError=OSError),
            Device=lambda: SimpleNamespace(compute_capability=capability),
            nvrtc=SimpleNamespace(getVersion=lambda: call("getVersion")),
        )
    )


@pytest.mark.parametrize(
    ("cupy", "words"),
    [
        (fake_cupy(getDeviceCount=OSError("no driver")), "a CUDA card, and none can be used here: no driver."),
        (fake_cupy("75"), "a card of compute capability 8.0 or later; this one has 7.5."),
        (fake_cupy(getVersion=RuntimeError("No such file:\nlibnvrtc")), "NVRTC, .* 'cupy-cuda13x[ctk]'"),
    ],
)
def test_one_sentence_says_what_is_missing(cupy: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    pattern = words.replace("[", r"\[").replace("]", r"\]")
    with pytest.raises(NotReady, match=rf"^encoding needs {pattern}$"):
        load_cupy("encoding")


def test_products_that_round_before_they_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_TF32", "0")
    check_precision()
    monkeypatch.setenv("CUPY_TF32", "1")
    with pytest.raises(NotReady, match="need products in full precision; unset CUPY_TF32"):
        check_precision()
