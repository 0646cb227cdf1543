"""Texts through the service beside the embedder alone: embedding, adding and searching, in texts a second.

    python benchmarks/texts.py [--n 1e4]

Two embedders: `lexical`, which takes a fraction of a millisecond for a text, and a deep averaging network on top of it
(Iyyer et al., 2015; here with random weights), which takes about as long for a text as the smallest sentence encoders.
The service is a process of its own, and a few connections send it texts, many at a time: first all of them to be added,
then all of them to be found. The embedder alone makes as many vectors in this process, before and after.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

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


def alone(name: str, texts: list[str], batch: int) -> float:
    """Texts a second of the embedder by itself."""
    embedder = load(name)
    embedder.encode(texts[:batch])
    began = time.perf_counter()
    for start in range(0, len(texts), batch):
        embedder.encode(texts[start : start + batch])
    return len(texts) / (time.perf_counter() - began)


def through(name: str, texts: list[str], batch: int, connections: int) -> tuple[float, float]:
    """Texts a second that are added, and that are found, through a service."""
    with http_server.service(None, "--bits", "64", "--embed", name, "--limit", "request_seconds=600") as served:
        parts = [texts[start : start + batch] for start in range(0, len(texts), batch)]
        with connect(f"http://127.0.0.1:{served.port}", timeout=600) as remote, ThreadPoolExecutor(connections) as pool:
            remote.add_texts(texts[:batch])  # what is loaded at its first use is there
            remote.find_text(texts[:2], k=10)
            rates = []
            for call in (remote.add_texts, lambda part: remote.find_text(part, k=10)):
                began = time.perf_counter()
                list(pool.map(call, parts))
                rates.append(len(texts) / (time.perf_counter() - began))
    return rates[0], rates[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e4, help="texts")
    parser.add_argument("--batch", type=int, default=100, help="texts of a request")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--embed", nargs="+", default=["lexical", "texts:Network"], help="embedders, by their names")
    options = parser.parse_args()
    here = str(Path(__file__).parent)  # where the service finds the network, too
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    print(common.machine())
    texts = made_up(int(options.n))
    print(f"{len(texts):,} texts of {np.mean([len(text) for text in texts]):.0f} characters, texts a second")
    print(
        f"{'embedder':>14}  {'alone':>8}  {'added':>8}  {'found':>8}  {'both':>8}  ratio to alone: added, found, both"
    )
    for name in options.embed:
        before = alone(name, texts, options.batch)
        added, found = through(name, texts, options.batch, options.connections)
        best = max(before, alone(name, texts, options.batch))
        both = 2 / (1 / added + 1 / found)
        rates = f"{best:>8.0f}  {added:>8.0f}  {found:>8.0f}  {both:>8.0f}"
        print(f"{name:>14}  {rates}  {added / best:.2f}, {found / best:.2f}, {both / best:.2f}", flush=True)


if __name__ == "__main__":
    main()
