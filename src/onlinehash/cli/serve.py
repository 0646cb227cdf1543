"""`onlinehash serve`: runs a service until it is stopped."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from onlinehash.cli import output, parameters
from onlinehash.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from onlinehash.index.api import Policy, VectorIndex
    from onlinehash.serve.service import Service
    from onlinehash.serve.settings import Access, Limits

#: Where the token is read from: a command line can be seen by everybody on the machine.
TOKEN = "ONLINEHASH_TOKEN"


#: What may follow --demo, in place of a folder; `items` is what is there where nothing is said.
DEMOS = ("items", "digits", "text")

#: How long a thread may go on while the event loop wants to; Python's own 0.005 would be added to every answer beside a
#: filter that is evaluated.
SWITCH_SECONDS = 0.0005


@dataclass(frozen=True)
class Options:
    """The options, except those of the learner."""

    target: str
    schema: str | None
    memory: bool
    demo: bool
    read_only: bool
    readers: int
    host: str
    port: int
    insecure: bool
    allow_host: list[str] | None
    refresh: str | None
    sync: str
    device: str
    label: str | None
    pictures: str | None
    held_out: str | None
    compare: bool
    embed: str | None
    limit: list[str] | None
    log_requests: bool


def serve(options: Options, choices: parameters.Choices, as_json: bool) -> None:
    """Serve until a stop signal."""
    try:
        from onlinehash.serve import logs, processes, running
        from onlinehash.serve.app import make_app
        from onlinehash.serve.settings import Access
    except ModuleNotFoundError as error:
        raise MissingExtra("onlinehash serve", error.name or "a package", "serve") from None
    _check(options, choices)
    is_reader = processes.WRITER in os.environ
    access = Access(options.host, os.environ.get(TOKEN) or None, options.insecure, tuple(options.allow_host or ()))
    limits = _limits(options.limit, access)
    logs.set_up(options.log_requests)
    sys.setswitchinterval(SWITCH_SECONDS)
    with ExitStack() as stack:
        if is_reader:
            processes.end_with_writer()
        elif options.readers:
            stack.enter_context(processes.shared_numbers())
        listener = processes.inherited_listener() if is_reader else running.listen(options.host, options.port)
        stack.callback(listener.close)
        service = _service(options, choices, limits)
        app = make_app(service, access, os.environ.get(processes.WRITER))
        sockets = [listener]
        n_readers = 0 if is_reader else options.readers
        readers = stack.enter_context(processes.readers(n_readers, listener, _for_readers(options)))
        if n_readers:
            sockets.append(readers.socket)

        def started() -> None:
            readers.start()
            if is_reader:
                logs.service.info("a reader takes requests")
            else:
                _announce(running.address(listener), service, options.target, access, as_json)

        def stopping() -> None:
            readers.retire()
            running.exit_within(limits.stop_seconds)

        running.server(app, service, started, stopping).run(sockets)


def _announce(url: str, service: Service, target: str, access: Access, as_json: bool) -> None:
    from onlinehash.consume.address import without_login

    if as_json:
        path = service.index.path
        output.print_json({"url": url, "items": len(service.index), "path": None if path is None else str(path)})
        return
    where = service.index.path or (without_login(target) if parameters.is_postgres(target) else "memory")
    print(f"onlinehash: {len(service.index):,} items in {where}, {'with' if access.token else 'no'} token")
    print(f"Open {url} in a browser; Ctrl-C stops.", flush=True)


def _check(options: Options, choices: parameters.Choices) -> None:
    """Refuse contradictory options."""
    others = options.memory or options.read_only or options.readers or options.device != "cpu" or options.embed
    if options.demo and others:
        raise InvalidInput(
            "--demo brings its own items and cannot be combined with --memory, --read-only, --readers, --device or "
            "--embed."
        )
    if options.demo and options.target not in DEMOS:
        raise InvalidInput(f"there is no demo {options.target!r}; use --demo (digits) or --demo text.")
    if options.memory and (options.read_only or options.readers):
        raise InvalidInput(
            "--read-only and --readers need a folder: no other process can see an index in memory (--memory)."
        )
    if parameters.is_postgres(options.target) and not (options.memory or options.demo):
        for name, is_given in {
            "--read-only": options.read_only,
            "--readers": options.readers,
            "--sync": options.sync != "full",
            "--device cuda": options.device != "cpu",
            "--held-out": options.held_out,
        }.items():
            if is_given:
                raise InvalidInput(f"{name} needs a folder, got a PostgreSQL address.")
    typed = [name for name, value in vars(choices).items() if value is not None]
    if typed and (options.demo or options.read_only):
        raise InvalidInput(f"--{typed[0]} is not allowed here: the index already has its learner.")
    if options.read_only and (options.refresh or options.held_out or options.compare):
        raise InvalidInput(
            "--refresh, --held-out and --compare need a service that makes changes, and cannot be "
            "combined with --read-only."
        )
    if options.held_out and not options.label:
        raise InvalidInput("--held-out needs --label FIELD, the payload field that holds an item's label.")


def _limits(typed: list[str] | None, access: Access) -> Limits:
    """Parse NAME=VALUE over the defaults; a service that other machines reach gets a rate limit."""
    from onlinehash.serve.settings import Limits

    known: dict[str, Any] = {field.name: type(field.default) for field in fields(Limits)}
    values: dict[str, Any] = {} if access.is_loopback else {"rate": 1000.0}
    for text in typed or []:
        name, _, value = text.partition("=")
        if name not in known:
            raise InvalidInput(f"--limit takes one of {', '.join(known)}, got {name!r}.")
        try:
            values[name] = known[name](value)
        except ValueError:
            raise InvalidInput(f"expected a number for --limit {name}, got {value!r}.") from None
    return Limits(**values)


def _service(options: Options, choices: parameters.Choices, limits: Limits) -> Service:
    from onlinehash.serve import pictures
    from onlinehash.serve.service import Service

    if options.demo:
        from onlinehash.serve import showcase

        return (showcase.text_service if options.target == "text" else showcase.digits_service)(limits=limits, seed=0)
    found = None if options.pictures is None else pictures.parse(options.pictures)
    # Before the index: a file that cannot be read leaves no folder behind.
    held_out = None if options.held_out is None else _held_out(options.held_out)
    index = _index(options, choices)
    service = Service(index, limits=limits, label=options.label, pictures=found, read_only=options.read_only)
    if held_out is not None:
        from onlinehash.serve.monitor import Monitor

        service.monitor = Monitor(service, *held_out)
    if options.compare:
        from onlinehash.serve.rivals import Rivals

        service.rivals = Rivals(service)
    return service


def _held_out(path: str) -> tuple[Any, Any]:
    """Vectors and their labels."""
    from onlinehash import datasets

    found = datasets.load(path)
    if found.y is None:
        raise InvalidInput(f"{path} has no labels.")
    return found.X, found.y


def _index(options: Options, choices: parameters.Choices) -> VectorIndex:
    """The index in the folder or in PostgreSQL, or a new one."""
    from onlinehash.live.index import LiveIndex

    embed = parameters.load_embedder(options.embed)
    if options.read_only:
        return LiveIndex.open(options.target, read_only=True, device=options.device, embed=embed)
    policy = None if options.refresh is None else _policy(options.refresh)
    if options.memory:
        return parameters.make_index(choices, None, policy, options.sync, options.device, embed)
    return parameters.open_index(options.target, options.schema, choices, policy, options.sync, options.device, embed)


def _policy(text: str) -> Policy:
    """`NAME` or `NAME:NUMBER[,NUMBER]`, as in when_changed:0.05 or every:50."""
    from onlinehash.live import policies as refresh

    name, _, numbers = text.partition(":")
    kinds = {"always", "by_hand", "every", "when_changed", "by_mutual_information", "budget"}
    if name not in kinds:
        raise InvalidInput(f"--refresh takes one of {', '.join(sorted(kinds))}, got {name!r}.")
    try:
        values = [float(number) if "." in number else int(number) for number in numbers.split(",") if number]
        policy: Policy = getattr(refresh, name)(*values)
    except InvalidInput:
        raise
    except (TypeError, ValueError):
        raise InvalidInput(f"expected a policy such as every:50 for --refresh, got {text!r}.") from None
    return policy


def _for_readers(options: Options) -> list[str]:
    """The command line of a reader: access options, where to search, and --read-only."""
    made = ["serve", options.target, "--read-only", "--host", options.host, "--device", options.device]
    made += ["--insecure"] if options.insecure else []
    made += ["--log-requests"] if options.log_requests else []
    for name, values in (("--allow-host", options.allow_host), ("--limit", options.limit)):
        made += [part for value in values or [] for part in (name, value)]
    for name, value in (("--label", options.label), ("--pictures", options.pictures), ("--embed", options.embed)):
        made += [name, value] if value is not None else []
    return made
