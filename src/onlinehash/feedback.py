"""Feedback as it comes: files of clicks, ratings or verdicts, learned by an index exactly once."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtrc

from onlinehash import checks
from onlinehash.errors import InvalidInput, NotSupported, UnknownId
from onlinehash.index.api import Capability, VectorIndex
from onlinehash.learners.pair_metric import PairMetric
from onlinehash.live.texts import embedded
from onlinehash.numeric.threads import one_thread
from onlinehash.streams.from_files import BLOCK_ROWS, FilePath, read_tables
from onlinehash.streams.marks import MarkReader, Marks
from onlinehash.streams.tables import FilePosition, unread, valid
from onlinehash.streams.text_tables import STANDARD_INPUT, BadRow

__all__ = ["Agreement", "Learned", "learn"]

#: Clicks that agree no better than this often happens by chance are told.
SIGNIFICANCE = 0.05


class Learned(NamedTuple):
    """What came of a file: rows read now and before, pairs made of those, pairs of items that are gone, and rows that
    were no good.

    Examples
    --------
    >>> from pathlib import Path
    >>> from onlinehash import LiveIndex, feedback
    >>> index = LiveIndex(n_bits=16)
    >>> _ = index.add([1, 2, 3], [[1.0, 2.0], [2.0, 0.5], [0.1, 0.2]])
    >>> rows = "query,id,similar", "1,2,1", "1,3,0", "1,99,1"
    >>> _ = Path("log.csv").write_text(chr(10).join(rows))
    >>> feedback.learn(index, "log.csv")  # no item has id 99
    Learned(rows=3, rows_before=0, pairs=2, unknown=1, bad=0)
    >>> feedback.learn(index, "log.csv")  # nothing is learned twice
    Learned(rows=0, rows_before=3, pairs=0, unknown=0, bad=0)
    """

    rows: int
    rows_before: int
    pairs: int
    unknown: int
    bad: int = 0


class Agreement:
    """Whether clicks agree with what was known before them: with the vectors, and with the clicks before.

    For each query, the results that were clicked are compared with those that were shown and not clicked, just before
    the query is learned: are the former nearer? Of clicks that say nothing, half agree. So that it takes little time,
    this is done for the 1,024 rows of the first block of a file, and of the second, third, fifth, ninth, ...

    Attributes
    ----------
    compared, agreed : int
        Queries of which either kind came first more often, and those of which it was what was clicked.

    Examples
    --------
    >>> from onlinehash import feedback
    >>> agreement = feedback.Agreement()
    >>> agreement.compared, agreement.agreed = 100, 52
    >>> round(agreement.p_value, 2), agreement.is_chance
    (0.38, True)
    >>> feedback.Agreement().is_chance is None
    True
    """

    def __init__(self) -> None:
        self.compared = self.agreed = 0

    @property
    def p_value(self) -> float | None:
        """How often as many or more agree by chance, by a sign test on queries; None before the first."""
        return float(bdtrc(self.agreed - 1, self.compared, 0.5)) if self.compared else None

    @property
    def is_chance(self) -> bool | None:
        """Whether they agree no more than by chance, at a level of 5 %; None for so few that not even all would do."""
        p_value = self.p_value
        return None if p_value is None or 0.5**self.compared >= SIGNIFICANCE else p_value >= SIGNIFICANCE

    def count(self, index: VectorIndex, marks: list[Marks], lesson: Lesson) -> None:
        """Compare rows that the index is about to learn; each is tried by what those before it have taught."""
        metric = copy.deepcopy(index.learner.pair_metric_)  # the index itself learns all of them in one transaction
        if metric is None:
            return
        rows, places = np.unique(lesson.rows, return_index=True)
        sign = np.where(lesson.similar, 1.0, -1.0)
        begin = 0
        # Products of a query with what is kept are small: threads would only wait for each other.
        with one_thread():
            while begin < len(marks):  # row 0, row 1, rows 2 and 3, rows 4 to 7, ...
                end = min(max(2 * begin, 1), len(marks))
                for row, place in zip(rows.tolist(), places.tolist(), strict=True):
                    if begin <= row < end:
                        lead = _lead(index, metric, lesson.A[place], marks[row])
                        self.compared += lead != 0
                        self.agreed += lead > 0
                some = (lesson.rows >= begin) & (lesson.rows < end)
                metric.learn(lesson.A[some], lesson.B[some], sign[some], lesson.weight[some])
                begin = end


class Lesson(NamedTuple):
    """Pairs, aligned: the row of each, its vectors, and what is said of them."""

    rows: np.ndarray
    A: np.ndarray
    B: np.ndarray
    similar: np.ndarray
    weight: np.ndarray


def learn(
    index: VectorIndex,
    path: FilePath,
    *,
    format: str | None = None,
    skip_weight: float = 0.5,
    position_bias: float = 0.0,
    similar_column: str | None = None,
    watch: Callable[[float | None, int], None] = lambda share, rows: None,
    bad_row: BadRow | None = None,
    agreement: Agreement | None = None,
) -> Learned:
    """Teach an index what a file says: clicks, ratings or verdicts; docs/how-to/clicks.md has the columns.

    The index keeps how many rows it has learned, in the transaction of their pairs. So a call that was interrupted is
    repeated, and a log that has grown is given again: each row is learned once.

    Parameters
    ----------
    index : LiveIndex, PostgresIndex or MilvusIndex
    path : file
        JSON lines, csv or Parquet; `-` is standard input, of which no position is kept.
    format : str, optional
        If the name of the file does not tell.
    skip_weight, position_bias : float
        For clicks, as in `streams.from_clicks`.
    similar_column : str, optional
        The column that says whether the query and the item `id` are similar, such as `clicked` in a log with a row for
        each result. By default the columns tell: `shown` and `clicked`, `rating`, `similar` or `duplicate`.
    watch : callable, optional
        Is told how much of the file is read (None if unknown), and how many rows.
    bad_row : callable, optional
        Is told what is wrong with a row, which is then left out; without it, such a row ends the call. A file whose
        first 1,024 rows are all like that is refused in any case.
    agreement : Agreement, optional
        Counts how many queries' clicks agree with what was known before them.

    Returns
    -------
    Learned

    Raises
    ------
    InvalidInput
        If a row is not valid, unless `bad_row` is told. Rows of earlier blocks stay learned.

    Examples
    --------
    >>> from pathlib import Path
    >>> from onlinehash import LiveIndex, feedback
    >>> index = LiveIndex(n_bits=16, embed="lexical:32")
    >>> _ = index.add_texts(["a warm day", "a cold day", "a red car"])
    >>> row = '{"text": "heat", "shown": [1, 0], "clicked": [0]}'
    >>> _ = Path("clicks.jsonl").write_text(row)
    >>> feedback.learn(index, "clicks.jsonl").pairs
    2
    """
    if not index.supports(Capability.POSITIONS):
        raise NotSupported(
            f"learning a file needs an index that stores positions, and {type(index).__name__} does not."
        )
    has_text_ids = index.ids_kind == "strings"
    read = MarkReader(str if has_text_ids else _whole, has_text_ids, skip_weight, position_bias, similar_column)
    source = None if os.fspath(path) == STANDARD_INPUT else f"feedback {os.path.abspath(path)}"
    stored = FilePosition.of(None if source is None else index.positions.get(source))
    before = stored.rows
    rows, pairs, unknown, bad, blocks = before, 0, 0, 0, 0
    refused: list[InvalidInput] = []
    tables = read_tables(path, format, BLOCK_ROWS, bad_row=None if bad_row is None else refused.append)
    for table, start, position in unread(tables, stored, "learned"):
        if start < len(table):
            rows = position.rows
            if bad_row is None:
                marks = read(table)[start:]
            else:
                rest = table.at(range(start, len(table)))
                rest = valid(read, rest, refused.append, is_first=rows == len(table))
                marks = read(rest) if len(rest) else []
            is_tried = blocks & (blocks - 1) == 0  # 0, 1, 2, 4, 8, ...
            made, gone = _learn(index, marks, source, position, agreement if is_tried else None)
            blocks += 1
            pairs, unknown, bad = pairs + made, unknown + gone, bad + _tell(refused, bad_row)
        refused.clear()  # those among rows of an earlier call were told then
        watch(table.share, position.rows)
    return Learned(rows - before, before, pairs, unknown, bad + _tell(refused, bad_row))


def _tell(refused: list[InvalidInput], bad_row: BadRow | None) -> int:
    """Say what was wrong with rows; how many there are."""
    if bad_row is not None:
        for error in refused:
            bad_row(error)
    return len(refused)


def _learn(
    index: VectorIndex, marks: list[Marks], source: str | None, position: FilePosition, agreement: Agreement | None
) -> tuple[int, int]:
    """Learn the pairs of some rows, and keep the position with them; how many, and how many of items that are gone."""
    pairs = [
        (row, mark.kind, mark.query, id, similar, weight)
        for row, mark in enumerate(marks)
        for id, similar, weight in zip(mark.ids, mark.similar, mark.weight, strict=True)
        if not (mark.kind == "id" and mark.query == id)
    ]
    known = _known(index, {pair[3] for pair in pairs} | {pair[2] for pair in pairs if pair[1] == "id"})
    usable = [pair for pair in pairs if pair[3] in known and (pair[1] != "id" or pair[2] in known)]
    strange = [query for _, kind, query, *_ in pairs if kind == "id" and query not in known]
    have_spaces = any(" " in str(id) for id in known)  # then such a query may be an item that was removed
    text = next((query for query in strange if " " in str(query) and not have_spaces), None)
    if index.embedder is not None and (text is not None or (pairs and len(strange) == len(pairs))):
        shown = checks.shown(strange[0] if text is None else text)
        raise InvalidInput(
            f"the query {shown} is not the id of an item; queries that are texts belong in a column `text`."
        )
    if not usable:
        if source is not None:
            index.put_position(source, position.as_json())
        return 0, len(pairs)
    rows, kinds, queries, ids, similar, weight = zip(*usable, strict=True)
    A = _vectors(index, list(zip(kinds, queries, strict=True)))
    B = index.vectors_of(ids)
    if agreement is not None:
        agreement.count(index, marks, Lesson(np.array(rows), A, B, np.array(similar), np.array(weight)))
    if source is None:
        index.learn_pairs(A, B, similar, weight)
    else:
        with index.reached(source, position.as_json()):
            index.learn_pairs(A, B, similar, weight)
    return len(usable), len(pairs) - len(usable)


def _lead(index: VectorIndex, metric: PairMetric, query: np.ndarray, mark: Marks) -> float:
    """Of results that were clicked and others: in how many pairs the former is nearer, less those where the latter is.

    All that was shown counts, also what nobody may have looked at: as lists are in the order of some search already,
    what comes above a click is nearer as a rule, whoever clicks.
    """
    shown = [id for id in mark.shown if not (mark.kind == "id" and id == mark.query)]
    try:
        X = index.vectors_of(shown)
    except UnknownId:
        shown = [id for id in shown if id in index]
        X = index.vectors_of(shown)
    clicked = {id for id, similar in zip(mark.ids, mark.similar, strict=True) if similar}
    is_clicked = np.array([id in clicked for id in shown], np.bool_)
    if is_clicked.all() or not is_clicked.any() or not query.any():
        return 0.0
    ranking = metric.ranking(query, len(shown))
    ranking.add(X)
    places = np.argsort(ranking.order(len(shown))[0])
    return float(np.sign(np.subtract.outer(places[~is_clicked], places[is_clicked])).sum())


def _known(index: VectorIndex, ids: set[Any]) -> set[Any]:
    """Those ids that items have: as a rule, all of them."""
    try:
        if ids:
            index.vectors_of(sorted(ids))
    except UnknownId:
        return {id for id in ids if id in index}
    return ids


def _vectors(index: VectorIndex, queries: list[tuple[str, Any]]) -> np.ndarray:
    """One vector for each query; a file has one kind of them."""
    kind, values = queries[0][0], [query for _, query in queries]
    if kind == "id":
        return index.vectors_of(values)
    if kind == "vector":
        return np.stack(values)
    texts = list(dict.fromkeys(values))
    X = embedded(index, texts)
    places = {text: place for place, text in enumerate(texts)}
    return X[[places[text] for text in values]]


def _whole(value: Any) -> int:
    """An id of an index with integer ids."""
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    return int(value)
