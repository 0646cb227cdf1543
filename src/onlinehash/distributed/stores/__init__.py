"""Indexes whose items are in a database of many machines.

shelf.py       what is asked of a database: rows that say from when to when they count, and one small record, the head
state.py       what the head says
index.py       `StoreIndex`: the methods of `LiveIndex`, over `learning`, `following`, `searching`, `items`, `reading`
postgres/      a shelf in PostgreSQL
milvus/        a shelf in Milvus
"""
