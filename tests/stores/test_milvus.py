"""`MilvusIndex` on the embedded engine does what `LiveIndex` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onlinehash import MilvusIndex
from onlinehash.errors import InvalidInput
from tests.stores.congruence import check


@pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns, in both
def test_the_same_program_has_the_same_results_as_in_memory(tmp_path: Path) -> None:
    address = str(tmp_path / "milvus.db")

    def make(learner: Any, policy: Any) -> MilvusIndex:
        index = MilvusIndex.create(address, learner, policy)
        index.batch_rows = 3
        return index

    check(make, "MMOH", 0, 20)
    with pytest.raises(InvalidInput, match="there is no index named 'nobodys'"):
        MilvusIndex.open(address, name="nobodys")
