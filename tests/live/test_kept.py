"""Indexes that were written by every version of the format, kept for ever: they must open, and be what they were."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from onlinehash import LiveIndex
from onlinehash.live.check import check

KEPT = Path(__file__).parent.parent / "files"


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("read_only", [True, False])
def test_every_format_is_still_read_and_gone_on_with(tmp_path, version, read_only):
    path = shutil.copytree(KEPT / version / "live" / "items", tmp_path / "items")
    expected = json.loads((KEPT / version / "live" / "expected.json").read_text())
    X = np.random.default_rng(7).normal(size=(40, 6)).astype(np.float32)
    assert check(path).ok
    with LiveIndex.open(path, read_only=read_only) as index:
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
        if version != "v1":
            learned = index.receipt("learn").outcome
            found |= {
                "receipts": {key: index.receipt(key).digest for key in ("add", "learn", "remove")},
                "added": index.receipt("add").outcome.tolist(),
                "learned": [[u.loss, u.step, u.bits.tolist(), u.pending] for u in learned],
            }
        assert found == expected
        assert index.codes == index.encoder.encode(index.vectors)
        np.testing.assert_array_equal(index.get("item 3").vector, X[33])
        if not read_only:
            index.add(["another"], X[39:])
            index.learn_pair_by_id("another", "item 1", False)
            index.refresh()
            assert index.codes == index.encoder.encode(index.vectors)
    assert check(path).ok
