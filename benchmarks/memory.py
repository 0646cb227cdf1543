"""State size and memory along a stream of 10^4 and 10^6 pairs: both must stay constant."""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

import common
import numpy as np

import onlinehash
from onlinehash import OnlineHashing, RbfAnchors


def main() -> None:
    print(common.machine())
    learner = OnlineHashing(32, features=RbfAnchors(100), random_state=0)
    A, B, similar = common.pairs(*common.clusters(20_000, 64))
    print(f"{'pairs seen':>12} {'state bytes':>12} {'peak memory MiB':>16}")
    with tempfile.TemporaryDirectory() as folder:
        for target in (10_000, 100_000, 1_000_000):
            while learner.n_pairs_seen_ < target if hasattr(learner, "n_pairs_seen_") else True:
                learner.partial_fit_pairs(A, B, similar)
            path = Path(folder) / "model.oh"
            onlinehash.save(learner, path)
            arrays = sum(value.nbytes for value in _arrays(learner.get_state()))
            unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kibibytes elsewhere
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
            print(f"{learner.n_pairs_seen_:>12,} {arrays:>12,} {peak:>16.1f}   (file: {path.stat().st_size:,} bytes)")


def _arrays(value: object) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [array for part in inside for array in _arrays(part)]


if __name__ == "__main__":
    main()
