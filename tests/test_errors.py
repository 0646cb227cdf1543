"""One tree of errors, as the module draws it."""

from __future__ import annotations

import ast
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


@pytest.mark.parametrize("name", TREE)
def test_each_error_is_also_a_built_in_one(name: str) -> None:
    parent, builtin = TREE[name]
    assert issubclass(classes()[name], classes()[parent])
    assert issubclass(classes()[name], builtin)


def test_the_drawing_is_complete() -> None:
    assert set(classes()) == {*TREE, "OnlineHashError"}
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__))
    assert drawn == {*TREE, "NotFitted"}


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


def test_messages_print_as_they_are() -> None:
    assert str(errors.UnknownMethod("expected a method, got 'X'.")) == "expected a method, got 'X'."
    message = str(errors.MissingExtra("reading parquet files", "pyarrow", "parquet"))
    assert message == (
        "reading parquet files needs pyarrow, which is not installed; run in your clone of onlinehash: "
        "pip install '.[parquet]'"
    )


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


@pytest.mark.parametrize("name", sorted({*TREE} - {"MissingExtra"}))
def test_each_error_takes_parts_beside_its_message(name: str) -> None:
    error = classes()[name]("a sentence.", expected="this", got="that")
    assert (str(error), error.expected, error.got, error.hint) == ("a sentence.", "this", "that", None)
    assert classes()[name]("a sentence.").expected is None
    with pytest.raises(TypeError):
        classes()[name]("a sentence.", unknown="x")


def test_where_begins_the_message() -> None:
    error = errors.FormatError(where="a.npy", expected="2 rows", got="3", hint="cut it")
    assert str(error) == "a.npy: expected 2 rows, got 3; cut it."
    assert (error.expected, error.got, error.hint) == ("2 rows", "3", "cut it")


def test_an_error_about_a_value_has_its_parts() -> None:
    """A message "expected ..., got ..." is made of fields, so that a service and a program can tell them apart."""
    n_with_parts, without = 0, []
    for path in Path(errors.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and {"expected", "got"} <= {keyword.arg for keyword in call.keywords}:
                n_with_parts += 1
            elif (
                isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in {*TREE, "NotFitted"}
            ):
                message = "".join(
                    part.value if isinstance(part, ast.Constant) else "..."
                    for argument in call.args[:1]
                    for part in getattr(argument, "values", [argument])
                    if isinstance(getattr(part, "value", ""), str) or isinstance(part, ast.FormattedValue)
                )
                if re.match(r"([^:(]*: )?expected .*, got ", message):
                    without.append(f"{path.name}:{call.lineno}: {message}")
    assert n_with_parts > 200
    assert not without
