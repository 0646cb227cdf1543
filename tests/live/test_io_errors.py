"""Every file call of a live index fails in turn: memory and disk agree, the message is true, the next call works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.failing_program import CALLS
from tests.live.file_calls import run
from tests.support import thorough

#: Every how manyeth file call fails.
STRIDE = thorough(60, 1)


@pytest.mark.thorough
def test_each_file_call_fails_once(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    done = run("tests.live.failing_program", str(tmp_path), str(STRIDE), *CALLS)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}: {done.stderr[-2000:]}"
    assert [line for line in lines if line.startswith("WRONG")] == []
    assert lines[-1] == "done"
    record_property("tried", ("file calls that fail", len(lines) - 1))
    assert len(lines) > 120 / STRIDE
    # Every sync of `add` fails: of the one file call of which nobody knows, it is not said that nothing was kept.
    syncs = [line for line in lines if line.startswith("add ") and "(s " in line and "items.db-wal" in line]
    assert any("may or may not have been kept" in line for line in syncs)
