"""Names that occur twice in an object of JSON: found by a kernel in large bodies, and by a plain loop in small ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.errors import InvalidInput
from onlinehash.io import json_names

NAMES = st.sampled_from(["a", "b", "ab", "é", 'q"', "\\", "\n", "x:y", "{", "", "\0", "😀", "]"])
LEAVES = st.sampled_from(["1", "null", '"s"', r'"x\":\"y"', r'"\\"', '"{["', '"a"'])


def _object(pairs: list[tuple[str, bool, str]]) -> str:
    """The text of an object whose names may be written with escapes, or repeated."""
    names = [(json.dumps(name, ensure_ascii=escaped), value) for name, escaped, value in pairs]
    written = [(name.replace("a", r"\u0061") if pairs[i][1] else name, value) for i, (name, value) in enumerate(names)]
    return "{" + " , ".join(f"{name}\n: {value}" for name, value in written) + "}"


DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda values: f"[{','.join(values)}]")
        | st.lists(st.tuples(NAMES, st.booleans(), inner), max_size=5).map(_object)
    ),
)


def repeats(text: str) -> bool:
    found = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.append(len(dict(pairs)) < len(pairs))

    json.loads(text, object_pairs_hook=look)
    return any(found)


@given(DOCUMENTS)
def test_both_ways_find_what_the_parser_would_drop(text: str) -> None:
    data = text.encode()
    assert (json_names._repeated(data) is not None) == repeats(text)
    assert (json_names._repeated_in_large(data) is not None) == repeats(text)


def test_in_a_large_body() -> None:
    many = ",".join(['{"k":{},"l":[{"k":"k"}]}'] * 3000)
    json_names.refuse_repeated(f"[{many}]".encode())
    for twice in ('"k":1,"k":2', r'"k":1,"\u006b":2'):
        with pytest.raises(InvalidInput, match="the field 'k' occurs twice"):
            json_names.refuse_repeated(f"[{many},{{{twice}}}]".encode())
