"""Texts through the service beside the embedder alone: embedding, adding and searching, in texts a second.

    python benchmarks/texts.py [--n 1e4] [--rounds 3]

Two embedders: `lexical`, which takes a fraction of a millisecond for a text, and a deep averaging network on top of it
(Iyyer et al., 2015; here with random weights), which takes about as long for a text as the smallest sentence encoders.
The service is a process of its own, and a few connections send it texts, many at a time: first all of them to be added,
then all of them to be searched by codes, then some of them to be found by vectors as well, which takes milliseconds for
each whatever made the vectors. The embedder alone makes as many vectors in this process, before and after. All of it
is repeated some times, each time with a new service, and the best rates are compared.

Beside the rates stand the microseconds of a processor for a text, in the process of the service: what is beyond those
of the embedder alone is the price of HTTP, JSON and the index, whatever the embedder.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import common
import http_server
import numpy as np

from onlinehash import connect
from onlinehash.embed import Lexical, load

WIDTH, HIDDEN, OUT = 512, 4096, 384


class Network:
    """A deep averaging network: hashed words, two hidden layers, a vector."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        sizes = [WIDTH, HIDDEN, HIDDEN, OUT]
        self._layers = [rng.standard_normal((n, m), np.float32) / np.float32(n**0.5) for n, m in pairwise(sizes)]
        self._words = Lexical(WIDTH)

    def encode(self, texts: list[str]) -> np.ndarray:
        X = self._words.encode(texts)
        for layer in self._layers[:-1]:
            X = np.maximum(X @ layer, 0)
        return X @ self._layers[-1]


def made_up(n: int) -> list[str]:
    """Texts of forty words, as often as words of a language come."""
    rng = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(20_000)]
    chances = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(len(words), (n, 40), p=chances / chances.sum())
    return [" ".join(words[word] for word in row) for row in drawn.tolist()]


class Rate(NamedTuple):
    """Texts a second, and by the seconds in which the process had a core, which others on the machine do not change."""

    by_clock: float
    by_cpu: float


def alone(name: str, texts: list[str], batch: int) -> Rate:
    """The rate of the embedder by itself."""
    embedder = load(name)
    embedder.encode(texts[:batch])
    began, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), batch):
        embedder.encode(texts[start : start + batch])
    return Rate(len(texts) / (time.perf_counter() - began), len(texts) / (time.process_time() - cpu))


def through(name: str, texts: list[str], options: argparse.Namespace) -> list[Rate]:
    """The rates at which texts are added, searched by codes and found by vectors, through a service."""
    finds = texts[: int(options.finds)]
    with http_server.service(None, "--bits", "64", "--embed", name, "--limit", "request_seconds=600") as served:
        url = f"http://127.0.0.1:{served.port}"
        with connect(url, timeout=600) as remote, ThreadPoolExecutor(options.connections) as pool:
            first = [texts[start :: options.connections] for start in range(options.connections)]
            for call in (remote.add_texts, remote.search_text, remote.find_text):  # what first calls load is there
                list(pool.map(call, [part[: max(2, options.batch // options.connections)] for part in first]))
            rates = []
            for call, asked, batch in (
                (remote.add_texts, texts, options.batch),
                (lambda part: remote.search_text(part, k=10), texts, options.batch),
                (lambda part: remote.find_text(part, k=10), finds, 50),
            ):
                parts = [asked[start : start + batch] for start in range(0, len(asked), batch)]
                began, cpu = time.perf_counter(), served.cpu_seconds()
                list(pool.map(call, parts))
                by_cpu = len(asked) / max(served.cpu_seconds() - cpu, 1e-9)
                rates.append(Rate(len(asked) / (time.perf_counter() - began), by_cpu))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e4, help="texts that are added and searched")
    parser.add_argument("--finds", type=float, default=1e3, help="of these, texts that are found by vectors")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=500, help="texts of a request")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--embed", nargs="+", default=["lexical", "texts:Network"], help="embedders, by their names")
    options = parser.parse_args()
    here = str(Path(__file__).parent)  # where the service finds the network, too
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    print(common.machine())
    texts = made_up(int(options.n))
    print(f"{len(texts):,} texts of {np.mean([len(text) for text in texts]):.0f} characters; texts a second")
    print(f"{'embedder':>14}" + "".join(f"{name:>10}" for name in ("alone", "added", "searched", "both", "found")))
    for name in options.embed:
        by_itself, rounds = [alone(name, texts, options.batch)], []
        for _ in range(options.rounds):
            rounds.append(through(name, texts, options))
            by_itself.append(alone(name, texts, options.batch))
        for field, beside in (("by_clock", "beside alone"), ("by_cpu", "by CPU time")):
            columns = (by_itself, *zip(*rounds, strict=True))
            best, a, s, f = (max(getattr(rate, field) for rate in rates) for rates in columns)
            row = (best, a, s, 2 / (1 / a + 1 / s), f)
            if field == "by_clock":
                print(f"{name:>14}" + "".join(f"{rate:>10.0f}" for rate in row))
            else:
                print(f"{'CPU, us':>14}" + "".join(f"{1e6 / rate:>10.0f}" for rate in row))
            print(f"{beside:>14}" + "".join(f"{rate / best:>10.2f}" for rate in row), flush=True)


if __name__ == "__main__":
    main()
