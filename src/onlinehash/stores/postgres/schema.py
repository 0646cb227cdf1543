"""The tables of an index, and what is written about them when they are made.

`about` says how codes are made up and how they are searched, and never changes but for its format. `head` is the record
whose replacement is a change. `items` and `codes` have rows with epochs; `blobs` have names. `unfinished` has a row
while rows are written to other servers, which cannot be undone together.
"""

from __future__ import annotations

from typing import NamedTuple

from onlinehash.errors import FormatError, InvalidInput
from onlinehash.stores.backend import FOREVER, Layout
from onlinehash.stores.postgres import pgvector
from onlinehash.stores.postgres.chunks import Chunks
from onlinehash.stores.postgres.connections import Connection

#: How codes are searched, and for which of it there must be pgvector.
PGVECTOR_MODES = ("pgvector", *pgvector.APPROXIMATE)
MODES = ("multi", "scan", *PGVECTOR_MODES)


#: Rows of at most so many bytes have their vectors in them: the most that PostgreSQL takes.
ROW_BYTES = 8160


class About(NamedTuple):
    """What is written about an index."""

    format: int
    layout: Layout
    chunk_bits: int  #: Of the chunks of codes, at most: what is the best for new indexes may change.
    search: str
    n_shards: int

    @property
    def chunks(self) -> Chunks:
        """What codes are cut into."""
        return Chunks(self.layout, self.chunk_bits)


def columns(table: str, about: About) -> list[tuple[str, str]]:
    """The columns of `items` or `codes`, with their types."""
    common = [("place", "bigint NOT NULL"), ("born", "bigint NOT NULL"), ("died", "bigint NOT NULL")]
    if table == "items":
        return [*common, ("vector", "bytea NOT NULL"), ("id", "text NOT NULL"), ("payload", "text")]
    codes = [(f"code{g}", f"bit({n_bits}) NOT NULL") for g, n_bits in enumerate(about.layout.groups)]
    parts = [(name, "integer NOT NULL") for name in about.chunks.columns]
    return [*common, *codes, *parts, ("id", "text NOT NULL")]


def records(schema: str) -> list[str]:
    """Statements that make what only the first server has."""
    only = "only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)"
    return [
        f'CREATE TABLE "{schema}".about ({only}, format integer NOT NULL, n_bits integer NOT NULL, '
        "n_models integer NOT NULL, fusion text NOT NULL, chunk_bits integer NOT NULL, search text NOT NULL, "
        "n_shards integer NOT NULL)",
        f'CREATE TABLE "{schema}".head ({only}, epoch bigint NOT NULL, state text NOT NULL)',
        f'CREATE TABLE "{schema}".blobs (name text PRIMARY KEY, value bytea NOT NULL)',
        f'ALTER TABLE "{schema}".blobs ALTER COLUMN value SET STORAGE EXTERNAL',
        f'CREATE TABLE "{schema}".unfinished ({only})',
    ]


def tables(schema: str, about: About) -> list[str]:
    """Statements that make the tables of rows, with what finds them, on the server that holds them.

    Vectors do not compress, and lie in their rows where these fit in a page: a refresh reads them all, and to fetch one
    from elsewhere takes longer than to read it. Ids may be of any length, which a btree does not take. Rows are written
    in the order in which they are born, so that the smallest of indexes finds what a change wrote that must be undone.
    A refresh ends many codes: as no index of theirs knows when they die, and pages have room, none of them has to be
    written for it. Dead codes are found by a look at all, when there are many of them.
    """
    items, codes = f'"{schema}".items', f'"{schema}".codes'
    made = [
        f"CREATE TABLE {items} ({definition('items', about)}) WITH (toast_tuple_target = {ROW_BYTES})",
        f"ALTER TABLE {items} ALTER COLUMN vector SET STORAGE EXTERNAL",
        f"CREATE INDEX items_id ON {items} USING hash (id)",
        f"CREATE INDEX items_place ON {items} (place)",
        f"CREATE INDEX items_born ON {items} USING brin (born)",
        f"CREATE INDEX items_died ON {items} (died) WHERE died < {FOREVER}",
        f"CREATE TABLE {codes} ({definition('codes', about)}) WITH (fillfactor = 75)",
        f"CREATE INDEX codes_place ON {codes} (place)",
        f"CREATE INDEX codes_born ON {codes} USING brin (born)",
        *(f"CREATE INDEX codes_{chunk} ON {codes} ({chunk})" for chunk in about.chunks.columns),
    ]
    return [*made, *pgvector.index_statements(schema, about.layout, about.search)]


def definition(table: str, about: About) -> str:
    """What stands in the brackets of CREATE TABLE."""
    return ", ".join(f"{name} {kind}" for name, kind in columns(table, about))


def make_room(connection: Connection, schema: str) -> None:
    """The schema, which may be there if it is empty."""
    encoding = connection.execute("SHOW server_encoding").fetchone()
    if encoding != ("UTF8",):
        raise InvalidInput(
            expected="a database whose encoding is UTF8", got=f"{encoding and encoding[0]}", hint="make another"
        )
    if connection.execute("SELECT to_regnamespace(%s)", (f'"{schema}"',)).fetchone() == (None,):
        connection.execute(f'CREATE SCHEMA "{schema}"')
    taken = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) LIMIT 1", (f'"{schema}"',)
    ).fetchone()
    if taken:
        raise InvalidInput(
            expected=f"nothing in the schema {schema}",
            got=f"{taken[0]} in it",
            hint="open the index that is there with PostgresIndex.open, or choose another schema",
        )


def need_pgvector(connection: Connection) -> None:
    """The extension, which somebody with the right to do so may have to install."""
    if not connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone():
        raise InvalidInput(
            expected="a server with pgvector for this mode of search", got="one without", hint="install it there"
        )
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")


def put_about(connection: Connection, schema: str, about: About) -> None:
    """Write it, once."""
    connection.execute(
        f'INSERT INTO "{schema}".about (format, n_bits, n_models, fusion, chunk_bits, search, n_shards) '
        "VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (about.format, *about.layout, about.chunk_bits, about.search, about.n_shards),
    )


def read_about(connection: Connection, schema: str) -> About:
    """What is written about the index in a schema."""
    there = connection.execute("SELECT to_regclass(%s)", (f'"{schema}".about',)).fetchone()
    if there == (None,):
        raise InvalidInput(
            expected=f"an index in the schema {schema}",
            got="none",
            hint="PostgresIndex.create or `onlinehash postgres create` makes one",
        )
    row = connection.execute(
        f'SELECT format, n_bits, n_models, fusion, chunk_bits, search, n_shards FROM "{schema}".about'
    ).fetchone()
    if row is None:
        raise FormatError(
            expected=f"a row in the table about of the schema {schema}", got="none", hint="restore a backup"
        )
    return About(row[0], Layout(*row[1:4]), *row[4:])
