"""Names that occur twice in an object of JSON: found by a kernel in large bodies, and by a plain loop in small ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
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


@given(st.text('"\\\\{}[]:a ', max_size=12))
def test_text_that_is_no_json_is_read_within_its_bounds(text: str) -> None:
    """Callers parse first; but a kernel that trusted them would read, and write, wherever a stranger's text leads."""
    data = np.frombuffer(text.encode(), np.uint8)
    n_names, depth = json_names._find_names.py_func(data, 0, *json_names._NO_NAMES)
    assert 0 <= depth <= len(text)
    keys, names = np.empty(n_names, np.uint64), np.empty((n_names, 4), np.int64)
    with np.errstate(over="ignore"):
        assert json_names._find_names.py_func(data, depth, keys, names) == (n_names, depth)
    assert ((names[:, 1:3] >= 0) & (names[:, 1:3] <= len(text))).all()


@pytest.mark.parametrize("twice", ['"k":1,"k":2', r'"k":1,"\u006b":2', r'"x":"\"k\":","k":1,"k":2'])
def test_in_a_large_body(twice: str) -> None:
    many = ",".join(['{"k":{},"l":[{"k":"k"}]}'] * 3000)
    json_names.refuse_repeated(f"[{many}]".encode())
    with pytest.raises(InvalidInput, match="the field 'k' occurs twice"):
        json_names.refuse_repeated(f"[{many},{{{twice}}}]".encode())


def test_python_looks_only_at_names_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over the brackets and names of a body took 0.3 s for a quarter of a megabyte."""
    looked: list[bytes] = []

    def name(quoted: bytes) -> str:
        looked.append(quoted)
        return quoted.decode()

    monkeypatch.setattr(json_names, "_name", name)
    json_names.refuse_repeated(b"[" + b",".join([b'{"a":{},"b":[]}'] * 20_000 + [rb'{"\u00e9":1}'] * 3) + b"]")
    assert looked == [rb'"\u00e9"']
