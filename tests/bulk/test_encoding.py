"""Folders of codes: the codes of the encoder whatever the files, made once, mended where damaged, never mixed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import Encoder, bulk, evaluate
from onlinehash.errors import InvalidInput
from tests.bulk.data import IDS, LEARNERS, QUERIES, N, X, Y, learned, same_parts, written

ON = "local://1"  # this process


@pytest.fixture(params=LEARNERS)
def learner(request: pytest.FixtureRequest) -> Any:
    return learned(request.param)


@pytest.fixture
def encoder() -> Encoder:
    return learned("OH").snapshot()


def source(folder: Path, kind: str = "npy", vectors: np.ndarray = X) -> bulk.Source:
    return bulk.open_source(written(kind, folder, vectors), partition_rows=130)


@pytest.mark.parametrize("kind", ["parquet", "npy"])
def test_codes_are_those_of_the_encoder(kind: str, learner: Any, tmp_path: Path) -> None:
    opened = source(tmp_path, kind)
    report = bulk.encode(learner, opened, tmp_path / "codes", ON)
    assert report == (N, len(opened.partitions), 0)
    encoded = bulk.read_codes(tmp_path / "codes")
    assert encoded.codes == learner.encode(X)
    np.testing.assert_array_equal(encoded.ids, np.arange(N) if kind == "zarr" else IDS)
    np.testing.assert_array_equal(encoded.labels, Y)


def test_a_rerun_makes_only_what_is_missing_or_damaged(encoder: Encoder, tmp_path: Path) -> None:
    opened, codes, fresh = source(tmp_path), tmp_path / "codes", tmp_path / "fresh"
    bulk.encode(encoder, opened, codes, ON)
    bulk.encode(encoder, opened, fresh, ON)
    assert same_parts(codes, fresh)
    assert bulk.encode(encoder, opened, codes, ON).n_found == 8
    (codes / "part-000003.parquet").unlink()
    (codes / "part-000004.parquet").write_bytes((codes / "part-000005.parquet").read_bytes())  # of other rows
    (codes / "part-000006.parquet.0badcafe.part").write_bytes(b"begun by somebody who was killed")
    untouched = (codes / "part-000002.parquet").stat().st_ino
    assert bulk.encode(encoder, opened, codes, ON).n_found == 6
    assert (codes / "part-000002.parquet").stat().st_ino == untouched
    assert same_parts(codes, fresh)


def test_other_codes_are_never_mixed_in(encoder: Encoder, tmp_path: Path) -> None:
    opened, codes = source(tmp_path), tmp_path / "codes"
    bulk.encode(encoder, opened, codes, ON)
    before = {path.name: path.read_bytes() for path in codes.iterdir()}
    with pytest.raises(InvalidInput, match="codes by another"):
        bulk.encode(learned("OH", 50), opened, codes, ON)
    with pytest.raises(InvalidInput, match="codes of another source, or of this one before it was changed"):
        bulk.encode(encoder, bulk.open_source(tmp_path / "x.npy"), codes, ON)
    os.utime(tmp_path / "x.npy", ns=(1, 1))
    with pytest.raises(InvalidInput, match="before it was changed"):
        bulk.encode(encoder, bulk.open_source(tmp_path / "x.npy", partition_rows=130), codes, ON)
    assert {path.name: path.read_bytes() for path in codes.iterdir()} == before
    with pytest.raises(InvalidInput, match="need a new or empty folder"):
        bulk.encode(encoder, opened, tmp_path, ON)


def test_bad_vectors_are_told_by_their_row(encoder: Encoder, tmp_path: Path) -> None:
    bad = X.copy()
    bad[517, 3] = np.nan
    with pytest.raises(InvalidInput, match=r"x\.npy: row 517 of the source has values that are not finite"):
        bulk.encode(encoder, source(tmp_path, vectors=bad), tmp_path / "codes", ON)
    with pytest.raises(InvalidInput, match="are incomplete; run encode again"):
        bulk.read_codes(tmp_path / "codes")
    with pytest.raises(InvalidInput, match=r"vectors of 12 numbers.*got 5"):
        bulk.encode(encoder, source(tmp_path, vectors=np.ascontiguousarray(X[:, :5])), tmp_path / "other", ON)
    assert not (tmp_path / "other").exists()


def test_only_changed_bits_are_encoded_anew(learner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, older = source(tmp_path), learner.snapshot()
    bulk.encode(older, opened, tmp_path / "old", ON)
    more = X[200:400].astype(older.weights.dtype)
    pairs = zip(more[::2], more[1::2], strict=True)
    next(update for a, b in pairs if len((update := learner.learn_pair(a, b, True)).bits))
    newer = learner.snapshot()
    changed = newer.changed_bits(older)
    assert 0 < len(changed) < newer.n_columns
    asked: list[int] = []
    recode = Encoder.recode

    def watched(self: Encoder, codes: Any, rows: Any, columns: Any) -> Any:
        asked.append(len(columns))
        return recode(self, codes, rows, columns)

    monkeypatch.setattr(Encoder, "recode", watched)
    report = bulk.recode(newer, older, opened, tmp_path / "old", tmp_path / "new", ON)
    assert report == (N, 8, 0)
    assert set(asked) == {len(changed)}
    bulk.encode(newer, opened, tmp_path / "whole", ON)
    assert same_parts(tmp_path / "new", tmp_path / "whole")


def test_truth_and_precision_are_those_of_the_whole(learner: Any, tmp_path: Path) -> None:
    twins = X.copy()
    twins[500:] = twins[:500]  # every distance twice: ties between partitions
    opened = bulk.open_source(written("npy", tmp_path, twins), partition_rows=53)
    bulk.encode(learner, opened, tmp_path / "codes", ON)
    near = bulk.ground_truth(QUERIES, opened, k=25, on=ON)
    expected = evaluate.nearest(QUERIES, twins, k=25)
    np.testing.assert_array_equal(near.among(0, N, None).block(slice(None)), expected.block(slice(None)))
    exact = ((twins[near.rows].astype(np.float64) - QUERIES[:, None].astype(np.float64)) ** 2).sum(axis=2)
    np.testing.assert_allclose(near.squared_distances, exact, rtol=1e-12)
    assert (np.diff(near.squared_distances, axis=1) >= 0).all()
    for truth, whole in (
        (near, expected),
        (bulk.same_label(Y[:20]), evaluate.same_label(Y[:20], Y)),
    ):
        value = bulk.mean_average_precision(learner, QUERIES, tmp_path / "codes", truth, ON)
        assert value == evaluate.retrieval(learner, QUERIES, twins, whole, ["map"])["map"]
