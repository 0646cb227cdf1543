"""Break the code on purpose, one line at a time, and see that the tests notice.

    python tools/mutations.py [NAME...]    all mutations, or those whose name contains one of these texts

Nothing in the tree is changed: a line is replaced while Python imports its module, in the tests and in all programs
that they start. The exit status is 1 if a mutation was not noticed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutation:
    """A piece of a module of the library, what to put in its place, and the tests that should fail then."""

    module: str
    old: str
    new: str
    tests: str


MUTATIONS = {
    "a sync of a folder removed": Mutation(
        "io/atomic.py",
        "            sync_file(descriptor)\n",
        "            pass\n",
        "tests/live/test_power_failure.py::test_nothing_acknowledged_is_lost[full, nested]",
    ),
    "a sync of the log removed": Mutation(
        "live/sqlite/schema.py",
        "'FULL' if sync == 'full' else 'NORMAL'",
        "'OFF'",
        "tests/live/test_power_failure.py::test_nothing_acknowledged_is_lost[full, nested]",
    ),
    "a range of numbers in files not checked": Mutation(
        "io/format.py",
        "if value.size and ((low is not None",
        "if False and ((low is not None",
        "tests/test_mutated_files.py::test_what_was_found",
    ),
    "the checksum of a file skipped": Mutation(
        "io/format.py",
        'if header["checksum"] != _checksum(',
        'if False and header["checksum"] != _checksum(',
        "tests/test_broken_files.py",
    ),
    "the checksums of an index skipped": Mutation(
        "live/sqlite/checksums.py",
        "    if record_sum(table, key, values) != total:\n",
        "    if False:\n",
        "tests/live/test_check.py",
    ),
}

#: Put into every Python process by way of its path. The module that changes is compiled anew, past the cache.
CUSTOMIZE = """
import json, os
from importlib.machinery import SourceFileLoader

def get_code(loader, name, plain=SourceFileLoader.get_code):
    change = json.loads(os.environ["ONLINEHASH_MUTATION"])
    if not loader.path.endswith("/onlinehash/" + change["module"]):
        return plain(loader, name)
    with open(loader.path) as file:
        source = file.read()
    assert source.count(change["old"]) == 1, "the code to be changed is not there, or there twice"
    return compile(source.replace(change["old"], change["new"]), loader.path, "exec")

SourceFileLoader.get_code = get_code
"""


def survives(mutation: Mutation) -> bool:
    """Whether the tests pass although the code is broken."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(CUSTOMIZE)
        path = os.pathsep.join([folder, str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        told = {"PYTHONPATH": path, "ONLINEHASH_MUTATION": json.dumps(vars(mutation)), "OPENBLAS_NUM_THREADS": "1"}
        run = [sys.executable, "-m", "pytest", "-x", "--no-header", "-p", "no:cacheprovider", mutation.tests]
        done = subprocess.run(run, cwd=ROOT, env=os.environ | told, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or (done.returncode == 0 and "skipped" in done.stdout):
        raise RuntimeError(f"the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def main(names: list[str]) -> int:
    missed = 0
    for name, mutation in MUTATIONS.items():
        if not names or any(wanted in name for wanted in names):
            is_missed = survives(mutation)
            missed += is_missed
            print(
                f"{'MISSED' if is_missed else 'noticed'}: {name} ({mutation.module}), by {mutation.tests}", flush=True
            )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
