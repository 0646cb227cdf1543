"""Embedders: what turns texts into vectors, for indexes that are given texts."""

from onlinehash.embed.embedder import Embedder, Embedding, load
from onlinehash.embed.lexical import Lexical

__all__ = ["Embedder", "Embedding", "Lexical", "load"]
