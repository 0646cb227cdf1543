"""An asynchronous client: the methods of `RemoteIndex`, awaited."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import LiveIndex, OnlineHashing, connect_async, refresh
from onlinehash.client.async_remote_index import AsyncRemoteIndex
from onlinehash.client.remote_index import RemoteIndex
from onlinehash.errors import InvalidInput, ServiceUnavailable
from onlinehash.index.api import VectorIndex
from onlinehash.serve import background
from tests.client.helpers import Asked, Blocking, Reply, serving
from tests.client.test_congruence import alike
from tests.programs import FACTS, live_index, run
from tests.support import refused, thorough

X = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)

#: What an event loop has other words for.
INSTEAD = {"__len__": "count", "__contains__": "contains", "__iter__": "__aiter__"}
INSTEAD |= {"__enter__": "__aenter__", "__exit__": "__aexit__"}


def is_supported(name: str) -> bool:
    """Whether a name of the contract does more than to say that an index lacks a capability."""
    thing = inspect.getattr_static(RemoteIndex, name)
    function = thing.fget if isinstance(thing, property) else thing
    return not inspect.isfunction(function) or "_unsupported" not in function.__code__.co_names


def remote_names() -> list[str]:
    """What a remote index can do, besides what is the same for all of them."""
    names = {name for cls in (VectorIndex, RemoteIndex) for name in vars(cls) if not name.startswith("_")}
    found = sorted(filter(is_supported, names - {"capabilities", "supports", "embedder", "embedded_by", "path"}))
    assert len(found) > 40
    return found + list(INSTEAD)


@pytest.mark.parametrize("name", remote_names())
def test_it_has_every_method_of_a_remote_index(name: str) -> None:
    here, there = getattr(RemoteIndex, name), getattr(AsyncRemoteIndex, INSTEAD.get(name, name))
    if not inspect.isfunction(here):
        return  # a property: the congruence test awaits it
    assert inspect.iscoroutinefunction(there) or inspect.isasyncgenfunction(there) or name == "__enter__"
    expected, found = (inspect.signature(method).parameters.values() for method in (here, there))
    assert [(p.name, p.default, p.kind) for p in found] == [(p.name, p.default, p.kind) for p in expected]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("world", "texts"), [("OH", False), ("MMOH", True)])
def test_the_same_program_has_the_same_results(world: str, texts: bool) -> None:
    for seed in range(thorough(1, 2)):
        rng = np.random.default_rng([seed, *world.encode()])
        with background(live_index(world)) as url, asyncio.Runner() as runner:
            there = Blocking(runner, runner.run(_connected(url)))
            run(live_index(world), there, rng, texts, thorough(25, 75), FACTS, f"seed {seed}", alike)
            there.close()


async def _connected(url: str, **options: Any) -> AsyncRemoteIndex:
    return await connect_async(url, **options)


def test_many_calls_at_once() -> None:
    index = LiveIndex(OnlineHashing(n_bits=12, random_state=0), refresh=refresh.by_hand())

    async def main(url: str) -> None:
        async with connect_async(url) as there:
            await asyncio.gather(*(there.add(number, x) for number, x in enumerate(X)))
            hits = await asyncio.gather(*(there.find(x, 1) for x in X))
            assert [one.ids.tolist() for one in hits] == [[number] for number in range(60)]
            await asyncio.gather(*(there.learn_pair_by_id(number, 0, True) for number in range(1, 20)))
            job = await there.refresh(wait=False)
            assert job is not None
            assert await job.wait()
            assert await job.done()
            assert (await there.refreshes, (await there.behind).pairs) == (index.refreshes, 0)
            assert there.n_bits * there.n_models == 12
            assert repr(there) == f"AsyncRemoteIndex({url!r}, OnlineHashing, n_bits=12)"
        assert "connect again" in str(await _refused(there.count()))

    with background(index) as url:
        asyncio.run(main(url))
    assert len(index) == 60
    assert index.learner.n_pairs_seen_ == 19


async def _refused(call: Any) -> Exception:
    try:
        await call
    except Exception as error:
        return error
    raise AssertionError("it was not refused")


def test_a_call_that_is_cancelled_leaves_the_others_alone() -> None:
    hangs = asyncio.Event()

    def slow(asked: Asked) -> Reply:
        if asked.path == "/v1/stats":
            loop.call_soon_threadsafe(hangs.set)
            release.wait(30)
        return Reply(body=b'{"method": "OH", "n_bits": 8, "n_models": 1, "n": 3, "ids": []}')

    release = threading.Event()

    async def main(url: str) -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        async with connect_async(url) as there:
            call = asyncio.create_task(_awaited(there.serial))
            await hangs.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await there.count() == 3
            release.set()

    loop: Any = None
    with serving(slow) as url:
        asyncio.run(main(url))


async def _awaited(coroutine: Any) -> Any:
    return await coroutine


def test_what_cannot_be_reached_or_meant_says_so() -> None:
    assert isinstance(refused(connect_async, "nowhere"), InvalidInput)
    assert isinstance(refused(asyncio.run, _connected("http://127.0.0.1:1", retries=0)), ServiceUnavailable)
    assert "connect_async" in onlinehash.__all__
