"""Unit costs that are round numbers, so that plans can be worked out by hand."""

from __future__ import annotations

from onlinehash.planning.costs import Card, Costs, Disk, Encoding, Memory, Search, Store

STORE = Store(
    item=100, vector_byte=1, code=200, write_item=10_000, write_byte=1, read_byte=1, refresh_item=20_000, scan_item=100,
    query=1e6, look_up=1000, compare=2000,
)  # fmt: skip

COSTS = Costs(
    machine="none",
    memory=Memory(
        mask=0.125, entry=12, bucket=4, row=8, id=8, slot=4, item=20, payload=60, margin=1, process=1e9
    ),
    disk=Disk(
        item=32, payload=4, log=64e6, write_item=1000, write_byte=2, read_byte=0.5, fetch_byte=2
    ),
    encoding=Encoding(value=1, product=0.01, some_value=0.5, some_product=0.1, some_bit=2),
    search=Search(
        small=1e6, large=16e6, scan_one=0.05, scan_many=0.0125, query=10_000, alone=20_000, look_up_small=10,
        look_up_large=50, compare=1, sort_small=20, sort_large=60, together=0.8,
    ),
    postgres=STORE,
    card=Card(read_byte=0.001, short_pair=0.0001, long_pair=0.0002, query=1000, alone=50_000),
)  # fmt: skip
