"""Methods that give each class a code of its own to aim at, its codeword."""

from __future__ import annotations

import numpy as np

from onlinehash.errors import FormatError
from onlinehash.io.format import like
from onlinehash.learners.linear import LinearLearner
from onlinehash.types import State


class TargetLearner(LinearLearner):
    """Keeps the codewords of the classes seen so far: what a class was given stays, however many follow.

    Attributes
    ----------
    codewords_ : int8 array of shape (n_classes, n_bits)
        The codewords, -1 and +1, of classes in order of their first appearance (a copy).
    """

    def _draw_codewords(self, n_classes: int) -> np.ndarray:
        """Codewords of the classes 0 to n_classes - 1, from the seed alone; `_codewords` has the first of them."""
        raise NotImplementedError

    def _lay_out(self, W: np.ndarray) -> None:
        super()._lay_out(W)
        self._codewords = np.zeros((0, self.n_bits), np.int8)

    def _meet(self, members: np.ndarray) -> None:
        """Assign codewords to new classes."""
        n_classes = int(members.max()) + 1
        if n_classes > len(self._codewords):
            self._codewords = self._draw_codewords(n_classes)

    @property
    def codewords_(self) -> np.ndarray:
        """The codewords (a copy)."""
        self._check_ready()
        return self._codewords.copy()

    def _get_method_state(self) -> State:
        return super()._get_method_state() | {"codewords": self._codewords}

    def _set_method_state(self, state: State) -> None:
        super()._set_method_state(state)
        expected = np.zeros((len(self._classes), self.n_bits), np.int8)
        self._codewords = like(state["codewords"], expected, "codewords", -1, 1)
        if not self._codewords.all():
            raise FormatError("codewords have other values than -1 and +1.")
