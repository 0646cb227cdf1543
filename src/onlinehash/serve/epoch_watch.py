"""`EpochWatch`: requests that wait for an epoch, all of them by one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from onlinehash.index.api import VectorIndex

#: Seconds between two looks at how far this process is, while anybody waits.
PAUSE = 0.002


class EpochWatch:
    """Lets requests wait until an index is at an epoch. One look serves all that wait; used in the event loop only.

    index : the served index.
    hurry : called at each look; has this process look for what others have written.
    """

    def __init__(self, index: VectorIndex, hurry: Callable[[], None]) -> None:
        self._index, self._hurry = index, hurry
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._is_looking, self._seen = False, -1

    async def wait(self, epoch: int, seconds: float) -> bool:
        """Wait until the index is at an epoch, for so many seconds at most; whether it is."""
        if self._index.epoch >= epoch:
            return True
        loop = asyncio.get_running_loop()
        here = loop.create_future()
        self._waiting[here] = epoch
        self._seen = -1  # so that the next look compares this one too
        try:
            if not self._is_looking:
                self._is_looking = True
                self._look(loop)
            await asyncio.wait({here}, timeout=seconds)
            if here.done():
                here.result()  # which raises if the index could not say where it is
            return here.done()
        finally:
            self._waiting.pop(here, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Release those whose epoch is here, and look again soon if others wait."""
        try:
            epoch = self._index.epoch
        except Exception as error:
            for here in self._waiting:
                if not here.done():
                    here.set_exception(error)
            self._waiting.clear()
        else:
            if epoch != self._seen:
                self._seen = epoch
                for here in [here for here, wanted in self._waiting.items() if wanted <= epoch]:
                    del self._waiting[here]
                    if not here.done():
                        here.set_result(None)
        self._is_looking = bool(self._waiting)
        if self._is_looking:
            self._hurry()
            loop.call_later(PAUSE, self._look, loop)
