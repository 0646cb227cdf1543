"""Exact search over codes: the flat scan and multi-index hashing."""
