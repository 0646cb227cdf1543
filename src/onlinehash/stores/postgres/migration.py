"""Formats of the tables, and the steps from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from onlinehash.errors import FormatError
from onlinehash.stores.backend import Layout
from onlinehash.stores.postgres import foreign_tables, news, receipts
from onlinehash.stores.postgres.connections import Connection, checked_schema, connect, shown
from onlinehash.stores.postgres.errors import told
from onlinehash.stores.postgres.roles import NEEDED
from onlinehash.stores.postgres.schema import About, read_about

#: The format that this version reads and writes.
FORMAT = 3


class Migrated(NamedTuple):
    """The format before and after."""

    before: int
    after: int


def _add_present(schema: str, layout: Layout) -> list[str]:
    """Format 2: a view of the items as they count now, for people with SQL."""
    codes = ", ".join(f"c.code{group}" for group in range(len(layout.groups)))
    return [
        f'CREATE VIEW "{schema}".present AS SELECT i.place, i.id, i.payload, i.vector, {codes} FROM "{schema}".head h '
        f'JOIN "{schema}".items i ON i.born <= h.epoch AND h.epoch < i.died '
        f'LEFT JOIN "{schema}".codes c ON c.place = i.place AND c.born <= h.epoch AND h.epoch < c.died'
    ]


def _add_news(schema: str, layout: Layout) -> list[str]:
    """Format 3: records of changes for those who follow them, and receipts; for all roles that may change the index."""
    may_change = (
        "SELECT DISTINCT grantee FROM information_schema.role_table_grants "
        f"WHERE table_schema = '{schema}' AND table_name = 'head' AND privilege_type = 'UPDATE'"
    )
    grant = f"""GRANT %s ON "{schema}".%I TO %I"""
    granted = "".join(
        f"EXECUTE format('{grant}', '{NEEDED[table]}', '{table}', of_role); " for table in ("deltas", "receipts")
    )
    loop = f"DO $$ DECLARE of_role name; BEGIN FOR of_role IN {may_change} LOOP {granted}END LOOP; END $$"
    return [*news.tables(schema), *receipts.tables(schema), loop]


#: What makes format n + 1 of format n.
STEPS: dict[int, Callable[[str, Layout], list[str]]] = {1: _add_present, 2: _add_news}


def migrate(address: str, schema: str = "onlinehash") -> Migrated:
    """Bring the tables of a schema to the format of this version, whole or not at all; the owner may do that."""
    checked_schema(schema)
    with told(shown(address)), connect(address) as connection, connection.transaction():
        about = read_about(connection, schema)
        if about.format != FORMAT:  # so that who only may read can see that there is nothing to do
            connection.execute(f'SELECT 1 FROM "{schema}".about FOR UPDATE')
            about = read_about(connection, schema)  # somebody else may have been first
            refuse_newer(about, schema)
            take_steps(connection, schema, about)
        foreign_tables.bring_up_to_date(connection, schema, about.n_shards)
        return Migrated(about.format, FORMAT)


def take_steps(connection: Connection, schema: str, about: About) -> None:
    """Inside a transaction: all steps from a format to that of this version."""
    for number in range(about.format, FORMAT):
        for statement in STEPS[number](schema, about.layout):
            connection.execute(statement)
    connection.execute(f'UPDATE "{schema}".about SET format = %s', (FORMAT,))


def refuse_newer(about: About, schema: str) -> None:
    """What a later version made is none of ours."""
    if about.format > FORMAT:
        raise FormatError(
            expected=f"format {FORMAT} or older in the schema {schema}",
            got=f"{about.format}",
            hint="it was made by a newer version of onlinehash: upgrade this one",
        )


def check_format(about: About, schema: str) -> None:
    """Only the format of this version can be opened."""
    refuse_newer(about, schema)
    if about.format < FORMAT:
        raise FormatError(
            expected=f"format {FORMAT} in the schema {schema}",
            got=f"{about.format}",
            hint=f"its owner brings it there with `onlinehash postgres migrate ADDRESS --schema {schema}`",
        )
