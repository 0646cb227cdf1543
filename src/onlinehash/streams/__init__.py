"""Streams of pairs: from labels, from files."""

from onlinehash.streams.from_labels import LabelPairing

__all__ = ["LabelPairing"]
