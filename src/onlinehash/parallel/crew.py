"""`Crew`: the processes among which MMOH's models are shared out. The first is the one that asks.

Pairs come in blocks. Between blocks the other processes sleep; within one they meet only at similar pairs, by a number
in shared memory each (see `online_hashing_kernels.Crew`). A process that is gone is noticed by a thread that watches
them all: it tells the others to stop waiting.
"""

from __future__ import annotations

import multiprocessing
import threading
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from onlinehash.errors import OnlineHashError
from onlinehash.learners.base import BLOCK_PAIRS
from onlinehash.learners.online_hashing_kernels import STOPPED
from onlinehash.parallel.helpers import live_for_parent
from onlinehash.parallel.share import Block, Done, Split, learn_block
from onlinehash.parallel.shared_arrays import SharedArrays

FLAGS = {"told_to_stop": ((1,), "int64")}

#: Seconds given to a process to end by itself.
GRACE = 5.0


class Crew:
    """Other processes that are ready to learn blocks with this one; `board` is where a block is written to."""

    def __init__(self, n_processes: int) -> None:
        self.n_processes = n_processes
        self.board: SharedArrays
        self._split: Split | None = None
        self._is_open = True
        self._flags = SharedArrays(FLAGS)
        self._lines: list[Connection] = []
        self._others: list[multiprocessing.process.BaseProcess] = []
        context = multiprocessing.get_context("spawn")
        for me in range(1, n_processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, me, self._flags.name), daemon=True)
            process.start()
            theirs.close()
            self._lines.append(ours)
            self._others.append(process)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        """Ends when the first of the others does."""
        if self._others:
            wait([process.sentinel for process in self._others])
        self._flags["told_to_stop"][0] = 1

    def lay_out(self, split: Split) -> None:
        """A board for models of that shape."""
        self._check_open()
        if split != self._split:
            if self._split is not None:
                self.board.close()
            self.board, self._split = SharedArrays(split.layout(BLOCK_PAIRS)), split

    def learn(self, block: Block) -> Done:
        """All processes learn the block on the board, each with its models."""
        assert self._split is not None
        self._check_open()
        self.board["said"][: self.n_processes * block.n_pairs] = 0
        try:
            done = self._learn(self._split, block)
        except (EOFError, OSError):
            done = None
        except BaseException:
            self.close()
            raise
        if done is None or done.stopped_at == STOPPED:
            code = self._exit_code()
            self.close()
            fate = "did not answer" if code is None else f"ended with exit code {code}"
            raise OnlineHashError(
                f"one of the processes that share the models {fate}; the learner is as it was before the call: "
                "give the pairs to a new ParallelModels."
            )
        return done

    def _learn(self, split: Split, block: Block) -> Done:
        for line in self._lines:
            line.send((self.board.name, split, block))
        done = learn_block(self.board, split, 0, block, self._flags["told_to_stop"])
        for line in self._lines:
            line.recv()
        return done

    def _exit_code(self) -> int | None:
        """The exit code of a process that ended; None where none did within the grace period."""
        ended = wait([process.sentinel for process in self._others], GRACE)
        for process in self._others:
            if process.sentinel in ended:
                process.join(GRACE)  # the sentinel is ready a moment before the system knows the code
                return process.exitcode
        return None

    def _check_open(self) -> None:
        if not self._is_open:
            raise OnlineHashError("this ParallelModels is closed; make another.")

    def close(self) -> None:
        """Let the other processes end, and give the shared memory back."""
        if not self._is_open:
            return
        self._is_open = False
        self._flags["told_to_stop"][0] = 1
        for line in self._lines:
            line.close()
        for process in self._others:
            process.join(GRACE)
            if process.exitcode is None:
                process.kill()
                process.join()
        self._watcher.join()
        self._flags.close()
        if self._split is not None:
            self.board.close()


def _serve(line: Connection, me: int, flags_name: str) -> None:
    """The life of another process: a block at a time, until the line is cut."""
    live_for_parent()
    board: SharedArrays | None = None
    with SharedArrays(FLAGS, flags_name) as flags, suppress(EOFError, OSError):
        try:
            while True:
                name, split, block = line.recv()
                if board is None or board.name != name:
                    if board is not None:
                        board.close()
                    board = SharedArrays(split.layout(BLOCK_PAIRS), name)
                line.send(learn_block(board, split, me, block, flags["told_to_stop"]).stopped_at)
        finally:
            if board is not None:
                board.close()
