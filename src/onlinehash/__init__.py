"""Online hashing: short binary codes learned from a stream of similar and dissimilar pairs.

    from onlinehash import OnlineHashing

    oh = OnlineHashing(n_bits=64, random_state=0)
    oh.learn_pair(a, b, similar=True)        # Update(loss=3, step=0.021, bits=[4, 17, 40])
    oh.encode(X)                             # packed codes

Importing this package loads nothing heavy and compiles nothing; names arrive when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Codes": "onlinehash.codes",
    "Encoder": "onlinehash.learners.encoder",
    "FlatIndex": "onlinehash.index.flat",
    "Hits": "onlinehash.index.hits",
    "LSH": "onlinehash.learners.locality_sensitive",
    "LiveIndex": "onlinehash.live.index",
    "MultiIndex": "onlinehash.index.multi_index",
    "MultiModelOnlineHashing": "onlinehash.learners.multi_model",
    "OnlineHashing": "onlinehash.learners.online_hashing",
    "RbfAnchors": "onlinehash.features",
    "Update": "onlinehash.learners.update",
    "load": "onlinehash.files",
    "save": "onlinehash.files",
}
_ROOMS = {
    "errors": "onlinehash.errors",
    "evaluate": "onlinehash.evaluate",
    "refresh": "onlinehash.live.refresh",
    "streams": "onlinehash.streams",
}

__all__ = [
    "LSH",
    "Codes",
    "Encoder",
    "FlatIndex",
    "Hits",
    "LiveIndex",
    "MultiIndex",
    "MultiModelOnlineHashing",
    "OnlineHashing",
    "RbfAnchors",
    "Update",
    "errors",
    "evaluate",
    "load",
    "refresh",
    "save",
    "streams",
]

if TYPE_CHECKING:
    from onlinehash import errors, evaluate, streams
    from onlinehash.codes import Codes
    from onlinehash.features import RbfAnchors
    from onlinehash.files import load, save
    from onlinehash.index.flat import FlatIndex
    from onlinehash.index.hits import Hits
    from onlinehash.index.multi_index import MultiIndex
    from onlinehash.learners.encoder import Encoder
    from onlinehash.learners.locality_sensitive import LSH
    from onlinehash.learners.multi_model import MultiModelOnlineHashing
    from onlinehash.learners.online_hashing import OnlineHashing
    from onlinehash.learners.update import Update
    from onlinehash.live import refresh
    from onlinehash.live.index import LiveIndex


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(_ROOMS[name])
    raise AttributeError(f"module 'onlinehash' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
