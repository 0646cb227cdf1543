"""The initial contents of a new backend."""

from __future__ import annotations

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.index.api import Policy
from onlinehash.learners.base import Learner
from onlinehash.live import policies
from onlinehash.live.policies import IS_POLICY
from onlinehash.live.storage import Snapshot, read_back
from onlinehash.stores.backend import Head, Layout
from onlinehash.stores.manifest import Log, State


def first(learner: Learner, policy: Policy | None = None) -> tuple[Head, dict[str, bytes]]:
    """Head and blobs of an index without items, with a learner that may have learned already."""
    layout_of(learner)
    checks.parameters("refresh", {"refresh": policy}, {"refresh": IS_POLICY})
    kept = Snapshot.of_nothing(learner).settings["refresh"] if policy is None else policies.specification(policy)
    blob, is_fitted = read_back(learner), hasattr(learner, "n_features_in_")
    state = State(kept, Log(checkpoint_bytes=len(blob) if is_fitted else 0))
    if is_fitted:
        state = State(kept, state.log, n_features=learner.n_features_in_, dtype=learner.dtype_.name)
    return Head(0, state.json()), {state.log.checkpoint: blob}


def layout_of(learner: Learner) -> Layout:
    """What codes a backend for this learner has, if it is one that can be kept."""
    if not isinstance(learner, Learner):
        raise InvalidInput(expected="a learner, such as OnlineHashing(n_bits=64)", got=checks.shown(learner))
    if learner.traits.unit == "batch" and not hasattr(learner, "n_features_in_"):
        raise InvalidInput(
            expected=f"a fitted {type(learner).__name__} for an index in a database, which then owns it",
            got="one that has learned nothing",
            hint="call fit first",
        )
    return Layout(*learner.shape_of_codes)
