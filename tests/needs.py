"""What tests need beside Python, and where it is not there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str, remedy: str = "`make servers` installs it") -> NoReturn:
    """A test that needs what this machine lacks is skipped, saying what helps; in CI, where it must run, it fails."""
    reason = f"there is no {what} here; {remedy}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
