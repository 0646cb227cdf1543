"""The commands under `onlinehash postgres`, with options and help; `postgres.py` does the work."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Write JSON for machines to standard output.")]
Address = Annotated[
    str, typer.Argument(help="The database, such as postgresql://user@host:5432/name.", show_default=False)
]
Schema = Annotated[str, typer.Option(help="The schema that holds the tables.")]


@app.callback()
def options() -> None:
    """Create, migrate and describe indexes in PostgreSQL."""


@app.command()
def create(
    address: Address,
    model: Annotated[
        str | None,
        typer.Option(
            help="The learner that the index begins with.", show_default="the recommended one, with codes of 64 bits"
        ),
    ] = None,
    schema: Schema = "onlinehash",
    shard: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A server that holds a part of the rows.", show_default=False),
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="A role that may then use the index, but not alter it.", show_default=False)
    ] = None,
    search: Annotated[
        Literal["multi", "scan", "pgvector", "hnsw", "ivfflat"], typer.Option(help="How codes are searched.")
    ] = "multi",
    refresh: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="When codes follow the learner, as for `serve`; by_hand leaves it to `onlinehash refresh`.",
            show_default="when_changed:0.05",
        ),
    ] = None,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Leave an index that is there already as it is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create the tables of a new index."""
    from onlinehash.cli import postgres

    if not (if_missing and postgres.exists(address, schema)):
        postgres.create(address, model, schema, shard or [], role, search, refresh)
    postgres.show(address, schema, as_json)


@app.command()
def migrate(address: Address, schema: Schema = "onlinehash", as_json: Json = False) -> None:
    """Upgrade the tables of an index to the current format."""
    from onlinehash.cli import postgres

    postgres.migrate(address, schema, as_json)


@app.command()
def info(address: Address, schema: Schema = "onlinehash", as_json: Json = False) -> None:
    """Describe an index."""
    from onlinehash.cli import postgres

    postgres.show(address, schema, as_json)
