"""The durable half of a live index: one SQLite database in a folder, in which nothing is lost or changed unnoticed."""

from onlinehash.live.sqlite.store import Store

__all__ = ["Store"]
