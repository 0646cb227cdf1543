"""Arithmetic under the numeric law: a value never depends on what was computed together with it."""
