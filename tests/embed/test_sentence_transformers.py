"""The class of sentence-transformers itself, on a tiny model with random weights that is built here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onlinehash import LiveIndex, connect, embed, serve
from onlinehash.errors import InvalidInput
from tests.needs import optional

optional("sentence_transformers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "open", "close", "a", "file", "window", "the", "day", "warm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as it lies on a disk: a BERT of one layer, and the mean of its tokens."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import BertConfig, BertModel, BertTokenizer

    made = tmp_path_factory.mktemp("model")
    (made / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(made / "bert")
    BertTokenizer(str(made / "vocab.txt")).save_pretrained(made / "bert")
    model = SentenceTransformer(str(made / "bert"), device="cpu")  # with the mean of tokens
    model.save(str(made / "whole"))
    return made / "whole"


@pytest.mark.filterwarnings("ignore")
def test_a_model_by_name_in_an_index_and_in_a_service(folder: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    found = embed.load(f"sentence-transformers:{folder}")
    assert found.n_features == 32
    texts = ["open a file", "close the window", "a warm day"]
    index = LiveIndex(n_bits=16, path=tmp_path / "items", embed=found)
    index.add_texts(texts)
    assert index.find_text("close the window", k=1).ids.tolist() == [1]
    index.close()

    again: Any = SentenceTransformer(str(folder), device="cpu")
    index = LiveIndex.open(tmp_path / "items", embed=again)
    with serve.background(index) as url, connect(url) as remote:
        hits = remote.find_text(texts, k=1)
        assert hits.ids.ravel().tolist() == [0, 1, 2]
    with pytest.raises(InvalidInput, match="holds vectors of the embedder"):
        LiveIndex.open(tmp_path / "items", embed="lexical")


def test_a_model_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InvalidInput, match="cannot load"):
        embed.load(f"sentence-transformers:{tmp_path}/nothing")
