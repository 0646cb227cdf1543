"""What tests need beside Python, and where it is not there."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import NoReturn

import pytest


def must_run() -> bool:
    """Whether everything can be installed here, so that what is missing is a fault."""
    return bool(os.environ.get("ONLINEHASH_MUST_RUN"))


def missing(what: str, remedy: str = "`make servers` installs it") -> NoReturn:
    """A test that needs what this machine lacks is skipped, saying what helps; where it must run, it fails."""
    reason = f"there is no {what} here; {remedy}"
    if must_run():
        pytest.fail(reason)
    pytest.skip(reason)


def optional(module: str) -> None:
    """A test that needs a library too large for the dev dependencies is skipped; `make frameworks` runs it."""
    if find_spec(module) is None:
        lacking(module)


def lacking(library: str) -> NoReturn:
    """The same, once it is known that the library is not there."""
    reason = f"there is no {library} here; `make frameworks` installs it and runs these tests"
    if os.environ.get("ONLINEHASH_FRAMEWORKS"):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)
