"""`mean_average_precision` of codes in a folder, part by part.

All that a ranking by Hamming distance says is in two counts for each query and distance, of items and of relevant
ones; those of parts add up to those of the whole, so the value is that of `evaluate`, to the last bit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onlinehash import checks
from onlinehash.arraylike import VectorLike
from onlinehash.bulk.answers import Answer, Job
from onlinehash.bulk.encoded import joined
from onlinehash.bulk.encoding import complete_manifest
from onlinehash.bulk.engine import Engine
from onlinehash.bulk.engines import engine_of
from onlinehash.bulk.folder import Manifest, part_path
from onlinehash.bulk.parts import read_part
from onlinehash.bulk.truth import BulkTruth
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.histograms import Histograms
from onlinehash.evaluate.measures import Counts, measure_of
from onlinehash.evaluate.ranking import encoder_of, mean
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder


def mean_average_precision(
    model: Encoder | Learner,
    X_query: VectorLike,
    codes: str | os.PathLike[str],
    truth: BulkTruth,
    on: str | Engine | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
) -> float:
    """Measure the mAP of a search among the codes of a folder, in expectation over ties.

    The value is that of `evaluate.retrieval`.

    Parameters
    ----------
    model : Encoder or Learner
        The one that made the codes.
    X_query : array-like of shape (n, n_features)
    codes : str or path-like
        The folder of the codes.
    truth : SameLabel or Neighbours
        Which items are relevant: `same_label` or `ground_truth`.
    on : str or Engine, optional
        Where the work is done; see `engine_of`.
    folder : str or path-like, optional
        Where the counts of each part are stored, so that repeating the call resumes it.

    Returns
    -------
    float

    Raises
    ------
    InvalidInput
        If codes or truth do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, bulk
    >>> X = np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)
    >>> np.save("vectors.npy", X)
    >>> learner = OnlineHashing(n_bits=32, random_state=0).observe(X)
    >>> _ = bulk.encode(learner, "vectors.npy", "codes", on="local://1")
    >>> truth = bulk.ground_truth(X[:20], "vectors.npy", 10, on="local://1")
    >>> 0 < bulk.mean_average_precision(learner, X[:20], "codes", truth, on="local://1") < 1
    True
    """
    encoder = encoder_of(model)
    queries, manifest = encoder.encode_queries(X_query), complete_manifest(codes, encoder)
    checks.same_length("the truth", truth.n_queries, len(queries), "X_query")
    counting = Counting(queries, encoder.fusion, Path(codes).absolute(), manifest, truth)
    encoded = (queries.to_faiss(), queries.n_bits, queries.n_models)
    question = ("counts", *encoded, encoder.fusion, manifest.encoder, manifest.source, *truth.facts)
    job = Job(counting, range(len(manifest.parts)), question, "ranking")
    items = hits = np.zeros((len(queries), 1), np.int64)
    with engine_of(on) as engine:
        for more_items, more_hits in job.answers(engine, folder):
            items, hits = items + more_items, hits + more_hits
    counts = Counts.under("expected", "zero", items, hits, None)
    answerable = counts.n_relevant > 0
    if not answerable.any():
        raise InvalidInput("no query has a relevant item in the base.")
    return mean(np.where(answerable, measure_of("map")(counts), np.nan))


@dataclass(frozen=True)
class Counting:
    """Counts one part; this is what is sent to workers."""

    queries: Codes
    fusion: str
    folder: Path
    manifest: Manifest
    truth: BulkTruth

    def __call__(self, number: int) -> Answer:
        part = read_part(part_path(self.folder, number), self.manifest.stamp(number))
        labels = joined([part.others.get("label")])
        truth = self.truth.among(part.first, len(part.codes), labels)
        histograms = Histograms(self.queries, part.codes, truth, self.fusion, 1)
        shape = (len(self.queries), histograms.n_distances)
        items, hits = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for rows, some_items, some_hits, _ in histograms.blocks():
            items[rows], hits[rows] = some_items, some_hits
        return items, hits
