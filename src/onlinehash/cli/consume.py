"""`onlinehash consume`: feeds a stream into an index until it is stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onlinehash.cli import output, parameters
from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.progress import progress_bar

if TYPE_CHECKING:
    from onlinehash.consume.address import Address
    from onlinehash.consume.consumer import Tally

#: Where a password is read from that the address does not have: a command line can be seen by all on the machine.
PASSWORD = "ONLINEHASH_SOURCE_PASSWORD"


@dataclass(frozen=True)
class Options:
    """The options, except those of the learner."""

    source: str
    target: str
    schema: str | None
    batch: int
    until_empty: bool
    name: str | None
    setting: list[str] | None
    metrics_port: int | None


def consume(options: Options, choices: parameters.Choices, as_json: bool) -> None:
    """Consume until a stop signal, or until nothing is left."""
    from onlinehash.consume.address import Address

    try:
        from onlinehash.consume import loop, metrics
        from onlinehash.consume.consumer import Consumer
    except ModuleNotFoundError as error:
        raise MissingExtra("onlinehash consume", error.name or "a package", "redis") from None
    address = _with_password(Address.parse(options.source))
    with ExitStack() as stack:
        source = loop.open_source(address, _settings(options.setting), options.name)
        stack.callback(source.close)
        source.check()  # before the index: a broker that is not there leaves no folder behind
        index = stack.enter_context(parameters.open_index(options.target, options.schema, choices))
        consumer = Consumer(index, source, options.batch)
        stop = stack.enter_context(_stopped_by_signals())
        port = stack.enter_context(metrics.served(consumer.tally, source.name, options.metrics_port))
        _announce(source.name, options.target, port, as_json)
        show = stack.enter_context(progress_bar())
        tally = loop.run(consumer, stop, options.until_empty, _shown(show))
    _report(tally, as_json)


def _with_password(address: Address) -> Address:
    return address if address.password else replace(address, password=os.environ.get(PASSWORD, ""))


def _settings(typed: list[str] | None) -> dict[str, str]:
    """KEY=VALUE; a message about them repeats the key only."""
    found: dict[str, str] = {}
    for text in typed or []:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise InvalidInput(expected="KEY=VALUE after --setting", got="something else")
        found[key] = value
    return found


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set: the batch is finished first."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
        if threading.current_thread() is threading.main_thread()
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _announce(source: str, target: str, port: int | None, as_json: bool) -> None:
    from onlinehash.consume.address import without_login

    url, shown = None if port is None else f"http://127.0.0.1:{port}/metrics", without_login(target)
    if as_json:
        output.print_json({"source": source, "target": shown, "metrics": url})
        return
    print(f"onlinehash: from {source} into {shown}" + (f", metrics at {url}" if url else ""))
    print("Ctrl-C stops after the batch.", flush=True)


def _shown(show: Callable[[float | None, str], None]) -> Callable[[Tally], None]:
    """Print progress, with the rate of the last second."""
    rate, then, pairs = 0.0, time.monotonic(), 0

    def tell(tally: Tally) -> None:
        nonlocal rate, then, pairs
        now = time.monotonic()
        if now - then >= 1:
            rate, then, pairs = (tally.pairs - pairs) / (now - then), now, tally.pairs
        lag = "unknown" if tally.lag is None else f"{tally.lag:,}"
        text = f"{tally.messages:,} messages, {rate:,.0f} pairs/s, lag {lag}, {tally.dead_letters:,} dead letters"
        show(None, f"{text}; waiting: {tally.problem}" if tally.problem else text)

    return tell


def _report(tally: Tally, as_json: bool) -> None:
    counts = {name: getattr(tally, name) for name in ("messages", "pairs", "items", "dead_letters", "repeats", "lag")}
    if as_json:
        output.print_json(counts)
        return
    print(
        f"{tally.messages:,} messages: {tally.pairs:,} pairs learned, {tally.items:,} items changed, "
        f"{tally.dead_letters:,} dead letters"
    )
