"""Texts in place of vectors: what an index makes of them with its embedder, and how they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onlinehash import checks
from onlinehash.embed.embedder import checked
from onlinehash.errors import InvalidInput, NotSupported
from onlinehash.live.payloads import listed

if TYPE_CHECKING:
    from onlinehash.embed.embedder import Maker
    from onlinehash.index.api import VectorIndex

#: The field of a payload that keeps the text of an item.
FIELD = "text"


def no_embedder(maker: Maker | None = None) -> NotSupported:
    """The error of an index that cannot take texts, naming the embedder that made its vectors where that is known."""
    if maker is None:
        return NotSupported(
            "this index has no embedder, which makes vectors of texts; open it with embed=, or give the command or the "
            "service --embed, naming the one that made its vectors, or send vectors."
        )
    return NotSupported(
        f"the vectors of this index come from the embedder {maker.name!r}, which was not given; open the index with "
        f"embed=, or give the command or the service {option(maker)}, or send vectors."
    )


def option(maker: Maker) -> str:
    """The option of a command that gives an embedder; one that was named in Python may have no name to be loaded by."""
    return f"--embed {maker.name}" if ":" in maker.name else "--embed with its module:function"


def embedded(index: VectorIndex, texts: Any) -> np.ndarray:
    """The vectors of texts; of one, without a dimension for it."""
    if index.embedder is None:
        raise no_embedder(index.embedded_by)
    return index.embedder.encode([texts])[0] if isinstance(texts, str) else index.embedder.encode(texts)


def with_texts(payloads: Any, texts: Any) -> list[Any]:
    """Payloads that keep the texts; what they say of their text themselves stays."""
    found = checked(texts)
    if payloads is None:
        return [{FIELD: text} for text in found]
    given = [payloads] if isinstance(payloads, dict) else listed(payloads)
    checks.same_length("payloads", len(given), len(found), "texts")
    for payload in given:
        if payload is not None and not isinstance(payload, dict):
            raise InvalidInput(expected="a dict or None for each payload", got=checks.shown(payload))
    return [{FIELD: text} | (payload or {}) for text, payload in zip(found, given, strict=True)]


def with_changed_texts(index: VectorIndex, ids: Any, texts: Any, payloads: Any) -> list[Any]:
    """Payloads for items whose texts change: the given ones, or else their own, which keep the new texts."""
    if payloads is not None:
        return with_texts(payloads, texts)
    found = checked(texts)
    own = index.payloads_of(ids)
    checks.same_length("texts", len(found), len(own), "ids")
    return [(payload or {}) | {FIELD: text} for payload, text in zip(own, found, strict=True)]


def several(value: Any, n: int) -> Any:
    """One label or weight for each of n pairs, where one was given for all."""
    return np.repeat(value, n) if value is not None and np.ndim(value) == 0 else value
