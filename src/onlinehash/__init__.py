"""Online hashing: short binary codes learned from a stream of similar and dissimilar pairs.

    from onlinehash import OnlineHashing

    oh = OnlineHashing(n_bits=64, random_state=0)
    oh.learn_pair(a, b, similar=True)        # Update(loss=3, step=0.021, bits=[4, 17, 40])
    oh.encode(X)                             # packed codes

Importing this package loads nothing heavy and compiles nothing; names arrive when they are first used.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":  # it has neither the file locks of Unix nor uvloop, and nothing here is tested on it
    raise ImportError("onlinehash does not run on Windows; use WSL (Windows Subsystem for Linux).")

__version__ = "0.1.0"

_HOMES = {
    "AdaptiveHashing": "onlinehash.learners.adaptive",
    "BalancedSimilarityHashing": "onlinehash.learners.balanced_similarity",
    "BlendedPairHashing": "onlinehash.learners.blended_pairs",
    "Codes": "onlinehash.codes",
    "Encoder": "onlinehash.learners.encoder",
    "FastSketchingHashing": "onlinehash.learners.fast_sketching",
    "FastSupervisedHashing": "onlinehash.learners.fast_supervised",
    "FlatIndex": "onlinehash.index.flat",
    "GpuIndex": "onlinehash.index.gpu",
    "HadamardHashing": "onlinehash.learners.hadamard",
    "HadamardMatchingHashing": "onlinehash.learners.hadamard",
    "Hits": "onlinehash.index.hits",
    "IterativeQuantization": "onlinehash.learners.iterative_quantization",
    "KernelLSH": "onlinehash.learners.kernel_lsh",
    "KernelSupervisedHashing": "onlinehash.learners.kernel_supervised",
    "LSH": "onlinehash.learners.locality_sensitive",
    "LegoLSH": "onlinehash.learners.lego",
    "LiveIndex": "onlinehash.live.index",
    "MilvusIndex": "onlinehash.stores.milvus.index",
    "MiniBatchOnlineHashing": "onlinehash.learners.mini_batch",
    "MinimalLossHashing": "onlinehash.learners.minimal_loss",
    "MultiIndex": "onlinehash.index.multi_index",
    "MultiModelOnlineHashing": "onlinehash.learners.multi_model",
    "MutualInformationHashing": "onlinehash.learners.mutual_information",
    "OnlineHashing": "onlinehash.learners.online_hashing",
    "OnlineSketchingHashing": "onlinehash.learners.sketching",
    "OnlineSupervisedHashing": "onlinehash.learners.online_supervised",
    "PostgresIndex": "onlinehash.stores.postgres.index",
    "ProjectedCodesHashing": "onlinehash.learners.projected_codes",
    "RbfAnchors": "onlinehash.features",
    "SimilarityLearningHashing": "onlinehash.learners.similarity_learning",
    "SmoothPairHashing": "onlinehash.learners.smooth_pairs",
    "StreamSpectralHashing": "onlinehash.learners.stream_spectral",
    "SupervisedDiscreteHashing": "onlinehash.learners.supervised_discrete",
    "Update": "onlinehash.learners.update",
    "connect": "onlinehash.client",
    "connect_async": "onlinehash.client",
    "load": "onlinehash.io.files",
    "save": "onlinehash.io.files",
}
_ROOMS = {
    "bulk": "onlinehash.bulk",
    "datasets": "onlinehash.datasets",
    "embed": "onlinehash.embed",
    "errors": "onlinehash.errors",
    "evaluate": "onlinehash.evaluate",
    "export": "onlinehash.export",
    "feedback": "onlinehash.feedback",
    "refresh": "onlinehash.live.policies",
    "serve": "onlinehash.serve",
    "streams": "onlinehash.streams",
}

__all__ = [
    "LSH",
    "AdaptiveHashing",
    "BalancedSimilarityHashing",
    "BlendedPairHashing",
    "Codes",
    "Encoder",
    "FastSketchingHashing",
    "FastSupervisedHashing",
    "FlatIndex",
    "GpuIndex",
    "HadamardHashing",
    "HadamardMatchingHashing",
    "Hits",
    "IterativeQuantization",
    "KernelLSH",
    "KernelSupervisedHashing",
    "LegoLSH",
    "LiveIndex",
    "MiniBatchOnlineHashing",
    "MinimalLossHashing",
    "MultiIndex",
    "MultiModelOnlineHashing",
    "MutualInformationHashing",
    "OnlineHashing",
    "OnlineSketchingHashing",
    "OnlineSupervisedHashing",
    "ProjectedCodesHashing",
    "RbfAnchors",
    "SimilarityLearningHashing",
    "SmoothPairHashing",
    "StreamSpectralHashing",
    "SupervisedDiscreteHashing",
    "Update",
    "bulk",
    "connect",
    "connect_async",
    "datasets",
    "embed",
    "errors",
    "evaluate",
    "export",
    "feedback",
    "load",
    "refresh",
    "save",
    "serve",
    "streams",
]
_NEED_EXTRAS = ("MilvusIndex", "PostgresIndex")  # not in __all__, so that `import *` works without their databases

if TYPE_CHECKING:
    from onlinehash import bulk, datasets, embed, errors, evaluate, export, feedback, serve, streams
    from onlinehash.client import connect, connect_async
    from onlinehash.codes import Codes
    from onlinehash.features import RbfAnchors
    from onlinehash.index.flat import FlatIndex
    from onlinehash.index.gpu import GpuIndex
    from onlinehash.index.hits import Hits
    from onlinehash.index.multi_index import MultiIndex
    from onlinehash.io.files import load, save
    from onlinehash.learners.adaptive import AdaptiveHashing
    from onlinehash.learners.balanced_similarity import BalancedSimilarityHashing
    from onlinehash.learners.blended_pairs import BlendedPairHashing
    from onlinehash.learners.encoder import Encoder
    from onlinehash.learners.fast_sketching import FastSketchingHashing
    from onlinehash.learners.fast_supervised import FastSupervisedHashing
    from onlinehash.learners.hadamard import HadamardHashing, HadamardMatchingHashing
    from onlinehash.learners.iterative_quantization import IterativeQuantization
    from onlinehash.learners.kernel_lsh import KernelLSH
    from onlinehash.learners.kernel_supervised import KernelSupervisedHashing
    from onlinehash.learners.lego import LegoLSH
    from onlinehash.learners.locality_sensitive import LSH
    from onlinehash.learners.mini_batch import MiniBatchOnlineHashing
    from onlinehash.learners.minimal_loss import MinimalLossHashing
    from onlinehash.learners.multi_model import MultiModelOnlineHashing
    from onlinehash.learners.mutual_information import MutualInformationHashing
    from onlinehash.learners.online_hashing import OnlineHashing
    from onlinehash.learners.online_supervised import OnlineSupervisedHashing
    from onlinehash.learners.projected_codes import ProjectedCodesHashing
    from onlinehash.learners.similarity_learning import SimilarityLearningHashing
    from onlinehash.learners.sketching import OnlineSketchingHashing
    from onlinehash.learners.smooth_pairs import SmoothPairHashing
    from onlinehash.learners.stream_spectral import StreamSpectralHashing
    from onlinehash.learners.supervised_discrete import SupervisedDiscreteHashing
    from onlinehash.learners.update import Update
    from onlinehash.live import policies as refresh
    from onlinehash.live.index import LiveIndex
    from onlinehash.stores.milvus.index import MilvusIndex as MilvusIndex
    from onlinehash.stores.postgres.index import PostgresIndex as PostgresIndex


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(_ROOMS[name])
    raise AttributeError(f"module 'onlinehash' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_NEED_EXTRAS, "__version__"])
