"""LangChain's own suite for vector stores, over an index in memory and one on a disk.

It brings pytest-asyncio, which `make frameworks` tells to run coroutines.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import optional

optional("langchain_tests")

from langchain_tests.integration_tests import VectorStoreIntegrationTests

from onlinehash import LiveIndex
from onlinehash.integrations.langchain import OnlineHashVectorStore


class TestInMemory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> OnlineHashVectorStore:
        return OnlineHashVectorStore(self.get_embeddings())


class TestOnDisk(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[OnlineHashVectorStore]:
        with LiveIndex(path=tmp_path / "documents") as index:
            yield OnlineHashVectorStore(self.get_embeddings(), index)
