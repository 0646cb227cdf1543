"""Vectors of texts without a model: the words they have, in a fixed random projection."""

from __future__ import annotations

import zlib

import numpy as np


class Words:
    """Embeds texts; those that share words are near each other."""

    def __init__(self, n_features: int = 32) -> None:
        self._n_features = n_features

    def embed_query(self, text: str) -> list[float]:
        """The sum of a random vector for each word."""
        vectors = [
            np.random.default_rng(zlib.crc32(word.encode())).normal(size=self._n_features)
            for word in text.lower().split()
        ]
        return np.sum(vectors, axis=0).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector each."""
        return [self.embed_query(text) for text in texts]
