"""What to cite: an entry for every method, in BibTeX."""

import re

from onlinehash.experiments import bibliography
from onlinehash.learners import registry

NAMES = [method.name for method in registry.METHODS]


def test_all_of_them_once_the_paper_first():
    parts = bibliography.all_bibtex().split("\n\n")
    named = [name for part in parts for name in part.partition("\n")[0].removeprefix("% ").split(", ")]
    assert sorted(named) == sorted(NAMES)
    keys = [re.search(r"@\w+\{([\w-]+),", part)[1] for part in parts]
    assert keys[0] == "huang2017online"
    assert len(set(keys)) == len(keys) == 21  # 24 methods: OH and MMOH share one, and our three do
    assert parts[0].startswith("% OnlineHashing, MultiModelOnlineHashing\n")
