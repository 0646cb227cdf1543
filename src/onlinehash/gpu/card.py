"""Whether there is a card, what it has, and what all modules with kernels need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from onlinehash.errors import InvalidInput, InvalidParameter, MissingExtra, NotReady

#: Held while the steps of a search are recorded, and by what waits for all that the card does, which would spoil that.
RECORDING = threading.Lock()

#: Threads of a block.
THREADS = 256

#: The oldest cards whose tensor cores count bits (Ampere).
OLDEST = (8, 0)


class Card(NamedTuple):
    """The card that CuPy uses at present."""

    name: str
    memory: int  #: Bytes it has.
    free: int  #: Bytes that can be had now.
    processors: int


def load_cupy(purpose: str = "a GpuIndex") -> Any:
    """CuPy, where it is installed and finds a card that can run the kernels.

    Raises
    ------
    MissingExtra
        CuPy is not installed.
    NotReady
        There is no card, no driver, a card older than Ampere, or no compiler.
    """
    try:
        import cupy
    except ImportError:
        raise MissingExtra(purpose, "CuPy", "gpu") from None
    try:
        cupy.cuda.runtime.getDeviceCount()
        capability = cupy.cuda.Device().compute_capability
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NotReady(f"{purpose} needs a CUDA card, and none can be used here: {error}.") from None
    if (int(capability[:-1]), int(capability[-1])) < OLDEST:
        raise NotReady(
            f"{purpose} needs a card of compute capability {OLDEST[0]}.{OLDEST[1]} or later; this one has "
            f"{capability[:-1]}.{capability[-1]}."
        )
    try:
        cupy.cuda.nvrtc.getVersion()
    except RuntimeError:  # in which CuPy lists where it looked
        raise NotReady(
            f"{purpose} needs NVRTC, the compiler of the CUDA Toolkit, which CuPy does not find; install the toolkit, "
            "or run: pip install 'cupy-cuda13x[ctk]'"
        ) from None
    return cupy


def begin_products(cupy: Any) -> None:
    """Let this thread multiply matrices: what cuBLAS needs for that is made for each thread anew."""
    with RECORDING:
        cupy.cuda.device.get_cublas_handle()


def check_device(device: str | None) -> bool:
    """Whether a card is asked for."""
    if device not in (None, "cpu", "cuda"):
        raise InvalidParameter(expected="device to be 'cpu' or 'cuda'", got=f"{device!r}")
    return device == "cuda"


def describe(cupy: Any) -> Card:
    """The card in use; memory that CuPy's pool holds without need counts as free."""
    name, processors = _properties(cupy.cuda.Device().id)
    free, memory = cupy.cuda.runtime.memGetInfo()
    free += cupy.get_default_memory_pool().free_bytes()
    return Card(name, memory, free, processors)


@cache
def _properties(device: int) -> tuple[str, int]:
    """The name and the multiprocessors of a card; to ask for them takes a millisecond."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(device)
    return properties["name"].decode(), properties["multiProcessorCount"]


def check_room(card: Card, needed: int, what: str) -> None:
    """Refuse what a card cannot hold, with the figures."""
    if needed > card.free:
        raise _refusal(card, f"{what} takes {needed / 1e9:,.2f} GB on the card, and")


@contextmanager
def refusing(card: Callable[[], Card | None], what: str) -> Iterator[None]:
    """Refuse, with the figures, what a card turns out to have no room for; without a card, memory is the host's."""
    try:
        yield
    except MemoryError:  # of which CuPy's is a kind
        present = card()
        if present is None:
            raise
        raise _refusal(present, f"the card has no room for {what}:") from None


def _refusal(card: Card, what: str) -> InvalidInput:
    return InvalidInput(
        f"{what} {card.free / 1e9:,.2f} GB of the {card.memory / 1e9:,.2f} GB of this {card.name} are free; "
        "use fewer items or the CPU."
    )


@cache
def source(name: str) -> str:
    """The text of a file of kernels."""
    return resources.files("onlinehash.gpu").joinpath(name).read_text("utf-8")


def fetch(array: Any, out: np.ndarray | None = None) -> np.ndarray:
    """An array of a card's, or of a twin's, on the host; in the place of another, if that is given."""
    if isinstance(array, np.ndarray):
        if out is None:
            return array
        out[...] = array
        return out
    fetched: np.ndarray = array.get(out=out)
    return fetched
