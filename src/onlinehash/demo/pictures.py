"""What a search finds, in pictures that lie inside the page."""

from __future__ import annotations

from base64 import b64encode

import numpy as np

from onlinehash import png
from onlinehash.codes import fused_distances
from onlinehash.demo.contest import Outcome
from onlinehash.demo.digits import Digits
from onlinehash.learners.encoder import Encoder

#: Which neighbours are shown; a digit has some 150 pictures in the database, so all of these could be right.
PLACES = (1, 2, 5, 10, 20, 40, 80, 120)


def neighbours(outcome: Outcome, digits: Digits) -> str:
    """A row for the first query of each digit: itself, then what it finds before learning and after."""
    _, queries = np.unique(digits.y_query, return_index=True)
    before, after = (_nearest(encoder, digits, queries) for encoder in (outcome.before, outcome.after))
    rows = []
    for query, *rankings in zip(queries, before, after, strict=True):
        label = digits.y_query[query]
        cells = [_picture(digits.X_query[query], f"searched for: a {label}", "query")]
        for ranking in rankings:
            right = digits.y_base[ranking] == label
            for at in np.array(PLACES) - 1:
                text = f"place {at + 1}: a {digits.y_base[ranking[at]]}"
                cells.append(_picture(digits.X_base[ranking[at]], text, "right" if right[at] else "wrong"))
            cells.append(f"{right.mean():.0%}")
        rows.append("".join(f"<td>{cell}</td>" for cell in cells))
    span = len(PLACES) + 1
    places = "".join(f'<th scope="col">{place}</th>' for place in PLACES) + '<th scope="col">right</th>'
    times = "".join(f'<th colspan="{span}">{when} learning, at place</th>' for when in ("before", "after"))
    heads = (f"<th></th>{times}", f'<th scope="col">query</th>{places * 2}')
    body = "".join(f"<tr>{row}</tr>" for row in (*heads, *rows))
    return f'<table class="neighbours">{body}</table>'


def _nearest(encoder: Encoder, digits: Digits, queries: np.ndarray) -> np.ndarray:
    distances = fused_distances(encoder.encode(digits.X_query[queries]), encoder.encode(digits.X_base))
    return np.argsort(distances, axis=1, kind="stable")[:, : PLACES[-1]]


def _picture(pixels: np.ndarray, text: str, kind: str) -> str:
    uri = data_uri(pixels.reshape(8, 8))
    return f'<span class="digit {kind}"><img src="{uri}" alt="{text}" title="{text}"></span>'


def data_uri(pixels: np.ndarray) -> str:
    """Ink from 0 to 1, `(height, width)`, as a PNG that needs no file: white paper, black ink."""
    grey = np.round(255 * (1 - pixels)).astype(np.uint8)
    return "data:image/png;base64," + b64encode(png.written(grey)).decode()
