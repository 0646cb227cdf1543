"""Jobs on data larger than memory, part by part, on processes, Dask or Ray.

    encode, recode             vectors in files to a folder of codes; only the bits that changed
    read_codes                 such a folder in memory
    ground_truth, same_label   what a search should find; mean_average_precision measures how well it does
    open_source                how files are cut into partitions, if the defaults do not fit

All of them take `on`: the engine.
"""

from onlinehash.bulk.encoded import Encoded, read_codes
from onlinehash.bulk.encoding import Report, encode, recode
from onlinehash.bulk.engine import Engine
from onlinehash.bulk.engines import engine_of
from onlinehash.bulk.precision import mean_average_precision
from onlinehash.bulk.sources import Source, open_source
from onlinehash.bulk.truth import Neighbours, SameLabel, ground_truth, same_label

__all__ = [
    "Encoded",
    "Engine",
    "Neighbours",
    "Report",
    "SameLabel",
    "Source",
    "encode",
    "engine_of",
    "ground_truth",
    "mean_average_precision",
    "open_source",
    "read_codes",
    "recode",
    "same_label",
]
