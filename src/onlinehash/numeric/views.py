"""Arrays as the kernels want them."""

from __future__ import annotations

import numpy as np


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written through; kernels that get no other kind are compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view
