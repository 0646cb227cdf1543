"""What a learner has learned so far, in plain numbers."""

from __future__ import annotations

from typing import Any

from onlinehash.learners.base import Learner


def learned(learner: Learner) -> dict[str, Any]:
    """Counters over the learner's whole life; nothing for one that has seen no data."""
    if not hasattr(learner, "n_features_in_"):
        return {}
    return {
        "n_features": learner.n_features_in_,
        "dtype": str(learner.dtype_),
        "pairs": learner.n_pairs_seen_,
        "points": learner.n_points_seen_,
        "pending": pairs_kept_back(learner),
        "cumulative_loss": learner.cumulative_loss_,
        "loss": _share(learner.cumulative_loss_, learner.n_pairs_seen_),
        "update_rate": _share(learner.n_updates_, learner.n_pairs_seen_),
        "bits_moved": learner.n_bits_moved_,
        "steps": learner.n_steps_,
        "capped_share": _share(learner.n_capped_, learner.n_steps_),
        "version": learner.version_,
    }


def in_words(numbers: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    if not numbers:
        return {"learned": "nothing yet"}
    words = {
        "learned": f"{numbers['pairs']:,} pairs; {numbers['points']:,} points of {numbers['n_features']:,} "
        f"features ({numbers['dtype']})"
    }
    if numbers["pending"]:
        words["pending"] = f"{numbers['pending']:,} pairs, which wait until the feature map has its anchors"
    if numbers["pairs"]:
        words["loss"] = f"{numbers['loss']:.3f} a pair, {numbers['cumulative_loss']:,g} in all"
    if numbers["steps"]:
        words["updates"] = (
            f"{numbers['update_rate']:.1%} of the pairs moved {numbers['bits_moved']:,} bits; "
            f"C capped {numbers['capped_share']:.1%} of {numbers['steps']:,} steps"
        )
    return words | {"version": f"{numbers['version']:,}"}


def pairs_kept_back(learner: Learner) -> int:
    """Pairs that wait for the feature map's anchors."""
    return sum(event["b"] is not None for event in learner.get_state().get("pending", ()))


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0
