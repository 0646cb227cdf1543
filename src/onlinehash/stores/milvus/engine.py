"""The official client as this library needs it: few calls, answers in pages, errors of one sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from onlinehash import checks
from onlinehash.errors import (
    InvalidInput,
    MissingExtra,
    OnlineHashError,
    ServiceUnavailable,
    StorageError,
    Unauthorized,
)
from onlinehash.stores.milvus import embedded

#: Rows that Milvus gives for one search or query at most.
MOST = 16_384
#: Rows and bytes that one request brings to Milvus; a cluster takes 64 MB.
_ROWS, _BYTES = 5_000, 8 << 20
#: Bytes that an answer may have, a quarter of what a cluster gives.
ANSWER_BYTES = 16 << 20
#: Rows that one request asks for when they may be large.
PAGE = 1_000
#: Seconds that a request may take, and that a connection may take.
_PATIENCE, _PATIENCE_TO_CONNECT = 60.0, 10.0
#: Codes of Milvus's errors.
_NOT_ALLOWED, _BUSY = {1400, 1401}, {1, 2, 3, 4, 8, 9}


class Engine:
    """Milvus at an address: the path of a file that ends in .db, or `http://host:port` of a cluster."""

    def __init__(self, address: str, token: str | None = None) -> None:
        try:
            from pymilvus import MilvusClient
        except ImportError:
            raise MissingExtra("An index in Milvus", "pymilvus", "milvus") from None
        self.address, self._file = _checked(address)
        _hush()
        where = embedded.start(self._file) if self._file else address
        try:
            with self._told():
                self._client = MilvusClient(where, token=token or "", timeout=_PATIENCE_TO_CONNECT, dedicated=True)
        except BaseException:
            self._let_go()
            raise

    def close(self) -> None:
        """Close the connection to Milvus."""
        if self._client is not None:
            self._client.close()
            self._client = None
            self._let_go()

    def _let_go(self) -> None:
        if self._file:
            embedded.stop(self._file)

    # ------------------------------------------------------------------------------------------------ collections

    def has(self, collection: str) -> bool:
        """Whether there is a collection of that name."""
        with self._told():
            return bool(self._client.has_collection(collection))

    def create(self, collection: str, fields: list[tuple[str, dict[str, Any]]]) -> None:
        """A collection with these fields. Those with a `dim` are binary vectors, and a search looks at all of them.

        Whoever reads sees all that was written before.
        """
        from pymilvus import DataType

        with self._told():
            schema, indexes = self._client.create_schema(auto_id=False), self._client.prepare_index_params()
            for name, options in fields:
                kinds = {key: DataType[kind] for key, kind in options.items() if key in ("datatype", "element_type")}
                schema.add_field(name, **(options | kinds))
                if "dim" in options:
                    indexes.add_index(name, index_type="BIN_FLAT", metric_type="HAMMING")
            self._client.create_collection(collection, schema=schema, consistency_level="Strong")
            self._client.create_index(
                collection, indexes, sync=not self._file
            )  # which polls, but here it is done at once
            self._client.load_collection(collection)

    def load(self, collection: str) -> None:
        """Load a collection into memory, where it is searched."""
        with self._told():
            self._client.load_collection(collection)

    def drop(self, collection: str) -> None:
        """Drop a collection, if there is one of that name."""
        with self._told():
            self._client.drop_collection(collection)

    # ------------------------------------------------------------------------------------------------ writing

    def insert(self, collection: str, rows: list[dict[str, Any]], row_bytes: int = 100) -> None:
        """New rows, in requests of a size that Milvus takes; each of them is there as a whole or not at all."""
        step = max(1, min(_ROWS, _BYTES // row_bytes))
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            with self._told():
                inserted = self._client.insert(collection, some, timeout=_PATIENCE)["insert_count"]
            if inserted != len(some):
                raise StorageError(
                    expected=f"Milvus at {self.address} to keep {len(some)} rows",
                    got=f"{inserted}",
                    hint="check its room",
                )

    def delete(self, collection: str, which: str) -> None:
        """The rows for which an expression holds."""
        with self._told():
            self._client.delete(collection, filter=which, timeout=_PATIENCE)

    def delete_keys(self, collection: str, keys: Sequence[str]) -> None:
        """The rows with these keys."""
        for begin in range(0, len(keys), _ROWS):
            with self._told():
                self._client.delete(collection, ids=list(keys[begin : begin + _ROWS]), timeout=_PATIENCE)

    # ------------------------------------------------------------------------------------------------ reading

    def query(self, collection: str, which: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """The rows for which an expression holds, if they are no more than Milvus gives at once."""
        with self._told():
            return list(self._client.query(collection, filter=which, output_fields=list(fields), timeout=_PATIENCE))

    def pages(
        self, collection: str, which: str, fields: Sequence[str], limit: int | None = None, page: int = PAGE
    ) -> Iterator[list[dict[str, Any]]]:
        """The rows for which an expression holds, in the order of their keys."""
        with self._told():
            pages = self._client.query_iterator(
                collection,
                batch_size=page if limit is None else min(limit, page),
                limit=-1 if limit is None else limit,
                filter=which,
                output_fields=list(fields),
                timeout=_PATIENCE,
            )
        try:
            while True:
                with self._told():
                    rows = list(pages.next())
                if not rows:
                    return
                yield rows
        finally:
            pages.close()

    def search(
        self,
        collection: str,
        field: str,
        code: bytes,
        limit: int,
        which: str,
        fields: Sequence[str],
        bounds: Any = None,
    ) -> list[dict[str, Any]]:
        """The rows nearest to a code; `bounds` are the least distance and the first one that is too far."""
        params = {} if bounds is None else {"range_filter": bounds[0], "radius": bounds[1]}
        with self._told():
            (hits,) = self._client.search(
                collection,
                [code],
                anns_field=field,
                limit=limit,
                filter=which,
                output_fields=list(fields),
                search_params={"metric_type": "HAMMING", "params": params},
                timeout=_PATIENCE,
            )
        return [{"distance": int(hit["distance"])} | hit["entity"] for hit in hits]

    # ------------------------------------------------------------------------------------------------ errors

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Whatever Milvus says inside is raised as an error of this library."""
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except MilvusException as error:
            kind, said = _kind(error.code, error.message), error.message
        except grpc.RpcError as error:
            status = error.code()
            refused = status in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
            kind, said = Unauthorized if refused else ServiceUnavailable, error.details() or status.name
        else:
            return
        said = (said.strip().splitlines() or ["nothing"])[0].rstrip(".")
        raise kind(f"Milvus at {self.address} failed: {said}.")


def _kind(code: Any, said: str) -> type[OnlineHashError]:
    if code in _NOT_ALLOWED or "auth check failure" in said or "PermissionDenied" in said:
        return Unauthorized
    if not isinstance(code, int) or code in _BUSY:  # the status of a call that never came through is no number
        return ServiceUnavailable
    return StorageError


def _checked(address: str) -> tuple[str, str]:
    """An address as messages may show it, and the file of the embedded engine, if it is that."""
    if isinstance(address, Path):
        address = str(address)
    if isinstance(address, str) and address.endswith(".db"):
        return address, embedded.checked(address)
    parts = urlsplit(address) if isinstance(address, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(
            expected="a file that ends in .db or http://host:port as the address of Milvus", got=checks.shown(address)
        )
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", ""


def _hush() -> None:
    """The client logs a traceback for each error that it raises, on the terminal of whoever runs us."""
    logger = logging.getLogger("pymilvus")
    if logger.level == logging.WARNING:  # nobody has asked for more or less
        logger.setLevel(logging.CRITICAL)
