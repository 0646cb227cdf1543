"""An index as an HTTP service, with a page for searching and teaching."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onlinehash.errors import MissingExtra

if TYPE_CHECKING:
    from onlinehash.index.api import VectorIndex

__all__ = ["background"]


@contextmanager
def background(index: VectorIndex, port: int = 0, *, token: str | None = None, **settings: Any) -> Iterator[str]:
    """Serve an index on loopback, in a thread of this process, inside a `with` block; yields the URL.

    Parameters
    ----------
    index : VectorIndex
        It is closed at the end of the block.
    port : int, default=0
        0 is any free port.
    token : str, optional
        What clients have to send.
    **settings
        Those of `Service`: `limits`, `label`, `pictures`.

    Returns
    -------
    context manager of str

    Examples
    --------
    >>> from onlinehash import LiveIndex, connect, serve
    >>> with serve.background(LiveIndex(n_bits=16)) as url, connect(url) as index:
    ...     print(index.n_bits)
    16
    """
    try:
        from onlinehash.serve import server
        from onlinehash.serve.service import Service
        from onlinehash.serve.settings import Access
    except ModuleNotFoundError as error:
        raise MissingExtra("serving", error.name or "a package", "serve") from None
    with server.background(Service(index, **settings), Access(token=token), port) as url:
        yield url
