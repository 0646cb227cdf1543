"""Files with one value changed and all sums right: refused, or good for everything that one may do with them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import RbfAnchors, load, save
from onlinehash.errors import FormatError
from onlinehash.io import format
from tests.mutate_files import taught
from tests.support import make, thorough

ROOT = Path(__file__).parent.parent


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(thorough(1, 2)))
def test_no_change_of_a_value_leads_anywhere_but_to_our_errors(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    """In a process of its own, as what is looked for includes crashes, endless loops and a hunger for memory."""
    count = thorough(100, 4000)
    run = [sys.executable, "-m", "tests.mutate_files", str(seed), str(count)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    tail = "\n".join([*done.stdout.splitlines()[-1:], *done.stderr.splitlines()[-8:]])
    assert done.returncode == 0, f"the program ended with {done.returncode}, after:\n{tail}"
    refused, taken = map(int, done.stdout.splitlines()[-1].split())
    assert refused + taken == count
    assert min(refused, taken) > count / 20, "of the changes, some do harm, and some do none"
    record_property("tried", ("model files with a changed value and right checksums", count))


def test_what_was_found(tmp_path: Path) -> None:
    """By hand, or by the program above."""
    path = tmp_path / "thing.oh"
    for make_it, where, value, problem in (
        (lambda: make("OnlineHashing"), "state.feature_names", 3, "feature_names to be a list of 5"),
        (lambda: make("OnlineHashing"), "state.centring.count", np.array([-1]), "count from 0 to"),
        (lambda: make("OnlineHashing"), "params.n_rounds", 2**31, "n_rounds to be an integer from 1"),
        (
            lambda: make("OnlineHashing", features=RbfAnchors(6)),
            "params.features.$rbf_anchors.normalize",
            np.ones(3),
            "normalize to be True or False",
        ),
    ):
        save(taught(make_it()), path)
        kind, content = format.read(path)
        *parents, last = where.split(".")
        inside: Any = content
        for key in parents:
            inside = inside[key]
        inside[last] = value
        format.write(path, kind, content)
        with pytest.raises(FormatError, match=re.escape(problem)):
            load(path)
