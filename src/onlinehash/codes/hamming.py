"""Hamming distances between codes, and their fusion over several models."""

from __future__ import annotations

import numpy as np

from onlinehash.codes.codes import Codes
from onlinehash.codes.lanes import distances_below, spread
from onlinehash.codes.layout import LANES
from onlinehash.errors import InvalidInput
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.views import read_only


def distance_matrix(queries: Codes, base: Codes) -> np.ndarray:
    """Hamming distances per model, uint16 `(n_models, n_queries, n_base)`."""
    check_same_width(queries, base)
    n_models = queries.n_models
    out = np.empty((n_models, len(queries), len(base)), np.uint16)
    query_parts = np.split(spread(queries.rows()), n_models, axis=1)
    for model, (part, planes) in enumerate(zip(query_parts, np.split(base.planes, n_models, axis=1), strict=True)):
        _all_distances(
            read_only(np.ascontiguousarray(planes)), 1, planes.shape[1], np.ascontiguousarray(part), out[model]
        )
    return out


def fused_distances(queries: Codes, base: Codes, fusion: str = "min") -> np.ndarray:
    """Distances over all models, uint16 `(n_queries, n_base)`: the nearest model's (`min`) or their sum (`sum`)."""
    check_same_width(queries, base)
    out = np.empty((len(queries), len(base)), np.uint16)
    _all_distances(base.planes, *fused_planes(base, fusion), spread(queries.rows()), out)
    return out


def fused_planes(codes: Codes, fusion: str) -> tuple[int, int]:
    """How the kernels see the planes of a code under a fusion: the number of models, and the planes of each."""
    if fusion not in ("min", "sum"):
        raise InvalidInput(expected="fusion to be 'min' or 'sum'", got=f"{fusion!r}")
    return (codes.n_models, codes.n_planes // codes.n_models) if fusion == "min" else (1, codes.n_planes)


def check_same_width(queries: Codes, base: Codes) -> None:
    """Only codes of one width have a distance."""
    if (queries.n_bits, queries.n_models) != (base.n_bits, base.n_models):
        raise InvalidInput(
            expected="codes of equal width", got=f"{queries!r} and {base!r}", hint="encode both with the same encoder"
        )


@njit(nogil=True, cache=True)
def _all_distances(planes: np.ndarray, n_models: int, per_model: int, queries: np.ndarray, out: np.ndarray) -> None:
    """out[q, i] = the distance of query q to code i, the least over models."""
    distances = np.empty(LANES, np.uint16)
    n = out.shape[1]
    for block in range(planes.shape[0]):  # each block is read once
        lanes = min(LANES, n - block * LANES)
        for q in range(queries.shape[0]):
            distances_below(planes, block, n_models, per_model, queries[q], 0, distances)
            for lane in range(lanes):
                out[q, block * LANES + lane] = distances[lane]
