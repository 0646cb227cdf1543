"""Files for stores that run elsewhere, against the shapes that these stores document; Parquet; the record; errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, LiveIndex, MultiModelOnlineHashing, export, save
from onlinehash.errors import InvalidInput
from tests.cli.running import done

BITS = np.random.default_rng(2).random((5, 20)) < 0.5
PAYLOADS = [{"colour": "red", "text": "Grüße"}, None, {"n": 1}]


@pytest.fixture
def index() -> LiveIndex:
    index = LiveIndex(n_bits=20)
    index.add(["a", 'b"c', "d"], np.random.default_rng(3).normal(size=(3, 4)), PAYLOADS)
    return index


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def unpacked(code: str | list[int]) -> list[bool]:
    data = np.frombuffer(bytes.fromhex(code), np.uint8) if isinstance(code, str) else np.array(code, np.int8)
    return np.unpackbits(data.view(np.uint8))[:20].astype(bool).tolist()


class TestSearchEngines:
    @pytest.mark.parametrize("to", ["elasticsearch", "opensearch"])
    def test_bulk_files(self, index: LiveIndex, to: str, tmp_path: Path) -> None:
        assert export.codes(index, tmp_path / "out", to) == (3, 0)
        assert {path.name for path in (tmp_path / "out").iterdir()} == {"mapping.json", "bulk-0001.ndjson"}
        found = lines(tmp_path / "out" / "bulk-0001.ndjson")
        assert found[::2] == [{"index": {"_id": id}} for id in index]
        assert [document.get("payload") for document in found[1::2]] == PAYLOADS
        assert [unpacked(document["code"]) for document in found[1::2]] == index.codes.bits().tolist()

    def test_mappings(self, index: LiveIndex, tmp_path: Path) -> None:
        for to in ("elasticsearch", "opensearch"):
            export.codes(index, tmp_path / to, to)
        code = json.loads((tmp_path / "elasticsearch" / "mapping.json").read_text())["mappings"]["properties"]["code"]
        assert (code["type"], code["element_type"], code["similarity"]) == ("dense_vector", "bit", "l2_norm")
        assert code["dims"] == 24, "dims count bits, and must be a multiple of 8"
        mapping = json.loads((tmp_path / "opensearch" / "mapping.json").read_text())
        code = mapping["mappings"]["properties"]["code"]
        assert (code["type"], code["data_type"], code["dimension"]) == ("knn_vector", "binary", 24)
        assert code["method"]["space_type"] == "hamming"
        assert mapping["settings"]["index"]["knn"] is True

    def test_changes(self, index: LiveIndex, tmp_path: Path) -> None:
        record = tmp_path / "exported.oh"
        export.codes(index, tmp_path / "first", "elasticsearch", since=record)
        index.remove("a")
        index.update("d", payloads={"n": 2})
        assert export.codes(index, tmp_path / "second", "elasticsearch", since=record) == (1, 1)
        assert [path.name for path in (tmp_path / "second").iterdir()] == ["bulk-0001.ndjson"]
        upsert, document, delete = lines(tmp_path / "second" / "bulk-0001.ndjson")
        assert (upsert, document["payload"], delete) == (
            {"index": {"_id": "d"}}, {"n": 2}, {"delete": {"_id": "a"}},
        )  # fmt: skip

    def test_a_folder_that_is_in_use(self, index: LiveIndex, tmp_path: Path) -> None:
        (tmp_path / "bulk-0007.ndjson").write_text("of an earlier export")
        with pytest.raises(InvalidInput, match="not an empty folder"):
            export.codes(index, tmp_path, "elasticsearch")


def test_vespa(index: LiveIndex, tmp_path: Path) -> None:
    record = tmp_path / "exported.oh"
    export.codes(index, tmp_path / "out", "vespa", name="docs", since=record)
    schema = (tmp_path / "out" / "docs.sd").read_text()
    assert schema.startswith("schema docs {")
    assert schema.count("{") == schema.count("}")
    assert schema.count("tensor<int8>(x[3])") == 2
    assert "distance-metric: hamming" in schema
    found = lines(tmp_path / "out" / "feed.jsonl")
    assert [operation["put"] for operation in found] == [f"id:docs:docs::{id}" for id in index]
    assert [unpacked(operation["fields"]["code"]["values"]) for operation in found] == index.codes.bits().tolist()
    texts = [operation["fields"].get("payload") for operation in found]
    assert [None if text is None else json.loads(text) for text in texts] == PAYLOADS
    index.remove('b"c')
    assert export.codes(index, tmp_path / "changes", "vespa", name="docs", since=record) == (0, 1)
    assert lines(tmp_path / "changes" / "feed.jsonl") == [{"remove": 'id:docs:docs::b"c'}]
    assert [path.name for path in (tmp_path / "changes").iterdir()] == ["feed.jsonl"]


def test_parquet(index: LiveIndex, tmp_path: Path) -> None:
    from pyarrow import parquet

    record = tmp_path / "exported.oh"
    export.codes(index, tmp_path / "codes.parquet", "parquet", since=record)
    table = parquet.read_table(tmp_path / "codes.parquet")
    assert table.schema.metadata[b"n_bits"] == b"20"
    packed = np.array(table["code"].to_pylist(), np.uint8)
    assert Codes.from_packbits(packed, 20) == index.codes
    assert table["id"].to_pylist() == list(index)
    index.remove("a")
    export.codes(index, tmp_path / "changes.parquet", "parquet", since=record)
    assert parquet.read_table(tmp_path / "changes.parquet").to_pylist() == [{"id": "a", "code": None, "payload": None}]


class TestRecord:
    def test_only_codes_that_changed(self, tmp_path: Path) -> None:
        """A refresh gives all items new hash functions, and only some items another code."""
        rng = np.random.default_rng(4)
        X, y = rng.normal(size=(400, 8)), rng.integers(2, size=400)
        index, record = LiveIndex(n_bits=16), tmp_path / "exported.oh"
        index.add(range(400), X)
        export.codes(index, tmp_path / "a.parquet", "parquet", since=record)
        before = index.codes
        index.learn_pairs(X[:200], X[200:], y[:200] == y[200:])
        index.refresh()
        changed = int((before.bits() != index.codes.bits()).any(axis=1).sum())
        assert changed > 0
        assert export.codes(index, tmp_path / "b.parquet", "parquet", since=record) == (changed, 0)
        assert export.codes(index, tmp_path / "c.parquet", "parquet", since=record) == (0, 0)

    def test_codes_of_another_length(self, index: LiveIndex, tmp_path: Path) -> None:
        export.codes(FlatIndex(Codes.from_bits(BITS[:, :9])), tmp_path / "a.parquet", "parquet", since=tmp_path / "r")
        with pytest.raises(InvalidInput, match="export everything anew"):
            export.codes(index, tmp_path / "b.parquet", "parquet", since=tmp_path / "r")
        assert not (tmp_path / "b.parquet").exists()

    def test_a_record_that_cannot_be_written_is_refused_before_codes_are(
        self, index: LiveIndex, tmp_path: Path
    ) -> None:
        with pytest.raises(InvalidInput, match="nowhere does not exist"):
            export.codes(index, tmp_path / "a.parquet", "parquet", since=tmp_path / "nowhere" / "exported.oh")
        assert list(tmp_path.iterdir()) == []


class TestRefused:
    def test_codes_that_no_other_store_compares(self, tmp_path: Path) -> None:
        several = MultiModelOnlineHashing(n_bits=8, n_models=2, random_state=0)
        index = LiveIndex(several)
        index.add(None, np.random.default_rng(5).normal(size=(9, 4)))
        with pytest.raises(InvalidInput, match="fusion='sum'"):
            export.codes(index, tmp_path / "a.parquet", "parquet")
        summed = FlatIndex(index.codes, fusion="sum")
        assert export.codes(summed, tmp_path / "a.parquet", "parquet").items == 9

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"to": "mysql"}, "^codes cannot be exported to 'mysql'; choose one of duckdb, "),
            ({"name": "Items; DROP TABLE"}, "lower-case letters"),
        ],
    )
    def test_arguments(self, index: LiveIndex, arguments: dict[str, Any], words: str, tmp_path: Path) -> None:
        given = {"target": tmp_path / "codes.parquet", "to": "parquet"} | arguments
        with pytest.raises(InvalidInput, match=words):
            export.codes(index, **given)
        assert list(tmp_path.iterdir()) == []


class TestCommand:
    def test_a_live_index_and_a_file(self, index: LiveIndex, tmp_path: Path) -> None:
        index.backup(tmp_path / "items")
        arguments = ("export", tmp_path / "items", tmp_path / "codes.parquet", "--to", "parquet")
        record = ("--since", tmp_path / "exported.oh")
        told = done(*arguments, *record).out
        assert "3 codes, for parquet" in told
        assert f"started at {record[1]};" in told
        changes = ("export", tmp_path / "items", tmp_path / "changes.parquet", "--to", "parquet")
        again = done(*changes, *record, "--json").document
        assert (again["items"], again["removed"], again["name"]) == (0, 0, "items")
        assert (again["record"], again["record_started"]) == (str(record[1]), False)
        third = ("export", tmp_path / "items", tmp_path / "third.parquet", "--to", "parquet")
        assert f"updated at {record[1]}" in done(*third, *record).out
        fourth = ("export", tmp_path / "items", tmp_path / "fourth.parquet", "--to", "parquet")
        assert done(*fourth, "--since", tmp_path / "new.oh", "--json").document["record_started"] is True
        save(FlatIndex(Codes.from_bits(BITS)), tmp_path / "index.oh")
        written = done("export", tmp_path / "index.oh", tmp_path / "b.parquet", "--to", "parquet", "--json").document
        assert written["items"] == 5


def test_changes_do_not_replace_the_file_with_everything(index: LiveIndex, tmp_path: Path) -> None:
    file, record = tmp_path / "codes.parquet", tmp_path / "exported.oh"
    export.codes(index, file, "parquet", since=record)
    before = file.read_bytes()
    index.remove("a")
    with pytest.raises(InvalidInput, match="need a file of their own"):
        export.codes(index, file, "parquet", since=record)
    assert file.read_bytes() == before
    assert export.codes(index, tmp_path / "changes.parquet", "parquet", since=record) == (0, 1)


@pytest.mark.parametrize("to", ["elasticsearch", "parquet"])
def test_half_of_a_surrogate_pair_is_escaped(index: LiveIndex, to: str, tmp_path: Path) -> None:
    index.update("a", payloads={"text": "x \ud800 y"})
    assert export.codes(index, tmp_path / "out", to, since=tmp_path / "exported.oh") == (3, 0)
