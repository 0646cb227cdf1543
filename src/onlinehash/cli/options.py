"""Options of a command as the fields of a dataclass, declared once: the command, its checks and its docs use them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, get_args, get_type_hints

from onlinehash.errors import InvalidInput

M = TypeVar("M")


def with_options(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a dataclass; the command gets the dataclass as its first argument."""
    names = [field.name for field in fields(kind)]
    types = get_type_hints(kind, include_extras=True)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            command(kind(**{name: values.pop(name) for name in names}), **values)

        _, *others = inspect.signature(command, eval_str=True).parameters.values()
        own = [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
            for field in fields(kind)
        ]
        parameters = [parameter.replace(annotation=types[parameter.name]) for parameter in own] + [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in others
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def flag(name: str) -> str:
    """The option of a field."""
    return "--" + name.replace("_", "-")


def is_postgres(target: str) -> bool:
    """Whether a target is an address of PostgreSQL rather than a folder."""
    return target.startswith(("postgresql://", "postgres://"))


def refuse_postgres(target: str, instead: str) -> None:
    """For commands that read a folder. The address is not repeated, as it may hold a password."""
    if is_postgres(target):
        raise InvalidInput(expected="the folder of a live index", got="the address of a database", hint=instead)


def marked(kind: type[Any], mark: type[M]) -> dict[str, M]:
    """The fields of a dataclass whose annotation has a mark of this class, and their marks."""
    types = get_type_hints(kind, include_extras=True)
    return {name: found for name, type in types.items() for found in get_args(type)[1:] if isinstance(found, mark)}
