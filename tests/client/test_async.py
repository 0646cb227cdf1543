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
from onlinehash.client.async_remote_index import AsyncRemoteIndex, AsyncRemoteRefresh
from onlinehash.client.remote_index import RemoteIndex, RemoteRefresh
from onlinehash.errors import InvalidInput, ServiceUnavailable
from onlinehash.serve import background
from tests.client.helpers import Asked, Blocking, Reply, serving
from tests.client.test_congruence import alike
from tests.programs import FACTS, live_index, run
from tests.support import refused

X = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)

#: What an event loop has other words for.
INSTEAD = {"__len__": "count", "__contains__": "contains", "__iter__": "__aiter__"}
INSTEAD |= {"__enter__": "__aenter__", "__exit__": "__aexit__"}
#: What needs no request, so that it is not awaited.
AT_ONCE = ["n_bits", "n_models", "url", "path", "capabilities", "supports", "embedder", "embedded_by"]


def is_supported(name: str) -> bool:
    """Whether a name of the contract does more than to say that an index lacks a capability."""
    thing = inspect.getattr_static(RemoteIndex, name)
    function = thing.fget if isinstance(thing, property) else thing
    return not inspect.isfunction(function) or "_unsupported" not in function.__code__.co_names


def public_names(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def remote_names() -> list[str]:
    """What a remote index can do."""
    found = sorted(filter(is_supported, public_names(RemoteIndex)))
    assert len(found) > 45
    return found + list(INSTEAD)


def test_it_lacks_only_what_a_remote_index_refuses_and_says_so() -> None:
    here, there = public_names(RemoteIndex), public_names(AsyncRemoteIndex)
    assert there - here == {"count", "contains"}
    lacking = here - there
    assert lacking == {name for name in here if not is_supported(name)}
    assert public_names(RemoteRefresh) == public_names(AsyncRemoteRefresh)


def test_what_is_known_at_once() -> None:
    with background(LiveIndex(n_bits=8)) as url, onlinehash.connect(url) as here, asyncio.Runner() as runner:
        there = runner.run(_connected(url))
        for name in AT_ONCE:
            if name != "supports":
                assert getattr(there, name) == getattr(here, name)
        assert there.supports("backup") is here.supports("backup") is False
        runner.run(there.close())


def test_it_has_every_method_of_a_remote_index() -> None:
    for name in remote_names():
        here, there = getattr(RemoteIndex, name), getattr(AsyncRemoteIndex, INSTEAD.get(name, name))
        if not inspect.isfunction(here):
            continue  # a property: the congruence test awaits it
        is_awaited = inspect.iscoroutinefunction(there) or inspect.isasyncgenfunction(there)
        assert is_awaited or name in ("__enter__", *AT_ONCE), name
        expected, found = (inspect.signature(method).parameters.values() for method in (here, there))
        assert [(p.name, p.default, p.kind) for p in found] == [(p.name, p.default, p.kind) for p in expected], name


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_same_program_has_the_same_results() -> None:
    with background(live_index("OH")) as url, asyncio.Runner() as runner:
        there = Blocking(runner, runner.run(_connected(url)))
        try:
            run(live_index("OH"), there, np.random.default_rng(0), False, 20, FACTS, "seed 0", alike)
        finally:
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
