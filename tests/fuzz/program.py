"""A program that fuzzes one target for some seconds, within limits on memory and time for each case.

    python -m tests.fuzz.program TARGET SECONDS SEED

It goes on from the kept cases (tests/fuzz/corpus/TARGET) and from those whose outcome is new. Each case is written to
a file before it is tried, so that one the process dies of is known: CASE, which the first line of the output names. A
fault ends the program; the last line of the output is the number of cases and of outcomes. Where a fault was found and
mended, its case belongs into the corpus.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import FrameType

import numpy as np

from tests.fuzz.targets import TARGETS

#: Seconds and bytes of memory that a case may take.
SECONDS, BYTES = 20, 6 << 30

CORPUS = Path(__file__).parent / "corpus"


def kept(target: str) -> list[Path]:
    """The cases in the corpus."""
    return sorted((CORPUS / target).glob("*.case"))


def too_long(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"a case took more than {SECONDS} seconds")


def main(name: str, seconds: float, seed: int) -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGALRM, too_long)
    target, rng = TARGETS[name](), np.random.default_rng(seed)
    cases = [*target.seeds(), *(path.read_bytes() for path in kept(name))]
    current = Path(tempfile.mkdtemp()) / f"{name}.case"
    print(current, flush=True)
    outcomes = {target.run(case) for case in cases}
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        case = target.changed(cases[rng.integers(len(cases))], rng)
        current.write_bytes(case)
        signal.alarm(SECONDS)
        outcome = target.run(case)
        signal.alarm(0)
        n += 1
        if outcome not in outcomes:
            outcomes.add(outcome)
            cases.append(case)
    current.unlink(missing_ok=True)
    current.parent.rmdir()
    print(n, len(outcomes))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
