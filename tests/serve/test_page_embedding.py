"""The map's arithmetic, run where it will run: in a browser."""

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.serve import background
from tests.serve.browser import chromium, visiting

N_BITS, N_MODELS = 20, 2


@pytest.fixture(scope="module")
def page():
    with (
        background(LiveIndex(OnlineHashing(8, random_state=0))) as url,
        chromium() as browser,
        visiting(browser, f"{url}/page/icon.svg") as page,
    ):
        yield page


def run(page, body, **given):
    """A function of `given` with the modules at hand."""
    modules = (
        'const [E, H, S] = await Promise.all(["embedding", "hamming", "series"].map((n) => import(`/page/${n}.js`)));'
    )
    return page.evaluate(f"async (given) => {{ {modules} {body} }}", given)


def hexes(bits):
    """Codes as the service writes them: every model padded to whole bytes, the first bit the lowest."""
    rows = np.packbits(bits.reshape(len(bits), N_MODELS, N_BITS), axis=2, bitorder="little")
    return [row.tobytes().hex() for row in rows]


def slow_distances(bits):
    models = bits.reshape(len(bits), N_MODELS, N_BITS)
    return (models[:, None] != models[None]).sum(axis=3).min(axis=2)


def random_bits(n, seed=0):
    return np.random.default_rng(seed).integers(2, size=(n, N_MODELS * N_BITS)).astype(bool)


def groups_of_bits(each=25, seed=0):
    """Three groups whose codes differ within by a bit or two and between by many."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(2, size=(3, N_MODELS * N_BITS)).astype(bool)
    y = np.repeat(np.arange(3), each)
    return centres[y] ^ (rng.random((len(y), N_MODELS * N_BITS)) < 0.04), y


EMBED = f"""
  const codes = new H.Codes(given.codes, {N_BITS}, {N_MODELS});
  const map = new E.Embedding(given.seed ?? 1);
  map.renew(given.ids ?? given.codes.map((_, i) => i), codes.distances());
  for (let i = 0; i < 300; i++) map.step();
"""


def test_distances_are_those_of_the_nearest_model(page):
    bits = random_bits(30)
    got = run(page, f"return [...new H.Codes(given.codes, {N_BITS}, {N_MODELS}).distances()];", codes=hexes(bits))
    assert np.array_equal(np.reshape(got, (30, 30)), slow_distances(bits))


def test_affinities_are_symmetric_and_have_the_wished_perplexity(page):
    distances = slow_distances(random_bits(40))
    got = run(page, "return [...E.affinities(given.d, 40, 8)];", d=distances.ravel().tolist())
    P = np.reshape(got, (40, 40))
    assert np.allclose(P, P.T)
    assert np.all(np.diag(P) == 0)
    assert P.sum() == pytest.approx(1, abs=1e-5)
    slow = np.zeros((40, 40))
    for i, row in enumerate(distances.astype(float)):
        low, high = 1e-6, 100.0
        for _ in range(100):
            beta = (low + high) / 2
            p = np.exp(-beta * (row - np.delete(row, i).min()))
            p[i] = 0
            p /= p.sum()
            entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
            low, high = (beta, high) if entropy > np.log(8) else (low, beta)
        slow[i] = p
    assert np.allclose(P, (slow + slow.T) / 80, atol=1e-5)


def test_forces_are_the_slope_of_the_divergence(page):
    bits = random_bits(12)
    p, x, y, force = run(
        page,
        f"""const map = new E.Embedding();
        map.renew(given.codes.map((_, i) => i), new H.Codes(given.codes, {N_BITS}, {N_MODELS}).distances());
        for (let i = 0; i < 12; i++) map.x[i] *= 100;
        return [[...map.p], [...map.x], [...map.y], [...map.forces(1).forceX]];""",
        codes=hexes(bits),
    )
    P = np.reshape(p, (12, 12))

    def divergence(x):
        q = 1 / (1 + np.subtract.outer(x, x) ** 2 + np.subtract.outer(y, y) ** 2)
        np.fill_diagonal(q, 0)
        return -(P * np.log(np.where(P > 0, q / q.sum(), 1))).sum()

    step = 1e-5 * np.eye(12)
    slope = [(divergence(np.add(x, d)) - divergence(np.subtract(x, d))) / 2e-5 for d in step]
    assert np.allclose(force, slope, atol=1e-6)


def test_groups_of_codes_end_up_apart(page):
    bits, y = groups_of_bits()
    places = np.transpose(run(page, EMBED + "return [[...map.x], [...map.y]];", codes=hexes(bits)))
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    centres = np.array([places[y == label].mean(axis=0) for label in range(3)])
    nearest = np.linalg.norm(places[:, None] - centres[None], axis=2).argmin(axis=1)
    assert np.array_equal(nearest, y)
    widest = max(distances[np.ix_(y == label, y == label)].max() for label in range(3))
    assert distances[y[:, None] != y[None]].min() > 0.3 * widest


def test_a_seed_fixes_the_map(page):
    codes = hexes(groups_of_bits()[0])
    first, again, other = (run(page, EMBED + "return [...map.x];", codes=codes, seed=seed) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_known_items_stay_and_new_ones_begin_at_their_nearest_neighbour(page):
    bits, _ = groups_of_bits()
    more = np.vstack([bits[::-1], bits[:1]])
    got = run(
        page,
        EMBED
        + f"""const before = new Map(map.ids.map((id, i) => [id, [map.x[i], map.y[i]]]));
        const wider = new H.Codes(given.more, {N_BITS}, {N_MODELS});
        map.renew([...[...map.ids].reverse(), "new"], wider.distances());
        const stays = (id, i) => map.x[i] === before.get(id)[0] && map.y[i] === before.get(id)[1];
        const stayed = map.ids.slice(0, -1).every(stays);
        const spot = [map.x[map.n - 1], map.y[map.n - 1]];
        return {{ stayed, spot, twin: before.get(0), settled: map.settled }};""",
        codes=hexes(bits),
        more=hexes(more),
    )
    assert got["stayed"]
    assert not got["settled"]
    assert np.linalg.norm(np.subtract(got["spot"], got["twin"])) < 3


def test_agreement_shares_ties(page):
    bits, _ = groups_of_bits(seed=3)
    labels = np.random.default_rng(1).integers(3, size=len(bits))
    distances = slow_distances(bits)
    shares = []
    for i, row in enumerate(distances):
        others = np.delete(np.arange(len(row)), i)
        edge = np.sort(row[others])[9]
        nearer, tied = others[row[others] < edge], others[row[others] == edge]
        same = (labels[nearer] == labels[i]).sum() + (10 - len(nearer)) * (labels[tied] == labels[i]).mean()
        shares.append(same / 10)
    got = run(page, "return H.agreement(given.d, given.labels);", d=distances.ravel().tolist(), labels=labels.tolist())
    assert got == pytest.approx(np.mean(shares))


def test_clusters_find_the_groups_and_keep_their_names(page):
    bits, y = groups_of_bits()
    first, again = run(
        page,
        f"""const codes = new H.Codes(given.codes, {N_BITS}, {N_MODELS});
        const first = H.clusters(codes, 3);
        return [first, H.clusters(codes, 3, first)];""",
        codes=hexes(bits),
    )
    assert first == again
    assert len({(a, b) for a, b in zip(first, y.tolist(), strict=True)}) == 3


def test_memory_stays_the_same_however_long_it_runs(page):
    ring, story, mean, anew = run(
        page,
        """const [ring, story, mean] = [new S.Ring(10), new S.Story(16), new S.MovingMean(4)];
        let last = 0;
        for (let i = 0; i < 1000; i++) { ring.push(i, 2 * i); story.push(i, 3 * i); last = mean.push(i); }
        const all = (series) => Array.from({ length: series.length }, (_, i) => [series.x(i), series.y(i)]);
        const seen = [all(ring), all(story), last];
        for (const series of [ring, story]) for (const x of [5, 6]) series.push(x, 0);
        return [...seen, [all(ring), all(story)]];""",
    )
    assert ring == [[i, 2 * i] for i in range(990, 1000)]
    x = [place[0] for place in story]
    assert len(story) <= 16
    assert (x[0], x[-1]) == (0, 999)
    assert all(y == 3 * x for x, y in story)
    assert len(set(np.diff(x[:-1]))) == 1  # evenly thinned, but for the newest
    assert mean == np.mean([996, 997, 998, 999])
    assert anew == [[[5, 0], [6, 0]]] * 2
