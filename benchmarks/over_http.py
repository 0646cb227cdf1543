"""The service over HTTP: how much of what a bare route can do, under load, killed, and followed by readers.

    python benchmarks/over_http.py peak [--n 1e5]              searches beside a bare route, and where time goes
    python benchmarks/over_http.py load [--n 1e6 --seconds 20] searches, additions and learning at once; then SIGKILL
    python benchmarks/over_http.py lag [--n 1e6 --readers 2]   how far reader processes are behind the writer

Everything is on loopback. Services and the sender of the load are processes of their own; the limits of the machine are
measured in the same run. Where there are only two cores, services that work for several connections at once and their
sender have one each, and what else runs takes from both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import common
import http_lag
import http_load
import http_peak


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, run, n, dims, seconds in (
        ("peak", http_peak.peak, 2e4, 512, 2.0),
        ("load", http_load.load, 1e5, 64, 5.0),
        ("lag", http_lag.lag, 1e5, 64, 2.0),
    ):
        command = commands.add_parser(name, help=run.__doc__.splitlines()[0])
        command.set_defaults(run=run)
        command.add_argument("--n", type=float, default=n, help="items")
        command.add_argument("--dims", type=int, default=dims, help="values of a vector")
        command.add_argument("--seconds", type=float, default=seconds, help="of each load")
        command.add_argument("--connections", type=int, default=16, help="that search at once")
        command.add_argument("--json", type=Path, help="write the figures to this file too")
        if name == "peak":
            command.add_argument("--rounds", type=int, default=5, help="of the bare route and ours, in turn")
        else:
            command.add_argument("--folder", type=Path, help="on which disk (default: the system's temporary folder)")
        if name == "lag":
            command.add_argument("--readers", type=int, default=2, help="reader processes, at most")
            command.add_argument("--writes", type=int, default=50, help="that readers are asked for")
    return parser.parse_args()


def main() -> None:
    common.run(arguments())


if __name__ == "__main__":
    main()
