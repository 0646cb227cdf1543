"""`save` and `load` of anything this library makes: learners, encoders, codes, indexes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.codes.layout import LANES
from onlinehash.errors import FormatError, InvalidInput, OnlineHashError
from onlinehash.features import BoostedTrees, FeatureMap, RbfAnchors, make_map
from onlinehash.index.base import Index
from onlinehash.index.flat import FlatIndex
from onlinehash.index.gpu import GpuIndex
from onlinehash.index.multi_index import MultiIndex
from onlinehash.io import format
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder
from onlinehash.numeric.threads import cpu_count
from onlinehash.types import State

INDEXES: dict[str, type[FlatIndex | MultiIndex]] = {"FlatIndex": FlatIndex, "MultiIndex": MultiIndex}

#: What a file can hold.
Saved: TypeAlias = Learner | Encoder | Codes | FlatIndex | MultiIndex


def save(thing: Saved | GpuIndex, path: str | os.PathLike[str]) -> None:
    """Write a learner, an encoder, codes or an index to one file, atomically and without pickle.

    Parameters
    ----------
    thing : learner, Encoder, Codes, FlatIndex, MultiIndex or GpuIndex
        A `GpuIndex` is written as a `FlatIndex`, which any machine can load. A `LiveIndex` keeps itself in its folder;
        `backup` copies it.
    path : str or path-like
        A file that is there already is replaced.

    Raises
    ------
    InvalidInput
        If the thing, or something in it, cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, load, save
    >>> learner = OnlineHashing(n_bits=8, random_state=0)
    >>> _ = learner.observe(np.eye(4))
    >>> save(learner, "model.oh")
    >>> load("model.oh").n_bits
    8
    """
    format.write(path, *_packed(thing))


def to_bytes(thing: Saved | GpuIndex) -> bytes:
    """The bytes of the file that `save` would write."""
    return format.to_bytes(*_packed(thing))


def _packed(thing: Saved | GpuIndex) -> tuple[str, State]:
    """The kind and the content of a thing's file."""
    if isinstance(thing, Learner):
        if not any(method.is_of(type(thing)) for method in registry.methods()):
            raise InvalidInput(
                f"cannot save {type(thing).__name__}: the registry does not know it, so load could not "
                "find it; register it with the entry point group onlinehash.learners."
            )
        thing.check_finite()
        params, state = thing.get_params(deep=False), thing.get_state()
        if state and isinstance(params["random_state"], np.random.Generator | np.random.RandomState):
            params["random_state"] = state["seed"]  # what was drawn from a generator that others share
        return "learner", {"class": type(thing).__name__, "params": _pack(params), "state": _pack(state)}
    if isinstance(thing, Encoder):
        return "encoder", _pack_encoder(thing)
    if isinstance(thing, Codes):
        return "codes", _pack_codes(thing)
    if isinstance(thing, GpuIndex):
        thing = FlatIndex.of(thing)  # a file is for any machine; `GpuIndex.of` brings what it holds to a card
    if isinstance(thing, FlatIndex | MultiIndex) and type(thing) in INDEXES.values():
        return "index", _pack_index(thing)
    raise InvalidInput(
        f"cannot save {type(thing).__name__}: expected a learner, an encoder, codes or an index; "
        "a LiveIndex saves itself in its path, or a copy with backup()."
    )


def load(path: str | os.PathLike[str], mmap: bool = False) -> Saved:
    """Read what `save` wrote. A learner continues exactly where it stopped.

    Parameters
    ----------
    path : str or path-like
    mmap : bool, default=False
        Leave the large arrays of codes and indexes in the file, read-only. A file of any size then opens at once, the
        system reads only the parts that are used, and the arrays are not compared with the file's checksum. Do not
        write into the file while it is in use; to `save` a new one in its place does no harm. Learners and encoders
        are small and always copied into memory.

    Returns
    -------
    learner, Encoder, Codes, FlatIndex or MultiIndex

    Raises
    ------
    InvalidInput
        If there is no such file, or it cannot be read.
    FormatError
        If it is damaged, or something else than `save` wrote it.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import Codes, load, save
    >>> save(Codes.from_bits(np.eye(3, dtype=bool)), "codes.oh")
    >>> load("codes.oh")
    Codes(n=3, n_bits=3)
    """
    return _unpacked(*format.read(path, mmap), path, mmap)


def from_bytes(data: bytes, name: str) -> Saved:
    """What `to_bytes` was given; the name is for messages."""
    return _unpacked(*format.from_bytes(data, name), name, False)


def _unpacked(kind: str, content: State, path: str | os.PathLike[str], mmap: bool) -> Saved:
    readers: dict[str, Callable[[State], Saved]] = {
        "learner": _read_learner,
        "encoder": _read_encoder,
        "codes": partial(_read_codes, mapped=mmap),
        "index": partial(_read_index, mapped=mmap),
    }
    if kind not in readers:
        raise FormatError(
            expected=f"one of {', '.join(readers)} in {path}", got=checks.shown(kind), hint="upgrade onlinehash"
        )
    try:
        return readers[kind](content)
    except OnlineHashError as error:
        problem = str(error)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, ImportError, RecursionError) as error:
        problem = f"{checks.shown(error)}."
    except MemoryError:
        problem = "it asks for more memory than there is."
    raise FormatError(f"{path} does not hold a usable {kind}: {problem}")


def _read_learner(content: State) -> Learner:
    cls = registry.find(content["class"])
    learner: Learner = cls(**{name: _unpack(value) for name, value in content["params"].items()})
    learner.set_state(_unpack(content["state"]))
    return learner


def _pack_encoder(encoder: Encoder) -> State:
    return {
        "weights": encoder.weights,
        "thresholds": encoder.thresholds,
        "features": _pack(_map_parameter(encoder.feature_map)),
        "map": None if encoder.feature_map is None else _pack(encoder.feature_map.get_state()),
        "n_features": encoder.n_features,
        "n_models": encoder.n_models,
        "fusion": encoder.fusion,
        "version": encoder.version,
        "method": encoder.method,
    } | ({} if encoder.queries is None else {"queries": [_pack_encoder(step) for step in encoder.queries]})


def _map_parameter(feature_map: object) -> Any:
    """The `features` parameter that a map was made from."""
    return getattr(feature_map, "transformer", feature_map)


def _map_from(parameter: Any) -> FeatureMap | None:
    """The map that `_map_parameter` was given, without what it has learned."""
    return parameter if isinstance(parameter, BoostedTrees) else make_map(parameter)


def _read_encoder(content: State) -> Encoder:
    feature_map = _map_from(_unpack(content["features"]))
    weights, n_features, n_models = content["weights"], _whole(content, "n_features"), _whole(content, "n_models")
    n_inputs: int | None = n_features
    if feature_map is not None:
        feature_map.set_state(_unpack(content["map"]))
        if not feature_map.is_ready:
            raise FormatError("the feature map of an encoder has learned nothing.")
        n_inputs = feature_map.n_outputs
    rows = len(weights)
    if weights.ndim != 2 or rows == 0 or rows % n_models or weights.dtype not in (np.float32, np.float64):
        raise FormatError(expected=f"weights for {n_models} models", got=f"{weights.dtype} {weights.shape}")
    return Encoder(
        format.like(weights, np.zeros((rows, n_inputs or weights.shape[1]), weights.dtype), "weights"),
        format.like(content["thresholds"], np.zeros(rows), "thresholds"),
        feature_map,
        n_features,
        n_models,
        content["fusion"],
        content["version"],
        content["method"],
        _read_query_encoders(content.get("queries"), n_features, rows),
    )


def _read_query_encoders(content: Any, n_features: int, n_bits: int) -> tuple[Encoder, Encoder] | None:
    if content is None:
        return None
    first, second = (_read_encoder(step) for step in format.listed(content, "queries", 2))
    if (first.n_features, second.n_features, second.n_columns) != (n_features, first.n_columns, n_bits):
        raise FormatError("the two encoders for queries do not fit together.")
    return first, second


def _pack_codes(codes: Codes) -> State:
    return {"planes": codes.planes, "n": len(codes), "n_bits": codes.n_bits, "n_models": codes.n_models}


def _read_codes(content: State, mapped: bool) -> Codes:
    n_bits, n_models = (_whole(content, name) for name in ("n_bits", "n_models"))
    if "packed" in content:  # the first files of this format held rows
        return Codes.from_faiss(content["packed"], n_bits, n_models)
    return _checked(Codes.from_planes(content["planes"], _whole(content, "n"), n_bits, n_models), mapped)


def _checked(codes: Codes, mapped: bool) -> Codes:
    """Codes whose padding is zero; of mapped ones only the last block is looked at, for all would be the whole file."""
    n = len(codes)
    last = codes.planes[-1:], min(n, (n - 1) % LANES + 1), codes.n_bits, codes.n_models
    (Codes.from_planes(*last) if mapped else codes).checked()
    return codes


def _pack_index(index: Index) -> State:
    state = index.get_state()
    return {
        "class": type(index).__name__,
        "state": state | {"items": state["items"] | {"codes": _pack_codes(state["items"]["codes"])}},
        "encoder": None if index.encoder is None else _pack_encoder(index.encoder),
    }


def _read_index(content: State, mapped: bool) -> FlatIndex | MultiIndex:
    state, encoder = content["state"], content["encoder"]
    items = state["items"] | {"codes": _read_codes(state["items"]["codes"], mapped)}
    cls = INDEXES[content["class"]]
    return cls.from_state(state | {"items": items}, None if encoder is None else _read_encoder(encoder))


def _whole(content: State, name: str) -> int:
    """A number of things, which a file can claim to be anything."""
    value = content[name]
    if type(value) is not int or value < 0:
        raise FormatError(expected=f"{name} to be a whole number of at least 0", got=checks.shown(value))
    return value


# ------------------------------------------------------------------ estimators inside parameters and state


def _pack(value: object) -> Any:
    """Estimators become their class, parameters and, for scikit-learn's own, what they have learned."""
    if isinstance(value, RbfAnchors):
        return {"$rbf_anchors": _pack(value.get_params(deep=False))}
    if isinstance(value, BoostedTrees):
        return {"$boosted_trees": _pack(_map_parameter(value.inner))}
    if hasattr(value, "get_params"):
        module = type(value).__module__
        if not module.startswith("sklearn."):
            raise InvalidInput(
                f"cannot save features of type {type(value).__name__}: expected RbfAnchors or a "
                "scikit-learn transformer."
            )
        params = value.get_params(deep=False)
        if params.get("memory") is not None:
            raise InvalidInput(f"cannot save features with a memory cache: {checks.shown(value)}; set memory=None.")
        learned = {k: v for k, v in vars(value).items() if k not in params and k != "feature_names_in_"}
        return {"$sklearn": f"{module}:{type(value).__name__}", "params": _pack(params), "learned": _pack(learned)}
    if isinstance(value, dict):
        return {k: _pack(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(v) for v in value]
    return value


def _unpack(value: object) -> Any:
    """What was packed; arrays are copies, so that none keeps a mapped file open, or is read-only."""
    if isinstance(value, dict):
        if "$rbf_anchors" in value:
            return RbfAnchors(**_unpack(value["$rbf_anchors"]))
        if "$boosted_trees" in value:
            return BoostedTrees(make_map(_unpack(value["$boosted_trees"])))
        if "$sklearn" in value:
            return _scikit_learn(value)
        return {k: _unpack(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_unpack(v) for v in value]
    return np.array(value) if isinstance(value, np.ndarray) else value


def _scikit_learn(value: dict[str, Any]) -> Any:
    """A scikit-learn transformer; nothing else can be named by a file."""
    from sklearn.base import BaseEstimator

    module, _, name = value["$sklearn"].partition(":")
    if not module.startswith("sklearn."):
        raise FormatError(expected="a scikit-learn transformer", got=f"{module}:{name}")
    cls = getattr(importlib.import_module(module), name)
    if not (isinstance(cls, type) and issubclass(cls, BaseEstimator) and hasattr(cls, "transform")):
        raise FormatError(expected="a scikit-learn transformer", got=f"{module}:{name}")
    params = _unpack(value["params"])
    if params.get("memory") is not None:
        raise FormatError(f"{name} must not have memory, which would name a folder of pickles to trust.")
    if type(n_jobs := params.get("n_jobs")) is int:  # as many processes would be started
        params["n_jobs"] = min(n_jobs, cpu_count())
    transformer = cls(**params)
    for attribute, learned in _unpack(value["learned"]).items():
        # Set this way a parameter would not be checked, a method would be replaced, and `__dict__` would set them all.
        if attribute in transformer.get_params(deep=False) or hasattr(cls, attribute):
            raise FormatError(expected=f"a learned attribute of {name}", got=checks.shown(attribute))
        setattr(transformer, attribute, learned)
    return transformer
