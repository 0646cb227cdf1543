"""Figures about a learner or an index, for `info` and `learn`."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from onlinehash.embed.embedder import Maker
from onlinehash.features import make_map
from onlinehash.index.api import Counters
from onlinehash.index.base import Index
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.live.policies import from_specification
from onlinehash.live.storage import Storage
from onlinehash.stores.index import StoreIndex


def learned(learner: Learner) -> dict[str, Any]:
    """Counters over the learner's whole life; nothing for one that has seen no data.

    A method that learns from nothing has no loss, which is not the same as a loss of zero.
    """
    if not hasattr(learner, "n_features_in_"):
        return {}
    learns = learner.traits.learns_from != "nothing" and learner.traits.unit != "batch"
    n = learner.n_points_seen_ if unit(learner) == "points" else learner.n_pairs_seen_
    return {
        "n_features": learner.n_features_in_,
        "dtype": str(learner.dtype_),
        "unit": unit(learner),
        "pairs": learner.n_pairs_seen_,
        "points": learner.n_points_seen_,
        "pending": kept_back(learner),
        "waiting_for": points_waited_for(learner),
        "cumulative_loss": learner.cumulative_loss_ if learns else None,
        "loss": _share(learner.cumulative_loss_, n) if learns else None,
        "update_rate": _share(learner.n_updates_, n) if learns else None,
        "rows_waiting": getattr(learner, "n_rows_waiting_", 0),
        "bits_moved": learner.n_bits_moved_,
        "steps": learner.n_steps_,
        "capped_share": _share(learner.n_capped_, learner.n_steps_) if _has_caps(learner) else None,
        "version": learner.version_,
    }


def _has_caps(learner: Learner) -> bool:
    """Whether each step stands for one pair, with a size that C may cap."""
    return hasattr(learner, "C") and learner.traits.unit == "pair"


def unit(learner: Learner) -> str:
    """The unit in which its stream is counted."""
    return "pairs" if learner.traits.learns_from == "pairs" else "points"


def in_words(numbers: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    if not numbers:
        return {"learned": "nothing yet"}
    of_pairs = f"{numbers['pairs']:,} pairs; " if numbers["unit"] == "pairs" else ""
    words = {
        "learned": f"{of_pairs}{numbers['points']:,} points of {numbers['n_features']:,} features ({numbers['dtype']})"
    }
    if numbers["waiting_for"]:
        words["pending"] = (
            f"{numbers['pending']:,} {numbers['unit']}, until the feature map has met {numbers['waiting_for']:,} "
            "more distinct points"
        )
    if numbers["loss"] is None:
        words["loss"] = "none, as the method learns without feedback, or all at once"
    elif numbers[numbers["unit"]]:
        words["loss"] = f"{numbers['loss']:.3f} a {numbers['unit'][:-1]}, {numbers['cumulative_loss']:,g} in all"
    if numbers["update_rate"] is not None and numbers["steps"]:
        moved = f"{numbers['update_rate']:.1%} of the {numbers['unit']} moved {numbers['bits_moved']:,} bits"
        share = numbers["capped_share"]
        steps = f"{numbers['steps']:,} steps"
        capped = f" in {steps}" if share is None else f"; C capped {share:.1%} of {steps}"
        words["updates"] = moved + capped
    if numbers["rows_waiting"]:
        words["waiting"] = (
            f"{numbers['rows_waiting']:,} {numbers['unit']}, until their chunk is full; "
            "encode and index learn them for their codes"
        )
    return words | {"version": f"{numbers['version']:,}"}


def kept_back(learner: Learner) -> int:
    """Pairs, or labelled points, that wait for the feature map's anchors."""
    return learner.n_points_pending_ if unit(learner) == "points" else int(getattr(learner, "n_pairs_pending_", 0))


def points_waited_for(learner: Learner) -> int:
    """Distinct points that the feature map still needs before there are hash functions."""
    feature_map = make_map(learner.features)
    if feature_map is None:
        return 0
    if state := learner.get_state():
        feature_map.set_state(state["map"])
    return feature_map.n_waiting_for


def what_it_needs(learner: Learner, path: str) -> str:
    """What to do about a learner without hash functions, as one sentence."""
    go_on = f"continue with `onlinehash learn FILES --resume {path} --output {path}`"
    if not hasattr(learner, "n_features_in_"):
        return f"{path} has no hash functions yet, because it has seen no data; {go_on}."
    return (
        f"{path} has no hash functions yet: its feature map waits for {points_waited_for(learner):,} more distinct "
        f"points; {go_on}, or start again with fewer anchors."
    )


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


# ------------------------------------------------------------------ indexes


def indexed(index: Index) -> dict[str, Any]:
    """Describe an index without reading its items."""
    return {
        "class": type(index).__name__,
        "n": len(index),
        "n_bits": index.n_bits,
        "n_models": index.n_models,
        "fusion": index.fusion,
        "n_tables": getattr(index, "n_tables", 0),
        "ids": index.ids_kind,
        "encoder": _encoder(index.encoder),
    }


def _encoder(encoder: Encoder | None) -> dict[str, Any] | None:
    if encoder is None:
        return None
    return {name: getattr(encoder, name) for name in ("method", "n_features", "version")}


def index_in_words(numbers: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    models = f" for each of {numbers['n_models']} models" if numbers["n_models"] > 1 else ""
    words = {"index": f"{numbers['class']} of {numbers['n']:,} items, {numbers['n_bits']} bits{models}"}
    if models:
        words["fusion"] = numbers["fusion"]
    if numbers["n_tables"]:
        each = " for each model" if models and numbers["fusion"] == "min" else ""
        words["tables"] = f"{numbers['n_tables']}{each}"
    encoder = numbers["encoder"]
    return words | {
        "ids": "row numbers" if numbers["ids"] == "range" else numbers["ids"],
        "encoder": _encoder_in_words(encoder) if encoder else "none, so only codes can be searched for",
    }


def _encoder_in_words(numbers: dict[str, Any]) -> str:
    return f"{numbers['method']} of {numbers['n_features']:,} features, version {numbers['version']:,}"


# ------------------------------------------------------------------ live indexes


def live(path: str) -> dict[str, Any]:
    """What a live index holds and how far its codes are behind; all but its vectors is read, and nothing changed."""
    with closing(Storage.open(path, read_only=True, sync="full")) as storage:
        learner, versions, ids, _, _, settings, _ = storage.load()
    present = next((version for version in versions if version.serial == settings["serial"]), None)
    n_bits, n_models, fusion = learner.shape_of_codes
    seen = int(getattr(learner, "n_pairs_seen_", 0))
    return {
        "class": "LiveIndex",
        "n": len(ids),
        "n_bits": n_bits,
        "n_models": n_models,
        "fusion": fusion,
        "encoder": _encoder(present.encoder) if present else None,
        "embedder": None if "embed" not in settings else Maker.of(settings["embed"])._asdict(),
        "serial": settings["serial"],
        "serials": [version.serial for version in versions],
        "paused": settings["paused"],
        "policy": settings["refresh"],
        "behind": {
            "bits": len(learner.snapshot().changed_bits(present.encoder)) if present else 0,
            "pairs": seen - (present.n_pairs if present else 0),
        },
        "counters": Counters(*settings["counters"])._asdict(),
        "learner": type(learner).__name__,
        "parameters": learner.get_params(deep=False),
        "learned": learned(learner),
    }


def opened(index: StoreIndex, policy: dict[str, Any] | None) -> dict[str, Any]:
    """The same of an index in a database, with the policy that is kept there."""
    learner, encoder, behind = index.learner, index.encoder, index.behind
    n_bits, n_models, fusion = learner.shape_of_codes
    return {
        "class": type(index).__name__,
        "n": len(index),
        "n_bits": n_bits,
        "n_models": n_models,
        "fusion": fusion,
        "encoder": None if encoder is None else _encoder(encoder),
        "embedder": None if index.embedded_by is None else index.embedded_by._asdict(),
        "serial": index.serial,
        "serials": [version.serial for version in index.versions],
        "paused": index.paused,
        "policy": policy,
        "behind": {"bits": behind.bits, "pairs": behind.pairs},
        "counters": {name: getattr(index, name) for name in Counters._fields},
        "learner": type(learner).__name__,
        "parameters": learner.get_params(deep=False),
        "learned": learned(learner),
    }


def live_in_words(numbers: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    models = f" for each of {numbers['n_models']} models" if numbers["n_models"] > 1 else ""
    encoder, behind, counters = numbers["encoder"], numbers["behind"], numbers["counters"]
    embedder = numbers["embedder"]
    policy = repr(from_specification(numbers["policy"])) if numbers["policy"] else "one that is not stored"
    others = [str(serial) for serial in numbers["serials"] if serial != numbers["serial"]]
    return {
        "index": f"{numbers['class']} of {numbers['n']:,} items, {numbers['n_bits']} bits{models}",
        "encoder": f"{_encoder_in_words(encoder)}, serial {numbers['serial']:,}" if encoder else "none yet",
        "embedder": f"{embedder['name']}, vectors of {embedder['n_features']:,} values" if embedder else "none",
        "kept": f"serial {', '.join(others)}" if others else "no other encoder",
        "refresh": policy + (", which pauses since a roll-back" if numbers["paused"] else ""),
        "behind": f"{behind['bits']:,} bits and {behind['pairs']:,} pairs",
        "refreshes": f"{counters['refreshes']:,}: {counters['bits_rehashed']:,} bits of changed functions, of which "
        f"{counters['bits_skipped']:,} were not computed and {counters['bits_flipped']:,} flipped",
        "learner": numbers["learner"],
        "parameters": ", ".join(f"{name}={value!r}" for name, value in numbers["parameters"].items()),
    } | in_words(numbers["learned"])
