"""Pairs from clicks: what a list of results, and what somebody clicked in it, says about the query.

The rule:

- What was clicked is similar to the query.
- What was shown above a click and not clicked was seen and passed over: dissimilar, with `skip_weight`.
- What is below the last click may never have been seen, and says nothing; a list without a click says nothing at all.
- The query itself among the results takes its place there, but makes no pair.

The second line is "Click > Skip Above" of Joachims, Granka, Pan, Hembrooke, Gay: *Accurately interpreting clickthrough
data as implicit feedback*, SIGIR 2005. It rests on people reading a list from its top.

Few read far, so what is shown first is clicked most, whether or not it is most similar. `position_bias` b corrects
that: place i (from 1) is taken to be reached with probability i^-b, and what is seen only once in i^b times counts i^b
times as much, as in Joachims, Swaminathan, Schnabel: *Unbiased learning-to-rank with biased feedback*, WSDM 2017. A
click is seen if its place is reached. That an item was passed over is seen if the next click below it is, so both
count the same. If people read from the top and stop as said, the mean of these weights over many readers is that of
readers who look at everything (the tests work it out). No evidence counts more than `MOST_OFTEN` times, which trades
a little of that exactness for steadiness, also as the paper does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput

#: The most that a seldom seen place multiplies a weight.
MOST_OFTEN = 10.0


class ClickPairs(NamedTuple):
    """Aligned lists, a pair each, in the order shown: the query (None if it is no item), an item, and what it says.

    Examples
    --------
    >>> from onlinehash import LiveIndex, streams
    >>> index = LiveIndex(n_bits=16)
    >>> _ = index.add(["q", "a", "b"], [[1.0, 2.0], [2.0, 0.5], [0.1, 0.2]])
    >>> pairs = streams.from_clicks("q", shown=["a", "b"], clicked=["b"])
    >>> pairs.ids_b, pairs.similar, pairs.weight
    (['a', 'b'], [False, True], [0.5, 1.0])
    >>> updates = index.learn_pairs_by_id(*pairs)  # they are in the order of its arguments
    """

    ids_a: list[int | str | None]
    ids_b: list[int | str]
    similar: list[bool]
    weight: list[float]


def from_clicks(
    query: int | str | None,
    shown: Iterable[int | str],
    clicked: Iterable[int | str],
    *,
    skip_weight: float = 0.5,
    position_bias: float = 0.0,
) -> ClickPairs:
    """Return the weighted pairs that a list of results with clicks is evidence of.

    What was clicked is similar to the query; what was shown above a click and not clicked is dissimilar. The module has
    the rule and where it comes from.

    Parameters
    ----------
    query : int, str or None
        The id of the item that was searched for, or None where it was a vector.
    shown : iterable of int or str
        The ids of the results, in the order shown.
    clicked : iterable of int or str
        The ids of those that were clicked, in any order.
    skip_weight : float, default=0.5
        The weight of an item passed over, where a click has the weight 1; 0 leaves it out.
    position_bias : float, default=0.0
        How fast attention falls along the list: 0 for not at all, 1 for half of it at the second place.

    Returns
    -------
    ClickPairs

    Raises
    ------
    InvalidInput
        If a clicked id was not shown, or an id is repeated.

    Examples
    --------
    >>> from onlinehash import streams
    >>> streams.from_clicks("q", ["a", "b", "c"], ["b"])
    ClickPairs(ids_a=['q', 'q'], ids_b=['a', 'b'], similar=[False, True], weight=[0.5, 1.0])
    """
    rules = {"skip_weight": checks.real(0), "position_bias": checks.real(0, 10)}
    checks.parameters("from_clicks", {"skip_weight": skip_weight, "position_bias": position_bias}, rules)
    ids, chosen = _different(shown, "shown"), set(_different(clicked, "clicked"))
    if not chosen <= set(ids):
        unseen = next(iter(chosen - set(ids)))
        raise InvalidInput(f"the clicked id {checks.shown(unseen)} is not among those shown.")
    query = None if query is None else _id(query, "query")
    found = []
    often = 0.0  # how often what is seen here counts; nothing is known below the last click
    for place in range(len(ids), 0, -1):
        similar = ids[place - 1] in chosen
        if similar:
            often = min(float(place) ** float(position_bias), MOST_OFTEN)
        weight = often * (1.0 if similar else float(skip_weight))
        if weight > 0 and ids[place - 1] != query:
            found.append((query, ids[place - 1], similar, weight))
    return ClickPairs(*map(list, zip(*reversed(found), strict=True))) if found else ClickPairs([], [], [], [])


def _different(ids: object, name: str) -> list[int | str]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InvalidInput(expected=f"a list of ids for {name}", got=checks.shown(ids))
    found = [_id(id, name) for id in ids]
    if len(set(found)) < len(found):
        again = next(id for at, id in enumerate(found) if id in found[:at])
        raise InvalidInput(f"{name} contains the id {checks.shown(again)} twice.")
    return found


def _id(id: object, name: str) -> int | str:
    if isinstance(id, str):
        return str(id)
    if isinstance(id, int | np.integer) and not isinstance(id, bool):
        return int(id)
    raise InvalidInput(expected=f"integers or strings as ids for {name}", got=checks.shown(id))
