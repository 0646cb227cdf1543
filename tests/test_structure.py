"""How the rooms of indexes are built: nobody touches another module's private parts, and no modules import in a circle.

The other rooms still have exceptions, and are not looked at yet.
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
ROOMS = ("index", "live", "client", "stores")
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for room in ROOMS
    for path in sorted((SOURCE / "onlinehash" / room).rglob("*.py"))
}
KNOWN = "self._method._per_model"  #: Whether a learner has a step for each model; it does not say so publicly.
PUBLIC = {"_replace", "_asdict", "_fields", "_make"}  #: Of named tuples, whatever their names say.


def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def defined(module: ast.Module) -> set[str]:
    """All names and attributes that a module itself defines."""
    found = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def intrusions(module: ast.Module) -> list[str]:
    """Private names of other modules, and private attributes of objects that this module does not define."""
    own, found = defined(module), []
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            found += [] if of_self else [f"{node.lineno}: {ast.unparse(node)}"]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.lineno}: {alias.name}" for alias in node.names if is_private(alias.name)]
    return found


@pytest.mark.parametrize("name", MODULES)
def test_private_parts_are_left_alone(name: str) -> None:
    assert [found for found in intrusions(tree(name)) if not found.endswith(KNOWN)] == []


def test_intrusions_are_noticed() -> None:
    program = "from a import _b\nclass C:\n    def f(self, x):\n        self._y = x._z + self._w + x._y\n"
    assert intrusions(ast.parse(program)) == ["1: _b", "4: x._z"]


def imported(module: ast.Module) -> set[str]:
    """The modules of these rooms that one imports when it is loaded itself."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(module.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & MODULES.keys()) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif not isinstance(node, ast.FunctionDef) and not (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            waiting += ast.iter_child_nodes(node)
    return found & MODULES.keys()


def test_there_are_no_circles() -> None:
    order = TopologicalSorter({name: imported(tree(name)) - {name} for name in MODULES})
    assert set(order.static_order()) == MODULES.keys()  # it raises CycleError where there is one
