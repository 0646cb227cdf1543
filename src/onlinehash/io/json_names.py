"""Names that occur twice in one object of JSON. Parsers let them pass and keep the last value, which nobody meant."""

from __future__ import annotations

import json
import re

from onlinehash import checks
from onlinehash.errors import InvalidInput

#: In JSON without escaped quotes. Nothing here can match in two ways, so that a long string takes no memory.
_TOKENS = re.compile(rb'("[^"]*+")([ \t\r\n]*+:)?|[\[{]|[\]}]')
#: The same in any JSON; many escapes take it ten times as long.
_ALL_TOKENS = re.compile(rb'("(?:[^"\\]++|\\.)*+")([ \t\r\n]*+:)?|[\[{]|[\]}]', re.DOTALL)

#: Strings that may be cut out at once.
_FEW_STRINGS = 1 << 14


def refuse_repeated(data: bytes) -> None:
    """Refuse JSON, known to be valid, with an object that has a name twice."""
    has_escapes = b"\\" in data
    if not has_escapes and data.count(b'"') <= 2 * _FEW_STRINGS:
        strings = data.split(b'"')[1::2]
        if len(set(strings)) == len(strings):
            return
    # Names without their backslashes and quotes: two may look the same that are not, but not the other way round.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if has_escapes else data
    name = _repeated(_TOKENS, plain)
    if name is not None and has_escapes:
        name = _repeated(_ALL_TOKENS, data)
    if name is not None:
        raise InvalidInput(f"the field {checks.shown(name)} occurs twice; send it once.")


def _repeated(tokens: re.Pattern[bytes], data: bytes) -> str | None:
    """The first name that its object has already."""
    inside: list[set[str]] = []  # the names so far, of each object or list that is open
    for token in tokens.finditer(data):
        if token[2] is not None:
            name = str(json.loads(token[1])) if b"\\" in token[1] else token[1][1:-1].decode()
            if name in inside[-1]:
                return name
            inside[-1].add(name)
        elif token[0] in b"{[":
            inside.append(set())
        elif token[0] in b"}]":
            inside.pop()
    return None
