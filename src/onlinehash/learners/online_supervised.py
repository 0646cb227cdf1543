"""Online Supervised Hashing with error-correcting codes (OECC; "OSH" in later papers).

Fatih Cakir, Stan Sclaroff: *Online Supervised Hashing*. ICIP 2015; with Sarah Adel Bargal: *Online supervised hashing*.
Computer Vision and Image Understanding 156, 2017.

Readings taken:
- The paper draws thousands of codewords beforehand such that no bit is the same in all; but what counts are the words
  of the classes that come. So each is drawn when its class does, unlike all before it (while a hundred draws find one),
  and the eighth class differs wherever the first seven agree. To ask that of the second class makes the first two
  complements, which costs 0.01 of mean average precision with ten classes; complements two by two cost 0.09.
- Points are centred and scaled to unit length, as the authors' experiments have them.
- In the boosted form a point's weight exp(-s) is cut at 1, as MadaBoost does (Domingo and Watanabe, COLT 2000): one
  point that many bits get wrong would otherwise take a step of e^10 and more.

The public benchmark code forgets its codebook after every point, so that all classes aim at one codeword: the values
near chance in later papers' tables come from there. Here the codebook is part of the state.
"""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.features import Transformer
from onlinehash.learners.base import Traits
from onlinehash.learners.label_kernels import Trace, load_unit_point, move_row, note_move, trace_of
from onlinehash.learners.linear import unit_columns
from onlinehash.learners.targets import TargetLearner
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import row_dots
from onlinehash.numeric.exponential import exp_of_nonpositive
from onlinehash.numeric.kernels import njit
from onlinehash.types import RandomState

#: After so many classes the next one differs wherever all so far agree: from then on no bit is the same for all.
ENOUGH_CLASSES = 7

#: Draws after which a codeword may repeat another: there are more classes than a short code can tell apart.
DRAWS = 100


class OnlineSupervisedHashing(TargetLearner):
    """Learns each bit as a classifier of random groups of classes, one labelled point at a time.

    A class gets a random codeword c when it is first seen, and each of its points x pulls the hash functions to it. A
    point with several labels does so for one label after the other.

        w_k ← w_k + η c_k x    where c_k w_kᵀx < 1                              form="hinge"
        w_k ← w_k + η min(1, exp(-s_k)) c_k x,   s_k = Σ_{j ≤ k} c_j w_jᵀx      form="boosted"

    In the boosted form a bit attends to the points that the bits before it leave wrong.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    form : {"hinge", "boosted"}, default="hinge"
        The loss; the authors, too, found the hinge to work better.
    step : float, default=0.1
        The step size η.
    features, centre, burn_in, random_state
        As for every learner: see `Learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineSupervisedHashing
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> learner = OnlineSupervisedHashing(n_bits=8, random_state=0)
    >>> learner.partial_fit(X, X[:, 0] > 0).encode(X)
    Codes(n=200, n_bits=8)
    """

    traits = Traits(learns_from="labels", unit="point", several_labels=True)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        form: str = "hinge",
        step: float = 0.1,
        features: Transformer | None = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.form = form
        self.step = step
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.random_state = random_state

    def _rules(self) -> dict[str, checks.Rule]:
        return {"form": checks.one_of("hinge", "boosted"), "step": checks.real(0, above=True)}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(unit_columns(n_inputs, self.n_bits, rng))

    def _draw_codewords(self, n_classes: int) -> np.ndarray:
        first = len(self._codewords)
        words = np.concatenate([self._codewords, np.zeros((n_classes - first, self.n_bits), np.int8)])
        known = {word.tobytes() for word in self._codewords}
        for number in range(first, n_classes):
            rng = np.random.default_rng([self._seed, 2, number])
            for _ in range(DRAWS):
                word = rng.choice(np.array([-1, 1], np.int8), self.n_bits)
                if word.tobytes() not in known:
                    break
            if number == ENOUGH_CLASSES:
                constant = (words[:number] == words[0]).all(axis=0)
                word[constant] = -words[0][constant]
            words[number] = word
            known.add(word.tobytes())
        return words

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Updates) -> None:
        self._meet(members)
        _learn(self._W, X, members, self._codewords, self.form == "boosted", float(self.step), trace_of(updates))


@njit(nogil=True, cache=True)
def _learn(
    W: np.ndarray, X: np.ndarray, members: np.ndarray, codewords: np.ndarray, boosted: bool, eta: float, trace: Trace
) -> None:
    """Points one by one, each for one label after the other."""
    x, u = np.zeros((1, W.shape[1]), W.dtype), np.empty((1, W.shape[0]), W.dtype)
    for t in range(X.shape[0]):
        if members[t, 0] < 0 or not load_unit_point(X, t, x):
            continue
        for label in members[t]:
            if label < 0:
                break
            row_dots(W, x, 0, 1, u)
            s = 0.0
            for k in range(W.shape[0]):
                c = np.float64(codewords[label, k])
                margin = c * u[0, k]
                if boosted:
                    s += margin
                    weight = exp_of_nonpositive(min(0.0, -s))
                    trace.loss[t] += weight + max(0.0, -s)  # whose slope is the weight
                else:
                    weight = 1.0 if margin < 1.0 else 0.0
                    trace.loss[t] += max(0.0, 1.0 - margin)
                if weight > 0.0 and move_row(W, k, eta * weight * c, x):
                    note_move(trace, t, k, eta)
