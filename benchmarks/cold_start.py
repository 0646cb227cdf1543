"""Seconds of the first `onlinehash learn` of a new installation, and of later ones; and of `import onlinehash`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import numpy as np


def seconds(command: list[str], **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    print(common.machine())
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder) / "kernels")  # empty, as on a new installation
        pairs = Path(folder) / "pairs.npz"
        A, B, similar = common.pairs(*common.clusters(4000, 128))
        np.savez(pairs, A=A, B=B, similar=similar)
        learn = [sys.executable, "-m", "onlinehash", "learn", str(pairs), "--output", str(Path(folder) / "model.oh")]
        print(f"first learn, kernels compiled: {seconds(learn, NUMBA_CACHE_DIR=cache):.1f} s")
        again = [seconds(learn, NUMBA_CACHE_DIR=cache) for _ in range(3)]
        print(f"later ones, kernels cached:    {min(again):.1f} s")
    imports = [seconds([sys.executable, "-c", "import onlinehash"]) for _ in range(5)]
    nothing = [seconds([sys.executable, "-c", ""]) for _ in range(5)]
    print(f"import onlinehash:             {min(imports) - min(nothing):.3f} s")


if __name__ == "__main__":
    main()
