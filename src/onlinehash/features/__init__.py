"""What happens to a vector before it is hashed: an optional feature map, then centring."""

from onlinehash.features.centring import Centring
from onlinehash.features.maps import FeatureMap, make_map, same_map
from onlinehash.features.rbf_anchors import RbfAnchors

__all__ = ["Centring", "FeatureMap", "RbfAnchors", "make_map", "same_map"]
