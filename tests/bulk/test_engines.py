"""Every engine gives the same bytes, and loses nothing when a worker is killed in the middle."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import onlinehash
from onlinehash import Encoder, bulk, evaluate
from onlinehash.bulk.on_processes import Processes
from onlinehash.errors import ServiceUnavailable, StorageError
from tests.bulk.data import QUERIES, X, Y, learned, readers, same_parts, waiting, written
from tests.cli.running import done, refused
from tests.servers import free_port, wait_until

#: Where files are, and what is expected of every engine.
Work = tuple[Path, bulk.Source, Encoder]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    learner = learned("MMOH")
    onlinehash.save(learner, tmp_path / "model.oh")
    source = bulk.open_source(written("parquet", tmp_path), partition_rows=130)
    bulk.encode(learner, source, tmp_path / "expected", "local://1")
    return tmp_path, source, learner.snapshot()


@contextmanager
def killing(notes: Path, is_victim: Callable[[int], bool], kill: Callable[[int], object]) -> Iterator[list[int]]:
    """Kills a worker while it reads a partition, then lets all partitions be read; who was killed."""
    killed: list[int] = []

    def watch() -> None:
        wait_until(lambda: any(is_victim(process) for _, process in readers(notes)), "a reader to kill")
        killed.append(next(process for _, process in readers(notes) if is_victim(process)))
        kill(killed[0])
        (notes / "go").touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield killed
    watcher.join()


def check_a_kill(
    work: Work, on: str | bulk.Engine, is_victim: Callable[[int], bool], kill: Callable[[int], object]
) -> None:
    """The work goes on without the worker, and gives the same bytes."""
    folder, source, encoder = work
    notes = folder / "notes"
    notes.mkdir()
    with killing(notes, is_victim, kill) as killed:
        bulk.encode(encoder, waiting(source, notes), folder / "after a kill", on)
    (lost,) = {first for first, process in readers(notes) if process == killed[0]}  # the part it was killed at
    assert len({process for first, process in readers(notes) if first == lost}) >= 2  # which another one made
    assert same_parts(folder / "after a kill", folder / "expected")


def check_everything_else(work: Work, on: str | bulk.Engine) -> None:
    """Recoding, truth and precision are those of one process."""
    folder, source, encoder = work
    newer = learned("MMOH", 120)
    bulk.recode(newer, encoder, source, folder / "expected", folder / "recoded", on)
    assert bulk.read_codes(folder / "recoded").codes == newer.encode(X)
    near = bulk.ground_truth(QUERIES, source, k=7, on=on, folder=folder / "near")
    expected = evaluate.nearest(QUERIES, X, k=7)
    np.testing.assert_array_equal(near.among(0, len(X), None).block(slice(None)), expected.block(slice(None)))
    for truth, whole in ((near, expected), (bulk.same_label(Y[:20]), evaluate.same_label(Y[:20], Y))):
        counts = folder / f"counts of {type(truth).__name__}"
        value = bulk.mean_average_precision(encoder, QUERIES, folder / "expected", truth, on, folder=counts)
        assert value == evaluate.retrieval(encoder, QUERIES, X, whole, ["map"])["map"]


def check_command(work: Work, on: str) -> None:
    """`onlinehash encode --on` leads there, and bad vectors come back as one sentence."""
    folder, _, encoder = work
    arguments = ("encode", folder / "model.oh", folder / "x.parquet", "--on", on, "-o", folder / "by command")
    summary = {"n": 1000, "n_bits": 11, "n_models": 3, "version": encoder.version}
    assert done(*arguments, "--json").document == summary | {
        "output": str(folder / "by command"), "parts": 1, "found": 0,
    }  # fmt: skip
    assert bulk.read_codes(folder / "by command").codes == encoder.encode(X)


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


@pytest.mark.long
def test_processes(work: Work) -> None:
    with bulk.engine_of("local://2") as engine:
        check_a_kill(work, engine, lambda process: process != os.getpid(), kill)
        check_everything_else(work, engine)
    check_command(work, "local")


def test_dask_in_this_process(work: Work) -> None:
    from distributed import LocalCluster

    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "protocol": "tcp://"}
    with LocalCluster(processes=False, host="127.0.0.1", **options) as cluster:
        on = f"dask://{cluster.scheduler_address.removeprefix('tcp://')}"
        check_command(work, on)
        with bulk.engine_of(on) as engine:
            check_everything_else(work, engine)


# ------------------------------------------------------------------ what goes wrong


def raise_it(error: Exception) -> None:
    raise error


def note_and_fail(note: Path) -> None:
    with note.open("a") as file:
        file.write("x")
    raise OSError(5, "Input/output error", "vectors.npy")


def fail_once(note: Path) -> str:
    if not note.exists():
        note.touch()
        raise RuntimeError("for now")
    return note.name


def test_what_fails_once_is_done_again_and_what_fails_always_is_told(tmp_path: Path) -> None:
    engine = Processes(1)
    notes = [tmp_path / name for name in "abc"]
    assert sorted(engine.map(fail_once, notes, "trying")) == [(0, "a"), (1, "b"), (2, "c")]
    with pytest.raises(StorageError) as caught:
        list(engine.map(note_and_fail, [tmp_path / "d"], "trying"))
    assert str(caught.value) == (
        "1 of 1 parts failed 3 times (vectors.npy: Input/output error); fix that and run again."
    )
    assert (tmp_path / "d").read_text() == "xxx"
    with pytest.raises(ServiceUnavailable, match=r"failed 3 times \(ZeroDivisionError: by what\)"):
        list(engine.map(raise_it, [ZeroDivisionError("by what")], "trying"))


@pytest.mark.parametrize("scheme", ["dask", "ray"])
def test_nobody_at_the_address(scheme: str, tmp_path: Path) -> None:
    onlinehash.save(learned("OH"), tmp_path / "model.oh")
    on = f"{scheme}://127.0.0.1:{free_port()}"
    arguments = ("encode", tmp_path / "model.oh", written("npy", tmp_path), "--on", on, "-o", tmp_path / "codes")
    code, told = refused(*arguments)
    assert code == ServiceUnavailable.exit_code
    assert "cannot connect to" in told
    assert not (tmp_path / "codes").exists()
