"""Text files as tables, a block of lines at a time: JSON lines and comma-separated values."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO, TypeAlias

from onlinehash.errors import InvalidInput
from onlinehash.streams.tables import Table, lower_names, plain_names

STANDARD_INPUT = "-"

#: Is told what is wrong with a row, which is then left out.
BadRow: TypeAlias = Callable[[InvalidInput], None]

#: The longest cell of a csv: the csv module would stop at 131,072, which is a vector of some thousand numbers.
LONGEST_CELL = 2**31 - 1

#: A number as JSON writes it, and the integers up to which every program that reads JSON has all of them.
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
LARGEST_INTEGER = 2**53


def read_jsonl(path: str, size: int, bad_row: BadRow | None = None) -> Iterator[Table]:
    """One JSON object a line; a key that a line lacks is None there."""
    with _open(path) as text:
        for numbers, objects in _batches(_json_objects(text, bad_row), size):
            names = list(dict.fromkeys(name for row in objects for name in row))
            lowered = lower_names(names, text.name)
            columns = {key: [row.get(name) for row in objects] for name, key in zip(names, lowered, strict=True)}
            written = dict(zip(lowered, plain_names(names), strict=True))
            yield Table(text.name, "jsonl", "line", numbers, columns, text.share, written)


def read_csv(path: str, size: int, bad_row: BadRow | None = None, find_numbers: bool = False) -> Iterator[Table]:
    """A header line, then as many cells in every line, between commas, semicolons or tabs; cells stay text.

    With `find_numbers`, the file is read twice, and its tables say which columns hold numbers alone.
    """
    with _open(path, twice=find_numbers) as text:
        numeric = _numeric_columns(text) if find_numbers else frozenset[int]()
        rows = _csv_rows(text)
        number, header = next(rows, (0, []))
        numbers_in_it = [cell.strip() for cell in header if _is_number(cell)]
        if numbers_in_it and not _are_counts(numbers_in_it, all_of_it=len(numbers_in_it) == len(header)):
            got = f"the number {numbers_in_it[0][:60]}"
            raise text.error(number, f"expected a header line with the names of the columns, got {got}")
        names = lower_names(header, text.name)
        written = dict(zip(names, plain_names(header), strict=True))
        for numbers, lines in _batches(_of_width(rows, len(names), text, bad_row), size):
            columns = dict(zip(names, map(list, zip(*lines, strict=True)), strict=True))
            yield Table(
                text.name, "csv", "line", numbers, columns, text.share, written, frozenset(names[k] for k in numeric)
            )


def number_of(cell: str) -> int | float | None:
    """The number that JSON reads from a cell; None for other texts, and for integers that some programs would round."""
    cell = cell.strip()
    if not NUMBER.fullmatch(cell) or not math.isfinite(number := float(cell)):
        return None
    if set(cell) & set(".eE"):
        return number
    return int(cell) if abs(number) <= LARGEST_INTEGER else None


def _numeric_columns(text: _Text) -> frozenset[int]:
    """The places of the columns in which every cell that is not blank is a number."""
    rows = _csv_rows(text)
    _, header = next(rows, (0, []))
    numeric = set(range(len(header)))
    for _, cells in _of_width(rows, len(header), text, bad_row=lambda error: None):  # which is told when rows are read
        numeric -= {k for k in numeric if cells[k] and not cells[k].isspace() and number_of(cells[k]) is None}
        if not numeric:
            break
    text.rewind()
    return frozenset(numeric)


class _Text:
    """An open text file that can say where it is."""

    def __init__(self, name: str, file: TextIO, n_bytes: int) -> None:
        self.name = name
        self._file = file
        self._n_bytes = n_bytes

    def lines(self) -> Iterator[str]:
        for number in itertools.count(1):
            try:
                line = self._file.readline()
            except UnicodeDecodeError as error:
                problem = f"this line or one soon after is not UTF-8: {error}; convert the file, such as with iconv"
                raise self.error(number, problem) from None
            if not line:
                return
            yield line

    def rewind(self) -> None:
        self._file.seek(0)

    @property
    def share(self) -> float | None:
        """How much has been read, by bytes; None for what has no size, such as a pipe."""
        return self._file.buffer.tell() / self._n_bytes if self._n_bytes else None

    def error(self, number: int, problem: str) -> InvalidInput:
        return InvalidInput(f"{self.name}, line {number}: {problem}.")


@contextmanager
def _open(path: str, twice: bool = False) -> Iterator[_Text]:
    """The text of a file, which can be read twice if that is asked for."""
    with ExitStack() as stack:
        if path == STANDARD_INPUT:
            text, is_at_hand = _Text("standard input", sys.stdin, 0), False
        else:
            file = stack.enter_context(open(path, encoding="utf-8-sig", newline=""))
            text, is_at_hand = _Text(path, file, os.fstat(file.fileno()).st_size), file.seekable()
        yield stack.enter_context(_copied(text)) if twice and not is_at_hand else text


@contextmanager
def _copied(text: _Text) -> Iterator[_Text]:
    """What comes through a pipe, on the disk."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.writelines(text.lines())
        file.seek(0)
        yield _Text(text.name, file, os.fstat(file.fileno()).st_size)


def _json_objects(text: _Text, bad_row: BadRow | None) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.lines(), start=1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield number, row
        else:
            _refuse(text.error(number, f"expected a JSON object, got {line.strip()[:60]!r}"), bad_row)


def _of_width(
    rows: Iterator[tuple[int, list[str]]], n: int, text: _Text, bad_row: BadRow | None
) -> Iterator[tuple[int, list[str]]]:
    for number, cells in rows:
        if len(cells) == n:
            yield number, cells
        else:
            _refuse(text.error(number, f"expected {n} cells as in the header, got {len(cells)}"), bad_row)


def _refuse(error: InvalidInput, bad_row: BadRow | None) -> None:
    if bad_row is None:
        raise error
    bad_row(error)


def _csv_rows(text: _Text) -> Iterator[tuple[int, list[str]]]:
    lines = text.lines()
    header = next(lines, "")
    rows = csv.reader(itertools.chain([header], lines), delimiter=_delimiter(header), strict=True)
    while True:
        usual = csv.field_size_limit(LONGEST_CELL)  # of the whole program, so only while a row is read
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise text.error(rows.line_num, f"not comma-separated values: {error}") from None
        finally:
            csv.field_size_limit(usual)
        if cells is None:
            return
        if cells:
            yield rows.line_num, cells


def _delimiter(header: str) -> str:
    """The comma, unless the header has none: spreadsheets write semicolons where the comma is the decimal sign."""
    return next((sign for sign in ",;\t" if sign in header), ",")


def _batches(rows: Iterator[tuple[int, Any]], size: int) -> Iterator[tuple[list[int], list[Any]]]:
    while batch := list(itertools.islice(rows, size)):
        yield [number for number, _ in batch], [row for _, row in batch]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _are_counts(numbers: list[str], all_of_it: bool) -> bool:
    """0, 1, 2, ... are the names that pandas gives, also 1, 2, ... beside a name; other numbers are data, no header."""
    starts = (0,) if all_of_it else (0, 1)
    return any(numbers == [str(start + k) for k in range(len(numbers))] for start in starts)
