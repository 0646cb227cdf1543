"""Who sends a request, as far as limits for each client go."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from starlette.types import Scope

#: How a reader tells the writer who sent a request that it forwards; believed only on the writer's private socket.
CLIENT_HEADER = b"onlinehash-client"


def client_of(scope: Scope) -> str:
    """The address of a client; of IPv6 the part that a network has, as everybody in it may take any of the others."""
    client = scope.get("client")
    if client is not None:
        return _network(client[0])
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == CLIENT_HEADER), "")


@lru_cache(1024)
def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
