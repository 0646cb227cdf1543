"""Every file call of a live index fails in turn: memory and disk agree, the message is true, the next call works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.failing_program import CALLS
from tests.live.file_calls import run
from tests.support import thorough

#: Every how manyeth file call fails.
STRIDE = thorough(20, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("names", [[*CALLS][:5], [*CALLS][5:]], ids=["changes", "the rest"])
def test_each_file_call_fails_once(names: list[str], tmp_path: Path) -> None:
    done = run("tests.live.failing_program", str(tmp_path), str(STRIDE), *names)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}: {done.stderr[-2000:]}"
    assert [line for line in lines if line.startswith("WRONG")] == []
    assert lines[-1] == "done"
    assert len(lines) > 60 / STRIDE
    if "add" in names and STRIDE == 1:
        assert any("may or may not have been kept" in line for line in lines)


def test_of_a_sync_that_fails_it_is_not_said_that_nothing_was_kept(tmp_path: Path) -> None:
    """The one file call of which nobody knows; all that `add` makes, so that it is among them."""
    done = run("tests.live.failing_program", str(tmp_path), "1", "add")
    syncs = [line for line in done.stdout.splitlines() if "(s " in line and "items.db-wal" in line]
    assert any("may or may not have been kept" in line for line in syncs)
    assert not [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
