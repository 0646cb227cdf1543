"""Messages a second out of Redis Streams and Kafka into a durable index, beside learning the same pairs from memory.

    python benchmarks/consume.py --widths 128 512 --messages 2000 --repeats 5

Redis is started for this, or given by --redis. Kafka is librdkafka's mock broker inside this process, which shares its
cores and keeps 5 MB of each of four partitions: figures say what the client costs, not what a cluster gives. Batches
are of 500 messages; every one is on the disk before the broker is told.
"""

from __future__ import annotations

import argparse
import base64
import json
import logging
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import common  # before NumPy
import numpy as np

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.consume.address import Address
from onlinehash.consume.consumer import BATCH, Consumer
from onlinehash.consume.loop import open_source

#: What all partitions of the mock broker hold for sure.
ROOM = 4 * 4_500_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--redis", help="redis://HOST:PORT/DB of one that is there")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    print(common.machine())
    print(
        f"{'floats':>6} {'format':>7} {'bytes':>7} {'messages':>8} {'from':>7} {'messages/s':>11} {'of learning':>11}"
    )
    rows = []
    with redis_at(options.redis) as redis_address, tempfile.TemporaryDirectory() as folder:
        brokers = {"redis": RedisBroker(redis_address), "kafka": KafkaBroker()}
        for width in options.widths:
            X, y = common.clusters(2 * options.messages, width)
            A, B, similar = common.pairs(X, y)
            for form in ("json", "base64"):
                data = [message(a, b, s, form) for a, b, s in zip(A, B, similar, strict=True)]
                n = min(len(data), ROOM // len(data[0]))
                stream = f"{form}-{width}"
                for broker in brokers.values():
                    broker.send(stream, data[:n])
                index = Indexes(Path(folder), options.bits)
                runs = {"memory": lambda n=n: learned(index.new(), A[:n], B[:n], similar[:n])}
                for name, broker in brokers.items():
                    runs[name] = lambda n=n, b=broker, s=stream: consumed(index.new(), b.address(s), n)
                rates = fastest(runs, options.repeats)
                for name, rate in rates.items():
                    share = rate / rates["memory"]
                    rows.append({"width": width, "form": form, "from": name, "rate": rate, "share": share})
                    print(f"{width:6} {form:>7} {len(data[0]):7,} {n:8,} {name:>7} {rate:11,.0f} {share:11.2f}")
    common.write_json(rows, options.json)


def message(a: np.ndarray, b: np.ndarray, similar: bool, form: str) -> bytes:
    """A pair as JSON, its vectors as numbers or as base64."""
    if form == "json":
        a, b = ("[" + ",".join(map(str, vector)) + "]" for vector in (a, b))
        return f'{{"a":{a},"b":{b},"similar":{str(bool(similar)).lower()}}}'.encode()
    a, b = (base64.b64encode(vector.tobytes()).decode() for vector in (a, b))
    return json.dumps({"a": a, "b": b, "similar": bool(similar)}).encode()


class Indexes:
    """New indexes on the disk, each in the place of the one before."""

    def __init__(self, folder: Path, n_bits: int) -> None:
        self._path, self._n_bits = folder / "items", n_bits

    def new(self) -> LiveIndex:
        shutil.rmtree(self._path, ignore_errors=True)
        return LiveIndex(OnlineHashing(self._n_bits, random_state=0), refresh.by_hand(), path=self._path)


def learned(index: LiveIndex, A: np.ndarray, B: np.ndarray, similar: np.ndarray) -> float:
    """Pairs a second out of arrays, in the same batches; the first one loads kernels and does not count."""
    with index:
        start = 0.0
        for first in range(0, len(A), BATCH):
            if first == BATCH:
                start = time.perf_counter()
            rows = slice(first, first + BATCH)
            with index.reached("memory", first):
                index.learn_pairs(A[rows], B[rows], similar[rows])
        return (len(A) - BATCH) / (time.perf_counter() - start)


def consumed(index: LiveIndex, address: str, n: int) -> float:
    """Messages a second, from the end of the first batch to the end of the last."""
    with index:
        source = open_source(Address.parse(address), {})
        consumer = Consumer(index, source)
        while not consumer.step():
            pass
        start, first = time.perf_counter(), consumer.tally.messages
        while consumer.tally.messages < n:
            consumer.step()
        seconds = time.perf_counter() - start
        source.close()
    assert consumer.tally.pairs == n
    return (n - first) / seconds


def fastest(runs: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The highest rate of each, taken in turn."""
    return {name: max(rates) for name, rates in zip(runs, zip(*_rounds(runs, repeats), strict=True), strict=True)}


def _rounds(runs: dict[str, Callable[[], float]], repeats: int) -> Iterator[list[float]]:
    for _ in range(repeats):
        yield [run() for run in runs.values()]


class RedisBroker:
    """A stream for each kind of message, and a group for each run."""

    def __init__(self, address: str) -> None:
        import redis

        self._address, self._n_groups = address, 0
        self._client = redis.Redis.from_url(address)

    def address(self, stream: str) -> str:
        self._n_groups += 1
        return f"{self._address}?stream={stream}&group=g{self._n_groups}"

    def send(self, stream: str, data: list[bytes]) -> None:
        self._client.delete(stream)
        with self._client.pipeline(transaction=False) as pipeline:
            for one in data:
                pipeline.xadd(stream, {"message": one})
            pipeline.execute()


class KafkaBroker:
    """The mock broker of librdkafka."""

    def __init__(self) -> None:
        import confluent_kafka

        quiet = logging.getLogger("benchmarks.kafka")
        quiet.propagate = False
        self._producer: Any = confluent_kafka.Producer({"test.mock.num.brokers": 1}, logger=quiet)
        (broker,) = self._producer.list_topics(timeout=10).brokers.values()
        self._hosts = f"{broker.host}:{broker.port}"

    def address(self, topic: str) -> str:
        return f"kafka://{self._hosts}/{topic}"

    def send(self, topic: str, data: list[bytes]) -> None:
        for number, one in enumerate(data):
            self._producer.produce(topic, one, partition=number % 4)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0


@contextmanager
def redis_at(address: str | None) -> Iterator[str]:
    """The Redis that was named, or one that lives as long as this."""
    if address is not None:
        yield address
        return
    import redis

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            client = redis.Redis(port=port)
            for _ in range(500):
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    time.sleep(0.02)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
