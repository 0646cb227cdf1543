"""Streams: pairs and points from files, pairs from labels, pairs from clicks."""

from onlinehash.streams.classes import Classes
from onlinehash.streams.clicks import ClickPairs, from_clicks
from onlinehash.streams.from_labels import LabelPairing
from onlinehash.streams.pairs import Pairs, blocks, read
from onlinehash.streams.points import Points, points

__all__ = ["Classes", "ClickPairs", "LabelPairing", "Pairs", "Points", "blocks", "from_clicks", "points", "read"]
