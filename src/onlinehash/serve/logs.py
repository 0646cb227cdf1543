"""Logs as JSON, one object per line, on standard error; never with a vector, payload, query string or token."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

access = logging.getLogger("onlinehash.access")
service = logging.getLogger("onlinehash.service")


class JsonLines(logging.Formatter):
    """A record as one JSON object; `extra={"fields": {...}}` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            # Where it happened, not what was in it: an exception's text may quote a request.
            kind, _, trace = record.exc_info
            document["exception"] = kind.__name__ if kind else None
            places = []
            while trace is not None:
                places.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
                trace = trace.tb_next
            document["trace"] = places
        return json.dumps(document)


def set_up(with_access: bool) -> None:
    """Log to standard error; with `with_access`, one line per request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("onlinehash", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    for name in ("uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(name).handlers, logging.getLogger(name).propagate = [], True
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    access.setLevel(logging.INFO if with_access else logging.WARNING)
