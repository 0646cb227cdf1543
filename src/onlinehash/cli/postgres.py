"""`onlinehash postgres`: indexes in PostgreSQL, made, migrated and described. Passwords are never printed."""

from __future__ import annotations

from typing import Any

import onlinehash
from onlinehash import PostgresIndex, refresh
from onlinehash.cli import output, parameters, summaries
from onlinehash.errors import InvalidInput
from onlinehash.learners.base import Learner
from onlinehash.stores.postgres import creation, migration
from onlinehash.stores.postgres.backend import PostgresBackend
from onlinehash.stores.postgres.connections import shown


def exists(address: str, schema: str) -> bool:
    """Whether there is an index in a schema."""
    return creation.exists(address, schema)


def create(
    address: str,
    model: str | None,
    schema: str,
    shards: list[str],
    role: str | None,
    search: str,
    policy: str | None = None,
) -> None:
    """A new index, with the learner of a file or the recommended one."""
    learner = None if model is None else onlinehash.load(model)
    if learner is not None and not isinstance(learner, Learner):
        raise InvalidInput(expected=f"a learner in {model}", got=type(learner).__name__)
    when = parameters.policy_of(policy)
    PostgresIndex.create(address, learner, when, schema=schema, shards=shards, role=role, search=search).close()


def migrate(address: str, schema: str, as_json: bool) -> None:
    """The tables in the format of this version."""
    done = migration.migrate(address, schema)
    if as_json:
        output.print_json({"address": shown(address), "schema": schema, **done._asdict()})
    elif done.before == done.after:
        print(f"format {done.after}, as it was")
    else:
        print(f"format {done.after}, from {done.before}")


def show(address: str, schema: str, as_json: bool) -> None:
    """What an index holds, and how far its codes are behind."""
    backend = PostgresBackend(address, schema)
    with PostgresIndex(backend, refresh.by_hand()) as index:  # as its own policy may be one that is not kept
        about = backend.about
        document = {"address": backend.address, "schema": schema, "format": about.format, "search": about.search}
        document |= {"shards": about.n_shards} | summaries.opened(index, backend.head().state["refresh"])
    if as_json:
        output.print_json(document)
    else:
        output.print_columns(list(_in_words(document).items()))


def _in_words(document: dict[str, Any]) -> dict[str, str]:
    held = f"by {document['shards']} other servers" if document["shards"] else "by this server"
    words = {
        "address": document["address"],
        "schema": f"{document['schema']}, format {document['format']}",
        "rows": f"held {held}",
        "search": document["search"],
    }
    return words | summaries.live_in_words(document)
