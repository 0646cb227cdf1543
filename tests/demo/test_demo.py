import io
import re
import struct
import xml.etree.ElementTree as ET
import zlib
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console
from sklearn.metrics import average_precision_score
from sklearn.metrics.pairwise import cosine_similarity

from onlinehash import LSH, IterativeQuantization, RbfAnchors, demo
from onlinehash.codes import fused_distances
from onlinehash.demo import contest, digits, pictures
from onlinehash.demo.charts import Axis, Line, line_chart
from onlinehash.errors import InvalidInput
from onlinehash.learners import registry


def run_quietly(path, seed=0, **console_options):
    output = io.StringIO()
    console = Console(file=output, width=80, **console_options)
    return demo.run(path, seed, console), path.read_text(encoding="utf-8"), output.getvalue()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The demo as people run it, but for fewer points on the curves and one timed pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contest, "EVERY", 2500)
        patch.setattr(contest, "TIMED_PASSES", 1)
        yield run_quietly(tmp_path_factory.mktemp("demo") / "report.html")


# ------------------------------------------------------------------ results


def test_learning_helps_and_what_gets_no_feedback_stays_where_it_is(whole):
    floats, itq, blended, lsh, oh, mmoh, wide, plain = whole[0]
    for still in (floats, itq, lsh):
        assert (still.map_before, still.auc_before) == (still.map_after, still.auc_after)
        assert still.microseconds_per_pair is None
    assert abs(blended.map_before - itq.map_before) < 0.02  # where the recommended learner starts
    assert (oh.map_before, oh.auc_before) == (
        lsh.map_before,
        lsh.auc_before,
    )  # OH starts from the functions of LSH
    for learner in (blended, oh, mmoh, wide, plain):
        assert learner.map_after > learner.map_before + 0.2
        assert learner.auc_after > learner.auc_before + 0.06
        assert learner.microseconds_per_pair > 0
        assert learner.map_after > max(floats.map_after, itq.map_after)
    assert min(oh.map_after, mmoh.map_after, wide.map_after) > 0.9
    assert blended.map_after > wide.map_after  # with a quarter of its bits
    assert blended.cumulative_loss is None  # it counts another loss
    assert oh.cumulative_loss < lsh.cumulative_loss / 2
    assert [r.bits_per_item for r in whole[0]] == [2048, 32, 32, 32, 32, 128, 128, 32]


def without_feedback(data):
    """LSH and ITQ, which know the points alone."""
    features = {"features": RbfAnchors(300), "random_state": 0}
    lsh = LSH(32, burn_in=len(data.X_base), **features).observe(data.X_base)
    return lsh, IterativeQuantization(32, **features).fit(data.X_base)


def test_the_loss_of_what_learns_nothing_is_that_of_its_codes_on_the_stream(whole):
    data = digits.load(0, contest.N_PAIRS)
    results = {r.name: r for r in whole[0]}
    for name, learner in zip(("LSH", "no feedback"), without_feedback(data), strict=True):
        distances = (learner.transform(data.stream.A) != learner.transform(data.stream.B)).sum(axis=1)
        expected = np.where(data.stream.similar, distances, np.maximum(0, 0.4 * 32 - distances)).sum()
        assert results[name].cumulative_loss == pytest.approx(expected)


def test_the_float_reference_is_that_of_scikit_learn(whole):
    data = digits.load(0, contest.N_PAIRS)
    cosines = cosine_similarity(data.X_query, data.X_base)
    pairs = zip(cosines, data.y_query[:, None] == data.y_base, strict=True)
    expected = np.mean([average_precision_score(relevant, row) for row, relevant in pairs])
    assert whole[0][0].map_after == pytest.approx(expected, abs=1e-5)


@pytest.mark.long
def test_everything_but_the_timings_follows_from_the_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(contest, "N_PAIRS", 200)
    monkeypatch.setattr(contest, "_microseconds_per_pair", lambda learner, digits: 1.0)
    first, again, other = (run_quietly(tmp_path / "report.html", seed) for seed in (3, 3, 4))
    assert first == again
    assert first[0] != other[0]


def test_the_data_keep_queries_and_stream_apart():
    data = digits.load(0, 5000)
    assert (len(data.X_base), len(data.X_query), len(data.stream.similar)) == (1500, 297, 5000)
    base, query = ({x.tobytes() for x in X} for X in (data.X_base, data.X_query))
    assert not base & query
    labels = {x.tobytes(): y for x, y in zip(data.X_base, data.y_base, strict=True)}
    labels |= {x.tobytes(): y for x, y in zip(data.X_query, data.y_query, strict=True)}
    for pairs, points in ((data.stream, base), (data.held_out, query)):
        for a, b, similar in zip(*pairs, strict=True):
            assert {a.tobytes(), b.tobytes()} <= points
            assert (labels[a.tobytes()] == labels[b.tobytes()]) == similar
            assert (a != b).any()
        assert abs(pairs.similar.mean() - 0.5) < 0.03


# ------------------------------------------------------------------ what is shown


def test_the_console_shows_the_table_also_when_it_is_no_terminal(whole):
    shown = whole[2]
    for r in whole[0]:
        (line,) = (line for line in shown.splitlines() if re.match(rf" *{r.name} +{r.bits_per_item} ", line))
        for number in (r.map_before, r.map_after, r.auc_before, r.auc_after):
            assert f"{number:.3f}" in line
        assert ("–" if r.cumulative_loss is None else f"{r.cumulative_loss:,.0f}") in line
    assert "report.html" in shown
    assert "…" not in shown


@pytest.mark.long
def test_a_terminal_hears_of_the_compilation_and_sees_mean_average_precision_live(tmp_path, monkeypatch):
    monkeypatch.setattr(contest, "N_PAIRS", 200)
    monkeypatch.setattr(contest, "TIMED_PASSES", 1)
    (_, *results), _, shown = run_quietly(tmp_path / "report.html", force_terminal=True)
    assert "compiling kernels" in shown
    for r in results:
        assert f"mAP {r.map_after:.3f}" in shown


class Page(HTMLParser):
    """Every tag closed in order, and every address that the page would ask for."""

    void = frozenset({"meta", "img", "br", "link"})

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.addresses, self.alone = [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag == "img":
            self.alone.append(dict(attrs).get("alt"))
        if tag not in self.void and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_is_one_sound_page_that_needs_nothing_else(whole):
    html = whole[1]
    page = Page(html)
    assert page.open == []
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert page.addresses
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    assert all(page.alone)  # a text for every picture
    assert not re.search(r"https?:|url\(|@import|\$[a-z]", html)
    assert "prefers-color-scheme: dark" in html


def test_the_report_tells_the_results(whole):
    results, html, _ = whole
    for r in results:
        for number in (r.map_before, r.map_after, r.auc_before, r.auc_after):
            assert f"{number:.3f}" in html
        assert r.name in html
        assert ("–" if r.cumulative_loss is None else f"{r.cumulative_loss:,.0f}") in html
    charts = [ET.fromstring(svg) for svg in re.findall(r'<svg class="chart".*?</svg>', html, re.DOTALL)]
    assert len(charts) == 4
    assert all(chart.find("title").text and chart.find("desc").text for chart in charts)
    names = [[text.text for text in chart.iter("text") if "name" in text.get("class")] for chart in charts]
    assert sorted(names[0]) == sorted(r.name for r in results)
    left_out = ("float cosine", "Blended pairs", "OH, 128 bits")  # whose losses are not comparable
    assert sorted(names[1]) == sorted(r.name for r in results if r.name not in left_out)
    assert names[2] == names[3] == ["same digit", "different"]


def test_neighbours_are_marked_wrong_exactly_when_they_are(whole):
    data = digits.load(0, contest.N_PAIRS)
    kind = registry.find(registry.RECOMMENDED)
    learner = kind(32, features=RbfAnchors(300), burn_in=len(data.X_base), random_state=0).observe(data.X_base)
    rows = re.findall(r"<tr>(<td><span class=\"digit query.*?)</tr>", whole[1])
    assert len(rows) == 10
    for label, row in enumerate(rows):
        query = int(np.argmax(data.y_query == label))
        distances = fused_distances(learner.encode(data.X_query[query : query + 1]), learner.encode(data.X_base))[0]
        ranking = sorted(range(1500), key=lambda n: (distances[n], n))
        cells = re.findall(r'class="digit (right|wrong)"><img src="(.*?)" alt="place (\d+): a (\d)"', row)
        for (mark, uri, place, shown), at in zip(cells[:8], pictures.PLACES, strict=True):
            item = ranking[at - 1]
            assert (int(place), int(shown)) == (at, data.y_base[item])
            assert (mark == "right") == (data.y_base[item] == label)
            assert uri == pictures.data_uri(data.X_base[item].reshape(8, 8))
        right = np.mean(data.y_base[ranking[:120]] == label)
        assert re.findall(r"<td>(\d+%)</td>", row)[0] == f"{right:.0%}"


# ------------------------------------------------------------------ the parts


def test_a_picture_is_a_sound_png_with_these_pixels():
    ink = np.arange(12).reshape(3, 4) / 11
    png = b64decode(pictures.data_uri(ink).removeprefix("data:image/png;base64,"))
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + content),)
        chunks[kind] = content
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (4, 3, 8, 0, 0, 0, 0)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(3, 5)
    assert (lines[:, 0] == 0).all()
    np.testing.assert_array_equal(lines[:, 1:], np.round(255 * (1 - ink)))


@pytest.mark.parametrize(
    ("values", "enclosing", "inside"),
    [
        ([0, 10000], [0, 2000, 4000, 6000, 8000, 10000], [0, 2000, 4000, 6000, 8000, 10000]),
        ([0.43, 0.97], [0.4, 0.6, 0.8, 1.0], [0.6, 0.8]),
        ([0, 0.3], [0, 0.1, 0.2, 0.3], [0, 0.1, 0.2, 0.3]),
        ([0, 32], [0, 10, 20, 30, 40], [0, 10, 20, 30]),
        ([7, 7], [7, 7.2, 7.4, 7.6, 7.8, 8], [7, 7.2, 7.4, 7.6, 7.8, 8]),
    ],
)
def test_ticks_are_round(values, enclosing, inside):
    outer, inner = (Axis.over(values, 300, 20, enclose=enclose) for enclose in (True, False))
    assert outer.ticks == pytest.approx(enclosing)
    assert inner.ticks == pytest.approx(inside)
    assert (outer(enclosing[0]), outer(enclosing[-1])) == (300, 20)
    assert inner(values[0]) == 300


def test_a_chart_puts_points_where_they_belong_and_names_apart():
    lines = [Line(f"line <{n}>", "oh", [0, 50, 100], [0, n, 10 - n / 100]) for n in range(6)]
    chart = ET.fromstring(line_chart(lines, title="A & B", description="d", x_label="x", y_label="y", size=(500, 300)))
    assert chart.find("title").text == "A & B"
    grid = sorted(float(line.get("y1")) for line in chart.iter("line"))
    ticks = [text for text in chart.iter("text") if text.get("class") == "tick y"]
    per_unit = (grid[-1] - grid[0]) / (max(float(t.text) for t in ticks) - min(float(t.text) for t in ticks))
    for n, g in enumerate(chart.iter("g")):
        points = [tuple(map(float, p.split(","))) for p in re.split("[ML]", g.find("path").get("d"))[1:]]
        assert points[1] == (pytest.approx((points[0][0] + points[2][0]) / 2, abs=0.1), points[1][1])
        assert points[0][1] - points[1][1] == pytest.approx(n * per_unit, abs=0.11)
        told = [circle.find("title").text for circle in g.iter("circle")]
        assert told == [f"line <{n}>, {u}: {v:.4g}" for u, v in ((0, 0), (50, n), (100, 10 - n / 100))]
    names = [text for text in chart.iter("text") if "name" in text.get("class")]
    heights = sorted(float(text.get("y")) for text in names)
    assert sorted(text.text for text in names) == [f"line <{n}>" for n in range(6)]
    assert np.diff(heights).min() >= 15
    assert 10 <= heights[0] < heights[-1] <= 300


@pytest.mark.parametrize("path", ["nowhere/report.html", "."])
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_learned(tmp_path, path):
    with pytest.raises(InvalidInput, match="cannot write the report"):
        demo.run(tmp_path / path)


def test_a_seed_must_be_a_number():
    with pytest.raises(InvalidInput, match="seed"):
        demo.run("report.html", seed=-1)
