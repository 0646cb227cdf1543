"""The documentation inside Python's standard library: what its modules, classes and functions say of themselves.

Several thousand texts that every machine with Python has, with the module of each as its label. Sources are parsed and
never run.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from onlinehash.errors import InvalidInput

#: Modules that would be most of it and are asked for least: tests, widgets, old tools, encodings one by one.
LEFT_OUT = {"antigravity", "distutils", "encodings", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "this"}
LEFT_OUT |= {"tkinter", "turtle", "turtledemo"}
#: Characters of a text that says enough to be found, and where longer ones are cut.
SHORTEST, LONGEST = 40, 1200
#: Ends of lines within a paragraph; what is indented stays as it is.
_LINES = re.compile(r"(?<=\S)\n(?=[^\s>*\-])")
NAMED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """What something says of itself: its full name with its arguments, its text, and the module at the top."""

    title: str
    text: str
    module: str


def load() -> list[Docstring]:
    """All of them, in the order of their names; each text once."""
    folder = Path(sysconfig.get_path("stdlib"))
    found: dict[str, Docstring] = {}
    for module in sorted(sys.stdlib_module_names - LEFT_OUT):
        for path in (folder / f"{module}.py", *sorted((folder / module).rglob("*.py"))):
            parts = path.relative_to(folder).with_suffix("").parts
            names = [part for part in parts if part != "__init__"]
            if path.exists() and not any(name.startswith("_") or name in ("test", "tests") for name in names):
                for one in _of_file(path, ".".join(names)):
                    found.setdefault(one.text, one)
    if not found:
        raise InvalidInput(f"there are no sources of Python's standard library in {folder}; the demo needs them.")
    return sorted(found.values())


def _of_file(path: Path, name: str) -> Iterator[Docstring]:
    try:
        with warnings.catch_warnings(action="ignore"):  # of old spellings in the sources
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):  # sources that are wrong on purpose
        return
    yield from _of(tree, name, name.partition(".")[0])


def _of(node: ast.AST, name: str, module: str) -> Iterator[Docstring]:
    """What something says, and what is inside it and not private."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = (ast.get_docstring(node) or "").strip()
        if len(text) >= SHORTEST:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            title = f"{name}({_arguments(node)})" if is_function else name
            flowing = _LINES.sub(" ", inspect.cleandoc(text))
            cut = flowing if len(flowing) <= LONGEST else f"{flowing[:LONGEST].rsplit(' ', 1)[0]} ..."
            yield Docstring(title, cut, module)
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, NAMED) and not child.name.startswith("_"):
                yield from _of(child, f"{name}.{child.name}", module)


def _arguments(node: ast.AST) -> str:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return ", ".join(name for name in names if name not in ("self", "cls"))
