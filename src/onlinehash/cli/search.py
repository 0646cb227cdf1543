"""`onlinehash search`: the nearest items of an index for vectors or codes.

For vectors, a live index is asked by `find`; whatever has no vectors to compare, by codes.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import onlinehash
from onlinehash import checks
from onlinehash.cli import inputs, output
from onlinehash.cli.target import check as check_target
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput, InvalidParameter, MissingExtra, NotReady
from onlinehash.index.api import Where
from onlinehash.index.base import Index
from onlinehash.index.gpu import GpuIndex
from onlinehash.index.hits import Hits
from onlinehash.live.index import LiveIndex
from onlinehash.live.queries import sorted_by
from onlinehash.progress import progress_bar
from onlinehash.streams.from_files import BLOCK_ROWS

ENDINGS = (".csv", ".npz", ".parquet")

#: How many neighbours where nothing is said.
NEIGHBOURS = 10


def search(
    path: str,
    queries: str,
    k: int | None,
    radius: int | None,
    where: Where | None,
    by_codes: bool,
    jobs: int,
    device: str,
    target: str,
    format: str | None,
    as_json: bool,
) -> None:
    """Search an index for the vectors or codes of a file, and print or write what is found."""
    if k is not None and radius is not None:
        raise InvalidParameter(f"-k {k} and --radius {radius} cannot be combined; give one of them.")
    rule = checks.either(checks.integer(1), checks.integer(-1, -1))
    checks.parameters("search", {"--jobs": jobs}, {"--jobs": rule})
    if target != "-":
        _check_ending(target)
        check_target(target, (path, queries))
    with opened(path, jobs, device) as index:
        if where is not None and not isinstance(index, LiveIndex):
            raise InvalidInput(f"--where needs the folder of a live index; the items of {path} have no payloads.")
        answers = _answers(index, queries, format, k, radius, where, by_codes)
        if target != "-":
            _write_file(answers, target, as_json)
        elif as_json:
            for query, (hits, ranked_by) in enumerate(answers):
                found = {"query": query, "ids": hits.ids, "distances": hits.distances, "ranked_by": ranked_by}
                output.print_json(found)
        else:
            _print_table(answers)


@contextmanager
def opened(path: str, jobs: int = 1, device: str = "cpu") -> Iterator[Index | LiveIndex]:
    """The index in a file, which stays there, or in the folder of a live index, which may be in use."""
    if os.path.isdir(path):
        with LiveIndex.open(path, read_only=True, n_jobs=jobs, device=device) as live:
            if live.encoder is None:
                raise NotReady(
                    f"{path} has no codes yet ({len(live):,} items, and its learner has no hash functions); add items."
                )
            yield live
        return
    index = onlinehash.load(path, mmap=True)
    if not isinstance(index, Index):
        raise InvalidInput(
            expected=f"an index in {path}", got=type(index).__name__, hint="make one with `onlinehash index`"
        )
    index.n_jobs = jobs
    yield GpuIndex.of(index) if device == "cuda" else index


#: By what hits were put in order, as the service tells it.
RankedBy = dict[str, Any]
HAMMING: RankedBy = {"metric": "hamming"}


def _answers(
    index: Index | LiveIndex,
    queries: str,
    format: str | None,
    k: int | None,
    radius: int | None,
    where: Where | None,
    by_codes: bool,
) -> Iterator[tuple[Hits, RankedBy]]:
    """The hits of each query, found block by block."""
    width = inputs.Width(index.n_bits, index.n_models)
    n = 0
    with progress_bar() as show_progress:
        for block in inputs.read_blocks(queries, format, index.encoder, width, as_queries=True):
            for start in range(0, len(block.codes), BLOCK_ROWS):
                some = slice(start, start + BLOCK_ROWS)
                if isinstance(index, LiveIndex) and block.vectors is not None and radius is None and not by_codes:
                    yield from _find(index, block.vectors[some], k, where)
                else:
                    yield from ((hits, HAMMING) for hits in _search(index, block.codes[some], k, radius, where))
                done = min(start + BLOCK_ROWS, len(block.codes))
                n += done - start
                read = done / len(block.codes)  # only a file that is one block has more than one round
                show_progress(None if block.share is None else block.share * read, f"{n:,} queries")


def _search(
    index: Index | LiveIndex, codes: Codes, k: int | None, radius: int | None, where: Where | None
) -> Iterator[Hits]:
    options: dict[str, Any] = {} if where is None else {"where": where}  # which a live index alone takes
    if radius is not None:
        found = index.within(codes, radius, **options)
        return iter(found if isinstance(found, list) else [found])
    hits = index.search(codes, NEIGHBOURS if k is None else k, **options)
    return (Hits(*row) for row in zip(*hits, strict=True))


def _find(index: LiveIndex, vectors: np.ndarray, k: int | None, where: Where | None) -> Iterator[tuple[Hits, RankedBy]]:
    ranked_by = sorted_by(index.learner.pair_metric_)
    hits = index.find(vectors, NEIGHBOURS if k is None else k, where)
    return ((Hits(*row), ranked_by) for row in zip(*hits, strict=True))


def _print_table(answers: Iterator[tuple[Hits, RankedBy]]) -> None:
    """A line for each hit; ids come last, as they are as long as they like."""
    line = "{:>9}  {:>6}  {:>8}  {}".format
    for query, (hits, ranked_by) in enumerate(answers):
        if query == 0:
            print(line("query", "rank", "hamming" if ranked_by == HAMMING else "distance", "id"))
        for rank, (id, distance) in enumerate(zip(hits.ids.tolist(), hits.distances.tolist(), strict=True), 1):
            print(line(query, rank, round(distance, 4), id))


# ------------------------------------------------------------------ files of hits


def _check_ending(target: str) -> None:
    ending = Path(target).suffix.lower()
    if ending not in ENDINGS:
        raise InvalidInput(expected=f"an output that ends in {', '.join(ENDINGS)}, or -", got=repr(target))
    if ending == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingExtra("writing parquet", "pyarrow", "parquet") from None


def _write_file(answers: Iterator[tuple[Hits, RankedBy]], target: str, as_json: bool) -> None:
    answered = list(answers)
    found, ranked_by = [hits for hits, _ in answered], answered[-1][1]
    counts = [len(hits.ids) for hits in found]
    columns = {
        "query": np.repeat(np.arange(len(found)), counts),
        "rank": np.concatenate([np.arange(1, count + 1) for count in counts]),
        "distance": np.concatenate([hits.distances for hits in found]),
        "id": np.concatenate([hits.ids for hits in found]),
    }
    ending = Path(target).suffix.lower()
    if ending == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), target)
    elif ending == ".npz":
        if columns["id"].dtype == object:  # which only pickle could write
            columns["id"] = columns["id"].astype(str)
        with open(target, "wb") as file:  # NumPy would add an ending of its own to a name in capitals
            np.savez(file, **columns)  # type: ignore[arg-type]
    else:
        with open(target, "w", encoding="utf-8", newline="") as text:
            writer = csv.writer(text)
            writer.writerow(columns)
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    if as_json:
        output.print_json({"n": len(found), "hits": sum(counts), "output": target, "ranked_by": ranked_by})
    else:
        told = "codes" if ranked_by == HAMMING else "find"
        print(f"wrote {sum(counts):,} hits of {len(found):,} queries, found by {told}, to {target}")
