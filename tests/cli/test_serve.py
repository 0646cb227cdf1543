"""`onlinehash serve`: what it refuses before it listens, and what it makes of its options."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.cli import parameters
from onlinehash.cli.app import run
from onlinehash.cli.parameters import policy_of
from onlinehash.cli.serve import _announce, _index, _limits
from onlinehash.cli.serve_options import Options
from onlinehash.embed import Embedding
from onlinehash.errors import InvalidInput
from onlinehash.learners import registry
from onlinehash.live import table
from onlinehash.live.vectors import VectorCache
from onlinehash.serve.settings import Access
from tests.embed.test_embedder import Letters


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--demo", "--memory"], "--demo brings its own items"),
        (["--demo", "--bits", "8"], "--bits is not allowed here"),
        (["--memory", "--read-only"], "--read-only needs a folder, not --memory."),
        (["--memory", "--readers", "2"], "--readers needs a folder, not --memory."),
        (["--demo", "--device", "cuda"], "--device needs a folder or --memory, not --demo."),
        (["--read-only", "--compare"], "--compare needs a service that makes changes"),
        (["--held-out", "x.npz"], "--held-out needs --label"),
        (["--host", "0.0.0.0"], "needs a token"),
        (["--memory", "--limit", "speed=1"], "--limit takes one of body_bytes"),
        (["--memory", "--limit", "batch=many"], "expected a number for --limit batch"),
        (["--memory", "--refresh", "now"], "--refresh takes one of always"),
        (["--memory", "--refresh", "every:often"], "expected a policy such as every:50"),
        (["--memory", "--pictures", "round"], "expected"),
        (["--memory", "--method", "Magic"], "Magic"),
        (["--read-only", "nothing-there"], "nothing-there"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_contradicts_itself_is_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONLINEHASH_TOKEN", raising=False)
    assert run(["serve", "--port", "0", *arguments]) in (2, 4)
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_with_an_index_keeps_its_learner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LiveIndex(OnlineHashing(8, random_state=0), path=tmp_path / "items").close()
    assert run(["serve", str(tmp_path / "items"), "--bits", "16", "--port", "0"]) == 2
    assert "expected n_bits=8 as in" in capsys.readouterr().err


def test_a_new_index_has_the_recommended_learner_and_an_older_one_its_own(tmp_path: Path) -> None:
    folder, nothing = str(tmp_path / "items"), parameters.Choices(None, None, None, None, None)
    few = replace(nothing, bits=8)
    for where, kind in ((None, registry.RECOMMENDED), (folder, "OnlineHashing")):
        LiveIndex(OnlineHashing(8, random_state=0), path=folder).close()
        for choices in (nothing, few, replace(few, method=kind)):
            with parameters.make_index(choices, where) as index:
                assert type(index.learner).__name__ == kind
    with pytest.raises(InvalidInput, match="expected a OnlineHashing as in"):
        parameters.make_index(replace(few, method=registry.RECOMMENDED), folder)


def test_a_port_that_is_taken_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["serve", "--memory", "--port", str(taken.getsockname()[1])]) == 2
    assert "choose another --host or --port" in capsys.readouterr().err


def test_policies() -> None:
    assert policy_of("every:50") == refresh.every(50)
    assert policy_of("when_changed:0.1,0.5") == refresh.when_changed(0.1, 0.5)
    assert policy_of("by_hand") == refresh.by_hand()
    with pytest.raises(InvalidInput, match="every"):
        policy_of("every:0")


def test_limits() -> None:
    assert _limits(None, Access()).rate == 0
    outside = Access("192.0.2.1", token="a" * 16)
    assert _limits(None, outside).rate == 1000
    assert _limits(["rate=5", "batch=7"], outside).rate == 5
    assert _limits(["batch=7"], outside).batch == 7


def test_readers_get_the_options_that_concern_them() -> None:
    assert Options("items", readers=2, sync="batch").of_reader() == ["serve", "items", "--read-only"]
    options = Options("items", host="::1", insecure=True, allow_host=["a", "b"], limit=["k=5"], label="x", port=1)
    line = ["--host", "::1", "--insecure", "--allow-host", "a", "--allow-host", "b", "--label", "x", "--limit", "k=5"]
    assert options.of_reader() == ["serve", "items", "--read-only", *line]


def test_vectors_are_kept_as_precisely_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(table, "VectorCache", lambda precision: kept.append(precision) or VectorCache(precision))
    folder, nothing = str(tmp_path / "items"), parameters.Choices(None, None, None, None, None)
    for options in (
        Options(folder),
        Options(folder, precision="float32"),
        Options(folder, precision="float16", read_only=True),
    ):
        with _index(options, nothing) as index:
            if len(index) == 0:
                index.add(None, np.eye(4))
            index.find(np.ones(4), 2)
    assert list(dict.fromkeys(kept)) == ["int8", "float32", "float16"]


def test_the_embedder_that_was_not_given_is_named_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def announced(index: LiveIndex, as_json: bool = False) -> str:
        service = SimpleNamespace(index=index)
        _announce("http://here", cast(Any, service), "items", Access(), as_json)
        return capsys.readouterr().out

    with LiveIndex(n_bits=8, path=tmp_path / "items", embed=Embedding(Letters(), "letters:Letters")) as index:
        index.add_texts(["a text"])
        assert "letters:Letters" not in announced(index)
        assert json.loads(announced(index, as_json=True))["missing_embedder"] is None
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        _, said, _ = announced(index).splitlines()
        assert said.startswith("Its vectors come from the embedder 'letters:Letters', which was not given")
        assert said.endswith("give --embed letters:Letters to search by text.")
        assert json.loads(announced(index, as_json=True))["missing_embedder"] == {
            "name": "letters:Letters", "n_features": 5,
        }  # fmt: skip


def test_an_index_on_a_disk_is_served_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "onlinehash", "serve", "items", "--bits", "16", "--port", "0", "--json"]
    X = np.random.default_rng(0).normal(size=(20, 4)).tolist()
    for n_before in (0, 20):  # the same command again goes on
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            try:
                answer = httpx.post(f"{told['url']}/v1/items", json={"vectors": X}, timeout=60)
            finally:
                process.terminate()
            assert (told["items"], answer.json()["n"]) == (n_before, n_before + 20)
            assert process.wait(60) == 0
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert len(index) == 40
        assert (type(index.learner).__name__, index.n_bits) == (registry.RECOMMENDED, 16)
        assert index.policy == refresh.when_changed(0.05)
