"""Beyond one machine: the same learners, codes and answers on engines that run on many.

bulk/        encode, re-encode, ground truth and mAP over data larger than memory, on processes, Dask or Ray
stores/      indexes with the methods of `LiveIndex` whose items are in PostgreSQL or Milvus
consuming/   pairs and items out of Redis Streams and Kafka, each exactly once
learning/    several processes that learn, as far as that is sound
planning/    how many machines a number of items takes
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["bulk", "learning"]

if TYPE_CHECKING:
    from onlinehash.distributed import bulk, learning


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"onlinehash.distributed.{name}")
    raise AttributeError(f"module 'onlinehash.distributed' has no attribute {name!r}")
