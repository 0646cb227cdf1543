"""The generated part of the reference: names, commands, routes, metrics and errors, from the code itself.

Nothing is written down twice: names come from the packages' `__all__`, commands from the command line, routes and
metrics from a service that is started for a moment.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import onlinehash

#: What users meet besides the names of `onlinehash`: the contracts of all indexes and of all learners.
CONTRACTS = {
    "VectorIndex": "onlinehash.index.api.VectorIndex",
    "Learner": "onlinehash.learners.base.Learner",
    "RemoteIndex": "onlinehash.client.remote_index.RemoteIndex",
    "AsyncRemoteIndex": "onlinehash.client.async_remote_index.AsyncRemoteIndex",
}
#: Classes whose inherited methods are worth repeating on their own page.
WITH_INHERITED = ("LiveIndex", "FlatIndex", "MultiIndex", "GpuIndex")

#: Methods by which parts of the library work together, by the class that has them first. They check nothing, or hand
#: out what must not be changed: no page describes them.
BETWEEN_PARTS = {
    "Classes": "get_state set_state",
    "Codes": "checked from_planes from_rows",
    "Embedding": "check_made",
    "Encoder": "bits_of card_signs codes_of encode_by_card encode_into",
    "GpuIndex": "check_addition check_change check_removal planes_by",
    "Index": "append bury bury_at codes_of compact follow fork from_state get_state items nearest put recoded"
    " wants_compaction with_encoder",
    "LabelPairing": "get_state set_state",
    "Learner": "check_finite check_free check_pairs learn_pairs_by origin owned_by relearn_pairs",
    "OnlineHashing": "model",
    "RbfAnchors": "check fork get_state map_rows set_state",
}

#: Classes with more methods than this have a list of them at the top.
FEW_MEMBERS = 6
MEMBERS = "Methods and properties:"


def write(folder: Path, made: dict[str, str]) -> None:
    """Write pages into a folder; those that stay the same keep their time, so that they are not built again."""
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in made:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def pages() -> dict[str, str]:
    """Every generated page, by its path."""
    document, metrics = from_a_service()
    return {
        **api_pages(),
        "commands.md": commands_page(),
        "routes.md": routes_page(document),
        "metrics.md": metrics_page(metrics),
        "errors.md": errors_page(),
    }


# ------------------------------------------------------------------ Python names


def public_names() -> list[str]:
    """Names of `onlinehash`, those that need an extra included."""
    return [name for name in dir(onlinehash) if not name.startswith("_")]


def described_things() -> dict[str, Any]:
    """Everything that has an entry of its own, by its name below `onlinehash`: packages, and what is in them."""
    found: dict[str, Any] = {name: getattr(onlinehash, name) for name in public_names()}
    found |= {name: thing_at(path) for name, path in CONTRACTS.items()}
    waiting = [(name, thing) for name, thing in found.items() if isinstance(thing, ModuleType)]
    while waiting:
        room, module = waiting.pop()
        inside = {f"{room}.{name}": getattr(module, name) for name in room_names(module)}
        found |= inside
        waiting += [(name, thing) for name, thing in inside.items() if isinstance(thing, ModuleType)]
    return found


def between_parts(cls: type) -> set[str]:
    """The methods of a class that no page describes."""
    return {name for base in cls.__mro__ for name in BETWEEN_PARTS.get(base.__name__, "").split()}


def api_pages() -> dict[str, str]:
    """A page for each class, function and package of `onlinehash`, and a list of all of them."""
    things: dict[str, Any] = {name: getattr(onlinehash, name) for name in public_names()}
    rooms = {name: thing for name, thing in things.items() if isinstance(thing, ModuleType)}
    alone = {name: f"onlinehash.{name}" for name in things if name not in rooms} | CONTRACTS
    made = {f"api/{name}.md": thing_page(name, path) for name, path in alone.items()}
    made |= {f"api/{name}.md": room_page(f"onlinehash.{name}", room) for name, room in rooms.items()}
    return made | {"api/index.md": api_index(alone, rooms)}


def api_index(alone: dict[str, str], rooms: dict[str, ModuleType]) -> str:
    found = {name: thing_at(path) for name, path in alone.items()}
    learner = found["Learner"]
    learners = {n: t for n, t in found.items() if inspect.isclass(t) and issubclass(t, learner)}
    indexes = {n: t for n, t in found.items() if n.endswith("Index") or n in ("connect", "connect_async", "Hits")}
    rest = {n: t for n, t in found.items() if n not in learners | indexes}
    parts = [
        "# Python API\n\nEvery public name. `import onlinehash` loads nothing heavy; a name is loaded when it is first"
        " used.\n",
        *(section(*part) for part in (("Indexes", indexes), ("Learners", learners), ("Codes, models and files", rest))),
        section("Packages", rooms),
    ]
    names = "\n".join(sorted([*alone, *rooms], key=str.lower))
    return "\n".join(parts) + f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{names}\n```\n"


def section(title: str, things: dict[str, Any]) -> str:
    rows = (f"| [`{name}`]({name}.md) | {cell(summary(thing))} |" for name, thing in things.items())
    return f"## {title}\n\n| name | |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def thing_page(name: str, path: str) -> str:
    """A page for a class or a function; that of a large class begins with links to its methods."""
    thing = thing_at(path)
    links = [f"{{py:obj}}`{member} <{path}.{member}>`" for member in members_shown(thing, name)]
    contents = f"{MEMBERS} {', '.join(links)}.\n\n" if len(links) > FEW_MEMBERS else ""
    return f"# {name}\n\n{contents}{directive(thing, path)}"


def members_shown(thing: Any, name: str) -> list[str]:
    """The public methods and properties of a class that its page describes."""
    if not inspect.isclass(thing):
        return []
    hidden = between_parts(thing)
    found = [m for m in dir(thing) if not m.startswith("_") and m not in hidden and hasattr(thing, m)]
    described = [member for member in found if inspect.getdoc(getattr(thing, member))]
    kinds = [member for member in described if not isinstance(getattr(thing, member), str | int | float | tuple | dict)]
    return [member for member in kinds if name in WITH_INHERITED or member in vars(thing)]


def room_page(path: str, room: ModuleType) -> str:
    names = sorted(room_names(room), key=lambda name: place(getattr(room, name), name))
    parts = [f"# {path}\n\n```{{eval-rst}}\n.. automodule:: {path}\n```\n"]
    for name in names:
        parts.append(f"## {name}\n\n{directive(getattr(room, name), f'{path}.{name}')}")
    return "\n".join(parts)


def place(thing: Any, name: str) -> tuple[bool, str]:
    """Where a name stands on the page of its package: errors as they are defined, parents first, then by letters."""
    is_class = inspect.isclass(thing)
    return not is_class, "" if is_class and issubclass(thing, BaseException) else name.lower()


def room_names(room: ModuleType) -> list[str]:
    """What a package says it has, or what a module defines."""
    defined = [name for name, thing in vars(room).items() if getattr(thing, "__module__", None) == room.__name__]
    return list(getattr(room, "__all__", [name for name in defined if not name.startswith("_")]))


def thing_at(path: str) -> Any:
    """The object at a dotted path."""
    thing, rest = onlinehash, path.split(".")[1:]
    for depth, name in enumerate(rest, 1):
        try:
            thing = getattr(thing, name)
        except AttributeError:
            thing = __import__(".".join(["onlinehash", *rest[:depth]]), fromlist=[name])
    return thing


def directive(thing: Any, path: str) -> str:
    """How autodoc shows an object."""
    name = path.rpartition(".")[2]
    options = [":members:"]
    if isinstance(thing, ModuleType):
        kind = "automodule"
    elif inspect.isclass(thing) and issubclass(thing, BaseException):
        kind, options = "autoexception", [":show-inheritance:"]
    elif inspect.isclass(thing):
        kind = "autoclass"
        options += [":special-members: __len__, __iter__, __contains__"] * (path == CONTRACTS["VectorIndex"])
        options += [":inherited-members: object"] * (name in WITH_INHERITED)
        options += [f":exclude-members: {', '.join(sorted(between_parts(thing)))}"] * bool(between_parts(thing))
    elif callable(thing):
        kind, options = "autofunction", []
    else:
        keys = ", ".join(f"``{key}``" for key in thing)
        return f"```{{eval-rst}}\n.. py:data:: {path}\n   :type: {type(thing).__name__}\n\n   Its keys: {keys}.\n```\n"
    lines = "".join(f"   {option}\n" for option in options)
    return f"```{{eval-rst}}\n.. {kind}:: {path}\n{lines}```\n"


def summary(thing: Any) -> str:
    """The first sentence of a docstring."""
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


# ------------------------------------------------------------------ the command line


def every_command() -> Iterator[str]:
    """The full names of all commands, from the application itself."""
    from typer.main import get_command

    from onlinehash.cli.app import app

    def walk(command: Any, name: str) -> Iterator[str]:
        yield name
        for part, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {part}")

    yield from walk(get_command(app), "onlinehash")


#: Wide enough for the whole summary of each command.
HELP = {"terminal_width": 104, "max_content_width": 104}


def help_of(command: str) -> str:
    """What `--help` prints."""
    from typer.testing import CliRunner

    from onlinehash.cli.app import app

    done = CliRunner().invoke(app, [*command.split()[1:], "--help"], prog_name="onlinehash", **HELP)
    return done.output.strip()


def commands_page() -> str:
    parts = [
        "# Commands and options\n\nEvery command with its arguments and options, as `--help` prints them. [The command"
        " line](../command-line.md) explains them with examples, and says what is read and written.\n",
        *(f"## `{name}`\n\n```text\n{help_of(name)}\n```\n" for name in every_command()),
    ]
    return "\n".join(parts)


# ------------------------------------------------------------------ the service


def from_a_service() -> tuple[dict[str, Any], str]:
    """The OpenAPI document and the metrics of a service that runs for a moment."""
    import httpx

    from onlinehash import LiveIndex, serve

    with serve.background(LiveIndex(n_bits=16)) as url:
        document = httpx.get(f"{url}/openapi.json", timeout=60)  # a busy machine takes its time
        return document.json(), httpx.get(f"{url}/metrics", timeout=60).text


def routes_page(document: dict[str, Any]) -> str:
    parts = [
        "# Routes\n\nEvery route of the service, from its OpenAPI document (`/openapi.json`). [The service](../http.md)"
        " has a curl line for each of them, the errors, and the limits.\n"
    ]
    schemas = document["components"]["schemas"]
    for path, operations in sorted(document["paths"].items()):
        for method, operation in operations.items():
            parts.append(f"## `{method.upper()} {path}`\n\n{what_it_does(operation)}\n")
            rows = [
                (p["name"], f"{p['in']}, {type_of(p['schema'])}", meaning(p | {"default": p["schema"].get("default")}))
                for p in operation.get("parameters", [])
            ]
            content = operation.get("requestBody", {}).get("content", {})
            body = named_schema(content.get("application/json", {}).get("schema", {}), schemas)
            required = body.get("required", [])
            rows += [
                (name, type_of(field), meaning(field | {"required": name in required}))
                for name, field in body.get("properties", {}).items()
            ]
            if content:
                kinds = ", ".join(f"`{kind}`" for kind in content)
                parts.append(f"Body ({kinds}). {body.get('description', '')}\n")
            if rows:
                cells = (f"| `{name}` | {cell(kind)} | {cell(text)} |" for name, kind, text in rows)
                parts.append("| field | type | |\n| --- | --- | --- |\n" + "\n".join(cells) + "\n")
            parts.append(answer_of(operation, schemas))
    return "\n".join(parts)


def what_it_does(operation: dict[str, Any]) -> str:
    """Summary and description, without saying the same twice."""
    summary, text = operation["summary"], described(operation)
    return text if text.split()[:1] == summary.split()[:1] else f"{summary}. {text}"


def meaning(field: dict[str, Any]) -> str:
    """What a field means, its default, and whether it is required."""
    default = field.get("default")
    ends = [f"Default: `{json.dumps(default)}`."] * (default is not None) + ["Required."] * bool(field.get("required"))
    return " ".join([described(field), *ends])


def answer_of(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    """What a route answers with if all is well: the status, and the fields of JSON."""
    status, answer = next((s, r) for s, r in operation["responses"].items() if s.startswith("2"))
    content = answer.get("content", {})
    body = named_schema(content.get("application/json", {}).get("schema", {}), schemas)
    fields = ", ".join(f"`{name}` ({type_of(field)})" for name, field in body.get("properties", {}).items())
    kinds = "" if fields else ", ".join(f"`{kind}`" for kind in content)
    words = " ".join(body.get("description", "").split())
    return (
        " ".join(part for part in (f"Answer: {status}.", words, f"Fields: {fields}." if fields else kinds) if part)
        + "\n"
    )


def described(thing: dict[str, Any]) -> str:
    """A description; one of alternatives, or what a list consists of, may have it."""
    if "description" in thing:
        return str(thing["description"])
    parts = [*thing.get("anyOf", []), *([thing["items"]] if thing.get("items") else [])]
    return " ".join(dict.fromkeys(filter(None, map(described, parts))))


def named_schema(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def type_of(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    return f"list of {type_of(schema['items'])}" if kind == "array" and schema.get("items") else str(kind)


def metric_families(text: str) -> dict[str, tuple[str, str]]:
    """Kind and meaning of each metric, from Prometheus's text format; the times of creation are left out."""
    helps = dict(re.findall(r"^# HELP (\w+) (.*)$", text, flags=re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, flags=re.MULTILINE))
    return {name: (kinds[name], helps[name]) for name in helps if not name.endswith("_created")}


def metrics_page(text: str) -> str:
    rows = (f"| `{name}` | {kind} | {cell(words)} |" for name, (kind, words) in metric_families(text).items())
    return (
        "# Metrics\n\n`GET /metrics` answers in Prometheus's text format. With several processes, each answers for all"
        " of them. `onlinehash consume` has [metrics of its own](../../how-to/streams.md#metrics).\n\n"
        "| metric | kind | |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


# ------------------------------------------------------------------ errors


def every_error() -> list[type[BaseException]]:
    """The tree of errors, parents first."""
    from onlinehash import features  # defines the one error that is heavy to load
    from onlinehash.errors import OnlineHashError

    assert features

    def walk(cls: type[BaseException]) -> Iterator[type[BaseException]]:
        yield cls
        for child in cls.__subclasses__():
            if child.__module__.startswith("onlinehash."):
                yield from walk(child)

    return list(dict.fromkeys(walk(OnlineHashError)))


def errors_page() -> str:
    rows, answers = [], []
    for cls in every_error():
        words = cell(summary(cls))
        if cls.__module__.startswith("onlinehash.serve"):
            answers.append(f"| `{cls.__name__}` | {words} | {cls.http_status} |")
            continue
        kinds = (base.__name__ for base in cls.__bases__ if not base.__module__.startswith("onlinehash"))
        also = ", ".join(f"`{name}`" for name in kinds if name != "Exception")
        rows.append(f"| `{cls.__name__}` | {also} | {words} | {cls.http_status} | {cls.exit_code} |")
    return (
        "# Errors\n\nAll errors derive from `onlinehash.errors.OnlineHashError`. A message is one sentence that says"
        " what is wrong and what to do. The same error has a class in Python, a status over HTTP"
        " ([all statuses](../http.md#errors)), and an exit code on the command line"
        " ([all exit codes](../command-line.md#errors)).\n\n"
        "| class | is also a | when | HTTP status | exit code |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(rows)
        + "\n\n## Only over HTTP\n\nA service answers with these as well, in the field `error`; the client raises the"
        " nearest of the classes above.\n\n| error | when | HTTP status |\n| --- | --- | --- |\n"
        + "\n".join(answers)
        + "\n"
    )


def cell(text: str) -> str:
    """Text that may stand in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
