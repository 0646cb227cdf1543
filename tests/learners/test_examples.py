"""The examples in docstrings run, and say what really comes out."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from onlinehash.evaluate import ledger
from onlinehash.learners import base, multi_model, online_hashing


@pytest.mark.parametrize("module", [base, multi_model, online_hashing, ledger], ids=lambda module: module.__name__)
def test_examples_of_docstrings(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
