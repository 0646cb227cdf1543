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
@pytest.mark.parametrize("seed", range(thorough(1, 8)))
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


#: What was found by hand, or by the program above.
FOUND: dict[str, tuple[Any, str, Any, str]] = {
    "an index into an array": (lambda: make("LegoLSH"), "state.method.n_distances", np.array([2**40]), "n_distances"),
    "a negative one": (lambda: make("LegoLSH"), "state.method.n_distances", np.array([-1]), "n_distances"),
    "names that are none": (lambda: make("OnlineHashing"), "state.feature_names", 3, "feature_names to be a list of 5"),
    "a negative count": (lambda: make("OnlineHashing"), "state.centring.count", np.array([-1]), "count from 0 to"),
    "a count beyond an int64": (lambda: make("HadamardMatchingHashing"), "state.method.n_taught", 10**29, "n_taught"),
    "the same as a real number": (lambda: make("HadamardMatchingHashing"), "state.method.n_taught", 1e29, "n_taught"),
    "rounds without end": (lambda: make("OnlineHashing"), "params.n_rounds", 2**31, "n_rounds to be an integer from 1"),
    "a class that is none": (lambda: make("MutualInformationHashing"), "state.method.members", "members", "members"),
    "a mean whose square is no number": (
        lambda: make("SmoothPairHashing"),
        "state.method.surprise.means",
        [0.0, 1e308, 0.0],
        "the slow mean",
    ),
    "a row of no class": (
        lambda: make("BalancedSimilarityHashing"),
        "state.method.chunk.rows.members",
        np.array([[0], [0], [-1], [0]]),
        "members from 0 to",
    ),
    "a weight that overflows": (lambda: make("BalancedSimilarityHashing"), "params.fit_weight", 1e308, "fit_weight"),
    "another type": (
        lambda: make("OnlineHashing", features=RbfAnchors(6)),
        "params.features.$rbf_anchors.normalize",
        np.ones(3),
        "normalize to be True or False",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str, tmp_path: Path) -> None:
    thing, where, value, problem = FOUND[name]
    path = tmp_path / "thing.oh"
    save(taught(thing()), path)
    kind, content = format.read(path)
    *parents, last = where.split(".")
    inside: Any = content
    for key in parents:
        inside = inside[key]
    inside[last] = np.full_like(inside[last], 2**40) if isinstance(value, str) else value
    format.write(path, kind, content)
    with pytest.raises(FormatError, match=re.escape(problem)):
        load(path)


def test_the_feature_map_of_an_encoder_is_checked_like_a_learners(tmp_path: Path) -> None:
    path = tmp_path / "encoder.oh"
    save(taught(make("OnlineHashing", features=RbfAnchors(6))).snapshot(), path)
    kind, content = format.read(path)
    content["features"]["$rbf_anchors"]["normalize"] = "x"
    format.write(path, kind, content)
    with pytest.raises(FormatError, match="normalize to be True or False"):
        load(path)


def test_an_array_of_whole_numbers_cannot_be_taken_without_a_range() -> None:
    with pytest.raises(TypeError, match="needs a range"):
        format.like(np.zeros(3, np.int64), np.zeros(3, np.int64), "counts")
    with pytest.raises(FormatError, match="expected counts from 0 to 7, got 0 to 8"):
        format.like(np.array([0, 8]), np.zeros(2, np.int64), "counts", 0, 7)
