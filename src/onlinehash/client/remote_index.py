"""`RemoteIndex`: the index of a service, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from numpy.typing import NDArray

from onlinehash.client.calls import Begun, Calls, RemoteVersion, look_alike
from onlinehash.client.connection import Connection
from onlinehash.client.session import Call, Session
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.index.api import Behind, Counters, VectorIndex
from onlinehash.learners.encoder import Encoder

#: Seconds between two checks whether a refresh has ended.
LOOK_EVERY = 0.05

P = ParamSpec("P")
T = TypeVar("T")


class RemoteRefresh:
    """A refresh that runs in the service."""

    def __init__(self, connection: Connection, calls: Calls, begun: Begun, longest: float) -> None:
        self._connection, self._calls = connection, calls
        self._begun, self._longest = begun, longest
        self._outcome: bool | None = None

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return self._looked() is not None

    def _looked(self) -> bool | None:
        """Whether the new codes are there; None while it runs."""
        if self._outcome is None:
            self._outcome = self._connection.run(self._calls.outcome(self._begun))
        return self._outcome

    def cancel(self) -> None:
        """Stop it as if it had never begun."""
        self._connection.run(self._calls.cancel())
        self._outcome = bool(self._looked())  # if one still runs, it is another

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if the new codes are there, False if it was cancelled, has failed or is still running.

        Without a timeout it waits as long as any other call of the connection. A timeout may be longer than that: the
        service is asked now and then, and only each request has to keep the connection's limit.
        """
        end = time.monotonic() + (self._longest if timeout is None else timeout)
        while (outcome := self._looked()) is None and time.monotonic() < end:
            time.sleep(LOOK_EVERY)
        return bool(outcome)


def _run(call: Callable[Concatenate[Calls, P], Call[T]]) -> Callable[Concatenate[RemoteIndex, P], T]:
    """A method that runs a call and waits for its result."""

    def method(self: RemoteIndex, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._connection.run(call(self._calls, *args, **kwargs))

    look_alike(method, call)
    return method


class RemoteIndex(VectorIndex):
    """The index of a service; `onlinehash.connect` returns it.

    Methods, results and errors are those of `LiveIndex`. What cannot be sent is refused here, everything else by the
    service. Any number of threads may use it. It has no optional capabilities: backups, receipts, positions, the
    learner and its policy belong to the service.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LiveIndex, connect, serve
    >>> X = np.random.default_rng(0).standard_normal((20, 8))
    >>> with serve.background(LiveIndex(n_bits=16)) as url, connect(url) as index:
    ...     _ = index.add(None, X)
    ...     updates = index.learn_pairs_by_id([0, 0], [1, 2], [True, False])
    ...     updates = index.learn_clicks(X[3], shown=[5, 3, 7], clicked=[3])
    ...     print(len(index), index.find(X[3], k=1).ids)
    20 [3]
    """

    def __init__(self, session: Session, token: str | None = None) -> None:
        self._session, self._calls, self._connection = session, Calls(session), Connection(token)
        try:
            self._connection.run(session.open())
        except BaseException:
            self.close()
            raise

    # items
    add = _run(Calls.add)
    update = _run(Calls.update)
    remove = _run(Calls.remove)
    get = _run(Calls.get)
    get_many = _run(Calls.get_many)
    vectors_of = _run(Calls.vectors_of)
    payloads_of = _run(Calls.payloads_of)
    __contains__ = _run(Calls.contains)
    __len__ = _run(Calls.count)

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

    # texts
    add_texts = _run(Calls.add_texts)
    update_texts = _run(Calls.update_texts)
    find_text = _run(Calls.find_text)
    search_text = _run(Calls.search_text)
    learn_text = _run(Calls.learn_text)

    # refreshing
    cancel = _run(Calls.cancel)
    roll_back = _run(Calls.roll_back)

    def refresh(self, wait: bool = True) -> RemoteRefresh | None:
        if wait:
            return self._connection.run(self._calls.refresh())
        begun = self._connection.run(self._calls.begin_refresh())
        return RemoteRefresh(self._connection, self._calls, begun, self._session.timeout)

    # ------------------------------------------------------------------------------------------------ what it tells

    @property
    def ids(self) -> NDArray[Any]:
        return self._connection.run(self._calls.ids())

    @property
    def ids_kind(self) -> str:
        """`"integers"` or `"strings"`; the service does not say whether integers count the items."""
        return self._connection.run(self._calls.ids_kind())

    @property
    def codes(self) -> Codes:
        return self._connection.run(self._calls.codes())

    @property
    def vectors(self) -> NDArray[Any]:
        return self._connection.run(self._calls.vectors())

    @property
    def epoch(self) -> int:
        """The number of the last change that the service shows."""
        return self._connection.run(self._calls.epoch())

    @property
    def lag(self) -> float:
        """How many seconds the replica that answers is behind."""
        return self._connection.run(self._calls.lag())

    @property
    def encoder(self) -> Encoder | None:
        return self._connection.run(self._calls.encoder())

    @property
    def newest(self) -> Encoder:
        return self._connection.run(self._calls.newest())

    @property
    def n_bits(self) -> int:
        return self._calls.n_bits

    @property
    def n_models(self) -> int:
        return self._calls.n_models

    @property
    def versions(self) -> list[RemoteVersion]:
        return self._connection.run(self._calls.versions())

    @property
    def behind(self) -> Behind:
        return self._connection.run(self._calls.behind())

    @property
    def serial(self) -> int:
        return self._connection.run(self._calls.serial())

    @property
    def paused(self) -> bool:
        return self._connection.run(self._calls.paused())

    @property
    def is_refreshing(self) -> bool:
        return self._connection.run(self._calls.is_refreshing())

    @property
    def counters(self) -> Counters:
        return self._connection.run(self._calls.counters())

    # ------------------------------------------------------------------------------------------------ the connection

    @property
    def url(self) -> str:
        """The URL of the service; of several, all of them."""
        return self._session.url

    def close(self) -> None:
        self._connection.close()

    def __repr__(self) -> str:
        return self._calls.described("RemoteIndex")

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("cannot copy or pickle a RemoteIndex: connect again where it is needed.")
