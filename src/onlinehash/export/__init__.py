"""Codes for stores that people already run: `export.codes(index, "codes.duckdb", to="duckdb")`.

docs/how-to/stores.md shows how each kind of store is searched. A store that searches bits natively gets packed bytes,
in the order of `np.packbits`; where it only knows floats, it gets +1 and -1.

Examples
--------
>>> from onlinehash import export
>>> sorted(export.TARGETS)  # what `to` may be
['duckdb', 'elasticsearch', 'lancedb', 'milvus', 'opensearch', 'parquet', 'pgvector', 'qdrant', 'sqlite-vec', 'vespa']
"""

from onlinehash.export.stores import TARGETS, Written, codes

__all__ = ["TARGETS", "Written", "codes"]
