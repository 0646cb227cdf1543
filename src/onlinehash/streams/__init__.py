"""Streams: pairs and points from files, pairs from labels."""

from onlinehash.streams.classes import Classes
from onlinehash.streams.from_labels import LabelPairing
from onlinehash.streams.pairs import Pairs, blocks, read
from onlinehash.streams.points import Points, points

__all__ = ["Classes", "LabelPairing", "Pairs", "Points", "blocks", "points", "read"]
