"""Packed binary codes and the Hamming distances between them."""

from onlinehash.codes.codes import Codes
from onlinehash.codes.hamming import distance_matrix, fused_distances

__all__ = ["Codes", "distance_matrix", "fused_distances"]
