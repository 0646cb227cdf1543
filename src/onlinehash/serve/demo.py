"""What `onlinehash serve --demo` serves: handwritten digits or texts, and a simulated teacher that is paused at first.

Digits: the recommended learner, as in the demo: 32 bits on 300 anchors. Ten seconds of the teacher's 20 pairs a second
take mAP from 0.72 to 0.77, half a minute to 0.87, a whole one to 0.93.

Texts: the documentation inside Python's standard library, to type queries for. The teacher knows the module of each.
"""

from __future__ import annotations

from onlinehash.demo import digits, docstrings
from onlinehash.demo.contest import N_ANCHORS, N_BITS
from onlinehash.features import RbfAnchors
from onlinehash.learners import registry
from onlinehash.learners.base import Learner
from onlinehash.live import policies as refresh
from onlinehash.live.index import LiveIndex
from onlinehash.serve.pictures import Pixels
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Limits

LABEL = "digit"

#: Of the texts, every so many-th is no item but a query that the quality of the search is measured by.
HELD_OUT = 25

#: Half a second of the teacher; a person's marks can ask for a refresh of their own.
PAIRS_BETWEEN_REFRESHES = 10


def digits_service(limits: Limits | None = None, seed: int = 0) -> Service:
    """The service with its quality monitor, its comparison of methods and its teacher, none of them started."""
    data = digits.load(seed, n_pairs=1)
    # The mean is that of all items, so that only learning changes codes. So few items are rehashed in a moment, so
    # codes follow the learner at once (stale_share=0).
    learner: Learner = registry.find(registry.RECOMMENDED)(
        N_BITS, features=RbfAnchors(N_ANCHORS), burn_in=len(data.X_base), stale_share=0.0, random_state=seed
    )
    index = LiveIndex(learner, refresh=refresh.every(PAIRS_BETWEEN_REFRESHES))
    ids = index.add(None, data.X_base, [{LABEL: int(label)} for label in data.y_base])
    index.refresh()
    service = Service(index, limits=limits, label=LABEL, pictures=Pixels(8, 8, scale=1), demo=True)
    service.measure_quality(data.X_query, data.y_query)
    service.compare_methods()
    service.simulate_teacher(ids, data.y_base, seed)
    return service


def text_service(limits: Limits | None = None, seed: int = 0) -> Service:
    """The same for texts."""
    found = docstrings.load()
    base = [one for at, one in enumerate(found) if at % HELD_OUT]
    queries = found[::HELD_OUT]
    learner: Learner = registry.find(registry.RECOMMENDED)(64, burn_in=len(base), stale_share=0.0, random_state=seed)
    index = LiveIndex(learner, refresh=refresh.every(PAIRS_BETWEEN_REFRESHES), embed="lexical")
    modules = [one.module for one in base]
    ids = index.add_texts(
        [f"{one.title}\n{one.text}" for one in base],
        payloads=[{"title": one.title, "text": one.text, "module": one.module} for one in base],
    )
    index.refresh()
    service = Service(index, limits=limits, label="module", demo=True)
    assert index.embedder is not None
    X = index.embedder.encode([f"{one.title}\n{one.text}" for one in queries])
    service.measure_quality(X, [one.module for one in queries])
    service.compare_methods()
    service.simulate_teacher(ids, modules, seed)
    return service
