"""One tree of errors, as the module draws it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from sklearn.exceptions import NotFittedError

from onlinehash import OnlineHashing, errors
from onlinehash.features import NotFitted

TREE = {
    "InvalidInput": ("OnlineHashError", ValueError),
    "InvalidType": ("InvalidInput", TypeError),
    "InvalidParameter": ("InvalidInput", ValueError),
    "NotIncremental": ("InvalidInput", AttributeError),
    "NotSupported": ("InvalidInput", AttributeError),
    "UnknownMethod": ("OnlineHashError", KeyError),
    "UnknownId": ("OnlineHashError", KeyError),
    "NotReady": ("OnlineHashError", ValueError),
    "Diverged": ("OnlineHashError", ArithmeticError),
    "FormatError": ("OnlineHashError", ValueError),
    "RefreshCancelled": ("OnlineHashError", Exception),
    "StorageError": ("OnlineHashError", OSError),
    "MissingExtra": ("OnlineHashError", ImportError),
    "ServiceUnavailable": ("OnlineHashError", ConnectionError),
    "Unauthorized": ("OnlineHashError", PermissionError),
}


def classes() -> dict[str, type]:
    return {name: value for name, value in vars(errors).items() if isinstance(value, type)}


def test_each_error_is_also_a_built_in_one() -> None:
    assert set(classes()) == {*TREE, "OnlineHashError"}
    for name, (parent, builtin) in TREE.items():
        assert issubclass(classes()[name], classes()[parent])
        assert issubclass(classes()[name], builtin)


def test_each_has_an_exit_code_and_a_status() -> None:
    for cls in classes().values():
        assert 1 <= cls.exit_code <= 125
        assert 400 <= cls.http_status < 600
    of_input = ("InvalidType", "InvalidParameter", "NotIncremental", "NotSupported")
    codes = [cls.exit_code for name, cls in classes().items() if name not in of_input]
    assert len(set(codes)) == len(codes) - 2, "only bad input and unknown names share theirs"


def test_not_fitted_is_scikit_learns_too() -> None:
    assert issubclass(NotFitted, errors.NotReady)
    assert issubclass(NotFitted, NotFittedError)
    with pytest.raises(NotFittedError, match="has seen no data yet"):
        OnlineHashing().transform([[1.0]])


def test_installation_is_always_from_a_clone() -> None:
    """No index of packages has ours, and whoever takes the name there would be installed in its place."""
    root = Path(__file__).parents[1]
    pages = [root / "README.md", root / "CHANGELOG.md", *(root / "docs").rglob("*.md")]
    files = [*pages, *(root / "src").rglob("*.py")]
    by_name = re.compile(r"pip install ['\"]?onlinehash|['\"]onlinehash\[")
    assert [file.relative_to(root) for file in files if by_name.search(file.read_text("utf-8"))] == []


def test_an_error_is_made_of_its_parts_and_keeps_them() -> None:
    error = errors.InvalidInput(expected="a number", got="'x'", hint="convert it")
    for same in (error, pickle.loads(pickle.dumps(error))):
        assert same.message == str(same) == "expected a number, got 'x'; convert it."
        assert (same.expected, same.got, same.hint) == ("a number", "'x'", "convert it")
    assert str(errors.InvalidInput(expected="a number", got="'x'")) == "expected a number, got 'x'."
