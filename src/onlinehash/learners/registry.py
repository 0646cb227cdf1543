"""The methods by name. Adding one is a file beside this one and a line here.

The key is the class name; aliases are the literature's abbreviations. Packages of others register theirs under the
entry point group `onlinehash.learners`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from onlinehash.errors import UnknownMethod

if TYPE_CHECKING:
    from onlinehash.learners.base import Learner


@dataclass(frozen=True)
class Method:
    """The name and module of a learner, which is imported on demand."""

    name: str
    module: str
    aliases: tuple[str, ...]

    def load(self) -> type[Learner]:
        """Import the class; what is wrong with one of another package is said."""
        try:
            learner: type[Learner] = getattr(importlib.import_module(self.module), self.name)
        except (ImportError, AttributeError) as error:
            if self.module.startswith("onlinehash."):
                raise
            raise UnknownMethod(
                f"the method {self.name} cannot be imported from {self.module}: {error}; mend or uninstall the package "
                "whose entry point names it."
            ) from error
        return learner

    def is_of(self, cls: type) -> bool:
        """Whether this entry names that class."""
        return cls.__name__ == self.name and self.load() is cls


#: What is taken wherever no method is named: the best there is for pairs, with nothing to tune.
RECOMMENDED = "BlendedPairHashing"

METHODS = (
    Method("BlendedPairHashing", "onlinehash.learners.blended_pairs", ("BlendedPairs",)),
    Method("SmoothPairHashing", "onlinehash.learners.smooth_pairs", ("SmoothPairs",)),
    Method("OnlineHashing", "onlinehash.learners.online_hashing", ("OH",)),
    Method("MultiModelOnlineHashing", "onlinehash.learners.multi_model", ("MMOH",)),
    Method("MiniBatchOnlineHashing", "onlinehash.learners.mini_batch", ("MBOH",)),
    Method("MinimalLossHashing", "onlinehash.learners.minimal_loss", ("MLH",)),
    Method("AdaptiveHashing", "onlinehash.learners.adaptive", ("AdaptHash",)),
    Method("LegoLSH", "onlinehash.learners.lego", ("LEGO",)),
    Method("HadamardHashing", "onlinehash.learners.hadamard", ("HCOH",)),
    Method("HadamardMatchingHashing", "onlinehash.learners.hadamard", ("HMOH",)),
    Method("OnlineSupervisedHashing", "onlinehash.learners.online_supervised", ("OECC",)),
    Method("MutualInformationHashing", "onlinehash.learners.mutual_information", ("MIHash",)),
    Method("BalancedSimilarityHashing", "onlinehash.learners.balanced_similarity", ("BSODH",)),
    Method("ProjectedCodesHashing", "onlinehash.learners.projected_codes", ("OHWEU",)),
    Method("SimilarityLearningHashing", "onlinehash.learners.similarity_learning", ("OHSL",)),
    Method("LSH", "onlinehash.learners.locality_sensitive", ()),
    Method("KernelLSH", "onlinehash.learners.kernel_lsh", ("KLSH",)),
    Method("OnlineSketchingHashing", "onlinehash.learners.sketching", ("OSH",)),
    Method("FastSketchingHashing", "onlinehash.learners.fast_sketching", ("FROSH",)),
    Method("StreamSpectralHashing", "onlinehash.learners.stream_spectral", ("SSBC",)),
    Method("IterativeQuantization", "onlinehash.learners.iterative_quantization", ("ITQ",)),
    Method("KernelSupervisedHashing", "onlinehash.learners.kernel_supervised", ("KSH",)),
    Method("SupervisedDiscreteHashing", "onlinehash.learners.supervised_discrete", ("SDH",)),
    Method("FastSupervisedHashing", "onlinehash.learners.fast_supervised", ("FastHash",)),
)


def methods() -> Iterator[Method]:
    """Our methods, then those of other packages. Those come last because finding entry points is slow."""
    yield from METHODS
    for found in entry_points(group="onlinehash.learners"):
        yield Method(found.attr, found.module, () if found.name == found.attr else (found.name,))


def find(name: str) -> type[Learner]:
    """The class of that name or alias (letter case does not matter)."""
    for method in methods():
        if name.lower() in {n.lower() for n in (method.name, *method.aliases)}:
            return method.load()
    known = {n.lower(): n for method in methods() for n in (method.name, *method.aliases)}
    near = [known[match] for match in difflib.get_close_matches(name.lower(), known, n=1)]
    did_you_mean = f"; did you mean {near[0]}?" if near else ";"
    raise UnknownMethod(f"there is no method {name!r}{did_you_mean} `onlinehash methods` lists all.")
