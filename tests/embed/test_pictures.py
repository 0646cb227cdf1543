"""Pictures and texts in one index, by a model that takes both, as CLIP does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from onlinehash import LiveIndex
from onlinehash.embed import Embedding, Lexical
from onlinehash.errors import InvalidInput

COLOURS = {"red": (250, 10, 10), "green": (10, 250, 10), "blue": (10, 10, 250)}


class Colours:
    """A small model of texts and pictures: how much of each colour they have."""

    def encode(self, things: list[Any]) -> list[list[float]]:
        return [self._of_text(one) if isinstance(one, str) else self._of_picture(one) for one in things]

    def _of_text(self, text: str) -> list[float]:
        return [float(text.count(name)) for name in COLOURS]

    def _of_picture(self, picture: Any) -> list[float]:
        values: list[float] = (np.asarray(picture, np.float64).reshape(-1, 3).mean(axis=0) / 255).tolist()
        return values


def picture(colour: str, seed: int = 0) -> Image.Image:
    noise = np.random.default_rng(seed).integers(-10, 6, size=(4, 4, 3))
    return Image.fromarray((np.array(COLOURS[colour]) + noise).clip(0, 255).astype(np.uint8))


def test_pictures_are_found_by_a_picture_and_by_a_text(tmp_path: Path) -> None:
    names = [f"{colour} {n}" for colour in COLOURS for n in range(4)]
    pictures = [picture(*name.split()[:1], seed=at) for at, name in enumerate(names)]
    with LiveIndex(n_bits=16, path=tmp_path / "pictures", embed=Embedding(Colours(), "colours")) as index:
        assert index.embedder is not None
        index.add(names, index.embedder.encode_pictures(pictures))
        for colour in COLOURS:
            queries = index.embedder.encode_pictures([picture(colour, seed=99)])
            for ids in (index.find(queries[0], k=4).ids, index.find_text(f"something {colour}", k=4).ids):
                assert {id.split()[0] for id in ids} == {colour}
        said = "a blue sea under a red sun"
        for meant, other in (("blue 0", "red 0"), ("red 0", "blue 0")):
            index.learn_text(said, [meant, other], [True, False])
            assert index.find_text(said, k=1).ids.tolist() == [meant]
    with LiveIndex.open(tmp_path / "pictures", embed=Embedding(Colours(), "colours")) as index:
        assert index.find_text("green", k=1).ids[0].startswith("green")


def test_what_is_no_list_of_pictures() -> None:
    for given in (picture("red"), "cat.jpg", 7, ["cat.jpg"], [Path("cat.jpg")], [None], [np.zeros(3)]):
        with pytest.raises(InvalidInput, match="expected"):
            Embedding(Colours()).encode_pictures(given)


def test_a_model_of_texts_alone() -> None:
    with pytest.raises(InvalidInput, match=r"'lexical@2:64' takes texts only; .* such as CLIP\.$"):
        Embedding(Lexical(64)).encode_pictures([picture("red")])
