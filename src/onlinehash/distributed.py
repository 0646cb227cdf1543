"""The former name of `onlinehash.bulk` and, as `learning`, of `onlinehash.parallel`."""

from onlinehash import bulk
from onlinehash import parallel as learning

__all__ = ["bulk", "learning"]
