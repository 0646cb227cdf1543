"""Kernels compiled for another processor than this one, and what their assembly says of their loops.

Run as a program in a process of its own, it prints the assembly of the scan's kernels: Numba is told to leave them
unoptimised, for what it would do for this machine cannot be undone, and LLVM then optimises them for the other.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

TRIPLE = "aarch64-unknown-linux-gnu"

#: Loads and stores of whole vector registers on the stack, where AArch64 keeps what its 32 registers do not hold.
SPILL = re.compile(r"\s(?:ldr|ldp|ldur|str|stp|stur|ld1|st1)\s+[{]?\s*[qv]\d+.*\[sp\b")


def arm_kernels(cpu: str, cache: Path) -> dict[str, str]:
    """The assembly of the kernels that `scan_kernels` names, for a processor of the AArch64 family.

    `cache` is an empty directory: kernels that are not optimised must not be found by anybody else.
    """
    environment = os.environ | {"NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "tests.assembly", cpu]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def scan_kernels() -> dict[str, str]:
    """Unoptimised LLVM of the scan's kernels, and of the comparisons in both orders alone in a loop over groups."""
    import llvmlite.binding as llvm
    import numpy as np
    from numba import njit

    from onlinehash import Codes, FlatIndex
    from onlinehash.codes.lanes import GROUP, any_below_in_order, any_below_in_streams
    from onlinehash.index import scan

    @njit(nogil=True)
    def in_order(planes, n_groups, n_models, per_model, query, bound, noted):
        for i in range(n_groups):
            noted[i] = any_below_in_order(planes, GROUP * i, n_models, per_model, query, bound)

    @njit(nogil=True)
    def in_streams(planes, n_groups, n_models, per_model, query, bound, noted):
        for i in range(n_groups):
            noted[i] = any_below_in_streams(planes, i, n_models, per_model, query, bound, n_groups)

    llvm.set_option("", "--disable-expand-reductions")  # which this machine may need, and AArch64 has instructions for
    codes = Codes.from_bits(np.zeros((64 * GROUP, 8), np.bool_))
    scan.kernels = scan.IN_ORDER
    index = FlatIndex(codes)
    index.search(codes[:1], 1)
    index.within(codes[:1], 1)
    for kernel in (in_order, in_streams):
        kernel(codes.planes, 1, 1, 1, np.zeros(64, np.uint8), 1, np.empty(1, np.bool_))
    kernels = {"in order": in_order, "in streams": in_streams} | scan.kernels._asdict()
    return {name: kernel.inspect_llvm(kernel.signatures[0]) for name, kernel in kernels.items()}


def compiled(code: str, cpu: str) -> str:
    """The assembly of a module of LLVM, optimised as Numba does."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, opt=3)
    for what, value in (("triple", TRIPLE), ("datalayout", str(machine.target_data))):
        code, found = re.subn(rf"^target {what} = .*$", f'target {what} = "{value}"', code, flags=re.MULTILINE)
        assert found == 1
    module = llvm.parse_assembly(code)
    options = llvm.create_pipeline_tuning_options(3)
    options.loop_vectorization, options.slp_vectorization = True, False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


class Loops:
    """The basic blocks of assembly for AArch64, and how many loops each is in."""

    def __init__(self, assembly: str) -> None:
        self.blocks: dict[str, list[str]] = {}
        label = ""
        for line in assembly.splitlines():
            if named := re.match(r"([\w.$]+):", line):
                label = named[1]
                self.blocks[label] = []
            elif re.match(r"\t[a-z]", line) and label:
                self.blocks[label].append(line)
                if re.match(r"\t(b\.|cbn?z|tbn?z)", line):  # what follows a branch is a block of its own
                    label = f"{label}+"
                    self.blocks[label] = []
        self._next = self._successors()
        self.depth = dict.fromkeys(self.blocks, 0)
        self._descend(set(self.blocks))

    def innermost(self) -> list[list[str]]:
        """The loops of a single block."""
        return [self.blocks[block] for block in self.blocks if block in self._next[block]]

    def lines(self, least_depth: int) -> list[str]:
        """All that is in at least so many loops."""
        return [line for block, lines in self.blocks.items() if self.depth[block] >= least_depth for line in lines]

    def _successors(self) -> dict[str, set[str]]:
        names, following = list(self.blocks), {}
        for name, after in zip(names, [*names[1:], None], strict=True):
            last = self.blocks[name][-1] if self.blocks[name] else ""
            target = last.split()[-1] if re.match(r"\t(b|cbn?z|tbn?z)[.\s]", last) else None
            following[name] = {target} & set(names)
            if not re.match(r"\t(b|ret|br)\s", last) and after:
                following[name].add(after)
        return following

    def _descend(self, blocks: set[str]) -> None:
        """Every cycle is one loop deeper, and what is left of it without its entry may hold others."""
        for cycle in self._cycles(blocks):
            for block in cycle:
                self.depth[block] += 1
            others = set(self.blocks) - cycle
            entries = {block for block in cycle if any(block in self._next[other] for other in others)}
            self._descend(cycle - entries)

    def _cycles(self, blocks: set[str]) -> list[set[str]]:
        """Sets of blocks that all reach one another."""
        reach = {block: self._reached(block, blocks) for block in blocks}
        cycles, seen = [], set()
        for block in blocks:
            if block in reach[block] and block not in seen:
                cycle = {other for other in reach[block] if block in reach[other]}
                seen |= cycle
                cycles.append(cycle)
        return cycles

    def _reached(self, start: str, blocks: set[str]) -> set[str]:
        found, left = set(), [start]
        while left:
            new = (self._next[left.pop()] & blocks) - found
            found |= new
            left += new
        return found


if __name__ == "__main__":
    print(json.dumps({name: compiled(code, sys.argv[1]) for name, code in scan_kernels().items()}))
