"""An index that was written by the first version of the format, kept for ever: it must open, and be what it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from onlinehash import LiveIndex
from onlinehash.live.checking import check

KEPT = Path(__file__).parent.parent / "files" / "v1" / "live"


def test_the_first_format_is_still_read_and_gone_on_with(tmp_path):
    path = shutil.copytree(KEPT / "items", tmp_path / "items")
    expected = json.loads((KEPT / "expected.json").read_text())
    X = np.random.default_rng(7).normal(size=(40, 6)).astype(np.float32)
    assert check(path).ok
    with LiveIndex.open(path) as index:
        hits = index.search(X[:3], 4)
        found = {
            "ids": list(index),
            "codes": index.codes.rows().tobytes().hex(),
            "hits": hits.ids.tolist(),
            "distances": hits.distances.tolist(),
            "serials": [version.serial for version in index.versions],
            "pairs": index.learner.n_pairs_seen_,
            "behind": list(index.behind),
            "payload": index.get("item 3").payload,
            "policy": repr(index.policy),
        }
        assert found == expected
        assert index.codes == index.encoder.encode(index.vectors)
        np.testing.assert_array_equal(index.get("item 3").vector, X[33])
        index.add(["another"], X[39:])
        index.learn_pair_by_id("another", "item 1", False)
        index.refresh()
        assert index.codes == index.encoder.encode(index.vectors)
    assert check(path).ok
