"""Use the index of a service from another process: `onlinehash.connect("http://...")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onlinehash.client.remote_index import RemoteIndex


def connect(url: str, token: str | None = None, *, timeout: float = 30.0, retries: int = 4) -> RemoteIndex:
    """The index of the service at a URL, with the methods of `LiveIndex`.

    token : str or None, default=None
        What the service was told to ask for.
    timeout : float, default=30.0
        Seconds that a call may take, all its retries included.
    retries : int, default=4
        How often a call is tried again when the service cannot be reached or has no time. A change that arrives twice
        is made once.
    """
    from onlinehash.client.connection import Connection  # which bring NumPy and more along
    from onlinehash.client.remote_index import RemoteIndex

    return RemoteIndex(Connection(url, token, timeout, retries))
