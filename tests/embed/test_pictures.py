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


def test_arrays_are_pictures_too() -> None:
    embedding, images = Embedding(Colours()), [picture("red"), picture("blue")]
    expected = embedding.encode_pictures(images)
    arrays = [np.asarray(image) for image in images]
    for given in (arrays, np.stack(arrays), tuple(arrays), iter(images)):
        assert np.array_equal(embedding.encode_pictures(given), expected)
    assert expected.dtype == np.float32
    assert embedding.encode_pictures([]).shape == (0, 3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (picture("red"), "expected a list of pictures, got <PIL"),
        (np.zeros((4, 4, 3), np.uint8), "expected a list of pictures, got an array"),
        ("cat.jpg", "expected a list of pictures, got 'cat.jpg'"),
        (7, "expected a list of pictures, got 7"),
        (["cat.jpg"], "expected pictures, as PIL images or arrays, got 'cat.jpg'; open files by PIL.Image.open"),
        ([Path("cat.jpg")], "open files by PIL.Image.open"),
        ([None], "expected pictures, as PIL images or arrays, got None"),
        ([np.zeros(3)], "expected pictures"),
    ],
)
def test_what_is_no_list_of_pictures(given: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Embedding(Colours()).encode_pictures(given)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ([[1.0, 2.0]], "vectors of 2 values, where it gave 3 before"),
        ([[1.0, 2.0, 3.0]] * 2, r"a vector for each picture, got an array of shape \(2, 3\) for 1 pictures"),
        ([[1.0, np.nan, 2.0]], "contains NaN"),
        (["a"], "a vector for each picture"),
    ],
)
def test_models_that_do_not_give_vectors(made: Any, words: str) -> None:
    def model(things: Any) -> Any:
        return made if not isinstance(things[0], str) else Colours().encode(things)

    with pytest.raises(InvalidInput, match=words):
        Embedding(model).encode_pictures([picture("red")])


def test_a_model_of_texts_alone() -> None:
    with pytest.raises(InvalidInput, match=r"'lexical@2:64' takes texts only; .* such as CLIP\.$"):
        Embedding(Lexical(64)).encode_pictures([picture("red")])
