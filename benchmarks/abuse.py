"""Requests that are meant to hurt: how long they take, and what they do to those who ask beside them.

python benchmarks/abuse.py filters [--n 5000]      expensive filters on an index, and an addition beside each
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import LSH, LiveIndex
from onlinehash.errors import OnlineHashError

#: Seconds after which a filter is given up.
PATIENCE = 30


class TooLong(BaseException):
    """A call has taken all the time that it is given here."""


@contextmanager
def patience() -> Iterator[None]:
    """Interrupt what takes too long."""

    def interrupt(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(ask: Callable[[], Any]) -> tuple[float, str]:
    """How long a call takes, and how it ends."""
    begin = time.perf_counter()
    try:
        with patience():
            ask()
        end = "answered"
    except OnlineHashError as error:
        end = f"refused: {error}"
    except TooLong:
        end = f"given up after {PATIENCE} s"
    return time.perf_counter() - begin, end


def filters(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Filters that are expensive, and how long an addition waits beside each."""
    n = int(options.n)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8)).astype(np.float32)
    tags = [[f"t{tag}" for tag in row] for row in rng.integers(0, 100_000, (n, 20)).tolist()]
    payloads = [{"tags": row, "name": f"n{i}", "price": i % 1000} for i, row in enumerate(tags)]
    LiveIndex(LSH(n_bits=64, random_state=0)).add(range(n), X)  # which compiles
    cases: dict[str, Any] = {
        "one tag": {"tags": "t7"},
        "1,000 wanted tags": {"tags": {"in": [f"x{i}" for i in range(1_000)]}},
        "10,000 wanted tags": {"tags": {"in": [f"x{i}" for i in range(10_000)]}},
        "1,000,000 wanted names": {"name": {"in": [f"x{i}" for i in range(1_000_000)]}},
        "10,000 integers of one hash": {"price": {"in": [i * (2**61 - 1) for i in range(10_000)]}},
        "60 unknown fields": {f"u{i}": 1 for i in range(60)},
        "1,000 unknown fields": {f"v{i}": 1 for i in range(1_000)},
        "3,000 unknown fields": {f"w{i}": 1 for i in range(3_000)},
    }
    rows = []
    print(f"{n:,} items with 20 tags each\n\n{'filter':30s} {'seconds':>8s} {'an add waits':>13s}")
    for name, where in cases.items():
        index = LiveIndex(LSH(n_bits=64, random_state=0))
        index.add(range(n), X, payloads)
        waits: list[float] = []

        def add(index: LiveIndex = index, waits: list[float] = waits) -> None:
            time.sleep(0.02)  # until the filter is at work
            begin = time.perf_counter()
            index.add([n], X[:1], payloads[:1])
            waits.append(time.perf_counter() - begin)

        adding = threading.Thread(target=add)
        adding.start()
        took, end = outcome(lambda index=index, where=where: index.search(X[0], 10, where))  # type: ignore[misc]
        adding.join()
        print(f"{name:30s} {took:8.3f} {waits[0]:13.3f}  {end}", flush=True)
        rows.append({"filter": name, "seconds": took, "add": waits[0], "end": end})
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("filters", help=filters.__doc__)
    command.set_defaults(run=filters)
    command.add_argument("--n", type=float, default=5_000, help="items")
    command.add_argument("--json", type=Path, help="write the figures to this file too")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    print(common.machine())
    common.write_json(options.run(options), options.json)


if __name__ == "__main__":
    main()
