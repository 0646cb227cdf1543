"""Clicks that agree with nothing are told; they are learned all the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from onlinehash import LiveIndex, feedback
from tests.cli.running import done, onlinehash

#: What people search for, and the words of what they then click, which a lexical embedder cannot know.
MEANT = {"money trouble": "invoice", "where is it": "parcel", "let me in": "password"}
TEXTS = [f"{subject} case {n}" for subject in MEANT.values() for n in range(40)]


def log(path: Path, n: int, are_noise: bool, seed: int = 0) -> Path:
    """Clicks on what was meant, or on anything."""
    rng, rows = random.Random(seed), list[dict[str, Any]]()
    for _ in range(n):
        text, subject = rng.choice(list(MEANT.items()))
        shown = rng.sample(range(len(TEXTS)), 8)
        clicked = [id for id in shown if (rng.random() < 0.3 if are_noise else subject in TEXTS[id])]
        rows.append({"text": text, "shown": [*shown, 999], "clicked": clicked})  # an item that is gone
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def items(tmp_path: Path) -> Path:
    with LiveIndex(n_bits=16, path=tmp_path / "items", embed="lexical:64") as index:
        index.add_texts(TEXTS)
    return tmp_path / "items"


def test_clicks_that_are_noise_are_told_and_learned(tmp_path: Path, items: Path) -> None:
    file = log(tmp_path / "noise.jsonl", 60, are_noise=True)
    ran = onlinehash("learn", "--clicks", file, "--index", items)
    assert ran.code == 0
    assert "60 rows" in ran.out
    assert ran.err.startswith("onlinehash: warning: ")
    assert ran.err.count("\n") == 1
    assert "no more than by chance" in ran.err
    more = log(tmp_path / "more.jsonl", 60, are_noise=True, seed=1)
    ran = onlinehash("learn", "--clicks", more, "--index", items, "--json")
    assert ran.document["pairs"] > 0
    assert ran.document["agreed"] < ran.document["compared"] <= 60
    assert "no more than by chance" in json.loads(ran.err)["warning"]


def test_clicks_that_agree_are_learned_without_a_word(tmp_path: Path, items: Path) -> None:
    said = done("learn", "--clicks", log(tmp_path / "log.jsonl", 60, are_noise=False), "--index", items, "--json")
    assert said.document["p_value"] < 0.01
    assert said.document["agreed"] > said.document["compared"] / 2


def test_of_few_clicks_nothing_is_said(tmp_path: Path, items: Path) -> None:
    assert done("learn", "--clicks", log(tmp_path / "few.jsonl", 4, are_noise=True), "--index", items).code == 0


def test_comparing_changes_nothing_that_is_learned(tmp_path: Path) -> None:
    file, taught = log(tmp_path / "log.jsonl", 20, are_noise=False), []
    for agreement in (None, feedback.Agreement()):
        with LiveIndex(n_bits=16, embed="lexical:64") as index:
            index.add_texts(TEXTS)
            feedback.learn(index, file, agreement=agreement)
            taught.append(index.find(index.vectors, 5).distances.tobytes())
    assert taught[0] == taught[1]
