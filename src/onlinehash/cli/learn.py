"""`onlinehash learn`: learns from a stream, prints progress, and saves the model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import onlinehash
from onlinehash.cli import output, summaries
from onlinehash.cli.lesson import BlockReader, Lesson
from onlinehash.cli.target import check as check_target
from onlinehash.errors import InvalidInput
from onlinehash.learners.base import Learner
from onlinehash.progress import progress_bar
from onlinehash.streams.from_files import BLOCK_ROWS, read_tables


def learn(
    learner: Learner,
    files: Sequence[str],
    target: str,
    vectors: str | None,
    labels: str | None,
    format: str | None,
    limit: int | None,
    as_json: bool,
    similar_column: str | None = None,
) -> None:
    """Learn the files in order, print progress, save the learner."""
    if labels is not None and len(files) > 1:
        raise InvalidInput(f"--labels {labels} needs exactly one file of vectors, got {len(files)}.")
    check_target(target, (*files, vectors, labels))
    size = BLOCK_ROWS if limit is None else min(limit, BLOCK_ROWS)  # a live stream owes no more than that
    # All are opened before the first is learned: a file that is missing is told before the work.
    streams = [read_tables(file, format, size, labels) for file in files]
    read_block = BlockReader(learner, vectors, similar_column)
    lesson = Lesson(learner, limit)
    tell = _Teller(learner, as_json)
    began = time.perf_counter()
    with progress_bar(len(files)) as show_progress:
        for number, table in ((number, table) for number, tables in enumerate(streams) for table in tables):
            for row in lesson.take(read_block(table)):
                tell.row(row)
            show_progress(None if table.share is None else number + table.share, f"{lesson.n:,} {lesson.unit}")
            if lesson.is_over:
                break
    if lesson.is_empty:
        raise InvalidInput(f"no pairs or vectors in {', '.join(files)}; nothing was saved.")
    lesson.end()
    if lesson.n & (lesson.n - 1):  # no power of two, so it has not been told
        tell.row(lesson.row())
    onlinehash.save(learner, target)
    tell.end(target, time.perf_counter() - began)


class _Teller:
    """Prints progress, for people or for machines."""

    def __init__(self, learner: Learner, as_json: bool) -> None:
        self._learner = learner
        self._as_json = as_json
        self._has_header = False

    def row(self, row: dict[str, Any]) -> None:
        """A line of the table; a learner that learns nothing, or all at once, has nothing to tell."""
        if self._learner.traits.learns_from == "nothing" or self._learner.traits.unit == "batch":
            return
        unit = summaries.unit(self._learner)
        if self._as_json:
            output.print_json({"event": "progress"} | row)
            return
        if not self._has_header:
            print(f"{unit:>12}  {'loss a ' + unit[:-1]:>12}  {'update rate':>11}  {'bits moved':>11}", flush=True)
            self._has_header = True
        rates = f"{row['loss']:>12.3f}  {row['update_rate']:>11.1%}  {row['bits_moved']:>11,}"
        note = f"  {row['pending']:,} wait for anchors" if row["pending"] else ""
        print(f"{row[unit]:>12,}  {rates}{note}", flush=True)

    def end(self, target: str, seconds: float) -> None:
        """Print the summary."""
        numbers = summaries.learned(self._learner)
        name = type(self._learner).__name__
        if self._as_json:
            ending = {"event": "saved", "output": target, "method": name, "seconds": seconds}
            output.print_json(ending | numbers)
        else:
            words = summaries.in_words(numbers) | {"time": f"{seconds:.2f} s", "saved": f"{name}, as {target}"}
            output.print_columns(list(words.items()))
        if numbers["waiting_for"]:
            output.warn(summaries.what_it_needs(self._learner, target), self._as_json)
