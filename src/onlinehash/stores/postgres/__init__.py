"""An index in PostgreSQL, of one server or of several that share its rows."""

from onlinehash.errors import MissingExtra

try:
    import psycopg  # noqa: F401
    import psycopg_pool  # noqa: F401
except ImportError as error:
    raise MissingExtra("an index in PostgreSQL", error.name or "psycopg", "postgres") from None
