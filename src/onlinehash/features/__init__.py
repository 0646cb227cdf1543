"""What happens to a vector before it is hashed: an optional feature map, then centring."""

from onlinehash.features.boosted_trees import BoostedTrees
from onlinehash.features.centring import Centring, Medians
from onlinehash.features.estimators import NotFitted, note_feature_names
from onlinehash.features.maps import FeatureMap, Transformer, given_parameters, make_map, same_map, same_parameters
from onlinehash.features.rbf_anchors import RbfAnchors

__all__ = [
    "BoostedTrees",
    "Centring",
    "FeatureMap",
    "Medians",
    "NotFitted",
    "RbfAnchors",
    "Transformer",
    "given_parameters",
    "make_map",
    "note_feature_names",
    "same_map",
    "same_parameters",
]
