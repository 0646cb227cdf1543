"""Learning that keeps the codes of items, beside what the two papers rank by.

    python benchmarks/kept_codes.py features.npz        # X and y; 20,000 rows are learned from, all others searched

mAP of 500 queries, tie-aware where codes are compared. *Here*: the code of a query, from `encode_queries`. For OHWEU
also the paper's search: items' codes are projected to the labels' space, by a projection that learns in the same way.
For OHSL also the learned similarity itself, a weight for each bit and query, and both with the last M in the place of
the mean of all.
"""

from __future__ import annotations

import sys

import numpy as np

from onlinehash import ProjectedCodesHashing, SimilarityLearningHashing, datasets, evaluate

N_QUERIES, N_LEARNED, N_PAIRS, BITS = 500, 20_000, 50_000, (32, 64)


def main(path: str) -> None:
    data = datasets.load(path)
    order = np.random.default_rng(0).permutation(len(data.X))
    X, y = data.X[order].astype(np.float32), np.asarray(data.y)[order]
    queries, labels = X[:N_QUERIES], y[:N_QUERIES]
    base, learned = slice(N_QUERIES, None), slice(N_QUERIES, N_QUERIES + N_LEARNED)
    relevant = labels[:, None] == y[base]
    truth = evaluate.same_label(labels, y[base])
    print("bits  method  what is compared                         mAP")
    mean = X[learned][:1000].mean(axis=0)
    exact = evaluate.cosine(queries - mean, X[base] - mean, truth)["map"]
    print(f"      {'Float':6}  {'exact cosine, nothing learned':38} {exact:.3f}")
    for n_bits in BITS:
        print_line = f"{n_bits:4d}  {{:6}}  {{:38}} {{:.3f}}".format
        ohweu = ProjectedCodesHashing(n_bits, random_state=0).observe(X[learned][:1000])
        items = signs(ohweu.encode(X[base]))
        before = evaluate.retrieval(ohweu, queries, X[base], truth, ["map"])["map"]
        print(print_line("ITQ", "codes, nothing learned", before))
        ohweu.partial_fit(X[learned], y[learned])
        after = evaluate.retrieval(ohweu, queries, X[base], truth, ["map"])["map"]
        print(print_line("OHWEU", "here", after))
        first = ohweu.snapshot().queries[0]
        asked = signs(first.encode(queries))[:, :n_bits]
        P = projection_of_codes(signs(ohweu.encode(X[learned])), targets_of(ohweu, y[learned]), ohweu.C)
        print(
            print_line(
                "OHWEU", "the paper's: projected codes of items", ranked(asked @ signs_of(items @ P).T, relevant)
            )
        )
        rng = np.random.default_rng(1)
        i, j = rng.integers(0, N_LEARNED, (2, N_PAIRS))
        ohsl = SimilarityLearningHashing(n_bits, random_state=0).observe(X[learned][:1000])
        ohsl.partial_fit_pairs(X[learned][i], X[learned][j], y[learned][i] == y[learned][j])
        print(print_line("OHSL", "here", evaluate.retrieval(ohsl, queries, X[base], truth, ["map"])["map"]))
        own, last = signs(ohsl.encode(queries)), ohsl.get_state()["method"]["M"]
        items = signs(ohsl.encode(X[base]))
        print(print_line("OHSL", "the learned similarity", ranked(own @ ohsl.similarity_ @ items.T, relevant)))
        print(print_line("OHSL", "here, the last M", ranked(signs_of(own @ last) @ items.T, relevant)))
        print(
            print_line("OHSL", "the learned similarity, the last M", ranked(own @ last @ items.T, relevant)), flush=True
        )


def signs(codes: object) -> np.ndarray:
    return np.where(codes.bits(), np.float32(1), np.float32(-1))


def signs_of(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 0, np.float32(1), np.float32(-1))


def targets_of(learner: ProjectedCodesHashing, y: np.ndarray) -> np.ndarray:
    """The targets that the learner gives to these labels, numbered as they come."""
    numbers: dict[object, int] = {}
    members = np.array([numbers.setdefault(label, len(numbers)) for label in y.tolist()])
    return learner._targets(members[:, None]).astype(np.float64)


def projection_of_codes(codes: np.ndarray, targets: np.ndarray, C: float) -> np.ndarray:
    """The paper's second projection, from codes to targets, by the step of the released code."""
    P = np.zeros((codes.shape[1], targets.shape[1]))
    for b, t in zip(codes.astype(np.float64), targets, strict=True):
        P += np.outer(b, np.minimum(C, 1 - t * (b @ P) / len(b)) * t)
    return P


def ranked(similarities: np.ndarray, relevant: np.ndarray) -> float:
    """mAP of a ranking by similarity, ties as stored."""
    found = []
    for values, right in zip(similarities, relevant, strict=True):
        hits = right[np.argsort(-values, kind="stable")]
        found.append((np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1)).mean())
    return float(np.mean(found))


if __name__ == "__main__":
    main(sys.argv[1])
