"""Writes the kept files of format 1 into tests/files/v1. Run once for each kind of thing, and never again.

python tests/files/write_v1.py            learners, encoders and codes (the first of this format)
python tests/files/write_v1.py indexes    indexes, which came later
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import LSH, Codes, FlatIndex, MultiIndex, MultiModelOnlineHashing, OnlineHashing, RbfAnchors, save

FOLDER = Path(__file__).parent / "v1"


def things(A: np.ndarray, B: np.ndarray, similar: np.ndarray) -> dict[str, Any]:
    """Each kind of file, some in the middle of something."""
    found = {
        "oh": OnlineHashing(16, random_state=1, burn_in=30).partial_fit_pairs(A, B, similar),
        "mmoh": MultiModelOnlineHashing(8, n_models=3, fusion="sum", centre="median", random_state=2),
        "lsh": LSH(12, centre="running", random_state=3).observe(A),
        "oh_labels": OnlineHashing(8, similar_share=0.5, reservoir_size=4, init="unit", random_state=4),
        "kernel_waiting": OnlineHashing(10, features=RbfAnchors(50, width=2.0, normalize=True), random_state=5),
    }
    found["mmoh"].partial_fit_pairs(A.astype(np.float32), B.astype(np.float32), similar)
    found["oh_labels"].partial_fit(A[:15], similar[:15])  # an odd point waits
    found["kernel_waiting"].partial_fit_pairs(A[:9], B[:9], similar[:9]).observe(A[9:12])  # so do pairs and points
    found["encoder"] = OnlineHashing(9, features=RbfAnchors(7), random_state=6).partial_fit_pairs(A, B, similar)
    found["encoder"] = found["encoder"].snapshot()
    found["codes"] = found["mmoh"].encode(A)
    return found


def indexes() -> dict[str, Any]:
    """Both kinds, with ids of both kinds, dead items, and items that wait outside the tables."""
    rng = np.random.default_rng(20261115)
    bits, changes = rng.random((300, 40)) < 0.5, rng.random((4, 40)) < 0.5
    flat = FlatIndex(Codes.from_bits(bits), [f"item {i}" for i in range(300)])
    multi = MultiIndex(Codes.from_bits(bits, 2), rng.permutation(300), fusion="sum")
    for index, ids in ((flat, ["item 3", "item 4", "new"]), (multi, [3, 4, 999])):
        index.remove(ids[:1])
        index.update(ids[1:2], Codes.from_bits(changes[:1], index.n_models))
        index.add(Codes.from_bits(changes[1:2], index.n_models), ids[2:])
    return {"flat_index": flat, "multi_index": multi}


def write_indexes() -> None:
    folder = FOLDER / "indexes"
    folder.mkdir(exist_ok=True)
    queries, facts = np.random.default_rng(1).random((5, 40)) < 0.5, {}
    np.save(folder / "queries.npy", queries)
    for name, index in indexes().items():
        save(index, folder / f"{name}.oh")
        hits = index.search(queries, 300)
        facts[name] = {"ids": hits.ids.tolist(), "distances": hits.distances.tolist()}
    (folder / "facts.json").write_text(json.dumps(facts) + "\n")


def main() -> None:
    rng = np.random.default_rng(20261115)
    before = rng.standard_normal((2, 40, 6)), rng.random(40) < 0.5
    rows, (A, B), similar = rng.standard_normal((20, 6)), rng.standard_normal((2, 41, 6)), rng.random(41) < 0.5
    for name, array in (("rows", rows), ("A", A), ("B", B), ("similar", similar)):
        np.save(FOLDER / f"{name}.npy", array)
    facts: dict[str, Any] = {}
    for name, thing in things(*before[0], before[1]).items():
        save(thing, FOLDER / f"{name}.oh")
        facts[name] = fact = {}
        if name == "codes":
            np.save(FOLDER / "codes.npy", thing.to_faiss())
            continue
        fact["ready"] = name != "kernel_waiting"
        if fact["ready"]:
            np.save(FOLDER / f"{name}.npy", thing.encode(rows).to_faiss())
        if name == "encoder":
            continue
        fact["class"], fact["version"] = type(thing).__name__, thing.version_
        fact["losses"] = thing.learn_pairs(A, B, similar).loss.tolist()
        thing.partial_fit(A, similar)
        fact["version_after"] = thing.version_
        np.save(FOLDER / f"{name}_after.npy", thing.encode(rows).to_faiss())
    (FOLDER / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    write_indexes() if sys.argv[1:] == ["indexes"] else main()
