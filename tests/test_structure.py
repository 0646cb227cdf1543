"""How the package is built: no module touches the private parts of another, and no modules import in a circle."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SOURCE / "onlinehash").rglob("*.py"))
}
#: Documented by those who define them, whatever their names say: named tuples, os, sys.
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_getframe"}
#: The exceptions, by module.
KNOWN = {
    "onlinehash.client.calls": {"_per_model"},  # whether a learner has a step for each model
    "onlinehash.consume.kafka_topics": {  # codes of librdkafka's own errors, which the client documents
        "_ALL_BROKERS_DOWN",
        "_AUTHENTICATION",
        "_AUTO_OFFSET_RESET",
        "_INVALID_ARG",
        "_PARTITION_EOF",
        "_TIMED_OUT",
        "_UNKNOWN_TOPIC",
    },
    "onlinehash.experiments.flops": {"_some"},  # counts what this step of a method computes
    "onlinehash.learners.batch": {"_open", "_classes"},  # of another learner of its own class
}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def defined(nodes: list[ast.AST]) -> set[str]:
    """The attributes that the classes of a module define."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            found |= {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef | ast.ClassDef)}
            stored = (target for inner in node.body for target in ast.walk(inner) if isinstance(target, ast.Name))
            found |= {target.id for target in stored if isinstance(target.ctx, ast.Store)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            found.add(node.attr)
    return found


def is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def intrusions(module: ast.Module) -> list[str]:
    """Private names of other modules, and private attributes of objects that this module does not define."""
    nodes = list(ast.walk(module))
    own, found = defined(nodes), []
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            found += [] if is_own(node.value) else [f"{node.lineno}: {ast.unparse(node)}"]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.lineno}: {alias.name}" for alias in node.names if is_private(alias.name)]
    return found


def test_private_parts_are_left_alone() -> None:
    found = {name: intrusions(tree(name)) for name in MODULES}
    unknown = {
        name: [place for place in places if place.rpartition(".")[2] not in KNOWN.get(name, ())]
        for name, places in found.items()
    }
    assert {name: places for name, places in unknown.items() if places} == {}
    touched = {name: {place.rpartition(".")[2] for place in found[name]} for name in KNOWN}
    assert touched == KNOWN  # an exception that is none any more goes


def test_intrusions_are_noticed() -> None:
    program = "from a import _b\nclass C:\n    def f(self, x):\n        self._y = x._z + self._w + x._y\n"
    assert intrusions(ast.parse(program)) == ["1: _b", "4: x._z"]


def imported(module: ast.Module) -> set[str]:
    """The modules of the package that one imports, also inside functions, but not for type checkers alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(module.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & MODULES.keys()) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)
    return (found & MODULES.keys()) - {"onlinehash"}  # the package itself loads names when they are asked for


def test_there_are_no_circles() -> None:
    order = TopologicalSorter({name: imported(tree(name)) - {name} for name in MODULES})
    assert set(order.static_order()) == MODULES.keys()  # it raises CycleError where there is one


#: Variants of a method, one below it (docs/decisions/0025).
VARIANTS = {"BlendedPairHashing", "FastSketchingHashing"}


def test_no_base_class_is_more_than_three_deep() -> None:
    bases = {
        (name, node.name): [base.id for base in node.bases if isinstance(base, ast.Name)]
        for name in MODULES
        for node in ast.walk(tree(name))
        if isinstance(node, ast.ClassDef)
    }
    homes = {name: home for home, name in bases}

    def depth(home: str, name: str) -> int:
        """Classes of the package from this one to the top; a name means the class of its own module first."""
        above = [(home if (home, base) in bases else homes[base], base) for base in bases[home, name] if base in homes]
        return 1 + max((depth(*one) for one in above if one != (home, name)), default=0)

    depths = {key: depth(*key) for key in bases}
    assert max(depths.values()) == 5
    assert {name for (_, name), deep in depths.items() if deep > 4} == VARIANTS


def test_benchmarks_import_what_is_there() -> None:
    """They are not run every day, and would otherwise miss a name that has changed."""
    missing = []
    for path in sorted((SOURCE.parent / "benchmarks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onlinehash"):
                module = importlib.import_module(str(node.module))
                names = [alias.name for alias in node.names]
                missing += [
                    f"{path.name}: {node.module}.{name}"
                    for name in names
                    if not hasattr(module, name) and f"{node.module}.{name}" not in MODULES
                ]
    assert not missing
