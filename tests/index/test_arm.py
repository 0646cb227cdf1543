"""The scan as LLVM compiles it for AArch64, whatever this machine is."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from onlinehash.codes.lanes import AHEAD
from tests.assembly import SPILL, TRIPLE, Loops, arm_kernels


def _has_target() -> bool:
    llvm.initialize_all_targets()
    try:
        llvm.Target.from_triple(TRIPLE)
    except RuntimeError:
        return False
    return True


pytestmark = [
    pytest.mark.skipif(not _has_target(), reason="this llvmlite was built without AArch64"),
    pytest.mark.long,  # a process compiles all of the scan for each of them
]

CPUS = ["neoverse-n1", "apple-m1", "generic"]


@pytest.fixture(scope="module", params=CPUS)
def kernels(request, tmp_path_factory):
    return {name: Loops(text) for name, text in arm_kernels(request.param, tmp_path_factory.mktemp("cache")).items()}


def count(lines: list[str], instruction: str) -> int:
    return sum(line.split()[0] == instruction for line in lines)


def plane_loops(loops: Loops) -> list[list[str]]:
    return [lines for lines in loops.innermost() if count(lines, "cnt")]


def test_reading_in_order_keeps_everything_in_registers(kernels):
    loops = kernels["in order"]
    assert len(plane_loops(loops)) >= 2  # bytes and shorts
    for lines in plane_loops(loops):
        assert count(lines, "cnt") == count(lines, "eor") == 4  # 64 lanes, and one query's
        assert count(lines, "prfm") == 1
        assert not any("[sp" in line for line in lines)
    assert not [line for line in loops.lines(least_depth=2) if SPILL.search(line)]


def test_reading_in_order_compares_once_a_group(kernels):
    loops = kernels["in order"]
    assert count(loops.lines(least_depth=1), "uminv") == 2  # for bytes, and for shorts
    assert count(loops.lines(least_depth=2), "uminv") == 0  # which is where blocks are taken
    assert count(loops.lines(least_depth=1), "cmhi") == count(loops.lines(least_depth=1), "cmhs") == 0


@pytest.mark.parametrize("name", ["nearest", "within"])
def test_the_whole_scan_compares_once_a_group(kernels, name):
    assert count(kernels[name].lines(least_depth=0), "uminv") == 2  # for bytes, and for shorts


@pytest.mark.parametrize("name", ["in order", "nearest", "within"])
def test_memory_is_asked_for_as_far_ahead_as_measured(kernels, name):
    """On a Neoverse N1, 1 to 2 KiB ahead come close to what memory can give; 4 KiB and none halve it."""
    assert 1024 <= AHEAD <= 2048
    asked = [line for lines in plane_loops(kernels[name]) for line in lines if line.split()[0] == "prfm"]
    assert asked
    assert all(re.search(rf"pldl1keep, \[x\d+, #{AHEAD}\]$", line) for line in asked)


@pytest.mark.parametrize("name", ["nearest", "within"])
def test_the_loops_of_the_whole_scan_touch_no_stack(kernels, name):
    assert len(plane_loops(kernels[name])) >= 4  # of groups and of single blocks, in bytes and in shorts
    for lines in plane_loops(kernels[name]):
        assert count(lines, "cnt") == 4
        assert count(lines, "prfm") == 1
        assert not any("[sp" in line for line in lines)


def test_spills_are_seen_where_there_are_some(kernels):
    """Four streams in shorts take more than 32 registers."""
    assert [line for line in kernels["in streams"].lines(least_depth=2) if SPILL.search(line)]
