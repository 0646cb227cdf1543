"""Truth and precision with a folder: what was found before a failure is not looked for again, and never mixed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from onlinehash import Encoder, bulk
from onlinehash.bulk.partitions import Partition, Rows
from onlinehash.errors import InvalidInput, StorageError
from tests.bulk.data import QUERIES, Y, learned, written

ON = "local://1"  # this process


@dataclass(frozen=True)
class Failing(Partition):
    """Leaves a note when it is read; from some row on, the disk fails until there is a file `mended`."""

    inner: Partition
    notes: Path

    def blocks(self) -> Iterator[Rows]:
        if self.first >= 520 and not (self.notes / "mended").exists():
            raise OSError(5, "Input/output error", self.path)
        (self.notes / str(self.first)).touch()
        return self.inner.blocks()


@pytest.fixture
def encoder() -> Encoder:
    return learned("OH").snapshot()


@pytest.fixture
def source(tmp_path: Path) -> bulk.Source:
    return bulk.open_source(written("npy", tmp_path), partition_rows=130)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_same(found: bulk.Neighbours, expected: bulk.Neighbours) -> None:
    assert found.rows.tobytes() == expected.rows.tobytes()
    assert found.squared_distances.tobytes() == expected.squared_distances.tobytes()


def test_a_search_for_neighbours_goes_on_where_it_was_cut_off(source: bulk.Source, tmp_path: Path) -> None:
    notes, folder = tmp_path / "notes", tmp_path / "near"
    notes.mkdir()
    failing = bulk.Source([Failing(p.path, p.identity, p.first, p.n_rows, p, notes) for p in source.partitions])
    with pytest.raises(StorageError, match=r"4 of 8 parts failed 3 times .*what is done is kept"):
        bulk.ground_truth(QUERIES, failing, 7, on=ON, folder=folder)
    before = contents(folder)
    assert sorted(before) == [*(f"part-{number:06}.npz" for number in range(4)), "question.sha256"]
    (folder / "part-000005.npz.0badcafe.part").write_bytes(b"begun by somebody who was killed")
    for note in notes.iterdir():
        note.unlink()
    (notes / "mended").touch()
    found = bulk.ground_truth(QUERIES, failing, 7, on=ON, folder=folder)
    read = {int(note.name) for note in notes.iterdir() if note.name != "mended"}
    assert read == {520, 650, 780, 910}
    check_same(found, bulk.ground_truth(QUERIES, source, 7, on=ON))
    after = contents(folder)
    assert len(after) == 9
    assert after.items() >= before.items()


def test_answers_to_another_question_are_refused(encoder: Encoder, source: bulk.Source, tmp_path: Path) -> None:
    near, counts, codes = tmp_path / "near", tmp_path / "counts", tmp_path / "codes"
    truth = bulk.ground_truth(QUERIES, source, 7, on=ON, folder=near)
    other_truth = bulk.ground_truth(QUERIES, source, 8, on=ON)
    other_encoder = learned("OH", 50).snapshot()
    bulk.encode(encoder, source, codes, ON)
    bulk.encode(other_encoder, source, tmp_path / "other codes", ON)
    bulk.mean_average_precision(encoder, QUERIES, codes, truth, ON, folder=counts)
    before = contents(near), contents(counts)
    refused = pytest.raises(InvalidInput, match=r"holds results for other queries.*choose a new folder")
    whole = bulk.open_source(tmp_path / "x.npy")
    for queries, vectors, k in ((QUERIES, source, 8), (QUERIES[::-1], source, 7), (QUERIES, whole, 7)):
        with refused:
            bulk.ground_truth(queries, vectors, k, on=ON, folder=near)
    for model, queries, folder, wanted in (
        (encoder, QUERIES, codes, other_truth),
        (encoder, QUERIES, codes, bulk.same_label(Y[:20])),
        (encoder, -QUERIES, codes, truth),
        (other_encoder, QUERIES, tmp_path / "other codes", truth),
    ):
        with refused:
            bulk.mean_average_precision(model, queries, folder, wanted, ON, folder=counts)
    with refused:
        bulk.mean_average_precision(encoder, QUERIES, codes, truth, ON, folder=near)
    with pytest.raises(InvalidInput, match="the answers need a new or empty folder"):
        bulk.mean_average_precision(encoder, QUERIES, codes, truth, ON, folder=codes)
    assert (contents(near), contents(counts)) == before
