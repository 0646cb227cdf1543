"""Streams into an index, each message exactly once."""
