"""Requests that wait for an epoch: many of them cost what one costs, and each is released in time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from onlinehash import LiveIndex, refresh
from onlinehash.live import storage
from onlinehash.serve import epoch_watch, epochs
from onlinehash.serve.errors import Behind
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits
from tests.serve.services import SECONDS, rows, small_index

N_WAITING = 100


def asking_for(epoch: int) -> dict[str, object]:
    return {"headers": [(epochs.AT_LEAST_HEADER, b"%d" % epoch)]}


def test_one_look_serves_all_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []
    monkeypatch.setattr(Service, "hurry", lambda service: looks.append(None))
    service, seconds = Service(small_index(), limits=Limits(follow_wait_s=0.3)), 0.3

    async def all_of_them() -> list[object]:
        far = service.index.epoch + 99
        waits = (epochs.wait_for_epoch(asking_for(far), service) for _ in range(N_WAITING))
        return await asyncio.gather(*waits, return_exceptions=True)

    assert all(isinstance(answer, Behind) for answer in asyncio.run(all_of_them()))
    assert 1 <= len(looks) <= 2 * seconds / epoch_watch.PAUSE  # and not as often as many wait
    service.close()


def test_each_is_released_once_its_epoch_is_here() -> None:
    index = small_index(refresh=refresh.by_hand())  # each addition is one epoch
    service = Service(index, limits=Limits(follow_wait_s=SECONDS, request_seconds=SECONDS))
    released = list[int]()

    async def wait(epoch: int) -> None:
        scope = asking_for(epoch)
        await epochs.wait_for_epoch(scope, service)
        released.append(epoch)
        assert scope[epochs.EPOCH] >= epoch

    async def main() -> None:
        now = index.epoch
        waiting = [asyncio.create_task(wait(now + step)) for step in (3, 1, 2, 1)]
        left = asyncio.create_task(wait(now + 2))
        for step in (1, 2, 3):
            await asyncio.sleep(0)
            left.cancel()  # its client has left
            await asyncio.to_thread(index.add, [1000 + step], rows(1, step))
            while len(released) < {1: 2, 2: 3, 3: 4}[step]:
                await asyncio.sleep(epoch_watch.PAUSE)
            assert max(released) == now + step == index.epoch
        await asyncio.gather(*waiting)

    asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert sorted(released) == released
    service.close()


@pytest.mark.parametrize("wait", [True, False], ids=["waited", "background"])
def test_a_writer_has_what_its_readers_saw_after_a_large_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    """A large refresh writes its codes in transactions of their own, before and after the one that counts."""
    monkeypatch.setattr(storage, "PART_BYTES", 4)
    index = small_index(tmp_path / "items", refresh=refresh.by_hand())
    service = Service(index, limits=Limits(follow_wait_s=0.0))
    with LiveIndex.open(tmp_path / "items", read_only=True) as reader:
        for turn in range(2):
            index.learn_pairs(rows(20, turn), rows(20, turn + 9), [i % 2 == 0 for i in range(20)])
            n_refreshes = index.refreshes
            job = index.refresh(wait=wait)
            assert job is None or job.wait()
            assert index.refreshes == n_refreshes + 1
            assert reader.reload()
            asyncio.run(epochs.wait_for_epoch(asking_for(reader.epoch), service))
            assert index.epoch == reader.epoch
    service.close()
