"""Writes the kept live index of format 2 into tests/files/v2. Run once, and never again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from onlinehash import LiveIndex, OnlineHashing, refresh

FOLDER = Path(__file__).parent / "v2" / "live"


def facts(index: LiveIndex, X: np.ndarray) -> dict[str, object]:
    """What must be found again."""
    hits, learned = index.search(X[:3], 4), index.receipt("learn").outcome
    return {
        "ids": list(index),
        "codes": index.codes.rows().tobytes().hex(),
        "hits": hits.ids.tolist(),
        "distances": hits.distances.tolist(),
        "serials": [version.serial for version in index.versions],
        "pairs": index.learner.n_pairs_seen_,
        "behind": list(index.behind),
        "payload": index.get("item 3").payload,
        "policy": repr(index.policy),
        "receipts": {key: index.receipt(key).digest for key in ("add", "learn", "remove")},
        "added": index.receipt("add").outcome.tolist(),
        "learned": [[update.loss, update.step, update.bits.tolist(), update.pending] for update in learned],
    }


def write() -> None:
    X = np.random.default_rng(7).normal(size=(40, 6)).astype(np.float32)
    learner = OnlineHashing(16, burn_in=20, random_state=0)
    with LiveIndex(learner, refresh.every(5), path=FOLDER / "items") as index:
        index.add([f"item {i}" for i in range(20)], X[:20], [{"row": i} for i in range(20)])
        with index.once("add", "0a"):
            index.add([f"item {i}" for i in range(20, 30)], X[20:30])
        with index.once("learn", "0b"):
            index.learn_pairs(X[:6], X[6:12], np.arange(6) % 2 == 0)
        index.update(["item 3"], X[33:34], [{"row": 33}])
        with index.once("remove", "0c"):
            index.remove(["item 5", "item 25"])
        index.learn_pair_by_id("item 1", "item 2", True)
        (FOLDER / "expected.json").write_text(json.dumps(facts(index, X), indent=1) + "\n")


if __name__ == "__main__":
    write()
