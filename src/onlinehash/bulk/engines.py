"""Engines by their address."""

from __future__ import annotations

from onlinehash import checks
from onlinehash.bulk.engine import Engine
from onlinehash.bulk.on_dask import Dask
from onlinehash.bulk.on_processes import Processes
from onlinehash.bulk.on_ray import Ray
from onlinehash.errors import InvalidInput


def engine_of(on: str | Engine | None) -> Engine:
    """Return the engine at an address; an `Engine` is returned as it is.

    Parameters
    ----------
    on : str, Engine or None
        None or `"local"`: processes on this machine, one per CPU. `"local://4"`: four processes.
        `"dask://host:port"`: a Dask scheduler; `"dask://"` starts a cluster on this machine while the job runs.
        `"ray://host:port"`: a Ray client server; `"ray://"` uses what `ray.init()` finds or starts.

    Returns
    -------
    Engine

    Raises
    ------
    InvalidInput
        If it is no such address.

    Examples
    --------
    >>> from onlinehash import bulk
    >>> type(bulk.engine_of("local://4")).__name__
    'Processes'
    """
    if isinstance(on, Engine):
        return on
    scheme, _, rest = on.partition("://") if isinstance(on, str) else ("local" if on is None else "", "", "")
    if scheme == "local" and (not rest or (rest.isdecimal() and int(rest) > 0)):
        return Processes(int(rest) if rest else None)
    if scheme in ("dask", "ray") and on != scheme:
        return (Dask if scheme == "dask" else Ray)(rest or None)
    raise InvalidInput(
        expected="the engine to be local, local://PROCESSES, dask://HOST:PORT or ray://HOST:PORT",
        got=checks.shown(on),
    )
