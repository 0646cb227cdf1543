"""`onlinehash serve`: what it refuses before it listens, and what it makes of its options."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.cli import parameters
from onlinehash.cli.app import run
from onlinehash.cli.parameters import policy_of
from onlinehash.errors import InvalidInput
from onlinehash.learners import registry


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--demo", "--memory"], "--demo brings its own items"),
        (["--memory", "--read-only"], "--read-only needs a folder, not --memory."),
        (["--host", "0.0.0.0"], "needs a token"),
        (["--memory", "--limit", "batch=many"], "expected a number for --limit batch"),
        (["--memory", "--refresh", "now"], "--refresh takes one of always"),
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


def test_an_index_on_a_disk_is_served_and_goes_on(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 4))
    with LiveIndex(OnlineHashing(16, random_state=0), path=tmp_path / "items") as index:
        index.add(None, X)
    command = [sys.executable, "-m", "onlinehash", "serve", "items", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        try:
            answer = httpx.post(f"{told['url']}/v1/items", json={"vectors": X.tolist()}, timeout=60)
        finally:
            process.terminate()
        assert (told["items"], answer.json()["n"]) == (20, 40)
        assert process.wait(60) == 0
    with LiveIndex.open(tmp_path / "items", read_only=True) as index:
        assert len(index) == 40
