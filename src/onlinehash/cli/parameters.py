"""Creates learners and indexes from command-line options."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import onlinehash
from onlinehash.cli.options import is_postgres
from onlinehash.errors import InvalidInput, InvalidParameter
from onlinehash.features import RbfAnchors
from onlinehash.learners import registry
from onlinehash.learners.base import Learner

if TYPE_CHECKING:
    from onlinehash.embed.embedder import Embedding
    from onlinehash.index.api import Policy, VectorIndex
    from onlinehash.live.index import LiveIndex

#: Parameters that have an option of their own.
OWN_OPTIONS = {"n_bits": "--bits", "features": "--features", "random_state": "--seed"}


@dataclass(frozen=True)
class Choices:
    """The options that define a learner; None for those not given."""

    method: str | None
    bits: int | None
    features: str | None
    seed: int | None
    set: list[str] | None


def make_learner(choices: Choices) -> Learner:
    """A new learner; options not given have the method's defaults, and the seed is 0."""
    learner_class = registry.find(choices.method or registry.RECOMMENDED)
    params: dict[str, Any] = {"random_state": choices.seed or 0}
    if choices.bits is not None:
        params["n_bits"] = choices.bits
    if choices.features is not None:
        params["features"] = parse_features(choices.features)
    settings = parse_settings(choices.set or [])
    known = sorted(learner_class().get_params(deep=False).keys() - OWN_OPTIONS.keys())
    for name in settings:
        if name in OWN_OPTIONS:
            raise InvalidParameter(f"use {OWN_OPTIONS[name]} instead of --set {name}.")
        if name not in known:
            raise InvalidParameter(
                f"{learner_class.__name__} has no parameter {name!r}; --set takes one of {', '.join(known)}."
            )
    learner: Learner = learner_class(**params | settings)
    return learner


def open_index(
    target: str,
    schema: str | None,
    choices: Choices,
    policy: Policy | None = None,
    sync: str = "full",
    device: str | None = None,
    embed: Embedding | None = None,
    follow: bool = False,
    precision: str = "int8",
) -> VectorIndex:
    """The index that a command changes: in PostgreSQL, or in a folder, where a new one is made if there is none.

    With `follow`, codes in PostgreSQL are kept in memory, where they are searched.
    """
    typed = [name for name, value in vars(choices).items() if value is not None]
    if is_postgres(target):
        if typed:
            raise InvalidInput(f"--{typed[0]} is not allowed here: the index in PostgreSQL already has its learner.")
        from onlinehash.stores.postgres.index import PostgresIndex

        options: dict[str, Any] = {"schema": schema or "onlinehash", "background": True, "embed": embed}
        return PostgresIndex.open(target, policy, follow=follow, **options)
    if schema is not None:
        raise InvalidInput("--schema needs an address postgresql://..., got a folder.")
    if "://" in target:
        raise InvalidInput(expected="a folder or an address postgresql://... to write to", got="another address")
    return make_index(choices, target, policy, sync, device, embed, precision)


def make_index(
    choices: Choices,
    folder: str | None,
    policy: Policy | None = None,
    sync: str = "full",
    device: str | None = None,
    embed: Embedding | None = None,
    precision: str = "int8",
) -> LiveIndex:
    """The index in a folder, or a new one there; without a folder, one in memory.

    An existing index is continued if it has the same learner, so the same command can be repeated. Without --method,
    its own method is used, which may differ from the default.
    """
    from onlinehash.live.index import LiveIndex
    from onlinehash.live.storage import Storage

    if folder is not None and choices.method is None and Storage.exists(folder):
        if all(value is None for value in vars(choices).values()):
            return LiveIndex.open(
                folder, policy, background=True, sync=sync, precision=precision, device=device, embed=embed
            )
        choices = replace(choices, method=Storage.method(folder))
    learner = make_learner(choices)
    return LiveIndex(
        learner, policy, path=folder, background=True, sync=sync, precision=precision, device=device, embed=embed
    )


def policy_of(text: str | None) -> Policy | None:
    """`NAME` or `NAME:NUMBER[,NUMBER]`, as in when_changed:0.05 or every:50; None where nothing is said."""
    from onlinehash.live import policies as refresh

    if text is None:
        return None
    name, _, numbers = text.partition(":")
    kinds = {"always", "by_hand", "every", "when_changed", "by_mutual_information", "budget"}
    if name not in kinds:
        raise InvalidInput(f"--refresh takes one of {', '.join(sorted(kinds))}, got {name!r}.")
    try:
        values = [float(number) if "." in number else int(number) for number in numbers.split(",") if number]
        policy: Policy = getattr(refresh, name)(*values)
    except InvalidInput:
        raise
    except (TypeError, ValueError):
        raise InvalidInput(expected="a policy such as every:50 for --refresh", got=repr(text)) from None
    return policy


def load_embedder(name: str | None) -> Embedding | None:
    """The embedder of a name; the module of `module:function` may be in the folder in which the command runs."""
    if name is None:
        return None
    from onlinehash import embed
    from onlinehash.embed.embedder import is_lexical

    here, is_module = os.getcwd(), not is_lexical(name) and name.partition(":")[0] != "sentence-transformers"
    if not is_module or here in sys.path:
        return embed.load(name)
    sys.path.append(here)  # last, and only now: a folder from elsewhere must not replace modules that others need
    try:
        return embed.load(name)
    finally:
        sys.path.remove(here)


def resume(path: str, choices: Choices) -> Learner:
    """A saved learner, which has its parameters already."""
    typed = [f"--{name}" for name, value in asdict(choices).items() if value is not None]
    if typed:
        raise InvalidParameter(f"{typed[0]} cannot be combined with --resume: {path} already has its parameters.")
    learner = onlinehash.load(path)
    if not isinstance(learner, Learner):
        raise InvalidInput(expected=f"a learner in {path}", got=type(learner).__name__)
    return learner


def parse_settings(texts: list[str]) -> dict[str, Any]:
    """`name=value`, the value as JSON, or else as text."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InvalidParameter(expected="name=value", got=repr(text))
        settings[name.strip()] = _value(value)
    return settings


def parse_where(text: str | None) -> dict[str, Any] | None:
    """The filter of --where, whose conditions the index checks."""
    if text is None:
        return None
    try:
        where = json.loads(text)
    except (ValueError, RecursionError):
        where = None
    if not isinstance(where, dict):
        raise InvalidInput(expected='a JSON object such as \'{"price": {"<": 50}}\' for --where', got=repr(text[:60]))
    return where


def parse_features(text: str) -> RbfAnchors:
    """`rbf`, `rbf:300`, `rbf:300,width=1.0,normalize=true,linear=true`."""
    kind, _, rest = text.partition(":")
    anchors, _, others = rest.partition(",")
    settings = parse_settings(others.split(",")) if others else {}
    if kind != "rbf" or not settings.keys() <= {"width", "normalize", "linear"}:
        raise InvalidParameter(
            expected="features such as rbf, rbf:300 or rbf:300,width=1,normalize=true,linear=true", got=repr(text)
        )
    if anchors:
        settings["n_anchors"] = _value(anchors)
    return RbfAnchors(**settings)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
