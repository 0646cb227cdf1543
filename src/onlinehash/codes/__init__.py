"""Packed binary codes and the Hamming distances between them."""

from onlinehash.codes.codes import Codes
from onlinehash.codes.hamming import check_same_width, distance_matrix, fused_distances, fused_planes

__all__ = ["Codes", "check_same_width", "distance_matrix", "fused_distances", "fused_planes"]
