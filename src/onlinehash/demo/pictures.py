"""What a search finds, in pictures that lie inside the page."""

from __future__ import annotations

from base64 import b64encode
from typing import NamedTuple

import numpy as np

from onlinehash import png
from onlinehash.codes import fused_distances
from onlinehash.demo.contest import Outcome
from onlinehash.demo.digits import Digits
from onlinehash.learners.encoder import Encoder

#: Which neighbours are shown; a digit has some 150 pictures in the database, so all of these could be right.
PLACES = (1, 2, 5, 10, 20, 40, 80, 120)


class Picture(NamedTuple):
    """A picture, its description, and what it is here: "query", "right" or "wrong"."""

    uri: str
    text: str
    kind: str


class Answer(NamedTuple):
    """Some of the pictures that a search finds, and the share of right ones among all."""

    pictures: list[Picture]
    share: float


class Search(NamedTuple):
    """A picture that is searched for, and what is found before learning and after."""

    query: Picture
    before: Answer
    after: Answer


def searches(outcome: Outcome, digits: Digits) -> list[Search]:
    """One for the first query of each digit."""
    _, queries = np.unique(digits.y_query, return_index=True)
    before, after = (_nearest(encoder, digits, queries) for encoder in (outcome.before, outcome.after))
    return [
        Search(
            Picture(data_uri(digits.X_query[query].reshape(8, 8)), f"searched for: a {digits.y_query[query]}", "query"),
            *(_answer(ranking, digits, digits.y_query[query]) for ranking in rankings),
        )
        for query, *rankings in zip(queries, before, after, strict=True)
    ]


def _answer(ranking: np.ndarray, digits: Digits, label: int) -> Answer:
    right = digits.y_base[ranking] == label
    pictures = [
        Picture(
            data_uri(digits.X_base[ranking[place - 1]].reshape(8, 8)),
            f"place {place}: a {digits.y_base[ranking[place - 1]]}",
            "right" if right[place - 1] else "wrong",
        )
        for place in PLACES
    ]
    return Answer(pictures, float(right.mean()))


def _nearest(encoder: Encoder, digits: Digits, queries: np.ndarray) -> np.ndarray:
    distances = fused_distances(encoder.encode(digits.X_query[queries]), encoder.encode(digits.X_base))
    return np.argsort(distances, axis=1, kind="stable")[:, : PLACES[-1]]


def data_uri(pixels: np.ndarray) -> str:
    """Ink from 0 to 1, `(height, width)`, as a PNG that needs no file: white paper, black ink."""
    grey = np.round(255 * (1 - pixels)).astype(np.uint8)
    return "data:image/png;base64," + b64encode(png.written(grey)).decode()
