"""Truth and precision with a folder: what was found before a failure is not looked for again, and never mixed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onlinehash import Encoder, bulk
from onlinehash.bulk.partitions import Partition, Rows
from onlinehash.errors import FormatError, InvalidInput, StorageError
from tests.bulk.data import QUERIES, X, Y, learned, written

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


@pytest.mark.parametrize("kind", ["rows", "labels"])
def test_counts_go_on_where_they_were_cut_off(kind: str, encoder: Encoder, source: bulk.Source, tmp_path: Path) -> None:
    codes, folder, hidden = tmp_path / "codes", tmp_path / "counts", tmp_path / "hidden"
    truth = bulk.same_label(Y[:20]) if kind == "labels" else bulk.ground_truth(QUERIES, source, 25, on=ON)
    bulk.encode(encoder, source, codes, ON)
    expected = bulk.mean_average_precision(encoder, QUERIES, codes, truth, ON)
    (codes / "part-000004.parquet").rename(hidden)
    with pytest.raises(FormatError, match="damaged or missing"):
        bulk.mean_average_precision(encoder, QUERIES, codes, truth, ON, folder=folder)
    hidden.rename(codes / "part-000004.parquet")
    for number in range(4):
        (codes / f"part-{number:06}.parquet").unlink()  # of which all is known
    assert bulk.mean_average_precision(encoder, QUERIES, codes, truth, ON, folder=folder) == expected


def test_a_damaged_answer_is_made_anew(source: bulk.Source, tmp_path: Path) -> None:
    folder, part, other = tmp_path / "near", tmp_path / "near/part-000001.npz", tmp_path / "near/part-000002.npz"
    expected = bulk.ground_truth(QUERIES, source, 7, on=ON, folder=folder)
    whole, n_mended = part.read_bytes(), 0
    flips = [
        bytes(value ^ (0x40 * (at == where)) for at, value in enumerate(whole)) for where in range(0, len(whole), 97)
    ]
    for damaged in (*flips, whole[: len(whole) // 2], b"", other.read_bytes()):
        part.write_bytes(damaged)
        check_same(bulk.ground_truth(QUERIES, source, 7, on=ON, folder=folder), expected)
        n_mended += part.read_bytes() == whole  # damage that is not seen is in nothing that counts
    assert n_mended > len(whole) // 97 * 3 // 4


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


def test_answers_among_the_vectors_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InvalidInput, match="choose a folder outside"):
        bulk.ground_truth(QUERIES, tmp_path, 7, on=ON, folder=tmp_path / "near")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]
