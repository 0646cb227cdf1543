"""`AsyncRemoteIndex`: the index of a service, over HTTP, for programs with an event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from onlinehash import checks
from onlinehash.client.calls import Begun, Calls, look_alike
from onlinehash.client.connection import AsyncConnection
from onlinehash.client.session import Call, Session
from onlinehash.index.api import Capability, Id, VectorIndex, Vectors
from onlinehash.learners.update import Update

#: Seconds between two checks whether a refresh has ended.
LOOK_EVERY = 0.05

P = ParamSpec("P")
T = TypeVar("T")


class AsyncRemoteRefresh:
    """A refresh that runs in the service."""

    def __init__(self, connection: AsyncConnection, calls: Calls, begun: Begun, longest: float) -> None:
        self._connection, self._calls = connection, calls
        self._begun, self._longest = begun, longest
        self._outcome: bool | None = None

    async def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return await self._looked() is not None

    async def _looked(self) -> bool | None:
        """Whether the new codes are there; None while it runs."""
        if self._outcome is None:
            self._outcome = await self._connection.run(self._calls.outcome(self._begun))
        return self._outcome

    async def cancel(self) -> None:
        """Stop it as if it had never begun."""
        await self._connection.run(self._calls.cancel())
        self._outcome = bool(await self._looked())  # if one still runs, it is another

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if the new codes are there, False if it was cancelled, has failed or is still running.

        Without a timeout it waits as long as any other call of the connection. A timeout may be longer than that: the
        service is asked now and then, and only each request has to keep the connection's limit.
        """
        end = time.monotonic() + (self._longest if timeout is None else timeout)
        while (outcome := await self._looked()) is None and time.monotonic() < end:
            await asyncio.sleep(LOOK_EVERY)
        return bool(outcome)


def _run(
    call: Callable[Concatenate[Calls, P], Call[T]],
) -> Callable[Concatenate[AsyncRemoteIndex, P], Coroutine[Any, Any, T]]:
    """A method that runs a call and is awaited."""

    async def method(self: AsyncRemoteIndex, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._connection.run(call(self._calls, *args, **kwargs))

    look_alike(method, call)
    method.__doc__ = call.__doc__ or _summary(call.__name__)
    return method


def _summary(name: str) -> str:
    """What `VectorIndex` says of a name in its first line."""
    first, _, _ = str(inspect.getdoc(getattr(VectorIndex, name))).partition("\n")
    return f"{first} See `VectorIndex.{name}`."


class _Told(Generic[T]):
    """A property that runs a call and is awaited."""

    def __init__(self, call: Callable[[Calls], Call[Any]], part: Callable[[Any], T] = lambda whole: whole) -> None:
        self._call, self._part = call, part

    def __set_name__(self, owner: type, name: str) -> None:
        self.__doc__ = self._call.__doc__ or _summary(name)

    @overload
    def __get__(self, index: None, owner: type) -> Self: ...

    @overload
    def __get__(self, index: AsyncRemoteIndex, owner: type) -> Coroutine[Any, Any, T]: ...

    def __get__(self, index: AsyncRemoteIndex | None, owner: type) -> Self | Coroutine[Any, Any, T]:
        return self if index is None else self._value(index)

    async def _value(self, index: AsyncRemoteIndex) -> T:
        return self._part(await index._connection.run(self._call(index._calls)))


def _told(call: Callable[[Calls], Call[T]]) -> _Told[T]:
    return _Told(call)


class AsyncRemoteIndex:
    """The index of a service; `onlinehash.connect_async` returns it.

    It has the methods and properties of `RemoteIndex`, all of which are awaited: `await index.find(x)`,
    `await index.ids`, `await index.behind`. `n_bits` and `n_models` are known at once. In place of `len(index)`,
    `id in index` and `for id in index` there are `await index.count()`, `await index.contains(id)` and
    `async for id in index`. Any number of tasks of one event loop may use it.

    Known at once are also `url`, `path`, `capabilities`, `supports`, `embedder` and `embedded_by`. It lacks the names
    that only raise `NotSupported` in a `RemoteIndex`: `backup`, `reload`, `view`, `once`, `receipt`, `group_commit`,
    `positions`, `reached`, `put_position`, `learner`, `taught`, `n_changed`, `has_shared_learner`, `is_learning`,
    `sample`, `recent_pairs` and `clock`.

    Examples
    --------
    >>> import asyncio
    >>> import numpy as np
    >>> from onlinehash import LiveIndex, connect_async, serve
    >>> X = np.random.default_rng(0).standard_normal((20, 8))
    >>> async def main(url):
    ...     async with connect_async(url) as index:
    ...         _ = await index.add(None, X)
    ...         print(await index.count(), await index.contains(3), (await index.find(X[3], k=1)).ids)
    >>> with serve.background(LiveIndex(n_bits=16)) as url:
    ...     asyncio.run(main(url))
    20 True [3]
    """

    def __init__(self, session: Session, token: str | None = None) -> None:
        self._session, self._calls, self._connection = session, Calls(session), AsyncConnection(token)

    # items
    add = _run(Calls.add)
    update = _run(Calls.update)
    remove = _run(Calls.remove)
    get = _run(Calls.get)
    get_many = _run(Calls.get_many)
    vectors_of = _run(Calls.vectors_of)
    payloads_of = _run(Calls.payloads_of)
    contains = _run(Calls.contains)
    count = _run(Calls.count)
    ids = _told(Calls.ids)
    ids_kind = _told(Calls.ids_kind)
    codes = _told(Calls.codes)
    vectors = _told(Calls.vectors)
    epoch = _told(Calls.epoch)
    head_epoch = _told(Calls.epoch)
    lag = _told(Calls.lag)
    encoder = _told(Calls.encoder)

    async def __aiter__(self) -> AsyncIterator[Id]:
        """Iterate over the ids, in the order of insertion, as they are now."""
        for id in (await self.ids).tolist():
            yield id

    @property
    def n_bits(self) -> int:
        """Bits of each model's code."""
        return self._calls.n_bits

    @property
    def n_models(self) -> int:
        """Number of models, each of which gives an item a code."""
        return self._calls.n_models

    # searching
    find = _run(Calls.find)
    found = _run(Calls.found)
    search = _run(Calls.search)
    searched = _run(Calls.searched)
    within = _run(Calls.within)
    found_within = _run(Calls.found_within)
    rerank = _run(Calls.rerank)

    # learning
    learn_pairs = _run(Calls.learn_pairs)
    learn_pairs_by_id = _run(Calls.learn_pairs_by_id)
    learn_labelled = _run(Calls.learn_labelled)
    learn_clicks = _run(Calls.learn_clicks)
    flush = _run(Calls.flush)

    async def learn_pair(self, a: Vectors, b: Vectors, similar: bool | int, sample_weight: float = 1.0) -> Update:
        """Teach the learner one pair of vectors."""
        return (await self.learn_pairs(checks.row(a, "a"), checks.row(b, "b"), similar, sample_weight))[0]

    async def learn_pair_by_id(self, id_a: Id, id_b: Id, similar: bool | int, sample_weight: float = 1.0) -> Update:
        """Teach the learner a pair of items."""
        return (await self.learn_pairs_by_id([id_a], [id_b], similar, sample_weight))[0]

    # texts
    add_texts = _run(Calls.add_texts)
    update_texts = _run(Calls.update_texts)
    find_text = _run(Calls.find_text)
    search_text = _run(Calls.search_text)
    learn_text = _run(Calls.learn_text)

    # refreshing
    cancel = _run(Calls.cancel)
    roll_back = _run(Calls.roll_back)
    newest = _told(Calls.newest)
    versions = _told(Calls.versions)
    serial = _told(Calls.serial)
    paused = _told(Calls.paused)
    is_refreshing = _told(Calls.is_refreshing)
    behind = _told(Calls.behind)
    pairs_behind: _Told[int] = _Told(Calls.behind, lambda behind: behind.pairs)
    counters = _told(Calls.counters)
    refreshes: _Told[int] = _Told(Calls.counters, lambda counters: counters.refreshes)
    bits_rehashed: _Told[int] = _Told(Calls.counters, lambda counters: counters.bits_rehashed)
    bits_skipped: _Told[int] = _Told(Calls.counters, lambda counters: counters.bits_skipped)
    bits_flipped: _Told[int] = _Told(Calls.counters, lambda counters: counters.bits_flipped)

    async def refresh(self, wait: bool = True) -> AsyncRemoteRefresh | None:
        """Re-encode all stored items with the learner's current hash functions; see `VectorIndex.refresh`."""
        if wait:
            return await self._connection.run(self._calls.refresh())
        begun = await self._connection.run(self._calls.begin_refresh())
        return AsyncRemoteRefresh(self._connection, self._calls, begun, self._session.timeout)

    # ------------------------------------------------------------------------------------------------ as any remote one

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this index can do beyond the methods that all of them have: nothing."""
        return frozenset()

    def supports(self, capability: Capability | str) -> bool:
        """Whether this index has a capability."""
        return capability in self.capabilities

    @property
    def embedder(self) -> None:
        """None: the service has it."""
        return None

    @property
    def embedded_by(self) -> None:
        """None: the service knows."""
        return None

    @property
    def path(self) -> None:
        """None: a path would be one on the service's machine."""
        return None

    # ------------------------------------------------------------------------------------------------ the connection

    @property
    def url(self) -> str:
        """The URL of the service; of several, all of them."""
        return self._session.url

    async def close(self) -> None:
        """Close all connections; the service keeps running."""
        await self._connection.close()

    def __await__(self) -> Generator[Any, None, Self]:
        """Connect: `index = await connect_async(url)`."""
        return self._opened().__await__()

    async def _opened(self) -> Self:
        if not self._session.about:
            try:
                await self._connection.run(self._session.open())
            except BaseException:
                await self.close()
                raise
        return self

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return self._calls.described("AsyncRemoteIndex")
