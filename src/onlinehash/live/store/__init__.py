"""The durable half of a live index: one SQLite database in a folder, in which nothing is lost or changed unnoticed."""

from onlinehash.live.store.store import Store

__all__ = ["Store"]
