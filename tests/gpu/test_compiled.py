"""All kernels compile for every generation of cards that runs them: NVIDIA's compiler needs no card.

The compiler is a wheel of 50 MB, too much for the dev dependencies: `make frameworks` has it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from importlib import metadata

import pytest

from onlinehash.gpu import encoding, kernels
from onlinehash.gpu.shape import Shape
from tests.gpu.test_card_codes import SHAPES
from tests.needs import lacking

#: Ampere, Hopper and Blackwell.
CARDS = ("sm_80", "sm_90", "sm_100", "sm_120")

#: Compiles a source with options; the errors and warnings that it has.
Compile = Callable[[str, tuple[str, ...]], str]


@pytest.fixture(scope="module")
def compile_() -> Compile:
    if sys.platform != "linux":
        pytest.skip("NVIDIA's compiler runs on Linux")
    try:
        files = metadata.files("nvidia-cuda-nvrtc") or []
    except metadata.PackageNotFoundError:
        lacking("nvidia-cuda-nvrtc")
    libraries = sorted((file for file in files if ".so" in file.name), key=lambda file: "builtins" not in file.name)
    for library in libraries[:-1]:  # which the last one asks for by name
        ctypes.CDLL(str(library.locate()), ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(libraries[-1].locate()))

    def compiled(source: str, options: tuple[str, ...]) -> str:
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None) == 0
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        error = nvrtc.nvrtcCompileProgram(program, len(options), given)
        assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
        log = ctypes.create_string_buffer(size.value)
        assert nvrtc.nvrtcGetProgramLog(program, log) == 0
        text = log.value.decode()
        assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
        assert (error == 0) == (size.value > 0), text
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return f"error {error}: {text}" if error else text

    return compiled


@pytest.mark.parametrize("card", CARDS)
def test_kernels_of_codes(compile_: Compile, card: str) -> None:
    source = kernels.source("kernels.cu")
    for shape in (Shape(1, 8), Shape(3, 2), Shape(3, 64)) if card != "sm_90" else (Shape(*shape) for shape in SHAPES):
        options = kernels.options(shape, kernels.most_tiles(shape))
        assert compile_(source, (*options, f"-arch={card}")) == "", shape


@pytest.mark.parametrize("card", CARDS)
def test_kernels_of_vectors(compile_: Compile, card: str) -> None:
    for char in "fd":
        assert compile_(kernels.source("vectors.cu"), (*encoding.options(char), f"-arch={card}")) == ""


def test_what_does_not_compile_is_noticed(compile_: Compile) -> None:
    broken = kernels.source("kernels.cu").replace("sums[3]", "sums[3] + nothing", 1)
    shape = Shape(1, 8)
    assert "nothing" in compile_(broken, (*kernels.options(shape, kernels.most_tiles(shape)), "-arch=sm_90"))
    wrong = kernels.source("kernels.cu").replace("and.popc", "and.pops")
    assert compile_(wrong, (*kernels.options(shape, kernels.most_tiles(shape)), "-arch=sm_90")) != ""
