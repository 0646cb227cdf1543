"""Indexes whose items are in a database of many machines.

index.py           `StoreIndex`: a `VectorIndex` over any backend
backend.py         what a database must do: rows that say from when to when they count, and one small record, the head
manifest.py        what the head says
reader.py          the backend, read as of one moment
shared_learner.py  the learner, in step with what all processes teach it
transaction.py     one change
recode.py          a refresh, in batches
search.py, ids.py  what is found, and which id is at which place
creation.py        what a new index begins with
postgres/          a backend in PostgreSQL
milvus/            a backend in Milvus
"""
