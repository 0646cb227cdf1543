"""Indexes whose items are in a database of many machines."""
