"""What the package shows: public names, with no extra installed; and where its kernels are kept."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import onlinehash
from onlinehash.numeric import kernels

#: The modules of all extras.
EXTRAS = [
    *("PIL", "confluent_kafka", "cupy", "dask", "distributed", "fastapi", "h5py", "httptools", "httpx"),
    *("matplotlib", "milvus_lite", "msgspec", "orjson", "prometheus_client", "psycopg", "psycopg_pool"),
    *("pyarrow", "pymilvus", "ray", "redis", "starlette", "uvicorn", "uvloop", "zarr"),
]
BLOCKED = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def without_extras(code: str) -> list[str]:
    """What code prints where no extra is installed."""
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_everything_is_imported_without_extras() -> None:
    names = without_extras("from onlinehash import *\nprint(*[name for name in globals() if name[0] != '_'])")
    assert set(names) - {"sys", "Absent"} == set(onlinehash.__all__)


def test_what_needs_an_extra_is_named_and_asks_for_it() -> None:
    told = without_extras(
        "import onlinehash\n"
        "for name in onlinehash._NEED_EXTRAS:\n"
        "    try: getattr(onlinehash, name).open('postgresql://localhost/items')\n"
        "    except onlinehash.errors.MissingExtra as error: print(error)"
    )
    assert told.count("pip") == len(onlinehash._NEED_EXTRAS)


# ------------------------------------------------------------------ where kernels are kept

NAME = f"onlinehash-{onlinehash.__version__}"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A source, a cache and a folder for temporary files, all of this user; NUMBA_CACHE_DIR is not set."""
    found = SimpleNamespace(source=tmp_path / "source", user=tmp_path / "user", temporary=tmp_path / "temporary")
    for place in vars(found).values():
        place.mkdir(mode=0o700)
    monkeypatch.setattr(onlinehash, "__file__", str(found.source / "__init__.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(found.user))
    monkeypatch.setattr(tempfile, "tempdir", str(found.temporary))
    monkeypatch.setattr(kernels.config, "CACHE_DIR", "")
    return found


def chosen() -> Path | None:
    return kernels.cache_folder.__wrapped__()  # without what this process has chosen already


def no_folder(place: Path) -> None:
    """Nothing can be made in it, not even by root."""
    place.rmdir()
    place.touch()


def test_kernels_are_kept_beside_the_source_or_where_the_user_keeps_such_things(places: SimpleNamespace) -> None:
    assert chosen() == places.source / "__pycache__" / NAME
    (places.source / "__pycache__" / NAME).rmdir()
    (places.source / "__pycache__").rmdir()
    no_folder(places.source)
    assert chosen() == places.user / NAME
    (places.user / NAME).rmdir()
    no_folder(places.user)
    folder = chosen()
    assert folder == places.temporary / f"{NAME}-{os.geteuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_users_word_counts_where_it_can(
    places: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels.config, "CACHE_DIR", str(tmp_path / "named"))
    assert chosen() == tmp_path / "named" / NAME
    (tmp_path / "file").touch()
    monkeypatch.setattr(kernels.config, "CACHE_DIR", str(tmp_path / "file"))
    assert chosen() == places.source / "__pycache__" / NAME


def test_without_a_place_there_is_one_line_of_notice(
    places: SimpleNamespace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in vars(places).values():
        no_folder(place)
    with caplog.at_level(logging.WARNING):
        assert chosen() is None
    assert [record.message.count("\n") for record in caplog.records if record.name == "onlinehash"] == [0]
    assert "NUMBA_CACHE_DIR" in caplog.text
    monkeypatch.setattr(kernels, "cache_folder", lambda: None)
    twice = kernels.njit(cache=True)(lambda x: 2 * x)
    assert twice(21) == 42
    assert twice.stats.cache_path is None


def test_a_folder_that_others_can_write_is_never_read(places: SimpleNamespace) -> None:
    mode = 0o770
    for folder in (places.source / "__pycache__" / NAME, places.user / NAME):
        folder.mkdir(parents=True)
        folder.chmod(mode)
    assert chosen() == places.temporary / f"{NAME}-{os.geteuid()}"
    places.temporary.joinpath(f"{NAME}-{os.geteuid()}").chmod(mode)
    assert chosen() is None


def test_compiled_kernels_lie_in_the_chosen_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "cache_folder", lambda: tmp_path)
    before = kernels.config.CACHE_DIR
    thrice = kernels.njit(cache=True)(_three_times)
    assert thrice(2) == 6
    assert list(tmp_path.rglob("*.nbi"))
    assert before == kernels.config.CACHE_DIR  # as other libraries have caches of their own
    assert not kernels.njit()(_three_times).stats.cache_path


def _three_times(x: int) -> int:
    return 3 * x


# ------------------------------------------------------------------ several processes that compile


HOLD = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A kernel, and another process that is busy compiling it."""
    monkeypatch.setattr(kernels, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(kernels._SharedCache, "patience", 60.0)
    kernel = kernels.njit(cache=True)(_three_times)
    command = [sys.executable, "-S", "-c", HOLD, str(tmp_path / "compiling"), str(kernel._cache._byte)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        yield SimpleNamespace(kernel=kernel, other=other)
        other.kill()


def test_what_another_process_compiles_is_waited_for(
    compiling: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = tmp_path.with_name("aside")
    monkeypatch.setattr(kernels._SharedCache, "patience", 0.0)
    kernels.njit(cache=True)(_three_times)(2)  # which leaves what the other process will
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    folder.rename(aside)
    monkeypatch.setattr(kernels._SharedCache, "patience", 60.0)
    waits = []

    def pass_time(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            aside.rename(folder)
            compiling.other.kill()
            compiling.other.wait()

    monkeypatch.setattr(kernels, "time", SimpleNamespace(sleep=pass_time, monotonic=time.monotonic))
    assert compiling.kernel(2) == 6
    assert len(waits) >= 3
    assert sum(compiling.kernel.stats.cache_hits.values()) == 1
    assert not compiling.kernel.stats.cache_misses


def test_a_number_written_in_a_call_needs_no_kernel_of_its_own() -> None:
    @kernels.njit()
    def both(i: int) -> int:
        return _tripled(2) + _tripled(i) + _tripled(x=5)

    _tripled = kernels.njit()(_three_times)
    assert both(4) == 33
    assert len(_tripled.signatures) == 1
