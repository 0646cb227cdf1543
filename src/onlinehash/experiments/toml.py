"""The plans' files, read into dataclasses; a key that nobody knows is refused."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from onlinehash.errors import InvalidInput

T = TypeVar("T")

#: What a plan varies.
Value: TypeAlias = int | float | str
#: What a protocol asks, by name, and the parameters of a method; both are checked by name.
Conditions: TypeAlias = Mapping[str, Any]
Parameters: TypeAlias = Mapping[str, Any]


def read(name: str) -> dict[str, Any]:
    """A file of ours by name, or any file by its path."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise InvalidInput(f"no such plan: {name}.")
        text = path.read_text("utf-8")
    else:
        text = resources.files("onlinehash.experiments").joinpath("plans", f"{name}.toml").read_text("utf-8")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name} is not valid TOML: {error}.") from None


def names() -> list[str]:
    """Our plans, in their order."""
    return list(read("_contents")["plans"])


def make(cls: type[T], document: Mapping[str, Any], what: str) -> T:
    """The dataclass of these values; lists become tuples."""
    fields: Any = dataclasses.fields(cls)  # type: ignore[arg-type]
    for key in document:
        if key not in {field.name for field in fields}:
            known = ", ".join(sorted(field.name for field in fields))
            raise InvalidInput(expected=f"keys among {known} in {what}", got=repr(key))
    for field in fields:
        has_default = (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
        if not has_default and field.name not in document:
            raise InvalidInput(f"{what} has no value for {field.name}.")
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in document.items()})
