"""Use the index of a service from another process: `onlinehash.connect("http://...")`, or `connect_async`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onlinehash.client.async_remote_index import AsyncRemoteIndex
    from onlinehash.client.remote_index import RemoteIndex


def connect(
    url: str | Sequence[str],
    token: str | None = None,
    *,
    timeout: float = 30.0,
    retries: int = 4,
    read_your_writes: bool = True,
) -> RemoteIndex:
    """Return the index of the service at a URL, with the methods of `LiveIndex`.

    Parameters
    ----------
    url : str or list of str
        Such as `"http://127.0.0.1:8000"`; or the URLs of several replicas of one index. Calls are spread over them, and
        one that fails or says that it is not ready is left alone for a while.
    token : str, optional
        The token that the service asks for.
    timeout : float, default=30.0
        Seconds that a call may take, including all retries.
    retries : int, default=4
        How often a call is retried, at all replicas that work, if none can be reached or all are busy. A change that
        arrives twice is made once.
    read_your_writes : bool, default=True
        Whether a call must see all changes that were made here before it, whichever replica answers. A replica that is
        behind waits until it is not.

    Returns
    -------
    RemoteIndex
        A `VectorIndex`.

    Raises
    ------
    InvalidInput
        If URL or token are not valid.
    ServiceUnavailable
        If no service answers.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LiveIndex, connect, serve
    >>> X = np.random.default_rng(0).standard_normal((20, 8))
    >>> with serve.background(LiveIndex(n_bits=16)) as url, connect(url) as index:
    ...     _ = index.add(None, X)
    ...     print(len(index), index.find(X[3], k=1).ids)
    20 [3]
    """
    from onlinehash.client.remote_index import RemoteIndex  # which brings NumPy and more along
    from onlinehash.client.session import Session

    return RemoteIndex(Session(url, timeout, retries, read_your_writes), token)


def connect_async(
    url: str | Sequence[str],
    token: str | None = None,
    *,
    timeout: float = 30.0,
    retries: int = 4,
    read_your_writes: bool = True,
) -> AsyncRemoteIndex:
    """Return the index of the service at a URL for programs with an event loop: its methods are awaited.

    Use it as `async with connect_async(url) as index:`, or `index = await connect_async(url)` and
    `await index.close()`.

    Parameters
    ----------
    url, token, timeout, retries, read_your_writes
        As in `connect`.

    Returns
    -------
    AsyncRemoteIndex
        With the methods and properties of `RemoteIndex`.

    Raises
    ------
    InvalidInput
        If URL or token are not valid.
    ServiceUnavailable
        When it is awaited, if no service answers.

    Examples
    --------
    >>> import asyncio
    >>> import numpy as np
    >>> from onlinehash import LiveIndex, connect_async, serve
    >>> X = np.random.default_rng(0).standard_normal((20, 8))
    >>> async def main(url):
    ...     async with connect_async(url) as index:
    ...         _ = await index.add(None, X)
    ...         hits = await asyncio.gather(*(index.find(x, k=1) for x in X[:3]))
    ...         print(await index.count(), [int(one.ids[0]) for one in hits])
    >>> with serve.background(LiveIndex(n_bits=16)) as url:
    ...     asyncio.run(main(url))
    20 [0, 1, 2]
    """
    from onlinehash.client.async_remote_index import AsyncRemoteIndex
    from onlinehash.client.session import Session

    return AsyncRemoteIndex(Session(url, timeout, retries, read_your_writes), token)
