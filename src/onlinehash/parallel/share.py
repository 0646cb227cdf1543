"""One process's share of MMOH's models, and the board on which the processes work together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from onlinehash.learners import online_hashing_kernels as kernels
from onlinehash.numeric.dots import aligned_zeros, padded_width
from onlinehash.parallel.shared_arrays import Layout, SharedArrays


class Split(NamedTuple):
    """How models are shared out: process p has the models from `first(p)` to `first(p + 1)`, as evenly as can be."""

    n_processes: int
    n_models: int
    n_bits: int
    n_inputs: int
    dtype: str

    def first(self, process: int) -> int:
        return process * self.n_models // self.n_processes

    def models(self, process: int) -> slice:
        return slice(self.first(process), self.first(process + 1))

    def columns(self, process: int) -> slice:
        """The rows of W that are a process's: the bits of its models."""
        return slice(self.first(process) * self.n_bits, self.first(process + 1) * self.n_bits)

    def layout(self, n_pairs: int) -> Layout:
        """The board: what all read, and for each process what it alone writes."""
        point, n_columns = ((n_pairs, self.n_inputs), self.dtype), self.n_models * self.n_bits
        layout = {
            "A": point,
            "B": point,
            "similar": ((n_pairs,), "int8"),
            "C": ((n_pairs,), "float64"),
            "total": ((self.n_inputs,), "float64"),
            "mean": ((self.n_inputs,), "float64"),
            "W": ((n_columns, padded_width(self.n_inputs)), self.dtype),
            "medians": ((n_columns,), "float64"),
            "spreads": ((n_columns,), "float64"),
            "said": ((self.n_processes * n_pairs,), "int64"),
        }
        for p in range(self.n_processes):
            n = self.first(p + 1) - self.first(p)
            layout |= {
                f"losses {p}": ((n_pairs, n), "float64"),
                f"step {p}": ((n_pairs, n), "float64"),
                f"capped {p}": ((n_pairs, n), "bool"),
                f"flips {p}": ((n_pairs, n * self.n_bits), "int8"),
                f"n_moved {p}": ((n_pairs,), "int64"),
                f"moved {p}": ((n_pairs,), "bool"),
            }
        return layout


@dataclass(frozen=True)
class Block:
    """What the processes are told of a block of pairs beside what stands on the board."""

    n_pairs: int
    alpha: int
    b: float
    n_rounds: int
    n_centred: int  # points in the mean so far, and the most it takes
    limit: int
    follows_medians: bool
    n_in_medians: int


@dataclass(frozen=True, eq=False)
class Done:
    """Where a block stopped (see the kernel), and what is the same for all processes after it."""

    stopped_at: int
    total: np.ndarray
    count: np.ndarray
    mean: np.ndarray
    n_in_medians: np.ndarray


def learn_block(board: SharedArrays, split: Split, me: int, block: Block, told_to_stop: np.ndarray) -> Done:
    """Learn a block of pairs with this process's models.

    The mean is followed by every process for itself: that costs little beside the models' projections, and nobody
    waits for it.
    """
    n, columns = block.n_pairs, split.columns(me)
    total, mean = board["total"].copy(), board["mean"].copy()
    count, seen = np.array([block.n_centred]), np.array([block.n_in_medians])
    names = ("losses", "step", "capped", "flips", "n_moved", "moved")
    losses, step, capped, flips, n_moved, moved = (board[f"{name} {me}"][:n] for name in names)
    for array in (losses, step, capped, flips, n_moved, moved):
        array[...] = 0
    stopped_at = kernels.learn_some_models(
        board["W"][columns],
        _room(split.n_inputs, split.dtype),
        board["A"][:n],
        board["B"][:n],
        board["similar"][:n],
        board["C"][:n],
        kernels.Rule(losses.shape[1], block.alpha, block.b, block.n_rounds),
        kernels.Mean(total, count, block.limit, mean),
        kernels.Thresholds(block.follows_medians, board["medians"][columns], board["spreads"][columns], seen),
        kernels.Trace(np.zeros(n), step, capped, flips, n_moved, moved, np.zeros(0)),
        kernels.Crew(split.n_processes, me, split.first(me), board["said"], told_to_stop, losses),
        np.zeros(0),
    )
    return Done(stopped_at, total, count, mean, seen)


@cache
def _room(n_inputs: int, dtype: str) -> np.ndarray:
    """The kernel's room to work in, as the learner's own `_ahead`."""
    return aligned_zeros((2 * kernels.PAIRS_AHEAD, n_inputs), dtype)
