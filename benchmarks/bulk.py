"""Encoding vectors on the disk with one worker and with two, on processes, Dask and Ray.

    python benchmarks/bulk.py                       1,000,000 x 512 float32 in an npy file of 2 GB
    python benchmarks/bulk.py --engines dask --format parquet --rows 2e5

The limit is plain `encode` of the same rows, mapped and in memory already, in one process and in two at once: what the
machine itself gives. Workers compute on one thread each, are started and warm before the clock runs, and write to a new
folder each time. The least time of the repeats counts; all of it, reading and writing and what the engine adds.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import common
import numpy as np

from onlinehash import Encoder, bulk
from onlinehash.bulk.engine import Engine
from onlinehash.bulk.on_processes import Processes

WORKERS = (1, 2)
BLOCK_ROWS = 2**15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--format", choices=("npy", "parquet"), default="npy")
    parser.add_argument("--engines", nargs="+", default=["local", "dask", "ray"], choices=("local", "dask", "ray"))
    parser.add_argument("--folder", type=Path, help="where the files go; they are removed at the end")
    args = parser.parse_args()
    print(common.machine())
    n = int(args.rows)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        source = bulk.open_source(write(Path(folder), args.format, n, args.dim))
        encoder = random_encoder(args.dim, args.bits)
        print(f"{n:,} x {args.dim} float32 as {args.format}, {len(source.partitions)} parts, {args.bits} bits")
        print(f"{'':>16} {'1 worker us/row':>16} {'2 workers us/row':>17} {'ratio':>6} {'of plain encode':>16}")
        plain = {w: best(plain_encode(encoder, source, w), args.repeats) for w in WORKERS}
        show("plain encode", plain, n, plain)
        for name in args.engines:
            seconds = {}
            for n_workers in WORKERS:
                with STARTERS[name](n_workers) as engine:
                    run = to_new_folders(encoder, source, Path(folder), engine)
                    seconds[n_workers] = best(run, args.repeats)
            show(name, seconds, n, plain)


def write(folder: Path, format: str, n: int, d: int) -> Path:
    """Random vectors, block by block."""
    rng = np.random.default_rng(0)
    blocks = (rng.standard_normal((min(BLOCK_ROWS, n - at), d), np.float32) for at in range(0, n, BLOCK_ROWS))
    path = folder / f"x.{format}"
    if format == "npy":
        matrix = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
        for number, block in enumerate(blocks):
            matrix[number * BLOCK_ROWS :][: len(block)] = block
        matrix.flush()
        return path
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([("vector", pyarrow.list_(pyarrow.float32(), d))])
    options = {"compression": "none", "use_dictionary": False}  # random numbers have nothing to compress
    with parquet.ParquetWriter(path, schema, **options) as file:
        for block in blocks:
            column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(block.reshape(-1)), d)
            file.write_table(pyarrow.table({"vector": column}, schema))
    return path


def random_encoder(d: int, n_bits: int) -> Encoder:
    weights = np.random.default_rng(1).standard_normal((n_bits, d)).astype(np.float32)
    return Encoder(weights, np.zeros(n_bits), None, d, 1, "min", 1, "random")


def plain_encode(encoder: Encoder, source: bulk.Source, n_workers: int) -> Callable[[], object]:
    """All rows through `encode`, block by block, in so many processes; nothing is written."""
    engine = Processes(n_workers)
    task = Plain(encoder)
    return lambda: list(engine.map(task, source.partitions, "encoding"))


class Plain:
    """Encodes the rows of a partition."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def __call__(self, partition: bulk.Source) -> int:
        return sum(len(self.encoder.encode(rows.X)) for rows in partition.blocks())


def to_new_folders(encoder: Encoder, source: bulk.Source, folder: Path, engine: Engine) -> Callable[[], object]:
    def run() -> None:
        target = folder / "codes"
        shutil.rmtree(target, ignore_errors=True)
        assert bulk.encode(encoder, source, target, engine).n_found == 0

    return run


@contextmanager
def local(n_workers: int) -> Iterator[Engine]:
    yield Processes(n_workers)


@contextmanager
def dask(n_workers: int) -> Iterator[Engine]:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
        bulk.engine_of(f"dask://{cluster.scheduler_address.removeprefix('tcp://')}") as engine,
    ):
        yield engine


@contextmanager
def ray(n_workers: int) -> Iterator[Engine]:
    os.environ.setdefault("RAY_AUTH_MODE", "token")  # which Ray remembers from its import on
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    ray.init(num_cpus=n_workers, include_dashboard=False, log_to_driver=False)
    with bulk.engine_of("ray://") as engine:
        yield engine
    ray.shutdown()


STARTERS = {"local": local, "dask": dask, "ray": ray}


def best(run: Callable[[], object], repeats: int) -> float:
    """The least seconds, after a run that starts processes and loads kernels."""
    run()
    seconds = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds


def show(name: str, seconds: dict[int, float], n: int, plain: dict[int, float]) -> None:
    one, two = (1e6 * seconds[w] / n for w in WORKERS)
    shares = " / ".join(f"{plain[w] / seconds[w]:.0%}" for w in WORKERS)
    print(f"{name:>16} {one:>16.2f} {two:>17.2f} {one / two:>6.2f} {shares:>16}", flush=True)


if __name__ == "__main__":
    main()
