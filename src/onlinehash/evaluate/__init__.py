"""How good are the codes: retrieval, held-out pairs, what happens along a stream, the health of the bits, and
what the paper's theorems say about the loss (`bounds`)."""

from onlinehash.evaluate import bounds
from onlinehash.evaluate.along import CodeChanges, Row, along, area
from onlinehash.evaluate.curves import PrecisionRecall, curve, precision_recall
from onlinehash.evaluate.exact import cosine, cosine_curve
from onlinehash.evaluate.health import BitHealth, bit_health
from onlinehash.evaluate.information import mutual_information
from onlinehash.evaluate.neighbours import are_neighbours, neighbour_radii
from onlinehash.evaluate.pairs import PairReport, pairs, similarity_losses
from onlinehash.evaluate.ranking import rank, retrieval
from onlinehash.evaluate.significance import PairedTest, paired_test
from onlinehash.evaluate.truth import Truth, nearest, same_label

__all__ = [
    "BitHealth",
    "CodeChanges",
    "PairReport",
    "PairedTest",
    "PrecisionRecall",
    "Row",
    "Truth",
    "along",
    "are_neighbours",
    "area",
    "bit_health",
    "bounds",
    "cosine",
    "cosine_curve",
    "curve",
    "mutual_information",
    "nearest",
    "neighbour_radii",
    "paired_test",
    "pairs",
    "precision_recall",
    "rank",
    "retrieval",
    "same_label",
    "similarity_losses",
]
