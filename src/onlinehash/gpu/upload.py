"""From the memory of the host to a card, as fast as the way to it is.

A card takes page-locked memory at full speed, and other memory at a fraction of it. So several threads copy an array
into page-locked chunks, each of which goes its way while the others are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

#: Bytes of an array that is worth it, of a chunk, and threads that fill chunks.
LEAST_BYTES, CHUNK_BYTES, THREADS = 1 << 20, 16 << 20, 6

T = TypeVar("T")
R = TypeVar("R")


def to_card(xp: Any, array: Any) -> Any:
    """An array of the host on the card, or as it is where there is none; what is on the card already stays."""
    if xp is np or not isinstance(array, np.ndarray) or array.nbytes < LEAST_BYTES:
        return xp.asarray(array)
    size = max(1, CHUNK_BYTES // (array.nbytes // len(array)))
    return joined(xp, [array[start : start + size] for start in range(0, len(array), size)])


def joined(xp: Any, arrays: Sequence[np.ndarray]) -> Any:
    """Arrays of the host, of one kind and width, on the card, one behind the other."""
    if xp is np:
        return np.concatenate(arrays)
    ends = np.cumsum([len(array) for array in arrays]).tolist()
    out = xp.empty((ends[-1], *arrays[0].shape[1:]), arrays[0].dtype)
    ready = xp.cuda.get_current_stream().record()  # when what used this memory before is done with it

    def copy(number: int) -> None:
        array = arrays[number]
        _copy(xp, array, out[ends[number] - len(array) : ends[number]], ready)

    if len(arrays) == 1:
        copy(0)
    else:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(on_same_card(xp, copy), range(len(arrays))))
    return out


def on_same_card(xp: Any, work: Callable[[T], R]) -> Callable[[T], R]:
    """A function for other threads, which uses this thread's card there."""
    if xp is np:
        return work
    number = xp.cuda.Device().id

    def there(given: T) -> R:
        with xp.cuda.Device(number):
            return work(given)

    return there


def _copy(xp: Any, chunk: np.ndarray, out: Any, ready: Any) -> None:
    import cupyx

    filled, stream = cupyx.empty_pinned(chunk.shape, chunk.dtype), xp.cuda.Stream(non_blocking=True)
    filled[...] = chunk
    stream.wait_event(ready)
    kind = xp.cuda.runtime.memcpyHostToDevice
    xp.cuda.runtime.memcpyAsync(out.data.ptr, filled.ctypes.data, filled.nbytes, kind, stream.ptr)
    stream.synchronize()
