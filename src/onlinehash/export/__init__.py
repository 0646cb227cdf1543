"""Codes for stores that people already run: `export.codes(index, "codes.duckdb", to="duckdb")`.

One module for each kind of store; docs/how-to/stores.md shows how each is searched. A store that searches bits natively
gets packed bytes, in the order of `np.packbits`; where it only knows floats, it gets +1 and -1.
"""

from onlinehash.export.stores import TARGETS, Written, codes

__all__ = ["TARGETS", "Written", "codes"]
