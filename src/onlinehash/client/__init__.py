"""Use the index of a service from another process: `onlinehash.connect("http://...")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onlinehash.client.remote_index import RemoteIndex


def connect(url: str, token: str | None = None, *, timeout: float = 30.0, retries: int = 4) -> RemoteIndex:
    """Return the index of the service at a URL, with the methods of `LiveIndex`.

    Parameters
    ----------
    url : str
        Such as `"http://127.0.0.1:8000"`.
    token : str, optional
        The token that the service asks for.
    timeout : float, default=30.0
        Seconds that a call may take, including all retries.
    retries : int, default=4
        How often a call is retried if the service cannot be reached or is busy. A change that arrives twice is made
        once.

    Returns
    -------
    RemoteIndex
        A `VectorIndex`.

    Raises
    ------
    InvalidInput
        If URL or token are not valid.
    ServiceUnavailable
        If the service does not answer.

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
    from onlinehash.client.connection import Connection  # which bring NumPy and more along
    from onlinehash.client.remote_index import RemoteIndex

    return RemoteIndex(Connection(url, token, timeout, retries))
