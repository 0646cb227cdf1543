"""As much of a filter as PostgreSQL can answer by itself: one jsonpath for all fields, after a look at the text.

What it lets through is a superset of what passes; `live.filters` has the last word. jsonpath is asked in its lax mode,
in which a comparison with a list is one with each of its elements, as it is in a filter, and in which values of other
types are neither equal nor less. Whatever might come out otherwise there is left to the last word.

To make jsonb of a payload takes most of the time. So its text is searched first for the wanted values, which are in it
as this library writes them. That is all that other servers which hold rows for this one can be asked.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: Whole numbers below have the same digits as integer and as float. Above, Python compares what is behind the digits.
_EXACT = 2**53
#: Wanted values that PostgreSQL compares each payload with, one by one; the last word looks more of them up by hash.
_FEW = 256
#: Wanted values that the text is searched for; each is a pass over it.
_FEW_TEXTS = 8
#: Characters that no text of PostgreSQL can hold.
_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")
#: Is a payload one in which such characters are escaped? It cannot become jsonb, so it is let through.
_ESCAPED = r"payload LIKE '%%\\u0000%%' OR payload LIKE '%%\\ud%%'"


def condition(tests: dict[str, list[tuple[str, Any]]]) -> tuple[str, list[Any]]:
    """SQL about the column `payload`, and its parameters, for the tests that `live.filters.checked` made."""
    parts, patterns = list[str](), list[list[str]]()
    for field, of_field in tests.items():
        for name, operand in of_field:
            if part := _part(field, name, operand):
                parts.append(part)
                if name == "in" and len(operand) <= _FEW_TEXTS:
                    patterns.append([f"%{_escaped(_text(value))}%" for value in operand])
    if not parts:
        return "true", []
    decided = f"CASE WHEN {_ESCAPED} THEN true ELSE payload::jsonb @@ %s::jsonpath END"
    return " AND ".join([*["payload LIKE ANY(%s::text[])"] * len(patterns), decided]), [*patterns, " && ".join(parts)]


def _part(field: str, name: str, operand: Any) -> str | None:
    """One test as a predicate of jsonpath; None where it has none."""
    if _IMPOSSIBLE.search(field):
        return None
    # A field is the key of that very name or, where there is none, the last of the keys that its dots separate.
    paths = {"$." + json.dumps(field), "$." + ".".join(map(json.dumps, field.split(".")))}
    if name == "exists" and operand:
        terms = [f"exists({path})" for path in paths]
    elif name == "in" and 0 < len(operand) <= _FEW and all(map(_is_plain, operand)):
        terms = [f"{path} == {json.dumps(value)}" for path in paths for value in operand]
    elif name in ("<", "<=", ">", ">=") and not isinstance(operand, str) and _is_plain(operand):
        terms = [f"{path} {name} {json.dumps(operand)}" for path in paths]
    else:
        return None
    return f"({' || '.join(sorted(terms))})"


def _text(value: Any) -> str:
    """What the JSON of a payload has somewhere if it has an equal value: 7 is in 7.0."""
    is_whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if is_whole else value)


def _escaped(text: str) -> str:
    """A text as a pattern of LIKE."""
    return re.sub(r"([\\%_])", r"\\\1", text)


def _is_plain(value: Any) -> bool:
    """Whether PostgreSQL compares it as Python does."""
    if isinstance(value, str):
        return not _IMPOSSIBLE.search(value)
    if isinstance(value, int | float):  # bools too
        return abs(value) < _EXACT
    return value is None
