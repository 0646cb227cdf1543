"""`onlinehash serve`: runs a service until it is stopped."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from onlinehash.cli import output, parameters
from onlinehash.cli.options import is_postgres
from onlinehash.cli.serve_options import Options
from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.progress import progress_bar

if TYPE_CHECKING:
    from onlinehash.index.api import VectorIndex
    from onlinehash.serve.service import Service
    from onlinehash.serve.settings import Access, Limits

#: Where the token is read from: a command line can be seen by everybody on the machine.
TOKEN = "ONLINEHASH_TOKEN"


#: How long a thread may go on while the event loop wants to; Python's own 0.005 would be added to every answer beside a
#: filter that is evaluated.
SWITCH_SECONDS = 0.0005


def serve(options: Options, choices: parameters.Choices, as_json: bool) -> None:
    """Serve until a stop signal."""
    from onlinehash.serve import allocator, logs, processes
    from onlinehash.serve.settings import Access

    _check(options, choices)
    is_reader = processes.WRITER in os.environ
    access = Access(options.host, os.environ.get(TOKEN) or None, options.insecure, tuple(options.allow_host or ()))
    limits = _limits(options.limit, access)
    logs.set_up(options.log_requests)
    allocator.keep_little()
    sys.setswitchinterval(SWITCH_SECONDS)
    with ExitStack() as stack:
        if is_reader:
            processes.end_with_writer()
        elif options.readers:
            stack.enter_context(processes.shared_metrics())
        try:
            from onlinehash.serve import server
            from onlinehash.serve.app import make_app
        except ModuleNotFoundError as error:
            raise MissingExtra("onlinehash serve", error.name or "a package", "serve") from None
        listener = processes.inherited_listener() if is_reader else server.listen(options.host, options.port)
        stack.callback(listener.close)
        with nullcontext() if is_reader else progress_bar():  # the demo learns first
            service = _service(options, choices, limits)
        app = make_app(service, access, os.environ.get(processes.WRITER))
        sockets = [listener]
        n_readers = 0 if is_reader else options.readers
        readers = stack.enter_context(processes.readers(n_readers, listener, options.of_reader()))
        if n_readers:
            sockets.append(readers.socket)

        def started() -> None:
            processes.spare_the_collector()
            readers.start()
            if is_reader:
                logs.service.info("a reader takes requests")
            else:
                _announce(server.address(listener), service, options.target, access, as_json)

        def stopping() -> None:
            readers.retire()
            server.exit_within(limits.stop_seconds)

        server.make_server(app, service, started, stopping).run(sockets)


def _announce(url: str, service: Service, target: str, access: Access, as_json: bool) -> None:
    from onlinehash.consume.address import without_login
    from onlinehash.live.texts import option

    index = service.index
    missing = None if index.embedder is not None else index.embedded_by
    if as_json:
        path = None if index.path is None else str(index.path)
        lacks = None if missing is None else missing._asdict()
        output.print_json({"url": url, "items": len(index), "path": path, "missing_embedder": lacks})
        return
    where = index.path or (without_login(target) if is_postgres(target) else "memory")
    print(f"onlinehash: {len(index):,} items in {where}, {'with' if access.token else 'no'} token")
    if missing is not None:
        print(
            f"Its vectors come from the embedder {missing.name!r}, which was not given: texts are refused; give "
            f"{option(missing)} to search by text."
        )
    print(f"Open {url} in a browser; Ctrl-C stops.", flush=True)


def _check(options: Options, choices: parameters.Choices) -> None:
    """Refuse contradictory options."""
    options.check()
    typed = [name for name, value in vars(choices).items() if value is not None]
    if typed and (options.demo or options.read_only):
        raise InvalidInput(f"--{typed[0]} is not allowed here: the index already has its learner.")


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
            raise InvalidInput(expected=f"a number for --limit {name}", got=repr(value)) from None
    return Limits(**values)


def _service(options: Options, choices: parameters.Choices, limits: Limits) -> Service:
    from onlinehash.serve import pictures
    from onlinehash.serve.service import Service

    if options.demo:
        from onlinehash.serve import demo

        return (demo.text_service if options.target == "text" else demo.digits_service)(limits=limits, seed=0)
    found = None if options.pictures is None else pictures.parse(options.pictures)
    # Before the index: a file that cannot be read leaves no folder behind.
    held_out = None if options.held_out is None else _held_out(options.held_out)
    index = _index(options, choices)
    service = Service(index, limits=limits, label=options.label, pictures=found, read_only=options.read_only)
    if held_out is not None:
        service.measure_quality(*held_out)
    if options.compare:
        service.compare_methods()
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
        return LiveIndex.open(
            options.target, read_only=True, device=options.device, precision=options.precision, embed=embed
        )
    policy = parameters.policy_of(options.refresh)
    if options.memory:
        return parameters.make_index(choices, None, policy, options.sync, options.device, embed)
    given = (options.target, options.schema, choices, policy, options.sync, options.device, embed)
    return parameters.open_index(*given, follow=True, precision=options.precision)
