"""`onlinehash info`: describes a file or the folder of a live index, and how good its bits are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import onlinehash
from onlinehash import evaluate
from onlinehash.cli import output, summaries
from onlinehash.cli.encode import encode_blocks, encoder_of, join
from onlinehash.cli.options import refuse_postgres
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.evaluate import BitHealth, PairReport
from onlinehash.index.base import Index
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live.sqlite import folder as folders
from onlinehash.streams.from_files import read_tables
from onlinehash.streams.pairs import PairReader


def show(path: str, vectors: str | None, pairs: str | None, as_json: bool) -> None:
    """Describe a file; with vectors, report bit health; with held-out pairs, whether learning helped."""
    refuse_postgres(path, "`onlinehash postgres info` describes the index there")
    document = _of_folder(path, vectors, pairs) if os.path.isdir(path) else _of_file(path, vectors, pairs)
    if as_json:
        output.print_json(document)
    else:
        output.print_columns(list(_in_words(document).items()))


def _of_folder(path: str, vectors: str | None, pairs: str | None) -> dict[str, Any]:
    if vectors or pairs:
        raise _unfit("a live index", path)
    return {"file": path, "bytes": folders.size(Path(path)), "kind": "live"} | summaries.live(path)


def _of_file(path: str, vectors: str | None, pairs: str | None) -> dict[str, Any]:
    thing = onlinehash.load(path, mmap=True)
    if not isinstance(thing, Index):  # which may be huge; all else is read, and checked, completely
        thing = onlinehash.load(path)
    document: dict[str, Any] = {"file": path, "bytes": os.path.getsize(path)} | _describe(thing)
    if isinstance(thing, Codes | Index):
        if vectors or pairs:
            raise _unfit("codes" if isinstance(thing, Codes) else "an index", path)
        return document | ({"bits": evaluate.bit_health(thing)} if isinstance(thing, Codes) else {})
    if vectors or pairs:
        encoder = encoder_of(thing, path)
        if vectors:
            document["bits"] = evaluate.bit_health(join(encode_blocks(encoder, vectors)))
    if pairs:
        document["held_out"] = _held_out(thing, pairs, vectors)
    return document


def _unfit(got: str, path: str) -> InvalidInput:
    return InvalidInput(f"reporting on vectors or pairs needs a learner or an encoder, got {got} in {path}.")


def first_functions(learner: Learner) -> Learner:
    """The learner with its features and mean, but with the hash functions it drew first (those of LSH)."""
    state = learner.get_state()
    params = learner.get_params(deep=False)
    plain = {"features": None, "centre": "none", "random_state": state["seed"]}
    beginner = type(learner)(**params | {name: plain[name] for name in plain if name in params})
    beginner.observe(np.zeros((1, len(learner.mean_)), learner.dtype_))
    first = type(learner)(**params)
    first.set_state(state | {"method": beginner.get_state()["method"]})
    return first


def _describe(thing: Any) -> dict[str, Any]:
    if isinstance(thing, Learner):
        parameters = thing.get_params(deep=False)
        return {
            "kind": "learner",
            "class": type(thing).__name__,
            "parameters": parameters,
            "learned": summaries.learned(thing),
        }
    if isinstance(thing, Index):
        return {"kind": "index"} | summaries.indexed(thing)
    sizes = {"n_bits": thing.n_bits, "n_models": thing.n_models}
    if isinstance(thing, Codes):
        return {"kind": "codes", "n": len(thing)} | sizes
    names = ("method", "n_features", "fusion", "version")
    return {"kind": "encoder"} | sizes | {name: getattr(thing, name) for name in names}


def _held_out(thing: Learner | Encoder, pairs: str, vectors: str | None) -> dict[str, PairReport]:
    """Evaluate held-out pairs with the first hash functions and with the current ones.

    A method that learns from labels, keeps a mean of its own, or learns all at once, has no first functions to compare
    with.
    """
    tables = read_tables(pairs)
    first = next(tables, None)
    if first is None:
        raise InvalidInput(f"{pairs} has no pairs.")
    read_pairs = PairReader(vectors if "id_a" in first.columns else None)
    blocks = [read_pairs(table) for table in (first, *tables)]
    A, B, similar = (np.concatenate([block[side] for block in blocks]) for side in range(3))
    compared: dict[str, Learner | Encoder] = {"now": thing}
    if isinstance(thing, Learner) and thing.traits.unit in ("pair", "chunk") and thing.traits.learns_from == "pairs":
        compared = {"before": first_functions(thing)} | compared
    return {name: evaluate.pairs(functions, A, B, similar) for name, functions in compared.items()}


# ------------------------------------------------------------------ for people


def _in_words(document: dict[str, Any]) -> dict[str, str]:
    words = {"file": f"{document['file']}, {document['bytes']:,} bytes"}
    if document["kind"] == "learner":
        parameters = ", ".join(f"{name}={value!r}" for name, value in document["parameters"].items())
        words |= {"learner": document["class"], "parameters": parameters}
        words |= summaries.in_words(document["learned"])
    elif document["kind"] == "index":
        words |= summaries.index_in_words(document)
    elif document["kind"] == "live":
        words |= summaries.live_in_words(document)
    else:
        skipped = ("file", "bytes", "kind", "bits", "held_out")
        words[document["kind"]] = ", ".join(f"{k}={v}" for k, v in document.items() if k not in skipped)
    if "bits" in document:
        words |= _health_in_words(document["bits"])
    for moment, report in document.get("held_out", {}).items():
        words[f"pairs {moment}"] = (
            f"a similar pair is closer than a dissimilar one in {report.auc:.1%} of cases; they differ in "
            f"{report.similar_distance:.1%} and {report.dissimilar_distance:.1%} of the bits; "
            f"loss {report.loss:.3f} a pair"
        )
    return words


def _health_in_words(health: BitHealth) -> dict[str, str]:
    low, middle, high = np.quantile(health.balance, (0, 0.5, 1))
    dead = ", ".join(map(str, health.dead)) or "none"
    return {
        "balance": f"{low:.1%} to {high:.1%} ones a bit, in the middle {middle:.1%} (best: 50%)",
        "dead bits": f"{dead} of {len(health.balance)}",
        "entropy": f"{health.entropy:.3f} a bit (best: 1)",
        "correlation": f"{health.correlation:.3f} between bits (best: 0)",
    }
