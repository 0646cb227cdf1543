"""How good are the codes: retrieval, held-out pairs, what happens along a stream, the health of the bits, and
what the paper's theorems say about the loss (`bounds`)."""

from onlinehash.evaluate import bounds
from onlinehash.evaluate.along import Row, along
from onlinehash.evaluate.health import BitHealth, bit_health
from onlinehash.evaluate.information import mutual_information
from onlinehash.evaluate.pairs import PairReport, pairs, similarity_losses
from onlinehash.evaluate.ranking import retrieval
from onlinehash.evaluate.truth import Truth, same_label

__all__ = [
    "BitHealth",
    "PairReport",
    "Row",
    "Truth",
    "along",
    "bit_health",
    "bounds",
    "mutual_information",
    "pairs",
    "retrieval",
    "same_label",
    "similarity_losses",
]
