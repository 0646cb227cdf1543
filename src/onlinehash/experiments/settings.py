"""`Setting`: all that decides a result. Its name is made of its content, so equal runs of two plans are one run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from onlinehash.experiments import methods
from onlinehash.experiments.toml import Conditions, Parameters

#: Raised when the meaning of a setting changes, so that results of the older meaning are not taken for new ones.
EDITION = 1

if TYPE_CHECKING:
    from onlinehash.learners.base import Learner


@dataclass(frozen=True)
class Setting:
    """One run.

    data, fingerprint, role: the set's name, a sum of its content, and what it is used for.
    conditions: what the protocol asks: `protocol`, `truth`, `pairs`, ...
    method, parameters: the learner; `features` is None or the arguments of `RbfAnchors`.
    """

    data: str
    fingerprint: str
    role: str
    conditions: Conditions
    method: str
    parameters: Parameters
    n_bits: int
    seed: int

    @cached_property
    def name(self) -> str:
        """The same for the same content, on every machine."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}  # `asdict` would copy it deeply
        text = json.dumps([EDITION, content], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def learner(self, **chosen: Any) -> Learner:
        """A new learner of this setting, which has seen nothing; with parameters that were chosen besides."""
        from onlinehash.features import RbfAnchors

        parameters = {**self.parameters, **chosen}
        if parameters.get("features") is not None:
            parameters["features"] = RbfAnchors(**parameters["features"])
        learner: Learner = methods.find(self.method)(n_bits=self.n_bits, random_state=self.seed, **parameters)
        return learner


def setting_of(document: Mapping[str, Any]) -> Setting:
    """The setting that `asdict` turned into this document."""
    return Setting(**document)
